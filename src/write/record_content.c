/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records digests of a whole model in its index. They follow from what the files record, so no data
 * is read, and only the index is written, under the lock of the folder that savers hold.
 *
 * The new index replaces the old one by a rename, so a crash or a failure leaves the old index or
 * the new one, whole. Programs that load the model need no lock.
 */
#include "alloc.h"
#include "content.h"
#include "edit.h"
#include "error.h"
#include "index.h"
#include "index_file.h"
#include "libc_allocator.h"
#include "model.h"
#include "options.h"
#include "record.h"

#include <string.h>

/* One call, from beginning to end. record_content_free releases whatever there is of it, in any
   state: it begins as zeros, except for `folder`. */
typedef struct record_content_job {
    coffer_edit_options options;
    coffer_allocator allocator;
    coffer *model;
    coffer__path path; /* of the index itself */
    int folder;        /* locked; -1: not open */
    coffer__content content;
    char *texts; /* of both digests, one after the other */
    size_t texts_len;
    coffer__whole old;
    char *fresh;
    size_t fresh_size;
} record_content_job;

/* For allocations that fill no error of their own. */
static coffer_status record_content_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model's index");
}

/* The lock of the folder goes last, with its descriptor. */
static void record_content_free(record_content_job *job)
{
    coffer__free(&job->allocator, job->fresh, job->fresh_size);
    coffer__whole_free(&job->old, &job->allocator);
    coffer__free(&job->allocator, job->texts, job->texts_len);
    coffer__content_free(&job->content);
    coffer_close(job->model);
    if (job->folder >= 0) {
        (void)coffer__os_close(job->folder);
    }
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* Opens the model that is to be recorded: one that has a local index, which can be replaced. It
   is read and not mapped, as someone may truncate a file in the meantime. On failure `model` may
   be set; record_content_free closes it. */
static coffer_status record_content_open(record_content_job *job, const char *path, coffer_error *err)
{
    coffer_open_options opening = COFFER_OPEN_OPTIONS_INIT;
    opening.formats = COFFER_FORMATS_OWN;
    opening.allocator = &job->allocator;
    opening.max_header_size = job->options.max_header_size;
    opening.access = COFFER_READ;
    const coffer_status status = coffer_open(&job->model, path, &opening, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* A set without an index has nowhere to record, and an index on a server cannot be replaced. */
    const coffer__sharded *sharded = job->model->sharded;
    if (sharded == NULL || sharded->index_path == NULL || job->model->web != NULL) {
        coffer__fail(err, COFFER_ERR_ARGUMENT,
                     "digests of the whole are recorded in the index of a local sharded model, and this has none");
        return coffer__fail_path(err, COFFER_ERR_ARGUMENT, path);
    }
    return COFFER_OK;
}

/* Locks the folder. The index itself may be a link; the lock is that of the folder where savers of
   the model work, and so not that of the folder that the link leads to. `job->path` becomes the index itself, which is what will be replaced. */
static coffer_status record_content_lock(record_content_job *job, const char *index, coffer_error *err)
{
    const coffer_status status = coffer__edit_resolve(index, job->options.follow_links, &job->path, err);
    /* The folder of the index as it was named, not of what a link leads to. */
    return status == COFFER_OK ? coffer__index_file_lock(index, &job->folder, err) : status;
}

/* ---- the index --------------------------------------------------------------------------------------------------- */

/* Makes the values of both members, one after the other in one block, which the job owns;
   `values` point into it. Each is base64 with a prefix, so it needs no escapes, as
   coffer__index_write_records demands. */
static coffer_status record_content_write_texts(record_content_job *job, coffer__name values[COFFER__INDEX_RECORDS],
                                                coffer_error *err)
{
    const coffer__content *content = &job->content;
    /* One digest for the whole, and one for each file. */
    const size_t one = (size_t)coffer__record_text_len(content->algorithm, 1);
    const size_t all = (size_t)coffer__record_text_len(content->algorithm, content->count);
    job->texts_len = one + all;
    job->texts = coffer__alloc(&job->allocator, job->texts_len);
    if (job->texts == NULL) {
        return record_content_no_memory(err);
    }
    coffer__record_text_write(job->texts, content->algorithm, content->digest, 1);
    coffer__record_text_write(job->texts + one, content->algorithm, content->shards, content->count);
    /* By number of the member; no NUL ends them. */
    values[COFFER__INDEX_CONTENT] = (coffer__name){ job->texts, one };
    values[COFFER__INDEX_SHARDS] = (coffer__name){ job->texts + one, all };
    return COFFER_OK;
}

/* Makes the new text of the index: only the recorded values change, every other byte stays. It
   is measured first and then written. */
static coffer_status record_content_splice(record_content_job *job, const coffer__model_index *index,
                                           const coffer__name values[COFFER__INDEX_RECORDS], coffer_error *err)
{
    job->fresh_size = coffer__index_write_records(index, job->old.bytes, job->old.size, values, NULL);
    job->fresh = coffer__alloc(&job->allocator, job->fresh_size);
    if (job->fresh == NULL) {
        return record_content_no_memory(err);
    }
    (void)coffer__index_write_records(index, job->old.bytes, job->old.size, values, job->fresh);
    return COFFER_OK;
}

/* Reads the index and makes its new text. The index is read again here, under the lock, because
   the text that is changed must be the one that is replaced. The parsed index points into `old`
   and is not needed afterwards; both texts stay with the job to be compared. */
static coffer_status record_content_make(record_content_job *job, coffer_error *err)
{
    coffer__model_index index;
    coffer__name values[COFFER__INDEX_RECORDS];
    coffer_status status =
        coffer__model_dir_read(job->path.text, NULL, COFFER__INDEX_MAX_BYTES, &job->allocator, &job->old, err);
    if (status == COFFER_OK) {
        status = record_content_write_texts(job, values, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    /* The parsed text tells where the values are that are replaced, or where they can be added. */
    status =
        coffer__index_read(&index, job->old.bytes, job->old.size, coffer__model_dir_check_shard, &job->allocator, err);
    if (status == COFFER_OK) {
        status = record_content_splice(job, &index, values, err);
    }
    coffer__index_free(&index);
    return status;
}

/* Does everything about the index, under the lock. An index that records the same digests
   already is not touched: it keeps its time of change, so that calling again is harmless and
   copies of the model stay equal. */
static coffer_status record_content_edit(record_content_job *job, coffer_edit_way *way, coffer_error *err)
{
    coffer_status status = record_content_make(job, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* The same length and the same bytes: nothing to do. */
    if (job->fresh_size == job->old.size && memcmp(job->fresh, job->old.bytes, job->old.size) == 0) {
        *way = COFFER_EDITED_NOTHING;
        return COFFER_OK;
    }
    *way = COFFER_EDITED_REWRITE;
    return coffer__index_file_publish(job->path.text, job->fresh, job->fresh_size, NULL, job->options.sync,
                                      &job->allocator, err);
}

/* Opens the model twice. The first time tells where its index is, and so which folder to lock.
   The second time, under the lock, tells what its files record, when no saver can change them
   any more. Between the two another saver may have replaced the model; then the digests are
   those of the model that is there now, by the same index path. Errors name the index, except
   those that are about a file of the model. */
static coffer_status record_content_run(record_content_job *job, const char *path, coffer_edit_way *way,
                                        coffer_error *err)
{
    /* First without the lock, as the folder is not known yet. */
    coffer_status status = record_content_open(job, path, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__path index;
    /* The path is copied, because closing the model releases it. */
    (void)coffer__path_copy(&index, job->model->sharded->index_path);
    status = record_content_lock(job, index.text, err);
    if (status == COFFER_OK) {
        coffer_close(job->model);
        job->model = NULL;
        status = record_content_open(job, index.text, err);
    }
    if (status != COFFER_OK) {
        return coffer__fail_path(err, status, index.text);
    }
    /* Under the lock: what the files record now. */
    status = coffer__content_compute(&job->content, job->model, err);
    if (status != COFFER_OK) {
        return status; /* it names the file */
    }
    status = record_content_edit(job, way, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, index.text);
}

/* *way is set on success only. */
coffer_status coffer_record_content(const char *path, const coffer_edit_options *options, coffer_edit_way *way,
                                    coffer_error *err)
{
    coffer_edit_way taken = COFFER_EDITED_NOTHING;
    record_content_job job = { .folder = -1 };
    coffer_status status = coffer__options_copy(&job.options, sizeof job.options, options, err);
    if (status == COFFER_OK && (unsigned)job.options.sync > COFFER_SYNC_NEVER) {
        status = coffer__fail(err, COFFER_ERR_ARGUMENT, "the option `sync` has no such value");
    }
    if (status != COFFER_OK) {
        return status;
    }
    job.allocator = *coffer__allocator_or_libc(job.options.allocator);
    /* Set before anything can fail, so that record_content_free can release a job that has not
       begun. */
    job.content.allocator = job.allocator;
    status = record_content_run(&job, path, &taken, err);
    record_content_free(&job);
    if (status == COFFER_OK && way != NULL) {
        *way = taken;
    }
    return status;
}
