/* SPDX-License-Identifier: Apache-2.0 */
/* The part of coffer hash that knows tensors (hash_model.c); that of whole files is in cmd_hash.c. */
#ifndef COFFER_CLI_HASH_MODEL_H
#define COFFER_CLI_HASH_MODEL_H

#include "cli_command.h"
#include "coffer.h"

/* A digest and what it is of, as a line of sha256sum: a name with a line break or a backslash is
   escaped, and the line begins with one. Or, with --json, as an object. `size` is in bytes. */
void hash_show(cli *app, cli_output *out, coffer_algorithm algorithm, const uint8_t *digest, const char *path,
               uint64_t size);
/* Shows the content digest of each model. Returns the exit code. */
int hash_content(cli *app, const cli_arguments *arguments, coffer_algorithm algorithm);
/* Records digests in each file, or in each file of a model. Returns the exit code. */
int hash_record(cli *app, const cli_arguments *arguments, coffer_algorithm algorithm);

#endif
