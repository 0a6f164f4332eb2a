/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of a load come from. A chunk source brings the bytes of chunks (chunk.h), several at a time.
 *
 *   chunk_source_private.c   slots of the staging buffer's memory, filled by an engine (engine/engine.h)
 *   chunk_source_shared.c    slots that several processes share: each cell is read once, by one of them
 *
 * A chunk source belongs to one worker, which is one thread. What the chunk sources of one load share, they share by
 * coffer__chunk_sources.
 *
 *      submit ──► in progress ──► next ──► read by the worker ──► release
 */
#ifndef COFFER_LOAD_CHUNK_SOURCE_H
#define COFFER_LOAD_CHUNK_SOURCE_H

#include "chunk.h"
#include "coffer.h"
#include "source.h"

typedef struct coffer__chunk_source coffer__chunk_source;
typedef struct coffer__file_readers coffer__file_readers; /* file_readers.h */

typedef struct coffer__chunk_source_ops {
    const char *name; /* for statistics and messages */
    /* Whether there is space for another chunk. With nothing in progress and nothing unreleased there always is. */
    bool (*has_capacity)(const coffer__chunk_source *chunk_source);
    /* Takes a chunk. When there is no space for it after all it says COFFER_NEED_MORE: the worker then asks `next`, and
       releases what it gets, before it tries this chunk again. */
    coffer_status (*submit)(coffer__chunk_source *chunk_source, coffer__chunk *chunk, coffer_error *err);
    /* Gives back a chunk whose bytes are there, in any order. *chunk NULL: nothing is in progress, or, without `wait`,
       nothing is done yet. With `wait`, in a group, nothing may be unreleased: other processes may wait for its slot
       before they bring what this waits for. After a failure nothing but release and close may be called. */
    coffer_status (*next)(coffer__chunk_source *chunk_source, bool wait, coffer__chunk **chunk, coffer_error *err);
    /* The bytes are not needed any more. */
    void (*release)(coffer__chunk_source *chunk_source, coffer__chunk *chunk);
    /* Waits until nothing is in progress, whatever it was, and frees the chunk source. Chunks that were submitted and
       not released are the worker's again. */
    void (*close)(coffer__chunk_source *chunk_source);
} coffer__chunk_source_ops;

/* The first member of every chunk source. */
struct coffer__chunk_source {
    const coffer__chunk_source_ops *ops;
};

/* What the chunk sources of one load are made from. It stays where it is, unchanged, until all of them are closed. */
typedef struct coffer__chunk_sources {
    const coffer *model;
    coffer_staging *staging;
    const coffer_allocator *allocator;  /* any number of threads may use it at once */
    coffer__file_readers *file_readers; /* which engine reads each file */
    size_t workers;                     /* chunk sources that there will be, at most */
    struct coffer__group *group;        /* the group of processes that this load is in; NULL: none */
} coffer__chunk_sources;

/* Makes a chunk source for worker `worker`; `watch` is its own, asked while it waits. */
coffer_status coffer__chunk_source_private(coffer__chunk_source **chunk_source,
                                           const coffer__chunk_sources *chunk_sources, size_t worker,
                                           const coffer__watch *watch, coffer_error *err);
/* The same for a load that has a group. `alone` reads what is not shared, and is closed with the chunk source; after a
   failure it is closed, too. */
coffer_status coffer__chunk_source_shared(coffer__chunk_source **chunk_source,
                                          const coffer__chunk_sources *chunk_sources, coffer__chunk_source *alone,
                                          const coffer__watch *watch, coffer_error *err);

#endif
