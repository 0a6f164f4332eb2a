/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text in lines, for a page that is scrolled: broken where the page ends, with styles, and safe: names and values come in
 * through browse_put_escaped, and cli_screen.h lets nothing else through.
 */
#ifndef COFFER_BROWSE_TEXT_H
#define COFFER_BROWSE_TEXT_H

#include "cli_output.h"
#include "cli_screen.h"

/* Where a cell of shades is: the byte, and a letter from 'a' on for how much, BROWSE_SHADES of them. */
#define BROWSE_SHADE 2
#define BROWSE_SHADES 17 /* the middle one is zero */

typedef struct browse_text {
    char *bytes;
    size_t used;
    size_t capacity;
    size_t *lines; /* where each begins */
    size_t line_count;
    size_t line_capacity;
    size_t width;  /* columns of a line */
    size_t column; /* where the next character goes */
    size_t indent; /* of lines that continue another */
    char style;    /* that applies there, '0' + cli_style */
    bool failed;   /* no memory: what came is all there is */
    bool marked;   /* a style's byte came, and its digit is next */
} browse_text;

/* Begins anew, in lines of that width. */
void browse_text_begin(browse_text *text, size_t width);
void browse_text_free(browse_text *text);

void browse_put(browse_text *text, const char *bytes, size_t size);
void browse_put_text(browse_text *text, const char *words);
void browse_put_escaped(browse_text *text, const char *words, size_t words_len);
void browse_put_style(browse_text *text, cli_style style);
void browse_put_styled(browse_text *text, cli_style style, const char *words);
__attribute__((format(printf, 2, 3))) void browse_putf(browse_text *text, const char *format, ...);
/* A shade, two columns wide. */
void browse_put_shade(browse_text *text, unsigned shade);
/* As the `take` of a cli_output. */
void browse_text_take(void *text, const char *bytes, size_t size);

/* The pen of a style. */
cli_pen browse_pen(cli_style style);
/* Draws `rows` lines from line `top` on into a rectangle of the text's width. */
void browse_text_draw(const browse_text *text, cli_screen *screen, size_t x, size_t y, size_t rows, size_t top);
/* The first line from `from` on, in the direction of `step` and around the end, that has the words, whatever their case;
   SIZE_MAX for none. */
size_t browse_text_find(const browse_text *text, size_t from, bool back, const char *words, size_t words_len);

#endif
