/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A format that does not exist, for tests/python/test_new_format.py, which adds it to a copy of the library: this
 * file, and a row in the table of formats. It has nothing of the others; its frame is a line of its own, and its
 * header is lines of text:
 *
 *   "TOY 1 0000000128\n"     with the head's size
 *   "m 3 5 key value\n"      a pair of the metadata, after the lengths of both
 *   "t F32 0 24 2 2 3 4 name\n"   dtype, begin, end, rank, dimensions, the name's length, the name
 *   "......"                 padding
 */
#include "bytes.h"
#include "declared.h"
#include "dtype.h"
#include "error.h"
#include "format.h"
#include "table.h"
#include "text.h"

#define TOY_FRAME_SIZE 17u
#define TOY_MAGIC "TOY 1 "
#define TOY_MAGIC_SIZE 6u

typedef struct toy_reader {
    bool has_size;
    coffer__cursor in; /* the whole head */
    coffer__builder builder;
} toy_reader;

/* ---- reading ---- */

static bool toy_sniff(const uint8_t *bytes, size_t size)
{
    return size >= TOY_MAGIC_SIZE && memcmp(bytes, TOY_MAGIC, TOY_MAGIC_SIZE) == 0;
}

static coffer_status toy_fail(const toy_reader *reader, coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_TYPE, reader->in.position, "at byte %u, the line is not of this format",
                           (uint64_t)reader->in.position);
}

/* Consumes digits and the byte after them. */
static bool toy_number(coffer__cursor *in, uint64_t *value)
{
    size_t digits = 0;
    *value = 0;
    for (; coffer__left(in) > 1 && in->base[in->position] >= '0' && in->base[in->position] <= '9' && digits < 19;
         digits++) {
        *value = *value * 10 + (uint64_t)(in->base[in->position++] - '0');
    }
    in->position += digits > 0 ? 1 : 0;
    return digits > 0;
}

/* Consumes a text of `length` bytes and the byte after it. */
static bool toy_text(coffer__cursor *in, uint64_t length, const char **text)
{
    *text = (const char *)in->base + in->position;
    if (length >= coffer__left(in)) {
        return false;
    }
    in->position += (size_t)length + 1;
    return true;
}

static coffer_status toy_read_pair(toy_reader *reader, coffer_error *err)
{
    coffer__cursor *in = &reader->in;
    coffer__text_pair pair = { .position = (uint32_t)(in->position - TOY_FRAME_SIZE) };
    uint64_t key_len;
    uint64_t value_len;
    const char *key;
    const char *value;
    in->position += 2;
    if (!toy_number(in, &key_len) || !toy_number(in, &value_len) || !toy_text(in, key_len, &key) ||
        !toy_text(in, value_len, &value)) {
        return toy_fail(reader, err);
    }
    pair.key_len = (uint32_t)key_len;
    pair.value_len = (uint32_t)value_len;
    const size_t size = coffer__pair_size(&pair);
    const coffer_status status = coffer__builder_reserve(&reader->builder, size, coffer__left(in), err);
    if (status != COFFER_OK) {
        return status;
    }
    char *out = coffer__builder_at(&reader->builder, reader->builder.used);
    memset(out, 0, size);
    memcpy(out, &pair, sizeof pair);
    memcpy(out + sizeof pair, key, pair.key_len);
    memcpy(out + sizeof pair + pair.key_len + 1, value, pair.value_len);
    reader->builder.used += size;
    reader->builder.table->pair_count++;
    return COFFER_OK;
}

static bool toy_read_dtype(coffer__cursor *in, coffer_dtype *dtype)
{
    const char *name = (const char *)in->base + in->position;
    size_t length = 0;
    while (length < coffer__left(in) && name[length] != ' ') {
        length++;
    }
    *dtype = coffer_dtype_from_name(name, length);
    const char *ignored;
    return toy_text(in, length, &ignored) && *dtype != COFFER_UNKNOWN_DTYPE;
}

static coffer_status toy_read_tensor(toy_reader *reader, uint64_t data_offset, coffer_error *err)
{
    coffer__cursor *in = &reader->in;
    coffer_table *table = reader->builder.table;
    const size_t position = in->position - TOY_FRAME_SIZE;
    coffer_tensor tensor = { .name = "" };
    uint64_t shape[8] = { 0 };
    uint64_t begin;
    uint64_t end;
    uint64_t rank;
    uint64_t bits;
    uint64_t name_len;
    in->position += 2;
    bool right = toy_read_dtype(in, &tensor.dtype) && toy_number(in, &begin) && toy_number(in, &end) &&
                 toy_number(in, &rank) && rank <= 8;
    for (size_t i = 0; right && i < rank; i++) {
        right = toy_number(in, &shape[i]);
    }
    if (!right || !toy_number(in, &name_len) || !toy_text(in, name_len, &tensor.name) || begin != table->data_size ||
        !coffer__tensor_bits(tensor.dtype, shape, (uint32_t)rank, &bits) || end < begin || bits / 8 != end - begin) {
        return toy_fail(reader, err);
    }
    const size_t shape_at = coffer__entry_shape_at((uint32_t)name_len);
    const size_t size = shape_at + (size_t)rank * sizeof(uint64_t);
    const coffer_status status = coffer__builder_reserve(&reader->builder, size, coffer__left(in), err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__entry *entry = coffer__builder_at(&reader->builder, reader->builder.used);
    memcpy(entry + 1, tensor.name, (size_t)name_len);
    ((char *)(entry + 1))[name_len] = '\0';
    memcpy((char *)entry + shape_at, shape, (size_t)rank * sizeof(uint64_t));
    tensor.name_len = (uint32_t)name_len;
    tensor.rank = (uint32_t)rank;
    tensor.offset = data_offset + begin;
    tensor.size = end - begin;
    entry->tensor = tensor;
    entry->position = (uint32_t)position;
    reader->builder.table->data_size = end;
    coffer__builder_add(&reader->builder, size);
    return COFFER_OK;
}

static coffer_status toy_read_lines(toy_reader *reader, uint64_t data_offset, coffer_error *err)
{
    coffer__cursor *in = &reader->in;
    coffer_status status = COFFER_OK;
    in->position = TOY_FRAME_SIZE;
    reader->builder.table->pairs_at = reader->builder.used;
    while (status == COFFER_OK && coffer__next_is(in, "m ", 2)) {
        status = toy_read_pair(reader, err);
    }
    reader->builder.used = (reader->builder.used + 7) & ~(size_t)7;
    reader->builder.table->has_metadata = reader->builder.table->pair_count > 0;
    reader->builder.table->metadata_end = in->position - TOY_FRAME_SIZE;
    while (status == COFFER_OK && coffer__next_is(in, "t ", 2)) {
        status = toy_read_tensor(reader, data_offset, err);
    }
    reader->builder.table->slack = coffer__left(in);
    while (status == COFFER_OK && coffer__left(in) > 0) {
        status = coffer__next_is(in, ".", 1) ? COFFER_OK : toy_fail(reader, err);
        in->position++;
    }
    return status;
}

/* The first line says how much there is; then all of it is wanted. */
static coffer_status toy_gather(toy_reader *reader, coffer__intake *head, coffer_error *err)
{
    if (!reader->has_size) {
        head->end = TOY_FRAME_SIZE;
        if (head->size < TOY_FRAME_SIZE) {
            return coffer__intake_rest(head, 0, err);
        }
        coffer__cursor line = { head->bytes, head->size, TOY_MAGIC_SIZE };
        if (!toy_number(&line, &head->end) || head->end < TOY_FRAME_SIZE ||
            head->end > COFFER_DEFAULT_MAX_HEADER_SIZE) {
            return coffer__fail_at(err, COFFER_ERR_HEADER_LENGTH, 0, "the head has no size");
        }
        reader->has_size = true;
        head->size = head->size < head->end ? head->size : (size_t)head->end;
    }
    return coffer__intake_rest(head, 0, err);
}

static coffer_status toy_read(void *state, coffer__intake *head, const coffer_parse_options *options,
                              coffer_table **table, coffer_error *err)
{
    toy_reader *reader = state;
    (void)options;
    coffer_status status = toy_gather(reader, head, err);
    if (status != COFFER_OK) {
        return status;
    }
    reader->in = (coffer__cursor){ head->bytes, head->size, 0 };
    status = coffer__builder_init(&reader->builder, head->allocator, 2 * head->end, err);
    if (status == COFFER_OK) {
        status = toy_read_lines(reader, head->end, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t data_size = reader->builder.table->data_size;
    status = coffer__builder_seal(&reader->builder, true, TOY_FRAME_SIZE, table, err);
    if (status == COFFER_OK) {
        (*table)->data_offset = head->end;
        (*table)->data_size = data_size;
    }
    return status;
}

static void toy_free(void *state)
{
    coffer__builder_discard(&((toy_reader *)state)->builder);
}

/* ---- writing ---- */

static void toy_put_number(coffer__header_text *text, uint64_t number)
{
    text->size += coffer__write_u64(coffer__header_text_end(text), number);
    coffer__header_put(text, " ", 1);
}

static void toy_put_metadata(coffer__header_text *text, const coffer_pair *pairs, size_t count, bool present)
{
    (void)present;
    for (size_t i = 0; i < count; i++) {
        coffer__header_put(text, "m ", 2);
        toy_put_number(text, pairs[i].key_len);
        toy_put_number(text, pairs[i].value_len);
        coffer__header_put(text, pairs[i].key, pairs[i].key_len);
        coffer__header_put(text, " ", 1);
        coffer__header_put(text, pairs[i].value, pairs[i].value_len);
        coffer__header_put(text, "\n", 1);
    }
}

static void toy_put(coffer__header_text *text, const coffer_header *header, const coffer__header_order *order)
{
    uint64_t begin = 0;
    toy_put_metadata(text, order->pairs, order->pair_count, order->has_metadata);
    for (size_t i = 0; i < coffer_header_count(header); i++) {
        const declared_tensor *tensor = &coffer__header_tensors(header)[order->tensors[i]];
        const uint64_t *shape = (const uint64_t *)(const void *)(header->arena.bytes + tensor->shape_at);
        const char *dtype = coffer_dtype_name(tensor->dtype);
        coffer__header_put(text, "t ", 2);
        coffer__header_put(text, dtype, coffer__text_len(dtype));
        coffer__header_put(text, " ", 1);
        toy_put_number(text, begin);
        toy_put_number(text, begin + tensor->size);
        toy_put_number(text, tensor->rank);
        for (size_t k = 0; k < tensor->rank; k++) {
            toy_put_number(text, shape[k]);
        }
        toy_put_number(text, tensor->name_len);
        coffer__header_put(text, header->arena.bytes + tensor->name_at, tensor->name_len);
        coffer__header_put(text, "\n", 1);
        begin += tensor->size;
    }
}

static void toy_splice(coffer__splice *splice, const coffer_table *table, const uint8_t *header, size_t count)
{
    (void)header;
    (void)count;
    *splice = (coffer__splice){ 0, table->metadata_end, "" };
}

static void toy_seal(uint8_t *head, size_t used, size_t size)
{
    memcpy(head, TOY_MAGIC, TOY_MAGIC_SIZE);
    size_t rest = size;
    for (size_t at = TOY_FRAME_SIZE - 1; at > TOY_MAGIC_SIZE; at--) {
        head[at - 1] = (uint8_t)('0' + rest % 10);
        rest /= 10;
    }
    head[TOY_FRAME_SIZE - 1] = '\n';
    memset(head + used, '.', size - used);
}

_Static_assert(sizeof(toy_reader) <= COFFER__READER_SIZE, "the reader has room");

const coffer__format_ops coffer__toy = {
    .id = "toy",
    .name = "toy",
    .endings = { ".toy" },
    .header_at = TOY_FRAME_SIZE,
    .sniff = toy_sniff,
    .read = toy_read,
    .free = toy_free,
    .put = toy_put,
    .put_metadata = toy_put_metadata,
    .splice = toy_splice,
    .seal = toy_seal,
};
