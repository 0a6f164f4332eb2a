/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a load. Its files:
 *
 *   load.c           starting it, ending it, what it says of itself
 *   load_admit.c     memory for items, and budgets
 *   load_work.c      what each worker does: chunks from the schedule to the chunk source, and waiting for them
 *   load_deliver.c   chunks that came: to their destinations, and what they complete
 *   load_digest.c    digests that are checked on the way
 *   load_group.c     other processes that load the same
 *   load_ready.c     items that are complete, and handing them out
 *
 * One lock guards the schedule and the items' states. Workers take it once for each chunk that they begin, and once for
 * each that came; chunks have up to 2 MiB, so it is hardly ever contended.
 */
#ifndef COFFER_LOAD_LOADING_H
#define COFFER_LOAD_LOADING_H

#include "chunk_source.h"
#include "deferred.h"
#include "file_readers.h"
#include "load_memory.h"
#include "load_plan.h"
#include "locked_allocator.h"
#include "schedule.h"
#include "staging.h"
#include "thread_pool.h"

#include <stdatomic.h>

#define COFFER__NO_ITEM UINT32_MAX
#define COFFER__SPACES 16 /* memory spaces of one load, at most: the host's and so many devices less one */

/* How far an item is. */
typedef enum coffer__load_phase {
    COFFER__LOAD_WAITING = 0, /* bytes of it are missing */
    COFFER__LOAD_READY = 1,
    COFFER__LOAD_TAKEN = 2
} coffer__load_phase;

/* How an item is verified. */
typedef enum coffer__load_verify {
    COFFER__VERIFY_NOT = 0,
    COFFER__VERIFY_IN_PLACE = 1, /* hashed as it comes, where it goes */
    COFFER__VERIFY_IN_SLOT = 2,  /* hashed as it comes, before the chunk's bytes are released */
    COFFER__VERIFY_APART = 3     /* its tensor is read again for that */
} coffer__load_verify;

typedef struct coffer__load_hash coffer__load_hash;
typedef struct coffer__load_digests coffer__load_digests;

typedef struct coffer__load_state {
    uint64_t left;                 /* bytes that are not in place */
    coffer__allocation allocation; /* its destination; the address is 0 until it has one */
    uint32_t next;                 /* the one that became ready after it */
    uint8_t phase;
    uint8_t space;
    uint8_t verify; /* coffer__load_verify */
    bool verified;
    coffer__load_hash *hash; /* while it is hashed; else NULL */
} coffer__load_state;

/* A memory space of the load. */
typedef struct coffer__load_space {
    coffer__store store;
    uint64_t budget; /* UINT64_MAX: none */
    uint64_t used;   /* bytes that were allocated and are not handed out */
} coffer__load_space;

typedef struct coffer__load_worker coffer__load_worker;

struct coffer_load {
    coffer_allocator allocator; /* any number of threads may call it */
    coffer__locked_allocator turns;
    const coffer_plan *plan;
    coffer_load_options options;
    coffer_staging *staging; /* its workers enter it while they work */
    bool own_staging;
    coffer__file_readers *file_readers;
    coffer__chunk_sources chunk_sources;
    coffer__pins pins;             /* the group's memory, registered with devices; guarded by the mutex */
    struct coffer__served *served; /* what a model cache server has of the model; NULL: nothing */
    coffer__load_worker *workers;
    size_t worker_count;
    uint64_t cells; /* in which the items lie, about */
    size_t slots;   /* of the staging buffer, that the workers share */
    coffer__thread_pool thread_pool;
    bool in_background;
    coffer_error thread_pool_error; /* the thread pool's, which nobody reads: failures are kept below */
    atomic_bool stopped;            /* it failed or was cancelled */

    coffer__mutex mutex;        /* guards what follows */
    coffer__condition changed;  /* for callers: an item is ready, or all has ended */
    coffer__condition capacity; /* for workers: a budget has space, or all has ended */
    coffer__schedule schedule;
    coffer__deferred deferred; /* chunks that were deferred */
    coffer__load_state *states;
    coffer__load_digests *digests; /* load_digest.h */
    coffer__load_space spaces[COFFER__SPACES];
    size_t space_count;
    uint32_t first_ready; /* a list, in the order in which they became ready; some may be taken already */
    uint32_t last_ready;
    size_t open;      /* items that are not ready */
    size_t not_taken; /* items that are not handed out */
    uint8_t group;    /* of coffer__load_grouping */
    size_t members;   /* workers that are in the group, or would be if there was one */
    size_t under_way; /* chunks that were begun and are not in place */
    bool starved;     /* the schedule waits for a budget */
    coffer_status status;
    coffer_error error;
    coffer_load_stats stats;
    uint64_t began; /* nanoseconds of the clock */
};

/* How far entering a group of processes is; there may be none. */
typedef enum coffer__load_grouping {
    COFFER__LOAD_OUTSIDE = 0,
    COFFER__LOAD_ENTERS = 1,
    COFFER__LOAD_INSIDE = 2
} coffer__load_grouping;

/* What the first failure was stays; all threads are woken. */
void coffer__load_fail(coffer_load *load, coffer_status status, const coffer_error *error);

/* ---- load_admit.c ------------------------------------------------------------------------------------------------ */

/* Gives every item its space, and counts the cells; COFFER_ERR_BUDGET for an item that is larger than its budget. */
coffer_status coffer__load_spaces(coffer_load *load, coffer_error *err);
/* What the schedule asks: memory for an item. */
coffer_status coffer__load_admit(void *ctx, uint32_t item, coffer_error *err);

/* ---- load_work.c ------------------------------------------------------------------------------------------------- */

/* How many workers there should be, and makes and ends them. */
coffer_status coffer__load_make_workers(coffer_load *load, coffer_error *err);
void coffer__load_free_workers(coffer_load *load);
size_t coffer__load_worker_size(void);
/* What each worker runs. */
void coffer__load_work(void *arg);

/* ---- load_group.c ------------------------------------------------------------------------------------------------ */

/* Each worker enters the group, whether there is one or not, and leaves it with what became of its work. A failure is
   told to the other processes. Where entering fails, too, leaving follows. */
coffer_status coffer__load_enter_group(coffer_load *load, const coffer__watch *watch, coffer_error *err);
void coffer__load_leave_group(coffer_load *load, coffer_status status, const coffer_error *error);
/* Registers the group's memory with a device, where there is a group. */
coffer_status coffer__load_pin_group(coffer_load *load, coffer_device *device, coffer_error *err);
/* The chunk source of a worker that is in the group. */
coffer_status coffer__load_chunk_source(coffer__chunk_source **chunk_source, coffer_load *load, size_t worker,
                                        const coffer__watch *watch, coffer_error *err);

/* ---- load_ready.c ------------------------------------------------------------------------------------------------ */

/* An item is complete. Under the lock. Whoever calls this wakes those who wait for `changed`, all of them, because they
   may wait for different items: once for all items of a chunk. */
void coffer__load_ready(coffer_load *load, uint32_t item);

#endif
