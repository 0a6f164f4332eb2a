/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A screen of cells. Whoever shows something draws a whole frame into it, and gets the bytes that make a terminal show
 * that frame instead of the last one: plain VT sequences, and only for the cells that changed.
 *
 * No byte of a drawn text reaches the terminal but as a character that shows: what would steer it becomes U+FFFD, so no
 * text can do more than be seen. After a character whose width terminals disagree about, the place of the next one is
 * stated anew, so that a row does not shift.
 *
 * It does no I/O and knows no terminal. One thread at a time.
 */
#ifndef COFFER_CLI_SCREEN_H
#define COFFER_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_SCREEN_MAX 1000 /* columns and rows; larger terminals show that much */
#define CLI_SCREEN_MARKS 2  /* marks that combine with a character; further ones are left out */

/* A colour: 0 is the terminal's own, one of its sixteen, or red, green and blue, which become the nearest that it has. */
#define CLI_INK(n) (0x01000000u | (uint32_t)(n))
#define CLI_RGB(r, g, b) (0x02000000u | (uint32_t)(r) << 16 | (uint32_t)(g) << 8 | (uint32_t)(b))

typedef enum cli_colours { CLI_COLOURS_NONE = 0, CLI_COLOURS_16, CLI_COLOURS_256, CLI_COLOURS_ALL } cli_colours;

enum { CLI_PEN_BOLD = 1, CLI_PEN_DIM = 2, CLI_PEN_UNDERLINE = 4, CLI_PEN_REVERSE = 8 };

typedef struct cli_pen {
    uint32_t ink;   /* of the character */
    uint32_t paper; /* behind it */
    uint32_t look;  /* CLI_PEN_BOLD and so on */
} cli_pen;

typedef struct cli_cell {
    uint32_t code; /* 0: the second half of the wide character before it */
    uint32_t marks[CLI_SCREEN_MARKS];
    cli_pen pen;
} cli_cell;

/* Begin with a struct of zeros, its colours and `ascii` set, and cli_screen_resize. */
typedef struct cli_screen {
    size_t columns;
    size_t rows;
    cli_colours colours;
    bool ascii;      /* the terminal shows no UTF-8: other characters are drawn as ASCII */
    cli_cell *frame; /* what is drawn */
    cli_cell *shown; /* what the terminal shows */
    bool known;      /* it does */
    bool has_cursor; /* at cursor_x, cursor_y */
    size_t cursor_x;
    size_t cursor_y;
    char *bytes;
    size_t used;
    size_t capacity;
} cli_screen;

/* How many colours a terminal has, by the variables TERM, COLORTERM and NO_COLOR; each may be NULL. */
cli_colours cli_colours_of(const char *term, const char *colorterm, const char *no_color);

/* Another size, of an empty frame, and nothing is known of what the terminal shows. False without memory: then the screen
   is as it was. */
bool cli_screen_resize(cli_screen *screen, size_t columns, size_t rows);
void cli_screen_free(cli_screen *screen);
/* What the terminal shows is not known any more. */
void cli_screen_invalidate(cli_screen *screen);

/* An empty frame, without a cursor. */
void cli_screen_clear(cli_screen *screen);
/* Draws UTF-8 text from a cell on, at most `most` columns of it and never beyond the row's end. Returns its columns. */
size_t cli_screen_put(cli_screen *screen, size_t x, size_t y, size_t most, const char *text, size_t text_len,
                      cli_pen pen);
/* Draws one character over `count` cells. */
void cli_screen_fill(cli_screen *screen, size_t x, size_t y, size_t count, uint32_t code, cli_pen pen);
/* Adds a look to `count` cells, whatever they show. */
void cli_screen_mark(cli_screen *screen, size_t x, size_t y, size_t count, uint32_t look);
void cli_screen_cursor(cli_screen *screen, size_t x, size_t y);

/* The bytes that make the terminal show the frame, `*size` of them and a NUL, valid until the next call; NULL without memory, and
   then nothing is known of what it shows. */
const char *cli_screen_render(cli_screen *screen, size_t *size);

#endif
