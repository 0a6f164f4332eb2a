/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a folder that nothing runs: what a scan passes over once it has found that they are no pickle, archive or
   program. */
#ifndef COFFER_SCAN_PASSED_H
#define COFFER_SCAN_PASSED_H

#include "coffer.h"

/* What a file is, by all of its bytes if it is text and else by the first ones: "text", "an image"; NULL: it is nothing that
   may be passed over, or it cannot be read. Static. */
const char *scan_passed_kind(coffer_input *input);

#endif
