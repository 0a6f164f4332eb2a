/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that are assembled of parts: how they are put into a plan, and whether their boxes have each element once.
 *
 * The boxes of an array of n parts are disjoint and within it, and have as many elements together as it has: then there
 * is no gap. Disjoint is what takes work. The boxes are sorted by where they begin along one dimension, the one with the
 * most different beginnings, and each is compared with those before it that have not ended there. Shards along one
 * dimension are never compared then, and of a grid only those of one row of it. A file can be made for which that takes
 * hours, so the comparisons of a plan are counted.
 */
#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "plan.h"
#include "sort.h"
#include "text.h"

/* ---- filling ------------------------------------------------------------------------------------------------------- */

coffer_status coffer__import_plan_put_part(coffer__import_plan *plan, uint32_t storage, uint64_t offset, uint32_t rank,
                                           const uint64_t *starts, const uint64_t *sizes, coffer_error *err)
{
    const coffer__import_plan_part part = { storage, offset, (uint32_t)plan->extents.count };
    coffer_status status = coffer__import_plan_extend(plan, &plan->extents, starts, rank, sizeof *starts, err);
    if (status == COFFER_OK) {
        status = coffer__import_plan_extend(plan, &plan->extents, sizes, rank, sizeof *sizes, err);
    }
    if (status == COFFER_OK) {
        status = coffer__import_plan_extend(plan, &plan->parts, &part, 1, sizeof part, err);
    }
    if (status == COFFER_OK && storage < plan->storages.count) {
        ((coffer__import_plan_storage *)plan->storages.items)[storage].viewed = true;
    }
    return status;
}

/* The product of sizes and an item's; false when it is beyond 2^64-1. */
static bool parts_multiply(const uint64_t *sizes, size_t rank, uint64_t item_size, uint64_t *size)
{
    *size = item_size;
    for (size_t i = 0; i < rank; i++) {
        if (!coffer__mul_u64(*size, sizes[i], size)) {
            return false;
        }
    }
    return true;
}

coffer_status coffer__import_plan_put_assembled(coffer__import_plan *plan, uint32_t part_count, uint32_t rank,
                                                const uint64_t *sizes, uint64_t item_size, uint32_t name,
                                                uint32_t *number, coffer_error *err)
{
    coffer__import_plan_storage made = {
        .kind = COFFER__STORAGE_ASSEMBLED,
        .first = (uint32_t)plan->parts.count - part_count,
        .count = part_count,
        .name = name,
        .as.array = { .rank = rank, .extents = (uint32_t)plan->extents.count, .item_size = item_size }
    };
    if (!parts_multiply(sizes, rank, item_size, &made.size)) {
        return coffer__fail(err, COFFER_ERR_VIEW, "the sizes of a tensor multiply to more than 2^64-1");
    }
    *number = (uint32_t)plan->storages.count;
    const coffer_status status = coffer__import_plan_extend(plan, &plan->extents, sizes, rank, sizeof *sizes, err);
    return status == COFFER_OK ? coffer__import_plan_extend(plan, &plan->storages, &made, 1, sizeof made, err) : status;
}

/* ---- what a plan says ---------------------------------------------------------------------------------------------- */

const coffer__import_plan_part *coffer__import_plan_parts(const coffer__import_plan *plan)
{
    return plan->parts.items;
}

const uint64_t *coffer__import_plan_extents(const coffer__import_plan *plan, uint32_t first, size_t count)
{
    const uint64_t *all = plan->extents.items;
    return count == 0 ? NULL : all + first;
}

uint64_t coffer__import_plan_part_size(const coffer__import_plan *plan, const coffer__import_plan_storage *storage,
                                       const coffer__import_plan_part *part)
{
    const uint64_t *sizes =
        coffer__import_plan_extents(plan, part->box + storage->as.array.rank, storage->as.array.rank);
    uint64_t size = 0;
    /* It was checked that this does not wrap. */
    (void)parts_multiply(sizes, storage->as.array.rank, storage->as.array.item_size, &size);
    return size;
}

const coffer__import_plan_piece *coffer__import_plan_first_piece(const coffer__import_plan *plan,
                                                                 const coffer__import_plan_storage *storage)
{
    if (storage->kind == COFFER__STORAGE_ASSEMBLED) {
        storage = coffer__import_plan_storages(plan) + coffer__import_plan_parts(plan)[storage->first].storage;
    }
    return coffer__import_plan_pieces(plan) + storage->first;
}

void coffer__import_plan_write_place(char *text, size_t size, const uint64_t *place, size_t rank)
{
    size_t len = 0;
    text[len++] = '[';
    for (size_t i = 0; i < rank && len + 26 < size; i++) {
        if (i > 0) {
            text[len++] = ',';
            text[len++] = ' ';
        }
        len += coffer__write_u64(text + len, place[i]);
    }
    text[len++] = ']';
    text[len] = '\0';
}

/* ---- judging ------------------------------------------------------------------------------------------------------- */

/* An array whose boxes are being looked at. Parts are numbered from its first one on. */
typedef struct parts_array {
    const coffer__import_plan *plan;
    const coffer__import_plan_storage *storage;
    size_t along; /* the dimension by which parts are sorted */
} parts_array;

/* Where the box of a part begins along a dimension, and where it ends. */
static uint64_t parts_begin(const parts_array *array, uint32_t part, size_t dimension)
{
    const coffer__import_plan_part *parts = coffer__import_plan_parts(array->plan) + array->storage->first;
    return coffer__import_plan_extents(array->plan, parts[part].box, array->storage->as.array.rank)[dimension];
}

static uint64_t parts_end(const parts_array *array, uint32_t part, size_t dimension)
{
    return parts_begin(array, part, dimension) + parts_begin(array, part, array->storage->as.array.rank + dimension);
}

/* For sorting by where parts begin, and by where they end. */
static bool parts_begin_before(const void *ctx, uint32_t a, uint32_t b)
{
    const parts_array *array = ctx;
    return parts_begin(array, a, array->along) < parts_begin(array, b, array->along);
}

static bool parts_end_before(const void *ctx, uint32_t a, uint32_t b)
{
    const parts_array *array = ctx;
    return parts_end(array, a, array->along) < parts_end(array, b, array->along);
}

/* For what no reader makes. */
static coffer_status parts_foreign(const char *what, size_t number, coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_PLAN,
                        "the plan of this conversion is not one that a reader makes: %s %u is out of its range", what,
                        (uint64_t)number);
}

/* An error that names the tensor and one or two places in it. */
static coffer_status parts_fail(const parts_array *array, const char *sentence, const char *one, const char *two,
                                coffer_error *err)
{
    size_t name_len = 0;
    const char *name = coffer__import_plan_text(array->plan, array->storage->name, &name_len);
    coffer__fail(err, COFFER_ERR_VIEW, sentence, name, name_len, one, two);
    return coffer__fail_tensor(err, COFFER_ERR_VIEW, name, name_len);
}

/* One part: its numbers are in their ranges, its box is within the array, and its bytes are within its storage. */
static bool parts_is_part(const parts_array *array, const coffer__import_plan_part *part, const uint64_t *sizes)
{
    const coffer__import_plan *plan = array->plan;
    const size_t rank = array->storage->as.array.rank;
    if (part->storage >= plan->storages.count || part->box > plan->extents.count ||
        2 * rank > plan->extents.count - part->box) {
        return false;
    }
    const coffer__import_plan_storage *base = coffer__import_plan_storages(plan) + part->storage;
    const uint64_t *box = coffer__import_plan_extents(plan, part->box, 2 * rank);
    uint64_t size = 0;
    for (size_t i = 0; i < rank; i++) {
        if (box[i] > sizes[i] || box[rank + i] == 0 || box[rank + i] > sizes[i] - box[i]) {
            return false;
        }
    }
    return coffer__import_plan_is_plain(plan, base) &&
           parts_multiply(rank == 0 ? NULL : box + rank, rank, array->storage->as.array.item_size, &size) &&
           part->offset <= base->size && size <= base->size - part->offset;
}

/* Whether the array's own numbers can be looked at, and multiply to its size. */
static bool parts_is_array(const parts_array *array)
{
    const coffer__import_plan_storage *storage = array->storage;
    uint64_t size = 0;
    return storage->as.array.rank <= COFFER__PLAN_MAX_RANK && storage->as.array.extents <= array->plan->extents.count &&
           storage->as.array.rank <= array->plan->extents.count - storage->as.array.extents &&
           storage->as.array.item_size > 0 && storage->as.array.item_size <= 16 &&
           (storage->as.array.item_size & (storage->as.array.item_size - 1)) == 0 &&
           parts_multiply(coffer__import_plan_extents(array->plan, storage->as.array.extents, storage->as.array.rank),
                          storage->as.array.rank, storage->as.array.item_size, &size) &&
           size == storage->size;
}

static bool parts_overlap(const parts_array *array, uint32_t a, uint32_t b)
{
    for (size_t i = 0; i < array->storage->as.array.rank; i++) {
        if (parts_end(array, a, i) <= parts_begin(array, b, i) || parts_end(array, b, i) <= parts_begin(array, a, i)) {
            return false;
        }
    }
    return true;
}

static coffer_status parts_fail_overlap(const parts_array *array, uint32_t a, uint32_t b, coffer_error *err)
{
    char one[160];
    char two[160];
    const coffer__import_plan_part *parts = coffer__import_plan_parts(array->plan) + array->storage->first;
    const size_t rank = array->storage->as.array.rank;
    coffer__import_plan_write_place(one, sizeof one, coffer__import_plan_extents(array->plan, parts[a].box, rank),
                                    rank);
    coffer__import_plan_write_place(two, sizeof two, coffer__import_plan_extents(array->plan, parts[b].box, rank),
                                    rank);
    return parts_fail(array, "the parts of tensor %q that begin at %s and %s overlap", one, two, err);
}

/* Sorts the parts by the dimension along which they have the most different beginnings. Without dimensions there is
   nothing to sort by. */
static void parts_order(parts_array *array, uint32_t *order)
{
    const uint32_t count = array->storage->as.array.rank > 0 ? array->storage->count : 0;
    size_t most = 0;
    size_t best = 0;
    for (size_t d = 0; d < array->storage->as.array.rank; d++) {
        size_t different = 1;
        array->along = d;
        coffer__sort(order, count, parts_begin_before, array);
        for (uint32_t i = 1; i < count; i++) {
            different += parts_begin_before(array, order[i - 1], order[i]);
        }
        best = different > most ? d : best;
        most = different > most ? different : most;
    }
    array->along = best;
    coffer__sort(order, count, parts_begin_before, array);
}

/* Compares each part with those before it, in `open`, that have not ended where it begins. */
static coffer_status parts_compare(const parts_array *array, const uint32_t *order, uint32_t *open,
                                   uint64_t *comparisons, coffer_error *err)
{
    size_t count = 0;
    for (uint32_t i = 0; i < array->storage->count; i++) {
        const uint32_t part = order[i];
        const uint64_t begin = array->storage->as.array.rank > 0 ? parts_begin(array, part, array->along) : 0;
        size_t kept = 0;
        if (count > *comparisons) {
            return parts_fail(array, "tensor %q has too many parts, which adjoin each other in too many ways", "", "",
                              err);
        }
        *comparisons -= count;
        for (size_t k = 0; k < count; k++) {
            if (array->storage->as.array.rank > 0 && parts_end(array, open[k], array->along) <= begin) {
                continue;
            }
            if (parts_overlap(array, open[k], part)) {
                return parts_fail_overlap(array, open[k], part, err);
            }
            open[kept++] = open[k];
        }
        count = kept;
        open[count++] = part;
    }
    return COFFER_OK;
}

/* ---- gaps ---------------------------------------------------------------------------------------------------------- */

/* Elements that a part has in a plane across dimension `along`, counted in the dimensions after that. */
static uint64_t parts_across(const parts_array *array, uint32_t part)
{
    const size_t rank = array->storage->as.array.rank;
    uint64_t elements = 1;
    for (size_t i = array->along + 1; i < rank; i++) {
        elements *= parts_begin(array, part, rank + i);
    }
    return elements;
}

/*
 * The first index along a dimension at which the parts leave something out, given that they are disjoint: the parts are
 * entered and left in order of their beginnings and ends, and what they have there is compared with `whole`.
 */
static uint64_t parts_gap_along(const parts_array *array, uint32_t *begins, uint32_t *ends, size_t count,
                                uint64_t whole)
{
    uint64_t at = 0;
    uint64_t elements = 0;
    size_t left = 0;
    coffer__sort(begins, count, parts_begin_before, array);
    coffer__sort(ends, count, parts_end_before, array);
    for (size_t entered = 0;;) {
        for (; entered < count && parts_begin(array, begins[entered], array->along) <= at; entered++) {
            elements += parts_across(array, begins[entered]);
        }
        for (; left < count && parts_end(array, ends[left], array->along) <= at; left++) {
            elements -= parts_across(array, ends[left]);
        }
        /* Without parts that end later there is nothing to go on to, and what is there now is the rest. */
        if (elements < whole || left == count) {
            return at;
        }
        at = parts_end(array, ends[left], array->along);
    }
}

/* Finds an element that no part has, dimension by dimension: in each the first plane that is not full, in which only the
   parts that reach it are looked at further. */
static coffer_status parts_fail_gap(parts_array *array, uint32_t *begins, uint32_t *ends, coffer_error *err)
{
    char place[160];
    uint64_t gap[COFFER__PLAN_MAX_RANK] = { 0 };
    const size_t rank = array->storage->as.array.rank;
    const uint64_t *sizes = coffer__import_plan_extents(array->plan, array->storage->as.array.extents, rank);
    uint64_t whole = array->storage->size / array->storage->as.array.item_size;
    size_t count = array->storage->count;
    for (array->along = 0; array->along < rank; array->along++) {
        size_t kept = 0;
        whole /= sizes[array->along];
        for (size_t i = 0; i < count; i++) {
            ends[i] = begins[i];
        }
        gap[array->along] = parts_gap_along(array, begins, ends, count, whole);
        for (size_t i = 0; i < count; i++) {
            if (parts_begin(array, begins[i], array->along) <= gap[array->along] &&
                parts_end(array, begins[i], array->along) > gap[array->along]) {
                begins[kept++] = begins[i];
            }
        }
        count = kept;
    }
    coffer__import_plan_write_place(place, sizeof place, gap, rank);
    return parts_fail(array, "the parts of tensor %q leave a gap: none has the element at %s", place, "", err);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

/* The elements of all parts together; false when they are more than the array's size. */
static bool parts_sum(const parts_array *array, uint64_t *size)
{
    *size = 0;
    for (uint32_t i = 0; i < array->storage->count; i++) {
        const coffer__import_plan_part *part = coffer__import_plan_parts(array->plan) + array->storage->first + i;
        const uint64_t more = coffer__import_plan_part_size(array->plan, array->storage, part);
        if (more > array->storage->size - *size) {
            return false;
        }
        *size += more;
    }
    return true;
}

/* Parts that have more than the array overlap, and are compared until two are found that do. */
static coffer_status parts_check_cover(parts_array *array, uint32_t *order, uint32_t *open, uint64_t *comparisons,
                                       coffer_error *err)
{
    uint64_t size = 0;
    const bool fits = parts_sum(array, &size);
    for (uint32_t i = 0; i < array->storage->count; i++) {
        order[i] = i;
    }
    parts_order(array, order);
    const coffer_status status = parts_compare(array, order, open, comparisons, err);
    if (status != COFFER_OK) {
        return status;
    }
    return fits && size == array->storage->size ? COFFER_OK : parts_fail_gap(array, order, open, err);
}

coffer_status coffer__import_plan_check_parts(const coffer__import_plan *plan, size_t i, uint64_t *comparisons,
                                              coffer_error *err)
{
    parts_array array = { .plan = plan, .storage = coffer__import_plan_storages(plan) + i };
    const uint32_t count = array.storage->count;
    if (!parts_is_array(&array)) {
        return parts_foreign("storage", i, err);
    }
    const uint64_t *sizes =
        coffer__import_plan_extents(plan, array.storage->as.array.extents, array.storage->as.array.rank);
    for (uint32_t k = 0; k < count; k++) {
        if (!parts_is_part(&array, coffer__import_plan_parts(plan) + array.storage->first + k, sizes)) {
            return parts_foreign("part", array.storage->first + (size_t)k, err);
        }
    }
    uint32_t *order = coffer__alloc_array(plan->allocator, count, 2 * sizeof *order, err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = parts_check_cover(&array, order, order + count, comparisons, err);
    coffer__free_array(plan->allocator, order, count, 2 * sizeof *order);
    return status;
}
