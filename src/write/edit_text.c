/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans and writes a head with other metadata: see edit_text.h. Planning merges two sorted lists, the pairs of the
 * table and the edits, into the new pairs, and then measures the text by writing it to nowhere. Writing runs the
 * same code with a buffer, so the size and the text cannot disagree.
 */
#include "edit_text.h"

#include "alloc.h"
#include "declared.h"
#include "error.h"
#include "formats.h"
#include "sort.h"
#include "table.h"
#include "text.h"

#include <string.h>

/* An escaped byte takes at most six bytes, and no header is larger than that limit. The bound keeps all sums below
   2^64. */
#define EDIT_LONGEST_STRING (COFFER_LARGEST_MAX_HEADER_SIZE / 6)

/* ---- the new pairs ----------------------------------------------------------------------------------------------- */

/* Keys and values of edits come from the caller. A header with a string that is not UTF-8 would be
   refused by every reader. `number` is the edit's place in the caller's list, for the message. An
   empty string may be NULL, a string of bytes may not. The format's writer, which escapes it,
   relies on both checks. */
static coffer_status edit_check_string(const char *string, size_t length, size_t number, const char *what,
                                       coffer_error *err)
{
    if (string == NULL && length > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the %s of edit %u is NULL", what, (uint64_t)number);
    }
    if (length > EDIT_LONGEST_STRING) {
        return coffer__fail(err, COFFER_ERR_HEADER_TOO_LARGE,
                            "the %s of edit %u has %u bytes: no header has room for it", what, (uint64_t)number,
                            (uint64_t)length);
    }
    const size_t valid = length > 0 ? coffer__utf8_valid_len(string, length) : 0;
    if (valid != length) {
        return coffer__fail(err, COFFER_ERR_UTF8, "the %s of edit %u is not UTF-8 from its byte %u on: %q", what,
                            (uint64_t)number, (uint64_t)valid, string, length);
    }
    return COFFER_OK;
}

/* The bound on the count is that of the numbers by which edits are sorted. A value of NULL removes
   the key and has nothing to check. */
static coffer_status edit_check_edits(const coffer_edit *edits, size_t count, coffer_error *err)
{
    if (count > UINT32_MAX) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "%u edits are more than can be made at once", (uint64_t)count);
    }
    for (size_t i = 0; i < count; i++) {
        coffer_status status = edit_check_string(edits[i].key, edits[i].key_len, i, "key", err);
        if (status == COFFER_OK && edits[i].value != NULL) {
            status = edit_check_string(edits[i].value, edits[i].value_len, i, "value", err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Edits in order of their keys. coffer__sort keeps equal ones in the order of their numbers, so the last edit of a
   key is the last in its run. */
static bool edit_key_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer_edit *edits = ctx;
    return coffer__compare_names(edits[a].key, edits[a].key_len, edits[b].key, edits[b].key_len) < 0;
}

/* The state of merging: the pairs of the table and the edits, both in order of keys. */
typedef struct edit_merge {
    const coffer_table *table;
    const coffer_edit *edits;
    const uint32_t *order;
    size_t edit_count;
    size_t next_edit;
    size_t next_pair;
} edit_merge;

/* Consumes all edits of the next key and returns the last of them, which is the one that counts.
   There must be an edit left. `order` is stable, so the last of the run is the last in the caller's
   list. */
static const coffer_edit *edit_take(edit_merge *merge)
{
    const coffer_edit *edit = &merge->edits[merge->order[merge->next_edit++]];
    while (merge->next_edit < merge->edit_count &&
           !edit_key_before(merge->edits, merge->order[merge->next_edit - 1], merge->order[merge->next_edit])) {
        edit = &merge->edits[merge->order[merge->next_edit++]];
    }
    return edit;
}

/* There is space: no more pairs are kept than there are old pairs and edits together. */
static void edit_keep(coffer__edit_text *text, const coffer_pair *pair)
{
    text->pairs[text->pair_count++] = *pair;
}

/* Applies the edit of a key whose old pair is `old`, NULL if the table has none. An edit without a
   value removes the key. `same` stays true only while every edit asks for what the table has
   already. An edit that removes a key the table lacks changes nothing, and neither does one that
   sets the value it has: both must leave `same` alone, because a file that is `same` is not written
   to. */
static void edit_apply(coffer__edit_text *text, const coffer_edit *edit, const coffer_pair *old)
{
    if (edit->value == NULL) {
        text->same = text->same && old == NULL;
        return;
    }
    const char *key = edit->key_len > 0 ? edit->key : ""; /* an empty key may be NULL */
    const coffer_pair pair = { key, edit->value, edit->key_len, edit->value_len };
    text->same = text->same && old != NULL && old->value_len == pair.value_len &&
                 memcmp(old->value, pair.value, pair.value_len) == 0;
    edit_keep(text, &pair);
}

/* Merges pairs and edits. `order` compares the next key of both lists: below 0, the pair is kept;
   above 0, the edit adds a key; 0, the edit changes or removes the pair. Each round consumes a
   pair, the edits of one key, or both, so the loop ends and the new pairs come out in order of
   their keys. That order is the one that the digest of the metadata is defined on. */
static void edit_merge_pairs(coffer__edit_text *text, edit_merge *merge)
{
    coffer_pair pair = { NULL, NULL, 0, 0 };
    text->same = true;
    bool has_pair = coffer_table_metadata_at(merge->table, merge->next_pair, &pair);
    while (has_pair || merge->next_edit < merge->edit_count) {
        /* If one of the lists is at its end, the other one is next. */
        int order = has_pair ? -1 : 1;
        if (has_pair && merge->next_edit < merge->edit_count) {
            const coffer_edit *edit = &merge->edits[merge->order[merge->next_edit]];
            order = coffer__compare_names(pair.key, pair.key_len, edit->key, edit->key_len);
        }
        if (order < 0) {
            edit_keep(text, &pair);
        } else {
            edit_apply(text, edit_take(merge), order == 0 ? &pair : NULL);
        }
        if (order <= 0) {
            has_pair = coffer_table_metadata_at(merge->table, ++merge->next_pair, &pair);
        }
    }
}

/* Whether a file gets its first pairs, none of which the caller means to be "format". */
static bool edit_lacks_format(const coffer__edit_text *text, const coffer_table *table, const coffer_edit *edits,
                              size_t count)
{
    bool lacks = text->format->wants_framework && text->pair_count > 0 && !coffer_table_has_metadata(table);
    for (size_t i = 0; lacks && i < count; i++) {
        lacks = coffer__compare_names(edits[i].key, edits[i].key_len, COFFER__FORMAT_KEY,
                                      sizeof COFFER__FORMAT_KEY - 1) != 0;
    }
    return lacks;
}

/* Adds what makes metadata loadable, at its place among the others. There is space for it. */
static void edit_add_format(coffer__edit_text *text)
{
    const coffer_pair pair = { COFFER__FORMAT_KEY, COFFER__FORMAT_VALUE, sizeof COFFER__FORMAT_KEY - 1,
                               sizeof COFFER__FORMAT_VALUE - 1 };
    size_t at = text->pair_count++;
    for (; at > 0 &&
           coffer__compare_names(text->pairs[at - 1].key, text->pairs[at - 1].key_len, pair.key, pair.key_len) > 0;
         at--) {
        text->pairs[at] = text->pairs[at - 1];
    }
    text->pairs[at] = pair;
}

static coffer_status edit_out_of_memory(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the new metadata");
}

/* Finds the new pairs. They borrow their strings from the table and from the edits. Space for the
   worst case is taken at once, in which every edit adds a key, so that merging cannot fail. On
   failure text->pairs may be allocated: the caller releases it. */
static coffer_status edit_find_pairs(coffer__edit_text *text, const coffer_table *table, const coffer_edit *edits,
                                     size_t count, coffer_error *err)
{
    /* The table's pairs and the caller's edits are both in memory, so the sum of their numbers cannot overflow. One
       more is allocated, for the format of a file's first metadata. */
    text->pair_capacity = (coffer_table_metadata_count(table) + count + 1) * sizeof(coffer_pair);
    text->pairs = coffer__alloc(&text->allocator, text->pair_capacity);
    const size_t order_size = (count + 1) * sizeof(uint32_t);
    uint32_t *order = coffer__alloc(&text->allocator, order_size);
    if (text->pairs == NULL || order == NULL) {
        coffer__free(&text->allocator, order, order_size);
        return edit_out_of_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, count, edit_key_before, edits);
    edit_merge merge = { .table = table, .edits = edits, .order = order, .edit_count = count };
    edit_merge_pairs(text, &merge);
    if (edit_lacks_format(text, table, edits, count)) {
        edit_add_format(text);
    }
    coffer__free(&text->allocator, order, order_size);
    return COFFER_OK;
}

/* ---- the new text ------------------------------------------------------------------------------------------------ */

/* Bytes of the old header from `from` to `end`, with new names in the places of old ones. *next is the first name that is
   not before `from`. No name is cut by a range, since what is spliced are the metadata. */
static void edit_put_range(coffer__header_text *out, const coffer__edit_text *text, size_t from, size_t end,
                           size_t *next)
{
    const uint8_t *header = text->head + text->format->header_at;
    for (; *next < text->name_count && text->names[*next].at < end; (*next)++) {
        const coffer__edit_name *name = &text->names[*next];
        coffer__header_put(out, header + from, name->at - from);
        text->format->put_name(out, name->name.text, name->name.len);
        from = name->end;
    }
    coffer__header_put(out, header + from, end - from);
}

/* Puts the new metadata between the old bytes before and after it. Sizes are sums of at most 2^32
   strings of at most 2^32 bytes, counted in 64 bits. With an `out` whose bytes are NULL it only
   counts. It is the one function that knows the order of the parts, so what is measured is what is
   written. The old padding is left out, because the new head gets its own. */
static void edit_put(coffer__header_text *out, const coffer__edit_text *text)
{
    const coffer__splice *splice = &text->splice;
    size_t next = 0;
    out->size = text->format->header_at;
    edit_put_range(out, text, 0, splice->head_end, &next);
    text->format->put_metadata(out, text->pairs, text->pair_count, text->pair_count > 0);
    coffer__header_put(out, splice->joint, coffer__text_len(splice->joint));
    edit_put_range(out, text, splice->tail_at, text->tail_end, &next);
}

/* ---- the new names ----------------------------------------------------------------------------------------------- */

static bool edit_name_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer_table *table = ctx;
    return ((const coffer__entry *)(const void *)coffer_table_at(table, a))->position <
           ((const coffer__entry *)(const void *)coffer_table_at(table, b))->position;
}

/* The names that differ, in the order of `order`, which is that of the header. */
static void edit_find_names(coffer__edit_text *text, const coffer_table *table, const uint32_t *order,
                            const coffer__edit_renames *renames)
{
    const uint8_t *header = text->head + text->format->header_at;
    for (size_t i = 0; i < coffer_table_count(table); i++) {
        const coffer_tensor *tensor = coffer_table_at(table, order[i]);
        const size_t at = ((const coffer__entry *)(const void *)tensor)->position;
        const coffer__name name = renames->name_of(renames->ctx, tensor, order[i]);
        if (coffer__compare_names(name.text, name.len, tensor->name, tensor->name_len) != 0) {
            text->names[text->name_count++] = (coffer__edit_name){ at, at + text->format->name_size(header, at), name };
        }
    }
    text->same = text->same && text->name_count == 0;
}

/* On failure nothing has been found, and text->names may be allocated. */
static coffer_status edit_plan_names(coffer__edit_text *text, const coffer_table *table,
                                     const coffer__edit_renames *renames, coffer_error *err)
{
    const size_t count = coffer_table_count(table);
    if (renames == NULL) {
        return COFFER_OK;
    }
    text->name_capacity = (count + 1) * sizeof *text->names;
    text->names = coffer__alloc(&text->allocator, text->name_capacity);
    const size_t order_size = (count + 1) * sizeof(uint32_t);
    uint32_t *order = coffer__alloc(&text->allocator, order_size);
    if (text->names == NULL || order == NULL) {
        coffer__free(&text->allocator, order, order_size);
        return edit_out_of_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, count, edit_name_before, table);
    edit_find_names(text, table, order, renames);
    coffer__free(&text->allocator, order, order_size);
    return COFFER_OK;
}

bool coffer__edit_can_rename(coffer_format format)
{
    const coffer__format_ops *found = coffer__format_at(format);
    return found->splice != NULL && found->put_name != NULL;
}

/* A format without `splice` cannot say where its metadata are. */
static coffer_status edit_no_editing(const coffer__format_ops *format, coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "metadata of files in the format %s cannot be edited", format->name);
}

/* On failure `text` holds nothing; after success coffer__edit_text_free releases it. `head`, the
   table and the edits must live as long as the plan. Pure: nothing is read or written besides
   memory. The head must be the one that the table was parsed from, byte for byte, since the splice
   consists of places in it. */
coffer_status coffer__edit_text_plan(coffer__edit_text *text, const coffer_table *table, const uint8_t *head,
                                     const coffer_edit *edits, size_t count, const coffer__edit_renames *renames,
                                     coffer_error *err)
{
    memset(text, 0, sizeof *text);
    text->allocator = table->allocator;
    text->head = head;
    text->head_size = (size_t)coffer_table_data_offset(table);
    text->format = coffer__format_at(coffer_table_format(table));
    if (text->format->splice == NULL) {
        return edit_no_editing(text->format, err);
    }
    if (edits == NULL && count > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the edits are NULL, but their count is %u", (uint64_t)count);
    }
    coffer_status status = edit_check_edits(edits, count, err);
    if (status == COFFER_OK) {
        status = edit_find_pairs(text, table, edits, count, err);
    }
    if (status == COFFER_OK) {
        status = edit_plan_names(text, table, renames, err);
    }
    if (status != COFFER_OK) {
        coffer__edit_text_free(text);
        return status;
    }
    const size_t header_at = text->format->header_at;
    /* The format finds where its metadata are and what joins them to the rest; then the text is measured. */
    text->format->splice(&text->splice, table, head + header_at, text->pair_count);
    text->tail_end = text->head_size - header_at - (size_t)coffer_table_slack(table);
    coffer__header_text measure = { NULL, 0 };
    edit_put(&measure, text);
    text->size = measure.size;
    return COFFER_OK;
}

/* `seal` fills the frame and the padding, which depend on the final size. `out` has `size` bytes,
   which must be at least text->size; the difference becomes padding. It cannot fail, and may be
   called more than once with different sizes. */
void coffer__edit_text_write(const coffer__edit_text *text, uint8_t *out, size_t size)
{
    coffer__header_text head = { (char *)out, 0 };
    edit_put(&head, text);
    text->format->seal(out, (size_t)text->size, size);
}

/* May be called twice, and on a plan that failed. */
void coffer__edit_text_free(coffer__edit_text *text)
{
    coffer__free(&text->allocator, text->pairs, text->pair_capacity);
    text->pairs = NULL;
    coffer__free(&text->allocator, text->names, text->name_capacity);
    text->names = NULL;
}
