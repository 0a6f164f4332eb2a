/* SPDX-License-Identifier: Apache-2.0 */
/* The adapters (LoRA) of a command line, and how much of each is meant: --scale and --filter. */
#ifndef COFFER_CLI_ADAPTERS_H
#define COFFER_CLI_ADAPTERS_H

#include "cli_options.h"
#include "coffer.h"

typedef struct cli_adapters {
    cli *app;
    const char *const *paths;
    coffer_adapter *adapters;
    coffer_lora **loras; /* the same, to be closed */
    size_t count;
} cli_adapters;

/* The exit code. cli_adapters_close follows in any case. */
int cli_adapters_open(cli_adapters *all, cli *app, const cli_arguments *arguments, const char *const *paths,
                      size_t count);
/* Refuses to write over a file of one of them. */
int cli_adapters_guard(const cli_adapters *all, const char *output);
void cli_adapters_close(cli_adapters *all);

/* Whether the two files that PEFT has in a folder may be written there: `guard` refuses what must not be. The exit code. */
int cli_adapter_folder_check(cli *app, const char *folder, bool force, int (*guard)(void *ctx, const char *path),
                             void *ctx);

/* A share in percent, of which more digits would say nothing. It is 100 % only of all, but for what rounding to F32 makes. */
#define CLI_SHARE_SIZE 32
#define CLI_SHARE_OF_ALL (1 - 1e-12)
void cli_share_text(char text[CLI_SHARE_SIZE], double share);

#endif
