/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and escapes that pickles write as text, and names that have changed since. Pure. */
#ifndef COFFER_CODEC_PICKLE_TEXT_H
#define COFFER_CODEC_PICKLE_TEXT_H

#include "coffer.h"

#define COFFER__PICKLE_TEXT_MAX 10 /* bytes of an escape */

/* Whether the text is UTF-8, but for surrogates, which Python encodes as if they were characters. */
bool coffer__pickle_is_text(const char *text, size_t text_len);
/* A decimal integer as INT and LONG write it. *fits: it is in *value; else it is beyond 8 bytes. False: none. */
bool coffer__pickle_read_integer(const char *text, size_t text_len, int64_t *value, bool *fits);
/* A number as FLOAT writes it, rounded to the nearest double. False: none. */
bool coffer__pickle_read_real(const char *text, size_t text_len, double *value);
/* What `text`, in STRING's quotes, stands for; `out` has space for as many bytes. False: the quotes or an escape are wrong. */
bool coffer__pickle_unquote(const char *text, size_t text_len, char *out, size_t *out_len);
/* The UTF-8 of UNICODE's `text`; `out` has space for twice as many bytes. False: an escape is wrong. */
bool coffer__pickle_unescape(const char *text, size_t text_len, char *out, size_t *out_len);
/* The bytes of latin-1 text, in place: `text` is UTF-8. False: it has a character that is no byte. */
bool coffer__pickle_to_latin1(char *text, size_t *text_len);
/* The names that Python 3 gives what was `module`.`name` in Python 2, or before PyTorch renamed it; else they stay. */
void coffer__pickle_rename(const char **module, const char **name);
/*
 * What the text begins with: a byte, or an escape. How many bytes of the text it takes, 0 when it is wrong, cut, or no byte;
 * it stands for *made bytes, one or two. `quoted`: of STRING, which is Python 2's repr() without the quotes; else of UNICODE,
 * whose characters are the bytes, as latin-1 makes them. Pure.
 */
size_t coffer__pickle_byte(bool quoted, const char *text, size_t text_len, char out[2], size_t *made);
/* Whether a text of so many bytes can be so many bytes. Pure. */
bool coffer__pickle_text_fits(bool quoted, uint64_t text_len, uint64_t size);

#endif
