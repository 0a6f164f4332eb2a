/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tensors of a model a command is about: the patterns of --filter and those among its arguments are one list
 * (coffer_match_list), so that every command understands them alike. A pattern after a `!` leaves tensors out.
 */
#ifndef COFFER_CLI_FILTER_H
#define COFFER_CLI_FILTER_H

#include "cli_command.h"
#include "coffer.h"

/* The option, for a command's table, with what it does there. */
#define CLI_OPTION_ROW_FILTER(summary)                                                                                 \
    {                                                                                                                  \
        CLI_OPTION_FILTER, 0, "filter", "GLOB", summary, NULL                                                          \
    }

typedef struct cli_filter {
    const char **patterns; /* those that take tensors, and after them those that begin with a `!` */
    size_t count;
    size_t taking; /* how many take tensors */
    char *texts;   /* of patterns that were given without their `!` */
} cli_filter;

/* Collects the patterns among the arguments, from number `first` on (SIZE_MAX: none of them is a pattern), and those of
   --filter. False without memory, which is reported. cli_filter_free follows in any case. */
bool cli_filter_init(cli_filter *filter, cli *app, const cli_arguments *arguments, size_t first);
void cli_filter_free(cli_filter *filter);

/* Whether it takes the tensor; without patterns it takes every one. */
bool cli_filter_takes(const cli_filter *filter, const coffer_tensor *tensor);
/* The first pattern that matches no tensor of the model and so, more likely than not, is a slip; NULL: there is none. */
const char *cli_filter_idle(const cli_filter *filter, const coffer *model);
/* Says that no tensor of the model matches a pattern, with the names that were probably meant. Returns the exit code. */
int cli_filter_fail(cli *app, const char *path, const coffer *model, const char *pattern);

#endif
