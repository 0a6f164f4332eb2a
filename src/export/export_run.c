/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what is laid out, from the first leaf to the last, in one of two ways:
 *
 *   a group    small leaves that follow each other: their text and their tensors are put together in memory, as they
 *              will be in the file, and written at once
 *   one leaf   whose tensor is large: its tensor lands on the sink as everything does (output target.h), and nobody has to
 *              hold it
 *
 * An archive has a tensor's CRC before the tensor. So the text before a large tensor is written after it, with the CRC
 * of the bytes that came by. A sink that takes bytes in order only gets none of that: there the tensor is read once for
 * its CRC, and once more to be written, when the CRC has to be the same again.
 */
#include "export.h"

#include "alloc.h"
#include "error.h"
#include "lazy_verify.h"
#include "model.h"
#include "output_target.h"
#include "parts.h"

#include <string.h>

/* Bytes that a group has at most, and its leaves. */
#define EXPORT_GROUP_SIZE ((size_t)8 << 20)
#define EXPORT_GROUP_LEAVES 4096

typedef struct export_run {
    const coffer *model;
    coffer__layout *layout;
    const coffer__crc32 *crc32; /* NULL: there are none */
    coffer__byte_sink *sink;
    const coffer_read_options *options;
    const coffer_allocator *allocator;
    uint8_t *memory; /* of a group; `capacity` bytes */
    size_t capacity;
    coffer_read_target *targets; /* of a group; `target_capacity` of them */
    size_t target_capacity;
    uint64_t at;         /* in the new file, of the leaf that comes next */
    coffer__parts parts; /* the progress; counts bytes of tensors that are written */
} export_run;

/* ---- leaves ------------------------------------------------------------------------------------------------------ */

/* The text of a leaf ends where the next one's begins; that of the last ends with all text. */
static size_t export_text_size(const export_run *run, size_t i)
{
    const coffer__layout *layout = run->layout;
    const size_t end = i + 1 < layout->count ? layout->leaves[i + 1].text : layout->text.used;
    return end - layout->leaves[i].text;
}

/* A leaf without a tensor is text only, as the directory at the end of an archive. */
static uint64_t export_tensor_size(const export_run *run, size_t i)
{
    const coffer_tensor *tensor = run->layout->leaves[i].tensor;
    return tensor != NULL ? tensor->size : 0;
}

/* Puts the CRC of a leaf's tensor into the text, little-endian, at its places in the local head and
   in the directory. The directory comes last in the file, so its text has all CRCs when it is
   written. */
static void export_set_crc(const export_run *run, size_t i, uint32_t crc)
{
    const coffer__leaf *leaf = &run->layout->leaves[i];
    for (size_t k = 0; k < 2; k++) {
        for (size_t byte = 0; leaf->crc_at[k] != COFFER__NO_CRC && byte < 4; byte++) {
            run->layout->text.text[leaf->crc_at[k] + byte] = (char)(uint8_t)(crc >> (8 * byte));
        }
    }
}

/* Leaves of formats without CRCs, and those that are text only, have no place for one. */
static bool export_needs_crc(const export_run *run, size_t i)
{
    return run->crc32 != NULL && run->layout->leaves[i].crc_at[0] != COFFER__NO_CRC;
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

/* The options of one part of the work: a group, or a large tensor. */
static coffer_read_options export_part(export_run *run)
{
    coffer_read_options part = *run->options;
    coffer__parts_begin(&run->parts, &part.progress, &part.progress_ctx);
    return part;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* The end of the group that begins with leaf `first`; `first` itself when that is too large for
   one. `left` is what fits still, so nothing is added up that could wrap. */
static size_t export_group_end(const export_run *run, size_t first)
{
    size_t end = first;
    for (uint64_t left = run->capacity; end < run->layout->count && end - first < run->target_capacity; end++) {
        const uint64_t text = export_text_size(run, end);
        const uint64_t tensor = export_tensor_size(run, end);
        if (text > left || tensor > left - text) {
            break;
        }
        left -= text + tensor;
    }
    return end;
}

/* Reads the tensors of a group to where they belong among its text. Tensors that are to be verified are. */
static coffer_status export_read_group(export_run *run, size_t first, size_t end, size_t *size, coffer_error *err)
{
    size_t count = 0;
    *size = 0;
    for (size_t i = first; i < end; i++) {
        *size += export_text_size(run, i);
        const coffer_tensor *tensor = run->layout->leaves[i].tensor;
        if (tensor != NULL) {
            run->targets[count++] = (coffer_read_target){ tensor, run->memory + *size, tensor->size };
            *size += (size_t)tensor->size;
        }
    }
    const coffer_read_options part = export_part(run);
    return count > 0 ? coffer__lazy_verify_read(run->model, run->targets, count, &part, err) : COFFER_OK;
}

/* Computes the CRCs of a group whose tensors are in memory, and puts its text beside them. */
static void export_fill_group(const export_run *run, size_t first, size_t end)
{
    uint8_t *to = run->memory;
    for (size_t i = first; i < end; i++) {
        const coffer__leaf *leaf = &run->layout->leaves[i];
        const size_t text = export_text_size(run, i);
        const size_t tensor = (size_t)export_tensor_size(run, i);
        if (export_needs_crc(run, i)) {
            export_set_crc(run, i, coffer__crc32_update(run->crc32, leaf->crc, to + text, tensor));
        }
        if (text > 0) {
            memcpy(to, run->layout->text.text + leaf->text, text);
        }
        to += text + tensor;
    }
}

/* Groups are what makes files of many small tensors quick: one write for thousands of them, and
   reads that the model can put in order. */
static coffer_status export_group(export_run *run, size_t first, size_t end, coffer_error *err)
{
    size_t size = 0;
    coffer_status status = export_read_group(run, first, end, &size, err);
    if (status != COFFER_OK) {
        return status;
    }
    export_fill_group(run, first, end);
    status = size > 0 ? run->sink->ops->write_at(run->sink, run->at, run->memory, size, err) : COFFER_OK;
    run->at += size;
    for (size_t i = first; i < end; i++) {
        run->parts.before += export_tensor_size(run, i);
    }
    return status;
}

/* ---- large tensors ----------------------------------------------------------------------------------------------- */

/* The text before a large tensor, at its place in the file. */
static coffer_status export_text(export_run *run, size_t i, coffer_error *err)
{
    const size_t size = export_text_size(run, i);
    const char *text = run->layout->text.text + run->layout->leaves[i].text;
    return size > 0 ? run->sink->ops->write_at(run->sink, run->at, text, size, err) : COFFER_OK;
}

/* Reads the row once, for its CRC alone, or lands it on the sink. A failure to read is the tensor's. */
static coffer_status export_land(export_run *run, size_t i, const coffer__transfer_op *row, bool nowhere,
                                 coffer_error *err)
{
    size_t failed = 1;
    const coffer_tensor *tensor = run->layout->leaves[i].tensor;
    const coffer_read_options part = export_part(run);
    const coffer__transfer_options options = coffer__model_transfer(run->allocator, &part, &failed);
    run->parts.again = nowhere;
    const coffer_status status =
        nowhere ? coffer__discard(row, 1, &options, err) : coffer__land_in_sink(run->sink, row, 1, &options, err);
    run->parts.again = false;
    return status != COFFER_OK && failed == 0
               ? coffer__model_fail(err, status, coffer__model_shard(run->model, tensor), tensor)
               : status;
}

/* A leaf whose text has to be written before its tensor, with the CRC of the tensor in it. So the
   tensor is read twice. Its file may have changed in between, so the CRC is computed both times: an
   archive whose CRC is wrong must not look complete. */
static coffer_status export_in_order(export_run *run, size_t i, coffer__transfer_op *row, coffer_error *err)
{
    coffer__checksum *checksum = row->checksum;
    const uint32_t before = checksum->value;
    coffer_status status = export_land(run, i, row, true, err);
    const uint32_t crc = checksum->value;
    if (status == COFFER_OK) {
        export_set_crc(run, i, crc);
        status = export_text(run, i, err);
    }
    checksum->value = before;
    if (status == COFFER_OK) {
        status = export_land(run, i, row, false, err);
    }
    if (status != COFFER_OK || checksum->value == crc) {
        return status;
    }
    const coffer_tensor *tensor = run->layout->leaves[i].tensor;
    coffer__fail(err, COFFER_ERR_CHANGED, "the file was changed while it was converted");
    return coffer__model_fail(err, COFFER_ERR_CHANGED, coffer__model_shard(run->model, tensor), tensor);
}

/* In whichever order the sink allows. Without a CRC the text comes first, so that a sink in order
   is served, too; with one, the text comes when the CRC is known. */
static coffer_status export_row(export_run *run, size_t i, coffer__transfer_op *row, coffer_error *err)
{
    if (row->checksum != NULL && run->sink->in_order) {
        return export_in_order(run, i, row, err);
    }
    coffer_status status = row->checksum == NULL ? export_text(run, i, err) : COFFER_OK;
    if (status == COFFER_OK) {
        status = export_land(run, i, row, false, err);
    }
    if (status != COFFER_OK || row->checksum == NULL) {
        return status;
    }
    export_set_crc(run, i, row->checksum->value);
    return export_text(run, i, err);
}

/* A leaf that is too large for a group. Of a source that may answer differently the next time, the bytes that were
   verified are written from memory; coffer__lazy_verify_acquire has them. */
static coffer_status export_large(export_run *run, size_t i, coffer_error *err)
{
    const coffer__leaf *leaf = &run->layout->leaves[i];
    const uint64_t text = export_text_size(run, i);
    if (leaf->tensor == NULL) {
        const coffer_status status = export_text(run, i, err);
        run->at += text;
        return status;
    }
    coffer__verified *held = NULL;
    const coffer_read_options part = export_part(run);
    coffer_status status = coffer__lazy_verify_acquire(run->model, leaf->tensor, &part, leaf->tensor->size, &held, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__checksum checksum = { .crc32 = run->crc32, .value = leaf->crc };
    coffer__transfer_op row = { .source = &coffer__model_shard(run->model, leaf->tensor)->source,
                                .map = held != NULL ? held->bytes : NULL,
                                .offset = held != NULL ? 0 : leaf->tensor->offset,
                                .size = leaf->tensor->size,
                                .at = run->at + text,
                                .checksum = export_needs_crc(run, i) ? &checksum : NULL };
    status = export_row(run, i, &row, err);
    coffer__lazy_verify_release(run->model, held);
    run->at += text + leaf->tensor->size;
    run->parts.before += leaf->tensor->size;
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Large leaves and groups in turn, in the order of the file. */
static coffer_status export_leaves(export_run *run, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < run->layout->count && status == COFFER_OK;) {
        const size_t end = export_group_end(run, i);
        status = end > i ? export_group(run, i, end, err) : export_large(run, i, err);
        i = end > i ? end : i + 1;
    }
    /* Without bytes of tensors nothing was told yet. */
    if (status == COFFER_OK && run->layout->data == 0 && run->options->progress != NULL &&
        run->options->progress(run->options->progress_ctx, 0, 0) != 0) {
        return coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    }
    return status;
}

/* Holes of large tensors stay holes, where source and sink have them. */
static coffer_status export_reserve(const export_run *run, coffer_error *err)
{
    bool has_holes = false;
    for (size_t i = 0; i < run->model->shard_count && run->layout->data > 0; i++) {
        has_holes = has_holes || coffer__source_has_holes(&run->model->shards[i].source);
    }
    run->sink->sparse = run->sink->keeps_holes && has_holes;
    return run->sink->ops->reserve(run->sink, coffer__layout_size(run->layout), err);
}

/* Memory is that of one group, or less for a small file, whatever the tensors' sizes are. */
coffer_status coffer__export_run(const coffer *model, coffer__layout *layout, const coffer__crc32 *crc32,
                                 coffer__byte_sink *sink, const coffer_read_options *options, coffer_error *err)
{
    export_run run = { .model = model,
                       .layout = layout,
                       .crc32 = crc32,
                       .sink = sink,
                       .options = options,
                       .allocator = &model->allocator,
                       .parts = { .total = layout->data } };
    const uint64_t size = coffer__layout_size(layout);
    run.capacity = size < EXPORT_GROUP_SIZE ? (size_t)size : EXPORT_GROUP_SIZE;
    run.target_capacity = layout->count < EXPORT_GROUP_LEAVES ? layout->count : EXPORT_GROUP_LEAVES;
    coffer_status status = export_reserve(&run, err);
    if (status == COFFER_OK) {
        run.memory = coffer__alloc_array(run.allocator, run.capacity, 1, err);
        run.targets = coffer__alloc_array(run.allocator, run.target_capacity, sizeof *run.targets, err);
        status = run.memory == NULL || run.targets == NULL ? COFFER_ERR_MEMORY : export_leaves(&run, err);
    }
    coffer__free_array(run.allocator, run.targets, run.target_capacity, sizeof *run.targets);
    coffer__free_array(run.allocator, run.memory, run.capacity, 1);
    return status;
}
