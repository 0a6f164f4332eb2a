/* SPDX-License-Identifier: Apache-2.0 */
/* The help, made from the table of commands. */
#ifndef COFFER_CLI_HELP_H
#define COFFER_CLI_HELP_H

#include "cli_command.h"

/* What `coffer help` shows: every command with a line. */
void cli_show_overview(cli_output *out);
/* What `coffer COMMAND --help` shows. */
void cli_show_help(cli_output *out, const cli_command *command);
/* A word that is no command: says so, with the nearest that is one. Returns CLI_EXIT_USAGE. */
int cli_unknown_command(cli *app, const char *word);

#endif
