/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How rows are cut into pieces, which one worker carries out at a stretch. Pure: no I/O, no threads; who shares a queue holds a lock.
 *
 *   a long run (above a piece)    is cut into pieces and read straight into its place
 *   runs of 4 KiB and more        are read straight into their place, one read each
 *   short runs                    are read in windows: neighbours and the small gaps between them in one read, into
 *                                 scratch memory, and gathered from there. A gap of up to a page is read through,
 *                                 because that costs less than another read
 *   runs across the source's      are read in tiles, and turned in memory (tile.h)
 *   order, as in a transpose
 *
 * From far away, where every read is a journey, all of this is larger (piece_far): runs are short up to a whole window, gaps that are
 * read through long, and neighbouring rows come in one window, too.
 */
#ifndef COFFER_TRANSFER_PIECE_H
#define COFFER_TRANSFER_PIECE_H

#include "tile.h"
#include "transfer.h"

/* How much is worth a read of its own. */
typedef struct coffer__shape {
    uint64_t piece;  /* a longer run is cut */
    uint64_t run;    /* a shorter one is read in windows */
    uint64_t gap;    /* that is read through */
    uint64_t window; /* what is read at once for several runs */
    coffer__tile_limits tiles;
} coffer__shape;

/* Runs of a row (or bytes of one run) that one worker moves at a stretch; or, from far away, rows that lie close together. */
typedef struct coffer__piece {
    const coffer__row *row;
    size_t rows;    /* 1, or as many whole rows without a box as are read in one window */
    uint64_t run;   /* the first one */
    uint64_t count; /* of runs; 1 when it is a part of one */
    uint64_t skip;  /* bytes of the first run that belong to the piece before */
    uint64_t size;  /* of its bytes in the result */
    bool tiled;     /* it is a tile; `run` is its number */
} coffer__piece;

/* Rows, and where the next piece of them begins. Rows with a digest are not in it: they are not cut. */
typedef struct coffer__queue {
    const coffer__row *rows;
    size_t row_count;
    const coffer__tile_limits *tiles; /* those that were given, or NULL */
    size_t row;                       /* the next piece's */
    uint64_t run;
    uint64_t skip;
} coffer__queue;

const coffer__shape *coffer__shape_of(const coffer__row *row);
bool coffer__row_is_far(const coffer__row *row);
uint64_t coffer__row_run_size(const coffer__row *row);
/* Takes the next piece, and its tile if it is one; false when there is none. */
bool coffer__queue_next(coffer__queue *queue, coffer__piece *piece, coffer__tile *tile);
/* Of a queue that nothing was taken from: bytes of its rows; pieces that come from far away, counted up to `most`; bytes of scratch
   memory and of the largest tile that a worker needs, 0 when all runs go straight to their places. */
bool coffer__queue_total(const coffer__queue *queue, uint64_t *total);
uint64_t coffer__queue_far_pieces(const coffer__queue *queue, uint64_t most);
size_t coffer__queue_scratch(const coffer__queue *queue);
size_t coffer__queue_largest_tile(const coffer__queue *queue);

#endif
