/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names with their layers folded.
 *
 * A name's pattern is the name with `#` for each number that is a part or stands between two
 * underscores: "layers.3.mlp.up" has "layers.#.mlp.up", "blocks_3_conv1" has "blocks_#_conv1".
 * Tensors of one pattern, dtype and shape are one fold. A fold of one tensor alone in its pattern
 * keeps its real name. Folds are sorted naturally, which makes neighbours of those with a common
 * beginning.
 */
#ifndef COFFER_CLI_FOLD_H
#define COFFER_CLI_FOLD_H

#include "coffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A tensor and its pattern. */
typedef struct cli_leaf {
    const coffer_tensor *tensor;
    size_t item;         /* its place among the tensors that were given */
    const char *pattern; /* among the tree's texts */
    uint32_t pattern_len;
    uint32_t number_count; /* the numbers in it */
} cli_leaf;

/* Leaves first to first + count - 1, which agree in all but their numbers. */
typedef struct cli_fold {
    const char *name; /* the pattern, or the one tensor's own name */
    size_t name_len;
    size_t first;
    size_t count;
    bool whole; /* no other fold has the pattern */
} cli_fold;

typedef struct cli_folds {
    cli_leaf *leaves;
    cli_fold *folds;
    char *texts;
    size_t leaf_count;
    size_t fold_count;
} cli_folds;

/* Writes the pattern of a name, which is never longer than the name; returns its length. */
size_t cli_name_pattern(const char *name, size_t name_len, char *text);
/* Folds tensors, all of which are of one model; false without memory. */
bool cli_folds_make(cli_folds *tree, const coffer_tensor *const *tensors, size_t count);
void cli_folds_free(cli_folds *tree);
/* How far after `start` all of the folds, at least one, agree in whole parts: where their common part ends, its separator
   included. */
size_t cli_folds_common_end(const cli_fold *folds, size_t count, size_t start);
/* How many folds from the first on agree in the part that begins at `start`. */
size_t cli_folds_alike(const cli_fold *folds, size_t count, size_t start);
/* " × 11 (0-6, 8-11)": how many tensors a fold stands for and, when others of its pattern differ,
   their numbers. Empty for one tensor. */
#define CLI_FOLD_TAIL_SIZE 128
void cli_fold_tail(const cli_folds *tree, const cli_fold *fold, char text[CLI_FOLD_TAIL_SIZE]);

#endif
