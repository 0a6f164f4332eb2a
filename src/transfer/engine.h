/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine reads ranges of a file into memory, several at a time. It is the part of loading that knows how: through the
 * page cache, past it, by threads or by io_uring. One reader belongs to one thread.
 *
 *   engine_buffered.c   reads through the page cache; a read is done when it was submitted
 *   engine_direct.c     the same past the page cache
 *   engine_ring.c       io_uring past the page cache; many reads at once
 *   engine_source.c     any source: memory, URLs, the caller's functions
 */
#ifndef COFFER_TRANSFER_ENGINE_H
#define COFFER_TRANSFER_ENGINE_H

#include "coffer.h"
#include "source.h"

/* One read. `to` has room for the range rounded out to the reader's alignment: the bytes of the range are at
   `to + before` when it is done. */
typedef struct coffer__request {
    const coffer__source *source;
    uint64_t offset;
    uint64_t size;
    uint8_t *to;
    size_t room;
    size_t before;        /* set when done */
    coffer_status status; /* set when done; COFFER_OK: every byte of the range is there */
    uint64_t cached;      /* bytes of it that were in the page cache, as far as that is known */
    void *user;           /* the caller's */
} coffer__request;

typedef struct coffer__reader coffer__reader;

typedef struct coffer__engine_ops {
    coffer_engine id;
    const char *name; /* for statistics and messages */
    /* Takes a request, or says that `depth` of them are under way (COFFER_NEED_MORE). The request stays where it is until it is
       reaped. */
    coffer_status (*submit)(coffer__reader *reader, coffer__request *request, coffer_error *err);
    /* Gives back a request that is done, in any order. *done NULL: none is under way, or without `wait` none is done. */
    coffer_status (*reap)(coffer__reader *reader, bool wait, coffer__request **done, coffer_error *err);
    /* Waits until nothing is under way. */
    void (*close)(coffer__reader *reader);
} coffer__engine_ops;

#endif
