/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is made from the table of commands when the command is built: the manual pages and the completions of three shells.
 * The page of the whole is a template with lines `@MARKER@` where the table goes.
 */
#ifndef COFFER_CLI_GENERATE_H
#define COFFER_CLI_GENERATE_H

#include "cli_command.h"
#include "coffer.h"
#include "completion.h"

#include <stdio.h>

void put_man_title(FILE *out);
void put_man_options(FILE *out);
void put_man_environment(FILE *out);
void put_man_commands(FILE *out);
/* The page of one command. */
void put_man_page(FILE *out, const cli_command *command);

#endif
