/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sidecar of an import (gguf_sidecar.h draws it). Writing it needs no reader: the plan says how many bytes of the input are
 * keys, and they are copied as they are. So the process that writes parses nothing of a file that was not trusted with its own
 * process before.
 */
#include "import.h"

#include "alloc.h"
#include "error.h"
#include "sink.h"

#include <string.h>

/* Bytes that are copied at once. */
#define SIDECAR_BLOCK ((size_t)262144)
#define SIDECAR_COUNT_AT 8 /* of the number of tensors, eight bytes */

/* A block of the keys at *at, of *size bytes, with which the next begins. Of the head only the number of tensors changes:
   zero has no order of bytes, so that a big-endian file needs nothing else. */
static coffer_status sidecar_block(const coffer_import *import, uint64_t at, uint8_t *memory, size_t *size,
                                   coffer_error *err)
{
    const coffer__import_plan *plan = &import->plan;
    const uint64_t left = plan->keys_size - at;
    *size = left < SIDECAR_BLOCK ? (size_t)left : SIDECAR_BLOCK;
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
    uint8_t *written = memory + SIDECAR_BLOCK;
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
coffer_status coffer__import_write_sidecar(const coffer_import *import, const char *path, coffer_sync sync,
                                           bool verified, coffer__byte_sink *sink, coffer_error *err)
{
    if (import->plan.keys_size == 0) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "a sidecar has GGUF's keys, and the input has none");
    }
    if (coffer__input_has_path(import->input, path)) {
        coffer__fail(err, COFFER_ERR_ARGUMENT, "the sidecar would replace a file that is converted");
        return coffer__fail_path(err, COFFER_ERR_ARGUMENT, path);
    }
    /* For a block, and for what it is compared with. */
    uint8_t *memory = coffer__alloc_array(&import->allocator, SIDECAR_BLOCK, 2, err);
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
    coffer__free_array(&import->allocator, memory, SIDECAR_BLOCK, 2);
    return status == COFFER_OK ? status : coffer__fail_path(err, status, path);
}
