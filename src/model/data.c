/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors in memory without a copy: where the map of a model has them, and whether it has them
 * whole and aligned. Maps live until the model is closed, and so do the pointers handed out here.
 */
#include "error.h"
#include "lazy_verify.h"
#include "model.h"
#include "os.h"
#include "packed_source.h"
#include "url.h"

bool coffer_is_whole(const coffer *model, const coffer_tensor *tensor)
{
    const coffer__shard *shard = coffer__model_shard(model, tensor);
    return shard != NULL && coffer__shard_is_whole(shard, tensor);
}

bool coffer_is_remote(const char *path, int fd)
{
    if (path != NULL && coffer__url_is(path)) {
        return true;
    }
    const coffer__os_storage storage = path == NULL ? coffer__os_storage_of(fd) : coffer__os_storage_at(path);
    return storage == COFFER__OS_NETWORK || storage == COFFER__OS_USER;
}

/* The bytes of a tensor in the map; NULL, with *err filled, if they cannot be handed out. The
   tensor is verified first if that is due, so nobody gets bytes of a damaged one. Before all else
   it must be whole: access to a page beyond the file's end is a bus error and not a failure. The
   pointer stays valid until the model is closed, but the bytes are as safe as the file: if somebody
   cuts it later, access faults as well. */
static uint8_t *data_of(const coffer *model, coffer__shard *shard, const coffer_tensor *tensor, coffer_error *err)
{
    if (coffer__shard_check_whole(shard, tensor, err) != COFFER_OK ||
        coffer__lazy_verify_tensor(model, tensor, NULL, err) != COFFER_OK) {
        return NULL;
    }
    const coffer__source_ops *ops = shard->source.ops;
    uint8_t *data = NULL;
    if (coffer__packed_source_view(&shard->source) != NULL && tensor->size > 0) {
        data = coffer__packed_source_data(&shard->source, tensor->offset, err);
    } else if (ops->lend != NULL && shard->access != COFFER_READ) {
        data = ops->lend(&shard->source, tensor->offset, tensor->size, shard->access, shard->populate, err);
    } else {
        uint8_t *base = coffer__shard_base(shard, err);
        data = base == NULL ? NULL : base + (size_t)tensor->offset;
    }
    if (data == NULL) {
        coffer__model_fail(err, err == NULL ? COFFER_ERR_NOT_MAPPED : err->code, shard, tensor);
    }
    return data;
}

const void *coffer_data(const coffer *model, const coffer_tensor *tensor, coffer_error *err)
{
    coffer__shard *shard = model == NULL ? NULL : coffer__model_shard(model, tensor);
    if (shard == NULL) {
        coffer__model_stranger(err);
        return NULL;
    }
    return data_of(model, shard, tensor, err);
}

/* A private map is copied on write by the system, so the file never changes. Changed bytes are this
   process's alone, and digests are computed from the file (coffer__shard_digest_row). */
void *coffer_data_mutable(const coffer *model, const coffer_tensor *tensor, coffer_error *err)
{
    coffer__shard *shard = model == NULL ? NULL : coffer__model_shard(model, tensor);
    if (shard == NULL) {
        coffer__model_stranger(err);
        return NULL;
    }
    if (shard->access != COFFER_MAP_PRIVATE) {
        coffer__fail(err, COFFER_ERR_NOT_MAPPED, "data can be changed only in a model that is mapped privately");
        coffer__model_fail(err, COFFER_ERR_NOT_MAPPED, shard, tensor);
        return NULL;
    }
    return data_of(model, shard, tensor, err);
}

/* `phase` is known whether the file is mapped or not, so this neither maps nor fails. An alignment
   of 0 is that of an unknown dtype. */
bool coffer_is_aligned(const coffer *model, const coffer_tensor *tensor)
{
    const coffer__shard *shard = coffer__model_shard(model, tensor);
    const uint32_t alignment = coffer_dtype_alignment(tensor->dtype);
    if (shard == NULL || alignment == 0) {
        return shard != NULL;
    }
    uint64_t at = tensor->offset;
    if (shard->source.ops->lies != NULL) {
        (void)shard->source.ops->lies(&shard->source, tensor->offset, tensor->size, &at);
    }
    /* The sum may wrap around: the alignments are powers of two. */
    return (shard->phase + at) % alignment == 0;
}
