/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runs of a box, line by line. A line is the runs along the box's innermost dimension, which lie at
 * equal distances. Walking costs no division after the start, and copying a line is one loop, so a box of
 * millions of short runs costs little more than the copies.
 */
#ifndef COFFER_TRANSFER_GATHER_H
#define COFFER_TRANSFER_GATHER_H

#include "slice.h"

/* A place in a box: the next run, and how many runs of its line are left. */
typedef struct coffer__walk {
    const coffer__box *box;
    uint64_t at;        /* where the next run begins, as the box counts */
    uint64_t line_left; /* runs to the end of its line, at least 1 */
    uint64_t index[COFFER__BOX_MAX_RANK];
} coffer__walk;

/* Begins at run `k`, which must be below the box's run_count. */
void coffer__walk_begin(coffer__walk *walk, const coffer__box *box, uint64_t k);
/* Bytes from one run of a line to the next. */
int64_t coffer__walk_stride(const coffer__walk *walk);
/* Moves on by `runs` runs, at most line_left. After the box's last run the walk is at its first one
   again. */
void coffer__walk_on(coffer__walk *walk, uint64_t runs);

/* Copies `runs` runs of `run_size` bytes to `to`, without gaps. The first is at `from`, and each of
   the others `stride` bytes from the one before, which may be negative or 0. At least one run; the
   two places do not overlap. */
void coffer__gather(uint8_t *to, const uint8_t *from, size_t run_size, int64_t stride, uint64_t runs);

#endif
