/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker of a load, and its chunks: what load_work.c and load_deliver.c share.
 *
 *   load_work.c      the loop: chunks from the schedule to the chunk source, and waiting for them
 *   load_deliver.c   a chunk that came: to its destinations, hashed, and counted
 */
#ifndef COFFER_LOAD_LOAD_WORKER_H
#define COFFER_LOAD_LOAD_WORKER_H

#include "device_queue.h"
#include "loading.h"

/* A chunk with what the worker remembers of it. It begins with the chunk source's view of it, so a chunk that the chunk
   source gives back is cast to this. */
typedef struct coffer__work_chunk {
    coffer__chunk base;
    struct coffer__work_chunk *next; /* of those that are spare, or held */
    struct coffer__work_chunk *made; /* the one that was made before it */
    uint64_t taken;                  /* bytes of copy ops in it */
    bool from_cache;                 /* it was begun while others were waited for */
    size_t hashed;                   /* parts that were looked at for hashing in the slot */
    uint32_t *due;                   /* items to be hashed or verified now that it is there; space for its parts */
    size_t due_capacity;
    uint64_t tickets[COFFER__SPACES]; /* of the worker's device queues; 0: nothing went there */
} coffer__work_chunk;

/* All of it belongs to the worker's thread, but for `load`. So the lists of chunks need no lock; what others may
   see is in the load. */
struct coffer__load_worker {
    coffer__thread_pool_worker base;
    coffer_load *load;
    coffer__watch watch;
    coffer__chunk_source *chunk_source;
    coffer__work_chunk *made;
    coffer__work_chunk *spare;
    coffer__work_chunk *pending; /* the chunk source had no space for it */
    size_t under_way;            /* in the chunk source */
    bool mixed;                  /* the last chunk was of a file that is partly in the page cache */
    bool from_cache;             /* a chunk is in the chunk source that was begun while others are waited for */
    uint64_t waited;             /* nanoseconds for the chunk source, not counted yet, … */
    uint64_t waited_device;      /* … and for devices */
    coffer__device_queue *device_queues[COFFER__SPACES]; /* to the devices; NULL: nothing went there yet */
    coffer__work_chunk *held; /* a list, the oldest first, of chunks that came and still need their slots */
};

/* ---- load_deliver.c ---------------------------------------------------------------------------------------------- */

/* Delivers a chunk. *held: bytes of it are still on their way to a device, so that its slot must stay. */
coffer_status coffer__load_deliver(coffer__load_worker *worker, coffer__work_chunk *chunk, bool *held,
                                   coffer_error *err);
/* Hashes what is to be hashed in the slot. COFFER_NEED_MORE when that has to wait for chunks before this one: it goes on
   from there when it is called again. */
coffer_status coffer__load_hash_slot(const coffer__load_worker *worker, coffer__work_chunk *chunk, coffer_error *err);
/* The bytes of a chunk are in place, and its slot was released: its items get ready, or are verified. */
coffer_status coffer__load_arrived(coffer__load_worker *worker, coffer__work_chunk *chunk, coffer_error *err);

#endif
