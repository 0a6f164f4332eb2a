/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of a whole model, which its index records in its metadata: that of its content
 * (record.h), and that of the content of each file by itself. Both follow from the lists of digests
 * that the files record, in which the tensors are in byte order of their names. So comparing them
 * reads no data: a list that does not belong to the file, or a file that does not belong to the
 * index, is of another version. The texts are those of record.h; the order of the files' digests
 * means nothing.
 */
#ifndef COFFER_MODEL_CONTENT_H
#define COFFER_MODEL_CONTENT_H

#include "coffer.h"

/* Digests of one model by one algorithm. `shards` has COFFER_LARGEST_DIGEST_SIZE bytes for each
   file, of which the algorithm's digest size is used; digests follow each other without a gap. */
typedef struct coffer__content {
    coffer_allocator allocator;
    coffer_algorithm algorithm;
    size_t count;    /* of files */
    uint8_t *shards; /* their digests, one after the other */
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE];
} coffer__content;

/* What the digest of a content begins with; then come the digests of `count` tensors, in byte order
   of their names. The hasher is new or finished. The caller then updates it with the records and
   finishes it. */
coffer_status coffer__content_begin(coffer_hasher *hasher, uint64_t count, coffer_error *err);

/* Makes space for the digests of `count` files, all zero. */
coffer_status coffer__content_new(coffer__content *content, coffer_algorithm algorithm, size_t count,
                                  const coffer_allocator *allocator, coffer_error *err);
/* Computes the digests of a model from what its files record, all by one algorithm.
   COFFER_ERR_NO_DIGESTS, COFFER_ERR_DIGESTS with the path. */
coffer_status coffer__content_compute(coffer__content *content, const coffer *model, coffer_error *err);
/* Allowed after any failure of the two above, and more than once. */
void coffer__content_free(coffer__content *content);

/* Compares what the files record with what the index does, if that records anything:
   COFFER_ERR_CONTENT_DIGEST with the path. Reads no tensor. COFFER_OK if the model has no index, or
   one that records nothing. */
coffer_status coffer__content_check(const coffer *model, coffer_error *err);

#endif
