/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one model of several files whose headers are read: one list of tensors in order of (shard,
 * offset), an index of their names, and the shards in order of the addresses of their tables, which
 * tells the shard of a tensor. Nothing is read here.
 */
#include "alloc.h"
#include "error.h"
#include "sharded.h"
#include "sort.h"
#include "table.h"

static coffer_status join_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model");
}

static coffer__name join_name_of(const void *ctx, uint32_t item)
{
    const coffer_tensor *tensor = ((const coffer__sharded *)ctx)->tensors[item];
    return (coffer__name){ tensor->name, tensor->name_len };
}

/* Tensor `k` of a table, after its shard was written into it. That is the only change to a table
   after parsing; it is safe because no other thread has seen the table yet. The numbers in a
   table's order count in units of 8 bytes from its beginning. The table is this model's, so writing
   to it is allowed although others hand it out as constant. */
static const coffer_tensor *join_number(coffer_table *table, size_t k, uint32_t shard)
{
    const uint32_t *order = (const uint32_t *)(const void *)((const char *)table + table->order_at);
    coffer__entry *entry = (coffer__entry *)(void *)((char *)table + (size_t)order[k] * 8);
    entry->tensor.shard = shard;
    return &entry->tensor;
}

/* Lists the tensors that the tables have, in order of (shard, offset): each table has its own in order of offset. */
static void join_fill(coffer *model)
{
    coffer__sharded *sharded = model->sharded;
    size_t at = 0;
    for (size_t i = 0; i < model->shard_count; i++) {
        coffer_table *table = model->shards[i].table;
        for (size_t k = 0; k < table->count; k++) {
            sharded->tensors[at++] = join_number(table, k, (uint32_t)i);
        }
    }
    sharded->count = at;
}

/* Lists all tensors and numbers their shards. */
static coffer_status join_list(coffer *model, coffer_error *err)
{
    coffer__sharded *sharded = model->sharded;
    uint64_t count = 0;
    for (size_t i = 0; i < model->shard_count; i++) {
        count += coffer_table_count(model->shards[i].table);
    }
    /* The index of names numbers them in 32 bits, with twice as many slots. */
    if (count > UINT32_MAX / 2) {
        return join_no_memory(err);
    }
    sharded->tensors = coffer__alloc_array(&sharded->allocator, (size_t)count, COFFER__LISTED_SIZE, err);
    if (sharded->tensors == NULL) {
        return COFFER_ERR_MEMORY;
    }
    join_fill(model);
    return COFFER_OK;
}

/* Two files have a tensor of that name. Which other file has it is looked for only now, by one
   look-up for each file. It runs once, on the way to a failure. The lower shard is named as the
   other one. */
static coffer_status join_in_two(const coffer *model, const coffer_tensor *second, coffer_error *err)
{
    const coffer_tensor *first = second;
    for (size_t i = 0; first == second && i < second->shard; i++) {
        const coffer_tensor *found = coffer_table_find(model->shards[i].table, second->name, second->name_len);
        first = found == NULL ? second : found;
    }
    coffer__fail(err, COFFER_ERR_TWO_SHARDS, "the tensor %q is in two files of the model; the other one is %p",
                 second->name, (size_t)second->name_len, model->shards[first->shard].path);
    return coffer__model_fail(err, COFFER_ERR_TWO_SHARDS, &model->shards[second->shard], second);
}

/* Indexes the names of all tensors, and tells the first that comes twice. A name within one file is unique already (the
   parser), so two equal ones are in two files. The index of names refers to `several`, which does not move. */
static coffer_status join_index_names(coffer *model, uint32_t *twice, coffer_error *err)
{
    coffer__sharded *sharded = model->sharded;
    sharded->names = (coffer__names){ &sharded->allocator, join_name_of, sharded, sharded->count, 0, NULL, NULL };
    return coffer__names_build(&sharded->names, twice, err);
}

/* ---- what another file has instead ------------------------------------------------------------------------------- */

/* Whether the index says that the tensor is in another file, which has it, or is not open. If that file has none, index
   and files do not belong together, which coffer__sharded_compare tells. */
static bool join_is_superseded(const coffer *model, const coffer__model_index *index, const coffer_tensor *tensor)
{
    const uint32_t item = coffer__names_find(&index->names, tensor->name, tensor->name_len);
    const uint32_t shard = item == COFFER__NO_NAME ? tensor->shard : index->entries[item].shard;
    return shard != tensor->shard &&
           (shard == COFFER__INDEX_LEFT_OUT ||
            coffer_table_find(model->shards[shard].table, tensor->name, tensor->name_len) != NULL);
}

/* Leaves superseded tensors out of their tables, and so out of everything that is done with the model. A name that is
   not in the index stays twice. The copy that counts is never marked, so it is found whatever was marked before. */
static void join_leave_out(coffer *model, const coffer__model_index *index)
{
    coffer__sharded *sharded = model->sharded;
    for (size_t i = 0; i < model->shard_count; i++) {
        coffer_table *table = model->shards[i].table;
        for (size_t k = 0; k < table->count; k++) {
            if (join_is_superseded(model, index, coffer_table_at(table, k))) {
                (void)join_number(table, k, COFFER__LEFT_OUT);
                sharded->superseded++;
            }
        }
    }
    for (size_t i = 0; sharded->superseded > 0 && i < model->shard_count; i++) {
        coffer__table_leave_out(model->shards[i].table);
    }
}

/* Indexes the names, of which none may come twice. Most models have no superseded tensors, and do not look for any. Of
   files that were left out nobody can tell whether they have what is in others, so then all tensors are looked at. */
static coffer_status join_name_all(coffer *model, const coffer__model_index *index, coffer_error *err)
{
    uint32_t twice = COFFER__NO_NAME;
    coffer__sharded *sharded = model->sharded;
    coffer_status status = join_index_names(model, &twice, err);
    if (status == COFFER_OK && index != NULL && (twice != COFFER__NO_NAME || index->shard_count < index->file_count)) {
        coffer__names_free(&sharded->names);
        join_leave_out(model, index);
        join_fill(model);
        status = join_index_names(model, &twice, err);
    }
    return status == COFFER_OK && twice != COFFER__NO_NAME ? join_in_two(model, sharded->tensors[twice], err) : status;
}

static bool join_address_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer *model = ctx;
    return (uintptr_t)model->shards[a].table < (uintptr_t)model->shards[b].table;
}

/* Sorts the shards by the addresses of their tables. A tensor lies in the block of its shard's
   table, so coffer__model_shard finds the shard by the tensor's address, and a pointer that is not
   one of this model's is found out without being read. Addresses differ from run to run, so nothing
   that a user sees may depend on this order. */
static coffer_status join_order_addresses(coffer *model, coffer_error *err)
{
    uint32_t *order = coffer__alloc_array(&model->sharded->allocator, model->shard_count, sizeof *order, err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < model->shard_count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, model->shard_count, join_address_before, model);
    model->sharded->by_address = order;
    return COFFER_OK;
}

/* On failure the lists stay with the model, and coffer_close releases them. */
coffer_status coffer__sharded_join(coffer *model, const coffer__model_index *index, coffer_error *err)
{
    coffer_status status = join_list(model, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = join_order_addresses(model, err);
    return status == COFFER_OK ? join_name_all(model, index, err) : status;
}

/* ---- what the index says ----------------------------------------------------------------------------------------- */

/* There are two messages because there are two remedies: the wrong file, or the wrong index. */
static coffer_status join_not_there(const coffer *model, const coffer__index_entry *entry, const coffer_tensor *found,
                                    coffer_error *err)
{
    if (found == NULL) {
        coffer__fail_at(err, COFFER_ERR_NOT_IN_SHARD, entry->position,
                        "at byte %u, the index names the tensor %q, which its file %q does not have: index and file "
                        "belong to different models, or to different versions of one",
                        (uint64_t)entry->position, entry->name.text, entry->name.len, entry->file.text,
                        entry->file.len);
    } else {
        coffer__fail_at(err, COFFER_ERR_NOT_IN_SHARD, entry->position,
                        "at byte %u, the index says that the tensor %q is in %q, but it is in %p",
                        (uint64_t)entry->position, entry->name.text, entry->name.len, entry->file.text, entry->file.len,
                        model->shards[found->shard].path);
    }
    return coffer__fail_tensor(err, COFFER_ERR_NOT_IN_SHARD, entry->name.text, entry->name.len);
}

/* Every entry of the index must be a tensor of the file that it names. Tensors that the index does
   not name are only noted (notes.c). One look-up for each entry, in expected constant time. */
coffer_status coffer__sharded_compare(const coffer *model, const coffer__model_index *index, coffer_error *err)
{
    for (size_t i = 0; i < index->count; i++) {
        const coffer__index_entry *entry = &index->entries[i];
        if (entry->shard == COFFER__INDEX_LEFT_OUT) {
            continue;
        }
        const coffer_tensor *found = coffer_find(model, entry->name.text, entry->name.len);
        if (found == NULL || found->shard != entry->shard) {
            return join_not_there(model, entry, found, err);
        }
    }
    return COFFER_OK;
}
