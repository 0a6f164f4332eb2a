/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runs of a box as strided copies: those along its innermost dimension lie at equal distances. Walking costs no division
 * after the start, and a strided copy is one loop, so a box of millions of short runs costs little more than the
 * copies.
 */
#ifndef COFFER_TRANSFER_WALK_H
#define COFFER_TRANSFER_WALK_H

#include "slice.h"
#include "strided_copy.h"

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

/* The copy of the next `runs` runs, at least 1 and at most line_left, to `to`, where they lie without gaps. */
coffer__strided_copy coffer__walk_copy(const coffer__walk *walk, uint64_t runs, const uint8_t *to);

#endif
