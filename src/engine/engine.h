/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine reads ranges of a source into memory. It is the part of loading that knows how: through the page cache or
 * past it, at once or many at a time.
 *
 *   engine_choose.c     which engine reads a source, by what the system says of it
 *   engine_reader.c     readers: where requests wait, and who reads them
 *   engine_request.c    what all engines do with requests
 *   engine_source.c     any source: memory, URLs, the caller's functions, small files
 *   engine_buffered.c   a file through the page cache
 *   engine_direct.c     a file past the page cache, but for what is in it already
 *   engine_ring.c       the same by io_uring, many reads at once
 *   engine_mapped.c     a file that is mapped: pages are made resident where they are, and nothing is copied
 *
 * A file reader says how one source is read. It is made once, then constant, and any number of range readers share it.
 * A range reader belongs to one thread, which makes, uses and frees it. It has many requests in progress, of any file
 * readers, and each goes to its file reader's engine. Engines that are not asynchronous read when they are reaped: they
 * are made parallel by as many readers. What an asynchronous engine refuses is read in the same way.
 *
 * Direct reading moves whole blocks of the file. So the range of a request may be rounded out to multiples of
 * file_reader->block, and the memory before and after `to` is overwritten accordingly, with the bytes of the file that
 * belong there, or anything after the file's end. A range of whole blocks touches nothing else. Where the address and
 * the offset differ modulo the block, direct reading cannot serve, and the page cache does.
 *
 * A read that fails is repeated by coffer__source_read, for the bytes that are missing. So every engine can read what
 * any engine can, and there is one place that says why a file cannot be read, or that it has become shorter.
 */
#ifndef COFFER_ENGINE_ENGINE_H
#define COFFER_ENGINE_ENGINE_H

#include "coffer.h"
#include "source.h"

/* How many granules a file reader knows of. */
#define COFFER__FILE_READER_HELD 2048u
/* No file reader has larger blocks, and no place needs to be aligned to more. */
#define COFFER__BLOCK_MAX 4096u

/* The functions of io_uring that a test replaces, to change what is completed. */
typedef struct coffer__ring_calls {
    int (*open)(coffer__os_ring *ring, unsigned entries);
    bool (*next)(coffer__os_ring *ring, coffer__os_completion *completion);
} coffer__ring_calls;

typedef struct coffer__read_engine coffer__read_engine;
typedef struct coffer__range_reader coffer__range_reader;

/* ---- file readers ------------------------------------------------------------------------------------------------ */

typedef struct coffer__file_reader {
    const coffer__byte_source *source; /* stays where it is, open, until the file reader is closed */
    const coffer__read_engine *engine; /* what reads it */
    uint32_t block;                    /* see above; 1: there is no rounding */
    uint32_t threads;                  /* readers that should work at once, as far as there is work for them */
    uint32_t depth;                    /* requests that each of them should have in progress, to begin with */
    uint32_t chunk;                    /* bytes that a request should have */

    /* The engines'. */
    uint64_t base;   /* where the source's byte 0 is in its file */
    uint64_t device; /* which file that is */
    uint64_t inode;
    int direct;       /* a descriptor that reads past the page cache; -1: none */
    int buffered;     /* one that reads through it, of the file reader's own; -1: none */
    bool mixed;       /* some of it was in the page cache when the file reader was opened: */
    uint64_t granule; /* bytes of a granule of the file */
    uint64_t held[COFFER__FILE_READER_HELD / 64]; /* bit i is set: granule i of the file was there */
    bool resident;                                /* all of it is in memory: the page cache is its storage */
    bool warm;                                    /* most of it was in the page cache when it was opened */
    bool leave;                                   /* leave nothing in the page cache */
    bool unshared;                                /* each reader needs a descriptor of its own */
} coffer__file_reader;

/* What the system has for all sources alike. Whoever opens file readers asks once and keeps it. */
typedef struct coffer__engine_facts {
    int ring;            /* 0: io_uring works; else the errno with which it is refused */
    int populate;        /* 0: maps can be populated; else the errno with which that is refused */
    unsigned processors; /* that this process may use */
    uint64_t memory;     /* bytes that programs could still get; 0: not known */
} coffer__engine_facts;
void coffer__engine_facts_get(coffer__engine_facts *facts);
/* What to do about io_uring, by the errno with which it is refused. */
const char *coffer__ring_advice(int os_error);

typedef struct coffer__engine_wish {
    coffer_engine engine; /* COFFER_ENGINE_AUTO, or the one that was asked for by name */
    bool uncached;        /* leave nothing in the page cache */
    bool views;           /* what is wanted may be parts of a map of the file */
    bool shared;      /* other processes of this host read the same bytes by themselves, and should find them there */
    const char *path; /* of the file; an edit of it that is in progress is noticed. NULL: not known */
    uint64_t planned; /* how many bytes of the source will be read */
    const uint64_t
        *probes;        /* offsets spread over what will be read, to find out how much of it is in the page cache; */
    size_t probe_count; /* 0: they are spread over the whole source */
} coffer__engine_wish;

/* Makes a file reader. Whatever the system refuses leads to the next best engine, except where one was asked for by
   name: then the failure is COFFER_ERR_ENGINE and says what is missing and what to do. A file reader may keep two
   descriptors open, so whoever reads thousands of files opens each when it is needed. */
coffer_status coffer__file_reader_open(coffer__file_reader *file_reader, const coffer__byte_source *source,
                                       const coffer__engine_wish *wish, const coffer__engine_facts *facts,
                                       coffer_error *err);
/* When no reader has a request of it. */
void coffer__file_reader_close(coffer__file_reader *file_reader);
/* Which engine of the public ones reads it. */
coffer_engine coffer__file_reader_engine(const coffer__file_reader *file_reader);
/* The part of a range that can be read right to `to`, where its first byte belongs, without a byte before or after it
   being touched: from *offset on, *size bytes; none (*size 0) where address and offset do not agree. */
void coffer__file_reader_within(const coffer__file_reader *file_reader, const void *to, uint64_t *offset,
                                uint64_t *size);

/* Whether all of a range was in the page cache when a file reader that is mixed was opened, as far as that is known. */
bool coffer__file_reader_holds(const coffer__file_reader *file_reader, uint64_t offset, uint64_t size);

/* ---- range readers ----------------------------------------------------------------------------------------------- */

typedef struct coffer__request coffer__request;
struct coffer__request {
    const coffer__file_reader *file_reader;
    uint64_t offset; /* in the source */
    size_t size;     /* at least 1 */
    uint8_t *to;     /* where the range's first byte goes */
    bool in_map; /* `to` is in a private map of the file, where the range is: it is there as soon as it is resident */
    void *user;  /* the caller's */

    /* Set when it was reaped. */
    uint64_t read;   /* bytes that were read for it, from wherever, with those of rounding */
    uint64_t cached; /* bytes of `read` that are known to have been in the page cache */
    uint64_t direct; /* bytes of `read` that were read past the page cache */

    /* The reader's while it is in progress. */
    uint64_t got; /* bytes of the rounded range that are there */
    size_t done;  /* bytes of the range itself that are there */
    uint32_t tries;
    coffer__request *next;
};

typedef struct coffer__range_reader_options {
    const coffer_allocator *allocator;
    const coffer__watch *watch; /* asked while a far source is waited for; NULL: nobody */
    uint32_t depth;             /* requests that the system has at once, at most; at least 1 */
    /* Most requests read to there, so that it may be registered with the system; NULL: no such. It should be in huge
       pages: of small ones a disk gets each as a piece of its own, which can halve the rate. */
    void *memory;
    size_t memory_size;
    const coffer__ring_calls *ring; /* other functions than the system's own, for tests; NULL: those */
} coffer__range_reader_options;

/* *reader is NULL after a failure, which is only one of memory. */
coffer_status coffer__range_reader_new(coffer__range_reader **reader, const coffer__range_reader_options *options,
                                       coffer_error *err);
/* Waits until nothing is in progress any more. Requests that were not reaped are the caller's again, in whatever state.
   NULL is ignored. */
void coffer__range_reader_free(coffer__range_reader *reader);
/* Takes a request, which stays where it is until it is reaped. Any number may be in progress. */
void coffer__range_reader_submit(coffer__range_reader *reader, coffer__request *request);
/* Whether another request of this file reader should be submitted before one is reaped. That depends on how many are in
   progress: one for an engine that is not asynchronous, else the file reader's depth, which doubles as long as reading
   becomes faster by it by at least 3 %, and stays within the reader's. */
bool coffer__range_reader_wants(const coffer__range_reader *reader, const coffer__file_reader *file_reader);
/* The longest gap between wanted bytes of this file reader that is worth reading, as what requests took so far tells.
   */
uint64_t coffer__range_reader_gap(const coffer__range_reader *reader, const coffer__file_reader *file_reader);
/* Whether requests to a source are dear from the beginning: COFFER__PACE_FAR. */
bool coffer__source_is_dear(const coffer__byte_source *source);
/* Gives back a request that is done, in any order, and says whether all of its bytes are there. *done NULL: none is in
   progress or, without `wait`, none was finished by the system meanwhile. A failure is that request's alone. */
coffer_status coffer__range_reader_reap(coffer__range_reader *reader, bool wait, coffer__request **done,
                                        coffer_error *err);

#endif
