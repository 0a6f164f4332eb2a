/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What engines and readers know of each other. An engine is a constant table of functions, and one file.
 */
#ifndef COFFER_ENGINE_ENGINE_OWN_H
#define COFFER_ENGINE_ENGINE_OWN_H

#include "engine.h"
#include "pace.h"
#include "tune.h"

struct coffer__read_engine {
    coffer_engine id;
    const char *name; /* for statistics and messages */
    /* Reads as much of a request as it can, from request->got or request->done on. What is missing then is read by
       coffer__source_read. NULL: that does it all. */
    void (*read)(coffer__range_reader *reader, coffer__request *request);
    /* Of an engine that is asynchronous, else NULL. It takes a request, which comes back in reader->ready. False: it does
       not, and is not asked again for this request, which waits for `read`. */
    bool (*start)(coffer__range_reader *reader, coffer__request *request);
};

extern const coffer__read_engine coffer__engine_source;
extern const coffer__read_engine coffer__engine_buffered;
extern const coffer__read_engine coffer__engine_direct;
extern const coffer__read_engine coffer__engine_ring;
extern const coffer__read_engine coffer__engine_mapped;

/* Requests in the order in which they came. */
typedef struct coffer__requests {
    coffer__request *first;
    coffer__request *last;
} coffer__requests;

/* The state of engine_ring.c in a reader. */
typedef struct coffer__ring_state {
    coffer__os_ring ring;
    bool open;
    bool refused;    /* it could not be opened, or does not work: nothing is started any more */
    bool registered; /* the reader's memory, as buffer 0 */
    unsigned entries;
    unsigned under_way; /* reads that the system has */
} coffer__ring_state;

struct coffer__range_reader {
    coffer_allocator allocator;
    coffer__range_reader_options options;
    coffer__requests waiting; /* to be read by this thread when they are reaped */
    coffer__requests ready;   /* that an asynchronous engine is done with */
    uint32_t under_way;       /* that were submitted and not reaped */
    coffer__tune tune;
    coffer__pace pace[2]; /* of sources that are near, and of those that are far */
    uint64_t moment; /* nanoseconds of the clock: until then time was counted to requests, or none was in progress */
    coffer__ring_state ring;
    int own;         /* engine_buffered.c: a descriptor of the reader's own, or -1 */
    uint64_t device; /* the device of the file of that descriptor */
    uint64_t inode;
};

void coffer__requests_push(coffer__requests *requests, coffer__request *request);
coffer__request *coffer__requests_pop(coffer__requests *requests);

/* The range of a request as direct reading needs it: whole blocks. */
typedef struct coffer__rounded {
    uint64_t offset; /* in the file */
    size_t size;
    size_t before; /* bytes of it before the request's own */
    uint8_t *to;
} coffer__rounded;
/* False where address and offset do not agree, or sizes overflow. */
bool coffer__request_round(const coffer__request *request, coffer__rounded *rounded);
/* Adds bytes to what is there of the rounded range. True when that is all of the request. */
bool coffer__request_add(coffer__request *request, const coffer__rounded *rounded, uint64_t size);
/* Takes what the page cache has of the request's beginning. True when that is all. engine_direct.c. */
bool coffer__request_take_cached(coffer__request *request, const coffer__rounded *rounded);
/* The `read` of engine_direct.c, which engine_ring.c falls back to. */
void coffer__engine_read_direct(coffer__range_reader *reader, coffer__request *request);

/* engine_buffered.c: closes the descriptor of the reader's own. */
void coffer__range_reader_forget_own(coffer__range_reader *reader);
/* engine_ring.c: moves requests that are done to reader->ready; with `wait`, and if there are any, not before one is. */
void coffer__ring_collect(coffer__range_reader *reader, bool wait);
/* Waits until nothing is in progress, and releases everything. */
void coffer__ring_close(coffer__range_reader *reader);

#endif
