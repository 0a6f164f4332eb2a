/* SPDX-License-Identifier: Apache-2.0 */
#include "verify_walk.h"

#include "dtype.h"

#include <string.h>

/* Elements along the last dimension that are taken at a time from each of several rows: where rows are closer to each
   other than elements, as in a transposed matrix, each line of the cache is then used up while it is there. */
#define VERIFY_WALK_STRIP ((uint64_t)8)

/* ---- gathering --------------------------------------------------------------------------------------------------- */

/* One item. Sizes are named so that each copy is one move. The compiler then makes a load and a store of it, where it
   would call a function for a size that it does not know. */
static void verify_item(uint8_t *to, const uint8_t *from, size_t item)
{
    switch (item) {
    case 1:
        *to = *from;
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    default:
        memcpy(to, from, item);
    }
}

/* `count` items that are `stride` bytes apart. Strides may be 0 and, as unsigned numbers, wrap; the sum comes back.
   Adding a stride that has wrapped goes backwards, as unsigned numbers do modulo 2^64; that no place is outside of
   the storage was checked when the plan was made. */
static void verify_line(uint8_t *to, const uint8_t *storage, uint64_t at, uint64_t stride, uint64_t count, size_t item)
{
    if (stride == item) {
        memcpy(to, storage + at, (size_t)count * item);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        verify_item(to + i * item, storage + (at + i * stride), item);
    }
}

/* Whole rows of the last two dimensions, strip by strip. Where elements follow each other a strip is a whole row, as
   nothing is gained by cutting it. */
static void verify_rows(uint8_t *to, const uint8_t *storage, uint64_t at, const coffer__import_plan_dimension *last_two,
                        uint64_t rows, size_t item)
{
    const uint64_t count = last_two[1].count;
    const uint64_t stride = (uint64_t)last_two[1].stride;
    const uint64_t step = stride == item ? count : VERIFY_WALK_STRIP;
    for (uint64_t strip = 0; strip < count; strip += step) {
        const uint64_t width = count - strip < step ? count - strip : step;
        for (uint64_t i = 0; i < rows; i++) {
            verify_line(to + (i * count + strip) * item, storage,
                        at + i * (uint64_t)last_two[0].stride + strip * stride, stride, width, item);
        }
    }
}

/* Where a walk over the indices of a view is. */
typedef struct verify_walk {
    const coffer__import_plan_dimension *dimensions;
    uint32_t rank;
    uint64_t at; /* in the storage */
    uint64_t index[COFFER__PLAN_MAX_RANK];
} verify_walk;

/* To item number `i`, as one counts: the last dimension first. It is done once for each stretch; from there on the
   walk only steps. */
static void verify_seek(verify_walk *walk, uint64_t i)
{
    for (uint32_t d = walk->rank; d > 0; d--) {
        const coffer__import_plan_dimension *dimension = &walk->dimensions[d - 1];
        walk->index[d - 1] = i % dimension->count;
        walk->at += walk->index[d - 1] * (uint64_t)dimension->stride;
        i /= dimension->count;
    }
}

/* On by `steps` along dimension `d`, which reach its end at most, and from there to the next index of the one
   before. What was added along a dimension is taken back when its end is reached, so that no place is computed
   from the beginning again. The first dimension has no other before it, and may end at its count when everything
   was walked. */
static void verify_step(verify_walk *walk, uint32_t d, uint64_t steps)
{
    const coffer__import_plan_dimension *dimension = &walk->dimensions[d];
    walk->at += steps * (uint64_t)dimension->stride;
    walk->index[d] += steps;
    /* cppcheck-suppress arrayIndexOutOfBoundsCond ; `d` is below the rank */
    for (; d > 0 && walk->index[d] == walk->dimensions[d].count; d--) {
        walk->at -= walk->dimensions[d].count * (uint64_t)walk->dimensions[d].stride;
        walk->index[d] = 0;
        walk->at += (uint64_t)walk->dimensions[d - 1].stride;
        walk->index[d - 1]++;
    }
}

/* As many whole rows as are wanted and follow each other; else what is left of the current row. */
void coffer__verify_gather(const coffer__import_plan_row *row, const coffer__import_plan_dimension *dimensions,
                           const uint8_t *storage, uint64_t offset, uint8_t *bytes, uint64_t size)
{
    const size_t item = (size_t)row->item_size;
    verify_walk walk = { .dimensions = dimensions, .rank = row->rank, .at = row->offset };
    uint64_t left = size / item;
    if (walk.rank == 0) {
        memcpy(bytes, storage + walk.at, (size_t)size);
        return;
    }
    verify_seek(&walk, offset / item);
    while (left > 0) {
        const uint32_t last = walk.rank - 1;
        const uint64_t count = dimensions[last].count;
        uint64_t taken = 0;
        /* Whole rows go together as far as the dimension above them reaches; the rows of the next index begin
           elsewhere in the storage. */
        if (last > 0 && walk.index[last] == 0 && left >= count) {
            const uint64_t below = dimensions[last - 1].count - walk.index[last - 1];
            const uint64_t rows = left / count < below ? left / count : below;
            verify_rows(bytes, storage, walk.at, &dimensions[last - 1], rows, item);
            verify_step(&walk, last - 1, rows);
            taken = rows * count;
        } else {
            taken = left < count - walk.index[last] ? left : count - walk.index[last];
            verify_line(bytes, storage, walk.at, (uint64_t)dimensions[last].stride, taken, item);
            verify_step(&walk, last, taken);
        }
        bytes += taken * item;
        left -= taken;
    }
}

/* ---- changing ---------------------------------------------------------------------------------------------------- */

/* Swaps and changes signs as the plan says, element by element. Of a complex number each half is
   swapped and counted by itself, and conjugation changes every second one. Written without regard
   to speed, so that it is plain that it is right. */
void coffer__verify_change(const coffer__import_plan_row *row, uint8_t *bytes, uint64_t size)
{
    const coffer__dtype_info *dtype = coffer__dtype_info_of(row->dtype);
    const bool complex = dtype->kind == COFFER_KIND_COMPLEX;
    const size_t width = complex ? 4 : dtype->bits / 8;
    for (uint64_t at = 0; row->swap > 0 && at < size; at += row->swap) {
        /* One unit backwards. Sizes are multiples of the unit: the check has compared it with the
           items. */
        for (size_t i = 0; i < row->swap / 2u; i++) {
            const uint8_t byte = bytes[at + i];
            bytes[at + i] = bytes[at + row->swap - 1 - i];
            bytes[at + row->swap - 1 - i] = byte;
        }
    }
    if (row->sign == COFFER__SIGN_KEPT) {
        return;
    }
    const bool every = row->sign == COFFER__SIGN_NEGATED;
    for (uint64_t k = 0; k < size / width; k++) {
        uint8_t *number = bytes + k * width;
        if (dtype->kind == COFFER_KIND_FLOAT || complex) {
            number[width - 1] ^= every || k % 2 == 1 ? 0x80 : 0;
            continue;
        }
        /* Two's complement: all bits inverted, and 1 added from the lowest byte on. */
        unsigned carry = 1;
        for (size_t i = 0; i < width; i++) {
            const unsigned inverted = (number[i] ^ 0xFFu) + carry;
            number[i] = (uint8_t)inverted;
            carry = inverted >> 8;
        }
    }
}
