/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An element as text. Integers are exact. Floats are the shortest decimal number that reads back as the same element
 * of its dtype; those of 8 bits and fewer, whose steps are so coarse that this would mislead (448 as 4.5e+02), are
 * exact. JSON has no NaN and no infinity: they are the strings "NaN", "Infinity" and "-Infinity"; a complex number is
 * [real, imaginary].
 */
#ifndef COFFER_CLI_VALUES_H
#define COFFER_CLI_VALUES_H

#include "coffer.h"

#define CLI_VALUE_SIZE 80 /* space for any element's text, NUL included */

/* Writes element `index` of little-endian `data` to `text` and returns its length. */
size_t cli_value_text(char text[CLI_VALUE_SIZE], coffer_dtype dtype, const void *data, uint64_t index, bool json);

#endif
