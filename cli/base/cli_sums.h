/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors, parameters and bytes of a file, or of some of its tensors, by dtype. */
#ifndef COFFER_CLI_SUMS_H
#define COFFER_CLI_SUMS_H

#include "cli_output.h"
#include "coffer.h"

/* A dtype's share. */
typedef struct cli_share {
    uint64_t tensors;
    uint64_t elements;
    uint64_t bytes;
    coffer_dtype dtype;
} cli_share;

typedef struct cli_sums {
    cli_share shares[COFFER_DTYPE_COUNT + 1]; /* those of dtypes that are there */
    size_t share_count;
    uint64_t tensors;
    uint64_t elements;
    uint64_t bytes;
} cli_sums;

/* Begin with a struct of zeros, add, and close: then the shares are in order, the most bytes first. */
void cli_sums_add(cli_sums *sums, const coffer_tensor *tensor);
void cli_sums_finish(cli_sums *sums);
/* The same for all tensors of a model. */
void cli_sums_of(const coffer *model, cli_sums *sums);

/* A line for each dtype, indented by `indent`; in the first one's indent stands `label` (NULL: nothing). */
void cli_sums_show(cli_output *out, const cli_sums *sums, const char *label, size_t indent);
/* The member "dtypes": an object with {tensors, parameters, bytes} for each. */
void cli_json_dtypes(cli_output *out, const cli_sums *sums);

#endif
