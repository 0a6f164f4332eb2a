/* SPDX-License-Identifier: Apache-2.0 */
/* What the bytes of a file show: see check_bytes.h for the contract. */
#include "check_bytes.h"

#include "cli_interrupt.h"
#include "cli_report.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_BLOCK ((uint64_t)1 << 20) /* bytes that are read at a time */

/* ---- Holes ---- */

/* The tensor of a file that has its byte `offset`, or the first one after it. */
static const coffer_tensor *tensor_at(const coffer_table *table, uint64_t offset)
{
    size_t low = 0;
    size_t high = coffer_table_count(table);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const coffer_tensor *tensor = coffer_table_at(table, middle);
        const bool before = tensor->offset + tensor->size <= offset;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return coffer_table_at(table, low);
}

void check_holes(const coffer *model, check_bytes *found)
{
    cli_note note = { "file_hole", "the file has a hole, which reads as zeros: the download or copy may be incomplete",
                      0, COFFER_NO_OFFSET, "" };
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        uint64_t first = 0;
        const uint64_t count = coffer_shard_holes(model, i, &first);
        if (count > 0 && note.count == 0) {
            const coffer_tensor *tensor =
                coffer_shard_is_packed(model, i) ? NULL : tensor_at(coffer_shard_table(model, i), first);
            note.offset = first;
            note.subject = tensor != NULL ? tensor->name : "";
        }
        note.count += count;
    }
    if (note.count > 0) {
        found->notes[found->count++] = note;
    }
}

/* ---- Zeros ---- */

static bool is_zero(const unsigned char *bytes, size_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* *zero says whether a tensor has bytes and all of them are zero. */
static coffer_status look_at_tensor(const coffer *model, const coffer_tensor *tensor, unsigned char *block, bool *zero,
                                    coffer_error *err)
{
    *zero = tensor->size > 0;
    for (uint64_t at = 0; at < tensor->size && *zero;) {
        const uint64_t left = tensor->size - at;
        const uint64_t size = left < CHECK_BLOCK ? left : CHECK_BLOCK;
        coffer_status status = coffer_read_part(model, tensor, at, block, size, NULL, err);
        if (status == COFFER_OK && cli_interrupted()) {
            *err = (coffer_error){ .code = COFFER_ERR_CANCELLED, .offset = COFFER_NO_OFFSET };
            status = err->code;
        }
        if (status != COFFER_OK) {
            return status;
        }
        *zero = is_zero(block, (size_t)size);
        at += size;
    }
    return COFFER_OK;
}

static int stop(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx, (void)done, (void)total;
    return cli_interrupted();
}

coffer_status check_packed(const coffer *model, coffer_error *err)
{
    coffer_digest_options options = COFFER_DIGEST_OPTIONS_INIT;
    coffer_status status = COFFER_OK;
    options.progress = stop;
    for (size_t i = 0; i < coffer_shard_count(model) && status == COFFER_OK; i++) {
        if (coffer_shard_is_packed(model, i)) {
            status = coffer_verify_packed(model, i, &options, err);
        }
    }
    return status;
}

coffer_status check_zeros(const coffer *model, check_bytes *found, coffer_error *err)
{
    cli_note note = { "zeros", "a tensor has only zeros", 0, COFFER_NO_OFFSET, "" };
    unsigned char *block = malloc((size_t)CHECK_BLOCK);
    coffer_status status = COFFER_OK;
    if (block == NULL) {
        return cli_no_memory(err);
    }
    for (size_t i = 0; i < coffer_count(model) && status == COFFER_OK; i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        bool zero = false;
        status = look_at_tensor(model, tensor, block, &zero, err);
        if (zero && note.count++ == 0) {
            note.offset = tensor->offset;
            note.subject = tensor->name;
        }
    }
    free(block);
    if (status == COFFER_OK && note.count > 0) {
        found->notes[found->count++] = note;
    }
    return status;
}
