/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two nests share a byte when a run of one begins less than a run's width from one of the other. With i and j as the
 * indices of their loops that is the question whether
 *
 *     sum(i * step) - sum(j * step)  lies in  [low, high]
 *
 * for any indices in range. Loops of equal steps are one with the difference of their indices, which is what makes the
 * places that occur in practice easy: the columns of one matrix have equal steps. The rest is a search from the largest
 * step to the smallest, which tries only those values from which the smaller steps can still reach the goal: as a rule
 * one or two. Strides that are meant to make that slow are refused after a bounded number of tries.
 */
#include "places.h"

#include "alloc.h"
#include "checked.h"
#include "device.h"
#include "dtype.h"
#include "error.h"
#include "sort.h"

#define PLACES_TRIES 100000
#define PLACES_LARGEST ((uint64_t)1 << 60) /* bytes of one place, so that sums of distances are numbers of 64 bits */

/* ---- sums of steps ----------------------------------------------------------------------------------------------- */

/* A loop whose index goes from `low` to `high`. */
typedef struct places_term {
    int64_t step; /* positive */
    int64_t low;
    int64_t high;
} places_term;

/* The search goes back and forth between the terms, so what the smaller ones can reach is kept for each of them. */
typedef struct places_sum {
    size_t count;
    size_t tries;
    places_term terms[2 * COFFER__BOX_MAX_RANK];
    int64_t least[2 * COFFER__BOX_MAX_RANK + 1]; /* what terms from this one on come to, at least */
    int64_t most[2 * COFFER__BOX_MAX_RANK + 1];  /* what terms from this one on come to, at most */
} places_sum;

/* Adds a loop; with `merge` to one of the same step if there is one. Distances within memory are below 2^63, and so
   are their sums, since places were checked to lie within it. The terms are sorted by their steps, the largest
   first, for the search. A loop of negative steps is turned around: its index counts the other way. */
static void places_add(places_sum *sum, int64_t step, int64_t low, int64_t high, bool merge)
{
    size_t at = 0;
    if (step < 0) {
        const int64_t turned = -low;
        step = -step;
        low = -high;
        high = turned;
    }
    while (at < sum->count && sum->terms[at].step > step) {
        at++;
    }
    if (merge && at < sum->count && sum->terms[at].step == step) {
        sum->terms[at].low += low;
        sum->terms[at].high += high;
        return;
    }
    for (size_t i = sum->count; i > at; i--) {
        sum->terms[i] = sum->terms[i - 1];
    }
    sum->terms[at] = (places_term){ step, low, high };
    sum->count++;
}

/* It is computed once, from the last term backwards, so the search asks for the reach of all smaller terms in one
   step. */
static void places_reach(places_sum *sum)
{
    sum->least[sum->count] = 0;
    sum->most[sum->count] = 0;
    for (size_t i = sum->count; i > 0; i--) {
        const places_term *term = &sum->terms[i - 1];
        sum->least[i - 1] = sum->least[i] + term->low * term->step;
        sum->most[i - 1] = sum->most[i] + term->high * term->step;
    }
}

/* a / b, rounded down; b is positive. C rounds towards zero, which would cut off one value of a search among
   negative ones. */
static int64_t places_floor(int64_t a, int64_t b)
{
    return a / b - (a % b < 0 ? 1 : 0);
}

/*
 * Whether some choice of indices comes to a sum from `low` to `high`. The search is a walk over the terms: `at[k]` is
 * the value that is being tried for term k, and `last[k]` the last one that makes sense given those before it. With
 * `nontrivial`, indices that are all 0 do not count; then terms of equal steps stay apart, as one of them may undo what
 * the other does.
 *
 * Giving up counts as an overlap. That is the safe side: places that overlap would be written by two threads at once,
 * and a plan that is refused does no harm.
 */
static bool places_search(places_sum *sum, int64_t low, int64_t high, bool nontrivial)
{
    int64_t at[2 * COFFER__BOX_MAX_RANK + 1];
    int64_t last[2 * COFFER__BOX_MAX_RANK + 1];
    int64_t before[2 * COFFER__BOX_MAX_RANK + 1]; /* the sum of the terms before this one */
    size_t zeros = 0;                             /* how many terms from the first on are 0 */
    size_t k = 0;
    before[0] = 0;
    places_reach(sum);
    for (bool fresh = true;;) {
        if (k == sum->count) {
            if (!nontrivial || zeros < sum->count) {
                return before[k] >= low && before[k] <= high;
            }
            fresh = false;
        } else if (fresh) {
            const places_term *term = &sum->terms[k];
            const int64_t from = -places_floor(-(low - before[k] - sum->most[k + 1]), term->step);
            const int64_t to = places_floor(high - before[k] - sum->least[k + 1], term->step);
            at[k] = from > term->low ? from : term->low;
            last[k] = to < term->high ? to : term->high;
            fresh = at[k] <= last[k];
        } else {
            at[k]++;
            fresh = at[k] <= last[k];
        }
        if (++sum->tries > PLACES_TRIES) {
            return true;
        }
        if (!fresh) {
            if (k == 0) {
                return false;
            }
            k--;
            zeros = zeros > k ? k : zeros;
            continue;
        }
        if (k < sum->count) {
            zeros = zeros == k && at[k] == 0 ? k + 1 : zeros;
            before[k + 1] = before[k] + at[k] * sum->terms[k].step;
            k++;
        }
    }
}

/* ---- one place --------------------------------------------------------------------------------------------------- */

static coffer_status places_too_small(uint64_t needed, uint64_t size, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_PLACE, "the place has %z, and the result reaches over %z", size, needed);
    return coffer__fail_sizes(err, COFFER_ERR_PLACE, needed, size);
}

/* Whether two elements of a result share bytes. Mostly each stride is beyond what the smaller ones cover, and then
   they do not. The difference of two indices of a loop goes from -last to last, and two different elements have a
   difference that is not 0 in every loop; those that share a byte begin less than an element apart. */
static bool places_meets_itself(const coffer__load_item *item, const int64_t *strides, int64_t item_size)
{
    places_sum sum = { .count = 0 };
    for (size_t i = 0; i < item->rank; i++) {
        const int64_t last = (int64_t)item->shape[i] - 1;
        if (last > 0) {
            places_add(&sum, strides[i], -last, last, false);
        }
    }
    return places_search(&sum, 1 - item_size, item_size - 1, true);
}

/* What the strides cover from the first element on; false when no place is as large. Strides were found to be
   positive before this is asked, where there is more than one entry. The products are checked, as shapes and
   strides are the caller's to choose. */
static bool places_measure(const coffer__load_item *item, const int64_t *strides, uint64_t item_size, uint64_t *needed)
{
    *needed = item_size;
    for (size_t i = 0; i < item->rank; i++) {
        uint64_t steps = 0;
        if (item->shape[i] > 1 && (!coffer__mul_u64(item->shape[i] - 1, (uint64_t)strides[i], &steps) ||
                                   !coffer__add_u64(*needed, steps, needed))) {
            return false;
        }
    }
    return *needed <= PLACES_LARGEST;
}

/* The measure comes before the search, which relies on it: the sums of that are below 2^63 only because no place is
   larger than 2^60. */
static coffer_status places_check_strides(const coffer__load_item *item, const coffer_place *place, coffer_error *err)
{
    const uint64_t bits = coffer__dtype_info_of(item->tensor->dtype)->bits;
    uint64_t needed = 0;
    if (bits == 0 || bits % 8 != 0) {
        return coffer__fail(err, COFFER_ERR_PLACE,
                            "elements of %s are no whole bytes, so a place for them has no strides",
                            bits == 0 ? "an unknown dtype" : coffer_dtype_name(item->tensor->dtype));
    }
    for (size_t i = 0; i < item->rank; i++) {
        if (place->strides[i] < 0 || (place->strides[i] == 0 && item->shape[i] > 1)) {
            return coffer__fail(err, COFFER_ERR_PLACE, "the stride of dimension %u is %d: it must be positive",
                                (uint64_t)i, place->strides[i]);
        }
    }
    if (item->size == 0) {
        return COFFER_OK;
    }
    if (!places_measure(item, place->strides, bits / 8, &needed) || needed > place->size) {
        return places_too_small(needed, place->size, err);
    }
    if (places_meets_itself(item, place->strides, (int64_t)bits / 8)) {
        return coffer__fail(err, COFFER_ERR_PLACE, "the strides of the place let elements of the result overlap");
    }
    return COFFER_OK;
}

/* That the place's end is an address is checked here, once, so that sums of addresses and offsets within a place
   need no check later. */
coffer_status coffer__model_dir_fits(const coffer__load_item *item, const coffer_place *place, coffer_error *err)
{
    if (place->address == 0 && item->size > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the address of a place is 0");
    }
    if (item->device == NULL && (place->address > UINTPTR_MAX || place->size > UINTPTR_MAX - place->address)) {
        return coffer__fail(err, COFFER_ERR_PLACE, "the place does not lie in this program's memory");
    }
    if (place->size > UINT64_MAX - place->address) {
        return coffer__fail(err, COFFER_ERR_PLACE, "the place reaches beyond all addresses");
    }
    if (item->size > PLACES_LARGEST) {
        return places_too_small(item->size, PLACES_LARGEST, err);
    }
    if (place->strides != NULL) {
        return places_check_strides(item, place, err);
    }
    return item->size > place->size ? places_too_small(item->size, place->size, err) : COFFER_OK;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Where a row's runs go: the first byte of the lowest, and the end of the highest. */
typedef struct places_reached {
    uint64_t low;
    uint64_t high;
    uint32_t space; /* 0: host memory, else which device */
} places_reached;

typedef struct places_list {
    const coffer_plan *plan;
    const places_reached *reached; /* of each row */
} places_list;

/* Steps in the place have either sign, so one half of the loops moves the lowest byte down and the others the
   highest up. The products do not wrap in the end, since the place was checked to hold them. Devices are told apart
   by what kind they are and their number, not by their handles: two handles of one device mean the same memory. */
static places_reached places_of_row(const coffer_plan *plan, const coffer__load_row *row)
{
    const coffer__load_item *item = &plan->items[row->item];
    const coffer__nest *nest = &row->nest;
    places_reached reached = { .low = item->address + nest->to, .space = 0 };
    reached.high = reached.low + nest->width;
    for (uint32_t i = 0; i < nest->rank; i++) {
        uint64_t *end = nest->dims[i].to < 0 ? &reached.low : &reached.high;
        *end += (nest->dims[i].count - 1) * (uint64_t)nest->dims[i].to;
    }
    if (item->device != NULL) {
        reached.space = 1 + (uint32_t)item->device->kind * 65536 + (uint32_t)item->device->number;
    }
    return reached;
}

/* Rows of one space lie together in this order, so the sweep can forget all that is open when the space changes. */
static bool places_before(const void *ctx, uint32_t a, uint32_t b)
{
    const places_list *list = ctx;
    const places_reached *one = &list->reached[a];
    const places_reached *other = &list->reached[b];
    return one->space != other->space ? one->space < other->space : one->low < other->low;
}

/* The exact answer for two rows whose reaches overlap. The difference of the addresses is small, as the reaches
   overlap and no place has more than 2^60 bytes, so it fits into a signed number. */
static bool places_meet(const coffer_plan *plan, uint32_t a, uint32_t b)
{
    const coffer__load_row *rows[2] = { &plan->rows[a], &plan->rows[b] };
    places_sum sum = { .count = 0 };
    for (int side = 0; side < 2; side++) {
        const coffer__nest *nest = &rows[side]->nest;
        for (uint32_t i = 0; i < nest->rank; i++) {
            const int64_t last = (int64_t)nest->dims[i].count - 1;
            places_add(&sum, nest->dims[i].to, side == 0 ? 0 : -last, side == 0 ? last : 0, true);
        }
    }
    const uint64_t one = plan->items[rows[0]->item].address + rows[0]->nest.to;
    const uint64_t other = plan->items[rows[1]->item].address + rows[1]->nest.to;
    const int64_t apart = (int64_t)(other - one);
    /* one + sum is less than `width` of the other after it, or less than its own before it. */
    return places_search(&sum, apart - (int64_t)rows[0]->nest.width + 1, apart + (int64_t)rows[1]->nest.width - 1,
                         false);
}

/* Both tensors are named, one in the words and one in the error's own field: which of the two is wrong only the
   caller knows. */
static coffer_status places_overlap(const coffer_plan *plan, uint32_t a, uint32_t b, coffer_error *err)
{
    const coffer_tensor *one = plan->items[plan->rows[a].item].tensor;
    const coffer_tensor *other = plan->items[plan->rows[b].item].tensor;
    coffer__fail(err, COFFER_ERR_PLACE, "the places of %q and of another item overlap", one->name, one->name_len);
    return coffer__fail_tensor(err, COFFER_ERR_PLACE, other->name, other->name_len);
}

/* Goes over the rows by address. `open` are those that reach beyond the row's beginning; as a rule there is none,
   and then a row costs one comparison. The list shares the memory of `order`, behind what was gone over. */
static coffer_status places_sweep(const places_list *list, uint32_t *order, size_t count, coffer_error *err)
{
    size_t open = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t row = order[i];
        const places_reached *reached = &list->reached[row];
        size_t kept = 0;
        for (size_t k = 0; k < open; k++) {
            const places_reached *other = &list->reached[order[k]];
            if (other->space != reached->space || other->high <= reached->low) {
                continue;
            }
            if (places_meet(list->plan, order[k], row)) {
                return places_overlap(list->plan, order[k], row, err);
            }
            order[kept++] = order[k];
        }
        order[kept++] = row;
        open = kept;
    }
    return COFFER_OK;
}

/* Only places of the caller's are compared: memory that the load gives out never overlaps. */
static size_t places_collect(const coffer_plan *plan, places_reached *reached, uint32_t *order)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->row_count; i++) {
        if (plan->items[plan->rows[i].item].placed) {
            reached[i] = places_of_row(plan, &plan->rows[i]);
            order[count++] = (uint32_t)i;
        }
    }
    return count;
}

/* It takes as long as sorting for places that lie apart, which is what nearly all plans have. */
coffer_status coffer__places_apart(const coffer_plan *plan, const coffer_allocator *allocator, coffer_error *err)
{
    coffer_status status = COFFER_ERR_MEMORY;
    uint32_t *order = NULL;
    places_reached *reached = coffer__alloc_array(allocator, plan->row_count, sizeof *reached, err);
    if (reached != NULL) {
        order = coffer__alloc_array(allocator, plan->row_count, sizeof *order, err);
    }
    if (order != NULL) {
        const places_list list = { plan, reached };
        const size_t count = places_collect(plan, reached, order);
        coffer__sort(order, count, places_before, &list);
        status = places_sweep(&list, order, count, err);
    }
    coffer__free_array(allocator, order, plan->row_count, sizeof *order);
    coffer__free_array(allocator, reached, plan->row_count, sizeof *reached);
    return status;
}
