/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a tensor that are seen, below its details or as a page that one moves over it, as numbers or as shades. */
#include "browse.h"

#include "cli_text.h"
#include "cli_values.h"
#include "cli_width.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CORNER_ROWS 16
#define HEAD_ROWS 3   /* of the page: the name, the place, the numbers of the columns */
#define LEADING_MAX 8 /* indices that are written before the last two */
#define NUMBER_COLUMNS 10
#define SHADE_COLUMNS 2

/* ---- Which part ---- */

/* Columns of an element. Floats are rounded to fit; integers are whole. */
static size_t cell_columns(const browse *state, coffer_dtype dtype)
{
    const coffer_kind kind = coffer_dtype_kind(dtype);
    const bool integer = kind == COFFER_KIND_SIGNED || kind == COFFER_KIND_UNSIGNED;
    if (state->shades) {
        return SHADE_COLUMNS;
    }
    if (integer && coffer_dtype_bits(dtype) >= 32) {
        return coffer_dtype_bits(dtype) > 32 ? 21 : 12;
    }
    return kind == COFFER_KIND_COMPLEX ? (size_t)2 * NUMBER_COLUMNS : NUMBER_COLUMNS;
}

/* Columns of what is before a row: its number, or in a line that of its first element, and a space. */
static size_t label_columns(const coffer_tensor *tensor)
{
    char text[CLI_NUMBER_SIZE];
    const bool rows = browse_part_has_rows(tensor);
    return cli_number_text(text, rows ? tensor->shape[tensor->rank - 2] : coffer_tensor_elements(tensor), false) + 1;
}

browse_part browse_seen_part(const browse *state)
{
    const uint32_t item = browse_wanted(state);
    const coffer_tensor *tensor = item != BROWSE_NONE ? browse_tensor_at(state->data, item) : NULL;
    browse_part part = { .item = BROWSE_NONE };
    if (tensor == NULL || tensor->size == 0 || tensor->dtype == COFFER_UNKNOWN_DTYPE) {
        return part;
    }
    const bool page = state->view == BROWSE_VIEW_SLICE;
    const size_t rows = page ? browse_list_rows(state) + 1 - HEAD_ROWS : CORNER_ROWS;
    const size_t width = browse_page_columns(state) - (page ? label_columns(tensor) : 0);
    const size_t columns = width / cell_columns(state, tensor->dtype);
    part.item = item;
    if (state->place.item == item) {
        part = state->place;
    }
    part.rows = (uint32_t)rows;
    part.columns = columns > 0 ? (uint32_t)columns : 1;
    browse_part_fit(&part, tensor);
    return part;
}

void browse_move_slice(browse *state, browse_axis axis, uint64_t steps, bool back)
{
    browse_part part = browse_seen_part(state);
    if (part.item != BROWSE_NONE) {
        browse_part_move(&part, browse_tensor_at(state->data, part.item), axis, steps, back);
        state->place = part;
    }
}

/* ---- Numbers and shades ---- */

/* Of a complex number its size. */
static double value_at(const coffer_tensor *tensor, const browse_slice *slice, uint64_t index)
{
    double values[2] = { 0, 0 };
    coffer_decode(tensor->dtype, slice->bytes, index, 1, values);
    return coffer_dtype_kind(tensor->dtype) == COFFER_KIND_COMPLEX ? hypot(values[0], values[1]) : values[0];
}

/* The largest size of a finite number that is seen. */
static double largest_of(const coffer_tensor *tensor, const browse_slice *slice)
{
    double most = 0;
    for (uint32_t row = 0; row < slice->part.rows; row++) {
        const uint64_t first = browse_part_index(&slice->part, tensor, row);
        for (uint32_t i = 0; i < browse_part_row_length(&slice->part, tensor, row); i++) {
            const double size = fabs(value_at(tensor, slice, first + i));
            most = isfinite(size) && size > most ? size : most;
        }
    }
    return most;
}

/* The shade of a number: the middle one is zero, and the ends are the largest that is seen. */
static unsigned shade_of(double value, double most)
{
    const unsigned middle = BROWSE_SHADES / 2;
    if (!(most > 0)) {
        return middle;
    }
    const double share = value / most;
    const double bounded = share > 1 ? 1 : share < -1 ? -1 : share;
    return (unsigned)((bounded + 1) * middle + 0.5);
}

static void put_shade(browse_text *page, double value, double most)
{
    if (isnan(value)) {
        browse_put_text(page, "? ");
    } else {
        browse_put_shade(page, shade_of(value, most));
    }
}

static void put_value(browse_text *page, const coffer_tensor *tensor, const browse_slice *slice, uint64_t index,
                      size_t width)
{
    char text[CLI_VALUE_SIZE];
    const size_t len = cli_value_text(text, tensor->dtype, slice->bytes, index, false);
    if (len >= width && coffer_dtype_kind(tensor->dtype) == COFFER_KIND_FLOAT) {
        /* The shortest that reads back is too long here. */
        snprintf(text, sizeof text, "%.3g", value_at(tensor, slice, index));
    }
    browse_putf(page, "%*s", (int)width, text);
}

/* ---- All that is seen ---- */

/* "[1, 0:16, 8:14]", or of a line "elements 0:96". */
static void put_place(browse_text *page, const coffer_tensor *tensor, const browse_part *part)
{
    if (!browse_part_has_rows(tensor)) {
        const uint32_t last = browse_part_row_length(part, tensor, part->rows - 1);
        browse_putf(page, "elements %" PRIu64 ":%" PRIu64, part->row,
                    part->row + (uint64_t)(part->rows - 1) * part->columns + last);
        return;
    }
    uint64_t below = coffer_tensor_elements(tensor); /* elements of one index, of the dimension that is next */
    uint64_t rest = part->matrix * tensor->shape[tensor->rank - 2] * tensor->shape[tensor->rank - 1];
    browse_put_text(page, "[");
    for (uint32_t i = 0; i + 2 < tensor->rank && i < LEADING_MAX; i++) {
        below /= tensor->shape[i];
        browse_putf(page, "%" PRIu64 ", ", rest / below);
        rest %= below;
    }
    browse_putf(page, "%s%" PRIu64 ":%" PRIu64 ", %" PRIu64 ":%" PRIu64 "]",
                tensor->rank - 2 > LEADING_MAX ? "..., " : "", part->row, part->row + part->rows, part->column,
                part->column + part->columns);
}

static void put_row(const browse *state, browse_text *page, const coffer_tensor *tensor, uint32_t row, uint32_t columns,
                    double most)
{
    const browse_slice *slice = &state->slice;
    const size_t width = cell_columns(state, tensor->dtype);
    const uint64_t first = browse_part_index(&slice->part, tensor, row);
    const uint32_t length = browse_part_row_length(&slice->part, tensor, row);
    for (uint32_t i = 0; i < length && i < columns; i++) {
        if (state->shades) {
            put_shade(page, value_at(tensor, slice, first + i), most);
        } else {
            put_value(page, tensor, slice, first + i, width);
        }
    }
}

/* As much of what was read as there is space for now: it may be from before the screen changed. */
static void put_rows(const browse *state, browse_text *page, const coffer_tensor *tensor, const browse_part *capacity,
                     size_t labels)
{
    const browse_part *part = &state->slice.part;
    const double most = state->shades ? largest_of(tensor, &state->slice) : 0;
    const uint64_t step = browse_part_has_rows(tensor) ? 1 : part->columns;
    for (uint32_t row = 0; row < part->rows && row < capacity->rows; row++) {
        browse_put_text(page, "\n");
        if (labels > 0) {
            browse_put_style(page, CLI_DIM);
            browse_putf(page, "%*" PRIu64 " ", (int)labels - 1, part->row + row * step);
            browse_put_style(page, CLI_PLAIN);
        }
        put_row(state, page, tensor, row, capacity->columns, most);
    }
}

/* Where it is, and on a page which numbers the columns of a matrix have. */
static void put_heads(const browse *state, browse_text *page, const coffer_tensor *tensor, const browse_part *part,
                      size_t labels)
{
    const size_t width = cell_columns(state, tensor->dtype);
    browse_put_style(page, CLI_DIM);
    put_place(page, tensor, part);
    browse_putf(page, "   v: %s", state->shades ? "numbers" : "shades");
    if (labels > 0) {
        browse_putf(page, "\n%*s", (int)labels, "");
        for (uint32_t i = 0; i < part->columns && !state->shades && browse_part_has_rows(tensor); i++) {
            browse_putf(page, "%*" PRIu64, (int)width, part->column + i);
        }
    }
    browse_put_style(page, CLI_PLAIN);
}

static void put_slice(const browse *state, browse_text *page, const coffer_tensor *tensor, size_t labels)
{
    const browse_part part = browse_seen_part(state);
    const browse_slice *slice = &state->slice;
    const bool known = slice->part.item == part.item && slice->stage == BROWSE_STAGE_DONE;
    put_heads(state, page, tensor, known ? &slice->part : &part, labels);
    if (known) {
        put_rows(state, page, tensor, &part, labels);
    } else if (slice->stage == BROWSE_STAGE_FAILED) {
        browse_put_text(page, "\n");
        browse_put_styled(page, CLI_RED, slice->trouble);
    } else {
        browse_put_styled(page, CLI_DIM,
                          state->asks && slice->stage == BROWSE_STAGE_NOTHING
                              ? "\nr reads these numbers from the network."
                              : "\nreading its numbers …");
    }
}

void browse_put_slice(const browse *state, browse_text *page, const coffer_tensor *tensor)
{
    if (browse_seen_part(state).item != BROWSE_NONE) {
        put_slice(state, page, tensor, 0);
    }
}

/* ---- The page ---- */

void browse_write_slice(const browse *state, browse_text *page)
{
    const browse_part part = browse_seen_part(state);
    char name[1024];
    if (part.item == BROWSE_NONE) {
        return;
    }
    const coffer_tensor *tensor = browse_tensor_at(state->data, part.item);
    coffer_escape(tensor->name, tensor->name_len, name, sizeof name);
    name[cli_text_fit(name, strlen(name), page->width)] = '\0';
    browse_put_styled(page, CLI_BOLD, name);
    browse_put_text(page, "\n");
    put_slice(state, page, tensor, label_columns(tensor));
}
