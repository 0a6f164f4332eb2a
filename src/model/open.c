/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening, closing, and looking things up. A header is read, never parsed from a map: the bytes that were validated are
 * then surely those that were parsed. Only memory that the caller lends is parsed where it is.
 */
#include "model.h"
#include "source_http.h"

#include "alloc.h"
#include "discover.h"
#include "error.h"
#include "options.h"
#include "parse.h"
#include "saved.h"
#include "table.h"
#include "trust.h"
#include "url.h"
#include "web.h"

#include <string.h>

/* This much of a header is in memory at a time. One read of it holds the whole header of most files. It lies on the stack, where
   a thread of 64 KiB has room for it, so that reading a header takes no memory but its table's. */
#define OPEN_WINDOW_SIZE 16384u
/* So often a header is read that somebody changes meanwhile. */
#define OPEN_MOST_ROUNDS 16u

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
    coffer__listing_free(&model->listing, &allocator);
    coffer__free(&allocator, model, sizeof *model);
}

/* ---- the header -------------------------------------------------------------------------------------------------- */

static coffer_parse_options open_parse_options(const coffer_open_options *options, uint64_t file_size)
{
    coffer_parse_options parse = COFFER_PARSE_OPTIONS_INIT;
    parse.file_size = file_size;
    parse.max_header_size = options->max_header_size;
    parse.all_notes = options->all_notes;
    parse.unknown_dtypes = options->unknown_dtypes;
    parse.hidden_bytes = options->hidden_bytes;
    parse.format = options->format;
    return parse;
}

static coffer_status open_empty(coffer_error *err)
{
    coffer__fail_at(err, COFFER_ERR_EMPTY, 0,
                    "the file is empty: a download or a copy may have failed before its first byte; fetch it again");
    return coffer__fail_sizes(err, COFFER_ERR_EMPTY, 8, 0);
}

/* One reading of a header: whether it took more than the first window, and what it read. */
typedef struct open_reading {
    bool several;
    bool summed;
    uint64_t sum; /* of every piece, when it is `summed` */
} open_reading;

/* Takes eight bytes at a time: it is to tell one version of a header from another, and stands in nobody's way. */
static uint64_t open_sum(uint64_t sum, const uint8_t *bytes, size_t size)
{
    uint64_t word = 0;
    size_t at = 0;
    for (; size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        sum = (sum ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        sum ^= sum >> 32;
    }
    for (; at < size; at++) {
        sum = (sum ^ bytes[at]) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return sum ^ size;
}

static coffer_status open_read(const coffer__source *source, open_reading *reading, uint64_t offset, void *to,
                               size_t size, coffer_error *err)
{
    const coffer_status status = coffer__source_read(source, offset, to, size, err);
    if (status == COFFER_OK && reading->summed) {
        reading->sum = open_sum(reading->sum, to, size);
    }
    return status;
}

/* Reads whatever the parser needs, until it has its table. */
static coffer_status open_parse(const coffer__source *source, open_reading *reading, coffer__reading *parsing,
                                coffer_table **table, coffer_error *err)
{
    for (;;) {
        coffer__wish wish;
        coffer_status status = coffer__reading_go_on(parsing, &wish, table, err);
        if (status != COFFER_NEED_MORE) {
            return status;
        }
        reading->several = true;
        status = open_read(source, reading, wish.offset, wish.to, wish.size, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
}

/* Reads the header: at once when it is of ordinary size. A longer one comes through the window, or from far away with one more
   read for the rest of it. Where the file ends is compared with a `file_size` that is not 0. */
static coffer_status open_read_header(coffer__shard *shard, open_reading *reading, uint64_t file_size,
                                      const coffer_allocator *allocator, const coffer_open_options *options,
                                      coffer_error *err)
{
    const coffer__source *source = &shard->source;
    uint8_t window[OPEN_WINDOW_SIZE];
    const size_t size = source->size < sizeof window ? (size_t)source->size : sizeof window;
    coffer_status status = open_read(source, reading, 0, window, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__reading parsing;
    const coffer_parse_options parse = open_parse_options(options, file_size);
    status = coffer__reading_begin(&parsing, window, size, allocator, &parse, err);
    if (!source->ops->far) {
        coffer__reading_slide(&parsing, window, sizeof window);
    }
    if (status == COFFER_OK) {
        status = open_parse(source, reading, &parsing, &shard->table, err);
    }
    coffer__reading_end(&parsing);
    return status == COFFER_OK ? coffer__trust_begin(shard, options->verify, allocator, err) : status;
}

/* A file that ends early is read once more when what is whole in it is wanted: its header is, or the failure were another. */
static coffer_status open_read_once(coffer__shard *shard, open_reading *reading, const coffer_allocator *allocator,
                                    const coffer_open_options *options, coffer_error *err)
{
    const uint64_t size = shard->source.size;
    if (size == 0) {
        return open_empty(err);
    }
    const coffer_status status = open_read_header(shard, reading, size, allocator, options, err);
    return status == COFFER_ERR_DATA_TRUNCATED && options->partial
               ? open_read_header(shard, reading, 0, allocator, options, err)
               : status;
}

/* Forgets what was read of a header. */
static void open_forget_header(coffer__shard *shard, const coffer_allocator *allocator)
{
    coffer__trust_end(shard, allocator);
    coffer_table_free(shard->table);
    shard->recorded = (coffer__recorded){ 0 };
    shard->trusted = NULL;
    shard->table = NULL;
}

static coffer_status open_never_still(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_CHANGED,
                        "the file is being changed all the time, and its header was never read twice alike; open it "
                        "again when whoever writes it has finished");
}

/*
 * A header that comes in several pieces may have been edited between two of them, and be one that never was. The file's times
 * tell that nobody wrote meanwhile; where they do not, the header is read again until nobody did, or until it was read twice
 * alike. No reading begins while an edit is seen to be under way.
 */
coffer_status coffer__shard_read_header(coffer__shard *shard, const char *path, const coffer_allocator *allocator,
                                        const coffer_open_options *options, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    open_reading last = { .summed = false };
    for (unsigned round = 1; round <= OPEN_MOST_ROUNDS; round++) {
        open_reading reading = { .summed = round > 1 || coffer__source_is_fresh(&shard->source) };
        open_forget_header(shard, allocator);
        status = round == 1 || path == NULL ? COFFER_OK : coffer__source_path_again(&shard->source, path, err);
        if (status != COFFER_OK) {
            return status;
        }
        status = open_read_once(shard, &reading, allocator, options, err);
        if ((!reading.several && !coffer__source_is_doubted(&shard->source)) ||
            coffer__source_is_still(&shard->source) || (last.summed && reading.summed && last.sum == reading.sum)) {
            return status;
        }
        last = reading;
    }
    open_forget_header(shard, allocator);
    return status == COFFER_OK ? open_never_still(err) : status;
}

/* Takes over `source`, of the file `path` or of none (NULL): opens a model from it or closes it. */
static coffer_status open_source(coffer **model, coffer__source *source, const char *path,
                                 const coffer_open_options *options, coffer_error *err)
{
    coffer *made = open_new(source, options, err);
    if (made == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = coffer__shard_read_header(made->shards, path, &made->allocator, options, err);
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
    status = coffer__place_verify(&source, options->allocator, err);
    if (status != COFFER_OK) {
        source.ops->close(&source);
        return status;
    }
    coffer *made = NULL;
    status = open_source(&made, &source, NULL, options, err);
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
    status = open_source(&made, &source, path, options, err);
    /* Whether it was understood or not: what was read may have been the middle of an edit. */
    const coffer_status again = coffer__source_path_again(&source, path, err);
    return open_hand_out(model, made, path, again == COFFER_OK ? status : again, err);
}

/* Whether the path is that of an index, which its name alone tells; behind that of a URL there may be a query. */
bool coffer__is_index_path(const char *path)
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
    if (coffer__is_index_path(url)) {
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

/* Whether the listing has the file that a URL of its repository names. */
static bool open_is_listed(const coffer__listing *listing, const char *url)
{
    coffer__hub_name name;
    return coffer__hub_read(&name, url, NULL) == COFFER_OK && coffer__listing_has(listing, "", 0, name.file);
}

/* A repository of the Hub or a folder: the first of the usual names that the Hub's cache has, else that the server has. Without a
   listing they are guessed. A store says 403 of an object that is not there to whoever may not list its bucket: then the next name
   is tried, and in the end the first refusal tells. */
static coffer_status open_remote_folder(coffer **model, coffer__web *web, const char *url,
                                        const coffer__listing *listing, const coffer_open_options *options,
                                        coffer_error *err)
{
    coffer__path name;
    coffer_error first;
    coffer_status refusal = COFFER_OK;
    const bool is_store = (url[0] | 0x20) == 's' && url[1] == '3';
    coffer__error_clear(&first);
    for (size_t i = 0; i < OPEN_USUAL_NAMES; i++) {
        if (open_usual_url(url, i, &name) && coffer__web_is_cached(web, name.text)) {
            return open_one_url(model, web, name.text, options, err);
        }
    }
    for (size_t i = 0; i < OPEN_USUAL_NAMES; i++) {
        if (!open_usual_url(url, i, &name)) {
            return coffer__fail(err, COFFER_ERR_URL, "the URL is too long for a model's");
        }
        if (listing->known && !open_is_listed(listing, name.text)) {
            continue;
        }
        const coffer_status status = open_one_url(model, web, name.text, options, err);
        const bool refused = is_store && status == COFFER_ERR_ACCESS;
        if (status != COFFER_ERR_NOT_FOUND && !refused) {
            return status;
        }
        if (refused && refusal == COFFER_OK) {
            refusal = status;
            first = err != NULL ? *err : first;
        }
    }
    if (refusal != COFFER_OK) {
        if (err != NULL) {
            *err = first;
        }
        return refusal;
    }
    coffer__fail(
        err, COFFER_ERR_NOT_FOUND,
        "there is neither model.safetensors nor its index, nor what diffusers calls them: name the file after it");
    return coffer__fail_path(err, COFFER_ERR_NOT_FOUND, url);
}

/* Of what is to be fetched from the Hub: asks which commit the revision is now and what it has, once, and names the commit from then
   on. *url is then the text in *at. Where the Hub does not say, all stays as it is. */
static void open_settle(const char **url, bool folder, coffer__path *at, coffer__web *web, coffer__listing *listing,
                        const coffer_open_options *options)
{
    coffer__hub_name name;
    const bool hub = strncmp(*url, "hf://", 5) == 0;
    const bool wanted =
        hub && options->to_fetch && (folder || coffer__is_index_path(*url) || coffer__web_is_cached(web, *url));
    if (!wanted || coffer__hub_read(&name, *url, NULL) != COFFER_OK) {
        return;
    }
    coffer__listing_ask(listing, web, &name, options->allocator);
    if (!listing->known || !coffer__hub_write(&name, listing->commit, at)) {
        return;
    }
    /* A slash at the end says that it is a folder. */
    const size_t len = strlen(at->text);
    at->text[folder ? len : len - 1] = '\0';
    *url = at->text;
}

static coffer_status open_behind_web(coffer **model, coffer__web *web, const char *url,
                                     const coffer_open_options *options, coffer_error *err)
{
    bool folder = false;
    coffer__path at;
    coffer__listing listing = { .known = false };
    coffer_status status = coffer__web_is_folder(web, url, &folder, err);
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, url);
    }
    open_settle(&url, folder, &at, web, &listing, options);
    status = folder ? open_remote_folder(model, web, url, &listing, options, err)
                    : open_one_url(model, web, url, options, err);
    if (status != COFFER_OK) {
        coffer__listing_free(&listing, options->allocator);
        return status;
    }
    (*model)->listing = listing;
    (*model)->named_whole = (*model)->named_whole || folder;
    return COFFER_OK;
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
    const coffer__watch watch = { open_stop, options };
    coffer_status status = coffer__web_new(&web, options, err);
    if (status == COFFER_OK && options->progress != NULL) {
        (void)coffer__web_watch(web, &watch);
    }
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, url);
    }
    status = open_behind_web(model, web, url, options, err);
    if (status != COFFER_OK) {
        coffer__web_free(web);
        return status;
    }
    (void)coffer__web_watch(web, NULL);
    (*model)->web = web;
    return COFFER_OK;
}

/* Opens what was found in a folder. */
static coffer_status open_found(coffer **model, const coffer__found *found, const coffer_open_options *options,
                                coffer_error *err)
{
    if (found->is_index) {
        return coffer__several_open(model, found->path.text, NULL, options, err);
    }
    if (found->set_count > 0) {
        return coffer__several_open_set(model, found->path.text, found->set, found->set_count, options, err);
    }
    const coffer_status status = open_file(model, found->path.text, options, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, found->path.text);
}

static bool open_found_same(const coffer__found *one, const coffer__found *other)
{
    bool same = one->is_index == other->is_index && one->set_count == other->set_count &&
                strcmp(one->path.text, other->path.text) == 0;
    for (size_t i = 0; i < one->set_count && same; i++) {
        same =
            one->set[i].len == other->set[i].len && memcmp(one->set[i].text, other->set[i].text, one->set[i].len) == 0;
    }
    return same;
}

/* Whether the folder is seen to hold the same model still: where it has an index that sees to it, and one file is one. Files without
   an index must not have got one, nor be getting one: it is then that another model's take their names. */
static bool open_is_still(const coffer__found *found, const char *path, coffer_status status,
                          const coffer_open_options *options)
{
    if (found->set_count == 0 && status != COFFER_ERR_NOT_FOUND) {
        return true;
    }
    coffer__found now;
    const coffer_status again = coffer__discover(&now, path, options->allocator, NULL);
    const bool same = again == COFFER_ERR_MEMORY || (again == COFFER_OK && open_found_same(found, &now));
    coffer__found_free(&now, options->allocator);
    return same;
}

/* Looks for what the folder holds, and opens it. *still: it holds that still, as far as can be told; a folder is not listed at one
   moment. */
static coffer_status open_folder_now(coffer **model, const char *path, const coffer_open_options *options, bool *still,
                                     coffer_error *err)
{
    coffer__found found;
    coffer_status status = coffer__discover(&found, path, options->allocator, err);
    *still = status != COFFER_ERR_NO_MODEL && status != COFFER_ERR_AMBIGUOUS && status != COFFER_ERR_SHARD_MISSING;
    if (status == COFFER_OK) {
        status = open_found(model, &found, options, err);
        *still = open_is_still(&found, path, status, options);
    }
    coffer__found_free(&found, options->allocator);
    return status;
}

/* A folder: what it holds is looked for when opening it has shown what it is, so that a file costs nothing more. Failures carry
   the path. */
static coffer_status open_folder(coffer **model, const char *path, const coffer_open_options *options,
                                 coffer_error *err)
{
    bool still = false;
    coffer_status status = COFFER_OK;
    coffer_status before = COFFER_OK;
    for (unsigned round = 1; round <= OPEN_MOST_ROUNDS && !still; round++) {
        coffer_close(*model);
        *model = NULL;
        status = open_folder_now(model, path, options, &still, err);
        still = still || (status != COFFER_OK && status == before);
        before = status;
    }
    if (status == COFFER_OK && !still) {
        coffer_close(*model);
        *model = NULL;
        coffer__fail(
            err, COFFER_ERR_CHANGED,
            "models are being saved in this folder all the time; open it again when whoever saves has finished");
        return coffer__fail_path(err, COFFER_ERR_CHANGED, path);
    }
    if (status == COFFER_OK) {
        (*model)->named_whole = true;
    }
    return status;
}

/* A path that leads nowhere, maybe because a model is being saved there at the moment. *again: by now it does lead somewhere. */
static coffer_status open_nowhere(const char *path, bool *again, coffer_error *err)
{
    coffer__path model;
    *again = false;
    if (!coffer__path_copy(&model, path)) {
        return COFFER_ERR_NOT_FOUND;
    }
    model.text[strlen(path) - (coffer__is_index_path(path) ? sizeof COFFER__INDEX_SUFFIX - 1 : 0)] = '\0';
    if (!coffer__saved_is_under_way(model.text)) {
        *again = coffer__os_exists(path);
        return COFFER_ERR_NOT_FOUND;
    }
    coffer__fail(err, COFFER_ERR_UNFINISHED,
                 "there is no such file: a model is being saved there, or that was interrupted; save it again, or "
                 "finish with: coffer meta --recover %p",
                 model.text);
    return coffer__fail_path(err, COFFER_ERR_UNFINISHED, path);
}

/* An index, a file or a folder. Failures carry the path. */
static coffer_status open_path(coffer **model, const char *path, const coffer_open_options *options, coffer_error *err)
{
    if (coffer__is_index_path(path)) {
        return coffer__several_open(model, path, NULL, options, err);
    }
    const coffer_status status = open_file(model, path, options, err);
    if (status == COFFER_ERR_DIRECTORY) {
        return open_folder(model, path, options, err);
    }
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
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
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, path);
    }
    bool again = true;
    for (unsigned round = 1; round <= OPEN_MOST_ROUNDS && again; round++) {
        status = open_path(model, path, &known, err);
        again = status == COFFER_ERR_NOT_FOUND;
        status = again ? open_nowhere(path, &again, err) : status;
    }
    return status;
}

/* A header that is in memory is parsed where it is. */
static coffer_status open_bytes(coffer__shard *shard, const void *bytes, size_t size, uint64_t file_size,
                                const coffer_allocator *allocator, const coffer_open_options *options,
                                coffer_error *err)
{
    const coffer_parse_options parse = open_parse_options(options, file_size);
    const coffer_status status = coffer_parse(&shard->table, NULL, bytes, size, allocator, &parse, err);
    return status == COFFER_OK ? coffer__trust_begin(shard, options->verify, allocator, err) : status;
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
    status = size == 0 ? open_empty(err) : open_bytes(made->shards, bytes, size, size, &made->allocator, &known, err);
    if (status == COFFER_ERR_DATA_TRUNCATED && known.partial) {
        status = open_bytes(made->shards, bytes, size, 0, &made->allocator, &known, err);
    }
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
    status = open_source(model, &source, NULL, &known, err);
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
    return open_source(model, &custom, NULL, &known, err);
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

static bool open_is_whole(const coffer__shard *shard, const coffer_tensor *tensor)
{
    const uint64_t size = shard->source.size;
    return tensor->offset <= size && tensor->size <= size - tensor->offset;
}

bool coffer_is_whole(const coffer *model, const coffer_tensor *tensor)
{
    const coffer__shard *shard = coffer__model_shard(model, tensor);
    return shard != NULL && open_is_whole(shard, tensor);
}

coffer_status coffer__shard_check_whole(const coffer__shard *shard, const coffer_tensor *tensor, coffer_error *err)
{
    if (open_is_whole(shard, tensor)) {
        return COFFER_OK;
    }
    const uint64_t end = tensor->offset + tensor->size;
    coffer__fail_at(err, COFFER_ERR_DATA_TRUNCATED, shard->source.size,
                    "tensor %q is not whole: it ends at byte %u, and the file at byte %u; get the file again",
                    tensor->name, (size_t)tensor->name_len, end, shard->source.size);
    coffer__fail_sizes(err, COFFER_ERR_DATA_TRUNCATED, end, shard->source.size);
    return coffer__model_fail(err, COFFER_ERR_DATA_TRUNCATED, shard, tensor);
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
    if (coffer__shard_check_whole(shard, tensor, err) != COFFER_OK ||
        coffer__trust_tensor(model, tensor, NULL, err) != COFFER_OK) {
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
    if (coffer__shard_check_whole(shard, tensor, err) != COFFER_OK ||
        coffer__trust_tensor(model, tensor, NULL, err) != COFFER_OK) {
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
