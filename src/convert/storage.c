/* SPDX-License-Identifier: Apache-2.0 */
#include "storage.h"

#include "alloc.h"
#include "error.h"
#include "trouble.h"

/* Storages up to this size are decoded into memory. */
#define STORAGE_IN_MEMORY ((uint64_t)16 << 20)
#define STORAGE_READ ((size_t)1 << 20)

static coffer_status storage_to_memory(coffer__storage_source *storage, coffer_error *err)
{
    const size_t size = (size_t)storage->decode.storage->size;
    storage->memory_size = size + 1; /* an allocator gives nothing for 0 */
    storage->memory = coffer__alloc(storage->decode.allocator, storage->memory_size);
    if (storage->memory == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for %z that are decoded", (uint64_t)size);
    }
    const coffer_status status = coffer__decode_next(&storage->decode, storage->memory, size, err);
    if (status == COFFER_OK) {
        coffer__source_memory(&storage->source, storage->memory, size);
        storage->open = true;
    }
    return status;
}

static coffer_status storage_read_stream(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    coffer__storage_source *storage = ctx;
    if (offset != storage->at) {
        return coffer__fail(err, COFFER_ERR_IO, "bytes that are decoded can be read in order only");
    }
    storage->at += size;
    return coffer__decode_next(&storage->decode, buffer, size, err);
}

static void storage_to_stream(coffer__storage_source *storage)
{
    const coffer_source custom = { .read_at = storage_read_stream,
                                   .ctx = storage,
                                   .size = storage->decode.storage->size };
    coffer__source_custom(&storage->source, &custom);
    storage->in_order = true;
    storage->open = true;
}

static coffer_status storage_spool(coffer__storage_source *storage, uint8_t *memory, coffer_error *err)
{
    const uint64_t size = storage->decode.storage->size;
    for (uint64_t done = 0; done < size;) {
        const size_t piece = size - done < STORAGE_READ ? (size_t)(size - done) : STORAGE_READ;
        const coffer_status status = coffer__decode_next(&storage->decode, memory, piece, err);
        if (status != COFFER_OK) {
            return status;
        }
        const int os_error = coffer__os_write_at(storage->file.fd, done, memory, piece);
        if (os_error != 0) {
            return coffer__trouble(err, "write what is decoded", NULL, os_error);
        }
        done += piece;
    }
    return coffer__source_fd(&storage->source, storage->file.fd, err);
}

static coffer_status storage_to_file(coffer__storage_source *storage, const char *beside, coffer_error *err)
{
    const char *path = beside != NULL ? beside : "/tmp/coffer";
    const int os_error = coffer__temporary_open(&storage->file, path, true);
    if (os_error != 0) {
        return coffer__trouble(err, "make a file for what is decoded", path, os_error);
    }
    storage->has_file = true;
    uint8_t *memory = coffer__alloc(storage->decode.allocator, STORAGE_READ);
    if (memory == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to decode with");
    }
    const coffer_status status = storage_spool(storage, memory, err);
    storage->open = status == COFFER_OK;
    coffer__free(storage->decode.allocator, memory, STORAGE_READ);
    return status;
}

coffer_status coffer__storage_open(coffer__storage_source *storage, coffer__decoding *decoding, uint32_t number,
                                   bool streams, coffer_error *err)
{
    *storage = (coffer__storage_source){ .at = 0 };
    coffer__decode_begin(&storage->decode, decoding->input, decoding->plan, number, &decoding->inflaters,
                         decoding->crc32, decoding->allocator);
    if (storage->decode.storage->size <= STORAGE_IN_MEMORY) {
        return storage_to_memory(storage, err);
    }
    if (streams) {
        storage_to_stream(storage);
        return COFFER_OK;
    }
    return storage_to_file(storage, decoding->spool, err);
}

void coffer__storage_close(coffer__storage_source *storage)
{
    if (storage->open) {
        storage->source.ops->close(&storage->source);
    }
    if (storage->has_file) {
        coffer__temporary_discard(&storage->file);
    }
    coffer__free(storage->decode.allocator, storage->memory, storage->memory_size);
    coffer__decode_end(&storage->decode);
}
