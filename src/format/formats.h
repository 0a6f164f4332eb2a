/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that there are. */
#ifndef COFFER_FORMAT_FORMATS_H
#define COFFER_FORMAT_FORMATS_H

#include "format.h"

/* The format of a number, COFFER_FORMAT_ANY standing for the one that is written unless another is asked for; NULL for
   a number that none has. */
const coffer__format *coffer__format_at(coffer_format number);
/* What a file is that begins so. What no format knows is the first one's, whose reader says what is wrong with it. */
coffer_format coffer__format_sniff(const uint8_t *bytes, size_t size);

#endif
