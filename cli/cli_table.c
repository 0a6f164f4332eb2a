/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands: the one place that lists them. */
#include "cli_command.h"

#include <string.h>

const cli_command *const CLI_COMMANDS[] = {
    &cli_info, &cli_ls, &cli_check, &cli_get, &cli_meta, &cli_help, NULL,
};

static const cli_option TOP_OPTIONS[] = {
    { CLI_OPTION_VERSION, 0, "version", NULL, "show the version" },
    CLI_OPTION_ROW_HELP,
    CLI_OPTION_ROW_END,
};

const cli_command cli_top = { .name = NULL, .options = TOP_OPTIONS };

const cli_command *cli_find_command(const char *name)
{
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        if (strcmp(CLI_COMMANDS[i]->name, name) == 0) {
            return CLI_COMMANDS[i];
        }
    }
    return NULL;
}
