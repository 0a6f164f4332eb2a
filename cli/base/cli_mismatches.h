/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of several models that do not fit together: the first ones are told as the library finds them, and of the
 * others how many there are.
 */
#ifndef COFFER_CLI_MISMATCHES_H
#define COFFER_CLI_MISMATCHES_H

#include "cli_command.h"
#include "coffer.h"

typedef struct cli_mismatches {
    cli *app;
    const char *const *paths; /* of the models */
    const char *between;      /* the name and what is wrong */
    size_t count;             /* so far */
} cli_mismatches;

/* The callback of plans that compute: `ctx` is a cli_mismatches, `model` an index into its paths. */
void cli_mismatches_tell(void *ctx, size_t model, const coffer_tensor *tensor, const char *why);
/* After the plan. */
void cli_mismatches_finish(const cli_mismatches *mismatches);

#endif
