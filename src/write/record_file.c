/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records digests in a file: they are computed, and the rest is an edit of the metadata. For
 * several files this is done in each of them, and then in their index (record_content.c).
 *
 * No lock is held while a file is hashed, which may take long. Instead the edit, which takes the
 * lock of the file, checks that the file is still the one that was hashed. A crash leaves what a
 * crash of an edit leaves (edit.c).
 */
#include "alloc.h"
#include "edit.h"
#include "error.h"
#include "libc_allocator.h"
#include "model.h"
#include "options.h"
#include "parts.h"
#include "record.h"

#include <string.h>

/* What becomes the text of the digests: one for each tensor, in order of the names. `digests`
   and `order` are by number of the tensor, `records` is by name. Each array has `count` entries,
   those of `records` as close together as the algorithm's digests are. */
typedef struct record_file_job {
    const coffer *model;
    coffer_algorithm algorithm;
    size_t count;
    coffer_digest *digests;
    uint32_t *order;
    uint8_t *records;
    char *text;
    size_t text_len;
} record_file_job;

/* Allocates all of it before hashing, so that a lack of memory is found before the work. The
   length of the text is counted in 64 bits, and has to fit in memory here. After a failure
   record_file_free releases what there is. */
static coffer_status record_file_new(record_file_job *job, const coffer_allocator *allocator, coffer_error *err)
{
    const uint64_t text_len = coffer__record_text_len(job->algorithm, job->count);
    if (text_len > SIZE_MAX / 2) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the digests of %u tensors", (uint64_t)job->count);
    }
    job->text_len = (size_t)text_len;
    job->digests = coffer__alloc_array(allocator, job->count, sizeof *job->digests, err);
    job->order = coffer__alloc_array(allocator, job->count, sizeof *job->order, err);
    job->records = coffer__alloc_array(allocator, job->count, COFFER_LARGEST_DIGEST_SIZE, err);
    job->text = coffer__alloc_array(allocator, job->text_len, 1, err);
    const bool made = job->digests != NULL && job->order != NULL && job->records != NULL && job->text != NULL;
    return made ? COFFER_OK : COFFER_ERR_MEMORY;
}

/* Releases what there is; pointers that were not set are NULL. */
static void record_file_free(record_file_job *job, const coffer_allocator *allocator)
{
    coffer__free_array(allocator, job->text, job->text_len, 1);
    coffer__free_array(allocator, job->records, job->count, COFFER_LARGEST_DIGEST_SIZE);
    coffer__free_array(allocator, job->order, job->count, sizeof *job->order);
    coffer__free_array(allocator, job->digests, job->count, sizeof *job->digests);
}

/* Hashes all tensors, then puts their digests in byte order of the names, as the format of the
   text demands. What is recorded is the digest that covers name, dtype and shape as well as the
   data (record.h). */
static coffer_status record_file_hash(record_file_job *job, const coffer_edit_options *options, coffer_error *err)
{
    coffer_digest_options hashing = COFFER_DIGEST_OPTIONS_INIT;
    hashing.progress = options->progress;
    hashing.progress_ctx = options->progress_ctx;
    const coffer_status status =
        coffer_digest_tensors(job->model, NULL, job->count, job->algorithm, job->digests, &hashing, err);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t size = coffer_algorithm_digest_size(job->algorithm);
    /* The digests come in the order of the numbers; the list is in byte order of the names. */
    coffer_sort_by_name(job->model, job->order);
    for (size_t i = 0; i < job->count; i++) {
        memcpy(job->records + i * size, job->digests[job->order[i]].record, size);
    }
    coffer__record_text_write(job->text, job->algorithm, job->records, job->count);
    return COFFER_OK;
}

/* Edits the file that was hashed and no other: COFFER_ERR_CHANGED if it was replaced or written
   to since, as the digests would not be its own. The edit reports no progress, since hashing was
   nearly all of the work and was reported. The options were copied by this version of the
   library, so their size is set to that of its struct. */
static coffer_status record_file_edit(const record_file_job *job, const char *path, const coffer_edit_options *options,
                                      coffer_edit_way *way, coffer_error *err)
{
    const coffer_edit edit = { COFFER_DIGESTS_KEY, strlen(COFFER_DIGESTS_KEY), job->text, job->text_len };
    coffer_edit_options silent = *options;
    silent.struct_size = sizeof silent;
    silent.progress = NULL;
    const coffer__os_info *hashed = coffer__source_seen(&job->model->shards->source);
    coffer__edit_reported reported;
    const coffer__edit_wanted wanted = { .edits = &edit, .count = 1, .only = hashed };
    const coffer_status status = coffer__edit_only(path, &wanted, &silent, &reported, err);
    if (status == COFFER_OK && way != NULL) {
        *way = reported.way;
    }
    return status;
}

/* Records digests in the one file of `model`, which is at `path`. On failure the file is as it
   was. */
static coffer_status record_file(const coffer *model, const char *path, coffer_algorithm algorithm,
                                 const coffer_edit_options *options, coffer_edit_way *way, coffer_error *err)
{
    const coffer_allocator *allocator = coffer__allocator_or_libc(options->allocator);
    record_file_job job = { .model = model, .algorithm = algorithm, .count = coffer_count(model) };
    coffer_status status = record_file_new(&job, allocator, err);
    if (status == COFFER_OK) {
        status = record_file_hash(&job, options, err);
    }
    if (status == COFFER_OK) {
        status = record_file_edit(&job, path, options, way, err);
    }
    record_file_free(&job, allocator);
    return status;
}

/* ---- several files ----------------------------------------------------------------------------------------------- */

/* Records digests in every file. Each is opened again by its own path, and is then a model of
   one file, so coffer_record_digests calls itself no deeper than this. *way becomes the way that
   did most among those that the files took. A failure leaves the files before it recorded;
   calling again completes the rest, as recording the same digests again changes nothing. */
static coffer_status record_files(const coffer *model, coffer_algorithm algorithm, const coffer_edit_options *options,
                                  coffer_edit_way *way, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    coffer__parts parts = { .before = 0 }; /* counts bytes of tensors */
    coffer_edit_options telling = *options;
    telling.struct_size = sizeof telling;
    coffer__parts_begin(&parts, &telling.progress, &telling.progress_ctx);
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        /* The total is known before the first file, so that progress never jumps back. */
        parts.total += coffer_table_data_size(coffer_shard_table(model, i));
    }
    *way = COFFER_EDITED_NOTHING;
    for (size_t i = 0; i < coffer_shard_count(model) && status == COFFER_OK; i++) {
        coffer_edit_way taken = COFFER_EDITED_NOTHING;
        status = coffer_record_digests(coffer_shard_path(model, i), algorithm, &telling, &taken, err);
        *way = taken > *way ? taken : *way;
        parts.before += coffer_table_data_size(coffer_shard_table(model, i));
    }
    return status;
}

/* ---- what is at a path ------------------------------------------------------------------------------------------- */

/* Records in what the path leads to. A folder may hold a single file: then the file is edited,
   and errors name the path as it was given. The index comes after all files, because its digests
   follow from what they record; a failure before that leaves it as it was. */
static coffer_status record_any(const coffer *model, const char *path, coffer_algorithm algorithm,
                                coffer_edit_options *options, coffer_edit_way *way, coffer_error *err)
{
    if (coffer_shard_count(model) == 1 && coffer_index_metadata(model, NULL) == NULL) {
        /* The path may be that of a folder, and a file is edited. */
        const coffer_status status = record_file(model, coffer_shard_path(model, 0), algorithm, options, way, err);
        return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
    }
    /* Several files, or an index even of one. */
    coffer_edit_way of_index = COFFER_EDITED_NOTHING;
    coffer_status status = record_files(model, algorithm, options, way, err);
    /* The index, if there is one. Files of a set without an index record their own digests only. */
    if (status == COFFER_OK && coffer_index_metadata(model, NULL) != NULL) {
        options->struct_size = sizeof *options;
        status = coffer_record_content(path, options, &of_index, err);
    }
    *way = of_index > *way ? of_index : *way;
    return status;
}

/* *way is set on success only. The model is opened for the time of the call, and not mapped: see
   below. */
coffer_status coffer_record_digests(const char *path, coffer_algorithm algorithm, const coffer_edit_options *options,
                                    coffer_edit_way *way, coffer_error *err)
{
    coffer_edit_options known;
    coffer_edit_way taken = COFFER_EDITED_NOTHING;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer_open_options opening = COFFER_OPEN_OPTIONS_INIT;
    opening.formats = COFFER_FORMATS_OWN;
    opening.allocator = known.allocator;
    opening.max_header_size = known.max_header_size;
    opening.access = COFFER_READ; /* if somebody makes the file shorter, reading a map would end the process */
    coffer *model = NULL;
    status = coffer_open(&model, path, &opening, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = record_any(model, path, algorithm, &known, &taken, err);
    coffer_close(model);
    if (status == COFFER_OK && way != NULL) {
        *way = taken;
    }
    return status;
}
