/* SPDX-License-Identifier: Apache-2.0 */
/* FlatBuffers: see flatbuffer.h. */
#include "flatbuffer.h"

/* Whether `size` bytes at a place are there. */
static bool flat_has(const coffer__flat *flat, size_t at, size_t size)
{
    return at <= flat->size && size <= flat->size - at;
}

uint64_t coffer__flat_load(const coffer__flat *flat, size_t at, unsigned width)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < width; i++) {
        number |= (uint64_t)flat->bytes[at + i] << (8 * i);
    }
    return number;
}

/* A place that a number at `at` leads to, forward; 0: there is none. */
static size_t flat_follow(const coffer__flat *flat, size_t at)
{
    if (!flat_has(flat, at, 4)) {
        return 0;
    }
    const uint64_t offset = coffer__flat_load(flat, at, 4);
    return offset <= flat->size - at ? at + (size_t)offset : 0;
}

/* Tables are wanted with the number that leads to their vtable. */
static coffer__flat_table flat_table_at(const coffer__flat *flat, size_t at)
{
    return (coffer__flat_table){ at > 0 && flat_has(flat, at, 4) ? at : 0 };
}

coffer__flat_table coffer__flat_root(const coffer__flat *flat)
{
    return flat_table_at(flat, flat_follow(flat, 0));
}

/* Where a field of `width` bytes is; 0: it is missing. The distance to the vtable may be of either sign. */
static size_t flat_field(const coffer__flat *flat, coffer__flat_table table, unsigned slot, size_t width)
{
    if (table.at == 0) {
        return 0;
    }
    const int64_t distance = (int32_t)(uint32_t)coffer__flat_load(flat, table.at, 4);
    const int64_t vtable = (int64_t)table.at - distance;
    if (vtable < 0 || (uint64_t)vtable > flat->size || !flat_has(flat, (size_t)vtable, 4)) {
        return 0;
    }
    const size_t entry = 4 + 2 * (size_t)slot;
    const uint64_t vtable_size = coffer__flat_load(flat, (size_t)vtable, 2);
    if (entry + 2 > vtable_size || !flat_has(flat, (size_t)vtable, entry + 2)) {
        return 0;
    }
    const uint64_t offset = coffer__flat_load(flat, (size_t)vtable + entry, 2);
    const size_t at = table.at + (size_t)offset;
    return offset > 0 && flat_has(flat, at, width) ? at : 0;
}

uint64_t coffer__flat_number(const coffer__flat *flat, coffer__flat_table table, unsigned slot, unsigned width,
                             uint64_t missing)
{
    const size_t at = flat_field(flat, table, slot, width);
    return at > 0 ? coffer__flat_load(flat, at, width) : missing;
}

coffer__flat_table coffer__flat_child(const coffer__flat *flat, coffer__flat_table table, unsigned slot)
{
    const size_t at = flat_field(flat, table, slot, 4);
    return flat_table_at(flat, at > 0 ? flat_follow(flat, at) : 0);
}

size_t coffer__flat_struct(const coffer__flat *flat, coffer__flat_table table, unsigned slot, size_t size)
{
    return flat_field(flat, table, slot, size);
}

coffer__flat_vector coffer__flat_vector_of(const coffer__flat *flat, coffer__flat_table table, unsigned slot,
                                           size_t width)
{
    const coffer__flat_vector none = { 0, 0 };
    const size_t field = flat_field(flat, table, slot, 4);
    const size_t at = field > 0 ? flat_follow(flat, field) : 0;
    if (at == 0 || !flat_has(flat, at, 4)) {
        return none;
    }
    const uint64_t count = coffer__flat_load(flat, at, 4);
    return count <= (flat->size - at - 4) / width ? (coffer__flat_vector){ at + 4, (size_t)count } : none;
}

coffer__flat_table coffer__flat_at(const coffer__flat *flat, const coffer__flat_vector *vector, size_t i)
{
    return flat_table_at(flat, flat_follow(flat, vector->at + 4 * i));
}
