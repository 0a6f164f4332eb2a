/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a tensor, as it is seen: some rows and columns of one of the matrices that its last two dimensions make. A
 * tensor that has fewer, or elements that share bytes, is one line of elements instead, of which each row of the part has
 * the next.
 */
#ifndef COFFER_BROWSE_PART_H
#define COFFER_BROWSE_PART_H

#include "coffer.h"

#define BROWSE_PART_MAX 64 /* rows and columns */
#define BROWSE_PART_BYTES                                                                                              \
    ((BROWSE_PART_MAX * BROWSE_PART_MAX + 16) * 8) /* of elements, and of those that share bytes with them */

typedef struct browse_part {
    uint32_t item; /* the tensor; BROWSE_NONE: none */
    uint32_t rows;
    uint32_t columns;
    uint64_t matrix; /* counted over all dimensions but the last two */
    uint64_t row;    /* the first one, of a line the first element */
    uint64_t column;
} browse_part;

typedef enum browse_axis { BROWSE_AXIS_ROWS, BROWSE_AXIS_COLUMNS, BROWSE_AXIS_MATRICES } browse_axis;

/* Whether a tensor is made of matrices. */
bool browse_part_has_rows(const coffer_tensor *tensor);
bool browse_part_same(const browse_part *a, const browse_part *b);
/* Makes a part at most as large as the tensor, which has elements, and moves it inside. It has a row and a column. */
void browse_part_fit(browse_part *part, const coffer_tensor *tensor);
/* Moves a part that fits by so many rows, columns or matrices, as far as there are some. */
void browse_part_move(browse_part *part, const coffer_tensor *tensor, browse_axis axis, uint64_t steps, bool back);
/* Elements in a row of a part that fits; only the last one of a line may have fewer than others, and none. */
uint32_t browse_part_row_length(const browse_part *part, const coffer_tensor *tensor, uint32_t row);
/* Where, among those that are read of it, the first element of its row is. */
uint64_t browse_part_index(const browse_part *part, const coffer_tensor *tensor, uint32_t row);

#endif
