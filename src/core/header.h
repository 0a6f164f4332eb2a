/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations on their way to a header: what header.c collects and orders, and the formats spell. */
#ifndef COFFER_CORE_HEADER_H
#define COFFER_CORE_HEADER_H

#include "coffer.h"

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

/* Memory that grows by doubling; `used` and `size` count bytes. */
typedef struct header_block {
    char *bytes;
    size_t used;
    size_t size;
} header_block;

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
coffer_status coffer__header_new(coffer_header **header, const coffer_allocator *allocator, coffer_error *err);

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

/* The order of the file, as numbers of declarations. */
typedef struct coffer__header_order {
    const uint32_t *tensors; /* by dtype, highest first, then by name */
    const uint32_t *pairs;   /* by key; those with one key in the order of their setting */
    bool has_metadata;       /* a place for them, be it an empty one */
} coffer__header_order;

/* Whether pair `i` of the order goes into the file: of several with one key, the last that was set does. */
bool coffer__header_pair_counts(const coffer_header *header, const uint32_t *order, size_t i);

/* Text that is measured (bytes NULL) or written; `size` counts it either way. */
typedef struct coffer__header_text {
    char *bytes;
    uint64_t size;
} coffer__header_text;

/* Whether bintensors can say all that was declared, and its readers, which stop at `limit` bytes, would read it. */
coffer_status coffer__bintensors_check(const coffer_header *header, const coffer__header_order *order, uint64_t limit,
                                       coffer_error *err);
/* What bintensors is made of: a number in the fewest bytes, and a text with its length in front. */
void coffer__bintensors_put_number(coffer__header_text *text, uint64_t value);
void coffer__bintensors_put_string(coffer__header_text *text, const char *string, size_t length);
/* The header of bintensors, without padding. */
void coffer__bintensors_put(coffer__header_text *text, const coffer_header *header, const coffer__header_order *order);

#endif
