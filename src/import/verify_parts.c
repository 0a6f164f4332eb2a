/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of a part are walked in the order in which they lie there, as one counts, and each row of the box is copied to
 * the place that its indices give. Which element is the first in a stretch is found by halving: the places of elements
 * ascend. The code that wrote the array goes the other way, from the stretch to the part.
 */
#include "verify_parts.h"

#include <string.h>

/* A part, and a place in it. */
typedef struct verify_part {
    size_t rank;
    const uint64_t *starts; /* of the box, in elements */
    const uint64_t *counts;
    uint64_t steps[COFFER__PLAN_MAX_RANK]; /* bytes of the array from one index to the next */
    uint64_t index[COFFER__PLAN_MAX_RANK]; /* in the box */
    uint64_t item;
    uint64_t elements;
} verify_part;

static verify_part verify_part_of(const coffer__verify_array *array, const coffer__import_plan_part *part)
{
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(array->plan) + array->storage;
    const uint64_t *sizes = coffer__import_plan_extents(array->plan, storage->as.array.extents, storage->as.array.rank);
    verify_part made = { .rank = storage->as.array.rank, .item = storage->as.array.item_size };
    uint64_t step = storage->as.array.item_size;
    made.starts = coffer__import_plan_extents(array->plan, part->box, storage->as.array.rank);
    made.counts = coffer__import_plan_extents(array->plan, part->box + storage->as.array.rank, storage->as.array.rank);
    made.elements = coffer__import_plan_part_size(array->plan, storage, part) / storage->as.array.item_size;
    for (size_t i = made.rank; i > 0; i--) {
        made.steps[i - 1] = step;
        step *= sizes[i - 1];
    }
    return made;
}

/* Goes to an element of the part; returns its place in the array, in bytes. */
static uint64_t verify_part_seek(verify_part *part, uint64_t element)
{
    uint64_t place = 0;
    for (size_t i = part->rank; i > 0; i--) {
        part->index[i - 1] = element % part->counts[i - 1];
        element /= part->counts[i - 1];
        place += (part->starts[i - 1] + part->index[i - 1]) * part->steps[i - 1];
    }
    return place;
}

/* The first element whose bytes end after byte `at` of the array, or, with `begins`, begin there or after. */
static uint64_t verify_part_first(verify_part *part, uint64_t at, bool begins)
{
    uint64_t low = 0;
    uint64_t high = part->elements;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        const uint64_t place = verify_part_seek(part, middle);
        const bool after = begins ? place >= at : place + part->item > at;
        low = after ? low : middle + 1;
        high = after ? middle : high;
    }
    return low;
}

/* To the first element of the next row. */
static void verify_part_next_row(verify_part *part)
{
    size_t i = part->rank - 1;
    part->index[i] = 0;
    while (i > 0 && ++part->index[i - 1] == part->counts[i - 1]) {
        part->index[--i] = 0;
    }
}

/* The place of the current element in the array. */
static uint64_t verify_part_place(const verify_part *part)
{
    uint64_t place = 0;
    for (size_t i = 0; i < part->rank; i++) {
        place += (part->starts[i] + part->index[i]) * part->steps[i];
    }
    return place;
}

/* Copies elements from `from` to `to`, whose bytes are there, into the stretch. An element may begin before it, or end
   after it. */
static void verify_part_copy(verify_part *part, uint64_t from, uint64_t to, const uint8_t *bytes, uint64_t at,
                             size_t size, uint8_t *expected)
{
    (void)verify_part_seek(part, from);
    while (from < to) {
        const size_t last = part->rank > 0 ? part->rank - 1 : 0;
        const uint64_t row = part->rank > 0 ? part->counts[last] - part->index[last] : 1;
        const uint64_t count = row < to - from ? row : to - from;
        const uint64_t place = verify_part_place(part);
        const uint64_t skipped = place < at ? at - place : 0;
        const uint64_t end = place + count * part->item;
        const uint64_t beyond = end > at + size ? end - (at + size) : 0;
        memcpy(expected + (place + skipped - at), bytes + skipped, (size_t)(count * part->item - skipped - beyond));
        bytes += count * part->item;
        from += count;
        if (from < to) {
            verify_part_next_row(part);
        }
    }
}

coffer_status coffer__verify_assemble(const coffer__verify_array *array, uint64_t at, size_t size, uint8_t *memory,
                                      uint8_t *expected, const coffer__watch *watch, coffer_error *err)
{
    const coffer__import_plan *plan = array->plan;
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + array->storage;
    for (uint32_t i = 0; i < storage->count; i++) {
        const coffer__import_plan_part *which = coffer__import_plan_parts(plan) + storage->first + i;
        const coffer__import_plan_piece *piece =
            coffer__import_plan_first_piece(plan, coffer__import_plan_storages(plan) + which->storage);
        verify_part part = verify_part_of(array, which);
        /* Nearly all parts of a long list lie elsewhere, which the slowest dimension tells at once. */
        if (part.rank > 0 &&
            (part.starts[0] * part.steps[0] >= at + size || (part.starts[0] + part.counts[0]) * part.steps[0] <= at)) {
            continue;
        }
        const uint64_t from = verify_part_first(&part, at, false);
        const uint64_t to = verify_part_first(&part, at + size, true);
        if (from >= to) {
            continue;
        }
        const coffer_status status = coffer__source_read_watched(coffer__input_source(array->input, piece->file),
                                                                 piece->offset + which->offset + from * part.item,
                                                                 memory, (size_t)((to - from) * part.item), watch, err);
        if (status != COFFER_OK) {
            return status;
        }
        verify_part_copy(&part, from, to, memory, at, size, expected);
    }
    return COFFER_OK;
}
