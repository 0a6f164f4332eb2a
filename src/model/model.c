/* SPDX-License-Identifier: Apache-2.0 */
/* Making a model and releasing it: see model.h. */
#include "model.h"

#include "alloc.h"
#include "error.h"
#include "lazy_verify_marks.h"
#include "text.h"
#include "web.h"

#include <string.h>

/* How many descriptors are kept open: more than threads that read at once, and few of those a
   process may have. */
#define MODEL_DESCRIPTORS 64u

static coffer_status model_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model");
}

/* ---- of one file ------------------------------------------------------------------------------------------------- */

/* The source is taken over in any case: by the shard, or by closing it. Model and shard are two
   blocks, so that a shard looks the same whether it is the only one or one of many. The options'
   allocator is copied: the caller's struct need not outlive this call. */
coffer *coffer__model_of_source(coffer__byte_source *source, const coffer_open_options *options, coffer_error *err)
{
    coffer *made = coffer__alloc_zeroed(options->allocator, sizeof *made);
    coffer__shard *shard = coffer__alloc_zeroed(options->allocator, sizeof *shard);
    if (made == NULL || shard == NULL || coffer__os_mutex_init(&shard->lock) != 0) {
        coffer__free(options->allocator, made, sizeof *made);
        coffer__free(options->allocator, shard, sizeof *shard);
        source->ops->close(source);
        (void)model_no_memory(err);
        return NULL;
    }
    made->allocator = *options->allocator;
    made->shard_count = 1;
    made->shards = shard;
    shard->source = *source;
    shard->access = options->access;
    shard->populate = options->populate;
    return made;
}

/* ---- of several -------------------------------------------------------------------------------------------------- */

/* NULL without memory. The pool and everything else in it use the allocator that takes turns, so
   that is made first and ended last. The struct itself comes from the caller's allocator directly,
   since the one that takes turns lives in it. */
static coffer__sharded *model_sharded_new(const coffer_allocator *allocator)
{
    coffer__sharded *sharded = coffer__alloc_zeroed(allocator, sizeof *sharded);
    if (sharded == NULL) {
        return NULL;
    }
    sharded->names.allocator = &sharded->allocator;
    if (!coffer__locked_allocator_open(&sharded->turns, allocator, &sharded->allocator)) {
        coffer__free(allocator, sharded, sizeof *sharded);
        return NULL;
    }
    if (coffer__pool_init(&sharded->pool, MODEL_DESCRIPTORS, &sharded->allocator) != 0) {
        coffer__locked_allocator_close(&sharded->turns);
        coffer__free(allocator, sharded, sizeof *sharded);
        return NULL;
    }
    return sharded;
}

/* No shard exists yet, and coffer_close accepts such a model. */
coffer *coffer__model_of_shards(const coffer_allocator *allocator, coffer_error *err)
{
    coffer *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL) {
        (void)model_no_memory(err);
        return NULL;
    }
    made->sharded = model_sharded_new(allocator);
    if (made->sharded == NULL) {
        coffer__free(allocator, made, sizeof *made);
        (void)model_no_memory(err);
        return NULL;
    }
    made->allocator = *allocator;
    return made;
}

/* Makes zeroed shards with their locks, or none: coffer_close releases as many as shard_count says,
   and only locks that were made may be destroyed. */
coffer_status coffer__model_make_shards(coffer *model, size_t count, coffer_error *err)
{
    model->shards = coffer__alloc_array(&model->sharded->allocator, count, sizeof *model->shards, err);
    if (model->shards == NULL) {
        return COFFER_ERR_MEMORY;
    }
    size_t made = 0;
    while (made < count && coffer__os_mutex_init(&model->shards[made].lock) == 0) {
        made++;
    }
    if (made == count) {
        model->shard_count = count;
        return COFFER_OK;
    }
    while (made > 0) {
        coffer__os_mutex_close(&model->shards[--made].lock);
    }
    coffer__free_array(&model->sharded->allocator, model->shards, count, sizeof *model->shards);
    model->shards = NULL;
    return model_no_memory(err);
}

/* Several files have kept their place since they were opened. For one file it is found now, as few
   callers need it. A commit that does not fit would have been refused when it was read. The model
   must have a path, or come from a URL. */
coffer_status coffer__model_dir_of(const coffer *model, coffer__model_dir *place, coffer_error *err)
{
    if (model->sharded != NULL) {
        *place = model->sharded->place;
        return COFFER_OK;
    }
    memset(place, 0, sizeof *place);
    place->web = model->web;
    const char *commit = coffer__source_commit(&model->shards->source);
    (void)coffer__text_append(place->commit, sizeof place->commit, commit, coffer__text_len(commit));
    return coffer__model_dir_beside(place, model->shards->path, err);
}

/* ---- releasing --------------------------------------------------------------------------------------------------- */

/* by_address has an item for every shard, which is why shard_count is still set. The turns end
   last, because all of the above is freed through them. */
static void model_sharded_free(coffer *model)
{
    coffer__sharded *sharded = model->sharded;
    if (sharded == NULL) {
        return;
    }
    coffer__names_free(&sharded->names);
    coffer__free_array(&sharded->allocator, sharded->tensors, sharded->count + sharded->superseded,
                       COFFER__LISTED_SIZE);
    coffer__free(&sharded->allocator, sharded->extra, sharded->extra_size);
    coffer__free(&sharded->allocator, sharded->metadata, sharded->metadata_len);
    coffer__free(&sharded->allocator, sharded->index_path, sharded->index_path_size);
    coffer__whole_free(&sharded->index, &sharded->allocator);
    coffer__free_array(&sharded->allocator, sharded->by_address, model->shard_count, sizeof *sharded->by_address);
    coffer__pool_close(&sharded->pool);
    coffer__locked_allocator_close(&sharded->turns);
    coffer__free(&model->allocator, sharded, sizeof *sharded);
}

/* Shards go first: their sources use the pool, and their memory comes from the allocator that
   `several` holds. The client of a URL goes after all sources that use it. */
void coffer_close(coffer *model)
{
    if (model == NULL) {
        return;
    }
    /* Copied, because the model itself is freed with it. */
    const coffer_allocator allocator = model->allocator;
    const coffer_allocator *shared = model->sharded == NULL ? &allocator : &model->sharded->allocator;
    /* The copy of a tensor that was verified (lazy_verify_marks.h) belongs to the first shard and is freed
       with it. */
    for (size_t i = 0; i < model->shard_count; i++) {
        coffer__lazy_verify_free(&model->shards[i], shared);
        coffer__shard_close(&model->shards[i], shared);
    }
    coffer__free_array(shared, model->shards, model->shard_count, sizeof *model->shards);
    model_sharded_free(model);
    coffer__web_free(model->web);
    coffer__listing_free(&model->listing, &allocator);
    coffer__free(&allocator, model, sizeof *model);
}
