/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for a shell: names in commands that messages suggest, so that these can be pasted. Plain names stay as they are,
 * others get single quotes, and those with characters that would steer the terminal, or with bytes that are no UTF-8,
 * the $'...' of bash, zsh, ksh and POSIX 2024. What is pasted is the name to the byte, and what is shown is safe.
 */
#ifndef COFFER_CLI_QUOTE_H
#define COFFER_CLI_QUOTE_H

#include "cli_output.h"

/*
 * Writes the text, which has no NUL in it, as one word of a shell, with a NUL after it. Returns the length that it needs
 * without the NUL. Where `size` is not above that, nothing but the NUL is written: half a word must not be pasted. `out`
 * may be NULL when `size` is 0.
 */
size_t cli_quote(const char *text, size_t text_len, char *out, size_t size);
/* The same for a file's path as an argument: one that begins with a dash gets "./" before it, so that it is no option. "-"
   alone, which is standard input, stays. */
size_t cli_quote_path(const char *path, char *out, size_t size);
/* The word on standard output. */
void cli_put_quoted(cli_output *out, const char *text, size_t text_len);

#endif
