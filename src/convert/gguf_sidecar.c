/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing needs no reader: the plan says how many bytes of the input are keys, and they are copied as they are. So the
 * process that writes parses nothing of a file that was not trusted with its own process before.
 *
 * Reading goes through the same functions as the reader of GGUF, which bound every length by the file.
 */
#include "gguf_sidecar.h"

#include "alloc.h"
#include "error.h"
#include "import.h"
#include "sink.h"

#include <string.h>

#define SIDECAR_WINDOW ((size_t)COFFER__GGUF_WINDOW + COFFER__GGUF_MAX_KEY)
#define SIDECAR_COUNT_AT 8 /* of the number of tensors, eight bytes */

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The letters are looked at here, since no reader was asked whose file this is. */
static coffer_status sidecar_begin(coffer__gguf_sidecar *sidecar, coffer_error *err)
{
    uint64_t letters = 0;
    uint64_t tensors = 0;
    coffer_status status = coffer__gguf_number(&sidecar->in, 4, &letters, err);
    if (status != COFFER_OK || letters != 0x46554747) {
        return coffer__fail(err, COFFER_ERR_UNKNOWN_INPUT, "the sidecar is no GGUF file");
    }
    sidecar->in.position = 0;
    status = coffer__gguf_head(&sidecar->in, &tensors, &sidecar->left, err);
    if (status == COFFER_OK && sidecar->in.swapped) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "the sidecar is big-endian, and what is written is not");
    }
    return status;
}

/* All members are zero until they are there, so that closing is right after any failure. The window and the key share
   one allocation, as in the reader. */
coffer_status coffer__gguf_sidecar_open(coffer__gguf_sidecar *sidecar, const char *path,
                                        const coffer_allocator *allocator, coffer_error *err)
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    *sidecar = (coffer__gguf_sidecar){ .allocator = allocator };
    options.allocator = allocator;
    coffer_status status = coffer_input_open(&sidecar->input, path, &options, err);
    if (status != COFFER_OK) {
        return status;
    }
    sidecar->in.window = coffer__alloc_array(allocator, SIDECAR_WINDOW, 1, err);
    if (sidecar->in.window == NULL) {
        return COFFER_ERR_MEMORY;
    }
    sidecar->reading = coffer__input_for_reader(sidecar->input);
    sidecar->in.input = &sidecar->reading;
    sidecar->in.file_size = sidecar->reading.size;
    sidecar->in.key = (char *)sidecar->in.window + COFFER__GGUF_WINDOW;
    sidecar->in.json.allocator = allocator;
    status = sidecar_begin(sidecar, err);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}

/* The place is taken before and afterwards, so that the caller can copy exactly these bytes, whatever is in them. */
coffer_status coffer__gguf_sidecar_next(coffer__gguf_sidecar *sidecar, coffer__gguf_value *value, uint64_t *at,
                                        uint64_t *size, coffer_error *err)
{
    *at = coffer__gguf_at(&sidecar->in);
    const coffer_status status = coffer__gguf_read_value(&sidecar->in, value, err);
    *size = coffer__gguf_at(&sidecar->in) - *at;
    sidecar->left--;
    return status == COFFER_OK ? status : coffer__fail_path(err, status, sidecar->input->path);
}

/* The reader has gone over the bytes, so that they are in the file; only their number may be too large for memory. */
coffer_status coffer__gguf_sidecar_copy(coffer__gguf_sidecar *sidecar, uint64_t at, uint64_t size, coffer__writing *out,
                                        coffer_error *err)
{
    char *bytes = size <= SIZE_MAX / 2 ? coffer__write_space(out, (size_t)size) : NULL;
    if (bytes == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the keys of a sidecar");
    }
    return sidecar->reading.read(sidecar->reading.ctx, 0, at, bytes, (size_t)size, err);
}

/* Freeing NULL does nothing, and nor does an input of NULL. */
void coffer__gguf_sidecar_close(coffer__gguf_sidecar *sidecar)
{
    coffer__writing_free(&sidecar->in.json);
    coffer__free_array(sidecar->allocator, sidecar->in.window, SIDECAR_WINDOW, 1);
    coffer_input_free(sidecar->input);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* A block of the keys at *at, of *size bytes, with which the next begins. Of the head only the number of tensors changes:
   zero has no order of bytes, so that a big-endian file needs nothing else. */
static coffer_status sidecar_block(const coffer_import *import, uint64_t at, uint8_t *memory, size_t *size,
                                   coffer_error *err)
{
    const coffer__import_plan *plan = &import->plan;
    const uint64_t left = plan->keys_size - at;
    *size = left < COFFER__GGUF_WINDOW ? (size_t)left : COFFER__GGUF_WINDOW;
    const coffer_status status =
        coffer__source_read(coffer__input_source(import->input, plan->keys_file), at, memory, *size, err);
    if (at == 0 && status == COFFER_OK) {
        memset(memory + SIDECAR_COUNT_AT, 0, 8);
    }
    return status;
}

/* Copies the keys block by block. Whether the input is still what was planned is asked last, as for tensors: a file
   that was changed meanwhile may have given the bytes of two versions. */
static coffer_status sidecar_fill(const coffer_import *import, coffer__byte_sink *sink, uint8_t *memory,
                                  coffer_error *err)
{
    size_t size = 0;
    coffer_status status = sink->ops->reserve(sink, import->plan.keys_size, err);
    for (uint64_t at = 0; at < import->plan.keys_size && status == COFFER_OK; at += size) {
        status = sidecar_block(import, at, memory, &size, err);
        if (status == COFFER_OK) {
            status = sink->ops->write_at(sink, at, memory, size, err);
        }
    }
    return status == COFFER_OK ? coffer__input_is_still(import->input, err) : status;
}

/* Reads both files again, block by block. */
static coffer_status sidecar_compare(const coffer_import *import, coffer__byte_sink *sink, uint8_t *memory,
                                     coffer_error *err)
{
    uint8_t *written = memory + COFFER__GGUF_WINDOW;
    size_t size = 0;
    coffer_status status = COFFER_OK;
    for (uint64_t at = 0; at < import->plan.keys_size && status == COFFER_OK; at += size) {
        status = sidecar_block(import, at, memory, &size, err);
        if (status == COFFER_OK) {
            status = sink->ops->read_at(sink, at, written, size, err);
        }
        if (status == COFFER_OK && memcmp(memory, written, size) != 0) {
            status = coffer__fail(err, COFFER_ERR_CHECKSUM,
                                  "what was written to the sidecar reads back differently: it was not kept");
        }
    }
    return status;
}

/* The sink is open when this succeeds: its file gets its name only when the tensors are complete as well. */
coffer_status coffer__gguf_sidecar_write(const coffer_import *import, const char *path, coffer_sync sync, bool verified,
                                         coffer__byte_sink *sink, coffer_error *err)
{
    if (import->plan.keys_size == 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a sidecar has GGUF's keys, and the input has none");
    }
    if (coffer__input_has_path(import->input, path)) {
        coffer__fail(err, COFFER_ERR_ARGUMENT, "the sidecar would replace a file that is converted");
        return coffer__fail_path(err, COFFER_ERR_ARGUMENT, path);
    }
    /* For a block, and for what it is compared with. */
    uint8_t *memory = coffer__alloc_array(&import->allocator, COFFER__GGUF_WINDOW, 2, err);
    if (memory == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = coffer__sink_path(sink, &import->allocator, path, sync, false, err);
    if (status == COFFER_OK) {
        status = sidecar_fill(import, sink, memory, err);
        if (status == COFFER_OK && verified && sink->ops->read_at != NULL) {
            status = sidecar_compare(import, sink, memory, err);
        }
        if (status != COFFER_OK) {
            sink->ops->discard(sink);
        }
    }
    coffer__free_array(&import->allocator, memory, COFFER__GGUF_WINDOW, 2);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}
