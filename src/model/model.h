/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the one handle: a model is shards, and a shard is a source with the table that its header became.
 * Everything is immutable after open but the map, which is made when it is first asked for: `base` is set once, under
 * the lock.
 *
 * This version opens one file. Code that goes from a tensor to its bytes already goes by tensor->shard.
 */
#ifndef COFFER_MODEL_MODEL_H
#define COFFER_MODEL_MODEL_H

#include "coffer.h"
#include "os.h"
#include "source.h"

#include <stdatomic.h>

typedef struct coffer__shard {
    coffer__source source;
    coffer_table *table;
    char *path; /* as it was named; NULL when the shard was not opened by path */
    size_t path_size;
    coffer_access access;
    bool populate;
    uint64_t phase;          /* where byte 0 stands, or would stand, in memory, modulo the alignment of any dtype */
    _Atomic(uint8_t *) base; /* byte 0 in memory; NULL: not mapped (yet) */
    coffer__mutex lock;      /* held while mapping */
    coffer_error map_error;  /* why there will be no map; code COFFER_OK: none was tried */
} coffer__shard;

struct coffer {
    coffer_allocator allocator;
    size_t shard_count;
    coffer__shard *shards;
};

/* The shard of a tensor; NULL when the tensor is not one that this model handed out. */
coffer__shard *coffer__model_shard(const coffer *model, const coffer_tensor *tensor);
/* Fails because coffer__model_shard found none, or because the model or tensor is NULL. */
coffer_status coffer__model_stranger(coffer_error *err);
/* Adds to an error what is known of where it happened. */
coffer_status coffer__model_fail(coffer_error *err, coffer_status status, const coffer__shard *shard,
                                 const coffer_tensor *tensor);
/* The shard's byte 0 in memory, mapped by the first call; NULL, with *err filled, when there is no map. */
uint8_t *coffer__shard_base(coffer__shard *shard, coffer_error *err);

#endif
