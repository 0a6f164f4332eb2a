/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of digests: ops whose bytes are hashed as they arrive, so that reading and verifying pass
 * over the bytes once. A digest cannot be computed in parts, so such a op (a stream) belongs to one
 * worker. The longest streams start first. Otherwise one worker could begin the longest when all others
 * are done, and the call would take that much longer.
 */
#ifndef COFFER_TRANSFER_DIGEST_H
#define COFFER_TRANSFER_DIGEST_H

#include "fill.h"

#define COFFER__DIGEST_ALGORITHMS (COFFER_XXH3_128 + 1)

/* The hashers of one worker, by algorithm; NULL for those that no op asks for. Finishing a digest resets
   its hasher, so each serves all ops of the worker. */
typedef struct coffer__hashers {
    coffer_hasher *of[COFFER__DIGEST_ALGORITHMS];
} coffer__hashers;

/* The ops that have a digest. */
typedef struct coffer__streams {
    const coffer__transfer_op *ops;
    size_t count;
    uint32_t *order; /* numbers of ops, the longest first; NULL: there are none */
    size_t order_size;
    uint64_t total; /* bytes */
    size_t next;    /* in the order */
} coffer__streams;

/* Finds the ops with a digest and orders them. The ops stay where they are until coffer__streams_free,
   which follows whether this succeeds or fails. */
coffer_status coffer__streams_begin(coffer__streams *streams, const coffer__transfer_op *ops, size_t count,
                                    const coffer_allocator *allocator, coffer_error *err);
void coffer__streams_free(coffer__streams *streams, const coffer_allocator *allocator);
/* Takes the next one; NULL when there is none. Not locked: the caller holds the thread pool's mutex. */
const coffer__transfer_op *coffer__streams_next(coffer__streams *streams);
/* How many threads are worth starting, the caller's included; 0 without ops. */
size_t coffer__streams_threads(const coffer__streams *streams, uint32_t wanted);
/* Bytes of scratch memory that each worker needs: 0 when all bytes are mapped or have a place. */
size_t coffer__streams_scratch(const coffer__streams *streams);

/* Makes the hashers that the ops need. On failure some are made; coffer__hashers_free frees what there is. */
coffer_status coffer__hashers_make(coffer__hashers *hashers, const coffer__streams *streams,
                                   const coffer_allocator *allocator, coffer_error *err);
void coffer__hashers_free(coffer__hashers *hashers);

/* Fetches and hashes a op, and counts its bytes. When the thread pool stops it returns COFFER_OK early,
   without a digest: the failure that stopped the thread pool is already recorded, and is the answer of the
   call. */
coffer_status coffer__digest_op(const coffer__filler *worker, const coffer__hashers *hashers,
                                const coffer__transfer_op *op, coffer_error *err);

#endif
