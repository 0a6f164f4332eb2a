/* SPDX-License-Identifier: Apache-2.0 */
/* The state and its places: see browse.h for the contract. Events are in browse_keys.c. */
#include "browse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE_FROM 100 /* columns from which on the details have space beside the list */
#define SIDE_MAX 64
#define FRAME_ROWS 3 /* the title, the names of the columns, the last line */

bool browse_begin(browse *state, const browse_data *data, size_t columns, size_t rows)
{
    memset(state, 0, sizeof *state);
    state->data = data;
    state->tree.data = data;
    state->columns = columns;
    state->rows = rows;
    return browse_tree_make(&state->tree, "", 0, browse_list_rows(state));
}

void browse_free(browse *state)
{
    browse_tree_free(&state->tree);
    browse_text_free(&state->page);
    memset(state, 0, sizeof *state);
}

void browse_say(browse *state, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(state->message, sizeof state->message, format, values);
    va_end(values);
}

/* ---- Places ---- */

bool browse_is_small(const browse *state)
{
    return state->columns < BROWSE_MIN_COLUMNS || state->rows < BROWSE_MIN_ROWS;
}

size_t browse_list_rows(const browse *state)
{
    return state->rows > FRAME_ROWS ? state->rows - FRAME_ROWS : 1;
}

size_t browse_side_columns(const browse *state)
{
    if (state->columns < SIDE_FROM) {
        return 0;
    }
    const size_t share = state->columns * 2 / 5;
    return share < SIDE_MAX ? share : SIDE_MAX;
}

size_t browse_list_columns(const browse *state)
{
    const size_t side = browse_side_columns(state);
    return side > 0 ? state->columns - side - 1 : state->columns;
}

size_t browse_page_columns(const browse *state)
{
    const size_t columns = state->view == BROWSE_VIEW_LIST ? browse_side_columns(state) : state->columns;
    return columns > 2 ? columns - 2 : 0;
}

void browse_settle(browse *state)
{
    const size_t rows = browse_list_rows(state);
    const size_t count = state->tree.row_count;
    if (state->cursor >= count) {
        state->cursor = count > 0 ? count - 1 : 0;
    }
    if (state->top > state->cursor) {
        state->top = state->cursor;
    }
    if (state->cursor - state->top >= rows) {
        state->top = state->cursor - rows + 1;
    }
    if (state->top + rows > count) {
        state->top = count > rows ? count - rows : 0;
    }
}

void browse_resize(browse *state, size_t columns, size_t rows)
{
    state->columns = columns;
    state->rows = rows;
    if (browse_side_columns(state) == 0) {
        state->focus = false;
    } else if (state->view == BROWSE_VIEW_DETAILS) {
        state->view = BROWSE_VIEW_LIST;
        state->focus = true;
    }
    browse_settle(state);
}

uint32_t browse_wanted(const browse *state)
{
    const bool seen = state->view == BROWSE_VIEW_DETAILS || state->view == BROWSE_VIEW_SLICE ||
                      (state->view == BROWSE_VIEW_LIST && browse_side_columns(state) > 0);
    if (!seen || browse_is_small(state) || state->cursor >= state->tree.row_count) {
        return BROWSE_NONE;
    }
    return browse_row_item(&state->tree, &state->tree.rows[state->cursor]);
}

uint32_t *browse_items_below(const browse *state, size_t *count)
{
    const browse_tree *tree = &state->tree;
    *count = 0;
    if (state->cursor >= tree->row_count) {
        return NULL;
    }
    const browse_row *row = &tree->rows[state->cursor];
    const uint32_t item = browse_row_item(tree, row);
    const browse_node *node = item == BROWSE_NONE ? &tree->nodes[row->node] : NULL;
    uint32_t *items = malloc((node != NULL ? (size_t)node->tensors : 1) * sizeof *items);
    if (items == NULL) {
        return NULL;
    }
    if (node == NULL) {
        items[(*count)++] = item;
        return items;
    }
    for (size_t f = node->first_fold; f < (size_t)node->first_fold + node->fold_count; f++) {
        const cli_fold *fold = &tree->folds.folds[f];
        for (size_t i = fold->first; i < fold->first + fold->count; i++) {
            items[(*count)++] = tree->items[tree->folds.leaves[i].item];
        }
    }
    return items;
}
