/* SPDX-License-Identifier: Apache-2.0 */
/* The state as cells. Every name that is drawn is escaped first, so that it is seen as what it is. */
#include "browse.h"

#include "browse_match.h"
#include "cli_names.h"
#include "cli_text.h"
#include "cli_width.h"
#include "ls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_COLUMNS 9  /* "999.9 MB" and a space */
#define SHARE_COLUMNS 7 /* "100.0 %" */
#define SHAPE_MAX 24
#define NAME_MIN 24
#define LABEL_MAX 1024 /* bytes of a name that are drawn; no screen has space for more */

static const cli_pen plain_pen = { .look = 0 };
static const cli_pen bold_pen = { .look = CLI_PEN_BOLD };
static const cli_pen dim_pen = { .look = CLI_PEN_DIM };
static const cli_pen title_pen = { .look = CLI_PEN_REVERSE };
static const cli_pen cyan_pen = { .ink = CLI_INK(6) };

static size_t draw_words(cli_screen *screen, size_t x, size_t y, size_t most, const char *words, cli_pen pen)
{
    return cli_screen_put(screen, x, y, most, words, strlen(words), pen);
}

/* Aligned to the right end of `most` columns. */
static void draw_right(cli_screen *screen, size_t x, size_t y, size_t most, const char *words, cli_pen pen)
{
    const size_t width = cli_text_width(words, strlen(words));
    const size_t indent = width < most ? most - width : 0;
    draw_words(screen, x + indent, y, most - indent, words, pen);
}

/* Where the end of the text begins that takes at most `columns`. */
static size_t tail_start(const char *text, size_t text_len, size_t columns)
{
    size_t start = text_len;
    while (start > 0) {
        size_t before = start - 1;
        while (before > 0 && ((unsigned char)text[before] & 0xC0) == 0x80) {
            before--;
        }
        if (cli_text_width(text + before, text_len - before) > columns) {
            break;
        }
        start = before;
    }
    return start;
}

/* Cut in the middle where it is too long; `keep` columns at its end stay in any case, if they can. Returns the columns. */
static size_t draw_cut(cli_screen *screen, size_t x, size_t y, size_t most, const char *text, size_t keep, cli_pen pen)
{
    const size_t len = strlen(text);
    if (cli_text_width(text, len) <= most) {
        return cli_screen_put(screen, x, y, most, text, len, pen);
    }
    const size_t half = most > 0 ? (most - 1) / 2 : 0;
    const size_t tail = keep > half && keep + 4 < most ? keep : half;
    const size_t start = tail_start(text, len, tail);
    const size_t head = most > tail + 1 ? most - tail - 1 : 0;
    size_t used = cli_screen_put(screen, x, y, head, text, len, pen);
    used += draw_words(screen, x + used, y, most - used, "…", pen);
    return used + cli_screen_put(screen, x + used, y, most - used, text + start, len - start, pen);
}

/* ---- The title and the last line ---- */

static void path_text(const char *path, char *text, size_t size)
{
    coffer_escape(path, strlen(path), text, size);
}

static void draw_title(const browse *state, cli_screen *screen)
{
    char paths[2][512];
    char title[1100];
    char about[128];
    char count[CLI_NUMBER_SIZE];
    char bytes[CLI_NUMBER_SIZE];
    const browse_data *data = state->data;
    path_text(data->paths[0], paths[0], sizeof paths[0]);
    path_text(data->paths[1] != NULL ? data->paths[1] : "", paths[1], sizeof paths[1]);
    snprintf(title, sizeof title, data->models[1] != NULL ? "%s ↔ %s" : "%s", paths[0], paths[1]);
    cli_number_text(count, data->count, true);
    cli_bytes_text(bytes, data->bytes);
    snprintf(about, sizeof about, "%s tensor%s, %s", count, data->count == 1 ? "" : "s", bytes);
    const size_t about_width = cli_text_width(about, strlen(about));
    const size_t capacity = state->columns > about_width + 4 ? state->columns - about_width - 4 : 0;
    cli_screen_fill(screen, 0, 0, state->columns, ' ', title_pen);
    draw_cut(screen, 1, 0, capacity, title, 0, title_pen);
    draw_right(screen, state->columns - about_width - 1, 0, about_width, about, title_pen);
}

/* The keys that matter most here. */
static const char *hints(const browse *state)
{
    const bool wide = state->columns >= 76;
    if (state->view == BROWSE_VIEW_HELP) {
        return wide ? "j k scroll   q back" : "q back";
    }
    if (state->view == BROWSE_VIEW_METADATA || state->view == BROWSE_VIEW_MAP) {
        return wide ? "j k scroll  / search  q back  ? keys" : "j k scroll  q back  ? keys";
    }
    if (state->view == BROWSE_VIEW_SLICE) {
        return wide ? "h j k l move  , . other dimensions  v shades  q back  ? keys" : "h j k l , .  q back  ? keys";
    }
    if (state->view == BROWSE_VIEW_LIST && !state->focus) {
        return state->data->pairs == NULL
                   ? (wide ? "/ search  f filter  s sort  t flat  m metadata  b bytes  ? keys  q quit"
                           : "/ f s m b  ? keys  q quit")
                   : (wide ? "/ search  f filter  d differing  c compare bytes  ? keys  q quit"
                           : "/ f d c  ? keys  q quit");
    }
    return wide ? "j k scroll  / search  Enter numbers  v shades  q back  ? keys"
                : "j k scroll  Enter numbers  q back  ?";
}

static void draw_prompt(const browse *state, cli_screen *screen, size_t y)
{
    char text[2 * BROWSE_INPUT_MAX];
    const char *label = state->prompt == BROWSE_PROMPT_SEARCH ? "/" : "filter: ";
    size_t used = draw_words(screen, 0, y, state->columns, label, (cli_pen){ .look = CLI_PEN_BOLD });
    coffer_escape(state->input.text, state->input.len, text, sizeof text);
    /* Its end is where the cursor is, so its beginning gives way. */
    const size_t start = tail_start(text, strlen(text), state->columns - used - 1);
    used += draw_words(screen, used, y, state->columns - used - 1, text + start, plain_pen);
    cli_screen_cursor(screen, used, y);
    if (state->message[0] != '\0') {
        draw_words(screen, used + 2, y, state->columns - used > 2 ? state->columns - used - 2 : 0, state->message,
                   dim_pen);
    }
}

static void progress_text(const browse_progress *progress, char *text, size_t size)
{
    const unsigned percent =
        progress->total > 0 ? (unsigned)((double)progress->done * 100.0 / (double)progress->total) : 100;
    if (progress->running) {
        snprintf(text, size, "comparing %u %%, %" PRIu64 " differ (Esc stops)", percent, progress->differing);
    } else if (progress->unreadable > 0) {
        snprintf(text, size, "compared: %" PRIu64 " differ, %" PRIu64 " cannot be read", progress->differing,
                 progress->unreadable);
    } else {
        snprintf(text, size, "compared: %" PRIu64 " differ", progress->differing);
    }
}

static void draw_last_line(const browse *state, cli_screen *screen)
{
    const size_t y = state->rows - 1;
    char place[2 * CLI_NUMBER_SIZE + 8] = "";
    if (state->prompt != BROWSE_PROMPT_NONE) {
        draw_prompt(state, screen, y);
        return;
    }
    if (state->view == BROWSE_VIEW_LIST) {
        char row[CLI_NUMBER_SIZE];
        char rows[CLI_NUMBER_SIZE];
        cli_number_text(row, state->tree.row_count > 0 ? state->cursor + 1 : 0, true);
        cli_number_text(rows, state->tree.row_count, true);
        snprintf(place, sizeof place, "%s/%s", row, rows);
    }
    const size_t place_width = strlen(place);
    const size_t capacity = state->columns - place_width - 2;
    char text[600];
    if (state->message[0] != '\0') {
        draw_words(screen, 0, y, capacity, state->message, (cli_pen){ .ink = CLI_INK(3) });
    } else if (state->compared.running || state->compared.total > 0) {
        progress_text(&state->compared, text, sizeof text);
        draw_words(screen, 0, y, capacity, text, (cli_pen){ .ink = CLI_INK(3) });
    } else if (state->filter.len > 0) {
        char shown[2 * BROWSE_INPUT_MAX];
        coffer_escape(state->filter.text, state->filter.len, shown, sizeof shown);
        snprintf(text, sizeof text, "filter: %s (Esc: all)", shown);
        draw_words(screen, 0, y, capacity, text, dim_pen);
    } else {
        draw_words(screen, 0, y, capacity, hints(state), dim_pen);
    }
    draw_right(screen, state->columns - place_width - 1, y, place_width, place, dim_pen);
}

/* ---- The list ---- */

/* Columns of each cell; 0: it is not shown. */
typedef struct list_columns {
    size_t name;
    size_t dtype;
    size_t shape;
    size_t size;
    size_t share;
} list_columns;

static size_t digits_of(uint64_t number)
{
    size_t digits = 1;
    while (number >= 10) {
        number /= 10;
        digits++;
    }
    return digits;
}

/* The widest dtype and shape among all that could be listed, so that columns stay where they are. */
static void measure(const browse_tree *tree, size_t *dtype, size_t *shape)
{
    *dtype = 5;
    *shape = 5;
    for (size_t i = 0; i < tree->folds.fold_count; i++) {
        const coffer_tensor *tensor = tree->folds.leaves[tree->folds.folds[i].first].tensor;
        const size_t dtype_len = strlen(coffer_tensor_dtype_name(tensor));
        size_t shape_len = tensor->rank > 0 ? (size_t)2 * tensor->rank : 2;
        for (uint32_t k = 0; k < tensor->rank && shape_len < SHAPE_MAX; k++) {
            shape_len += digits_of(tensor->shape[k]);
        }
        *dtype = dtype_len > *dtype ? dtype_len : *dtype;
        *shape = shape_len > *shape ? shape_len : *shape;
    }
    *dtype = *dtype < 11 ? *dtype : 11;
    *shape = *shape < SHAPE_MAX ? *shape : SHAPE_MAX;
}

/* Gives a column its width and a space before it, if the name keeps enough. */
static void give_column(list_columns *columns, size_t *column, size_t width)
{
    if (columns->name >= NAME_MIN + width + 1) {
        *column = width;
        columns->name -= width + 1;
    }
}

static list_columns lay_columns(const browse *state)
{
    list_columns columns = { .name = browse_list_columns(state) };
    size_t dtype = 0;
    size_t shape = 0;
    measure(&state->tree, &dtype, &shape);
    give_column(&columns, &columns.size, SIZE_COLUMNS);
    give_column(&columns, &columns.dtype, dtype);
    give_column(&columns, &columns.shape, shape);
    give_column(&columns, &columns.share, SHARE_COLUMNS);
    return columns;
}

static void draw_cells(cli_screen *screen, const list_columns *columns, size_t y, const char *const cells[4],
                       cli_pen pen, cli_pen dtype_pen)
{
    size_t x = columns->name + 1;
    if (columns->dtype > 0) {
        draw_cut(screen, x, y, columns->dtype, cells[0], 0, dtype_pen);
        x += columns->dtype + 1;
    }
    if (columns->shape > 0) {
        draw_cut(screen, x, y, columns->shape, cells[1], 0, pen);
        x += columns->shape + 1;
    }
    if (columns->size > 0) {
        draw_right(screen, x, y, columns->size, cells[2], pen);
        x += columns->size + 1;
    }
    if (columns->share > 0) {
        draw_right(screen, x, y, columns->share, cells[3], pen);
    }
}

static void draw_heads(const browse *state, cli_screen *screen, const list_columns *columns)
{
    static const char *const cells[4] = { "dtype", "shape", "size", "share" };
    static const char *const sorts[] = { "", " (by name)", " (by size)", " (by dtype)", " (by elements)" };
    char name[64];
    snprintf(name, sizeof name, "%sname%s", state->data->pairs != NULL ? "    " : "  ", sorts[state->tree.sort]);
    draw_words(screen, 0, 1, columns->name, name, dim_pen);
    draw_cells(screen, columns, 1, cells, dim_pen, dim_pen);
}

/* One letter for how two models differ about a row, and its colour. */
static char difference_mark(const browse *state, const browse_row *row, cli_pen *pen)
{
    const uint32_t item = browse_row_item(&state->tree, row);
    *pen = (cli_pen){ .ink = CLI_INK(3) };
    if (item == BROWSE_NONE) {
        return state->tree.nodes[row->node].differing > 0 ? '~' : ' ';
    }
    switch (browse_difference_at(state->data, item)) {
    case BROWSE_ONLY_A:
        pen->ink = CLI_INK(1);
        return 'A';
    case BROWSE_ONLY_B:
        pen->ink = CLI_INK(2);
        return 'B';
    case BROWSE_OTHER_KIND:
        return '~';
    default:
        break;
    }
    static const char marks[] = { ' ', '=', '!', '?' };
    return state->work != NULL ? marks[browse_work_same(state->work, item)] : ' ';
}

/* The same of a row that stands for many, once their bytes were compared. */
static char bytes_mark(const browse *state, const browse_row *row)
{
    const cli_fold *fold = browse_row_fold(&state->tree, row);
    bool all = state->work != NULL && fold != NULL && fold->count > 1;
    bool differ = false;
    for (size_t i = 0; fold != NULL && state->work != NULL && i < fold->count && !differ; i++) {
        const uint32_t item = state->tree.items[state->tree.folds.leaves[fold->first + i].item];
        const browse_same same = browse_work_same(state->work, item);
        differ = same == BROWSE_DIFFERS;
        all = all && same == BROWSE_SAME;
    }
    return differ ? '!' : all ? '=' : ' ';
}

/* Of the name of a tensor in a fold, the part that tells it from the others: from the part before its first number to its
   last number. */
static const char *telling_part(const coffer_tensor *tensor, size_t *len)
{
    size_t start = SIZE_MAX;
    size_t end = 0;
    size_t part = 0;   /* where the part that is looked at begins */
    size_t before = 0; /* where the part before that begins */
    for (size_t at = 0; at < tensor->name_len;) {
        const size_t digits = cli_number_at(tensor->name, tensor->name_len, at);
        if (digits > 0) {
            start = start == SIZE_MAX ? (at == part ? before : part) : start;
            end = at + digits;
        }
        if (tensor->name[at] == '.' || tensor->name[at] == '/') {
            before = part;
            part = at + 1;
        }
        at += digits > 0 ? digits : 1;
    }
    start = start == SIZE_MAX ? 0 : start;
    *len = end > start ? end - start : tensor->name_len - start;
    return tensor->name + start;
}

/* What a row says, escaped; `tail_len` is how much of its end says how many tensors it is. */
static void row_text(const browse_tree *tree, const browse_row *row, char text[LABEL_MAX], size_t *tail_len)
{
    char tail[CLI_FOLD_TAIL_SIZE] = "";
    const cli_fold *fold = browse_row_fold(tree, row);
    const coffer_tensor *tensor = row->leaf != BROWSE_NONE ? tree->folds.leaves[row->leaf].tensor : NULL;
    size_t name_len = tensor != NULL ? tensor->name_len : tree->nodes[row->node].label_len;
    const char *name = tensor == NULL             ? tree->nodes[row->node].label
                       : row->node == BROWSE_NONE ? tensor->name
                                                  : telling_part(tensor, &name_len);
    if (fold != NULL) {
        cli_fold_tail(&tree->folds, fold, tail);
    }
    const size_t capacity = LABEL_MAX - CLI_FOLD_TAIL_SIZE;
    coffer_escape(name, name_len, text, capacity);
    *tail_len = cli_text_width(tail, strlen(tail));
    memcpy(text + strlen(text), tail, strlen(tail) + 1);
}

static size_t row_depth(const browse_tree *tree, const browse_row *row)
{
    return row->node == BROWSE_NONE ? 0 : tree->nodes[row->node].depth + (row->leaf != BROWSE_NONE);
}

static const char *row_sign(const browse_tree *tree, const browse_row *row)
{
    if (row->leaf != BROWSE_NONE || !browse_node_opens(tree, row->node)) {
        return "  ";
    }
    return tree->nodes[row->node].open ? "▾ " : "▸ ";
}

static void draw_name(const browse *state, cli_screen *screen, const browse_row *row, size_t y, size_t width)
{
    char text[LABEL_MAX];
    size_t tail = 0;
    size_t x = 0;
    size_t at = 0;
    if (state->data->pairs != NULL) {
        cli_pen pen = plain_pen;
        const char marks[2] = { difference_mark(state, row, &pen), bytes_mark(state, row) };
        x = 2;
        cli_screen_put(screen, 0, y, 1, marks, 1, pen);
        cli_screen_put(screen, 1, y, 1, marks + 1, 1, (cli_pen){ .ink = CLI_INK(3) });
    }
    const size_t indent = 2 * row_depth(&state->tree, row);
    x += indent < width / 3 ? indent : width / 3;
    x += draw_words(screen, x, y, 2, row_sign(&state->tree, row), dim_pen);
    row_text(&state->tree, row, text, &tail);
    const bool branch = row->leaf == BROWSE_NONE && state->tree.nodes[row->node].child != BROWSE_NONE;
    const size_t capacity = width > x ? width - x : 0;
    const size_t used = draw_cut(screen, x, y, capacity, text, tail, branch ? bold_pen : plain_pen);
    const bool whole = used == cli_text_width(text, strlen(text));
    if (whole && browse_finds(text, strlen(text), state->search.text, state->search.len, &at)) {
        cli_screen_mark(screen, x + cli_text_width(text, at), y, cli_text_width(text + at, state->search.len),
                        CLI_PEN_UNDERLINE);
    }
}

static const coffer_tensor *row_tensor(const browse_tree *tree, const browse_row *row)
{
    const cli_fold *fold = browse_row_fold(tree, row);
    return row->leaf != BROWSE_NONE ? tree->folds.leaves[row->leaf].tensor
           : fold != NULL           ? tree->folds.leaves[fold->first].tensor
                                    : NULL;
}

static void draw_row(const browse *state, cli_screen *screen, const list_columns *columns, size_t index, size_t y)
{
    const browse_row *row = &state->tree.rows[index];
    const coffer_tensor *tensor = row_tensor(&state->tree, row);
    uint64_t bytes = row->leaf != BROWSE_NONE ? 0 : state->tree.nodes[row->node].bytes;
    char shape[LS_SHAPE_SIZE] = "";
    char dtype[64] = "";
    char size[CLI_NUMBER_SIZE];
    char share[CLI_NUMBER_SIZE] = "";
    if (tensor != NULL) {
        const char *name = coffer_tensor_dtype_name(tensor);
        bytes = row->leaf != BROWSE_NONE ? tensor->size : bytes;
        ls_shape_text(shape, tensor);
        coffer_escape(name, strlen(name), dtype, sizeof dtype);
    }
    cli_bytes_text(size, bytes);
    if (state->data->bytes > 0) {
        snprintf(share, sizeof share, "%.1f %%", (double)bytes * 100.0 / (double)state->data->bytes);
    }
    draw_name(state, screen, row, y, columns->name);
    const char *const cells[4] = { dtype, shape, size, share };
    draw_cells(screen, columns, y, cells, plain_pen, cyan_pen);
    if (index == state->cursor) {
        const bool quiet = state->focus;
        cli_screen_mark(screen, 0, y, browse_list_columns(state), quiet ? CLI_PEN_BOLD : CLI_PEN_REVERSE);
    }
}

static void draw_list(const browse *state, cli_screen *screen)
{
    const list_columns columns = lay_columns(state);
    draw_heads(state, screen, &columns);
    for (size_t i = 0; i < browse_list_rows(state) && state->top + i < state->tree.row_count; i++) {
        draw_row(state, screen, &columns, state->top + i, 2 + i);
    }
    if (state->tree.row_count == 0) {
        const char *why = state->data->count == 0 ? "this model has no tensors" : "no tensor matches";
        draw_words(screen, 2, 3, browse_list_columns(state) - 2, why, dim_pen);
    }
}

/* ---- All of it ---- */

static void draw_page(browse *state, cli_screen *screen, size_t x)
{
    const size_t rows = browse_list_rows(state) + 1;
    const size_t width = browse_page_columns(state);
    browse_write_page(state, width);
    const size_t last = state->page.line_count > rows ? state->page.line_count - rows : 0;
    state->page_top = state->page_top < last ? state->page_top : last;
    browse_text_draw(&state->page, screen, x, 1, rows, state->page_top);
    if (state->page_top < last) {
        draw_words(screen, x + width - 1, rows, 1, "↓", dim_pen);
    }
    if (state->page_top > 0) {
        draw_words(screen, x + width - 1, 1, 1, "↑", dim_pen);
    }
}

static void draw_small(const browse *state, cli_screen *screen)
{
    char text[64];
    snprintf(text, sizeof text, "needs %d × %d, has %zu × %zu", BROWSE_MIN_COLUMNS, BROWSE_MIN_ROWS, state->columns,
             state->rows);
    draw_words(screen, 0, 0, state->columns, "too small", plain_pen);
    draw_words(screen, 0, 1, state->columns, text, plain_pen);
    draw_words(screen, 0, 2, state->columns, "q quits", plain_pen);
}

void browse_draw(browse *state, cli_screen *screen)
{
    browse_catch_up(state);
    cli_screen_clear(screen);
    if (browse_is_small(state)) {
        draw_small(state, screen);
        return;
    }
    const size_t side = browse_side_columns(state);
    draw_title(state, screen);
    if (state->view != BROWSE_VIEW_LIST) {
        draw_page(state, screen, 1);
    } else {
        draw_list(state, screen);
    }
    if (state->view == BROWSE_VIEW_LIST && side > 0) {
        const size_t x = browse_list_columns(state);
        for (size_t y = 1; y + 1 < state->rows; y++) {
            draw_words(screen, x, y, 1, "│", state->focus ? cyan_pen : dim_pen);
        }
        draw_page(state, screen, x + 2);
    }
    draw_last_line(state, screen);
}
