/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of a load come from. A load cuts its files into cells: 2 MiB each, on a grid that begins at byte 0 of
 * the file, so that processes which want different bytes still speak of the same cells. A chunk is what is wanted of
 * one cell: spans of bytes, and the parts of rows that take them. A chunk source brings the bytes of chunks, several at a time.
 *
 *   chunk_source_private.c   slots of the window's memory, filled by an engine (engine/engine.h)
 *   chunk_source_shared.c    slots that several processes share: each cell is read once, by one of them
 *
 * A chunk source belongs to one worker, which is one thread. What the chunk sources of one load share, they share by coffer__chunk_sources.
 *
 *      submit ──► in progress ──► next ──► read by the worker ──► release
 *
 * A chunk stays where it is from submit until release. Everything in it but the last section is constant from submit
 * on.
 */
#ifndef COFFER_LOAD_CHUNK_SOURCE_H
#define COFFER_LOAD_CHUNK_SOURCE_H

#include "coffer.h"
#include "source.h"

#define COFFER__CELL ((uint64_t)2 << 20)

/* Bytes of a shard's file, from `begin` to before `end`. */
typedef struct coffer__file_span {
    uint64_t begin;
    uint64_t end;
} coffer__file_span;

/* What one row takes of a chunk. */
typedef struct coffer__chunk_part {
    uint32_t row;             /* the load's number of it */
    coffer__file_span within; /* where in the file what it takes lies; it may have gaps */
    /* Where byte within.begin goes in host memory, when all of `within` goes there as it is. The chunk source may then read
       bytes right to their place instead of into the slot, and says which: those of `there`. NULL: not so. */
    uint8_t *to;
    coffer_device *device;   /* whose address `to` is; NULL: the host's. Only with the engine cuFile */
    coffer__file_span there; /* by the chunk source; empty: none */
    uint64_t taken;          /* by the worker: bytes that went to their place */
} coffer__chunk_part;

typedef struct coffer__chunk coffer__chunk;
struct coffer__chunk {
    size_t shard;
    coffer__file_span cell;   /* begins at a multiple of COFFER__CELL; ends a cell later, or where the file does */
    bool alone;               /* out of the order of the others: no other process is about to want this cell now */
    coffer__file_span *spans; /* what is to be read: ascending, and the gaps between them are worth not reading */
    size_t span_count;
    coffer__chunk_part *parts; /* ascending by where they begin; they may overlap */
    size_t part_count;
    size_t span_capacity; /* the worker's, who owns both lists */
    size_t part_capacity;

    /* The chunk source's, from submit on. */
    const uint8_t *bytes; /* byte cell.begin; where spans lie there are bytes, except those that are `there` */
    uint64_t requests;    /* how many reads it took */
    uint64_t read;        /* bytes that were read for it by this process, from wherever */
    uint64_t cached;      /* bytes of `read` from the page cache */
    uint64_t direct;      /* bytes of `read` that were read past the page cache */
    uint64_t gap;         /* the longest that was worth reading, as it turned out; 0: not known */
    uint32_t engines;     /* bit 1 << coffer_engine for each that read */
    void *own;            /* whatever the chunk source wants to remember */
    coffer__chunk *link;  /* a list of the chunk source's between submit and next, of the worker's at other times */
};

typedef struct coffer__chunk_source coffer__chunk_source;
typedef struct coffer__file_readers coffer__file_readers; /* file readers.h */

typedef struct coffer__chunk_source_ops {
    const char *name; /* for statistics and messages */
    /* Whether there is space for another chunk. With nothing in progress and nothing unreleased there always is. */
    bool (*has_capacity)(const coffer__chunk_source *chunk_source);
    /* Takes a chunk. When there is no space for it after all it says COFFER_NEED_MORE: the worker then asks `next`, and
       releases what it gets, before it tries this chunk again. */
    coffer_status (*submit)(coffer__chunk_source *chunk_source, coffer__chunk *chunk, coffer_error *err);
    /* Gives back a chunk whose bytes are there, in any order. *chunk NULL: nothing is in progress, or, without `wait`,
       nothing is done yet. With `wait`, in a group, nothing may be unreleased: other processes may wait for its slot before
       they bring what this waits for. After a failure nothing but release and close may be called. */
    coffer_status (*next)(coffer__chunk_source *chunk_source, bool wait, coffer__chunk **chunk, coffer_error *err);
    /* The bytes are not needed any more. */
    void (*release)(coffer__chunk_source *chunk_source, coffer__chunk *chunk);
    /* Waits until nothing is in progress, whatever it was, and frees the chunk source. Chunks that were submitted and not
       released are the worker's again. */
    void (*close)(coffer__chunk_source *chunk_source);
} coffer__chunk_source_ops;

/* The first member of every chunk source. */
struct coffer__chunk_source {
    const coffer__chunk_source_ops *ops;
};

/* What the chunk sources of one load are made from. It stays where it is, unchanged, until all of them are closed. */
typedef struct coffer__chunk_sources {
    const coffer *model;
    coffer_window *window;
    const coffer_allocator *allocator;  /* any number of threads may use it at once */
    coffer__file_readers *file_readers; /* which engine reads each file */
    size_t workers;                     /* chunk sources that there will be, at most */
    struct coffer__share *share;        /* the group of processes that this load is in; NULL: none */
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
