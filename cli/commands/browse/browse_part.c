/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of tensors: see browse_part.h for the contract. */
#include "browse_part.h"

bool browse_part_has_rows(const coffer_tensor *tensor)
{
    return tensor->rank >= 2 && coffer_dtype_bits(tensor->dtype) % 8 == 0;
}

bool browse_part_same(const browse_part *a, const browse_part *b)
{
    return a->item == b->item && a->rows == b->rows && a->columns == b->columns && a->matrix == b->matrix &&
           a->row == b->row && a->column == b->column;
}

/* The last place of `size` things among `all`, or the first where there are fewer; `place` if it comes before that. */
static uint64_t place_within(uint64_t place, uint64_t size, uint64_t all)
{
    const uint64_t last = all > size ? all - size : 0;
    return place < last ? place : last;
}

static uint32_t at_most(uint32_t size, uint64_t all)
{
    return size < all ? size : (uint32_t)all;
}

void browse_part_fit(browse_part *part, const coffer_tensor *tensor)
{
    const uint64_t elements = coffer_tensor_elements(tensor);
    part->rows = at_most(part->rows, BROWSE_PART_MAX);
    part->columns = at_most(part->columns, BROWSE_PART_MAX);
    if (browse_part_has_rows(tensor)) {
        const uint64_t rows = tensor->shape[tensor->rank - 2];
        const uint64_t columns = tensor->shape[tensor->rank - 1];
        part->rows = at_most(part->rows, rows);
        part->columns = at_most(part->columns, columns);
        part->matrix = place_within(part->matrix, 1, elements / rows / columns);
        part->row = place_within(part->row, part->rows, rows);
        part->column = place_within(part->column, part->columns, columns);
        return;
    }
    part->columns = at_most(part->columns, elements);
    part->rows = at_most(part->rows, (elements - 1) / part->columns + 1);
    part->matrix = 0;
    part->row = place_within(part->row, (uint64_t)part->rows * part->columns, elements);
    part->column = 0;
}

void browse_part_move(browse_part *part, const coffer_tensor *tensor, browse_axis axis, uint64_t steps, bool back)
{
    uint64_t *place = axis == BROWSE_AXIS_ROWS      ? &part->row
                      : axis == BROWSE_AXIS_COLUMNS ? &part->column
                                                    : &part->matrix;
    const uint64_t step = axis == BROWSE_AXIS_ROWS && !browse_part_has_rows(tensor) ? part->columns : 1;
    const uint64_t capacity = back ? *place : UINT64_MAX - *place;
    const uint64_t way = steps <= capacity / step ? steps * step : capacity;
    *place = back ? *place - way : *place + way;
    browse_part_fit(part, tensor);
}

uint32_t browse_part_row_length(const browse_part *part, const coffer_tensor *tensor, uint32_t row)
{
    const uint64_t before = part->row + (uint64_t)row * part->columns;
    return browse_part_has_rows(tensor) ? part->columns
                                        : at_most(part->columns, coffer_tensor_elements(tensor) - before);
}

uint64_t browse_part_index(const browse_part *part, const coffer_tensor *tensor, uint32_t row)
{
    const uint64_t before = browse_part_has_rows(tensor) ? 0 : part->row % 8; /* where a line's first byte begins */
    return before + (uint64_t)row * part->columns;
}
