/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors → header bytes: what is declared, the canonical order, the offsets, the text and its padding.
 *
 * Declarations grow in one block each (tensors, metadata) and their bytes (names, shapes, keys, values) in a third, so that
 * a hundred thousand tensors are three allocations that grow. Building sorts, measures, writes once, and lets the reader's
 * validator look at the result; the table that this gives is what tells where each tensor goes.
 */
#include "header.h"
#include "alloc.h"
#include "bytes.h"
#include "checked.h"
#include "dtype.h"
#include "error.h"
#include "format.h"
#include "json.h"
#include "options.h"
#include "sort.h"
#include "text.h"

#define HEADER_LEAST_ALIGNMENT 8u

static coffer_status header_grow(coffer_header *header, header_block *block, uint64_t more, coffer_error *err)
{
    if (more <= block->size - block->used) {
        return COFFER_OK;
    }
    /* Cannot overflow: both are sizes of what lies in memory, or a little more. */
    const uint64_t wanted = block->used + more;
    const uint64_t size = wanted + wanted / 2 + 256;
    char *bytes = NULL;
    if (size == (size_t)size) {
        bytes = coffer__realloc(&header->allocator, block->bytes, block->size, (size_t)size);
    }
    if (bytes == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to declare more tensors (%z)", size);
    }
    block->bytes = bytes;
    block->size = (size_t)size;
    return COFFER_OK;
}

/* Copies bytes into the arena, 8-aligned; room for them and 7 more was made before. */
static size_t header_keep(coffer_header *header, const void *bytes, size_t size)
{
    header->arena.used = (header->arena.used + 7) & ~(size_t)7;
    const size_t at = header->arena.used;
    if (size > 0) {
        memcpy(header->arena.bytes + at, bytes, size);
    }
    header->arena.used += size;
    return at;
}

size_t coffer_header_count(const coffer_header *header)
{
    return header->tensors.used / sizeof(declared_tensor);
}

coffer_status coffer__header_new(coffer_header **header, const coffer_allocator *allocator, coffer_error *err)
{
    if (header == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a header needs a place for its handle");
    }
    *header = coffer__alloc_zeroed(allocator, sizeof **header);
    if (*header == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a header");
    }
    (*header)->allocator = *allocator;
    return COFFER_OK;
}

void coffer_header_free(coffer_header *header)
{
    if (header == NULL) {
        return;
    }
    const coffer_allocator allocator = header->allocator;
    coffer__free(&allocator, header->tensors.bytes, header->tensors.size);
    coffer__free(&allocator, header->pairs.bytes, header->pairs.size);
    coffer__free(&allocator, header->arena.bytes, header->arena.size);
    coffer__free(&allocator, header->bytes, (size_t)header->size);
    coffer_table_free(header->table);
    coffer__free(&allocator, header, sizeof *header);
}

/* ---- declaring ---- */

static coffer_status check_open(const coffer_header *header, coffer_error *err)
{
    return header->bytes == NULL ? COFFER_OK
                                 : coffer__fail(err, COFFER_ERR_ARGUMENT,
                                                "the header is built already: nothing can be declared any more");
}

static coffer_status check_text(const char *text, size_t text_len, const char *what, coffer_error *err)
{
    if (text_len > COFFER_LARGEST_MAX_HEADER_SIZE) {
        return coffer__fail(err, COFFER_ERR_HEADER_TOO_LARGE, "%s of %u bytes is longer than any header", what,
                            (uint64_t)text_len);
    }
    const size_t valid = text_len > 0 ? coffer__utf8_valid_len(text, text_len) : 0;
    if (valid < text_len) {
        return coffer__fail(err, COFFER_ERR_UTF8, "%s %q is not UTF-8 at its byte %u", what, text, text_len,
                            (uint64_t)valid);
    }
    return COFFER_OK;
}

static coffer_status check_declaration(const char *name, size_t name_len, coffer_dtype dtype, const uint64_t *shape,
                                       size_t rank, uint64_t *size, coffer_error *err)
{
    static const char reserved[] = "__metadata__";
    const coffer_status status = check_text(name, name_len, "the name", err);
    if (status != COFFER_OK) {
        return status;
    }
    if (name_len == sizeof reserved - 1 && memcmp(name, reserved, name_len) == 0) {
        return coffer__fail(err, COFFER_ERR_NAME, "\"__metadata__\" is the key of the metadata; no tensor can have it");
    }
    if (coffer__dtype(dtype)->bits == 0) {
        return coffer__fail(err, COFFER_ERR_DTYPE, "%d is not the number of a dtype", (int64_t)dtype);
    }
    uint64_t bits;
    if (rank > UINT32_MAX || !coffer__tensor_bits(dtype, shape, rank, &bits)) {
        return coffer__fail(err, COFFER_ERR_OVERFLOW, "the shape's product, in bits, is beyond 2^64-1");
    }
    if (bits % 8 != 0) {
        return coffer__fail(err, COFFER_ERR_PARTIAL_BYTE, "elements of %s that take %u bits do not fill whole bytes",
                            coffer_dtype_name(dtype), bits);
    }
    *size = bits / 8;
    return COFFER_OK;
}

coffer_status coffer_header_add(coffer_header *header, const char *name, size_t name_len, coffer_dtype dtype,
                                const uint64_t *shape, size_t rank, coffer_error *err)
{
    if (header == NULL || (name == NULL && name_len > 0) || (shape == NULL && rank > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_header_add needs a header, a name and a shape");
    }
    uint64_t size = 0;
    coffer_status status = check_open(header, err);
    if (status == COFFER_OK) {
        status = check_declaration(name, name_len, dtype, shape, rank, &size, err);
    }
    if (status != COFFER_OK) {
        return name_len > 0 ? coffer__fail_tensor(err, status, name, name_len) : status;
    }
    status = header_grow(header, &header->arena, (uint64_t)name_len + rank * sizeof(uint64_t) + 16, err);
    if (status == COFFER_OK) {
        status = header_grow(header, &header->tensors, sizeof(declared_tensor), err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    declared_tensor *tensor = &coffer__header_tensors(header)[coffer_header_count(header)];
    *tensor = (declared_tensor){ .name_len = (uint32_t)name_len, .rank = (uint32_t)rank, .dtype = dtype, .size = size };
    tensor->name_at = header_keep(header, name, name_len);
    tensor->shape_at = header_keep(header, shape, rank * sizeof(uint64_t));
    header->tensors.used += sizeof *tensor;
    return COFFER_OK;
}

coffer_status coffer_header_set_metadata(coffer_header *header, const char *key, size_t key_len, const char *value,
                                         size_t value_len, coffer_error *err)
{
    if (header == NULL || (key == NULL && key_len > 0) || (value == NULL && value_len > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_header_set_metadata needs a header, a key and a value");
    }
    coffer_status status = check_open(header, err);
    if (status == COFFER_OK) {
        status = check_text(key, key_len, "the metadata's key", err);
    }
    if (status == COFFER_OK) {
        status = check_text(value, value_len, "the metadata's value", err);
    }
    if (status == COFFER_OK) {
        status = header_grow(header, &header->arena, (uint64_t)key_len + value_len + 16, err);
    }
    if (status == COFFER_OK) {
        status = header_grow(header, &header->pairs, sizeof(declared_pair), err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    declared_pair *pair = &coffer__header_pairs(header)[coffer__header_pair_count(header)];
    *pair = (declared_pair){ .key_len = key_len, .value_len = value_len };
    pair->key_at = header_keep(header, key, key_len);
    pair->value_at = header_keep(header, value, value_len);
    header->pairs.used += sizeof *pair;
    return COFFER_OK;
}

/* ---- building ---- */

/* The order of the file: dtypes from the highest down, then names. */
static bool declared_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer_header *header = ctx;
    const declared_tensor *first = &coffer__header_tensors(header)[a];
    const declared_tensor *second = &coffer__header_tensors(header)[b];
    if (first->dtype != second->dtype) {
        return coffer__dtype(first->dtype)->rank > coffer__dtype(second->dtype)->rank;
    }
    return coffer__compare_names(header->arena.bytes + first->name_at, first->name_len,
                                 header->arena.bytes + second->name_at, second->name_len) < 0;
}

static int declared_key_compare(const coffer_header *header, uint32_t a, uint32_t b)
{
    const declared_pair *first = &coffer__header_pairs(header)[a];
    const declared_pair *second = &coffer__header_pairs(header)[b];
    return coffer__compare_names(header->arena.bytes + first->key_at, first->key_len,
                                 header->arena.bytes + second->key_at, second->key_len);
}

static bool declared_key_before(const void *ctx, uint32_t a, uint32_t b)
{
    return declared_key_compare(ctx, a, b) < 0;
}

bool coffer__header_pair_counts(const coffer_header *header, const uint32_t *order, size_t i)
{
    return i + 1 == coffer__header_pair_count(header) || declared_key_compare(header, order[i], order[i + 1]) != 0;
}

static char *text_end(const coffer__header_text *text)
{
    return text->bytes == NULL ? NULL : text->bytes + text->size;
}

static void put_bytes(coffer__header_text *text, const char *bytes, size_t size)
{
    if (text->bytes != NULL) {
        memcpy(text_end(text), bytes, size);
    }
    text->size += size;
}

/* Its length is known to the compiler. */
#define PUT_LITERAL(text, literal) put_bytes(text, literal, sizeof(literal) - 1)

static void put_string(coffer__header_text *text, const char *string, size_t string_len)
{
    text->size += coffer__json_write_string(text_end(text), string, string_len);
}

static void put_u64(coffer__header_text *text, uint64_t value)
{
    text->size += coffer__write_u64(text_end(text), value);
}

static void put_metadata(coffer__header_text *text, const coffer_header *header, const uint32_t *order)
{
    const size_t count = coffer__header_pair_count(header);
    bool first = true;
    PUT_LITERAL(text, "\"__metadata__\":{");
    for (size_t i = 0; i < count; i++) {
        if (!coffer__header_pair_counts(header, order, i)) {
            continue;
        }
        const declared_pair *pair = &coffer__header_pairs(header)[order[i]];
        put_bytes(text, ",", first ? 0 : 1);
        put_string(text, header->arena.bytes + pair->key_at, pair->key_len);
        PUT_LITERAL(text, ":");
        put_string(text, header->arena.bytes + pair->value_at, pair->value_len);
        first = false;
    }
    PUT_LITERAL(text, "}");
}

static void put_tensor(coffer__header_text *text, const coffer_header *header, const declared_tensor *tensor,
                       uint64_t begin)
{
    const uint64_t *shape = (const uint64_t *)(const void *)(header->arena.bytes + tensor->shape_at);
    const char *dtype = coffer_dtype_name(tensor->dtype);
    put_string(text, header->arena.bytes + tensor->name_at, tensor->name_len);
    PUT_LITERAL(text, ":{\"dtype\":\"");
    put_bytes(text, dtype, coffer__text_len(dtype));
    PUT_LITERAL(text, "\",\"shape\":[");
    for (uint32_t i = 0; i < tensor->rank; i++) {
        put_bytes(text, ",", i > 0 ? 1 : 0);
        put_u64(text, shape[i]);
    }
    PUT_LITERAL(text, "],\"data_offsets\":[");
    put_u64(text, begin);
    PUT_LITERAL(text, ",");
    put_u64(text, begin + tensor->size);
    PUT_LITERAL(text, "]}");
}

/* The whole text of safetensors, without padding. */
static void put_header(coffer__header_text *text, const coffer_header *header, const coffer__header_order *order)
{
    uint64_t begin = 0;
    const size_t count = coffer_header_count(header);
    PUT_LITERAL(text, "{");
    if (order->has_metadata) {
        put_metadata(text, header, order->pairs);
        put_bytes(text, ",", count > 0 ? 1 : 0);
    }
    for (size_t i = 0; i < count; i++) {
        const declared_tensor *tensor = &coffer__header_tensors(header)[order->tensors[i]];
        put_bytes(text, ",", i > 0 ? 1 : 0);
        put_tensor(text, header, tensor, begin);
        begin += tensor->size;
    }
    PUT_LITERAL(text, "}");
}

/* Whether the tensors' bytes can be counted. */
static bool sizes_fit(const coffer_header *header)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < coffer_header_count(header); i++) {
        if (!coffer__add_u64(sum, coffer__header_tensors(header)[i].size, &sum)) {
            return false;
        }
    }
    return true;
}

static uint64_t header_limit(const coffer_header_options *options)
{
    return options->max_header_size == 0 ? COFFER_DEFAULT_MAX_HEADER_SIZE : options->max_header_size;
}

/* The size of the file's part before the data: the frame, the text, the slack and the padding. */
static coffer_status header_size(const coffer_header_options *options, uint64_t text_size, uint64_t *size,
                                 coffer_error *err)
{
    const uint64_t alignment = options->alignment == 0 ? HEADER_LEAST_ALIGNMENT : options->alignment;
    if (alignment < HEADER_LEAST_ALIGNMENT || (alignment & (alignment - 1)) != 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the alignment %u is not a power of two of at least 8",
                            alignment);
    }
    const uint64_t limit = header_limit(options);
    const bool fits = coffer__add_u64(COFFER__FRAME_SIZE + text_size, options->slack, size) &&
                      coffer__round_up_u64(*size, alignment, size);
    if (!fits || *size - COFFER__FRAME_SIZE > limit || *size > SIZE_MAX / 2) {
        const uint64_t actual = fits ? *size - COFFER__FRAME_SIZE : UINT64_MAX;
        const coffer_status code =
            coffer__fail(err, COFFER_ERR_HEADER_TOO_LARGE,
                         "the header would have %u bytes, more than the limit of %u, and readers "
                         "would refuse it: write several files, or raise the limit",
                         actual, limit);
        return coffer__fail_sizes(err, code, limit, actual);
    }
    return COFFER_OK;
}

static coffer_status write_header(coffer_header *header, const coffer_header_options *options,
                                  const coffer__header_order *order, coffer_error *err)
{
    void (*put)(coffer__header_text *, const coffer_header *, const coffer__header_order *) =
        options->format == COFFER_FORMAT_BINTENSORS ? coffer__bintensors_put : put_header;
    coffer__header_text text = { NULL, 0 };
    put(&text, header, order);
    uint64_t size = 0;
    const uint64_t text_size = text.size;
    const coffer_status status = header_size(options, text_size, &size, err);
    if (status != COFFER_OK) {
        return status;
    }
    header->bytes = coffer__alloc(&header->allocator, (size_t)size);
    if (header->bytes == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a header of %z", size);
    }
    header->size = size;
    coffer__store_u64le(header->bytes, size - COFFER__FRAME_SIZE);
    text = (coffer__header_text){ (char *)header->bytes + COFFER__FRAME_SIZE, 0 };
    put(&text, header, order);
    memset(header->bytes + COFFER__FRAME_SIZE + text_size, ' ', (size_t)(size - COFFER__FRAME_SIZE - text_size));
    return COFFER_OK;
}

static void drop_built(coffer_header *header)
{
    coffer__free(&header->allocator, header->bytes, (size_t)header->size);
    header->bytes = NULL;
}

/* What can be said of the declarations as a whole, before they are written. */
static coffer_status check_declared(const coffer_header *header, const coffer_header_options *options,
                                    const coffer__header_order *order, coffer_error *err)
{
    if (!sizes_fit(header)) {
        return coffer__fail(err, COFFER_ERR_OVERFLOW, "the tensors' sizes add up to more than 2^64-1 bytes");
    }
    return options->format == COFFER_FORMAT_BINTENSORS
               ? coffer__bintensors_check(header, order, header_limit(options), err)
               : COFFER_OK;
}

/* Writes what was ordered, and validates it. */
static coffer_status build_ordered(coffer_header *header, const coffer_header_options *options,
                                   const coffer__header_order *order, coffer_error *err)
{
    coffer_status status = check_declared(header, options, order, err);
    if (status == COFFER_OK) {
        status = write_header(header, options, order, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer_parse_options parse = COFFER_PARSE_OPTIONS_INIT;
    parse.max_header_size = options->max_header_size;
    status = coffer__parse(&header->table, NULL, header->bytes, (size_t)header->size, &header->allocator, &parse, err);
    if (status != COFFER_OK) {
        drop_built(header);
        return status;
    }
    for (size_t i = 0; i < coffer_header_count(header); i++) {
        coffer__header_tensors(header)[order->tensors[i]].place = (uint32_t)i;
    }
    return COFFER_OK;
}

/* Orders. `numbers` has room for all tensors and all pairs. */
static coffer_status build_header(coffer_header *header, const coffer_header_options *options, uint32_t *numbers,
                                  coffer_error *err)
{
    const size_t count = coffer_header_count(header);
    const size_t pair_count = coffer__header_pair_count(header);
    uint32_t *pair_numbers = numbers + count;
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (uint32_t)i;
    }
    for (size_t i = 0; i < pair_count; i++) {
        pair_numbers[i] = (uint32_t)i;
    }
    coffer__sort(numbers, count, declared_before, header);
    coffer__sort(pair_numbers, pair_count, declared_key_before, header);
    const coffer__header_order order = { numbers, pair_numbers, pair_count > 0 || options->empty_metadata };
    return build_ordered(header, options, &order, err);
}

static coffer_status build_options(coffer_header_options *options, const coffer_header_options *given,
                                   coffer_error *err)
{
    const coffer_status status = coffer__options_copy(options, sizeof *options, given, err);
    if (status == COFFER_OK && (unsigned)options->format > COFFER_FORMAT_BINTENSORS) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "the option `format` is none that is written: safetensors or bintensors, but not layout A");
    }
    return status;
}

static coffer_status build_once(coffer_header *header, const coffer_header_options *given, coffer_error *err)
{
    coffer_header_options options;
    coffer_status status = build_options(&options, given, err);
    if (status != COFFER_OK) {
        return status;
    }
    const size_t items = coffer_header_count(header) + coffer__header_pair_count(header);
    const size_t size = (items + 1) * sizeof(uint32_t);
    uint32_t *order = items <= UINT32_MAX ? coffer__alloc(&header->allocator, size) : NULL;
    if (order == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to order %u tensors", (uint64_t)items);
    }
    status = build_header(header, &options, order, err);
    coffer__free(&header->allocator, order, size);
    return status;
}

coffer_status coffer_header_build(coffer_header *header, const coffer_header_options *options, const void **bytes,
                                  uint64_t *size, const coffer_table **table, coffer_error *err)
{
    if (header == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_header_build needs a header");
    }
    if (header->bytes == NULL) {
        const coffer_status status = build_once(header, options, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    if (bytes != NULL) {
        *bytes = header->bytes;
    }
    if (size != NULL) {
        *size = header->size;
    }
    if (table != NULL) {
        *table = header->table;
    }
    return COFFER_OK;
}

const coffer_tensor *coffer_header_at(const coffer_header *header, size_t i)
{
    if (header->bytes == NULL || i >= coffer_header_count(header)) {
        return NULL;
    }
    return coffer_table_at(header->table, coffer__header_tensors(header)[i].place);
}
