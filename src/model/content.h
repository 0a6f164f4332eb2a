/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of a whole model, which its index records in its metadata: that of its content (record.h), and that of the content of
 * each file by itself. Both follow from the lists of digests that the files record, in which those of the tensors stand in byte
 * order of their names, so that comparing them reads no data: a list that is not the file's, or a file that is not the index's,
 * is of another version. The texts are those of record.h; the order of the files' digests carries nothing.
 */
#ifndef COFFER_MODEL_CONTENT_H
#define COFFER_MODEL_CONTENT_H

#include "coffer.h"

typedef struct coffer__content {
    coffer_allocator allocator;
    coffer_algorithm algorithm;
    size_t count;    /* of files */
    uint8_t *shards; /* their digests, one after the other */
    uint8_t digest[COFFER_LARGEST_DIGEST_SIZE];
} coffer__content;

/* What the digest of a content begins with; then come the digests of `count` tensors, in byte order of their names. */
coffer_status coffer__content_begin(coffer_hasher *hasher, uint64_t count, coffer_error *err);

/* Digests of nothing yet, for `count` files. */
coffer_status coffer__content_new(coffer__content *content, coffer_algorithm algorithm, size_t count,
                                  const coffer_allocator *allocator, coffer_error *err);
/* The digests of a model, from what its files record by one algorithm. COFFER_ERR_NO_DIGESTS, COFFER_ERR_DIGESTS with the path. */
coffer_status coffer__content_compute(coffer__content *content, const coffer *model, coffer_error *err);
void coffer__content_free(coffer__content *content);

/* Holds what the files record against what the index does, if it records anything: COFFER_ERR_CONTENT_DIGEST with the path. */
coffer_status coffer__content_check(const coffer *model, coffer_error *err);

#endif
