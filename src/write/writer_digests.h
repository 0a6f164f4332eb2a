/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digests that a writer records: computed while pieces come, and filled in before the file is published. The
 * pieces of a tensor are hashed as they come, as long as they come in order. When one does not, the tensor is read
 * again from the sink at the end, which the sink must be able to do. The header has space for all digests from the
 * beginning and is written last.
 *
 * The functions with `claim`, `release` and `set` in their names are called with the writer's mutex held.
 */
#ifndef COFFER_WRITE_WRITER_DIGESTS_H
#define COFFER_WRITE_WRITER_DIGESTS_H

#include "coffer.h"
#include "sink.h"

typedef struct coffer__writer_digest coffer__writer_digest;

typedef struct coffer__writer_digests {
    coffer_allocator allocator;
    coffer_algorithm algorithm; /* COFFER_NO_ALGORITHM: none are recorded, and nothing here is called */
    const coffer_header *header;
    size_t count;
    coffer__writer_digest *tensors; /* by the number of their declaration */
    coffer_hasher *spare;           /* one that is not in use; or NULL */
} coffer__writer_digests;

/* Makes sure that the header has space for digests; fails if it was built without. */
coffer_status coffer__writer_digests_reserve(coffer_header *header, coffer_algorithm algorithm, coffer_error *err);
/* Begins, with a header that is built. A sink that takes its bytes in order only is refused. */
coffer_status coffer__writer_digests_init(coffer__writer_digests *digests, const coffer_header *header,
                                          coffer_algorithm algorithm, const coffer__byte_sink *sink,
                                          const coffer_allocator *allocator, coffer_error *err);
void coffer__writer_digests_free(coffer__writer_digests *digests);

/* Sets *hasher to what a piece of tensor `i` from `offset` on is to be hashed with. It is the caller's alone until
   release. It is NULL for a piece that is out of order. Fails if order is needed because the sink cannot be read
   back. */
coffer_status coffer__writer_digests_claim(coffer__writer_digests *digests, const coffer__byte_sink *sink, size_t i,
                                           uint64_t offset, coffer_hasher **hasher, coffer_error *err);
coffer_status coffer__writer_digests_release(coffer__writer_digests *digests, size_t i, uint64_t size,
                                             coffer_error *err);
/* Sets the digest of a tensor's data, which the caller has computed. */
void coffer__writer_digests_set(coffer__writer_digests *digests, size_t i, const uint8_t *data);

/* Computes what is missing, and makes the header with all digests in it: `size` bytes, as many as the built one, to
   `bytes`. */
coffer_status coffer__writer_digests_finish(coffer__writer_digests *digests, coffer__byte_sink *sink,
                                            const coffer_table *table, const uint8_t *built, uint8_t *bytes,
                                            size_t size, coffer_error *err);

#endif
