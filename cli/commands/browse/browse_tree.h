/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of names: branches, whose names begin alike; folds, tensors that differ only in the numbers of their names
 * (cli_fold.h); and the tensors of a fold that is open. Or, flat, all tensors in one list.
 *
 * Only rows that are seen are made and sorted: those below nodes that are open.
 */
#ifndef COFFER_BROWSE_TREE_H
#define COFFER_BROWSE_TREE_H

#include "browse_work.h"
#include "cli_fold.h"

typedef enum browse_sort {
    BROWSE_SORT_FILE = 0, /* as the tensors lie in the file */
    BROWSE_SORT_NAME,
    BROWSE_SORT_SIZE, /* the largest first */
    BROWSE_SORT_DTYPE,
    BROWSE_SORT_ELEMENTS,
    BROWSE_SORT_COUNT
} browse_sort;

typedef struct browse_node {
    uint32_t parent; /* BROWSE_NONE at the top */
    uint32_t child;  /* the first; of a fold BROWSE_NONE */
    uint32_t next;
    uint32_t first_fold;
    uint32_t fold_count; /* 1 and no child: it is that fold */
    uint32_t first_item; /* the first of the file's tensors in it */
    uint32_t differing;  /* tensors whose headers differ between two models */
    uint32_t depth;
    const char *label;
    uint32_t label_len;
    bool open;
    uint64_t tensors;
    uint64_t bytes;
    uint64_t elements;
} browse_node;

/* A node, or a tensor of a fold: then `leaf` is its leaf, and `node` that of the fold; BROWSE_NONE when the list is flat. */
typedef struct browse_row {
    uint32_t node;
    uint32_t leaf; /* BROWSE_NONE: the node */
} browse_row;

typedef struct browse_tree {
    const browse_data *data;
    const browse_work *work; /* what bytes were compared, or NULL */
    cli_folds folds;
    uint32_t *items; /* which of the data's tensors the leaves' numbers mean */
    browse_node *nodes;
    size_t node_count;
    size_t node_capacity;
    browse_row *rows;
    size_t row_count;
    size_t row_capacity;
    browse_sort sort;
    bool flat;
    bool only_differing; /* by their headers, or by their bytes where they were compared */
} browse_tree;

/* Makes the tree of those tensors that the filter lets through, opened as far as `most` rows hold; false without memory,
   and then the tree is as it was. */
bool browse_tree_make(browse_tree *tree, const char *filter, size_t filter_len, size_t most);
void browse_tree_free(browse_tree *tree);
/* Makes the rows anew: after nodes were opened or closed, or are to be in another order. False without memory. */
bool browse_tree_refresh(browse_tree *tree);
/* Opens or closes every branch; folds are closed. */
void browse_tree_open_all(browse_tree *tree, bool open);

/* The tensor of a row, as an item of the data; BROWSE_NONE for a branch and for several tensors. */
uint32_t browse_row_item(const browse_tree *tree, const browse_row *row);
/* The leaves of a row: `count` of them from `*first` on, but those of a branch are by fold. */
const cli_fold *browse_row_fold(const browse_tree *tree, const browse_row *row);
bool browse_node_opens(const browse_tree *tree, uint32_t node);
/* The next row after `from`, or before it, and around the end, whose name has the words, among all rows that there could
   be; opens what hides it. Returns its place among the rows, SIZE_MAX for none. `from` itself comes last, or first where
   `here` is set. */
size_t browse_tree_find(browse_tree *tree, size_t from, bool back, bool here, const char *words, size_t words_len);

#endif
