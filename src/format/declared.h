/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations on their way to a header: what is collected, in which order the file has it, and the text
 * that formats make of it.
 *
 *   tensors   declared_tensor[]   in the order of the calls
 *   pairs     declared_pair[]     in the order of the calls
 *   arena     names, shapes, keys and values, each 8-aligned
 *
 * Texts and shapes are kept as distances in the arena, which moves while it grows.
 */
#ifndef COFFER_FORMAT_DECLARED_H
#define COFFER_FORMAT_DECLARED_H

#include "coffer.h"

#include <string.h>

typedef struct declared_tensor {
    size_t name_at; /* in the arena */
    size_t shape_at;
    uint32_t name_len;
    uint32_t rank;
    coffer_dtype dtype;
    uint32_t place; /* in the order of the file, once built */
    uint64_t size;
} declared_tensor;

typedef struct declared_pair {
    size_t key_at;
    size_t value_at;
    size_t key_len;
    size_t value_len;
} declared_pair;

/* Memory that grows by half; `used` and `size` count bytes. */
typedef struct header_block {
    char *bytes;
    size_t used;
    size_t size;
} header_block;

/* What a caller declares. While `bytes` is NULL more can be declared; once the header is built, it
   and its table never change. */
struct coffer_header {
    coffer_allocator allocator;
    header_block tensors;
    header_block pairs;
    header_block arena;
    uint8_t *bytes; /* the built header, with its length in front */
    uint64_t size;
    coffer_table *table;
};

/* coffer_header_new with an allocator that is not NULL. */
coffer_status coffer__header_create(coffer_header **header, const coffer_allocator *allocator, coffer_error *err);

/* The block comes from an allocator, so it is aligned for any type. Valid until the next declaration. */
static inline declared_tensor *coffer__header_tensors(const coffer_header *header)
{
    return (declared_tensor *)(void *)header->tensors.bytes;
}

static inline declared_pair *coffer__header_pairs(const coffer_header *header)
{
    return (declared_pair *)(void *)header->pairs.bytes;
}

static inline size_t coffer__header_pair_count(const coffer_header *header)
{
    return header->pairs.used / sizeof(declared_pair);
}

/* Programs refuse a file that has metadata without this key (transformers until 4.57), and take one that has no metadata
   for one of PyTorch. So whoever gives a file its first metadata says the same in them. */
#define COFFER__FORMAT_KEY "format"
#define COFFER__FORMAT_VALUE "pt"

static inline coffer_status coffer__header_set_format(coffer_header *header, coffer_error *err)
{
    return coffer_header_set_metadata(header, COFFER__FORMAT_KEY, sizeof COFFER__FORMAT_KEY - 1, COFFER__FORMAT_VALUE,
                                      sizeof COFFER__FORMAT_VALUE - 1, err);
}

/* What the file has, in its order: the one that the reference writes, so that both give the same
   bytes. */
typedef struct coffer__header_order {
    const uint32_t *tensors;  /* numbers of declarations: by dtype, highest first, then by name */
    const coffer_pair *pairs; /* by key; of those that were set with one key, the last */
    size_t pair_count;
    bool has_metadata; /* a place for them, even an empty one */
} coffer__header_order;

/* Text that is measured (bytes NULL) or written; `size` counts it either way. Each format has one
   function for both passes, so that the sizes cannot differ. */
typedef struct coffer__header_text {
    char *bytes;
    uint64_t size;
} coffer__header_text;

static inline char *coffer__header_text_end(const coffer__header_text *text)
{
    return text->bytes == NULL ? NULL : text->bytes + text->size;
}

/* `bytes` are not NULL, though there may be none. */
static inline void coffer__header_put(coffer__header_text *text, const void *bytes, size_t size)
{
    if (text->bytes != NULL) {
        memcpy(coffer__header_text_end(text), bytes, size);
    }
    text->size += size;
}

#endif
