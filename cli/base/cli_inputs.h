/* SPDX-License-Identifier: Apache-2.0 */
/* Small files that a command reads whole: keys, manifests, states, configurations. */
#ifndef COFFER_CLI_INPUTS_H
#define COFFER_CLI_INPUTS_H

#include "cli_command.h"
#include "coffer.h"

typedef struct cli_input {
    char *bytes; /* a NUL follows, which does not count */
    size_t size;
} cli_input;

/* Reads a file of at most `most` bytes, or standard input (`-`). On failure reports it and stores the exit code. */
bool cli_input_read(cli *app, const char *path, size_t most, cli_input *input, int *code);
/* The same for a file that nobody named, which must be a regular one, since a pipe would be waited for. Says nothing and
   returns an errno, 0 when it was read: EINVAL when it is no regular file, EFBIG when it is too large. Any thread. */
int cli_input_read_regular(const char *path, size_t most, cli_input *input);
/* The same for a file in the folder of a model's first file. ENOENT also for a model without a path or at a URL: what is
   fetched there by its name may belong to another commit than the model. */
int cli_input_read_beside(const coffer *model, const char *name, size_t most, cli_input *input);
void cli_input_free(cli_input *input);

#endif
