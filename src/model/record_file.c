/* SPDX-License-Identifier: Apache-2.0 */
/* Recording digests in a file that is there: they are computed, and the rest is an edit of the metadata. */
#include "alloc.h"
#include "error.h"
#include "model.h"
#include "options.h"
#include "record.h"

#include <string.h>

/* What the digests become: r of every tensor, by name, in one text. */
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

static coffer_status record_file_new(record_file_job *job, const coffer_allocator *allocator, coffer_error *err)
{
    const uint64_t text_len = coffer__record_text_len(job->algorithm, job->count);
    if (text_len < SIZE_MAX / 2) {
        job->text_len = (size_t)text_len;
        job->digests = coffer__alloc(allocator, (job->count + 1) * sizeof *job->digests);
        job->order = coffer__alloc(allocator, (job->count + 1) * sizeof *job->order);
        job->records = coffer__alloc(allocator, (job->count + 1) * COFFER_LARGEST_DIGEST_SIZE);
        job->text = coffer__alloc(allocator, job->text_len);
    }
    return job->digests != NULL && job->order != NULL && job->records != NULL && job->text != NULL
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the digests of %u tensors", (uint64_t)job->count);
}

static void record_file_free(record_file_job *job, const coffer_allocator *allocator)
{
    coffer__free(allocator, job->text, job->text_len);
    coffer__free(allocator, job->records, (job->count + 1) * COFFER_LARGEST_DIGEST_SIZE);
    coffer__free(allocator, job->order, (job->count + 1) * sizeof *job->order);
    coffer__free(allocator, job->digests, (job->count + 1) * sizeof *job->digests);
}

static coffer_status record_file_hash(record_file_job *job, const coffer_edit_options *options, coffer_error *err)
{
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = options->progress;
    reading.progress_ctx = options->progress_ctx;
    const coffer_status status =
        coffer_digest_tensors(job->model, NULL, job->count, job->algorithm, job->digests, &reading, err);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t size = coffer_algorithm_digest_size(job->algorithm);
    coffer_sort_by_name(job->model, job->order);
    for (size_t i = 0; i < job->count; i++) {
        memcpy(job->records + i * size, job->digests[job->order[i]].record, size);
    }
    coffer__record_text_write(job->text, job->algorithm, job->records, job->count);
    return COFFER_OK;
}

static coffer_status record_file_edit(const record_file_job *job, const char *path, const coffer_edit_options *options,
                                      coffer_edit_way *way, coffer_error *err)
{
    const coffer_edit edit = { COFFER_DIGESTS_KEY, strlen(COFFER_DIGESTS_KEY), job->text, job->text_len };
    coffer_edit_options silent = *options;
    silent.struct_size = sizeof silent;
    silent.progress = NULL;
    const coffer__os_info *hashed = coffer__source_seen(&job->model->shards->source);
    return coffer__edit_only(path, hashed, &edit, 1, &silent, way, err);
}

static coffer_status record_file(const coffer *model, const char *path, coffer_algorithm algorithm,
                                 const coffer_edit_options *options, coffer_edit_way *way, coffer_error *err)
{
    if (coffer_shard_count(model) != 1) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "a model of several files records digests in each of them: name the files");
    }
    const coffer_allocator *allocator = options->allocator != NULL ? options->allocator : coffer_libc_allocator();
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

coffer_status coffer_record_digests(const char *path, coffer_algorithm algorithm, const coffer_edit_options *options,
                                    coffer_edit_way *way, coffer_error *err)
{
    coffer_edit_options known;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer_open_options opening = COFFER_OPEN_OPTIONS_INIT;
    opening.allocator = known.allocator;
    opening.max_header_size = known.max_header_size;
    opening.access = COFFER_READ; /* a map would end the process when somebody makes the file shorter meanwhile */
    coffer *model = NULL;
    status = coffer_open(&model, path, &opening, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = record_file(model, path, algorithm, &known, way, err);
    coffer_close(model);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}
