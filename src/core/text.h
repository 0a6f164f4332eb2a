/* SPDX-License-Identifier: Apache-2.0 */
/* Text without libc: UTF-8, escaping for terminals, decimal digits. */
#ifndef COFFER_CORE_TEXT_H
#define COFFER_CORE_TEXT_H

#include "coffer.h"

/* Bytes of the UTF-8 sequence that begins `text`, 1 to 4, and its code point; 0 when no valid one does (overlong forms,
   surrogates and what is above U+10FFFF are not valid). `text_len` is at least 1. */
size_t coffer__utf8_decode(const char *text, size_t text_len, uint32_t *code_point);
/* Stores a code point (no surrogate, at most U+10FFFF) as 1 to 4 bytes; returns how many. */
size_t coffer__utf8_encode(char *text, uint32_t code_point);
/* Length of the longest valid UTF-8 prefix of `text`; text_len when all of it is valid. */
size_t coffer__utf8_valid_len(const char *text, size_t text_len);
/* A control character: C0, DEL or C1. */
bool coffer__is_control(uint32_t code_point);
/*
 * As coffer_escape, but when the whole does not fit into out_size (at least 16), its middle is
 * replaced by an ellipsis: the ends of names tell them apart. Always ends with a NUL, and never
 * within an escape or a character.
 */
void coffer__escape_cut(const char *text, size_t text_len, char *out, size_t out_size);
/* Decimal digits of `value`, at most 20, without a NUL. Returns how many; writes them when `out` is
   not NULL. */
size_t coffer__write_u64(char *out, uint64_t value);
/* The small letter of a letter of ASCII, in any locale; another byte as it is. */
static inline char coffer__text_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}
/* Length of a NUL-terminated string. */
size_t coffer__text_len(const char *text);
/* Whether two NUL-terminated texts are the same. */
bool coffer__same_text(const char *a, const char *b);
/* Whether a text of `text_len` bytes is `word`, and whether it ends with `ending`, which may be all of it. */
bool coffer__text_is(const char *text, size_t text_len, const char *word);
bool coffer__text_ends(const char *text, size_t text_len, const char *ending);
/* Whether a text ends with another one, and is more than that. */
bool coffer__text_has_ending(const char *text, const char *ending);

#endif
