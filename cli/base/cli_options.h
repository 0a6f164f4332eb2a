/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of options, for every command: --name, --name=VALUE, --name VALUE, -x, -xVALUE, -x VALUE, -xy (letters
 * without a value together), options and names in any order, `--` ends the options, `-` alone is a name.
 */
#ifndef COFFER_CLI_OPTIONS_H
#define COFFER_CLI_OPTIONS_H

#include "cli_command.h"

/* Reads `count` words with the command's table. On failure says why and returns CLI_EXIT_USAGE; else 0, and
   *arguments is to be released by cli_free_arguments. It stops at --help, so that anything may come after it. */
int cli_parse_arguments(cli *app, const cli_command *command, size_t count, char **words, cli_arguments *arguments);
void cli_free_arguments(cli_arguments *arguments);

/* Whether an option was given, and the value it was given last (NULL when it was not). */
bool cli_given(const cli_arguments *arguments, cli_option_id id);
const char *cli_value(const cli_arguments *arguments, cli_option_id id);
/* All values of an option that may be given several times, in order; *count says how many. NULL when there are none, or no
   memory. To be freed by the caller. */
const char **cli_values_of(const cli_arguments *arguments, cli_option_id id, size_t *count);
/* Which of its values an option with a list of them was given last, from 0 on; -1 when it was not given. */
int cli_which(const cli_arguments *arguments, cli_option_id id);

#endif
