/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keys do: an event and a state give another state. The letters A to D, H, F, O and Z and the brackets do nothing and
 * shall stay so: they are what is left of a key's sequence when its first byte came long before the rest.
 */
#include "browse.h"

#include <stdio.h>
#include <string.h>

/* ---- Moving ---- */

static void put_cursor(browse *state, size_t row)
{
    state->cursor = row;
    state->page_top = 0;
    browse_settle(state);
}

static void move_cursor(browse *state, size_t rows, bool up)
{
    const size_t last = state->tree.row_count > 0 ? state->tree.row_count - 1 : 0;
    const size_t capacity = up ? state->cursor : last - (state->cursor < last ? state->cursor : last);
    const size_t step = rows < capacity ? rows : capacity;
    if (step > 0) {
        put_cursor(state, up ? state->cursor - step : state->cursor + step);
    }
}

static void scroll_page(browse *state, size_t rows, bool up)
{
    const size_t height = browse_list_rows(state) + 1;
    const size_t last = state->page.line_count > height ? state->page.line_count - height : 0;
    const size_t top = state->page_top < last ? state->page_top : last;
    const size_t capacity = up ? top : last - top;
    const size_t step = rows < capacity ? rows : capacity;
    state->page_top = up ? top - step : top + step;
}

static bool on_page(const browse *state)
{
    return state->view != BROWSE_VIEW_LIST || state->focus;
}

/* How many rows are seen. */
static size_t page_rows(const browse *state)
{
    return state->view == BROWSE_VIEW_SLICE ? browse_seen_part(state).rows : browse_list_rows(state);
}

static void move(browse *state, size_t rows, bool up)
{
    if (state->view == BROWSE_VIEW_SLICE) {
        browse_move_slice(state, BROWSE_AXIS_ROWS, rows, up);
    } else if (on_page(state)) {
        scroll_page(state, rows, up);
    } else {
        move_cursor(state, rows, up);
    }
}

/* ---- The tree ---- */

static const browse_row *row_here(const browse *state)
{
    return state->cursor < state->tree.row_count ? &state->tree.rows[state->cursor] : NULL;
}

static void refresh(browse *state)
{
    if (!browse_tree_refresh(&state->tree)) {
        browse_say(state, "out of memory");
    }
    browse_settle(state);
}

/* Puts the cursor on a row, wherever it is now. */
static void find_row(browse *state, browse_row row)
{
    for (size_t i = 0; i < state->tree.row_count; i++) {
        if (state->tree.rows[i].node == row.node && state->tree.rows[i].leaf == row.leaf) {
            put_cursor(state, i);
            return;
        }
    }
}

static void set_open(browse *state, uint32_t node, bool open)
{
    state->tree.nodes[node].open = open;
    refresh(state);
}

static bool can_open(const browse *state, const browse_row *row)
{
    return row != NULL && row->leaf == BROWSE_NONE && browse_node_opens(&state->tree, row->node);
}

static void open_details(browse *state)
{
    state->page_top = 0;
    if (browse_side_columns(state) > 0) {
        state->focus = true;
    } else {
        state->view = BROWSE_VIEW_DETAILS;
    }
}

static void open_slice(browse *state)
{
    if (browse_seen_part(state).item == BROWSE_NONE) {
        browse_say(state, "there are no numbers to show");
        return;
    }
    state->view = BROWSE_VIEW_SLICE;
    state->page_top = 0;
}

static void press_enter(browse *state)
{
    const browse_row *row = row_here(state);
    if (can_open(state, row)) {
        set_open(state, row->node, !state->tree.nodes[row->node].open);
    } else if (row != NULL && state->focus) {
        open_slice(state);
    } else if (row != NULL) {
        open_details(state);
    }
}

static void go_right(browse *state)
{
    const browse_row *row = row_here(state);
    if (!can_open(state, row)) {
        return;
    }
    if (state->tree.nodes[row->node].open) {
        move_cursor(state, 1, false);
    } else {
        set_open(state, row->node, true);
    }
}

static void go_left(browse *state)
{
    const browse_row *row = row_here(state);
    if (row == NULL || row->node == BROWSE_NONE) {
        return;
    }
    const browse_node *node = &state->tree.nodes[row->node];
    if (row->leaf == BROWSE_NONE && node->open) {
        set_open(state, row->node, false);
        return;
    }
    const browse_row up = { row->leaf == BROWSE_NONE ? node->parent : row->node, BROWSE_NONE };
    if (up.node != BROWSE_NONE) {
        find_row(state, up);
    }
}

static void open_all(browse *state, bool open)
{
    browse_row row = { BROWSE_NONE, BROWSE_NONE };
    if (row_here(state) != NULL) {
        row = *row_here(state);
    }
    browse_tree_open_all(&state->tree, open);
    refresh(state);
    /* What is hidden now is in one of the branches above it. */
    while (!open && row.node != BROWSE_NONE && state->tree.nodes[row.node].parent != BROWSE_NONE) {
        row = (browse_row){ state->tree.nodes[row.node].parent, BROWSE_NONE };
    }
    find_row(state, row);
}

static void change_sort(browse *state)
{
    static const char *const names[] = { "the file's order", "name", "size", "dtype", "elements" };
    const browse_row *row = row_here(state);
    const browse_row here = row != NULL ? *row : (browse_row){ BROWSE_NONE, BROWSE_NONE };
    state->tree.sort = (browse_sort)((state->tree.sort + 1) % BROWSE_SORT_COUNT);
    refresh(state);
    find_row(state, here);
    browse_say(state, "sorted by %s", names[state->tree.sort]);
}

/* ---- Which tensors are in it ---- */

static void put_on_item(browse *state, uint32_t item)
{
    for (size_t i = 0; i < state->tree.row_count && item != BROWSE_NONE; i++) {
        if (browse_row_item(&state->tree, &state->tree.rows[i]) == item) {
            put_cursor(state, i);
            return;
        }
    }
}

static void make_tree(browse *state)
{
    const browse_row *row = row_here(state);
    const uint32_t item = row != NULL ? browse_row_item(&state->tree, row) : BROWSE_NONE;
    state->tree.work = state->work;
    if (!browse_tree_make(&state->tree, state->filter.text, state->filter.len, browse_list_rows(state))) {
        browse_say(state, "out of memory");
    }
    put_cursor(state, 0);
    put_on_item(state, item);
}

static void toggle_flat(browse *state)
{
    const browse_row *row = row_here(state);
    const uint32_t item = row != NULL ? browse_row_item(&state->tree, row) : BROWSE_NONE;
    state->tree.flat = !state->tree.flat;
    refresh(state);
    put_cursor(state, 0);
    put_on_item(state, item);
}

static void toggle_differing(browse *state)
{
    if (state->data->pairs == NULL) {
        browse_say(state, "there is one model; coffer browse A B shows how two differ");
        return;
    }
    state->tree.only_differing = !state->tree.only_differing;
    make_tree(state);
    browse_say(state, "%s",
               state->tree.only_differing
                   ? "only tensors whose headers differ, or whose bytes do as far as c compared them"
                   : "all tensors");
}

void browse_compared(browse *state, browse_progress progress)
{
    const bool ended = state->compared.running && !progress.running;
    state->compared = progress;
    if (ended && state->tree.only_differing) {
        make_tree(state);
    }
}

/* ---- Search and filter ---- */

static void search(browse *state, bool back, bool here)
{
    size_t found = SIZE_MAX;
    if (state->search.len == 0) {
        browse_say(state, "nothing to search for; / begins a search");
        return;
    }
    if (on_page(state)) {
        const size_t from = here   ? state->page_top
                            : back ? state->page_top + state->page.line_count - 1
                                   : state->page_top + 1;
        found = browse_text_find(&state->page, from, back, state->search.text, state->search.len);
        state->page_top = found != SIZE_MAX ? found : state->page_top;
        scroll_page(state, 0, false);
    } else {
        found = browse_tree_find(&state->tree, state->cursor, back, here, state->search.text, state->search.len);
        if (found != SIZE_MAX) {
            put_cursor(state, found);
        }
    }
    state->missed = found == SIZE_MAX;
    if (state->missed) {
        browse_say(state, "not found");
    }
}

static void begin_prompt(browse *state, browse_prompt prompt)
{
    state->prompt = prompt;
    state->before = prompt == BROWSE_PROMPT_SEARCH ? state->search : state->filter;
    state->cursor_before = on_page(state) ? state->page_top : state->cursor;
    state->input = state->filter;
    if (prompt == BROWSE_PROMPT_SEARCH) {
        state->input = (browse_input){ .len = 0 };
    }
}

/* What was typed takes effect when it is seen, or before another key does: several letters that come together cost no more
   than one. */
void browse_catch_up(browse *state)
{
    if (!state->typed) {
        return;
    }
    state->typed = false;
    if (state->prompt == BROWSE_PROMPT_FILTER) {
        state->filter = state->input;
        make_tree(state);
        return;
    }
    state->search = state->input;
    if (on_page(state)) {
        state->page_top = state->cursor_before;
    } else {
        put_cursor(state, state->cursor_before);
    }
    if (state->input.len > 0) {
        search(state, false, true);
    }
}

static void end_prompt(browse *state, bool keep)
{
    browse_catch_up(state);
    const browse_prompt prompt = state->prompt;
    state->prompt = BROWSE_PROMPT_NONE;
    if (keep) {
        if (prompt == BROWSE_PROMPT_SEARCH) {
            /* As vim has it: / and Enter search for the last words again. */
            const bool again = state->input.len == 0;
            if (again) {
                state->search = state->before;
                search(state, false, false);
            } else if (state->missed) {
                browse_say(state, "not found");
            }
        }
        return;
    }
    if (prompt == BROWSE_PROMPT_FILTER) {
        state->filter = state->before;
        make_tree(state);
        return;
    }
    state->search = state->before;
    if (on_page(state)) {
        state->page_top = state->cursor_before;
    } else {
        put_cursor(state, state->cursor_before);
    }
}

static void type_character(browse_input *input, uint32_t code)
{
    char text[4];
    const size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    text[0] = (char)(leads[size] | code >> (6 * (size - 1)));
    for (size_t i = 1; i < size; i++) {
        text[i] = (char)(0x80 | (code >> (6 * (size - 1 - i)) & 0x3F));
    }
    if (size < sizeof input->text - input->len) {
        memcpy(input->text + input->len, text, size);
        input->len += size;
        input->text[input->len] = '\0';
    }
}

static void erase(browse_input *input, bool all)
{
    do {
        while (input->len > 0 && ((unsigned char)input->text[input->len - 1] & 0xC0) == 0x80) {
            input->len--;
        }
        input->len -= input->len > 0;
    } while (all && input->len > 0);
    input->text[input->len] = '\0';
}

static void handle_prompt(browse *state, const cli_event *event)
{
    const bool control = event->key == CLI_KEY_CONTROL;
    if (event->key == CLI_KEY_ENTER) {
        end_prompt(state, true);
    } else if (event->key == CLI_KEY_ESCAPE || (event->key == CLI_KEY_BACKSPACE && state->input.len == 0)) {
        end_prompt(state, false);
    } else if (event->key == CLI_KEY_CHARACTER) {
        type_character(&state->input, event->code);
        state->typed = true;
    } else if (event->key == CLI_KEY_BACKSPACE || (control && event->code == 'u')) {
        erase(&state->input, control);
        state->typed = true;
    } else if (event->key == CLI_KEY_UP || event->key == CLI_KEY_DOWN) {
        browse_catch_up(state);
        move(state, 1, event->key == CLI_KEY_UP);
    }
}

/* ---- Views ---- */

static void show_view(browse *state, browse_view view)
{
    state->view = state->view == view ? BROWSE_VIEW_LIST : view;
    state->focus = false;
    state->page_top = 0;
}

/* From the numbers of a tensor to its details, from any other page to the list. */
static void leave_page(browse *state)
{
    const bool slice = state->view == BROWSE_VIEW_SLICE;
    show_view(state, BROWSE_VIEW_LIST);
    if (slice) {
        open_details(state);
    }
}

/* One step back: from a page, then what the list is narrowed by. False: there is nothing to leave. */
static bool step_back(browse *state)
{
    if (state->view != BROWSE_VIEW_LIST) {
        leave_page(state);
    } else if (state->focus) {
        state->focus = false;
    } else if (state->compared.running || state->search.len > 0) {
        state->search = (browse_input){ .len = 0 };
    } else if (state->filter.len > 0) {
        state->filter = (browse_input){ .len = 0 };
        make_tree(state);
    } else {
        return false;
    }
    return true;
}

static void press_tab(browse *state, bool back)
{
    if (state->view == BROWSE_VIEW_SLICE) {
        browse_move_slice(state, BROWSE_AXIS_COLUMNS, browse_seen_part(state).columns, back);
    } else if (state->view == BROWSE_VIEW_DETAILS) {
        state->view = BROWSE_VIEW_LIST;
    } else if (state->view == BROWSE_VIEW_LIST) {
        if (state->focus) {
            state->focus = false;
        } else {
            open_details(state);
        }
    }
}

/* ---- The mouse ---- */

static void press_mouse(browse *state, const cli_event *event)
{
    const size_t first = 2; /* below the title and the names of the columns */
    if (state->view != BROWSE_VIEW_LIST) {
        return;
    }
    state->focus = event->x > browse_list_columns(state);
    if (state->focus || event->y < first || event->y - first >= browse_list_rows(state)) {
        return;
    }
    const size_t row = state->top + event->y - first;
    if (row >= state->tree.row_count) {
        return;
    }
    if (row == state->cursor || can_open(state, &state->tree.rows[row])) {
        put_cursor(state, row);
        press_enter(state);
    } else {
        put_cursor(state, row);
    }
}

/* The wheel moves what is under it. */
static void turn_wheel(browse *state, const cli_event *event)
{
    const bool up = event->key == CLI_KEY_WHEEL_UP;
    if (state->view == BROWSE_VIEW_SLICE) {
        browse_move_slice(state, BROWSE_AXIS_ROWS, 3, up);
    } else if (state->view != BROWSE_VIEW_LIST || event->x > browse_list_columns(state)) {
        scroll_page(state, 3, up);
    } else {
        move_cursor(state, 3, up);
    }
}

/* ---- Keys ---- */

static browse_wish handle_control(browse *state, uint32_t letter)
{
    const size_t page = page_rows(state);
    switch (letter) {
    case 'c':
        return BROWSE_WISH_INTERRUPT;
    case 'z':
        return BROWSE_WISH_SUSPEND;
    case 'l':
        return BROWSE_WISH_REDRAW;
    case 'd':
    case 'u':
        move(state, (page + 1) / 2, letter == 'u');
        return BROWSE_WISH_NONE;
    case 'f':
    case 'b':
        move(state, page, letter == 'b');
        return BROWSE_WISH_NONE;
    case 'n':
    case 'p':
        move(state, 1, letter == 'p');
        return BROWSE_WISH_NONE;
    default:
        return BROWSE_WISH_NONE;
    }
}

static void compare_or_say(browse *state, browse_wish *wish)
{
    if (state->data->pairs != NULL) {
        *wish = BROWSE_WISH_COMPARE;
        return;
    }
    browse_say(state, "there is one model; coffer browse A B compares the bytes of two");
}

static bool handle_list_key(browse *state, uint32_t code)
{
    if (state->view != BROWSE_VIEW_LIST) {
        return false;
    }
    switch (code) {
    case ' ':
        press_enter(state);
        return true;
    case 'h':
        go_left(state);
        return true;
    case 'l':
        go_right(state);
        return true;
    case 'e':
    case 'E':
        open_all(state, code == 'e');
        return true;
    case 's':
        change_sort(state);
        return true;
    case 't':
        toggle_flat(state);
        return true;
    case 'd':
        toggle_differing(state);
        return true;
    case 'f':
        begin_prompt(state, BROWSE_PROMPT_FILTER);
        return true;
    default:
        return false;
    }
}

/* What moves to the side; rows are moved as the lines of any page. */
static bool handle_slice_key(browse *state, uint32_t code)
{
    if (state->view != BROWSE_VIEW_SLICE) {
        return false;
    }
    switch (code) {
    case 'h':
    case 'l':
        browse_move_slice(state, BROWSE_AXIS_COLUMNS, 1, code == 'h');
        return true;
    case '0':
    case '$':
        browse_move_slice(state, BROWSE_AXIS_COLUMNS, UINT64_MAX, code == '0');
        return true;
    case ',':
    case '.':
        browse_move_slice(state, BROWSE_AXIS_MATRICES, 1, code == ',');
        return true;
    default:
        return false;
    }
}

static browse_wish handle_character(browse *state, uint32_t code)
{
    browse_wish wish = BROWSE_WISH_NONE;
    if (handle_list_key(state, code) || handle_slice_key(state, code)) {
        return wish;
    }
    switch (code) {
    case 'q':
        wish = on_page(state) ? BROWSE_WISH_NONE : BROWSE_WISH_QUIT;
        leave_page(state);
        break;
    case 'j':
    case 'k':
        move(state, 1, code == 'k');
        break;
    case 'g':
    case 'G':
        move(state, SIZE_MAX, code == 'g');
        break;
    case ' ':
        move(state, page_rows(state), false);
        break;
    case '/':
        begin_prompt(state, BROWSE_PROMPT_SEARCH);
        break;
    case 'n':
    case 'N':
        search(state, code == 'N', false);
        break;
    case 'm':
        show_view(state, BROWSE_VIEW_METADATA);
        break;
    case 'b':
        show_view(state, BROWSE_VIEW_MAP);
        break;
    case '?':
        show_view(state, BROWSE_VIEW_HELP);
        break;
    case 'v':
        state->shades = !state->shades;
        break;
    case 'r':
        wish = BROWSE_WISH_READ;
        break;
    case 'c':
        compare_or_say(state, &wish);
        break;
    default:
        break;
    }
    return wish;
}

static void handle_other_key(browse *state, const cli_event *event)
{
    const size_t page = page_rows(state);
    switch (event->key) {
    case CLI_KEY_UP:
    case CLI_KEY_DOWN:
        move(state, 1, event->key == CLI_KEY_UP);
        break;
    case CLI_KEY_PAGE_UP:
    case CLI_KEY_PAGE_DOWN:
        move(state, page, event->key == CLI_KEY_PAGE_UP);
        break;
    case CLI_KEY_HOME:
    case CLI_KEY_END:
        move(state, SIZE_MAX, event->key == CLI_KEY_HOME);
        break;
    case CLI_KEY_LEFT:
    case CLI_KEY_RIGHT:
        handle_character(state, event->key == CLI_KEY_LEFT ? 'h' : 'l');
        break;
    case CLI_KEY_ENTER:
        if (state->view == BROWSE_VIEW_DETAILS) {
            open_slice(state);
        }
        handle_list_key(state, ' ');
        break;
    case CLI_KEY_TAB:
    case CLI_KEY_BACK_TAB:
        press_tab(state, event->key == CLI_KEY_BACK_TAB);
        break;
    case CLI_KEY_PRESS:
        press_mouse(state, event);
        break;
    case CLI_KEY_WHEEL_UP:
    case CLI_KEY_WHEEL_DOWN:
        turn_wheel(state, event);
        break;
    default:
        break;
    }
}

browse_wish browse_handle(browse *state, const cli_event *event)
{
    const bool control = event->key == CLI_KEY_CONTROL;
    if (control && (event->code == 'c' || event->code == 'z' || event->code == 'l')) {
        return handle_control(state, event->code);
    }
    if (browse_is_small(state)) {
        const bool quit = event->key == CLI_KEY_CHARACTER && event->code == 'q' && !event->pasted;
        return quit ? BROWSE_WISH_QUIT : BROWSE_WISH_NONE;
    }
    state->message[0] = '\0';
    if (state->prompt != BROWSE_PROMPT_NONE) {
        handle_prompt(state, event);
        return BROWSE_WISH_NONE;
    }
    if (control) {
        return handle_control(state, event->code);
    }
    if (event->key == CLI_KEY_CHARACTER) {
        return event->pasted ? BROWSE_WISH_NONE : handle_character(state, event->code);
    }
    if (event->key == CLI_KEY_ESCAPE || event->key == CLI_KEY_BACKSPACE) {
        const bool stop = state->compared.running && state->view == BROWSE_VIEW_LIST && !state->focus;
        if (!step_back(state)) {
            browse_say(state, "q quits, ? shows all keys");
        }
        return stop ? BROWSE_WISH_STOP : BROWSE_WISH_NONE;
    }
    handle_other_key(state, event);
    return BROWSE_WISH_NONE;
}
