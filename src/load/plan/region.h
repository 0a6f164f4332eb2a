/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy op of a load: which bytes of a file go where. It is a nest of loops around one copy:
 *
 *     for i0 < dims[0].count, … for in < dims[n].count:
 *         copy `width` bytes from  begin + i0 * dims[0].from + … + in * dims[n].from
 *                            to    to    + i0 * dims[0].to   + … + in * dims[n].to
 *
 * Steps in the file are positive, and each is at least as long as all that the loops inside of it cover, so the runs
 * come in the order in which they lie in the file, and which of them meet a span of it takes no search. Steps in the
 * destination have either sign. A copy op that takes contiguous bytes to contiguous bytes has no loops.
 *
 * Pure: no I/O, no allocation.
 */
#ifndef COFFER_LOAD_REGION_H
#define COFFER_LOAD_REGION_H

#include "box.h"
#include "coffer.h"
#include "strided_copy.h"

/* Bytes of a shard's file, from `begin` to before `end`. */
typedef struct coffer__file_span {
    uint64_t begin;
    uint64_t end;
} coffer__file_span;

typedef struct coffer__region_dim {
    uint64_t count; /* at least 2 */
    uint64_t from;
    int64_t to;
} coffer__region_dim;

typedef struct coffer__region {
    coffer__file_span reach; /* in the file: from the first byte of the first run to the last one's end */
    uint64_t width;          /* at least 1 */
    uint64_t to;             /* bytes from the destination's address to where the first run goes */
    uint32_t rank;           /* loops, the outermost first */
    coffer__region_dim *dims;
} coffer__region;

/* ---- making one: innermost first, as of a box (box.h) ------------------------------------------------------------ */

/* A region of one run of `width` bytes from byte `begin` of the file on, with space for `capacity` loops at `dims`. */
void coffer__region_begin(coffer__region *region, coffer__region_dim *dims, uint64_t begin, uint64_t width,
                          uint64_t to);
/* Puts a loop of `count` around it; a step in the file may be negative. What continues what is there makes that longer
   instead. There must be space for another loop. */
void coffer__region_push(coffer__region *region, uint64_t count, int64_t from, int64_t to);
/* Ends a region that was pushed: the outermost loop first, and its reach. */
void coffer__region_finish(coffer__region *region);

/* ---- looking at one ---------------------------------------------------------------------------------------------- */

/* What a region takes of a span of the file, one strided copy after the other. A run that reaches out of the span is
   cut there. */
typedef struct coffer__region_walk {
    const coffer__region *region;
    uint64_t address; /* of the destination */
    coffer__file_span within;
    uint64_t at;   /* of the next run, in the file … */
    uint64_t to;   /* … and where it goes */
    uint64_t skip; /* bytes of it that lie before the span */
    bool over;
    uint64_t index[COFFER__BOX_MAX_RANK];
} coffer__region_walk;

void coffer__region_walk_begin(coffer__region_walk *copies, const coffer__region *region, uint64_t address,
                               coffer__file_span within);
/* False when there is none left. */
bool coffer__region_walk_next(coffer__region_walk *copies, coffer__strided_copy *copy);

/* The first byte at or after `from` that a region takes; UINT64_MAX when there is none. */
uint64_t coffer__region_next(const coffer__region *region, uint64_t from);

#endif
