/* SPDX-License-Identifier: Apache-2.0 */
/* The SHA-256 of a shard's file as it was before it was packed, and comparing it with the recorded one. */
#include "error.h"
#include "model.h"
#include "options.h"
#include "packed_file.h"

#include <string.h>

/* NOLINTBEGIN(readability-non-const-parameter): it is written to by the transfer */
coffer_status coffer__shard_sha256(const coffer *model, size_t shard, const coffer_digest_options *options,
                                   uint8_t digest[32], coffer_error *err)
/* NOLINTEND(readability-non-const-parameter) */
{
    const coffer__byte_source *source = &model->shards[shard].source;
    const coffer__transfer_op row = {
        .source = source, .size = source->size, .algorithm = COFFER_SHA256, .digest = digest
    };
    const coffer__transfer_options transfer = { .allocator = &model->allocator,
                                                .progress = options->progress,
                                                .progress_ctx = options->progress_ctx };
    return coffer__transfer(&row, 1, &transfer, err);
}

coffer_status coffer__packed_file_plain(const coffer *model, size_t shard, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_NOT_PACKED, "the file is not packed: it is what unpacking would write");
    return coffer__fail_path(err, COFFER_ERR_NOT_PACKED, coffer_shard_path(model, shard));
}

coffer_status coffer_verify_packed(const coffer *model, size_t shard, const coffer_digest_options *options,
                                   coffer_error *err)
{
    coffer_digest_options known;
    uint8_t recorded[32];
    uint8_t digest[32];
    if (model == NULL || shard >= model->shard_count) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the model is NULL, or has no such file");
    }
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!coffer__packed_file_sha256(&model->shards[shard].source, recorded)) {
        return coffer__packed_file_plain(model, shard, err);
    }
    status = coffer__shard_sha256(model, shard, &known, digest, err);
    if (status == COFFER_OK && memcmp(recorded, digest, sizeof digest) != 0) {
        status = coffer__fail(err, COFFER_ERR_PACK_CHECKSUM,
                              "what is packed has another SHA-256 than the file that was packed; get the file again");
    }
    return status == COFFER_OK ? status : coffer__fail_path(err, status, coffer_shard_path(model, shard));
}
