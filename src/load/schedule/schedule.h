/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order bytes are read: from the items of a plan to chunks. A sweep goes over a file cell by cell, upwards,
 * with the copy ops that it has taken in; what they want of a cell becomes one chunk.
 *
 *   - Items are taken in by their order, those of the files or that of the plan, while they begin in the cell that is
 *     next. All copy ops of an item are taken in together.
 *   - Whoever runs the schedule is asked before an item is taken in, since that needs memory. If there is none now,
 *     nothing more is taken in until the sweep has ended: what was begun is finished, and frees memory when it is
 *     handed out.
 *   - Where the next item lies before the sweep's position, or in another file, the sweep ends too, and the next one
 *     begins there.
 *   - A second sweep, for items that are wanted at once, goes first.
 *
 * Nothing here is locked: its user holds the load's lock.
 */
#ifndef COFFER_LOAD_SCHEDULE_H
#define COFFER_LOAD_SCHEDULE_H

#include "chunk.h"
#include "load_plan.h"

typedef struct coffer__sweep {
    uint32_t *copy_ops; /* those that were taken in, and are not read to their end */
    size_t count;
    size_t capacity;
    size_t shard;
    uint64_t position; /* what lies before it was read */
} coffer__sweep;

/* How far an item is, as the schedule sees it. */
typedef enum coffer__begun {
    COFFER__BEGUN_NOT = 0,
    COFFER__BEGUN_WANTED = 1, /* it is among those that are wanted at once */
    COFFER__BEGUN = 2         /* it was taken in */
} coffer__begun;

typedef struct coffer__schedule {
    const coffer_plan *plan;
    const coffer_allocator *allocator;
    /* Asked for each item before it is taken in: COFFER_NEED_MORE when it has to wait. */
    coffer_status (*admit)(void *ctx, uint32_t item, coffer_error *err);
    void *ctx;
    uint32_t *order; /* the items that have bytes */
    size_t count;
    size_t next;      /* in the order */
    uint8_t *started; /* of each item, coffer__begun */
    uint32_t *wanted; /* items that are wanted at once; space for all */
    size_t wanted_count;
    size_t wanted_next;
    coffer__sweep usual;
    coffer__sweep urgent;
    uint64_t
        gap[2]; /* the longest between wanted bytes that is read with them, of sources that are not dear and that are */
    uint64_t cell; /* bytes of a cell: COFFER__CELL, or a smaller power of two */
} coffer__schedule;

/* Ends with coffer__schedule_end in any case. `admit` is the caller's to set. */
coffer_status coffer__schedule_begin(coffer__schedule *schedule, const coffer_plan *plan, coffer_load_order order,
                                     const coffer_allocator *allocator, coffer_error *err);
void coffer__schedule_end(coffer__schedule *schedule);
/* Makes an item one of the next to be read, if it was not begun. */
void coffer__schedule_want(coffer__schedule *schedule, uint32_t item);
/* Fills the next chunk. *over becomes true when there is none left. COFFER_NEED_MORE when the next item has to wait. */
coffer_status coffer__schedule_next(coffer__schedule *schedule, coffer__chunk *chunk, bool *over, coffer_error *err);
/* Frees the lists of a chunk. */
void coffer__chunk_end(coffer__chunk *chunk, const coffer_allocator *allocator);

#endif
