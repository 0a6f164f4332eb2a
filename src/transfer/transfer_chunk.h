/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ops are cut into chunks. A chunk is what one worker carries out without asking for more work.
 * Pure: no I/O, no threads. Whoever shares a queue between threads holds a lock.
 *
 *   a run longer than a chunk     is cut into chunks, each read straight into its place
 *   runs of 4 KiB and more        are read straight into their place, one read each
 *   short runs                    are read in windows: neighbours and the small gaps between them in one
 *                                 read, into scratch memory, and gathered from there. A gap of up to a
 *                                 page is read and thrown away, because that costs less than another
 *                                 read
 *   runs across the source's      are read in tiles and transposed in memory (tile.h)
 *   order, as in a transpose
 *
 * For far sources, where every read is a round trip, all sizes are larger (chunk_far): runs count as
 * short up to a whole window, longer gaps are read, and neighbouring ops share a window, too.
 *
 * Chunks come in the order of the ops, and within a op in the order of the result. So what workers
 * do at the same time mostly lies close together.
 */
#ifndef COFFER_TRANSFER_TRANSFER_CHUNK_H
#define COFFER_TRANSFER_TRANSFER_CHUNK_H

#include "tile.h"
#include "transfer_op.h"

/* Which sizes make a read efficient, for one kind of source. All in bytes. */
typedef struct coffer__shape {
    uint64_t chunk;  /* a longer run is cut */
    uint64_t run;    /* a shorter run is read in a window with others */
    uint64_t gap;    /* the longest gap that is read rather than skipped */
    uint64_t window; /* the most that is read at once for several runs */
    coffer__tile_limits tiles;
} coffer__shape;

/*
 * What one worker moves next. It is one of four:
 *
 *   whole runs of one op        ops 1, skip 0, count ≥ 1
 *   a part of one long run       ops 1, count 1, `skip` bytes into the run
 *   several neighbouring ops    ops > 1, all contiguous and in one far source
 *   a tile                       tiled; count and skip have no meaning
 */
typedef struct coffer__transfer_chunk {
    const coffer__transfer_op *op; /* the first one */
    size_t ops;                    /* 1, or as many whole ops without a box as are read in one window */
    uint64_t run;                  /* number of the first run */
    uint64_t count;                /* of runs; 1 when it is a part of one */
    uint64_t skip;                 /* bytes of the first run that belong to the previous chunk */
    uint64_t size;                 /* bytes of the result that the chunk fills */
    bool tiled;                    /* it is a tile; `run` is its number */
} coffer__transfer_chunk;

/* Copy ops, and the cursor at which the next chunk begins. Copy ops with a digest and ops without bytes are
   skipped: the first are not cut (digest.h), the second are done. */
typedef struct coffer__queue {
    const coffer__transfer_op *ops;
    size_t op_count;
    const coffer__tile_limits *tiles; /* those that were given, or NULL */
    size_t op;                        /* the next chunk's */
    uint64_t run;
    uint64_t skip;
} coffer__queue;

/* The sizes for the op's source. */
const coffer__shape *coffer__shape_of(const coffer__transfer_op *op);
/* Whether the op has to be read, and each read costs a round trip. A mapped op is never far. */
bool coffer__transfer_op_is_far(const coffer__transfer_op *op);
/* Bytes of each of the op's runs; a op without a box is one run. */
uint64_t coffer__transfer_op_run_size(const coffer__transfer_op *op);
/* Takes the next chunk, and fills *tile if it is one; false when there is none. */
bool coffer__queue_next(coffer__queue *queue, coffer__transfer_chunk *chunk, coffer__tile *tile);

/* The rest is for planning. These look at all ops, whatever was taken already. */

/* The sum of the ops' sizes; false when it exceeds 2^64-1. */
bool coffer__queue_total(const coffer__queue *queue, uint64_t *total);
/* Chunks that come from far sources, at most `most`: how many threads can wait at the same time. */
uint64_t coffer__queue_far_chunks(const coffer__queue *queue, uint64_t most);
/* Bytes of scratch memory that each worker needs; 0 when all runs go straight to their places. */
size_t coffer__queue_scratch(const coffer__queue *queue);
/* Bytes of memory that the largest tile needs; 0 when no tile has to be read. */
size_t coffer__queue_largest_tile(const coffer__queue *queue);

#endif
