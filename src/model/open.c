/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening, closing, and looking things up. A header is read, never parsed from a map: the bytes that were validated are
 * then surely those that were parsed. Only memory that the caller lends is parsed where it is.
 */
#include "model.h"

#include "alloc.h"
#include "discover.h"
#include "error.h"
#include "format.h"
#include "options.h"
#include "table.h"
#include "trust.h"
#include "url.h"
#include "web.h"

#include <string.h>

/* This much of a header is in memory at a time. One read of it holds the whole header of most files. It lies on the stack, where
   a thread of 64 KiB has room for it, so that reading a header takes no memory but its table's. */
#define OPEN_WINDOW_SIZE 16384u

/* ---- a model and its shard --------------------------------------------------------------------------------------- */

static coffer_status open_out_of_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model");
}

/* The options as this version knows them, checked. */
static coffer_status open_options(coffer_open_options *options, const coffer_open_options *given, coffer_error *err)
{
    const coffer_status status = coffer__options_copy(options, sizeof *options, given, err);
    if (status != COFFER_OK) {
        return status;
    }
    if ((unsigned)options->access > COFFER_READ) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `access` has no such value");
    }
    if ((unsigned)options->verify > COFFER_VERIFY_RECORDED) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `verify` has no such value");
    }
    if (options->select == NULL && options->select_count > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `select` is NULL, and `select_count` is not 0");
    }
    if (options->allocator == NULL) {
        options->allocator = coffer_libc_allocator();
    }
    return COFFER_OK;
}

/* A model of one shard that has taken over the source; without memory the source is closed, and the answer NULL. */
static coffer *open_new(coffer__source *source, const coffer_open_options *options, coffer_error *err)
{
    coffer *made = coffer__alloc_zeroed(options->allocator, sizeof *made);
    coffer__shard *shard = coffer__alloc_zeroed(options->allocator, sizeof *shard);
    if (made == NULL || shard == NULL || coffer__os_mutex_init(&shard->lock) != 0) {
        coffer__free(options->allocator, made, sizeof *made);
        coffer__free(options->allocator, shard, sizeof *shard);
        source->ops->close(source);
        (void)open_out_of_memory(err);
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

static coffer_status open_set_path(coffer *model, const char *path, coffer_error *err)
{
    coffer__shard *shard = model->shards;
    shard->path_size = strlen(path) + 1;
    shard->path = coffer__alloc(&model->allocator, shard->path_size);
    if (shard->path == NULL) {
        return open_out_of_memory(err);
    }
    memcpy(shard->path, path, shard->path_size);
    return COFFER_OK;
}

void coffer_close(coffer *model)
{
    if (model == NULL) {
        return;
    }
    const coffer_allocator allocator = model->allocator;
    const coffer_allocator *shared = model->several == NULL ? &allocator : &model->several->allocator;
    for (size_t i = 0; i < model->shard_count; i++) {
        coffer__shard *shard = &model->shards[i];
        coffer__trust_end(shard, shared);
        coffer_table_free(shard->table);
        coffer__free(shared, shard->path, shard->path_size);
        if (shard->source.ops != NULL) {
            shard->source.ops->close(&shard->source);
        }
        coffer__os_mutex_deinit(&shard->lock);
    }
    coffer__free(shared, model->shards, model->shard_count * sizeof *model->shards);
    coffer__several_free(model);
    coffer__web_free(model->web);
    coffer__free(&allocator, model, sizeof *model);
}

/* ---- the header -------------------------------------------------------------------------------------------------- */

static coffer_status open_parse(coffer__shard *shard, const void *bytes, size_t size, const coffer__supply *supply,
                                const coffer_allocator *allocator, const coffer_open_options *options,
                                coffer_error *err)
{
    coffer_parse_options parse = COFFER_PARSE_OPTIONS_INIT;
    parse.file_size = shard->source.size;
    parse.max_header_size = options->max_header_size;
    parse.all_notes = options->all_notes;
    parse.unknown_dtypes = options->unknown_dtypes;
    parse.hidden_bytes = options->hidden_bytes;
    parse.format = options->format;
    const coffer_status status =
        coffer__parse_supplied(&shard->table, NULL, bytes, size, supply, allocator, &parse, err);
    return status == COFFER_OK ? coffer__trust_begin(shard, options->verify, allocator, err) : status;
}

static coffer_status open_empty(coffer_error *err)
{
    coffer__fail_at(err, COFFER_ERR_EMPTY, 0,
                    "the file is empty: a download or a copy may have failed before its first byte; fetch it again");
    return coffer__fail_sizes(err, COFFER_ERR_EMPTY, 8, 0);
}

static coffer_status open_supply(const void *source, uint64_t offset, void *to, size_t size, coffer_error *err)
{
    return coffer__source_read(source, offset, to, size, err);
}

/* Reads the header: at once when it is of ordinary size. A longer one comes through the window, or from far away with one more
   read for the rest of it. */
coffer_status coffer__shard_read_header(coffer__shard *shard, const coffer_allocator *allocator,
                                        const coffer_open_options *options, coffer_error *err)
{
    const coffer__source *source = &shard->source;
    if (source->size == 0) {
        return open_empty(err);
    }
    uint8_t window[OPEN_WINDOW_SIZE];
    const size_t size = source->size < sizeof window ? (size_t)source->size : sizeof window;
    const coffer_status status = coffer__source_read(source, 0, window, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__supply supply = { open_supply, source, window, source->ops->far ? 0 : sizeof window };
    return open_parse(shard, window, size, &supply, allocator, options, err);
}

/* Takes over `source`: opens a model from it or closes it. */
static coffer_status open_source(coffer **model, coffer__source *source, const coffer_open_options *options,
                                 coffer_error *err)
{
    coffer *made = open_new(source, options, err);
    if (made == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = coffer__shard_read_header(made->shards, &made->allocator, options, err);
    if (status != COFFER_OK) {
        coffer_close(made);
        return status;
    }
    *model = made;
    return COFFER_OK;
}

/* ---- ways to open ------------------------------------------------------------------------------------------------ */

static coffer_status open_null(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "a model cannot be opened from or into NULL");
}

/* Hands out what was opened, under its path or URL; or closes it when that or something before has failed. */
static coffer_status open_hand_out(coffer **model, coffer *made, const char *path, coffer_status status,
                                   coffer_error *err)
{
    if (status == COFFER_OK) {
        status = open_set_path(made, path, err);
    }
    if (status != COFFER_OK) {
        coffer_close(made);
        return status;
    }
    *model = made;
    return COFFER_OK;
}

/* One file behind a URL. */
static coffer_status open_behind(coffer **model, coffer__web *web, const char *url, const coffer_open_options *options,
                                 coffer_error *err)
{
    coffer__source source;
    coffer_status status = coffer__source_url(&source, web, url, options->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer *made = NULL;
    status = open_source(&made, &source, options, err);
    return open_hand_out(model, made, url, status, err);
}

static coffer_status open_file(coffer **model, const char *path, const coffer_open_options *options, coffer_error *err)
{
    coffer__source source;
    coffer_status status = coffer__source_path(&source, path, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer *made = NULL;
    status = open_source(&made, &source, options, err);
    /* Whether it was understood or not: what was read may have been the middle of an edit. */
    const coffer_status again = coffer__source_path_again(&source, path, err);
    return open_hand_out(model, made, path, again == COFFER_OK ? status : again, err);
}

/* Whether the path is that of an index, which its name alone tells; behind that of a URL there may be a query. */
static bool open_is_index(const char *path)
{
    static const char suffix[] = ".index.json";
    const char *query = coffer__url_is(path) ? strchr(path, '?') : NULL;
    const size_t len = query != NULL ? (size_t)(query - path) : strlen(path);
    return len >= sizeof suffix - 1 && memcmp(path + len - (sizeof suffix - 1), suffix, sizeof suffix - 1) == 0;
}

/* What lies behind the URL of one file or of an index. Failures carry the URL. */
static coffer_status open_one_url(coffer **model, coffer__web *web, const char *url, const coffer_open_options *options,
                                  coffer_error *err)
{
    if (open_is_index(url)) {
        return coffer__several_open(model, url, web, options, err);
    }
    const coffer_status status = open_behind(model, web, url, options, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, url);
}

/* Names of models as the ecosystem gives them, in the order in which it looks for them. */
static const char *const open_usual_names[] = { "model.safetensors", "model.safetensors.index.json",
                                                "diffusion_pytorch_model.safetensors",
                                                "diffusion_pytorch_model.safetensors.index.json" };
#define OPEN_USUAL_NAMES (sizeof open_usual_names / sizeof open_usual_names[0])

/* The URL of a file in what a URL names as a whole. */
static bool open_usual_url(const char *url, size_t i, coffer__path *out)
{
    const size_t len = strlen(url);
    return coffer__path_copy(out, url) &&
           (url[len - 1] == '/' || coffer__text_append(out->text, sizeof out->text, "/", 1)) &&
           coffer__text_append(out->text, sizeof out->text, open_usual_names[i], strlen(open_usual_names[i]));
}

/* A repository of the Hub or a folder: the first of the usual names that the Hub's cache has, else that the server has. Nothing
   can be listed there. */
static coffer_status open_remote_folder(coffer **model, coffer__web *web, const char *url,
                                        const coffer_open_options *options, coffer_error *err)
{
    coffer__path name;
    for (size_t i = 0; i < OPEN_USUAL_NAMES; i++) {
        if (open_usual_url(url, i, &name) && coffer__web_is_cached(web, name.text)) {
            return open_one_url(model, web, name.text, options, err);
        }
    }
    for (size_t i = 0; i < OPEN_USUAL_NAMES; i++) {
        if (!open_usual_url(url, i, &name)) {
            return coffer__fail(err, COFFER_ERR_URL, "the URL is too long for a model's");
        }
        const coffer_status status = open_one_url(model, web, name.text, options, err);
        if (status != COFFER_ERR_NOT_FOUND) {
            return status;
        }
    }
    coffer__fail(
        err, COFFER_ERR_NOT_FOUND,
        "there is neither model.safetensors nor its index, nor what diffusers calls them: name the file behind it");
    return coffer__fail_path(err, COFFER_ERR_NOT_FOUND, url);
}

/* Whether the user wants no more, while the first answers are waited for. */
static bool open_stop(void *ctx)
{
    const coffer_open_options *options = ctx;
    return options->progress(options->progress_ctx, 0, 1) != 0;
}

static coffer_status open_url(coffer **model, const char *url, coffer_open_options *options, coffer_error *err)
{
    coffer__web *web = NULL;
    bool folder = false;
    const coffer__watch watch = { open_stop, options };
    coffer_status status = coffer__web_new(&web, options, err);
    if (status == COFFER_OK && options->progress != NULL) {
        (void)coffer__web_watch(web, &watch);
    }
    if (status == COFFER_OK) {
        status = coffer__web_is_folder(web, url, &folder, err);
    }
    if (status != COFFER_OK) {
        coffer__web_free(web);
        return coffer__fail_path(err, status, url);
    }
    status = folder ? open_remote_folder(model, web, url, options, err) : open_one_url(model, web, url, options, err);
    if (status != COFFER_OK) {
        coffer__web_free(web);
        return status;
    }
    (void)coffer__web_watch(web, NULL);
    (*model)->web = web;
    (*model)->named_whole = (*model)->named_whole || folder;
    return COFFER_OK;
}

/* A folder: what it holds is looked for when opening it has shown what it is, so that a file costs nothing more. Failures carry
   the path. */
static coffer_status open_folder(coffer **model, const char *path, const coffer_open_options *options,
                                 coffer_error *err)
{
    coffer__found found;
    coffer_status status = coffer__discover(&found, path, options->allocator, err);
    if (status != COFFER_OK) {
        coffer__found_free(&found, options->allocator);
        return status;
    }
    if (found.is_index) {
        status = coffer__several_open(model, found.path.text, NULL, options, err);
    } else if (found.set_count > 0) {
        status = coffer__several_open_set(model, found.path.text, found.set, found.set_count, options, err);
    } else {
        status = open_file(model, found.path.text, options, err);
        status = status == COFFER_OK ? status : coffer__fail_path(err, status, found.path.text);
    }
    coffer__found_free(&found, options->allocator);
    if (status == COFFER_OK) {
        (*model)->named_whole = true;
    }
    return status;
}

coffer_status coffer_open(coffer **model, const char *path, const coffer_open_options *options, coffer_error *err)
{
    if (model == NULL || path == NULL) {
        return open_null(err);
    }
    *model = NULL;
    coffer_open_options known;
    coffer_status status = open_options(&known, options, err);
    if (status == COFFER_OK && coffer__url_is(path)) {
        return open_url(model, path, &known, err);
    }
    if (status == COFFER_OK && open_is_index(path)) {
        return coffer__several_open(model, path, NULL, &known, err);
    }
    status = status == COFFER_OK ? open_file(model, path, &known, err) : status;
    if (status == COFFER_ERR_DIRECTORY) {
        return open_folder(model, path, &known, err);
    }
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}

coffer_status coffer_open_memory(coffer **model, const void *bytes, size_t size, const coffer_open_options *options,
                                 coffer_error *err)
{
    if (model == NULL || (bytes == NULL && size > 0)) {
        return open_null(err);
    }
    *model = NULL;
    coffer_open_options known;
    coffer_status status = open_options(&known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__source source;
    coffer__source_memory(&source, bytes, size);
    coffer *made = open_new(&source, &known, err);
    if (made == NULL) {
        return COFFER_ERR_MEMORY;
    }
    made->shards->phase = (uint64_t)(uintptr_t)bytes;
    status = size == 0 ? open_empty(err) : open_parse(made->shards, bytes, size, NULL, &made->allocator, &known, err);
    if (status != COFFER_OK) {
        coffer_close(made);
        return status;
    }
    *model = made;
    return COFFER_OK;
}

coffer_status coffer_open_fd(coffer **model, int fd, uint64_t offset, uint64_t size, const coffer_open_options *options,
                             coffer_error *err)
{
    if (model == NULL) {
        return open_null(err);
    }
    *model = NULL;
    coffer_open_options known;
    coffer_status status = open_options(&known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__source source;
    status = coffer__source_fd(&source, fd, offset, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = open_source(model, &source, &known, err);
    if (status == COFFER_OK) {
        (*model)->shards->phase = offset;
    }
    return status;
}

coffer_status coffer_open_source(coffer **model, const coffer_source *source, const coffer_open_options *options,
                                 coffer_error *err)
{
    if (source == NULL) {
        return open_null(err);
    }
    coffer__source custom;
    coffer__source_custom(&custom, source);
    /* The caller was promised that its close is called, whatever fails. */
    if (model == NULL || source->read_at == NULL) {
        custom.ops->close(&custom);
        return open_null(err);
    }
    *model = NULL;
    coffer_open_options known;
    const coffer_status status = open_options(&known, options, err);
    if (status != COFFER_OK) {
        custom.ops->close(&custom);
        return status;
    }
    return open_source(model, &custom, &known, err);
}

/* ---- data in memory ---------------------------------------------------------------------------------------------- */

coffer_status coffer__model_stranger(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ARGUMENT,
                        "not a tensor of this model: pass the pointer that its coffer_find or coffer_at returned");
}

coffer_status coffer__model_place(const coffer *model, coffer__place *place, coffer_error *err)
{
    if (model->several != NULL) {
        *place = model->several->place;
        return COFFER_OK;
    }
    memset(place, 0, sizeof *place);
    place->web = model->web;
    memcpy(place->commit, coffer__source_commit(&model->shards->source), sizeof place->commit);
    return coffer__place_beside(place, model->shards->path, err);
}

coffer_status coffer__model_fail(coffer_error *err, coffer_status status, const coffer__shard *shard,
                                 const coffer_tensor *tensor)
{
    if (shard->path != NULL) {
        coffer__fail_path(err, status, shard->path);
    }
    return coffer__fail_tensor(err, status, tensor->name, tensor->name_len);
}

/* With the lock held. */
static uint8_t *open_map(coffer__shard *shard)
{
    if (shard->map_error.code != COFFER_OK) {
        return NULL;
    }
    if (shard->access == COFFER_READ) {
        coffer__fail(&shard->map_error, COFFER_ERR_NOT_MAPPED,
                     "the model was opened with COFFER_READ, which never maps: read the tensor with coffer_read");
        return NULL;
    }
    uint8_t *base = shard->source.ops->map(&shard->source, shard->access, shard->populate, &shard->map_error);
    if (base != NULL) {
        atomic_store_explicit(&shard->base, base, memory_order_release);
    }
    return base;
}

uint8_t *coffer__shard_base(coffer__shard *shard, coffer_error *err)
{
    uint8_t *base = atomic_load_explicit(&shard->base, memory_order_acquire);
    if (base != NULL) {
        return base;
    }
    coffer__os_mutex_lock(&shard->lock);
    base = atomic_load_explicit(&shard->base, memory_order_relaxed);
    if (base == NULL) {
        base = open_map(shard);
    }
    coffer__os_mutex_unlock(&shard->lock);
    /* Once there is an error it stays as it is, so it can be read without the lock. */
    if (base == NULL && err != NULL) {
        *err = shard->map_error;
    }
    return base;
}

const void *coffer_data(const coffer *model, const coffer_tensor *tensor, coffer_error *err)
{
    coffer__shard *shard = model == NULL ? NULL : coffer__model_shard(model, tensor);
    if (shard == NULL) {
        coffer__model_stranger(err);
        return NULL;
    }
    if (coffer__trust_tensor(model, tensor, NULL, err) != COFFER_OK) {
        return NULL;
    }
    const uint8_t *base = coffer__shard_base(shard, err);
    if (base == NULL) {
        coffer__model_fail(err, COFFER_ERR_NOT_MAPPED, shard, tensor);
        return NULL;
    }
    return base + (size_t)tensor->offset;
}

void *coffer_data_mutable(const coffer *model, const coffer_tensor *tensor, coffer_error *err)
{
    coffer__shard *shard = model == NULL ? NULL : coffer__model_shard(model, tensor);
    if (shard == NULL) {
        coffer__model_stranger(err);
        return NULL;
    }
    if (shard->access != COFFER_MAP_PRIVATE) {
        coffer__fail(err, COFFER_ERR_NOT_MAPPED, "data can be changed only in a model opened with COFFER_MAP_PRIVATE");
        coffer__model_fail(err, COFFER_ERR_NOT_MAPPED, shard, tensor);
        return NULL;
    }
    if (coffer__trust_tensor(model, tensor, NULL, err) != COFFER_OK) {
        return NULL;
    }
    uint8_t *base = coffer__shard_base(shard, err);
    if (base == NULL) {
        coffer__model_fail(err, COFFER_ERR_NOT_MAPPED, shard, tensor);
        return NULL;
    }
    return base + (size_t)tensor->offset;
}

bool coffer_is_aligned(const coffer *model, const coffer_tensor *tensor)
{
    const coffer__shard *shard = coffer__model_shard(model, tensor);
    const uint32_t alignment = coffer_dtype_alignment(tensor->dtype);
    /* The sum may wrap around: the alignments are powers of two. */
    return shard != NULL && (alignment == 0 || (shard->phase + tensor->offset) % alignment == 0);
}
