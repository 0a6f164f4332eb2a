/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard and its data in memory: see shard.h.
 */
#include "shard.h"

#include "alloc.h"
#include "error.h"
#include "table.h"

#include <string.h>

coffer_status coffer__shard_set_path(coffer__shard *shard, const char *path, const coffer_allocator *allocator,
                                     coffer_error *err)
{
    shard->path_size = strlen(path) + 1;
    shard->path = coffer__alloc(allocator, shard->path_size);
    if (shard->path == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model");
    }
    memcpy(shard->path, path, shard->path_size);
    return COFFER_OK;
}

/* The map is released before the source is closed, as it is of the source's bytes. */
void coffer__shard_close(coffer__shard *shard, const coffer_allocator *allocator)
{
    coffer_table_free(shard->table);
    coffer__free(allocator, shard->path, shard->path_size);
    coffer__os_unmap(&shard->map);
    if (shard->source.ops != NULL) {
        shard->source.ops->close(&shard->source);
    }
    coffer__os_mutex_close(&shard->lock);
}

/* ---- failing ----------------------------------------------------------------------------------------------------- */

coffer_status coffer__model_stranger(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ARGUMENT,
                        "not a tensor of this model: pass the pointer that its coffer_find or coffer_at returned");
}

coffer_status coffer__model_fail(coffer_error *err, coffer_status status, const coffer__shard *shard,
                                 const coffer_tensor *tensor)
{
    if (shard->path != NULL) {
        coffer__fail_path(err, status, shard->path);
    }
    return coffer__fail_tensor(err, status, tensor->name, tensor->name_len);
}

/* Only the source of such a file has bytes that lie elsewhere as they are. */
coffer_status coffer__shard_refuse_foreign(const coffer__shard *shard, coffer_error *err)
{
    if (shard->source.ops->lies == NULL) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                 "this is %s, which is read only: make a file of tensors of it first: coffer convert FILE -o "
                 "NEW.safetensors",
                 shard->source.ops->kind);
    return shard->path == NULL ? COFFER_ERR_UNSUPPORTED : coffer__fail_path(err, COFFER_ERR_UNSUPPORTED, shard->path);
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

/* Compares by differences, since offset and size come from the file. An empty tensor at the end of
   the file is whole. */
bool coffer__shard_is_whole(const coffer__shard *shard, const coffer_tensor *tensor)
{
    const uint64_t size = shard->source.size;
    return tensor->offset <= size && tensor->size <= size - tensor->offset;
}

coffer_status coffer__shard_check_whole(const coffer__shard *shard, const coffer_tensor *tensor, coffer_error *err)
{
    if (coffer__shard_is_whole(shard, tensor)) {
        return COFFER_OK;
    }
    /* The header was validated: the sum does not wrap around, whatever the size of the file is. */
    const uint64_t end = tensor->offset + tensor->size;
    coffer__fail_at(err, COFFER_ERR_DATA_TRUNCATED, shard->source.size,
                    "tensor %q is incomplete: it ends at byte %u, and the file at byte %u; get the file again",
                    tensor->name, (size_t)tensor->name_len, end, shard->source.size);
    coffer__fail_sizes(err, COFFER_ERR_DATA_TRUNCATED, end, shard->source.size);
    return coffer__model_fail(err, COFFER_ERR_DATA_TRUNCATED, shard, tensor);
}

/* Maps the whole file, with the lock held. It is tried once: a failure is kept, so that a model of
   many tensors that cannot be mapped does not ask the system again for each of them. A map covers
   the whole source and not one tensor, since a map for each would cost a system call and a page of
   waste every time. It never moves. */
static uint8_t *shard_map(coffer__shard *shard)
{
    if (shard->map_error.code != COFFER_OK) {
        return NULL;
    }
    if (shard->access == COFFER_READ) {
        coffer__fail(&shard->map_error, COFFER_ERR_NOT_MAPPED,
                     "the model was opened to be read, and is not mapped: read the tensor instead");
        return NULL;
    }
    uint8_t *base = coffer__source_map(&shard->source, 0, shard->source.size, shard->access, shard->populate,
                                       &shard->map, &shard->map_error);
    if (base != NULL) {
        atomic_store_explicit(&shard->base, base, memory_order_release);
    }
    return base;
}

/* Reads `base` without the lock first. A thread that sees it also sees the map it points to,
   because it is stored with release and loaded with acquire. If it is not set yet, the lock decides
   who makes the map, and the others find it made. The first access of each shard takes the lock,
   and all later ones cost one load. */
uint8_t *coffer__shard_base(coffer__shard *shard, coffer_error *err)
{
    uint8_t *base = atomic_load_explicit(&shard->base, memory_order_acquire);
    if (base != NULL) {
        return base;
    }
    coffer__os_mutex_lock(&shard->lock);
    base = atomic_load_explicit(&shard->base, memory_order_relaxed);
    if (base == NULL) {
        base = shard_map(shard);
    }
    coffer__os_mutex_unlock(&shard->lock);
    /* Once there is an error it stays as it is, so it can be read without the lock. */
    if (base == NULL && err != NULL) {
        *err = shard->map_error;
    }
    return base;
}

/* `digest` must stay where it is until the transfer is done. A file that is mapped and then cut
   would fault, as with coffer_data; empty tensors need no map. */
coffer__transfer_op coffer__shard_digest_row(coffer__shard *shard, const coffer_tensor *tensor,
                                             coffer_algorithm algorithm, uint8_t *digest)
{
    /* In a private map bytes may have been changed in memory; then those of the file are read. */
    const bool by_map = tensor->size > 0 && shard->access == COFFER_MAP;
    return (coffer__transfer_op){
        .source = &shard->source,
        .map = by_map ? coffer__shard_base(shard, NULL) : NULL,
        .offset = tensor->offset,
        .size = tensor->size,
        .algorithm = algorithm,
        .digest = digest,
    };
}

/* The tiles are left to the transfer's own limits. */
coffer__transfer_options coffer__model_transfer(const coffer_allocator *allocator, const coffer_read_options *options,
                                                size_t *failed)
{
    coffer__transfer_options transfer = {
        .allocator = allocator,
        .progress = options->progress,
        .progress_ctx = options->progress_ctx,
        .threads = options->threads,
    };
    transfer.failed = failed;
    return transfer;
}
