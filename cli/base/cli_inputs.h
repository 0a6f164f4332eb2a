/* SPDX-License-Identifier: Apache-2.0 */
/* Small files that a command reads whole: keys, manifests, states. */
#ifndef COFFER_CLI_INPUTS_H
#define COFFER_CLI_INPUTS_H

#include "cli_command.h"

typedef struct cli_input {
    char *bytes; /* a NUL follows, which does not count */
    size_t size;
} cli_input;

/* Reads a file of at most `most` bytes, or standard input (`-`). On failure reports it and stores the exit code. */
bool cli_input_read(cli *app, const char *path, size_t most, cli_input *input, int *code);
void cli_input_free(cli_input *input);

#endif
