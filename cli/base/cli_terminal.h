/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known about the terminals at the ends of standard output and standard error. Everything
 * that is for eyes alone (colour, progress, cutting names to the width) happens only on a terminal;
 * into a file or a pipe goes plain, uncut text.
 */
#ifndef COFFER_CLI_TERMINAL_H
#define COFFER_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Columns of the terminal at a descriptor: COLUMNS where that is a number, else what the terminal
   says, else 80; 0 when it is no terminal. */
size_t cli_terminal_width(int fd);
/* Whether it is a terminal that understands escape sequences: TERM is set, and not to "" or "dumb". */
bool cli_terminal_capable(int fd);
/* Whether a terminal shows UTF-8: unless LC_ALL, LC_CTYPE or LANG, the first that is set, names another encoding. */
bool cli_terminal_utf8(void);
/* Whether to colour what goes to a descriptor: a capable terminal, and NO_COLOR is not set. */
bool cli_terminal_colour(int fd);

#endif
