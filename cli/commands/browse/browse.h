/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer browse. Its parts:
 *
 *   browse_data     what is browsed: one model, or two whose tensors are matched by name
 *   browse_tree     the tree of it, and which rows are visible
 *   browse          what the user sees and does: the state (below), changed by events (browse_keys.c)
 *   browse_draw     the state as cells of a screen; browse_pages.c, browse_details.c and browse_slice.c write its pages
 *   browse_part     which numbers of a tensor are seen
 *   browse_work     what takes time, on a thread of its own
 *   cmd_browse.c    the terminal, and all of that together
 *
 * But for the last two nothing here reads a file or a terminal: an event changes the state, and a state gives a frame.
 */
#ifndef COFFER_BROWSE_H
#define COFFER_BROWSE_H

#include "browse_data.h"
#include "browse_text.h"
#include "browse_tree.h"
#include "browse_work.h"
#include "cli_keys.h"
#include "cli_screen.h"

#define BROWSE_MIN_COLUMNS 40
#define BROWSE_MIN_ROWS 10
#define BROWSE_INPUT_MAX 256 /* bytes of what is typed after / and f */

typedef enum browse_view {
    BROWSE_VIEW_LIST = 0,
    BROWSE_VIEW_DETAILS, /* as a page; beside the list it is shown where there is space */
    BROWSE_VIEW_SLICE,   /* the numbers of a tensor, opened from its details */
    BROWSE_VIEW_METADATA,
    BROWSE_VIEW_MAP,
    BROWSE_VIEW_HELP
} browse_view;

typedef enum browse_prompt { BROWSE_PROMPT_NONE = 0, BROWSE_PROMPT_SEARCH, BROWSE_PROMPT_FILTER } browse_prompt;

typedef struct browse_input {
    char text[BROWSE_INPUT_MAX]; /* ends in a NUL */
    size_t len;
} browse_input;

/* What the one who runs it is asked to do. */
typedef enum browse_wish {
    BROWSE_WISH_NONE = 0,
    BROWSE_WISH_QUIT,
    BROWSE_WISH_INTERRUPT,
    BROWSE_WISH_SUSPEND,
    BROWSE_WISH_REDRAW, /* the terminal may show anything */
    BROWSE_WISH_READ,   /* the numbers of the tensor under the cursor, now */
    BROWSE_WISH_STOP,   /* comparing */
    BROWSE_WISH_COMPARE /* the bytes of all below the cursor, of both models */
} browse_wish;

typedef struct browse {
    const browse_data *data;
    const browse_work *work; /* what bytes were compared, or NULL */
    browse_tree tree;
    size_t columns; /* of the screen */
    size_t rows;
    size_t cursor; /* a row of the tree */
    size_t top;    /* the first row that is seen */
    browse_view view;
    bool focus; /* keys go to the details beside the list */
    bool shades;
    browse_prompt prompt;
    bool typed;          /* more than what is seen: see browse_catch_up */
    browse_input input;  /* what is typed now */
    browse_input search; /* what was searched for last */
    bool missed;         /* it was not found */
    browse_input filter; /* what is filtered by */
    browse_input before; /* filter or search, before the prompt */
    size_t cursor_before;
    browse_text page;      /* of the view, or of the details beside the list */
    browse_view page_view; /* what is written on it */
    size_t page_width;     /* the width that `page_view` was written for; 0: nothing yet */
    size_t page_top;
    browse_found found; /* about the tensor under the cursor, as far as it is known */
    browse_part place;  /* where the user has gone in a tensor; its size is that of what is seen: browse_seen_part */
    browse_slice slice; /* the numbers there */
    browse_progress compared; /* how far a comparison has come */
    bool asks;                /* numbers are read only when they are asked for: they come over a network */
    char message[256];        /* in the last line, until the next key */
} browse;

/* Begins with all of the data; false without memory. Release by browse_free. */
bool browse_begin(browse *state, const browse_data *data, size_t columns, size_t rows);
void browse_free(browse *state);
/* The screen has another size. */
void browse_resize(browse *state, size_t columns, size_t rows);
/* A comparison has come so far: where only what differs is shown, what it found is shown, too, once it has ended. */
void browse_compared(browse *state, browse_progress progress);
/* Something was typed. Returns what that asks for. */
browse_wish browse_handle(browse *state, const cli_event *event);
/* The tensor whose details are shown, and so are wanted; BROWSE_NONE: none. */
uint32_t browse_wanted(const browse *state);
/* The part of that tensor whose numbers are shown. */
browse_part browse_seen_part(const browse *state);
/* All items below the cursor, to be freed; NULL without memory, or when there is nothing. */
uint32_t *browse_items_below(const browse *state, size_t *count);
/* Draws all of it. */
void browse_draw(browse *state, cli_screen *screen);

/* ---- Between its files ---- */

/* The rows of the list, and of a page. */
size_t browse_list_rows(const browse *state);
/* Columns of the list, and of the details beside it; those are 0 where there is no space. */
size_t browse_list_columns(const browse *state);
size_t browse_side_columns(const browse *state);
/* Columns of the page that is shown. */
size_t browse_page_columns(const browse *state);
/* Whether the screen is too small for anything. */
bool browse_is_small(const browse *state);
/* Lets what was typed in a prompt take effect. */
void browse_catch_up(browse *state);
/* Keeps the cursor within the rows, and what is seen around the cursor. */
void browse_settle(browse *state);
/* Writes the page of the view, in so many columns. */
void browse_write_page(browse *state, size_t width);
void browse_write_details(browse *state, browse_text *page);
void browse_write_slice(const browse *state, browse_text *page);
/* The numbers that are seen, after a line that says where they are. */
void browse_put_slice(const browse *state, browse_text *page, const coffer_tensor *tensor);
/* Moves what is seen of the tensor: see browse_part_move. */
void browse_move_slice(browse *state, browse_axis axis, uint64_t steps, bool back);
__attribute__((format(printf, 2, 3))) void browse_say(browse *state, const char *format, ...);

#endif
