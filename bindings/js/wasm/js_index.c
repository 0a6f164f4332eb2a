/* SPDX-License-Identifier: Apache-2.0 */
/* Index → columns, as js_columns.c does it with tables. */
#include "index.h"
#include "js.h"
#include "model_dir_name.h"

#include <string.h>

_Static_assert(INDEX_RECORDS == COFFER__INDEX_RECORDS, "the answer has them all");

static coffer__model_index index_read;

/* For whoever judges names by rules of his own, afterwards. */
static coffer_status index_any_name(const char *name, size_t name_len, uint64_t offset, coffer_error *err)
{
    (void)name;
    (void)name_len;
    (void)offset;
    (void)err;
    return COFFER_OK;
}

/* Texts, one after the other, and where each ends. */
typedef struct index_texts {
    char *text;
    uint32_t *ends;
    uint32_t used;
} index_texts;

/* `size` is less than that of the index, which has every name at least once. */
static bool index_texts_new(index_texts *texts, size_t count, size_t size)
{
    texts->text = js_capacity(size, 1);
    texts->ends = js_capacity(count, sizeof *texts->ends);
    texts->used = 0;
    return texts->text != NULL && texts->ends != NULL;
}

static void index_texts_add(index_texts *texts, size_t i, coffer__name name)
{
    memcpy(texts->text + texts->used, name.text, name.len);
    texts->used += (uint32_t)name.len;
    texts->ends[i] = texts->used;
}

static coffer_status index_tell_entries(void)
{
    size_t size = 0;
    for (size_t i = 0; i < index_read.count; i++) {
        size += index_read.entries[i].name.len;
    }
    index_texts names;
    uint32_t *positions = js_capacity(index_read.count, sizeof *positions);
    uint32_t *files = js_capacity(index_read.count, sizeof *files);
    if (!index_texts_new(&names, index_read.count, size) || positions == NULL || files == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < index_read.count; i++) {
        const coffer__index_entry *entry = &index_read.entries[i];
        index_texts_add(&names, i, entry->name);
        positions[i] = entry->position;
        files[i] = entry->shard;
    }
    js_state.entry_count = (uint32_t)index_read.count;
    js_state.entry_positions = (uint32_t)(size_t)positions;
    js_state.entry_files = (uint32_t)(size_t)files;
    js_state.entry_ends = (uint32_t)(size_t)names.ends;
    js_state.entry_names = (uint32_t)(size_t)names.text;
    js_state.entry_names_size = names.used;
    return COFFER_OK;
}

static coffer_status index_tell_files(void)
{
    size_t size = 0;
    for (size_t i = 0; i < index_read.shard_count; i++) {
        size += index_read.shards[i].file.len;
    }
    index_texts names;
    if (!index_texts_new(&names, index_read.shard_count, size)) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < index_read.shard_count; i++) {
        index_texts_add(&names, i, index_read.shards[i].file);
    }
    js_state.file_count = (uint32_t)index_read.shard_count;
    js_state.file_ends = (uint32_t)(size_t)names.ends;
    js_state.file_names = (uint32_t)(size_t)names.text;
    js_state.file_names_size = names.used;
    return COFFER_OK;
}

static void index_tell_metadata(void)
{
    js_state.total_size = index_read.total_size;
    js_state.total_size_at = index_read.total_size_at;
    js_state.total_size_is_read = index_read.total_size_is_read;
    js_state.index_metadata = (uint32_t)(size_t)index_read.metadata;
    js_state.index_metadata_size = (uint32_t)index_read.metadata_len;
    for (size_t i = 0; i < COFFER__INDEX_RECORDS; i++) {
        js_state.records[2 * i] = (uint32_t)index_read.records[i].from;
        js_state.records[2 * i + 1] = (uint32_t)index_read.records[i].len;
    }
}

/* Reads an index. Unless `any_name`, its files have to be plain names of files in its own folder. */
JS_EXPORT(coffer_js_index) coffer_status coffer_js_index(const uint8_t *text, size_t text_size, unsigned any_name)
{
    coffer__index_judge *judge = any_name != 0 ? index_any_name : coffer__model_dir_check_shard;
    coffer_status status = coffer__index_read(&index_read, text, text_size, judge, &js_arena, &js_state.error);
    if (status != COFFER_OK) {
        return status;
    }
    index_tell_metadata();
    status = index_tell_entries();
    return status == COFFER_OK ? index_tell_files() : status;
}
