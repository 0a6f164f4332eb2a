/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan → bytes: the one way to move them. A plan is ops. Each op takes bytes of a source, contiguous
 * or a box of them, through stages:
 *
 *   fill.h      reads or copies them, and gathers runs that are scattered
 *   digest.h    hashes them on the way, where the op asks for a digest
 *   change.h    swaps bytes and changes signs, where the op asks for that; on an output target only
 *
 * The bytes end up in the program's memory, when the op has a place there, or on an output target
 * (output target.h), which receives them through memory.
 *
 * One executor carries ops out, with several threads for each call. It cuts the ops into chunks of
 * a few MiB, which the workers take in order. A op with a digest is one chunk, since a digest cannot
 * be computed in parts.
 *
 * Memory, allocated once per call and in one block; none for a read that one worker carries out
 * without scratch memory or tiles, as most small reads are:
 *
 *   256 KiB per worker    scratch, 2 MiB where a source is far; none where all runs are long or all
 *                         sources are in memory
 *   32 MiB in total       for tiles, and only where a box is transposed (tile.h); one tile that is
 *                         larger than that is still allocated, because nothing works without it
 */
#ifndef COFFER_TRANSFER_TRANSFER_H
#define COFFER_TRANSFER_TRANSFER_H

#include "coffer.h"
#include "tile.h"
#include "transfer_op.h"

/* Memory that one transfer leaves to the next, so that many in a op do not ask the system for fresh pages each time.
   Zero at first; whoever has it ends it with coffer__transfer_free. */
typedef struct coffer__transfer_kept {
    void *block;
    size_t size;
} coffer__transfer_kept;

typedef struct coffer__transfer_options {
    const coffer_allocator *allocator; /* called only by the thread that calls coffer__transfer */
    coffer_progress progress;          /* NULL: none */
    void *progress_ctx;
    uint32_t threads;                 /* 0: by size and processors */
    const coffer__tile_limits *tiles; /* for transposed boxes; NULL: the limits that suit each source */
    coffer__transfer_kept *kept;      /* NULL: memory is allocated and freed by each transfer */
    size_t *failed; /* set to the number of the op that failed, if the failure is about a op; may be NULL */
} coffer__transfer_options;

/* Carries out `count` ops and returns when every byte is in place. The ops, their boxes and their
   sources must stay unchanged until then, and places must not overlap: workers write to them at the
   same time, without a lock. The progress callback runs on the calling thread only. After a failure
   the contents of places and digests are undefined, because other chunks may have been finished. */
coffer_status coffer__transfer(const coffer__transfer_op *ops, size_t count, const coffer__transfer_options *options,
                               coffer_error *err);
/* Frees what transfers with this allocator have kept. */
void coffer__transfer_free(coffer__transfer_kept *kept, const coffer_allocator *allocator);

#endif
