/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several files as one model: their headers are read by several threads, then what they say is put together, and compared with
 * what the index says. Which failure is reported does not depend on chance: that of the first shard that has one.
 */
#include "model.h"

#include "alloc.h"
#include "content.h"
#include "error.h"
#include "index.h"
#include "missing.h"
#include "sort.h"
#include "table.h"
#include "waiting.h"
#include "web.h"

#include <string.h>

/* Reading a header is waiting, on a network file system most of all, so processors do not bound it. */
#define SEVERAL_THREADS 16u
/* Behind a URL it is nothing but waiting, so that most models are asked for all of their files at once: each turn less is a
   journey less. A connection takes three descriptors, and half of those that the process may have are left to it. */
#define SEVERAL_THREADS_FAR 192u
#define SEVERAL_DESCRIPTORS_FAR 6u
/* Descriptors that are kept open: more than threads that read at once, and a fraction of what any process may have. */
#define SEVERAL_DESCRIPTORS 64u
/* So often a model is opened that somebody replaces meanwhile. */
#define SEVERAL_MOST_ROUNDS 16u
#define SEVERAL_ITEM_SIZE sizeof(const coffer_tensor *) /* of the list of tensors */

static coffer_status several_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model");
}

/* ---- an allocator for one thread at a time ----------------------------------------------------------------------- */

static void *turns_alloc(void *ctx, size_t size)
{
    coffer__taking_turns *turns = ctx;
    coffer__os_mutex_lock(&turns->lock);
    void *block = turns->allocator.alloc(turns->allocator.ctx, size);
    coffer__os_mutex_unlock(&turns->lock);
    return block;
}

static void *turns_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    coffer__taking_turns *turns = ctx;
    coffer__os_mutex_lock(&turns->lock);
    void *grown = turns->allocator.realloc(turns->allocator.ctx, block, old_size, new_size);
    coffer__os_mutex_unlock(&turns->lock);
    return grown;
}

static void turns_free(void *ctx, void *block, size_t size)
{
    coffer__taking_turns *turns = ctx;
    coffer__os_mutex_lock(&turns->lock);
    turns->allocator.free(turns->allocator.ctx, block, size);
    coffer__os_mutex_unlock(&turns->lock);
}

bool coffer__turns_begin(coffer__taking_turns *turns, const coffer_allocator *allocator, coffer_allocator *shared)
{
    turns->allocator = *allocator;
    *shared = (coffer_allocator){ turns_alloc, turns_realloc, turns_free, turns };
    return coffer__os_mutex_init(&turns->lock) == 0;
}

void coffer__turns_end(coffer__taking_turns *turns)
{
    coffer__os_mutex_deinit(&turns->lock);
}

/* ---- making and releasing ---------------------------------------------------------------------------------------- */

static coffer__several *several_new(const coffer_allocator *allocator)
{
    coffer__several *several = coffer__alloc_zeroed(allocator, sizeof *several);
    if (several == NULL) {
        return NULL;
    }
    several->names.allocator = &several->allocator;
    if (!coffer__turns_begin(&several->turns, allocator, &several->allocator)) {
        coffer__free(allocator, several, sizeof *several);
        return NULL;
    }
    if (coffer__pool_init(&several->pool, SEVERAL_DESCRIPTORS, &several->allocator) != 0) {
        coffer__turns_end(&several->turns);
        coffer__free(allocator, several, sizeof *several);
        return NULL;
    }
    return several;
}

void coffer__several_free(coffer *model)
{
    coffer__several *several = model->several;
    if (several == NULL) {
        return;
    }
    coffer__names_free(&several->names);
    coffer__free(&several->allocator, several->tensors, several->count * SEVERAL_ITEM_SIZE);
    coffer__free(&several->allocator, several->extra, several->extra_size);
    coffer__free(&several->allocator, several->metadata, several->metadata_len);
    coffer__free(&several->allocator, several->index_path, several->index_path_size);
    coffer__place_forget(&several->index, &several->allocator);
    coffer__free(&several->allocator, several->by_address, model->shard_count * sizeof *several->by_address);
    coffer__pool_deinit(&several->pool);
    coffer__turns_end(&several->turns);
    coffer__free(&model->allocator, several, sizeof *several);
}

static coffer *several_new_model(const coffer_allocator *allocator, coffer_error *err)
{
    coffer *made = coffer__alloc_zeroed(allocator, sizeof *made);
    coffer__several *several = several_new(allocator);
    if (made == NULL || several == NULL) {
        coffer__free(allocator, made, sizeof *made);
        if (several != NULL) {
            coffer__pool_deinit(&several->pool);
            coffer__turns_end(&several->turns);
            coffer__free(allocator, several, sizeof *several);
        }
        (void)several_no_memory(err);
        return NULL;
    }
    made->allocator = *allocator;
    made->several = several;
    return made;
}

/* ---- opening shards ---------------------------------------------------------------------------------------------- */

typedef struct several_job {
    coffer *model;
    const coffer__index_shard *files;
    const coffer_open_options *options;
    coffer__waiting waiting; /* whose lock guards what follows; it counts shards */
    size_t next;             /* the shard that is taken next */
    size_t failed;           /* the first that could not be opened, … */
    coffer_error error;      /* … and why */
} several_job;

static coffer_status several_open_shard(const several_job *job, size_t i, coffer_error *err)
{
    coffer__several *several = job->model->several;
    coffer__shard *shard = &job->model->shards[i];
    const coffer__name file = job->files[i].file;
    coffer_status status = coffer__place_open(&several->place, file, &several->allocator, &several->pool,
                                              &shard->pooled, &shard->source, err);
    if (status != COFFER_OK) {
        shard->source.ops = NULL;
        return status;
    }
    shard->access = job->options->access;
    shard->populate = job->options->populate;
    status = coffer__shard_read_header(shard, shard->pooled.path, &several->allocator, job->options, err);
    /* Whether it was understood or not: what was read may have been the middle of an edit. */
    const coffer_status again =
        shard->pooled.path == NULL ? COFFER_OK : coffer__source_path_again(&shard->source, shard->pooled.path, err);
    return again == COFFER_OK ? status : again;
}

/* Takes the next shard; false when there is none, when one before it has failed, or when no more is wanted. */
static bool several_take(several_job *job, size_t *i)
{
    coffer__os_mutex_lock(&job->waiting.lock);
    const bool taken = job->next < job->failed && !job->waiting.stopped;
    *i = taken ? job->next++ : 0;
    coffer__os_mutex_unlock(&job->waiting.lock);
    return taken;
}

/* Opens the next shard; false when there is none. */
static bool several_work_once(several_job *job)
{
    size_t i = 0;
    if (!several_take(job, &i)) {
        return false;
    }
    coffer_error error;
    const coffer_status status = several_open_shard(job, i, &error);
    coffer__os_mutex_lock(&job->waiting.lock);
    if (status == COFFER_OK) {
        job->waiting.done++;
    } else if (i < job->failed) {
        job->failed = i;
        job->error = error;
    }
    coffer__os_mutex_unlock(&job->waiting.lock);
    return true;
}

static void several_work(void *arg)
{
    several_job *job = arg;
    while (several_work_once(job)) {}
    coffer__waiting_leave(&job->waiting);
}

/* How many files are asked for at once. */
static size_t several_threads(const coffer__place *place)
{
    if (place->web == NULL) {
        return SEVERAL_THREADS;
    }
    const size_t connections = coffer__os_descriptors() / SEVERAL_DESCRIPTORS_FAR;
    return connections < SEVERAL_THREADS_FAR ? connections : SEVERAL_THREADS_FAR;
}

static void several_run(several_job *job)
{
    coffer__thread threads[SEVERAL_THREADS_FAR];
    coffer__web *web = job->model->several->place.web;
    const bool asks = web != NULL && job->options->progress != NULL;
    const size_t bound = several_threads(&job->model->several->place);
    const size_t most = job->failed < bound ? job->failed : bound;
    /* The caller's thread is one of them, unless it is there to ask the user while the others wait. */
    const size_t others = most == 0 || asks ? most : most - 1;
    const coffer__watch *before = web == NULL ? NULL : coffer__web_watch(web, &job->waiting.watch);
    size_t started = 0;
    job->waiting.working = others;
    while (started < others && coffer__os_thread_start(&threads[started], several_work, job) == 0) {
        started++;
    }
    coffer__os_mutex_lock(&job->waiting.lock);
    job->waiting.working -= others - started;
    coffer__os_mutex_unlock(&job->waiting.lock);
    if (started == 0) {
        job->waiting.alone = true;
    }
    while ((!asks || started == 0) && !coffer__waiting_ask(&job->waiting) && several_work_once(job)) {}
    coffer__waiting_wait(&job->waiting);
    for (size_t i = 0; i < started; i++) {
        coffer__os_thread_join(&threads[i]);
    }
    if (web != NULL) {
        (void)coffer__web_watch(web, before);
    }
}

/* Gives the shards their paths, as they are shown. */
static coffer_status several_set_paths(coffer *model, const coffer__index_shard *files, coffer_error *err)
{
    for (size_t i = 0; i < model->shard_count; i++) {
        coffer__path path;
        coffer__shard *shard = &model->shards[i];
        (void)coffer__place_join(&model->several->place, files[i].file, &path);
        shard->path_size = strlen(path.text) + 1;
        shard->path = coffer__alloc(&model->several->allocator, shard->path_size);
        if (shard->path == NULL) {
            return several_no_memory(err);
        }
        memcpy(shard->path, path.text, shard->path_size);
    }
    return COFFER_OK;
}

static coffer_status several_make_shards(coffer *model, size_t count, coffer_error *err)
{
    model->shards = coffer__alloc_zeroed(&model->several->allocator, count * sizeof *model->shards);
    if (model->shards == NULL) {
        return several_no_memory(err);
    }
    size_t made = 0;
    while (made < count && coffer__os_mutex_init(&model->shards[made].lock) == 0) {
        made++;
    }
    model->shard_count = count;
    return made == count ? COFFER_OK : several_no_memory(err);
}

/* A failure that is about one missing file is about all that are missing; of what is far away each would be asked for once more. */
static void several_tell_missing(const coffer *model, const coffer__index_shard *files, coffer_error *err)
{
    coffer__missing missing = { .count = 0 };
    for (size_t i = 0; model->several->place.web == NULL && i < model->shard_count; i++) {
        coffer__missing_look(&missing, model->shards[i].path, files[i].file);
    }
    if (missing.count > 1 && err != NULL) {
        const int os_error = err->os_error;
        coffer__missing_fail(&missing, model->shard_count,
                             "the download is not complete, or the index is of another model", err);
        coffer__fail_errno(err, COFFER_ERR_SHARD_MISSING, os_error);
    }
}

static coffer_status several_open_shards(coffer *model, const coffer__index_shard *files, size_t count,
                                         const coffer_open_options *options, coffer_error *err)
{
    coffer_status status = several_make_shards(model, count, err);
    status = status == COFFER_OK ? several_set_paths(model, files, err) : status;
    if (status != COFFER_OK) {
        return status;
    }
    several_job job = { .model = model, .files = files, .options = options, .failed = model->shard_count };
    if (!coffer__waiting_begin(&job.waiting, options->progress, options->progress_ctx, model->shard_count)) {
        return several_no_memory(err);
    }
    several_run(&job);
    const bool stopped = job.waiting.stopped;
    coffer__waiting_end(&job.waiting);
    if (stopped) {
        return coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    }
    if (job.failed == model->shard_count) {
        return COFFER_OK;
    }
    if (err != NULL) {
        *err = job.error;
    }
    if (job.error.code == COFFER_ERR_SHARD_MISSING) {
        several_tell_missing(model, files, err);
    }
    return coffer__fail_path(err, job.error.code, model->shards[job.failed].path);
}

/* ---- putting together -------------------------------------------------------------------------------------------- */

static coffer__name several_name_of(const void *ctx, uint32_t item)
{
    const coffer_tensor *tensor = ((const coffer__several *)ctx)->tensors[item];
    return (coffer__name){ tensor->name, tensor->name_len };
}

/* Tensor `k` of a table that nobody else has seen yet, which is told its shard. */
static const coffer_tensor *several_number(coffer_table *table, size_t k, uint32_t shard)
{
    const uint32_t *order = (const uint32_t *)(const void *)((const char *)table + table->order_at);
    coffer__entry *entry = (coffer__entry *)(void *)((char *)table + (size_t)order[k] * 8);
    entry->tensor.shard = shard;
    return &entry->tensor;
}

/* Lists all tensors and numbers their shards. */
static coffer_status several_list(coffer *model, coffer_error *err)
{
    coffer__several *several = model->several;
    uint64_t count = 0;
    for (size_t i = 0; i < model->shard_count; i++) {
        count += coffer_table_count(model->shards[i].table);
    }
    if (count > SIZE_MAX / SEVERAL_ITEM_SIZE || count > UINT32_MAX / 2) {
        return several_no_memory(err);
    }
    several->tensors = coffer__alloc(&several->allocator, (size_t)count * SEVERAL_ITEM_SIZE);
    if (several->tensors == NULL) {
        return count == 0 ? COFFER_OK : several_no_memory(err);
    }
    several->count = (size_t)count;
    size_t at = 0;
    for (size_t i = 0; i < model->shard_count; i++) {
        coffer_table *table = model->shards[i].table;
        for (size_t k = 0; k < table->count; k++) {
            several->tensors[at++] = several_number(table, k, (uint32_t)i);
        }
    }
    return COFFER_OK;
}

static coffer_status several_in_two(const coffer *model, const coffer_tensor *second, coffer_error *err)
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

static coffer_status several_index_names(coffer *model, coffer_error *err)
{
    coffer__several *several = model->several;
    uint32_t twice = 0;
    several->names = (coffer__names){ &several->allocator, several_name_of, several, several->count, 0, NULL, NULL };
    const coffer_status status = coffer__names_build(&several->names, &twice, err);
    if (status != COFFER_OK || twice == COFFER__NO_NAME) {
        return status;
    }
    return several_in_two(model, several->tensors[twice], err);
}

static bool several_address_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer *model = ctx;
    return (uintptr_t)model->shards[a].table < (uintptr_t)model->shards[b].table;
}

static coffer_status several_order_addresses(coffer *model, coffer_error *err)
{
    uint32_t *order = coffer__alloc(&model->several->allocator, model->shard_count * sizeof *order);
    if (order == NULL) {
        return several_no_memory(err);
    }
    for (size_t i = 0; i < model->shard_count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, model->shard_count, several_address_before, model);
    model->several->by_address = order;
    return COFFER_OK;
}

/* ---- what the index says ----------------------------------------------------------------------------------------- */

static coffer_status several_not_there(const coffer *model, const coffer__index_entry *entry,
                                       const coffer_tensor *found, coffer_error *err)
{
    if (found == NULL) {
        coffer__fail_at(
            err, COFFER_ERR_NOT_IN_SHARD, entry->position,
            "at byte %u, the index names the tensor %q, which its file %q does not have: index and file are "
            "not of the same model, or of different versions of it",
            (uint64_t)entry->position, entry->name.text, entry->name.len, entry->file.text, entry->file.len);
    } else {
        coffer__fail_at(err, COFFER_ERR_NOT_IN_SHARD, entry->position,
                        "at byte %u, the index says that the tensor %q is in %q, but it is in %p",
                        (uint64_t)entry->position, entry->name.text, entry->name.len, entry->file.text, entry->file.len,
                        model->shards[found->shard].path);
    }
    return coffer__fail_tensor(err, COFFER_ERR_NOT_IN_SHARD, entry->name.text, entry->name.len);
}

static coffer_status several_compare(const coffer *model, const coffer__index *index, coffer_error *err)
{
    for (size_t i = 0; i < index->count; i++) {
        const coffer__index_entry *entry = &index->entries[i];
        if (entry->shard == COFFER__INDEX_LEFT_OUT) {
            continue;
        }
        const coffer_tensor *found = coffer_find(model, entry->name.text, entry->name.len);
        if (found == NULL || found->shard != entry->shard) {
            return several_not_there(model, entry, found, err);
        }
    }
    return COFFER_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Opens the shards and puts them together. */
static coffer_status several_build(coffer *model, const coffer__index_shard *files, size_t count,
                                   const coffer_open_options *options, coffer_error *err)
{
    coffer_status status = several_open_shards(model, files, count, options, err);
    status = status == COFFER_OK ? several_list(model, err) : status;
    status = status == COFFER_OK ? several_order_addresses(model, err) : status;
    return status == COFFER_OK ? several_index_names(model, err) : status;
}

static coffer_status several_keep_path(coffer__several *several, const char *path, coffer_error *err)
{
    several->index_path_size = strlen(path) + 1;
    several->index_path = coffer__alloc(&several->allocator, several->index_path_size);
    if (several->index_path == NULL) {
        return several_no_memory(err);
    }
    memcpy(several->index_path, path, several->index_path_size);
    return COFFER_OK;
}

/* Everything behind the reading of the index. Failures carry the path of the shard, or else get that of the index. */
static coffer_status several_of_index(coffer *model, const char *path, const coffer__index *index,
                                      const coffer_open_options *options, coffer_error *err)
{
    coffer_status status = coffer__place_beside(&model->several->place, path, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = several_build(model, index->shards, index->shard_count, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = several_compare(model, index, err);
    status = status == COFFER_OK ? coffer__several_note(model, index, options, err) : status;
    status = status == COFFER_OK ? several_keep_path(model->several, path, err) : status;
    if (status == COFFER_OK && options->verify != COFFER_VERIFY_NOTHING) {
        return coffer__content_check(model, err);
    }
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}

static coffer_status several_open_text(coffer **model, const char *path, coffer__web *web, const coffer__whole *text,
                                       const coffer_open_options *options, coffer_error *err)
{
    coffer__index index;
    coffer *made = NULL;
    coffer_status status = coffer__index_read(&index, text->bytes, text->size, options->allocator, err);
    if (status == COFFER_OK && options->select_count > 0) {
        status = coffer__index_select(&index, options->select, options->select_count, err);
    }
    if (status == COFFER_OK) {
        made = several_new_model(options->allocator, err);
        status = made == NULL ? COFFER_ERR_MEMORY : COFFER_OK;
    }
    if (status == COFFER_OK) {
        made->several->place.web = web;
        memcpy(made->several->place.commit, text->commit, sizeof text->commit);
        made->named_whole = true;
    }
    status =
        status == COFFER_OK ? several_of_index(made, path, &index, options, err) : coffer__fail_path(err, status, path);
    coffer__index_free(&index);
    if (status != COFFER_OK) {
        coffer_close(made);
        return status;
    }
    *model = made;
    return COFFER_OK;
}

/* Opens the model of an index as it is now. *read tells whether the index was, from the file *seen. */
static coffer_status several_open_now(coffer **model, const char *path, coffer__web *web,
                                      const coffer_open_options *options, bool *read, coffer__os_info *seen,
                                      coffer_error *err)
{
    coffer__whole text;
    coffer_status status = coffer__place_read(path, web, COFFER__INDEX_MOST_BYTES, options->allocator, &text, err);
    *read = status == COFFER_OK;
    *seen = text.seen;
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, path);
    }
    status = several_open_text(model, path, web, &text, options, err);
    if (status != COFFER_OK || options->select_count > 0) {
        coffer__place_forget(&text, options->allocator);
        return status;
    }
    (*model)->several->index = text; /* which coffer_fetch hands on as it is */
    return COFFER_OK;
}

/* Whether the path still leads to the index that was read, and nobody wrote to it. */
static bool several_is_still(const char *path, const coffer__os_info *seen)
{
    coffer__os_info now;
    return coffer__os_inspect(path, true, &now) == 0 && coffer__os_unchanged(seen, &now) &&
           seen->touched == now.touched;
}

/*
 * Files are opened one after the other, and somebody may save a new model meanwhile: some would be of the old one and some of the
 * new one. Its index goes before the first of the files does, and the new one comes after the last (publication.h), so an index
 * that lies there still when all are open tells that they belong together. Else the model is opened again, whatever came of it.
 */
coffer_status coffer__several_open(coffer **model, const char *path, coffer__web *web,
                                   const coffer_open_options *options, coffer_error *err)
{
    for (unsigned round = 1;; round++) {
        bool read = false;
        coffer__os_info seen;
        const coffer_status status = several_open_now(model, path, web, options, &read, &seen, err);
        if (web != NULL || !read || several_is_still(path, &seen)) {
            return status;
        }
        if (status == COFFER_OK) {
            coffer_close(*model);
            *model = NULL;
        }
        if (round == SEVERAL_MOST_ROUNDS) {
            coffer__fail(err, COFFER_ERR_CHANGED,
                         "models are being saved here all the time, and this one was replaced whenever its files had "
                         "been opened; open it again when whoever saves has finished");
            return coffer__fail_path(err, COFFER_ERR_CHANGED, path);
        }
    }
}

static coffer_status several_of_set(coffer *model, const char *path, const coffer__name *names, size_t count,
                                    const coffer_open_options *options, coffer_error *err)
{
    coffer_status status = coffer__place_beside(&model->several->place, path, err);
    coffer__index_shard *files = coffer__alloc_zeroed(options->allocator, count * sizeof *files);
    if (status == COFFER_OK && files == NULL) {
        status = several_no_memory(err);
    }
    for (size_t i = 0; status == COFFER_OK && i < count; i++) {
        files[i].file = names[i];
    }
    status = status == COFFER_OK ? several_build(model, files, count, options, err) : status;
    coffer__free(options->allocator, files, count * sizeof *files);
    return status == COFFER_OK ? coffer__several_note(model, NULL, options, err) : status;
}

coffer_status coffer__several_open_set(coffer **model, const char *path, const coffer__name *files, size_t count,
                                       const coffer_open_options *options, coffer_error *err)
{
    coffer *made = several_new_model(options->allocator, err);
    const coffer_status status =
        made == NULL ? COFFER_ERR_MEMORY : several_of_set(made, path, files, count, options, err);
    if (status != COFFER_OK) {
        coffer_close(made);
        return status;
    }
    *model = made;
    return COFFER_OK;
}
