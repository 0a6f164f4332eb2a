/* SPDX-License-Identifier: Apache-2.0 */
/* Scanning an input: what a loader would run of it, whoever reads it otherwise. */
#ifndef COFFER_CONVERT_SCAN_INPUT_H
#define COFFER_CONVERT_SCAN_INPUT_H

#include "plan.h"
#include "reader.h"

/* Fills the plan, which is begun and empty, with findings, and sets its format; *reader is whoever knows the input.
   COFFER_ERR_UNKNOWN_INPUT for what is no pickle, archive or code either. */
coffer_status coffer__scan_input(const coffer__input_files *input, const coffer__wants *wants,
                                 coffer__import_plan *plan, const coffer__reader **reader, coffer_error *err);

#endif
