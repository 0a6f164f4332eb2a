/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of a load: which bytes of a file go where. It is a nest of loops around one copy:
 *
 *     for i0 < dims[0].count, … for in < dims[n].count:
 *         copy `width` bytes from  begin + i0 * dims[0].from + … + in * dims[n].from
 *                            to    to    + i0 * dims[0].to   + … + in * dims[n].to
 *
 * Steps in the file are positive, and each is at least as long as all that the loops inside of it cover, so the runs
 * come in the order in which they lie in the file, and which of them meet a span of it takes no search. Steps in the
 * place have either sign. A row that takes contiguous bytes to contiguous bytes has no loops.
 *
 * Pure: no I/O, no allocation.
 */
#ifndef COFFER_LOAD_NEST_H
#define COFFER_LOAD_NEST_H

#include "box.h"
#include "chunk_source.h"
#include "coffer.h"
#include "deliver.h"

typedef struct coffer__nest_dim {
    uint64_t count; /* at least 2 */
    uint64_t from;
    int64_t to;
} coffer__nest_dim;

typedef struct coffer__nest {
    coffer__file_span reach; /* in the file: from the first byte of the first run to the last one's end */
    uint64_t width;          /* at least 1 */
    uint64_t to;             /* bytes from the place's address to where the first run goes */
    uint32_t rank;           /* loops, the outermost first */
    coffer__nest_dim *dims;
} coffer__nest;

/* ---- making one: innermost first, as of a box (box.h) ------------------------------------------------------------ */

/* A nest of one run of `width` bytes from byte `begin` of the file on, with space for `capacity` loops at `dims`. */
void coffer__nest_begin(coffer__nest *nest, coffer__nest_dim *dims, uint64_t begin, uint64_t width, uint64_t to);
/* Puts a loop of `count` around it; a step in the file may be negative. What continues what is there makes that longer
   instead. There must be space for another loop. */
void coffer__nest_push(coffer__nest *nest, uint64_t count, int64_t from, int64_t to);
/* Ends a nest that was pushed: the outermost loop first, and its reach. */
void coffer__nest_end(coffer__nest *nest);

/* ---- looking at one ---------------------------------------------------------------------------------------------- */

/* Bytes that it copies. */
uint64_t coffer__nest_size(const coffer__nest *nest);
/* The longest gap between two runs that follow each other; 0 without loops. */
uint64_t coffer__nest_gap(const coffer__nest *nest);

/* What a nest takes of a span of the file, line by line. A run that reaches out of the span is cut there. */
typedef struct coffer__lines {
    const coffer__nest *nest;
    uint64_t address; /* of the place */
    coffer__file_span within;
    uint64_t at;   /* of the next run, in the file */
    uint64_t to;   /* where the next run goes */
    uint64_t skip; /* bytes of it that lie before the span */
    bool over;
    uint64_t index[COFFER__BOX_MAX_RANK];
} coffer__lines;

void coffer__lines_begin(coffer__lines *lines, const coffer__nest *nest, uint64_t address, coffer__file_span within);
/* False when there is none left. */
bool coffer__lines_next(coffer__lines *lines, coffer__line *line);

/* The first byte at or after `from` that a nest takes; UINT64_MAX when there is none. */
uint64_t coffer__nest_next(const coffer__nest *nest, uint64_t from);

#endif
