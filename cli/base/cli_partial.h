/* SPDX-License-Identifier: Apache-2.0 */
/* Files that end before their data do, or go on after them, used for what is whole in them
   (--partial). It is said loudly, and the exit code is 1. */
#ifndef COFFER_CLI_PARTIAL_H
#define COFFER_CLI_PARTIAL_H

#include "cli_command.h"
#include "coffer.h"

#define CLI_OPTION_ROW_PARTIAL                                                                                         \
    {                                                                                                                  \
        CLI_OPTION_PARTIAL, 0, "partial", NULL,                                                                        \
            "use the whole tensors of a file that is cut short, or goes on after them", NULL                           \
    }

typedef struct cli_whole {
    uint64_t tensors; /* tensors that are whole */
    uint64_t bytes;   /* bytes of the whole tensors */
    uint64_t cut;     /* tensors that are not whole */
} cli_whole;

/* What is whole in a model. */
cli_whole cli_whole_of(const coffer *model);
/* Says what is not whole in a model, if anything is not. Returns CLI_EXIT_OK, or CLI_EXIT_NOT_CONFORMING. */
int cli_report_whole(cli *app, const char *path, const coffer *model);

#endif
