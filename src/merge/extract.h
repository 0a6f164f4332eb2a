/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of extracting an adapter (coffer/merge.h):
 *
 *   extract           the plan: which tensors differ, and what is made of each
 *   extract_subtract  differences of two tensors: a look at all of them, and stretches of one in memory
 *   extract_factors   the two matrices of a difference
 *   extract_files     what is in the adapter's two files: names, configuration
 *   adapter_files     writing and publishing them
 *   lapack            the library that does the algebra
 */
#ifndef COFFER_MERGE_EXTRACT_H
#define COFFER_MERGE_EXTRACT_H

#include "adapter_files.h"
#include "coffer.h"
#include "lapack.h"
#include "names.h"

/* A tensor that both models have. */
typedef struct coffer__extract_item {
    const coffer_tensor *base;
    const coffer_tensor *tuned;
    coffer_extracted reported; /* of rank 0: it is written whole */
    coffer__name module;       /* of a layer with two matrices: the name without `.weight` */
    uint64_t rows;             /* of the difference, as a matrix */
    uint64_t columns;
    bool embedding;
    double square; /* the squared length of the difference; NaN or infinite where a number of it is */
} coffer__extract_item;

struct coffer_extraction {
    coffer_allocator allocator;
    const coffer *base;
    const coffer *tuned;
    uint64_t rank;
    coffer_dtype dtype; /* of the matrices */
    bool fan_in_fan_out;
    coffer__extract_item *items; /* in the order of the base; after planning, those that differ */
    size_t count;
    size_t capacity;
    coffer__lapack lapack;
    bool run;
};

/* Of a convolution in three dimensions. */
#define COFFER__EXTRACT_MAX_DIMENSIONS 5

/* The two matrices of an item, row-major: `down` of rank rows, `up` of rank columns. One block of memory. */
typedef struct coffer__extract_pair {
    float *down;
    float *up;
    size_t down_count;
    size_t up_count;
} coffer__extract_pair;

/* ---- differences ------------------------------------------------------------------------------------------------- */

/* Compares all items, and finds their squares. A tensor whose elements are no numbers gets a 1 where it differs. */
coffer_status coffer__extract_compare(coffer_extraction *extraction, const coffer_read_options *reading,
                                      coffer_error *err);
/* `count` elements of an item's difference, from its element `first` on, in F32. */
coffer_status coffer__extract_subtract(const coffer_extraction *extraction, const coffer__extract_item *item,
                                       uint64_t first, size_t count, float *to, const coffer_read_options *reading,
                                       coffer_error *err);

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

/* How far all of a run has come. */
typedef struct coffer__extract_progress {
    coffer_progress call; /* NULL: nobody is told */
    void *ctx;
    uint64_t done;
    uint64_t total;
} coffer__extract_progress;

/* Computes them, and what of the difference they keep. Released by coffer__extract_pair_free, also after a failure. */
coffer_status coffer__extract_factor(const coffer_extraction *extraction, coffer__extract_item *item,
                                     coffer__extract_pair *pair, coffer__extract_progress *progress, uint32_t threads,
                                     coffer_error *err);
void coffer__extract_pair_free(const coffer_extraction *extraction, coffer__extract_pair *pair);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The adapter's file, which is being written, and its configuration, which is complete. */
typedef struct coffer__extract_files {
    const coffer_extraction *extraction;
    coffer__adapter_files adapter;
    uint32_t *pairs; /* numbers of the items that have two matrices, by the names of their layers */
    size_t pair_count;
} coffer__extract_files;

/* Begins both. `files` is closed by coffer__extract_close, also after a failure. */
coffer_status coffer__extract_open(coffer__extract_files *files, const coffer_extraction *extraction,
                                   const char *folder, const coffer_writer_options *writing, coffer_error *err);
/* Writes what the next item has, in their order: its two matrices, or of one of rank 0 its tensor. */
coffer_status coffer__extract_write(coffer__extract_files *files, const coffer__extract_item *item,
                                    const coffer__extract_pair *pair, coffer_error *err);
void coffer__extract_close(coffer__extract_files *files);

#endif
