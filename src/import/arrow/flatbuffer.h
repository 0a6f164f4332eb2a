/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FlatBuffers, as far as Arrow's messages need them: tables, vectors, texts and numbers, little-endian.
 *
 *   root      u32 at byte 0: where the root table is
 *   table     i32: how far before it its vtable is; then its fields
 *   vtable    u16 its own bytes, u16 those of the table, u16 for each field: where it is in the table, 0: it has its default
 *   vector    u32 at the field: how far after it the vector is; u32 the number of its elements, which follow
 *
 * Every place is compared with the buffer's size, so that nothing outside of it is read; a field that leads there is as one
 * that is missing. Places may overlap and lead back; nothing here follows them on its own.
 */
#ifndef COFFER_ARROW_FLATBUFFER_H
#define COFFER_ARROW_FLATBUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct coffer__flat {
    const uint8_t *bytes;
    size_t size;
} coffer__flat;

/* A table or a vector: 0 as `at` is none. */
typedef struct coffer__flat_table {
    size_t at;
} coffer__flat_table;

typedef struct coffer__flat_vector {
    size_t at; /* of the first element */
    size_t count;
} coffer__flat_vector;

coffer__flat_table coffer__flat_root(const coffer__flat *flat);
/* A number of `width` bytes in field `slot` of a table; `missing` if it is not there. */
uint64_t coffer__flat_number(const coffer__flat *flat, coffer__flat_table table, unsigned slot, unsigned width,
                             uint64_t missing);
/* The table that a field leads to. */
coffer__flat_table coffer__flat_child(const coffer__flat *flat, coffer__flat_table table, unsigned slot);
/* Where the bytes of a struct of `size` bytes are that is a field itself; 0: nowhere. */
size_t coffer__flat_struct(const coffer__flat *flat, coffer__flat_table table, unsigned slot, size_t size);
/* A vector of elements of `width` bytes, all of which are there. */
coffer__flat_vector coffer__flat_vector_of(const coffer__flat *flat, coffer__flat_table table, unsigned slot,
                                           size_t width);
/* Table `i` of a vector of tables, of `width` 4; `i` is below its count. */
coffer__flat_table coffer__flat_at(const coffer__flat *flat, const coffer__flat_vector *vector, size_t i);
/* A number at a place that one of the functions above gave. */
uint64_t coffer__flat_load(const coffer__flat *flat, size_t at, unsigned width);

#endif
