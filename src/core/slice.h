/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Index expression → byte runs. Pure: no I/O, no allocation.
 *
 * A slice becomes a box: `run_size` bytes that are contiguous in the file and in the result, repeated along at most 64
 * outer dimensions (every dimension that is left has at least two indices and their product is below 2^64, so 64 are
 * enough whatever the tensor's rank). The result is dense and row-major: run number k goes to byte k * run_size.
 */
#ifndef COFFER_CORE_SLICE_H
#define COFFER_CORE_SLICE_H

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

/* Plans a slice of `tensor`, whose size is known to fit its shape (as every parsed tensor's does). */
coffer_status coffer__slice_plan(const coffer_tensor *tensor, const coffer_index *indices, size_t count,
                                 coffer__box *box, coffer_error *err);
/* Byte distance of run `k` (below run_count) from the first byte of the tensor. */
uint64_t coffer__box_run(const coffer__box *box, uint64_t k);

#endif
