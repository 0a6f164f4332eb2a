/* SPDX-License-Identifier: Apache-2.0 */
/* Reading tensors and slices into the caller's memory: one row of the transfer each. */
#include "model.h"

#include "error.h"
#include "options.h"
#include "transfer.h"

/* What every read checks: the options, and that the buffer is of the result's size. */
static coffer_status read_check(coffer_read_options *options, const coffer_read_options *given, const void *buffer,
                                uint64_t buffer_size, uint64_t size, coffer_error *err)
{
    const coffer_status status = coffer__options_copy(options, sizeof *options, given, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (buffer_size != size) {
        coffer__fail(err, COFFER_ERR_BUFFER_SIZE, "the buffer has %u bytes and the result %u; they must be equal",
                     buffer_size, size);
        return coffer__fail_sizes(err, COFFER_ERR_BUFFER_SIZE, size, buffer_size);
    }
    if (buffer == NULL && size > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the buffer to read into is NULL");
    }
    return COFFER_OK;
}

static coffer_status read_row(const coffer *model, const coffer__row *row, const coffer_read_options *options,
                              coffer_error *err)
{
    const coffer__transfer_options transfer = {
        .allocator = &model->allocator,
        .progress = options->progress,
        .progress_ctx = options->progress_ctx,
        .threads = options->threads,
    };
    return coffer__transfer(row, 1, &transfer, err);
}

coffer_status coffer_read(const coffer *model, const coffer_tensor *tensor, void *buffer, uint64_t buffer_size,
                          const coffer_read_options *options, coffer_error *err)
{
    const coffer__shard *shard = model == NULL ? NULL : coffer__model_shard(model, tensor);
    if (shard == NULL) {
        return coffer__model_stranger(err);
    }
    coffer_read_options known;
    coffer_status status = read_check(&known, options, buffer, buffer_size, tensor->size, err);
    if (status == COFFER_OK) {
        const coffer__row row = {
            .source = &shard->source,
            .offset = tensor->offset,
            .size = tensor->size,
            .to = buffer,
        };
        status = read_row(model, &row, &known, err);
    }
    return status == COFFER_OK ? status : coffer__model_fail(err, status, shard, tensor);
}

static coffer_status read_slice(const coffer *model, coffer__shard *shard, const coffer_tensor *tensor,
                                const coffer__box *box, void *buffer, uint64_t buffer_size,
                                const coffer_read_options *options, coffer_error *err)
{
    coffer_read_options known;
    const uint64_t size = box->run_size * box->run_count;
    const coffer_status status = read_check(&known, options, buffer, buffer_size, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__row row = {
        .source = &shard->source,
        /* Where no map can be had the bytes are read. */
        .map = shard->access == COFFER_READ ? NULL : coffer__shard_base(shard, NULL),
        .offset = tensor->offset,
        .box = box,
        .size = size,
        .to = buffer,
    };
    return read_row(model, &row, &known, err);
}

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
