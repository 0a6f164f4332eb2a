/* SPDX-License-Identifier: Apache-2.0 */
#include "box.h"

#include "checked.h"
#include "error.h"

/* Negation in unsigned arithmetic: -INT64_MIN would be undefined. */
uint64_t coffer__box_distance(int64_t stride)
{
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

/* ---- making boxes ------------------------------------------------------------------------------------------------ */

void coffer__box_one_run(coffer__box *box, uint64_t size)
{
    box->start = 0;
    box->run_size = size;
    box->run_count = size > 0 ? 1 : 0;
    box->rank = 0;
}

/*
 * Whether a dimension of this stride begins where the box's last one ends, so that both are one
 * dimension with the product of their counts. Both must run in the same direction. The product
 * cannot wrap: both distances are below 2^63, and so is the distance from the first to the last
 * index of the last dimension; one step more is below 2^64.
 */
static bool box_continues(const coffer__box *box, int64_t stride)
{
    const int64_t last = box->strides[box->rank - 1];
    return coffer__box_distance(stride) == coffer__box_distance(last) * box->counts[box->rank - 1] &&
           (stride < 0) == (last < 0);
}

/* Two dimensions of stride 0 merge as well: 0 == 0 * count, and every run reads the same bytes
   either way. */
void coffer__box_push(coffer__box *box, uint64_t count, int64_t stride)
{
    box->run_count *= count;
    if (box->rank > 0 && box_continues(box, stride)) {
        box->counts[box->rank - 1] *= count;
        return;
    }
    box->counts[box->rank] = count;
    box->strides[box->rank] = stride;
    box->rank++;
}

void coffer__box_reverse(coffer__box *box)
{
    for (size_t i = 0; i < box->rank / 2; i++) {
        const size_t j = box->rank - 1 - i;
        const uint64_t count = box->counts[i];
        const int64_t stride = box->strides[i];
        box->counts[i] = box->counts[j];
        box->strides[i] = box->strides[j];
        box->counts[j] = count;
        box->strides[j] = stride;
    }
}

/* Takes k apart into one index for each dimension, the fastest first, as one takes a number apart
   into digits. That costs a division for each dimension. */
uint64_t coffer__box_run(const coffer__box *box, uint64_t k)
{
    uint64_t at = box->start;
    for (size_t i = box->rank; i > 0; i--) {
        /* A negative stride wraps around, as unsigned arithmetic does, and gives the right sum. */
        at += (k % box->counts[i - 1]) * (uint64_t)box->strides[i - 1];
        k /= box->counts[i - 1];
    }
    return at;
}

/* ---- from strides ------------------------------------------------------------------------------------------------ */

/* Checked before anything else: box_measure relies on every size being at least 1. */
static bool box_is_empty(const coffer__strided *view)
{
    for (size_t i = 0; i < view->rank; i++) {
        if (view->sizes[i] == 0) {
            return true;
        }
    }
    return view->item_size == 0;
}

/*
 * How far the view reaches before its first element and, from that element's first byte on, after
 * it; and how large the result is. Each dimension moves the farthest element in one direction only,
 * by (size - 1) * |stride|, so the two reaches are exact and independent of the order of
 * dimensions. False when one of the three is beyond 2^64-1.
 */
static bool box_measure(const coffer__strided *view, uint64_t *before, uint64_t *after, uint64_t *size)
{
    *before = 0;
    *after = view->item_size;
    *size = view->item_size;
    for (size_t i = 0; i < view->rank; i++) {
        uint64_t *reach = view->strides[i] < 0 ? before : after;
        uint64_t steps = 0;
        if (!coffer__mul_u64(view->sizes[i] - 1, coffer__box_distance(view->strides[i]), &steps) ||
            !coffer__add_u64(*reach, steps, reach) || !coffer__mul_u64(*size, view->sizes[i], size)) {
            return false;
        }
    }
    return true;
}

coffer_status coffer__box_from_strides(coffer__box *box, const coffer__strided *view, uint64_t available,
                                       coffer_error *err)
{
    uint64_t before = 0;
    uint64_t after = 0;
    uint64_t size = 0;
    coffer__box_one_run(box, 0);
    if (box_is_empty(view)) {
        return COFFER_OK;
    }
    /* `available` is a size of memory or of a file, so a bound of 2^63-1 costs nothing, and with it
       every distance within the view fits an int64_t. */
    if (!box_measure(view, &before, &after, &size) || available > INT64_MAX || view->offset > available ||
        before > view->offset || after > available - view->offset) {
        return coffer__fail_at(err, COFFER_ERR_INDEX, view->offset,
                               "a view with strides reaches beyond the %u bytes that it is of", available);
    }
    box->start = view->offset;
    box->run_size = view->item_size;
    box->run_count = 1;
    /*
     * From the fastest dimension outwards. As long as each stride is what the run has become, the
     * dimension makes the run longer; the first that is not begins the outer dimensions. A
     * dimension of one index is never stepped along, so it is dropped whatever its stride is.
     */
    for (size_t i = view->rank; i > 0; i--) {
        const uint64_t count = view->sizes[i - 1];
        const int64_t stride = view->strides[i - 1];
        if (count > 1 && box->rank == 0 && stride > 0 && (uint64_t)stride == box->run_size) {
            box->run_size *= count;
        } else if (count > 1) {
            coffer__box_push(box, count, stride);
        }
    }
    coffer__box_reverse(box);
    return COFFER_OK;
}
