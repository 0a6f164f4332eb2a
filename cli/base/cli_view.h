/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The elements of a tensor or of a slice of it, one after the other in row-major order, read a block at a time as
 * they are asked for: to show the corners of a tensor of any size only its corners are read.
 *
 * F4 and F6 elements are read in one piece, because a block of them need not be whole bytes.
 */
#ifndef COFFER_CLI_VIEW_H
#define COFFER_CLI_VIEW_H

#include "coffer.h"

/* A dimension of the result. */
typedef struct cli_axis {
    uint64_t count;
    uint64_t stride; /* elements of the result from one index to the next */
    int64_t start;   /* index in the tensor that index 0 of the result is */
    int64_t step;
    size_t source; /* dimension of the tensor */
} cli_axis;

typedef struct cli_view {
    const coffer *model;
    const coffer_tensor *tensor;
    cli_axis *axes;
    size_t rank;
    uint64_t elements;
    /* how it is read */
    coffer_index *indices; /* one for each dimension of the tensor: the block that is read next */
    size_t block_axis;     /* a block is some indices of this axis, whole ones of those after it, one of those before */
    uint64_t block_most;   /* elements of the largest block */
    uint64_t block_first;  /* the element that the block in memory begins with */
    uint64_t block_count;  /* elements in memory */
    void *block;
} cli_view;

/* Opens a view of `tensor`; `indices` are as coffer_slice_parse gives them. It reads about `most` elements at a time.
   */
coffer_status cli_view_open(cli_view *view, const coffer *model, const coffer_tensor *tensor,
                            const coffer_index *indices, size_t count, uint64_t most, coffer_error *err);
/* Makes sure that element `index` is in memory, at `*at` of `*data`. */
coffer_status cli_view_need(cli_view *view, uint64_t index, const void **data, uint64_t *at, coffer_error *err);
void cli_view_free(cli_view *view);

#endif
