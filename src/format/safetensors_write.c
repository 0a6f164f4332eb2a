/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations → header bytes, for safetensors: JSON as the reference spells it, without white space, and
 * other metadata for a header that exists. A header that some other program wrote in its own way is
 * spliced, not rewritten: every byte outside the metadata stays as it was spelt, but for the comma that
 * joins their member to the others. So nothing
 * that this version does not know gets lost.
 */
#include "safetensors_write.h"

#include "json.h"
#include "table.h"
#include "text.h"

/* For literals: their length is known to the compiler, and does not count the NUL. */
#define PUT_LITERAL(text, literal) coffer__header_put(text, literal, sizeof(literal) - 1)

static void put_string(coffer__header_text *text, const char *string, size_t string_len)
{
    text->size += coffer__json_write_string(coffer__header_text_end(text), string, string_len);
}

static void put_u64(coffer__header_text *text, uint64_t value)
{
    text->size += coffer__write_u64(coffer__header_text_end(text), value);
}

/* The member of the metadata, without a comma; nothing without metadata. It is the first member, as
   the reference has it. */
void coffer__safetensors_put_metadata(coffer__header_text *text, const coffer_pair *pairs, size_t count, bool present)
{
    if (!present) {
        return;
    }
    PUT_LITERAL(text, "\"__metadata__\":{");
    for (size_t i = 0; i < count; i++) {
        coffer__header_put(text, ",", i > 0 ? 1 : 0);
        put_string(text, pairs[i].key, pairs[i].key_len);
        PUT_LITERAL(text, ":");
        put_string(text, pairs[i].value, pairs[i].value_len);
    }
    PUT_LITERAL(text, "}");
}

/* The order of the fields and the lack of white space are the reference's, and what
   read_usual_tensor expects. The name is escaped; dtypes need no escape. */
static void put_tensor(coffer__header_text *text, const coffer_header *header, const declared_tensor *tensor,
                       uint64_t begin)
{
    const uint64_t *shape = (const uint64_t *)(const void *)(header->arena.bytes + tensor->shape_at);
    const char *dtype = coffer_dtype_name(tensor->dtype);
    put_string(text, header->arena.bytes + tensor->name_at, tensor->name_len);
    PUT_LITERAL(text, ":{\"dtype\":\"");
    coffer__header_put(text, dtype, coffer__text_len(dtype));
    PUT_LITERAL(text, "\",\"shape\":[");
    for (uint32_t i = 0; i < tensor->rank; i++) {
        coffer__header_put(text, ",", i > 0 ? 1 : 0);
        put_u64(text, shape[i]);
    }
    PUT_LITERAL(text, "],\"data_offsets\":[");
    put_u64(text, begin);
    PUT_LITERAL(text, ",");
    put_u64(text, begin + tensor->size);
    PUT_LITERAL(text, "]}");
}

/* Called twice, to measure and to write. The data follow each other in the order of the tensors,
   without gaps. */
void coffer__safetensors_put(coffer__header_text *text, const coffer_header *header, const coffer__header_order *order)
{
    uint64_t begin = 0;
    const size_t count = coffer_header_count(header);
    PUT_LITERAL(text, "{");
    coffer__safetensors_put_metadata(text, order->pairs, order->pair_count, order->has_metadata);
    if (order->has_metadata && count > 0) {
        PUT_LITERAL(text, ",");
    }
    for (size_t i = 0; i < count; i++) {
        const declared_tensor *tensor = &coffer__header_tensors(header)[order->tensors[i]];
        coffer__header_put(text, ",", i > 0 ? 1 : 0);
        put_tensor(text, header, tensor, begin);
        begin += tensor->size;
    }
    PUT_LITERAL(text, "}");
}

/* ---- other metadata ---- */

static bool is_white_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* The first byte from `at` on that is not white space. The reader has seen that there is one, so no
   bound is needed. */
static size_t after_space(const uint8_t *header, size_t at)
{
    while (is_white_space(header[at])) {
        at++;
    }
    return at;
}

/* The old member goes, with one of the commas around it: that after it, or, for the last member,
   that before it. A single member has none. */
static void splice_removal(coffer__splice *splice, const coffer_table *table, const uint8_t *header)
{
    const size_t after = after_space(header, splice->tail_at);
    if (header[after] == ',') {
        splice->tail_at = after + 1;
        return;
    }
    size_t before = table->metadata_position - 1;
    while (is_white_space(header[before])) {
        before--;
    }
    if (header[before] == ',') {
        splice->head_end = before;
    }
}

void coffer__safetensors_splice(coffer__splice *splice, const coffer_table *table, const uint8_t *header, size_t count)
{
    splice->joint = "";
    /* There was no member; 0 cannot be the end of one. A new member is the first, right after the
       brace, and needs a comma when others follow. */
    if (table->metadata_end == 0) {
        /* A new member is the first, right after the brace. */
        splice->head_end = after_space(header, 0) + 1;
        splice->tail_at = splice->head_end;
        splice->joint = count > 0 && coffer_table_count(table) > 0 ? "," : "";
        return;
    }
    splice->head_end = table->metadata_position;
    splice->tail_at = table->metadata_end;
    if (count == 0) {
        splice_removal(splice, table, header);
    }
}

/* ---- other names ---- */

/* The string's quotes included. The reader has seen that it ends. */
size_t coffer__safetensors_name_size(const uint8_t *header, size_t at)
{
    size_t end = at + 1;
    while (header[end] != '"') {
        end += header[end] == '\\' ? 2 : 1;
    }
    return end + 1 - at;
}

void coffer__safetensors_put_name(coffer__header_text *text, const char *name, size_t name_len)
{
    put_string(text, name, name_len);
}
