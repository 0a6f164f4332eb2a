/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixes the index of a model: see coffer_fix_index for what it promises. The files of the model are opened as several files
 * without an index are, so that no name is in two of them, and the new text is made of their tables. It replaces the old
 * index as index_file.h says, under the lock of the folder. All decisions are made of what was read under that lock.
 */
#include "alloc.h"
#include "discover.h"
#include "edit.h"
#include "errno_status.h"
#include "error.h"
#include "index.h"
#include "index_file.h"
#include "index_text.h"
#include "libc_allocator.h"
#include "model.h"
#include "opening.h"
#include "options.h"
#include "pending_save.h"
#include "shard_name.h"
#include "sharded.h"

#include <errno.h>
#include <string.h>

/* One call. It begins as zeros, except for `folder`, and fix_free releases it in any state. */
typedef struct fix_job {
    coffer_edit_options options;
    coffer_allocator allocator;
    bool dry_run;
    coffer__path index; /* as it was named, or follows from the names of the files */
    coffer__path real;  /* the index itself, where that is a link */
    coffer__path first; /* a file of the set that is meant; "": it is to be found */
    bool chosen;        /* by the caller, who named one of its files */
    bool exists;        /* there is an index */
    bool readable;      /* and it can be read */
    int folder;         /* locked; -1: not open */
    coffer__whole old;
    coffer__model_index read; /* of the old index, if it is readable */
    char *texts;              /* the names of the files */
    size_t texts_size;
    coffer__name *files; /* the files in order */
    size_t file_count;
    coffer *model;
    char *fresh;
    size_t fresh_size;
} fix_job;

static void fix_free(fix_job *job)
{
    coffer__free(&job->allocator, job->fresh, job->fresh_size);
    coffer_close(job->model);
    coffer__free_array(&job->allocator, job->files, job->file_count, sizeof *job->files);
    coffer__free(&job->allocator, job->texts, job->texts_size);
    if (job->exists) {
        coffer__index_free(&job->read);
        coffer__whole_free(&job->old, &job->allocator);
    }
    if (job->folder >= 0) {
        (void)coffer__os_close(job->folder);
    }
}

/* ---- which index ------------------------------------------------------------------------------------------------- */

/* The index of a set, by the name of one of its files. A prefix of one character is only the sign before the digits. */
static coffer_status fix_index_of_set(fix_job *job, const char *path, coffer_error *err)
{
    static const char suffix[] = COFFER__FILE_SUFFIX COFFER__INDEX_SUFFIX;
    coffer__shard_name parts;
    coffer__path name = { "" };
    const char *file = path + coffer__path_name_at(path);
    if (!coffer__shard_name_read(&parts, file, strlen(file))) {
        return coffer__fail(
            err, COFFER_ERR_ARGUMENT,
            "the model is one file, which needs no index; of several files the names have to be those of a "
            "set (model-00001-of-00002.safetensors)");
    }
    const size_t stem = parts.prefix_len > 1 ? parts.prefix_len - 1 : 0;
    const bool fits = coffer__path_append(&name, stem > 0 ? file : "model", stem > 0 ? stem : strlen("model")) &&
                      coffer__path_append(&name, suffix, sizeof suffix - 1) &&
                      coffer__path_sibling(&job->index, path, name.text) && coffer__path_copy(&job->first, path);
    return fits ? COFFER_OK : coffer__errno_status(err, "name the index", path, ENAMETOOLONG);
}

/* A set that lacks files is found, too: which ones is said when they are looked for. */
static coffer_status fix_find_in_folder(fix_job *job, const char *path, coffer_error *err)
{
    coffer__found found;
    coffer_status status = coffer__discover(&found, path, &job->allocator, err);
    if (status == COFFER_OK && found.is_index) {
        job->index = found.path;
    } else if (status == COFFER_OK) {
        status = fix_index_of_set(job, found.path.text, err);
    }
    coffer__found_free(&found, &job->allocator);
    return status;
}

static coffer_status fix_find_index(fix_job *job, const char *path, coffer_error *err)
{
    coffer__os_info info;
    if (coffer_is_index(path)) {
        return coffer__path_copy(&job->index, path) ? COFFER_OK
                                                    : coffer__errno_status(err, "name the index", path, ENAMETOOLONG);
    }
    const int os_error = coffer__os_inspect(path, true, &info);
    if (os_error != 0) {
        return coffer__errno_status(err, "find the model", NULL, os_error);
    }
    if (info.kind == COFFER__OS_DIRECTORY) {
        return fix_find_in_folder(job, path, err);
    }
    job->chosen = true;
    return fix_index_of_set(job, path, err);
}

/* ---- which files ------------------------------------------------------------------------------------------------- */

static bool fix_beside(const fix_job *job, coffer__name file, coffer__path *path)
{
    coffer__path name = { "" };
    return coffer__path_append(&name, file.text, file.len) && coffer__path_sibling(path, job->index.text, name.text);
}

static bool fix_is_there(const fix_job *job, coffer__name file)
{
    coffer__path path;
    return fix_beside(job, file, &path) && coffer__os_exists(path.text);
}

/* Reads the old index, if there is one. One that is damaged counts as one that names nothing. */
static coffer_status fix_read_old(fix_job *job, coffer_error *err)
{
    job->exists = coffer__os_exists(job->index.text);
    if (!job->exists) {
        return COFFER_OK;
    }
    const coffer_allocator *allocator = &job->allocator;
    coffer_status status =
        coffer__model_dir_read(job->index.text, NULL, COFFER__INDEX_MAX_BYTES, allocator, &job->old, err);
    if (status != COFFER_OK) {
        return status;
    }
    status =
        coffer__index_read(&job->read, job->old.bytes, job->old.size, coffer__model_dir_check_name, allocator, err);
    job->readable = status == COFFER_OK && job->read.count > 0;
    return status == COFFER_ERR_MEMORY ? status : COFFER_OK;
}

/* Whether a model can be made of what the index names: tensors of ours, all of which are there. */
static bool fix_resolves(const fix_job *job)
{
    bool resolves = job->readable;
    for (size_t i = 0; i < job->read.shard_count && resolves; i++) {
        coffer__path name = { "" };
        const coffer__name file = job->read.shards[i].file;
        resolves = coffer__path_append(&name, file.text, file.len) &&
                   coffer_format_from_path(name.text) != COFFER_FORMAT_ANY && fix_is_there(job, file);
    }
    return resolves;
}

/* Whether all files of a set are there. */
static bool fix_is_complete(const fix_job *job, const char *file)
{
    coffer__shard_name parts;
    bool complete = coffer__shard_name_read(&parts, file, strlen(file)) && parts.total <= COFFER__INDEX_MAX_SHARDS;
    for (uint32_t number = 1; complete && number <= parts.total; number++) {
        coffer__path name;
        coffer__shard_name_make(&name, file, &parts, number);
        complete = fix_is_there(job, (coffer__name){ name.text, strlen(name.text) });
    }
    return complete;
}

/* The search for complete sets of the index's name. */
typedef struct fix_search {
    const fix_job *job;
    coffer__name stem; /* of the index: "model" */
    coffer__path sets[2];
    size_t count;
} fix_search;

/* Called for each name of the folder. Two sets are as many as it takes. */
static bool fix_see(void *ctx, const char *text)
{
    fix_search *search = ctx;
    coffer__shard_name parts;
    const bool first = coffer__shard_name_read(&parts, text, strlen(text)) && parts.number == 1;
    if (first && parts.prefix_len == search->stem.len + 1 && memcmp(text, search->stem.text, search->stem.len) == 0 &&
        fix_is_complete(search->job, text)) {
        (void)coffer__path_copy(&search->sets[search->count++], text);
    }
    return search->count < 2;
}

/* Finds the only complete set that the index can be of. */
static coffer_status fix_find_set(fix_job *job, coffer_error *err)
{
    static const char suffix[] = COFFER__FILE_SUFFIX COFFER__INDEX_SUFFIX;
    coffer__path folder;
    const char *name = job->index.text + coffer__path_name_at(job->index.text);
    const size_t len = strlen(name);
    fix_search search = { .job = job, .stem = { name, len > sizeof suffix ? len - (sizeof suffix - 1) : 0 } };
    int os_error = coffer__path_directory(&folder, job->index.text) ? 0 : ENAMETOOLONG;
    if (os_error == 0) {
        os_error = coffer__os_list(folder.text, fix_see, &search);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "list the model's folder", NULL, os_error);
    }
    if (search.count == 0) {
        return coffer__fail(err, COFFER_ERR_SHARD_MISSING,
                            "the index names files that are not there, and no complete set of files is next to it (%q, "
                            "...): get the missing files",
                            "model-00001-of-00002.safetensors", strlen("model-00001-of-00002.safetensors"));
    }
    if (search.count > 1) {
        return coffer__fail(
            err, COFFER_ERR_AMBIGUOUS,
            "two sets of files are complete, those of %q and %q, and which is the model is not known: name "
            "a file of the one that is meant",
            search.sets[0].text, strlen(search.sets[0].text), search.sets[1].text, strlen(search.sets[1].text));
    }
    return coffer__path_sibling(&job->first, job->index.text, search.sets[0].text)
               ? COFFER_OK
               : coffer__errno_status(err, "name the file", NULL, ENAMETOOLONG);
}

/* The set that all files of the index belong to, if it is complete; else NULL. */
static const char *fix_set_of_index(const fix_job *job, coffer__path *name)
{
    const coffer__index_shard *shards = job->read.shards;
    *name = (coffer__path){ "" };
    bool one = coffer__path_append(name, shards[0].file.text, shards[0].file.len);
    for (size_t i = 1; i < job->read.shard_count && one; i++) {
        one = coffer__shard_name_same_set(shards[0].file, shards[i].file);
    }
    return one && fix_is_complete(job, name->text) ? name->text : NULL;
}

static coffer_status fix_reserve(fix_job *job, size_t count, coffer_error *err)
{
    job->file_count = count;
    job->files = coffer__alloc_array(&job->allocator, count, sizeof *job->files, err);
    return job->files != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
}

/* The files of a set, by the name of one. All names of a set are of one length. */
static coffer_status fix_take_set(fix_job *job, const char *file, coffer_error *err)
{
    coffer__shard_name parts;
    (void)coffer__shard_name_read(&parts, file, strlen(file));
    const size_t len = strlen(file);
    coffer_status status = fix_reserve(job, parts.total, err);
    job->texts_size = status == COFFER_OK ? (size_t)parts.total * (len + 1) : 0;
    job->texts = status == COFFER_OK ? coffer__alloc(&job->allocator, job->texts_size) : NULL;
    if (job->texts == NULL) {
        job->texts_size = 0;
        return status == COFFER_OK ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model's index") : status;
    }
    for (uint32_t number = 1; number <= parts.total; number++) {
        coffer__path name;
        char *text = job->texts + (number - 1) * (len + 1);
        coffer__shard_name_make(&name, file, &parts, number);
        memcpy(text, name.text, len + 1);
        job->files[number - 1] = (coffer__name){ text, len };
    }
    return COFFER_OK;
}

static coffer_status fix_take_old(fix_job *job, coffer_error *err)
{
    const coffer_status status = fix_reserve(job, job->read.shard_count, err);
    for (size_t i = 0; status == COFFER_OK && i < job->file_count; i++) {
        job->files[i] = job->read.shards[i].file;
    }
    return status;
}

/* Whoever loads the model by the old index may get tensors of a file that the new one does not name: one that is not of the
   set, all of which are named. */
static coffer_status fix_check_old(const fix_job *job, coffer_error *err)
{
    for (size_t i = 0; job->readable && !job->chosen && i < job->read.shard_count; i++) {
        const coffer__name file = job->read.shards[i].file;
        if (!coffer__shard_name_same_set(file, job->files[0]) && fix_is_there(job, file)) {
            return coffer__fail(
                err, COFFER_ERR_AMBIGUOUS,
                "the index names %q, which exists, and not the complete set of %q: which is the model is "
                "not known; name a file of the set if that is meant",
                file.text, file.len, job->files[0].text, job->files[0].len);
        }
    }
    return COFFER_OK;
}

static coffer_status fix_choose_files(fix_job *job, coffer_error *err)
{
    coffer__path name;
    const bool resolves = job->first.text[0] == '\0' && fix_resolves(job);
    const char *set = resolves ? fix_set_of_index(job, &name) : NULL;
    if (resolves && set == NULL) {
        return fix_take_old(job, err);
    }
    coffer_status status = COFFER_OK;
    if (!resolves && job->first.text[0] == '\0') {
        status = fix_find_set(job, err);
    }
    if (status == COFFER_OK && set == NULL) {
        set = job->first.text + coffer__path_name_at(job->first.text);
        status =
            fix_is_complete(job, set)
                ? COFFER_OK
                : coffer__fail(err, COFFER_ERR_SHARD_MISSING,
                               "not all files exist that are named like %q: get the missing ones", set, strlen(set));
    }
    if (status == COFFER_OK) {
        status = fix_take_set(job, set, err);
    }
    return status == COFFER_OK ? fix_check_old(job, err) : status;
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

static uint64_t fix_total(const fix_job *job)
{
    uint64_t total = 0;
    for (size_t i = 0; i < coffer_count(job->model); i++) {
        total += coffer_at(job->model, i)->size;
    }
    return total;
}

static const char *fix_file_of(const fix_job *job, const coffer_tensor *tensor)
{
    const char *path = coffer_shard_path(job->model, tensor->shard);
    return path + coffer__path_name_at(path);
}

/* Whether the old index says all of it already, in whatever spelling. */
static bool fix_is_right(const fix_job *job)
{
    bool right = job->readable && job->read.count == coffer_count(job->model) && job->read.total_size_is_read &&
                 job->read.total_size == fix_total(job);
    for (size_t i = 0; right && i < job->read.count; i++) {
        const coffer__index_entry *entry = &job->read.entries[i];
        const coffer_tensor *tensor = coffer_find(job->model, entry->name.text, entry->name.len);
        const char *file = tensor != NULL ? fix_file_of(job, tensor) : "";
        right = strlen(file) == entry->file.len && memcmp(file, entry->file.text, entry->file.len) == 0;
    }
    return right;
}

/* With `out` NULL it is only measured. */
static size_t fix_put(const fix_job *job, char *out)
{
    coffer__index_writer text = { .size = 0 };
    text.out = out;
    const bool has = job->readable && job->read.metadata != NULL;
    const coffer__name metadata = { has ? job->read.metadata : "", has ? job->read.metadata_len : 0 };
    coffer__index_begin(&text);
    coffer__index_put_metadata(&text, metadata, job->read.total_size_from, has ? job->read.total_size_len : 0,
                               fix_total(job));
    coffer__index_begin_weights(&text);
    for (size_t i = 0; i < coffer_count(job->model); i++) {
        const coffer_tensor *tensor = coffer_at(job->model, i);
        coffer__index_put_weight(&text, (coffer__name){ tensor->name, tensor->name_len }, fix_file_of(job, tensor));
    }
    return coffer__index_end(&text);
}

static coffer_status fix_make_text(fix_job *job, coffer_error *err)
{
    job->fresh_size = fix_put(job, NULL);
    if (job->fresh_size > COFFER__INDEX_MAX_BYTES) {
        job->fresh_size = 0;
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the index would be larger than readers accept");
    }
    job->fresh = coffer__alloc(&job->allocator, job->fresh_size);
    if (job->fresh == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model's index");
    }
    (void)fix_put(job, job->fresh);
    return COFFER_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* A save that was interrupted has an index of its own to come. */
static coffer_status fix_check_saved(const fix_job *job, coffer_error *err)
{
    coffer__path model = job->index;
    model.text[strlen(model.text) - (sizeof COFFER__INDEX_SUFFIX - 1)] = '\0';
    return coffer__pending_save_interrupted(model.text) == COFFER__INTERRUPTED_NOT
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_UNFINISHED,
                              "a model is being saved there, or a save was interrupted: finish with: coffer meta "
                              "--recover %p",
                              model.text);
}

/* The index itself, which is replaced. One that does not exist is no link. */
static coffer_status fix_lock(fix_job *job, coffer_error *err)
{
    job->real = job->index;
    const coffer_status status = coffer__os_exists(job->index.text)
                                     ? coffer__edit_resolve(job->index.text, job->options.follow_links, &job->real, err)
                                     : COFFER_OK;
    return status == COFFER_OK && !job->dry_run ? coffer__index_file_lock(job->index.text, &job->folder, err) : status;
}

/* Where a tensor is in two files, the old index says which of them counts, if it names these files. */
static coffer_status fix_open(fix_job *job, coffer_error *err)
{
    coffer__path path;
    coffer_open_options opening = COFFER_OPEN_OPTIONS_INIT;
    opening.formats = COFFER_FORMATS_OWN;
    opening.allocator = &job->allocator;
    opening.max_header_size = job->options.max_header_size;
    opening.access = COFFER_READ;
    if (job->files == NULL) {
        return coffer__fail(err, COFFER_ERR_SHARD_MISSING, "the model has no file");
    }
    if (!fix_beside(job, job->files[0], &path)) {
        return coffer__errno_status(err, "name the file", NULL, ENAMETOOLONG);
    }
    const coffer_status status =
        coffer__sharded_open_set(&job->model, path.text, job->files, job->file_count, &opening, err);
    return status == COFFER_ERR_TWO_SHARDS && job->readable && job->read.shard_count == job->file_count
               ? coffer__sharded_open(&job->model, job->index.text, NULL, &opening, err)
               : status;
}

/* What is done to the index, once the model is open. */
static coffer_status fix_write(fix_job *job, coffer_edit_way *way, coffer_error *err)
{
    *way = COFFER_EDITED_NOTHING;
    if (fix_is_right(job)) {
        return COFFER_OK;
    }
    const coffer_status status = fix_make_text(job, err);
    if (status != COFFER_OK || job->dry_run) {
        *way = COFFER_EDITED_REWRITE;
        return status;
    }
    *way = COFFER_EDITED_REWRITE;
    return coffer__index_file_publish(job->real.text, job->fresh, job->fresh_size, job->exists ? &job->old.seen : NULL,
                                      job->options.sync, &job->allocator, err);
}

static coffer_status fix_run(fix_job *job, const char *path, coffer_edit_way *way, coffer_error *err)
{
    coffer_status status = fix_find_index(job, path, err);
    if (status == COFFER_OK) {
        status = fix_lock(job, err);
    }
    if (status == COFFER_OK) {
        status = fix_check_saved(job, err);
    }
    if (status == COFFER_OK) {
        status = fix_read_old(job, err);
    }
    if (status == COFFER_OK) {
        status = fix_choose_files(job, err);
    }
    if (status == COFFER_OK) {
        status = fix_open(job, err);
    }
    return status == COFFER_OK ? fix_write(job, way, err) : status;
}

static void fix_tell(const fix_job *job, coffer_edit_way way, coffer_fixed_index *fixed)
{
    coffer_fixed_index reported = COFFER_FIXED_INDEX_INIT;
    const char *name = job->index.text + coffer__path_name_at(job->index.text);
    const size_t size = fixed->struct_size < sizeof reported ? fixed->struct_size : sizeof reported;
    reported.struct_size = fixed->struct_size;
    reported.way = way;
    (void)coffer__text_append(reported.name, sizeof reported.name, name, strlen(name));
    reported.file_count = job->file_count;
    reported.tensor_count = coffer_count(job->model);
    reported.total_size = fix_total(job);
    reported.damaged = job->exists && !job->readable;
    for (size_t i = 0; job->readable && i < job->read.count; i++) {
        const coffer__name name_of = job->read.entries[i].name;
        reported.missing_count += coffer_find(job->model, name_of.text, name_of.len) == NULL;
    }
    memcpy(fixed, &reported, size);
}

coffer_status coffer_fix_index(const char *path, const coffer_edit_options *options, bool dry_run,
                               coffer_fixed_index *fixed, coffer_error *err)
{
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    fix_job job = { .folder = -1, .dry_run = dry_run };
    coffer_status status = coffer__options_copy(&job.options, sizeof job.options, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (path == NULL || (unsigned)job.options.sync > COFFER_SYNC_NEVER) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the path is NULL, or the option `sync` has no such value");
    }
    job.allocator = *coffer__allocator_or_libc(job.options.allocator);
    status = fix_run(&job, path, &way, err);
    if (status == COFFER_OK && fixed != NULL) {
        fix_tell(&job, way, fixed);
    }
    fix_free(&job);
    return status == COFFER_OK || (err != NULL && err->path[0] != '\0') ? status : coffer__fail_path(err, status, path);
}
