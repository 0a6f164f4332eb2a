/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of what is fetched. A model that is fetched whole gets the index that its publisher wrote, byte for
 * byte, because signatures and digests cover those bytes. A selection, or files that had no index, get one that is
 * made here.
 */
#include "alloc.h"
#include "error.h"
#include "fetch.h"
#include "index_text.h"
#include "shard_name.h"

#include <string.h>

/* An index names files without a folder. */
static const char *fetch_name(const coffer__fetch_file *file)
{
    return file->target.text + coffer__path_name_at(file->target.text);
}

/* Puts the file of each wanted tensor. Files with tensors come first in the list, so the first
   file without a shard ends it. Tensors come by file and, within a file, in the order of the
   old table. */
static void fetch_put_weights(const coffer__download *job, coffer__index_writer *text)
{
    for (size_t f = 0; f < job->file_count && job->files[f].shard != NULL; f++) {
        const coffer__fetch_file *file = &job->files[f];
        const char *name = fetch_name(file);
        for (size_t k = 0; k < coffer_table_count(file->shard->table); k++) {
            const coffer_tensor *tensor = coffer_table_at(file->shard->table, k);
            if (job->wanted == NULL || job->wanted[file->first + k]) {
                coffer__index_put_weight(text, (coffer__name){ tensor->name, tensor->name_len }, name);
            }
        }
    }
}

/* Digests of the whole model are wrong for a part of it, so null replaces each of them, followed by
   spaces up to the old length: nothing else in the text moves. The metadata were put at `at`; what
   came after the old total_size is as far from the end as it was. Only values that are long enough
   for null are overwritten. */
static void fetch_blank_records(const coffer__download *job, const coffer__index_writer *text, size_t at)
{
    const coffer__sharded *sharded = job->model->sharded;
    for (size_t i = 0; i < COFFER__INDEX_RECORDS; i++) {
        const coffer__index_span *span = &sharded->records[i];
        if (span->len >= 4) {
            const bool before = span->from < sharded->total_size_from;
            char *blank = text->out + (before ? at + span->from : text->size - (sharded->metadata_len - span->from));
            memset(blank, ' ', span->len);
            memcpy(blank, "null", 4);
        }
    }
}

/* Puts the metadata of the model's index, with the size that the tensors have now. total_size is
   the sum of the tensors' bytes, without headers. Everything else stays byte for byte, in the
   publisher's spelling. While the text is measured there is nothing to overwrite. */
static void fetch_put_metadata(const coffer__download *job, uint64_t total, coffer__index_writer *text)
{
    const coffer__sharded *sharded = job->model->sharded;
    const bool is_part = job->wanted != NULL || job->model->shard_count < sharded->file_count;
    const size_t at = text->size;
    coffer__index_put_metadata(text, (coffer__name){ sharded->metadata, sharded->metadata_len },
                               sharded->total_size_from, sharded->total_size_len, total);
    if (is_part && text->out != NULL) {
        fetch_blank_records(job, text, at);
    }
}

/* Puts the whole index; with `out` NULL it is only measured. Both passes make the same calls, so
   the size that the first returns is right for the second. */
static size_t fetch_put_index(const coffer__download *job, char *out)
{
    coffer__index_writer text = { .size = 0 };
    uint64_t total = 0;
    text.out = out;
    for (size_t i = 0; i < coffer_count(job->model); i++) {
        total += job->wanted == NULL || job->wanted[i] ? coffer_at(job->model, i)->size : 0;
    }
    coffer__index_begin(&text);
    fetch_put_metadata(job, total, &text);
    coffer__index_begin_weights(&text);
    fetch_put_weights(job, &text);
    return coffer__index_end(&text);
}

/* PREFIX.safetensors.index.json for PREFIX-00001-of-00002.safetensors, and
   model.safetensors.index.json for other names. The name has no folder: fetch_target adds it. A
   prefix of one character is only the sign before the digits, so it counts as none. */
static void fetch_index_name(const coffer__download *job, coffer__path *name)
{
    static const char suffix[] = COFFER__FILE_SUFFIX COFFER__INDEX_SUFFIX;
    const char *first = fetch_name(&job->files[0]);
    coffer__shard_name parts;
    const bool is_shard = coffer__shard_name_read(&parts, first, strlen(first)) && parts.prefix_len > 1;
    (void)coffer__path_copy(name, "");
    (void)coffer__path_append(name, is_shard ? first : "model", is_shard ? parts.prefix_len - 1 : 5);
    (void)coffer__path_append(name, suffix, sizeof suffix - 1);
}

/* The model's own index is borrowed from the model, which outlives the fetch. Any other is
   measured, allocated and written here. The text is in memory until it is published, so that no
   file with the index's name exists before the files that it names. job->index_made is released by
   fetch_free, also after a failure. */
coffer_status coffer__fetch_make_index(coffer__download *job, coffer__path *name, coffer_error *err)
{
    const coffer__sharded *sharded = job->model->sharded;
    if (job->wanted == NULL && sharded->index.bytes != NULL) {
        job->index = (const char *)sharded->index.bytes;
        job->index_size = sharded->index.size;
        return coffer__path_copy(name, sharded->index_path)
                   ? COFFER_OK
                   : coffer__fail(err, COFFER_ERR_IO, "the index's path is too long");
    }
    job->index_size = fetch_put_index(job, NULL);
    job->index_made = coffer__alloc(job->allocator, job->index_size);
    if (job->index_made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to fetch the model");
    }
    (void)fetch_put_index(job, job->index_made);
    job->index = job->index_made;
    fetch_index_name(job, name);
    return COFFER_OK;
}
