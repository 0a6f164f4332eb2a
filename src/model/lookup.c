/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking things up in an open model. A single file's table answers by itself; several files have
 * lists over their tables.
 */
#include "model.h"

#include "pattern.h"
#include "sort.h"
#include "table.h"

/* These functions take no lock and cannot fail: all that they read is constant after open. `model`
   must not be NULL. */
size_t coffer_count(const coffer *model)
{
    return model->sharded == NULL ? coffer_table_count(model->shards->table) : model->sharded->count;
}

const coffer_tensor *coffer_at(const coffer *model, size_t i)
{
    const coffer__sharded *sharded = model->sharded;
    if (sharded == NULL) {
        return coffer_table_at(model->shards->table, i);
    }
    return i < sharded->count ? sharded->tensors[i] : NULL;
}

/* The hash is fixed, so the time is bounded by names.c and by the table, even for names that were
   made to collide. */
const coffer_tensor *coffer_find(const coffer *model, const char *name, size_t name_len)
{
    const coffer__sharded *sharded = model->sharded;
    if (sharded == NULL) {
        return coffer_table_find(model->shards->table, name, name_len);
    }
    const uint32_t found = coffer__names_find(&sharded->names, name, name_len);
    return found == COFFER__NO_NAME ? NULL : sharded->tensors[found];
}

bool coffer_match(const char *pattern, const char *name, size_t name_len)
{
    return coffer__pattern_matches(pattern, (coffer__name){ name, name_len });
}

bool coffer_match_list(const char *const *patterns, size_t count, const char *name, size_t name_len)
{
    return coffer__patterns_take(patterns, count, (coffer__name){ name, name_len });
}

/* Names are unique in a model, so the order is the same on every machine. */
static bool lookup_name_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__sharded *sharded = ctx;
    const coffer_tensor *first = sharded->tensors[a];
    const coffer_tensor *second = sharded->tensors[b];
    return coffer__compare_names(first->name, first->name_len, second->name, second->name_len) < 0;
}

/* `order` has space for coffer_count numbers. The sort works in place, so nothing is allocated and
   nothing can fail. */
void coffer_sort_by_name(const coffer *model, uint32_t *order)
{
    const coffer__sharded *sharded = model->sharded;
    if (sharded == NULL) {
        coffer_table_sort_by_name(model->shards->table, order);
        return;
    }
    for (size_t i = 0; i < sharded->count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, sharded->count, lookup_name_before, sharded);
}

size_t coffer_shard_count(const coffer *model)
{
    return model->shard_count;
}

const coffer_table *coffer_shard_table(const coffer *model, size_t shard)
{
    return shard < model->shard_count ? model->shards[shard].table : NULL;
}

uint64_t coffer_shard_size(const coffer *model, size_t shard)
{
    return shard < model->shard_count ? model->shards[shard].source.size : 0;
}

const char *coffer_shard_path(const coffer *model, size_t shard)
{
    const char *path = shard < model->shard_count ? model->shards[shard].path : NULL;
    return path == NULL ? "" : path;
}

uint64_t coffer_shard_holes(const coffer *model, size_t shard, uint64_t *first)
{
    return shard < model->shard_count ? coffer__source_holes(&model->shards[shard].source, first) : 0;
}

/* By integers, because comparing pointers into different blocks is undefined in C. */
static bool lookup_is_inside(const coffer__shard *shard, uintptr_t at)
{
    const uintptr_t block = (uintptr_t)shard->table;
    return at >= block && at - block < shard->table->block_size;
}

/* A binary search by address, for the last table that does not begin after the tensor. It compares
   addresses only: what does not lie in a table's block may not even be readable. Blocks do not
   overlap, so at most one can contain the address. A pointer into the block that is no tensor's is
   not found out; callers hand over what they were handed out. */
coffer__shard *coffer__model_shard(const coffer *model, const coffer_tensor *tensor)
{
    const uintptr_t at = (uintptr_t)tensor;
    size_t low = 0;
    size_t high = model->shard_count;
    while (high - low > 1) { /* several: the last table that does not begin after the tensor */
        const size_t middle = low + (high - low) / 2;
        const bool after = (uintptr_t)model->shards[model->sharded->by_address[middle]].table > at;
        *(after ? &high : &low) = middle;
    }
    coffer__shard *shard = &model->shards[model->sharded == NULL ? 0 : model->sharded->by_address[low]];
    return lookup_is_inside(shard, at) ? shard : NULL;
}
