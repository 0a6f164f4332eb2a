/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes whose result goes across the order of their source, as that of a transpose does. Run by run,
 * they would be read with one request for each element. So they are cut into tiles, which are read in
 * the source's order and transposed ("turned") in memory:
 *
 *   a box that fits in a tile's memory,     is one tile, read at once
 *   and of which enough is wanted
 *   any other one                           is cut so that what is contiguous in the source, and what
 *                                           is contiguous in the result, are both long enough to be
 *                                           worth a request
 *
 * A tile is a sub-box: a range of indices along each dimension of the box. Tiles are disjoint and
 * together cover the box. They need not be contiguous, neither in the source nor in the result.
 *
 * Pure: no I/O, no allocation. Boxes were planned within a source of at most 2^63-1 bytes, so sums of
 * distances do not overflow; where a stride is negative, unsigned arithmetic wraps around on the way and
 * ends at the right place.
 */
#ifndef COFFER_TRANSFER_TILE_H
#define COFFER_TRANSFER_TILE_H

#include "box.h"

/* What a tile should be like, in bytes. `memory` is an upper bound where tiles can be made that small;
   `read` and `write` are aims. */
typedef struct coffer__tile_limits {
    uint64_t memory; /* of a tile, gaps that are read included */
    uint64_t read;   /* contiguous bytes of the source worth a request */
    uint64_t write;  /* contiguous bytes of the result worth a request */
    uint64_t gap;    /* the longest gap in the source that is read rather than skipped */
} coffer__tile_limits;

/* How a box is cut: every tile has extents[d] runs along dimension d, fewer where the box ends. */
typedef struct coffer__tiling {
    const coffer__box *box;
    uint64_t gap;    /* the longest gap that is read inside a tile */
    uint64_t memory; /* bytes that the largest tile takes */
    uint64_t count;  /* of tiles */
    uint64_t extents[COFFER__BOX_MAX_RANK];
} coffer__tiling;

/* One tile: the same dimensions as the box, some of them with one index. */
typedef struct coffer__tile {
    uint64_t run_size;
    size_t rank;
    uint64_t start; /* of its first run, where the box counts from */
    uint64_t to;    /* of its first run, in the box's result */
    uint64_t size;  /* of all its runs */
    uint64_t gap;   /* the longest gap of the source that is read */
    uint64_t counts[COFFER__BOX_MAX_RANK];
    int64_t strides[COFFER__BOX_MAX_RANK]; /* bytes from one index to the next in the source */
    uint64_t places[COFFER__BOX_MAX_RANK]; /* bytes from one index to the next in the box's result */
} coffer__tile;

/*
 * How a tile is read, and how it lies in memory afterwards. A line is a contiguous range of the source
 * and one request. Lines follow each other in memory without gaps, in ascending order of the source, so
 * negative strides cost nothing: the tile is walked backwards in memory instead.
 */
typedef struct coffer__tile_lines {
    uint64_t low;   /* the first byte of the source that is needed, where the box counts from */
    uint64_t size;  /* of a line */
    uint64_t count; /* of lines, one after the other in memory */
    size_t rank;    /* dimensions that lead from one line to another, in the source's order */
    uint64_t counts[COFFER__BOX_MAX_RANK];
    uint64_t distances[COFFER__BOX_MAX_RANK];
    uint64_t first;                        /* where the tile's first run is in memory */
    int64_t strides[COFFER__BOX_MAX_RANK]; /* of the tile's dimensions in memory; 0 where the count is 1 */
} coffer__tile_lines;

/* Whether a box pays to be tiled: some outer dimension has its runs within `gap` of each other in the
   source, and closer than those of the innermost dimension, in whose order the result asks for them. */
bool coffer__box_is_turned(const coffer__box *box, uint64_t gap);
/* Cuts a box that has at least one dimension. */
void coffer__tiling_plan(coffer__tiling *tiling, const coffer__box *box, const coffer__tile_limits *limits);
/* Cuts it into bands of the result of at most `most` bytes, or of one run: each is contiguous in the result. */
void coffer__tiling_bands(coffer__tiling *tiling, const coffer__box *box, uint64_t most);
/* Tile `k`, below the count. Tiles are numbered in op-major order, so with bands their results ascend. */
void coffer__tile_at(const coffer__tiling *tiling, uint64_t k, coffer__tile *tile);
/* The tile as a box of its own, counted from the same byte. */
void coffer__tile_box(const coffer__tile *tile, coffer__box *box);
/* Where run `k` of the tile, in its own order, is in the result of the box that it is of. */
uint64_t coffer__tile_place(const coffer__tile *tile, uint64_t k);
/* The longest number of bytes that are contiguous both in the tile's own result and in the box's. The
   tile's size is a multiple of it: so many writes put the tile in its place. */
uint64_t coffer__tile_stretch(const coffer__tile *tile, const coffer__box *box);
/* How a tile is read line by line. */
void coffer__tile_lines_plan(const coffer__tile *tile, coffer__tile_lines *lines);
/* Where line `k` begins in the source, where the box counts from. */
uint64_t coffer__tile_line(const coffer__tile_lines *lines, uint64_t k);
/* Copies a tile to its places, in blocks that stay in the processor's cache. Its first run is at
   `from`, the others at the distances in `strides`, which are those of the source for a map and
   those of coffer__tile_lines for memory. `to` is the first byte of the whole box's result. */
void coffer__tile_turn(const coffer__tile *tile, uint8_t *to, const uint8_t *from, const int64_t *strides);

#endif
