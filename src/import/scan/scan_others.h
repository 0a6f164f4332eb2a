/* SPDX-License-Identifier: Apache-2.0 */
/* What no other reader knows, and which may be or hold what a loader runs: archives of anything, programs, sources, and text
   that names code. */
#ifndef COFFER_SCAN_SCAN_OTHERS_H
#define COFFER_SCAN_SCAN_OTHERS_H

#include "plan.h"
#include "reader.h"

/* *reader is who reads such a file; NULL: it is none of them. The findings of those that are no archives are put here. */
coffer_status coffer__scan_unknown(const coffer__input_files *input, const coffer__wants *wants,
                                   coffer__import_plan *plan, const coffer__reader **reader, coffer_error *err);

#endif
