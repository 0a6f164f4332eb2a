/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load cuts its files into cells: 2 MiB each, on a grid that begins at byte 0 of the file, so that processes which
 * want different bytes still speak of the same cells. A chunk is what is wanted of one cell: spans of bytes, and the
 * parts of copy ops that take them. The schedule makes chunks; a chunk source (chunk_source.h) brings their bytes.
 *
 * A chunk stays where it is from submit until release. Everything in it but the last section is constant from submit
 * on.
 */
#ifndef COFFER_LOAD_CHUNK_H
#define COFFER_LOAD_CHUNK_H

#include "coffer.h"
#include "region.h"

#define COFFER__CELL ((uint64_t)2 << 20)

/* Where the bytes of a chunk are. */
typedef enum coffer__residency {
    COFFER__CACHED = 0,           /* in the page cache */
    COFFER__ON_DISK = 1,          /* on the disk */
    COFFER__RESIDENCY_UNKNOWN = 2 /* it is not known, or the chunk is not to be deferred */
} coffer__residency;

/* What one copy op takes of a chunk. */
typedef struct coffer__chunk_part {
    uint32_t op;              /* the load's number of it */
    coffer__file_span within; /* where in the file what it takes lies; it may have gaps */
    /* Where byte within.begin goes in host memory, when all of `within` goes there as it is. The chunk source may then
       read bytes right to their destination instead of into the slot, and says which: those of `there`. NULL: not so.
       */
    uint8_t *to;
    coffer_device *device;   /* whose address `to` is; NULL: the host's. Only with the engine cuFile */
    coffer__file_span there; /* by the chunk source; empty: none */
    uint64_t taken;          /* by the worker: bytes that went to their destination */
} coffer__chunk_part;

/* What reading a chunk took. */
typedef struct coffer__chunk_counts {
    uint64_t requests; /* reads */
    uint64_t read;     /* bytes that were read for it by this process, from wherever, … */
    uint64_t cached;   /* … of them from the page cache, … */
    uint64_t direct;   /* … and past it */
    uint32_t engines;  /* bit 1 << coffer_engine for each that read */
} coffer__chunk_counts;

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
    coffer__chunk_counts counts;
    uint64_t gap;        /* the longest that was worth reading, as it turned out; 0: not known */
    void *own;           /* whatever the chunk source wants to remember */
    coffer__chunk *link; /* a list of the chunk source's between submit and next, of the worker's at other times */
};

#endif
