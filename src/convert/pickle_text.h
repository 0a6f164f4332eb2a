/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as protocol 0 of pickle has them: a line in which some are escaped. */
#ifndef COFFER_CONVERT_PICKLE_TEXT_H
#define COFFER_CONVERT_PICKLE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COFFER__PICKLE_TEXT_MOST 10 /* bytes of an escape */

/*
 * What the text begins with: a byte, or an escape. How many bytes of the text it takes, 0 when it is wrong, cut, or no byte;
 * it stands for *made bytes, one or two. `quoted`: of STRING, which is Python 2's repr() without the quotes; else of UNICODE,
 * whose characters are the bytes, as latin-1 makes them. Pure.
 */
size_t coffer__pickle_byte(bool quoted, const char *text, size_t text_len, char out[2], size_t *made);
/* Whether a text of so many bytes can be so many bytes. Pure. */
bool coffer__pickle_text_fits(bool quoted, uint64_t text_len, uint64_t size);

#endif
