/* SPDX-License-Identifier: Apache-2.0 */
/* Packed files become what they were: their source has the original's bytes, so they are copied. */
#include "error.h"
#include "model.h"
#include "options.h"
#include "output_target.h"
#include "packed_file.h"
#include "sink.h"

#include <string.h>

/* The SHA-256 of what was written, read back. */
static coffer_status unpack_file_digest(coffer__byte_sink *sink, uint64_t size, uint8_t digest[32], coffer_error *err)
{
    static const size_t piece = 65536;
    coffer_hasher *hasher = NULL;
    uint8_t *buffer = sink->allocator.alloc(sink->allocator.ctx, piece);
    coffer_status status = buffer == NULL ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory to compare the new file")
                                          : coffer_hasher_new(&hasher, COFFER_SHA256, &sink->allocator, err);
    for (uint64_t at = 0; at < size && status == COFFER_OK;) {
        const size_t now = size - at < piece ? (size_t)(size - at) : piece;
        status = sink->ops->read_at(sink, at, buffer, now, err);
        if (status == COFFER_OK) {
            status = coffer_hasher_update(hasher, buffer, now, err);
        }
        at += now;
    }
    if (status == COFFER_OK) {
        status = coffer_hasher_finish(hasher, digest, 32, err);
    }
    coffer_hasher_free(hasher);
    if (buffer != NULL) {
        sink->allocator.free(sink->allocator.ctx, buffer, piece);
    }
    return status;
}

static coffer_status unpack_file_write(coffer__byte_sink *sink, const coffer__shard *shard,
                                       const coffer__transfer_options *transfer, coffer_error *err)
{
    uint8_t recorded[32];
    uint8_t written[32];
    const coffer__byte_source *source = &shard->source;
    const coffer__transfer_op row = { .source = source, .size = source->size };
    coffer_status status = sink->ops->reserve(sink, source->size, err);
    if (status == COFFER_OK) {
        status = coffer__land_in_sink(sink, &row, 1, transfer, err);
    }
    if (status == COFFER_OK) {
        status = unpack_file_digest(sink, source->size, written, err);
    }
    if (status == COFFER_OK &&
        (!coffer__packed_file_sha256(source, recorded) || memcmp(recorded, written, sizeof written) != 0)) {
        status = coffer__fail(err, COFFER_ERR_PACK_CHECKSUM,
                              "the unpacked file has another SHA-256 than the one that was packed; get the file again");
    }
    return status;
}

coffer_status coffer_unpack_shard(const coffer *model, size_t shard, const char *path,
                                  const coffer_pack_options *options, coffer_error *err)
{
    coffer_pack_options known;
    if (model == NULL || path == NULL || shard >= model->shard_count) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the model or the path is NULL, or there is no such file");
    }
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!coffer_shard_is_packed(model, shard)) {
        return coffer__packed_file_plain(model, shard, err);
    }
    coffer__byte_sink sink;
    status = coffer__sink_path(&sink, &model->allocator, path, known.sync, false, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__transfer_options transfer = { .allocator = &model->allocator,
                                                .progress = known.progress,
                                                .progress_ctx = known.progress_ctx,
                                                .threads = known.threads };
    status = unpack_file_write(&sink, &model->shards[shard], &transfer, err);
    if (status != COFFER_OK) {
        sink.ops->discard(&sink);
        return status;
    }
    return sink.ops->publish(&sink, err);
}

/* ---- sizes --------------------------------------------------------------------------------------------------------- */

uint64_t coffer_shard_stored_size(const coffer *model, size_t shard)
{
    if (shard >= model->shard_count) {
        return 0;
    }
    const coffer__byte_source *source = &model->shards[shard].source;
    return source->ops->stored_size != NULL ? source->ops->stored_size(source, 0, source->size)
                                            : coffer__packed_file_size(source);
}

bool coffer_shard_is_packed(const coffer *model, size_t shard)
{
    return shard < model->shard_count && coffer__packed_file_sha256(&model->shards[shard].source, NULL);
}

uint64_t coffer_tensor_stored_size(const coffer *model, const coffer_tensor *tensor)
{
    const coffer__shard *shard = coffer__model_shard(model, tensor);
    if (shard == NULL) {
        return 0;
    }
    if (shard->source.ops->stored_size != NULL) {
        return shard->source.ops->stored_size(&shard->source, tensor->offset, tensor->size);
    }
    const uint64_t packed = coffer__packed_file_tensor_size(&shard->source, tensor->offset, tensor->size);
    return packed > 0 ? packed : tensor->size;
}
