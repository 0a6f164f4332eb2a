/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a shard records of its tensors, and which of them were verified against it: a mark for each,
 * set by any thread.
 */
#ifndef COFFER_MODEL_LAZY_VERIFY_MARKS_H
#define COFFER_MODEL_LAZY_VERIFY_MARKS_H

#include "coffer.h"
#include "shard.h"

/* The verified copy of a tensor of an unstable source. */
struct coffer__verified {
    const coffer_tensor *tensor;
    size_t users; /* guarded by the lock of the model's first shard; the model itself is one */
    size_t size;  /* of this block */
    uint8_t bytes[];
};

/* Reads what the file records, if `verify` asks for that, and verifies its metadata.
   coffer__lazy_verify_free follows in any case. */
coffer_status coffer__lazy_verify_begin(coffer__shard *shard, coffer_verifying verify,
                                        const coffer_allocator *allocator, coffer_error *err);
void coffer__lazy_verify_free(coffer__shard *shard, const coffer_allocator *allocator);

/* Whether the tensors of a shard are verified every time they are read, because its source may
   answer differently another time. False for a model that is not opened to verify. */
bool coffer__lazy_verify_is_unstable(const coffer__shard *shard);
/* Whether a tensor has yet to be verified; always true for one of an unstable source. */
bool coffer__lazy_verify_is_due(const coffer__shard *shard, const coffer_tensor *tensor);
/* Marks a tensor as verified. The shard must have marks. May be called by several threads for one
   tensor. */
void coffer__lazy_verify_mark(const coffer__shard *shard, const coffer_tensor *tensor);

#endif
