/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes whose result goes across the order of their source, as that of a transpose does. Run by run they would be read with one
 * request for each element. So they are cut into tiles, which are read in the source's order and turned in memory:
 *
 *   a box of which nearly all lies within a tile's memory   is one tile, read at once
 *   a larger one                                            is cut so that what lies together in the source, and what lies
 *                                                           together in the result, are both long enough to be worth a request
 *
 * Pure: no I/O, no allocation.
 */
#ifndef COFFER_TRANSFER_TILE_H
#define COFFER_TRANSFER_TILE_H

#include "box.h"

typedef struct coffer__tile_limits {
    uint64_t memory; /* bytes of a tile, with what is read through */
    uint64_t read;   /* bytes of the source worth a request … */
    uint64_t write;  /* … and of the result */
    uint64_t gap;    /* of the source, that is read through rather than asked around */
} coffer__tile_limits;

/* How a box is cut: every tile has so many runs along each dimension, unless the box ends. */
typedef struct coffer__tiling {
    const coffer__box *box;
    uint64_t gap;    /* that is read through inside a tile */
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
    uint64_t gap;   /* of the source, that is read through */
    uint64_t counts[COFFER__BOX_MAX_RANK];
    int64_t strides[COFFER__BOX_MAX_RANK]; /* in the source */
    uint64_t places[COFFER__BOX_MAX_RANK]; /* the same in the result */
} coffer__tile;

/* How a tile lies in memory, when it was read line by line: each line is one request. */
typedef struct coffer__tile_lines {
    uint64_t low;   /* the first byte of the source that is needed, where the box counts from */
    uint64_t size;  /* of a line */
    uint64_t count; /* of lines, one after the other in memory */
    size_t rank;    /* dimensions that lead from one line to another, in the source's order … */
    uint64_t counts[COFFER__BOX_MAX_RANK];
    uint64_t distances[COFFER__BOX_MAX_RANK];
    uint64_t first;                        /* of the tile's first run in memory */
    int64_t strides[COFFER__BOX_MAX_RANK]; /* of the tile's dimensions in memory */
} coffer__tile_lines;

/* Whether runs that follow each other in the result lie farther apart in the source than others, which are close together. */
bool coffer__box_is_turned(const coffer__box *box, uint64_t gap);
/* Cuts a box that has at least one dimension. */
void coffer__tiling_plan(coffer__tiling *tiling, const coffer__box *box, const coffer__tile_limits *limits);
/* Cuts it into bands of the result of at most `most` bytes, or of one run: each is contiguous in the result. */
void coffer__tiling_bands(coffer__tiling *tiling, const coffer__box *box, uint64_t most);
/* Tile `k`, below the count, in the result's order. */
void coffer__tile_at(const coffer__tiling *tiling, uint64_t k, coffer__tile *tile);
/* The tile as a box of its own, counted from the same byte. */
void coffer__tile_box(const coffer__tile *tile, coffer__box *box);
/* Where run `k` of the tile, in its own order, is in the result of the box that it is of. */
uint64_t coffer__tile_place(const coffer__tile *tile, uint64_t k);
/* Bytes that follow each other in the tile's own result and in that of the box: it comes to so many stretches of this size. */
uint64_t coffer__tile_stretch(const coffer__tile *tile, const coffer__box *box);
/* How a tile is read line by line. */
void coffer__tile_lines_plan(const coffer__tile *tile, coffer__tile_lines *lines);
/* Where line `k` begins in the source, where the box counts from. */
uint64_t coffer__tile_line(const coffer__tile_lines *lines, uint64_t k);
/* Copies a tile to its places, in blocks that stay in the processor's cache. Its first run is at `from`, the others at the strides'
   distances; `to` is the first byte of the box's result. */
void coffer__tile_turn(const coffer__tile *tile, uint8_t *to, const uint8_t *from, const int64_t *strides);

#endif
