/* SPDX-License-Identifier: Apache-2.0 */
/* How many columns of a terminal a character takes, by a table of our own: what the C library says depends on the locale
   and on the system. */
#ifndef COFFER_CLI_WIDTH_H
#define COFFER_CLI_WIDTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0 for a mark that combines with the character before it, 2 for a wide one, else 1. */
unsigned cli_character_width(uint32_t code);
/* Whether all terminals agree on that: those of Latin, Greek and Cyrillic letters, of lines and of blocks. */
bool cli_character_certain(uint32_t code);
/* Columns of UTF-8 text; a byte that is no UTF-8 counts as one. */
size_t cli_text_width(const char *text, size_t text_len);
/* The largest length of the text whose width is at most `columns`, marks of its last character included. */
size_t cli_text_fit(const char *text, size_t text_len, size_t columns);

#endif
