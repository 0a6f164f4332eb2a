/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes, strides and offsets of views, checked against their storages: see pickle_views.h.
 *
 *   last element = offset + sum over the dimensions of (size - 1) * stride      in elements, strides not negative
 *   last byte    = (last element + 1) * size of an element                      has to be within the storage
 *
 * All numbers are 64 bits that a stranger wrote, so each product and sum is checked. Past coffer__view_fill a row
 * may be used without a check: all of its strides, counts and offsets lead to bytes that the storage has.
 */
#include "checked.h"
#include "error.h"
#include "pickle_views.h"

/* The same sentence as for arguments of the wrong kind: both are of a pickle that was made by hand. */
static coffer_status extents_malformed(const coffer__graph *graph, coffer__value value, const char *what,
                                       coffer_error *err)
{
    return coffer__fail_at(err, COFFER_ERR_PICKLE, coffer__graph_place(graph, value),
                           "the pickle describes a tensor in a way that no program writes: %s", what);
}

/* torch writes sizes as a tuple, or as torch.Size of one. True is no number here, nor is a negative one. */
bool coffer__view_numbers(const coffer__graph *graph, coffer__value container, uint64_t *numbers, size_t *count)
{
    const coffer__node *node = coffer__pickle_node(graph->pickle, container);
    if (node != NULL && node->kind == COFFER__VALUE_CALL &&
        coffer__graph_known_call(graph, container).meaning == COFFER__MEANS_SIZE) {
        coffer__graph_items(graph, coffer__graph_arguments(graph, container), &container, 1);
        node = coffer__pickle_node(graph->pickle, container);
    }
    if (node == NULL || (node->kind != COFFER__VALUE_TUPLE && node->kind != COFFER__VALUE_LIST) ||
        node->count > COFFER__PLAN_MAX_RANK) {
        return false;
    }
    *count = 0;
    for (uint32_t link = node->first; link != 0;) {
        if (!coffer__graph_u64(graph, coffer__pickle_item(graph->pickle, &link), &numbers[*count])) {
            return false;
        }
        ++*count;
    }
    return true;
}

/* One more than the number of the last element that is viewed; false when that is beyond 2^64-1. The view must not be
   empty: a size of 0 would count as -1. */
static bool extents_end(const coffer__extents *extents, uint64_t *end)
{
    uint64_t sum = 0;
    if (!coffer__add_u64(extents->offset, 1, &sum)) {
        return false;
    }
    for (size_t i = 0; i < extents->rank; i++) {
        uint64_t steps = 0;
        if (!coffer__mul_u64(extents->sizes[i] - 1, extents->strides[i], &steps) ||
            !coffer__add_u64(sum, steps, &sum)) {
            return false;
        }
    }
    *end = sum;
    return true;
}

static bool extents_are_empty(const coffer__extents *extents)
{
    for (size_t i = 0; i < extents->rank; i++) {
        if (extents->sizes[i] == 0) {
            return true;
        }
    }
    return false;
}

/* The last dimension of F4 has two elements in each byte; complex128 becomes pairs of F64 in a dimension of its own,
   where that was asked for. */
static coffer_status extents_set_dtype(const coffer__graph *graph, coffer__value value, coffer__view *view,
                                       coffer_error *err)
{
    coffer__import_plan_row *row = &view->row;
    coffer__import_plan_dimension *last = &view->dimensions[row->rank > 0 ? row->rank - 1 : 0];
    if (view->element == COFFER__ELEMENT_F4_X2) {
        if (row->rank == 0 || !coffer__mul_u64(last->count, 2, &last->size)) {
            return extents_malformed(graph, value, "pairs of 4-bit floats without a dimension", err);
        }
    }
    if (view->element == COFFER__ELEMENT_C128 && graph->wants->complex128_as_f64 && row->rank < COFFER__PLAN_MAX_RANK &&
        row->sign == COFFER__SIGN_KEPT) {
        view->dimensions[row->rank++] = (coffer__import_plan_dimension){ .size = 2, .count = 2, .stride = 8 };
        row->dtype = COFFER_F64;
        row->item_size = 8;
    }
    if (row->dtype == COFFER_UNKNOWN_DTYPE && view->lack == NULL) {
        view->lack = coffer__element_facts_of(view->element)->name;
    }
    return COFFER_OK;
}

/*
 * Strides of dimensions of size 1 and of empty tensors mean nothing, and any number may stand there: they become 0, so
 * that whoever compares views or adds up strides need not know. An empty tensor is nowhere: its offset may be beyond
 * its storage.
 */
coffer_status coffer__view_fill(const coffer__graph *graph, coffer__value value, coffer__view *view,
                                const coffer__extents *extents, uint64_t available, coffer_error *err)
{
    const coffer__element_facts *facts = coffer__element_facts_of(view->element);
    const bool empty = extents_are_empty(extents);
    uint64_t end = 0;
    uint64_t end_byte = 0;
    if (!empty &&
        (!extents_end(extents, &end) || !coffer__mul_u64(end, facts->size, &end_byte) || end_byte > available)) {
        coffer__fail_at(err, COFFER_ERR_VIEW, coffer__graph_place(graph, value),
                        "the sizes and strides of a tensor lead out of its storage, which has %u bytes", available);
        return end_byte > 0 ? coffer__fail_sizes(err, COFFER_ERR_VIEW, end_byte, available) : COFFER_ERR_VIEW;
    }
    view->row.dtype = facts->dtype;
    view->row.item_size = facts->size;
    view->row.rank = (uint32_t)extents->rank;
    /* Not an overflow: the end in bytes is below 2^64, and so is every stride of a dimension that is stepped in. */
    view->row.offset = empty ? 0 : extents->offset * facts->size;
    for (size_t i = 0; i < extents->rank; i++) {
        const uint64_t size = extents->sizes[i];
        /* A product as well that cannot wrap: the stride is stepped in at least once, so its bytes are within
           the end in bytes. */
        const uint64_t stride = !empty && size > 1 ? extents->strides[i] * facts->size : 0;
        if (stride > INT64_MAX) {
            return extents_malformed(graph, value, "a stride beyond 2^63", err);
        }
        view->dimensions[i] = (coffer__import_plan_dimension){ .size = size, .count = size, .stride = (int64_t)stride };
    }
    return extents_set_dtype(graph, value, view, err);
}
