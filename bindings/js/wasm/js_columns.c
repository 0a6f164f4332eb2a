/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table → columns. A call for each tensor and a decoding of each name would cost JavaScript more than parsing does, so it
 * takes a table as a few arrays and two texts, by one copy of each.
 */
#include "js_columns.h"

#include "table.h"

#include <string.h>

/* Where tensors go, and how far. */
typedef struct columns {
    uint64_t *offsets;
    uint64_t *sizes;
    uint64_t *dimensions;
    uint32_t *ranks;
    uint32_t *positions;
    uint32_t *name_ends;
    uint8_t *dtypes;
    char *names;
    uint32_t dimension_count;
    uint32_t names_size;
} columns;

static uint32_t column_address(const void *column)
{
    return (uint32_t)(size_t)column;
}

/* How much all names and all shapes take: less than the table does, so the sums have no overflow. */
static void columns_measure(columns *to, const coffer_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        to->dimension_count += tensor->rank;
        to->names_size += tensor->name_len;
    }
}

static bool columns_allocate(columns *to, size_t count)
{
    to->offsets = js_capacity(count, sizeof *to->offsets);
    to->sizes = js_capacity(count, sizeof *to->sizes);
    to->dimensions = js_capacity(to->dimension_count, sizeof *to->dimensions);
    to->ranks = js_capacity(count, sizeof *to->ranks);
    to->positions = js_capacity(count, sizeof *to->positions);
    to->name_ends = js_capacity(count, sizeof *to->name_ends);
    to->dtypes = js_capacity(count, sizeof *to->dtypes);
    to->names = js_capacity(to->names_size, 1);
    return to->offsets != NULL && to->sizes != NULL && to->dimensions != NULL && to->ranks != NULL &&
           to->positions != NULL && to->name_ends != NULL && to->dtypes != NULL && to->names != NULL;
}

static void columns_fill(columns *to, const coffer_table *table)
{
    uint64_t *dimension = to->dimensions;
    char *name = to->names;
    for (size_t i = 0; i < table->count; i++) {
        const coffer_tensor *tensor = coffer_table_at(table, i);
        const coffer__entry *entry = (const coffer__entry *)(const void *)tensor;
        to->offsets[i] = tensor->offset;
        to->sizes[i] = tensor->size;
        to->ranks[i] = tensor->rank;
        to->positions[i] = entry->position;
        to->dtypes[i] = (uint8_t)tensor->dtype;
        memcpy(dimension, tensor->shape, tensor->rank * sizeof *dimension);
        dimension += tensor->rank;
        memcpy(name, tensor->name, tensor->name_len);
        name += tensor->name_len;
        to->name_ends[i] = (uint32_t)(name - to->names);
    }
}

static void columns_tell(const columns *from, const coffer_table *table)
{
    js_state.data_offset = table->data_offset;
    js_state.data_size = table->data_size;
    js_state.slack = table->slack;
    js_state.format = (uint32_t)table->format;
    js_state.has_metadata = table->has_metadata;
    js_state.metadata_position = (uint32_t)table->metadata_position;
    js_state.count = (uint32_t)table->count;
    js_state.dimension_count = from->dimension_count;
    js_state.offsets = column_address(from->offsets);
    js_state.sizes = column_address(from->sizes);
    js_state.dimensions = column_address(from->dimensions);
    js_state.ranks = column_address(from->ranks);
    js_state.positions = column_address(from->positions);
    js_state.name_ends = column_address(from->name_ends);
    js_state.dtypes = column_address(from->dtypes);
    js_state.names = column_address(from->names);
    js_state.names_size = from->names_size;
    memcpy(js_state.notes, table->notes, sizeof js_state.notes);
}

static coffer_status columns_pairs(const coffer_table *table)
{
    coffer_pair pair;
    size_t size = 0;
    const size_t count = table->pair_count;
    for (size_t i = 0; i < count; i++) {
        (void)coffer_table_metadata_at(table, i, &pair);
        size += pair.key_len + pair.value_len;
    }
    uint32_t *ends = js_capacity(2 * count, sizeof *ends);
    uint32_t *positions = js_capacity(count, sizeof *positions);
    char *texts = js_capacity(size, 1);
    if (ends == NULL || positions == NULL || texts == NULL) {
        return COFFER_ERR_MEMORY;
    }
    char *text = texts;
    for (size_t i = 0; i < count; i++) {
        (void)coffer_table_metadata_at(table, i, &pair);
        memcpy(text, pair.key, pair.key_len);
        text += pair.key_len;
        ends[2 * i] = (uint32_t)(text - texts);
        memcpy(text, pair.value, pair.value_len);
        text += pair.value_len;
        ends[2 * i + 1] = (uint32_t)(text - texts);
        /* A pair's texts follow it: see table.h. */
        positions[i] = ((const coffer__text_pair *)(const void *)pair.key - 1)->position;
    }
    js_state.pair_count = (uint32_t)count;
    js_state.pair_ends = column_address(ends);
    js_state.pair_positions = column_address(positions);
    js_state.pair_texts = column_address(texts);
    js_state.pair_texts_size = (uint32_t)size;
    return COFFER_OK;
}

static const coffer_table *columns_table;

coffer_status js_columns(const coffer_table *table)
{
    columns to = { .offsets = NULL };
    columns_table = table;
    columns_measure(&to, table);
    if (!columns_allocate(&to, table->count)) {
        return COFFER_ERR_MEMORY;
    }
    columns_fill(&to, table);
    columns_tell(&to, table);
    return columns_pairs(table);
}

/* How the file spells the dtype of tensor `i` of the last table, which no number says when it is not known. */
JS_EXPORT(coffer_js_dtype_spelling) const char *coffer_js_dtype_spelling(size_t i)
{
    return coffer_tensor_dtype_name(coffer_table_at(columns_table, i));
}
