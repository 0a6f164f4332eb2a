/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of digests: rows whose bytes are hashed as they come, so that what is read and verified is gone over once. A digest cannot
 * be split, so such a row belongs to one worker; the longest come first, so that none of them is left alone with one at the end.
 */
#ifndef COFFER_TRANSFER_DIGEST_H
#define COFFER_TRANSFER_DIGEST_H

#include "fill.h"

#define COFFER__DIGEST_ALGORITHMS (COFFER_XXH3_128 + 1)

/* The hashers of one worker, of each algorithm that rows ask for. */
typedef struct coffer__hashers {
    coffer_hasher *of[COFFER__DIGEST_ALGORITHMS];
} coffer__hashers;

/* The rows that have a digest. */
typedef struct coffer__streams {
    const coffer__row *rows;
    size_t count;
    uint32_t *order; /* numbers of rows, the longest first; NULL: there are none */
    size_t order_size;
    uint64_t total; /* bytes */
    size_t next;    /* in the order */
} coffer__streams;

/* Finds them. The rows stay where they are until the end. */
coffer_status coffer__streams_begin(coffer__streams *streams, const coffer__row *rows, size_t count,
                                    const coffer_allocator *allocator, coffer_error *err);
void coffer__streams_end(coffer__streams *streams, const coffer_allocator *allocator);
/* Takes the next one; NULL when there is none. */
const coffer__row *coffer__streams_next(coffer__streams *streams);
/* Threads that are worth while, the caller's included; 0 without rows. */
size_t coffer__streams_threads(const coffer__streams *streams, uint32_t wanted);
/* Bytes of scratch memory that a worker needs: 0 when all bytes go elsewhere. */
size_t coffer__streams_scratch(const coffer__streams *streams);

/* What fails has made some of them; they are freed either way. */
coffer_status coffer__hashers_make(coffer__hashers *hashers, const coffer__streams *streams,
                                   const coffer_allocator *allocator, coffer_error *err);
void coffer__hashers_free(coffer__hashers *hashers);

/* Brings and hashes a row, and counts its bytes. It ends early, without an error of its own, when the crew stops. */
coffer_status coffer__digest_row(const coffer__filler *worker, const coffer__hashers *hashers, const coffer__row *row,
                                 coffer_error *err);

#endif
