/* SPDX-License-Identifier: Apache-2.0 */
#include "writer_carry.h"

#include "alloc.h"
#include "error.h"
#include "model.h"
#include "model_writer.h"
#include "output_target.h"
#include "sort.h"
#include "writer_own.h"

/* One call. The rows are those of the carries, in the order of the new file. */
typedef struct carries_job {
    coffer_writer *writer;
    const coffer__carry *carries;
    size_t count;
    uint32_t *order; /* numbers of carries */
    coffer__transfer_op *rows;
} carries_job;

static const coffer_tensor *carries_target(const carries_job *job, size_t i)
{
    return coffer_header_at(job->writer->header, job->carries[i].to);
}

static bool carries_before(const void *ctx, uint32_t a, uint32_t b)
{
    return carries_target(ctx, a)->offset < carries_target(ctx, b)->offset;
}

/* ---- before it is written ---------------------------------------------------------------------------------------- */

static coffer_status carries_check(const carries_job *job, size_t i, coffer_error *err)
{
    const coffer_tensor *target = carries_target(job, i);
    const uint64_t size = job->carries[i].row.size;
    if (target == NULL) {
        return coffer__writer_no_tensor(err);
    }
    if (target->size == size) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_WRITE_RANGE, "tensor %q was declared with %u bytes, and the one to write has %u",
                 target->name, (size_t)target->name_len, target->size, size);
    coffer__fail_sizes(err, COFFER_ERR_WRITE_RANGE, target->size, size);
    return coffer__fail_tensor(err, COFFER_ERR_WRITE_RANGE, target->name, target->name_len);
}

/* Checks the carries, sorts them by place, and makes the rows. Needs no lock: the header does not change. */
static coffer_status carries_plan(carries_job *job, coffer_error *err)
{
    const coffer_allocator *allocator = &job->writer->allocator;
    if (job->count > UINT32_MAX) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan the writing of %u tensors",
                            (uint64_t)job->count);
    }
    job->order = coffer__alloc_array(allocator, job->count, sizeof *job->order, err);
    job->rows = coffer__alloc_array(allocator, job->count, sizeof *job->rows, err);
    if (job->order == NULL || job->rows == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < job->count; i++) {
        const coffer_status status = carries_check(job, i, err);
        if (status != COFFER_OK) {
            return status;
        }
        job->order[i] = (uint32_t)i;
    }
    const carries_job given = *job; /* the sort changes `order`, which the comparison does not need */
    coffer__sort(job->order, job->count, carries_before, &given);
    for (size_t i = 0; i < job->count; i++) {
        job->rows[i] = job->carries[job->order[i]].row;
        job->rows[i].to = NULL;
        job->rows[i].algorithm = COFFER_NO_ALGORITHM;
        job->rows[i].at = carries_target(job, job->order[i])->offset;
    }
    return COFFER_OK;
}

/* Whether one of the sources has holes. Rows from one source mostly follow each other. */
static bool carries_has_holes(const carries_job *job)
{
    const coffer__byte_source *seen = NULL;
    for (size_t i = 0; i < job->count; i++) {
        const coffer__transfer_op *row = &job->rows[i];
        if (row->source != seen && row->box == NULL && coffer__source_has_holes(row->source)) {
            return true;
        }
        seen = row->source;
    }
    return false;
}

/* With the mutex held, in the same way as copies are admitted. */
static coffer_status carries_admit(const carries_job *job, coffer_error *err)
{
    coffer_writer *writer = job->writer;
    coffer_status status = coffer__writer_usable(writer, err);
    if (status == COFFER_OK && writer->digests.algorithm != COFFER_NO_ALGORITHM && writer->sink.ops->read_at == NULL) {
        status = coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                              "what is written here cannot be read back, as digests of converted tensors need it");
    }
    if (status == COFFER_OK && writer->sink.sparse && !carries_has_holes(job)) {
        status = coffer__writer_set_aside(writer, err);
    }
    for (size_t i = 0; i < job->count && status == COFFER_OK; i++) {
        const coffer_tensor *target = carries_target(job, job->order[i]);
        status = coffer__writer_enter(writer, target, 0, target->size, err);
    }
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Without the mutex. A failure of reading is about a carry, and its caller knows what that is of; a failure of writing
   is about the new file. */
static coffer_status carries_land(const carries_job *job, const coffer_read_options *options, size_t *failed,
                                  coffer_error *err)
{
    size_t row = job->count;
    const coffer__transfer_options output_target = coffer__model_transfer(&job->writer->allocator, options, &row);
    const coffer_status status = coffer__land_in_sink(&job->writer->sink, job->rows, job->count, &output_target, err);
    coffer__writer_ended(job->writer, status);
    if (status == COFFER_OK || row == job->count) {
        return status == COFFER_OK ? status : coffer__writer_fail(job->writer, status, err);
    }
    *failed = job->order[row];
    return status;
}

static coffer_status carries_run(carries_job *job, const coffer_read_options *options, size_t *failed,
                                 coffer_error *err)
{
    coffer_status status = carries_plan(job, err);
    coffer__os_mutex_lock(&job->writer->mutex);
    if (status == COFFER_OK) {
        status = carries_admit(job, err);
    }
    coffer__writer_began(job->writer, status);
    coffer__os_mutex_unlock(&job->writer->mutex);
    if (status != COFFER_OK) {
        return coffer__writer_fail(job->writer, status, err);
    }
    return carries_land(job, options, failed, err);
}

coffer_status coffer__writer_carry(coffer_writer *writer, const coffer__carry *carries, size_t count,
                                   const coffer_read_options *options, size_t *failed, coffer_error *err)
{
    carries_job job = { .writer = writer, .carries = carries, .count = count };
    const coffer_status status = carries_run(&job, options, failed, err);
    coffer__free_array(&writer->allocator, job.rows, count, sizeof *job.rows);
    coffer__free_array(&writer->allocator, job.order, count, sizeof *job.order);
    return status;
}

/* Carries of no bytes at all are passed over, as an empty write is: the file may be complete already. */
coffer_status coffer__model_writer_carry(coffer_model_writer *writer, size_t shard, coffer__carry *carries,
                                         size_t count, const coffer_read_options *options, size_t *failed,
                                         coffer_error *err)
{
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size += carries[i].row.size;
    }
    if (size == 0) {
        return COFFER_OK;
    }
    coffer_status status = coffer__model_writer_enter(writer, shard, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer_writer *file = NULL;
    for (size_t i = 0; i < count; i++) {
        carries[i].to = coffer__model_writer_place(writer, carries[i].to, &file);
    }
    status = coffer__writer_carry(file, carries, count, options, failed, err);
    return coffer__model_writer_leave(writer, shard, size, status, err);
}
