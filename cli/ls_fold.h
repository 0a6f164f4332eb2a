/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names with their layers folded.
 *
 * A name's pattern is the name with `#` for each part that is a number: "layers.3.mlp.up" has "layers.#.mlp.up". Tensors of
 * one pattern, dtype and shape are one fold. A fold of one tensor alone in its pattern keeps its real name. Folds are sorted
 * naturally, which makes neighbours of those with a common beginning.
 */
#ifndef COFFER_LS_FOLD_H
#define COFFER_LS_FOLD_H

#include "ls.h"

#define LS_NUMBERS_SIZE 64 /* bytes for the numbers of a fold that is not its whole pattern */

/* A tensor and its pattern. */
typedef struct ls_leaf {
    const coffer_tensor *tensor;
    const char *pattern; /* among the tree's texts */
    uint32_t pattern_len;
    uint32_t number_count; /* parts that are numbers */
} ls_leaf;

/* Leaves first to first + count - 1, which agree in all but their numbers. */
typedef struct ls_fold {
    const char *name; /* the pattern, or the one tensor's own name */
    size_t name_len;
    size_t first;
    size_t count;
    bool whole; /* no other fold has the pattern */
} ls_fold;

typedef struct ls_tree {
    ls_leaf *leaves;
    ls_fold *folds;
    char *texts;
    size_t leaf_count;
    size_t fold_count;
} ls_tree;

/* Folds the listed tensors; false without memory. */
bool ls_make_tree(ls_tree *tree, const ls_selection *selection);
void ls_free_tree(ls_tree *tree);
/* "0-6, 8-11": which numbers a fold stands for, when others of its pattern differ. Empty when there is nothing to say. */
void ls_fold_numbers(const ls_tree *tree, const ls_fold *fold, char text[LS_NUMBERS_SIZE]);

#endif
