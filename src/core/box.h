/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box: `run_size` bytes that are contiguous in the file and in the result, repeated along at most
 * 64 outer dimensions. 64 are enough whatever the tensor's rank: every dimension that a planner keeps
 * has at least two indices, and the product of their counts is below 2^64. The result is dense and
 * row-major: run number k goes to byte k * run_size.
 *
 * slice.h plans boxes of tensors that lie row after row. The functions here plan them from strides,
 * which may lead anywhere: backwards, in the order of a transpose, or, when a stride is 0, to the same
 * bytes again. Pure: no I/O, no allocation.
 */
#ifndef COFFER_CORE_BOX_H
#define COFFER_CORE_BOX_H

#include "coffer.h"

#define COFFER__BOX_MAX_RANK 64

typedef struct coffer__box {
    uint64_t start;                        /* of the first run, from the first byte of the tensor */
    uint64_t run_size;                     /* bytes of a run; 0 when the result is empty */
    uint64_t run_count;                    /* the product of `counts`; 0 when the result is empty */
    size_t rank;                           /* outer dimensions, slowest first */
    uint64_t counts[COFFER__BOX_MAX_RANK]; /* at least 2 each */
    int64_t
        strides[COFFER__BOX_MAX_RANK]; /* bytes from one run to the next along the dimension; negative steps go back */
} coffer__box;

/* Elements that lie at equal distances along each dimension, as a view of an array does. Nothing in
   it is trusted. */
typedef struct coffer__strided {
    uint64_t offset; /* of the first element, in bytes from where the box is to count */
    uint64_t item_size;
    size_t rank;
    const uint64_t *sizes;  /* elements along each dimension, slowest of the result first */
    const int64_t *strides; /* bytes from one to the next: of either sign, or 0 */
} coffer__strided;

/*
 * Plans a view of `available` bytes. COFFER_ERR_INDEX when the view reaches beyond them, or when
 * its result is larger than 2^64-1 bytes. The view may be hostile: every product and sum is checked
 * before the box is filled. A view without elements takes nothing, wherever it points, and succeeds
 * with an empty box.
 */
coffer_status coffer__box_from_strides(coffer__box *box, const coffer__strided *view, uint64_t available,
                                       coffer_error *err);

/* Makes the box one run of `size` bytes from the start on; with size 0 an empty result. */
void coffer__box_one_run(coffer__box *box, uint64_t size);
/*
 * Adds a dimension of `count` indices, at least 2, outside of those that the box has: the innermost
 * is pushed first. A dimension that continues the last one is merged into it, so that the box has
 * as few dimensions as possible. The caller has checked that the box lies within 2^63-1 bytes.
 * After the last push call coffer__box_reverse.
 */
void coffer__box_push(coffer__box *box, uint64_t count, int64_t stride);
/* Ends a box whose dimensions were pushed: puts the slowest dimension first, as readers of `counts`
   expect. */
void coffer__box_reverse(coffer__box *box);
/* Byte distance of run `k` (below run_count) from the first byte of the tensor. */
uint64_t coffer__box_run(const coffer__box *box, uint64_t k);
/* The magnitude of a stride. That of INT64_MIN is 2^63, which is why the result is unsigned. */
uint64_t coffer__box_distance(int64_t stride);

#endif
