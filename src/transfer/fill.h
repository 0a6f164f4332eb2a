/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage that fetches bytes: it moves one chunk (transfer_chunk.h) to its place in memory. What is read goes
 * straight there, or into scratch memory and is gathered from there. What is in a map is copied.
 *
 * Nothing here is shared between workers but the slots for tiles, each of which has a lock.
 */
#ifndef COFFER_TRANSFER_FILL_H
#define COFFER_TRANSFER_FILL_H

#include "thread_pool.h"
#include "transfer_chunk.h"

/* Memory for a tile. A worker holds the lock from the first read into it until the tile was copied out. */
typedef struct coffer__slot {
    coffer__mutex lock;
    uint8_t *memory;
} coffer__slot;

/* What a worker fetches bytes with. The scratch memory is its own; it is empty when no op needs any. */
typedef struct coffer__filler {
    coffer__thread_pool_worker base; /* first, so that a worker can be used as one of a thread pool */
    uint64_t asked; /* when the thread pool was last asked within a chunk, by coffer__os_milliseconds; 0: never */
    uint8_t *scratch;
    size_t scratch_size;
    coffer__slot *slot; /* for tiles; NULL: no op needs it */
} coffer__filler;

/* Moves a chunk, or fails; then its place may be filled in part. `tile` is read only if the chunk
   is one. COFFER_ERR_CANCELLED means that the thread pool is to stop, and is no fault of the chunk. */
coffer_status coffer__fill(coffer__filler *worker, const coffer__transfer_chunk *chunk, const coffer__tile *tile,
                           coffer_error *err);

#endif
