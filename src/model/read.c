/* SPDX-License-Identifier: Apache-2.0 */
/* Reading tensors and slices into the caller's memory: a row of the transfer for each. */
#include "model.h"

#include "alloc.h"
#include "error.h"
#include "lazy_verify.h"
#include "options.h"
#include "slice.h"
#include "transfer.h"

/* What every read checks of a buffer: that it is of the result's size. Equal sizes are asked for,
   and not only enough space, since a buffer of another size is mostly one for another tensor or
   dtype. */
static coffer_status read_check_buffer(const void *buffer, uint64_t buffer_size, uint64_t size, coffer_error *err)
{
    if (buffer_size != size) {
        coffer__fail(err, COFFER_ERR_BUFFER_SIZE, "the buffer has %u bytes and the result %u; they must be equal",
                     buffer_size, size);
        return coffer__fail_sizes(err, COFFER_ERR_BUFFER_SIZE, size, buffer_size);
    }
    if (size > SIZE_MAX) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "no buffer of this program can hold %z: read slices", size);
    }
    if (buffer == NULL && size > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the buffer to read into is NULL");
    }
    return COFFER_OK;
}

/* What every read of a tensor or of a part begins with: the options, a buffer of `size` bytes, and
   a file that has them. The options are copied to the size that this version knows, so that
   programs built against an older or newer header work. */
static coffer_status read_check(const coffer__shard *shard, const coffer_tensor *tensor, coffer_read_options *options,
                                const coffer_read_options *given, const void *buffer, uint64_t buffer_size,
                                uint64_t size, coffer_error *err)
{
    coffer_status status = coffer__options_copy(options, sizeof *options, given, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = read_check_buffer(buffer, buffer_size, size, err);
    return status == COFFER_OK ? coffer__shard_check_whole(shard, tensor, err) : status;
}

/* It returns when all bytes are in place. `failed` gets the number of the row that failed and may
   be NULL. */
static coffer_status read_rows(const coffer *model, const coffer__transfer_op *rows, size_t count,
                               const coffer_read_options *options, size_t *failed, coffer_error *err)
{
    const coffer__transfer_options transfer = coffer__model_transfer(&model->allocator, options, failed);
    return coffer__transfer(rows, count, &transfer, err);
}

/* The row that reads a whole tensor. */
static coffer__transfer_op read_row_of(const coffer__shard *shard, const coffer_tensor *tensor, void *buffer)
{
    return (
        coffer__transfer_op){ .source = &shard->source, .offset = tensor->offset, .size = tensor->size, .to = buffer };
}

/* A tensor that is due is read by lazy_verify.c, which hashes it as it comes; any other by one plain row.
   The model is constant, so any number of threads may read at the same time. After a failure the
   buffer's content is undefined. A failure of an argument names the tensor as well, as far as it is
   one of the model's. */
coffer_status coffer_read(const coffer *model, const coffer_tensor *tensor, void *buffer, uint64_t buffer_size,
                          const coffer_read_options *options, coffer_error *err)
{
    const coffer__shard *shard = model == NULL ? NULL : coffer__model_shard(model, tensor);
    if (shard == NULL) {
        return coffer__model_stranger(err);
    }
    coffer_read_options known;
    coffer_status status = read_check(shard, tensor, &known, options, buffer, buffer_size, tensor->size, err);
    if (status != COFFER_OK) {
        return coffer__model_fail(err, status, shard, tensor);
    }
    /* Not verified yet, or from a source that may answer differently each time. */
    if (coffer__lazy_verify_is_due(shard, tensor)) {
        const coffer_read_target target = { tensor, buffer, buffer_size };
        return coffer__lazy_verify_read(model, &target, 1, &known, err);
    }
    const coffer__transfer_op row = read_row_of(shard, tensor, buffer);
    status = read_rows(model, &row, 1, &known, NULL, err);
    return status == COFFER_OK ? status : coffer__model_fail(err, status, shard, tensor);
}

/* Reads a part from the verified copy of the tensor, or from the source. The copy is held until the
   bytes are moved, so another thread may replace it in the model in the meantime. With a copy the
   row reads from memory, from the part's own offset; without one, from the source at the tensor's
   offset in the file. */
static coffer_status read_part(const coffer *model, const coffer__shard *shard, const coffer_tensor *tensor,
                               uint64_t offset, void *buffer, uint64_t size, const coffer_read_options *options,
                               coffer_error *err)
{
    coffer__verified *held = NULL;
    coffer_status status = coffer__lazy_verify_acquire(model, tensor, options, size, &held, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__transfer_op row = {
        .source = &shard->source,
        .map = held == NULL ? NULL : held->bytes,
        .offset = held == NULL ? tensor->offset + offset : offset,
        .size = size,
        .to = buffer,
    };
    status = read_rows(model, &row, 1, options, NULL, err);
    coffer__lazy_verify_release(model, held);
    return status;
}

/* Compared by a difference, since both numbers are the caller's. */
coffer_status coffer_read_part(const coffer *model, const coffer_tensor *tensor, uint64_t offset, void *buffer,
                               uint64_t size, const coffer_read_options *options, coffer_error *err)
{
    const coffer__shard *shard = model == NULL ? NULL : coffer__model_shard(model, tensor);
    if (shard == NULL) {
        return coffer__model_stranger(err);
    }
    if (offset > tensor->size || size > tensor->size - offset) {
        coffer__fail(err, COFFER_ERR_INDEX, "%u bytes from byte %u on do not lie inside the tensor, which has %u", size,
                     offset, tensor->size);
        return coffer__model_fail(err, COFFER_ERR_INDEX, shard, tensor);
    }
    coffer_read_options known;
    coffer_status status = read_check(shard, tensor, &known, options, buffer, size, size, err);
    if (status == COFFER_OK) {
        status = read_part(model, shard, tensor, offset, buffer, size, &known, err);
    }
    return status == COFFER_OK ? status : coffer__model_fail(err, status, shard, tensor);
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */

/* A failure at a header names the file, like one of opening it. */
static coffer_status read_header_failed(const coffer__shard *shard, coffer_status status, coffer_error *err)
{
    return shard->path == NULL ? status : coffer__fail_path(err, status, shard->path);
}

/* The bytes were not kept when the model was opened: the table is all that reading needs of them. Here they are read
   again by the one executor, which asks the progress callback. A source at a URL keeps its first bytes, so most headers
   cost no further request. */
coffer_status coffer_read_header(const coffer *model, size_t shard, void *buffer, uint64_t buffer_size,
                                 const coffer_read_options *options, coffer_error *err)
{
    if (model == NULL || shard >= model->shard_count) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the model has no file of number %u", (uint64_t)shard);
    }
    const coffer__shard *from = &model->shards[shard];
    const uint64_t size = coffer_table_data_offset(from->table);
    coffer_read_options known;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = read_check_buffer(buffer, buffer_size, size, err);
    if (status != COFFER_OK) {
        return read_header_failed(from, status, err);
    }
    const coffer__transfer_op row = { .source = &from->source, .size = size, .to = buffer };
    status = read_rows(model, &row, 1, &known, NULL, err);
    return status == COFFER_OK ? COFFER_OK : read_header_failed(from, status, err);
}

/* ---- many tensors ------------------------------------------------------------------------------------------------ */

/* Checks each target and makes a row of it. All targets are checked before anything is read, so a
   mistake in the last one costs no transfer. */
static coffer_status read_plan_many(const coffer *model, const coffer_read_target *targets, size_t count,
                                    coffer__transfer_op *rows, coffer_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const coffer_read_target *target = &targets[i];
        const coffer__shard *shard = coffer__model_shard(model, target->tensor);
        if (shard == NULL) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "target %u of %u names no tensor of this model",
                                (uint64_t)i + 1, (uint64_t)count);
        }
        coffer_status status = read_check_buffer(target->buffer, target->buffer_size, target->tensor->size, err);
        if (status == COFFER_OK) {
            status = coffer__shard_check_whole(shard, target->tensor, err);
        }
        if (status != COFFER_OK) {
            return coffer__model_fail(err, status, shard, target->tensor);
        }
        rows[i] = read_row_of(shard, target->tensor, target->buffer);
    }
    return COFFER_OK;
}

/* If one of the tensors is due, all are read by lazy_verify.c, which hashes only those that are. The
   buffers must not overlap, as several threads fill them. Only a failure that is about a row names
   a tensor. */
static coffer_status read_many_by(const coffer *model, const coffer_read_target *targets, size_t count,
                                  coffer__transfer_op *rows, const coffer_read_options *options, coffer_error *err)
{
    coffer_status status = read_plan_many(model, targets, count, rows, err);
    if (status != COFFER_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        if (coffer__lazy_verify_is_due(coffer__model_shard(model, targets[i].tensor), targets[i].tensor)) {
            return coffer__lazy_verify_read(model, targets, count, options, err);
        }
    }
    size_t failed = count;
    status = read_rows(model, rows, count, options, &failed, err);
    /* A failure that is about no row has no tensor. */
    if (status == COFFER_OK || failed >= count) {
        return status;
    }
    const coffer_tensor *tensor = targets[failed].tensor;
    return coffer__model_fail(err, status, coffer__model_shard(model, tensor), tensor);
}

/* Zero targets are allowed and read nothing. */
coffer_status coffer_read_many(const coffer *model, const coffer_read_target *targets, size_t count,
                               const coffer_read_options *options, coffer_error *err)
{
    if (model == NULL || (targets == NULL && count > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the model or the targets to read into are NULL");
    }
    coffer_read_options known;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__transfer_op *rows = coffer__alloc_array(&model->allocator, count, sizeof *rows, err);
    if (rows == NULL) {
        return COFFER_ERR_MEMORY;
    }
    status = read_many_by(model, targets, count, rows, &known, err);
    coffer__free_array(&model->allocator, rows, count, sizeof *rows);
    return status;
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

/* The row that reads a slice: from the verified copy, or from the map, or by reads if there is no
   map. A map that cannot be made is not a failure here: the row then reads, and `map` NULL says so.
   The product of the box was checked when it was planned. */
static coffer__transfer_op read_row_of_slice(coffer__shard *shard, const coffer_tensor *tensor,
                                             const coffer__verified *held, const coffer__box *box, void *buffer)
{
    coffer__transfer_op row = {
        .source = &shard->source,
        .offset = tensor->offset,
        .box = box,
        .size = box->run_size * box->run_count,
        .to = buffer,
    };
    if (held != NULL) {
        row.map = held->bytes;
        row.offset = 0;
    } else if (shard->access != COFFER_READ) {
        row.map = coffer__shard_base(shard, NULL);
    }
    return row;
}

/* The box says which bytes of the tensor the slice takes; `held` is kept until they are moved. A
   slice of a model that is verified makes the whole tensor be verified first, since a part has no
   digest of its own. */
static coffer_status read_slice(const coffer *model, coffer__shard *shard, const coffer_tensor *tensor,
                                const coffer__box *box, void *buffer, uint64_t buffer_size,
                                const coffer_read_options *options, coffer_error *err)
{
    coffer_read_options known;
    coffer__verified *held = NULL;
    const uint64_t size = box->run_size * box->run_count;
    coffer_status status = read_check(shard, tensor, &known, options, buffer, buffer_size, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__lazy_verify_acquire(model, tensor, &known, size, &held, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__transfer_op row = read_row_of_slice(shard, tensor, held, box, buffer);
    status = read_rows(model, &row, 1, &known, NULL, err);
    coffer__lazy_verify_release(model, held);
    return status;
}

/* The box is on the stack and is used by the transfer's threads, all of which have ended when it
   returns. */
coffer_status coffer_read_slice(const coffer *model, const coffer_tensor *tensor, const coffer_index *indices,
                                size_t count, void *buffer, uint64_t buffer_size, const coffer_read_options *options,
                                coffer_error *err)
{
    coffer__shard *shard = model == NULL ? NULL : coffer__model_shard(model, tensor);
    if (shard == NULL) {
        return coffer__model_stranger(err);
    }
    if (indices == NULL && count > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the slice's indices are NULL");
    }
    coffer__box box;
    coffer_status status = coffer__slice_plan(tensor, indices, count, &box, err);
    if (status == COFFER_OK) {
        status = read_slice(model, shard, tensor, &box, buffer, buffer_size, options, err);
    }
    return status == COFFER_OK ? status : coffer__model_fail(err, status, shard, tensor);
}
