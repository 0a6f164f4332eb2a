/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of a slice, a block at a time: see cli_view.h for the contract. */
#include "cli_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static coffer_status no_memory(coffer_error *err)
{
    memset(err, 0, sizeof *err);
    err->code = COFFER_ERR_MEMORY;
    err->offset = COFFER_NO_OFFSET;
    snprintf(err->message, sizeof err->message, "no memory for the elements; ask for a smaller slice");
    return COFFER_ERR_MEMORY;
}

/* Where a range with a step begins in a dimension of `size` (not 0), by the rules of Python's slices. The slice is
   known to be valid and not empty, so that its start lies inside. */
static int64_t range_start(const coffer_index *index, uint64_t size)
{
    const int64_t last = size > INT64_MAX ? INT64_MAX : (int64_t)size - 1;
    if (!index->has_start) {
        return index->step > 0 ? 0 : last;
    }
    const int64_t start = index->start < 0 ? index->start + last + 1 : index->start;
    if (start < 0) {
        return 0;
    }
    return start > last ? last : start;
}

static void set_axis(cli_view *view, size_t source, const coffer_index *index)
{
    const uint64_t size = view->tensor->shape[source];
    if (index->kind == COFFER_INDEX_AT) {
        const int64_t at = index->start < 0 ? index->start + (int64_t)size : index->start;
        view->indices[source] = (coffer_index){ .kind = COFFER_INDEX_AT, .start = at, .step = 1 };
        return;
    }
    const bool range = index->kind == COFFER_INDEX_RANGE;
    cli_axis *axis = &view->axes[view->rank++];
    axis->source = source;
    axis->start = range ? range_start(index, size) : 0;
    axis->step = range ? index->step : 1;
}

/* Spreads the indices over the tensor's dimensions: an ellipsis, or the end, stands for those that no index names. */
static void set_axes(cli_view *view, const coffer_index *indices, size_t count)
{
    static const coffer_index all = { .kind = COFFER_INDEX_ALL, .step = 1 };
    size_t named = 0;
    bool ellipsis = false;
    for (size_t i = 0; i < count; i++) {
        named += indices[i].kind != COFFER_INDEX_ELLIPSIS;
    }
    size_t source = 0;
    for (size_t i = 0; i < count; i++) {
        if (indices[i].kind != COFFER_INDEX_ELLIPSIS) {
            set_axis(view, source++, &indices[i]);
            continue;
        }
        ellipsis = true;
        for (size_t k = named; k < view->tensor->rank; k++) {
            set_axis(view, source++, &all);
        }
    }
    while (!ellipsis && source < view->tensor->rank) {
        set_axis(view, source++, &all);
    }
}

/* The index of the tensor's dimension for `count` indices of the axis from `first` on. */
static coffer_index axis_range(const cli_axis *axis, uint64_t first, uint64_t count)
{
    coffer_index index = { .kind = COFFER_INDEX_RANGE, .has_start = true, .has_stop = true, .step = axis->step };
    index.start = axis->start + (int64_t)first * axis->step;
    const int64_t last = index.start + (count > 1 ? (int64_t)(count - 1) * axis->step : 0);
    index.stop = axis->step > 0 ? last + 1 : last - 1;
    /* Before the first there is no index that would not count from the end: leave the stop out. */
    index.has_stop = index.stop >= 0;
    return index;
}

/* Chooses how much is read at a time: as many whole axes, from the last, as `most` elements hold, and of the axis
   before them as many indices as then fit. */
static void plan_blocks(cli_view *view, uint64_t most)
{
    uint64_t inner = 1;
    size_t axis = view->rank;
    while (axis > 0 && view->axes[axis - 1].count <= most / inner) {
        axis--;
        inner *= view->axes[axis].count;
        view->indices[view->axes[axis].source] = axis_range(&view->axes[axis], 0, view->axes[axis].count);
    }
    view->block_axis = axis;
    view->block_most = axis == 0 ? inner : most / inner * inner;
}

coffer_status cli_view_open(cli_view *view, const coffer *model, const coffer_tensor *tensor,
                            const coffer_index *indices, size_t count, uint64_t most, coffer_error *err)
{
    const uint32_t bits = coffer_dtype_bits(tensor->dtype);
    size_t rank = 0;
    memset(view, 0, sizeof *view);
    view->model = model;
    view->tensor = tensor;
    uint64_t *shape = malloc(((size_t)tensor->rank + 1) * sizeof *shape);
    view->axes = malloc(((size_t)tensor->rank + 1) * sizeof *view->axes);
    view->indices = malloc(((size_t)tensor->rank + 1) * sizeof *view->indices);
    coffer_status status = COFFER_OK;
    if (shape == NULL || view->axes == NULL || view->indices == NULL) {
        status = no_memory(err);
        goto done;
    }
    status = coffer_slice_shape(tensor, indices, count, shape, &rank, NULL, err);
    if (status != COFFER_OK) {
        goto done;
    }
    view->elements = 1;
    set_axes(view, indices, count);
    for (size_t i = rank; i > 0; i--) {
        view->axes[i - 1].count = shape[i - 1];
        view->axes[i - 1].stride = view->elements;
        view->elements *= shape[i - 1]; /* of a slice, so no larger than the tensor's product unless it is 0 anyway */
    }
    for (size_t i = 0; i < rank; i++) {
        view->elements = shape[i] == 0 ? 0 : view->elements;
    }
    if (view->elements > 0) {
        plan_blocks(view, bits % 8 != 0 ? view->elements : most);
        view->block = coffer_buffer_new((size_t)((view->block_most * bits + 7) / 8));
        status = view->block == NULL ? no_memory(err) : COFFER_OK;
    }
done:
    free(shape);
    if (status != COFFER_OK) {
        cli_view_free(view);
    }
    return status;
}

/* Reads the block that element `index` belongs to. */
static coffer_status read_block(cli_view *view, uint64_t index, coffer_error *err)
{
    uint64_t first = 0;
    uint64_t count = view->elements;
    if (view->block_axis > 0) {
        const cli_axis *axis = &view->axes[view->block_axis - 1];
        const uint64_t at = index / axis->stride % axis->count;
        const uint64_t left = axis->count - at;
        const uint64_t fit = view->block_most / axis->stride;
        const uint64_t take = fit < left ? fit : left;
        first = index / axis->stride * axis->stride;
        count = take * axis->stride;
        view->indices[axis->source] = axis_range(axis, at, take);
        for (size_t i = 0; i + 1 < view->block_axis; i++) {
            const cli_axis *outer = &view->axes[i];
            view->indices[outer->source] = axis_range(outer, index / outer->stride % outer->count, 1);
        }
    }
    const uint64_t size = (count * coffer_dtype_bits(view->tensor->dtype) + 7) / 8;
    const coffer_status status =
        coffer_read_slice(view->model, view->tensor, view->indices, view->tensor->rank, view->block, size, NULL, err);
    view->block_first = first;
    view->block_count = status == COFFER_OK ? count : 0;
    return status;
}

coffer_status cli_view_need(cli_view *view, uint64_t index, const void **data, uint64_t *at, coffer_error *err)
{
    if (index < view->block_first || index - view->block_first >= view->block_count) {
        const coffer_status status = read_block(view, index, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    *data = view->block;
    *at = index - view->block_first;
    return COFFER_OK;
}

void cli_view_free(cli_view *view)
{
    if (view->block != NULL) {
        const uint64_t bits = coffer_dtype_bits(view->tensor->dtype);
        coffer_buffer_free(view->block, (size_t)((view->block_most * bits + 7) / 8));
    }
    free(view->axes);
    free(view->indices);
    memset(view, 0, sizeof *view);
}
