/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways in which the bytes of a decoded storage become a source:
 *
 *   memory   up to 16 MiB: all of it is decoded when it is opened. Any number of views can be gathered from it
 *   stream   a larger one that is read once and in order: nothing is kept but the decoder's state
 *   file     a larger one of which views are read in any order: decoded into a file without a name
 *   blocks   one of GGUF's blocks: decoded where it is read (source_blocks.h)
 *   parts    an array that is assembled of others' bytes: read where they are (source_parts.h)
 *
 * Sizes come from a plan that was checked, so they are what the pieces say; that the pieces say the
 * truth shows only while they are decoded. A storage that is shorter, longer or damaged fails in
 * coffer__decode_next, whichever way it is read.
 *
 * The memory that is used is bounded in each case: 16 MiB, or one block. A file that is made to
 * inflate to much fills the disk at most up to the size that the plan declares.
 */
#include "storage.h"

#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "grid.h"
#include "pages.h"
#include "source_blocks.h"
#include "source_parts.h"

#include <string.h>

#define STORAGE_READ ((size_t)1 << 20)

/* ---- arrays of chunks -------------------------------------------------------------------------------------------- */

static coffer_status storage_put_in_memory(void *ctx, uint64_t at, const uint8_t *bytes, size_t size, coffer_error *err)
{
    const coffer__storage_source *storage = ctx;
    (void)err;
    memcpy(storage->memory + (size_t)at, bytes, size);
    return COFFER_OK;
}

static coffer_status storage_put_in_file(void *ctx, uint64_t at, const uint8_t *bytes, size_t size, coffer_error *err)
{
    const coffer__storage_source *storage = ctx;
    const int os_error = coffer__os_write_at(storage->file.fd, at, bytes, size);
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "write what is decoded", NULL, os_error);
}

/* Decodes one chunk after the other, and puts its rows where they belong. */
static coffer_status storage_spread(coffer__storage_source *storage, coffer__grid_put *put, coffer_error *err)
{
    const coffer__decoder *decode = &storage->decode;
    const size_t size = (size_t)coffer__import_plan_pieces(decode->plan)[decode->storage->first].size;
    uint8_t *chunk = coffer__alloc(decode->allocator, size + 1);
    coffer_status status =
        chunk == NULL ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a chunk of %z", (uint64_t)size) : COFFER_OK;
    for (uint32_t i = 0; i < decode->storage->count && status == COFFER_OK; i++) {
        status = coffer__decode_next(&storage->decode, chunk, size, err);
        if (status == COFFER_OK) {
            status = coffer__grid_spread(decode->plan, decode->storage, i, chunk, put, storage, err);
        }
    }
    coffer__free(decode->allocator, chunk, size + 1);
    return status;
}

/* ---- each way ---------------------------------------------------------------------------------------------------- */

/* Decodes everything now. A failure leaves `open` false, and coffer__storage_close frees the
   memory. */
static coffer_status storage_to_memory(coffer__storage_source *storage, coffer_error *err)
{
    const size_t size = (size_t)storage->decode.storage->size;
    storage->memory_size = size + 1; /* an allocator gives nothing for 0 */
    storage->memory = coffer__alloc_pages(storage->decode.allocator, storage->memory_size);
    if (storage->memory == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for %z that are decoded", (uint64_t)size);
    }
    const coffer_status status = storage->decode.storage->kind == COFFER__STORAGE_CHUNKED
                                     ? storage_spread(storage, storage_put_in_memory, err)
                                     : coffer__decode_next(&storage->decode, storage->memory, size, err);
    if (status == COFFER_OK) {
        coffer__source_memory(&storage->source, storage->memory, size);
        storage->open = true;
    }
    return status;
}

/* The source's function. A stream cannot go back, and skipping would only hide a mistake: whoever
   opened it as a stream promised to read from the first byte to the last, in one thread. */
static coffer_status storage_read_stream(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    coffer__storage_source *storage = ctx;
    if (offset != storage->at) {
        return coffer__fail(err, COFFER_ERR_IO, "bytes that are decoded can be read in order only");
    }
    storage->at += size;
    return coffer__decode_next(&storage->decode, buffer, size, err);
}

/* Its `ctx` is the storage itself, which is why a storage must not move while it is open. */
static void storage_to_stream(coffer__storage_source *storage)
{
    const coffer_source custom = { .read_at = storage_read_stream,
                                   .ctx = storage,
                                   .size = storage->decode.storage->size };
    coffer__source_custom(&storage->source, &custom);
    storage->in_order = true;
    storage->open = true;
}

/* Decodes into the file, block by block, then opens the file as a source. The descriptor stays the
   storage's: it is the only way to a file that has no name. */
static coffer_status storage_spool(coffer__storage_source *storage, uint8_t *memory, coffer_error *err)
{
    const uint64_t size = storage->decode.storage->size;
    if (storage->decode.storage->kind == COFFER__STORAGE_CHUNKED) {
        const coffer_status status = storage_spread(storage, storage_put_in_file, err);
        return status == COFFER_OK ? coffer__source_fd(&storage->source, storage->file.fd, err) : status;
    }
    for (uint64_t done = 0; done < size;) {
        const size_t piece = size - done < STORAGE_READ ? (size_t)(size - done) : STORAGE_READ;
        const coffer_status status = coffer__decode_next(&storage->decode, memory, piece, err);
        if (status != COFFER_OK) {
            return status;
        }
        const int os_error = coffer__os_write_at(storage->file.fd, done, memory, piece);
        if (os_error != 0) {
            return coffer__errno_status(err, "write what is decoded", NULL, os_error);
        }
        done += piece;
    }
    return coffer__source_fd(&storage->source, storage->file.fd, err);
}

/* Beside the output there is space for a file of that size, as the output needs as much; the folder
   for temporary files may be a small one in memory. So that folder serves only those who write to
   something without a path. */
static coffer_status storage_to_file(coffer__storage_source *storage, const char *beside, coffer_error *err)
{
    const char *path = beside != NULL ? beside : "/tmp/coffer";
    const int os_error = coffer__temporary_open(&storage->file, path, true);
    if (os_error != 0) {
        return coffer__errno_status(err, "make a file for what is decoded", path, os_error);
    }
    storage->has_file = true;
    uint8_t *memory = coffer__alloc_pages(storage->decode.allocator, STORAGE_READ);
    if (memory == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to decode with");
    }
    const coffer_status status = storage_spool(storage, memory, err);
    storage->open = status == COFFER_OK;
    coffer__free_pages(storage->decode.allocator, memory, STORAGE_READ);
    return status;
}

/* Blocks are found by their numbers, so they are decoded in any order. A storage of several such pieces is no reader's. */
static bool storage_is_blocks(const coffer__import_plan *plan, uint32_t number, const coffer__import_plan_piece **piece)
{
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + number;
    /* A plan may have storages and no pieces at all. */
    if (coffer__import_plan_piece_count(storage) != 1) {
        return false;
    }
    *piece = coffer__import_plan_pieces(plan) + storage->first;
    return (*piece)->coding == COFFER__CODING_BLOCKS;
}

bool coffer__storage_is_random(const coffer__import_plan *plan, uint32_t number)
{
    const coffer__import_plan_piece *piece = NULL;
    return coffer__import_plan_storages(plan)[number].kind == COFFER__STORAGE_ASSEMBLED ||
           storage_is_blocks(plan, number, &piece);
}

/* By size first: a small storage is decoded whole even if it could be streamed, since one read of
   memory is quicker than a source with a function. */
coffer_status coffer__storage_open(coffer__storage_source *storage, coffer__decoding *decoding, uint32_t number,
                                   bool streams, coffer_error *err)
{
    const coffer__import_plan_piece *piece = NULL;
    *storage = (coffer__storage_source){ .at = 0 };
    coffer__decode_begin(&storage->decode, decoding->input, decoding->plan, number, &decoding->inflaters,
                         decoding->crcs, decoding->allocator);
    if (storage->decode.storage->kind == COFFER__STORAGE_ASSEMBLED) {
        coffer__source_parts(&storage->source, decoding->plan, decoding->input, number);
        storage->open = true;
        return COFFER_OK;
    }
    if (storage_is_blocks(decoding->plan, number, &piece)) {
        coffer__source_blocks(&storage->source, coffer__input_source(decoding->input, piece->file), decoding->plan,
                              piece);
        storage->open = true;
        return COFFER_OK;
    }
    if (storage->decode.storage->size <= COFFER__STORAGE_IN_MEMORY) {
        return storage_to_memory(storage, err);
    }
    if (streams && storage->decode.storage->kind == COFFER__STORAGE_JOINED) {
        storage_to_stream(storage);
        return COFFER_OK;
    }
    return storage_to_file(storage, decoding->spool, err);
}

/* In this order: the source reads from the file or the memory. It may be called after any failure,
   as every member is zero until it is there. */
void coffer__storage_close(coffer__storage_source *storage)
{
    if (storage->open) {
        storage->source.ops->close(&storage->source);
    }
    if (storage->has_file) {
        coffer__temporary_discard(&storage->file);
    }
    coffer__free_pages(storage->decode.allocator, storage->memory, storage->memory_size);
    coffer__decode_close(&storage->decode);
}
