/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that there are. Numbers are those of coffer_format; callers may pass any. */
#ifndef COFFER_FORMAT_FORMATS_H
#define COFFER_FORMAT_FORMATS_H

#include "format.h"

/* The format of a number. COFFER_FORMAT_ANY stands for the one that is written unless another is
   asked for; NULL for a number that no format has. */
const coffer__format_ops *coffer__format_at(coffer_format number);
/* What a file is that begins with these bytes. What no format recognises is taken for the first
   one, whose reader says what is wrong with it. */
coffer_format coffer__format_sniff(const uint8_t *bytes, size_t size);

#endif
