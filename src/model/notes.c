/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of a model: those of its shards together, and what is legal but odd about several files as
   a whole. */
#include "alloc.h"
#include "error.h"
#include "shard_name.h"
#include "sharded.h"
#include "sort.h"
#include "table.h"

#include <string.h>

/* The first occurrence gives the note its offset and subject. A subject is borrowed and must live
   as long as the model. */
static void note_add(coffer__sharded *sharded, coffer_note_kind kind, uint64_t count, uint64_t offset,
                     const char *subject)
{
    if (sharded->notes[kind].count == 0) {
        sharded->notes[kind].offset = offset;
        sharded->subjects[kind] = subject;
    }
    sharded->notes[kind].count += count;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Notes tensors that the index does not name. Every tensor that it names in the open files exists
   (coffer__sharded_compare), so if the numbers agree there is nothing to look for. Comparing counts
   first makes the usual case free: a sound index is not searched at all. With a selection, tensors
   of files that are left out are neither in the model nor counted. */
static void note_unindexed(coffer__sharded *sharded, const coffer__model_index *index)
{
    size_t named = 0;
    for (size_t i = 0; i < index->count; i++) {
        named += index->entries[i].shard != COFFER__INDEX_LEFT_OUT;
    }
    for (size_t i = 0; named < sharded->count && i < sharded->count; i++) {
        const coffer_tensor *tensor = sharded->tensors[i];
        if (coffer__names_find(&index->names, tensor->name, tensor->name_len) == COFFER__NO_NAME) {
            note_add(sharded, COFFER_NOTE_UNINDEXED, 1, COFFER_NO_OFFSET, tensor->name);
        }
    }
}

/* Notes tensors that the index says are in another file. Their subject is the first file that has one. */
static void note_superseded(const coffer *model)
{
    for (size_t i = 0; i < model->shard_count; i++) {
        const size_t count = model->shards[i].table->left_out;
        if (count > 0) {
            note_add(model->sharded, COFFER_NOTE_SUPERSEDED, count, COFFER_NO_OFFSET, model->shards[i].path);
        }
    }
}

/* An index need not state a total size. One that cannot be read as a whole number, or that differs
   from the sum, is noted. Some writers state floats or wrong sums, and loaders ignore both, so this
   is no failure. Superseded tensors may be counted in it or not. */
static void note_total_size(const coffer *model, const coffer__model_index *index)
{
    uint64_t size = 0;
    uint64_t used = 0;
    for (size_t i = 0; i < model->shard_count; i++) {
        size += coffer_table_data_size(model->shards[i].table);
    }
    for (size_t i = 0; i < model->sharded->count; i++) {
        used += model->sharded->tensors[i]->size;
    }
    const bool fits = index->total_size == size || (model->sharded->superseded > 0 && index->total_size == used);
    if (index->total_size_at != COFFER_NO_OFFSET && (!index->total_size_is_read || !fits)) {
        note_add(model->sharded, COFFER_NOTE_TOTAL_SIZE, 1, index->total_size_at, NULL);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool note_same_set(coffer__name a, coffer__name b)
{
    coffer__shard_name x;
    coffer__shard_name y;
    return coffer__shard_name_read(&x, a.text, a.len) && coffer__shard_name_read(&y, b.text, b.len) &&
           x.total == y.total && x.prefix_len == y.prefix_len && memcmp(a.text, b.text, x.prefix_len) == 0;
}

/* Notes sets whose files are not as many as their names say. The files are sorted by name, so those
   of a set are neighbours. The prefix and the total tell the sets apart. Names that are not of that
   form belong to no set, and say nothing about a number. */
static void note_shard_count(const coffer *model, const coffer__model_index *index)
{
    for (size_t i = 0, next = 0; i < index->shard_count; i = next) {
        const coffer__name file = index->shards[i].file;
        coffer__shard_name parts;
        next = i + 1;
        /* In folders below the index files of a set need not be neighbours. */
        if (!coffer__shard_name_read(&parts, file.text, file.len) || memchr(file.text, '/', file.len) != NULL) {
            continue;
        }
        /* `next` is the first file after this set. */
        while (next < index->shard_count && note_same_set(file, index->shards[next].file)) {
            next++;
        }
        if (next - i != parts.total) {
            note_add(model->sharded, COFFER_NOTE_SHARD_COUNT, 1, COFFER_NO_OFFSET, model->shards[i].path);
        }
    }
}

/* What a listing of the folder is compared with. */
typedef struct note_folder {
    coffer__sharded *sharded;
    const coffer__model_index *index;
    bool no_memory;
} note_folder;

/* The totals may differ: a file of an older save has the same prefix and another total. */
static bool note_same_prefix(coffer__name a, coffer__name b)
{
    coffer__shard_name x;
    coffer__shard_name y;
    return coffer__shard_name_read(&x, a.text, a.len) && coffer__shard_name_read(&y, b.text, b.len) &&
           x.prefix_len == y.prefix_len && memcmp(a.text, b.text, x.prefix_len) == 0;
}

/* Whether a file is named like those of the index and is not one of them. Names with the same
   prefix are neighbours of the place where it would be among the sorted files. Binary search, as
   the folder may have many more files than the model. An exact match is a file of the model. */
static bool note_is_extra(const coffer__model_index *index, coffer__name name)
{
    size_t low = 0;
    size_t high = index->shard_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const coffer__name file = index->shards[middle].file;
        const int order = coffer__compare_names(file.text, file.len, name.text, name.len);
        if (order == 0) {
            return false;
        }
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    /* Not one of them. Is it named like one of its neighbours? */
    return (low > 0 && note_same_prefix(index->shards[low - 1].file, name)) ||
           (low < index->shard_count && note_same_prefix(index->shards[low].file, name));
}

/* Keeps the first name in byte order, so that the note does not depend on the order in which the
   folder is listed. The sizes include the NUL. */
static bool note_keep_extra(coffer__sharded *sharded, coffer__name name)
{
    const size_t old_len = sharded->extra_size - 1;
    if (sharded->extra != NULL && coffer__compare_names(sharded->extra, old_len, name.text, name.len) < 0) {
        return true;
    }
    char *extra = coffer__realloc(&sharded->allocator, sharded->extra, sharded->extra_size, name.len + 1);
    if (extra == NULL) {
        return false;
    }
    memcpy(extra, name.text, name.len + 1);
    sharded->extra = extra;
    sharded->extra_size = name.len + 1;
    return true;
}

/* Called for each name in the folder; false ends the listing. Any file may be there, so the name is
   untrusted; it is kept as it is and escaped where it is shown. */
static bool note_see_file(void *ctx, const char *text)
{
    note_folder *folder = ctx;
    const coffer__name name = { text, strlen(text) };
    if (note_is_extra(folder->index, name)) {
        folder->no_memory = !note_keep_extra(folder->sharded, name);
        note_add(folder->sharded, COFFER_NOTE_EXTRA_SHARD, 1, COFFER_NO_OFFSET, NULL);
    }
    return !folder->no_memory;
}

/* Notes files beside the shards that the index may have forgotten. That the folder cannot be listed
   is not a fault of the model. At a URL `real` is empty, and there is no folder to list. */
static bool note_extra_shards(coffer__sharded *sharded, const coffer__model_index *index)
{
    note_folder folder = { sharded, index, false };
    if (sharded->place.real.text[0] != '\0') {
        (void)coffer__os_list(sharded->place.real.text, note_see_file, &folder);
    }
    sharded->subjects[COFFER_NOTE_EXTRA_SHARD] = sharded->extra;
    return !folder.no_memory;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status note_no_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the notes of the model");
}

/* Copies the index's metadata, as the text of the index is released if only some of its files are
   open. The spans of what is recorded are relative to the metadata, so they stay valid for the
   copy. */
static coffer_status note_keep_metadata(coffer__sharded *sharded, const coffer__model_index *index, coffer_error *err)
{
    if (index->metadata == NULL) {
        return COFFER_OK;
    }
    sharded->metadata = coffer__alloc(&sharded->allocator, index->metadata_len);
    if (sharded->metadata == NULL) {
        return note_no_memory(err);
    }
    sharded->metadata_len = index->metadata_len;
    sharded->total_size_from = index->total_size_from;
    sharded->total_size_len = index->total_size_len;
    memcpy(sharded->records, index->records, sizeof sharded->records);
    memcpy(sharded->metadata, index->metadata, index->metadata_len);
    return COFFER_OK;
}

/* What compares the index with all of its files is left out if only some are open. Listing the
   folder is costly, so it is done only if all notes are asked for. Notes never make opening fail,
   except for lack of memory. They are made before the model is handed out, by one thread. */
coffer_status coffer__sharded_note(coffer *model, const coffer__model_index *index, const coffer_open_options *options,
                                   coffer_error *err)
{
    coffer__sharded *sharded = model->sharded;
    if (index == NULL) {
        note_add(sharded, COFFER_NOTE_NO_INDEX, 1, COFFER_NO_OFFSET, NULL);
        return COFFER_OK;
    }
    const bool is_whole = index->shard_count == index->file_count;
    sharded->file_count = index->file_count;
    note_unindexed(sharded, index);
    note_superseded(model);
    if (is_whole) {
        note_total_size(model, index);
        note_shard_count(model, index);
    }
    if (options->all_notes && is_whole && !note_extra_shards(sharded, index)) {
        return note_no_memory(err);
    }
    return note_keep_metadata(sharded, index, err);
}

/* Notes of the whole come from `several`; all other kinds are summed over the shards, and the first
   shard with one is named. `kind` may be any number: one that is unknown has no notes. *subject is
   borrowed from the model. */
coffer_note coffer_model_note(const coffer *model, coffer_note_kind kind, const char **subject)
{
    const coffer__sharded *sharded = model->sharded;
    coffer_note note = { 0, COFFER_NO_OFFSET };
    const char *about = NULL;
    const bool of_whole = sharded != NULL && (int)kind >= COFFER_NOTE_UNINDEXED && (int)kind < COFFER_NOTE_COUNT;
    if (of_whole && sharded->notes[kind].count > 0) {
        note = sharded->notes[kind];
        about = sharded->subjects[kind];
    }
    /* The sum over the shards, with the place of the first. */
    for (size_t i = 0; !of_whole && i < model->shard_count; i++) {
        const coffer_note of_shard = coffer_table_note(model->shards[i].table, kind);
        if (note.count == 0 && of_shard.count > 0) {
            note.offset = of_shard.offset;
            about = model->shards[i].path;
        }
        note.count += of_shard.count;
    }
    if (subject != NULL) {
        *subject = about == NULL ? "" : about;
    }
    return note;
}

/* NULL without an index; "" for an index without metadata. */
const char *coffer_index_metadata(const coffer *model, size_t *len)
{
    const coffer__sharded *sharded = model->sharded;
    const bool indexed = sharded != NULL && sharded->notes[COFFER_NOTE_NO_INDEX].count == 0;
    if (len != NULL) {
        *len = indexed ? sharded->metadata_len : 0;
    }
    if (!indexed) {
        return NULL;
    }
    return sharded->metadata != NULL ? sharded->metadata : "";
}

/* The text is kept for coffer_fetch, which passes it on, and for programs that do the same. */
const void *coffer_index_text(const coffer *model, size_t *len)
{
    const coffer__sharded *sharded = model->sharded;
    const bool kept = sharded != NULL && sharded->index.bytes != NULL;
    if (len != NULL) {
        *len = kept ? sharded->index.size : 0;
    }
    return kept ? sharded->index.bytes : NULL;
}

const char *coffer_index_path(const coffer *model)
{
    const coffer__sharded *sharded = model->sharded;
    return sharded != NULL && sharded->index_path != NULL ? sharded->index_path : "";
}
