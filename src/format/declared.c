/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is declared of a file before it is written. Declarations grow in one block each (tensors, metadata) and their
 * bytes (names, shapes, keys, values) in a third, so that a hundred thousand tensors are three allocations that grow.
 */
#include "declared.h"

#include "alloc.h"
#include "dtype.h"
#include "error.h"
#include "text.h"

/* Space for `more` bytes. Growing by half keeps the copying in all proportional to what is declared. */
static coffer_status header_grow(coffer_header *header, header_block *block, uint64_t more, coffer_error *err)
{
    if (more <= block->size - block->used) {
        return COFFER_OK;
    }
    /* Cannot overflow: both are sizes of what lies in memory, or little more. */
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

/* Copies bytes into the arena, 8-aligned, so that shapes can be read as numbers; returns where. The
   caller has made space for them and for 7 bytes more. */
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

coffer_status coffer__header_create(coffer_header **header, const coffer_allocator *allocator, coffer_error *err)
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

/* The allocator is copied first: it is in the header, which is freed last. */
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

/* A built header was handed out as bytes and as a table: a later declaration would make both wrong. */
static coffer_status check_open(const coffer_header *header, coffer_error *err)
{
    return header->bytes == NULL
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_ARGUMENT, "the header is already built: nothing more can be declared");
}

/* The limit keeps lengths within 32 bits, which is what tables have for them, and refuses early
   what no header could hold. */
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

/* The rules for one tensor that readers check, too (docs/format.md), so that the fault is reported
   at the call that makes it. Two tensors of one name are found when the header is built. */
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
    if (coffer__dtype_info_of(dtype)->bits == 0) {
        return coffer__fail(err, COFFER_ERR_DTYPE, "%d is not the number of a dtype", (int64_t)dtype);
    }
    /* A rank is kept in 32 bits; every step of the product is checked. */
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

/* Makes all space first and changes the header afterwards, so that a failure leaves it as it was. 16
   bytes more are for the alignment of the two pieces in the arena. */
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

/* A key may be set again: the pairs are kept in the order of the calls, and the last one counts
   when the header is built. */
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
