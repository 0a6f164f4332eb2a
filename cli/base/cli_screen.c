/* SPDX-License-Identifier: Apache-2.0 */
/* A screen of cells: see cli_screen.h for the contract. */
#include "cli_screen.h"

#include "cli_text.h"
#include "cli_width.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT 0xFFFD

cli_colours cli_colours_of(const char *term, const char *colorterm, const char *no_color)
{
    if ((no_color != NULL && no_color[0] != '\0') || (term != NULL && strcmp(term, "dumb") == 0)) {
        return CLI_COLOURS_NONE;
    }
    if (colorterm != NULL && (strcmp(colorterm, "truecolor") == 0 || strcmp(colorterm, "24bit") == 0)) {
        return CLI_COLOURS_ALL;
    }
    if (term == NULL) { /* a console of Windows */
        return CLI_COLOURS_256;
    }
    if (strstr(term, "direct") != NULL) {
        return CLI_COLOURS_ALL;
    }
    if (strstr(term, "256") != NULL) {
        return CLI_COLOURS_256;
    }
    const bool mono = strstr(term, "mono") != NULL || strncmp(term, "vt1", 3) == 0 || strncmp(term, "vt2", 3) == 0;
    return mono ? CLI_COLOURS_NONE : CLI_COLOURS_16;
}

/* ---- Memory ---- */

static const cli_cell blank = { .code = ' ' };

void cli_screen_invalidate(cli_screen *screen)
{
    screen->known = false;
}

static void blank_all(cli_cell *cells, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cells[i] = blank;
    }
}

bool cli_screen_resize(cli_screen *screen, size_t columns, size_t rows)
{
    columns = columns < CLI_SCREEN_MAX ? columns : CLI_SCREEN_MAX;
    rows = rows < CLI_SCREEN_MAX ? rows : CLI_SCREEN_MAX;
    cli_cell *frame = malloc((columns * rows + 1) * sizeof *frame);
    cli_cell *shown = malloc((columns * rows + 1) * sizeof *shown);
    if (frame == NULL || shown == NULL) {
        free(frame);
        free(shown);
        return false;
    }
    free(screen->frame);
    free(screen->shown);
    screen->frame = frame;
    screen->shown = shown;
    screen->columns = columns;
    screen->rows = rows;
    blank_all(shown, columns * rows);
    cli_screen_clear(screen);
    cli_screen_invalidate(screen);
    return true;
}

void cli_screen_free(cli_screen *screen)
{
    free(screen->frame);
    free(screen->shown);
    free(screen->bytes);
    memset(screen, 0, sizeof *screen);
}

/* ---- Drawing ---- */

void cli_screen_clear(cli_screen *screen)
{
    blank_all(screen->frame, screen->columns * screen->rows);
    screen->has_cursor = false;
}

/* Puts a character of one or two columns; what it covers half of loses its other half. */
static void put_cells(cli_screen *screen, size_t x, size_t y, uint32_t code, unsigned width, cli_pen pen)
{
    cli_cell *row = &screen->frame[y * screen->columns];
    code = cli_is_unsafe(code) ? REPLACEMENT : code;
    if (row[x].code == 0 && x > 0) {
        row[x - 1].code = ' ';
    }
    if (x + width < screen->columns && row[x + width].code == 0) {
        row[x + width].code = ' ';
    }
    row[x] = (cli_cell){ .code = code, .pen = pen };
    if (width == 2) {
        row[x + 1] = (cli_cell){ .code = 0, .pen = pen };
    }
}

static void add_mark(cli_cell *cell, uint32_t mark)
{
    for (size_t i = 0; i < CLI_SCREEN_MARKS; i++) {
        if (cell->marks[i] == 0) {
            cell->marks[i] = mark;
            return;
        }
    }
}

size_t cli_screen_put(cli_screen *screen, size_t x, size_t y, size_t most, const char *text, size_t text_len,
                      cli_pen pen)
{
    size_t used = 0;
    size_t last = 0; /* where the last character began */
    if (y >= screen->rows || x >= screen->columns) {
        return 0;
    }
    most = most < screen->columns - x ? most : screen->columns - x;
    for (size_t done = 0; done < text_len;) {
        uint32_t code = REPLACEMENT;
        const size_t size = cli_read_character(text + done, text_len - done, &code);
        code = cli_is_unsafe(code) ? REPLACEMENT : code;
        done += size == 0 ? 1 : size;
        const unsigned width = cli_character_width(code);
        if (width > most - used) {
            break;
        }
        if (width == 0) {
            if (used > 0) {
                add_mark(&screen->frame[y * screen->columns + x + last], code);
            }
            continue;
        }
        last = used;
        put_cells(screen, x + used, y, code, width, pen);
        used += width;
    }
    return used;
}

void cli_screen_fill(cli_screen *screen, size_t x, size_t y, size_t count, uint32_t code, cli_pen pen)
{
    for (size_t i = x; y < screen->rows && i < screen->columns && i - x < count; i++) {
        put_cells(screen, i, y, code, 1, pen);
    }
}

void cli_screen_mark(cli_screen *screen, size_t x, size_t y, size_t count, uint32_t look)
{
    for (size_t i = x; y < screen->rows && i < screen->columns && i - x < count; i++) {
        screen->frame[y * screen->columns + i].pen.look |= look;
    }
}

void cli_screen_cursor(cli_screen *screen, size_t x, size_t y)
{
    screen->has_cursor = x < screen->columns && y < screen->rows;
    screen->cursor_x = x;
    screen->cursor_y = y;
}

/* ---- Bytes ---- */

/* Adds bytes; without memory `capacity` becomes 0, which render sees. */
static void add_bytes(cli_screen *screen, const char *bytes, size_t size)
{
    if (size > screen->capacity - screen->used) {
        const size_t capacity = screen->capacity * 2 + size + 4096;
        char *grown = screen->bytes == NULL && screen->used > 0 ? NULL : realloc(screen->bytes, capacity);
        if (grown == NULL) {
            free(screen->bytes);
            screen->bytes = NULL;
            screen->capacity = screen->used = 1; /* and nothing fits any more */
            return;
        }
        screen->bytes = grown;
        screen->capacity = capacity;
    }
    if (screen->bytes != NULL) {
        memcpy(screen->bytes + screen->used, bytes, size);
        screen->used += size;
    }
}

static void add_text(cli_screen *screen, const char *text)
{
    add_bytes(screen, text, strlen(text));
}

static void add_character(cli_screen *screen, uint32_t code)
{
    char text[4];
    size_t size = 1;
    if (code < 0x80) {
        text[0] = (char)code;
    } else if (code < 0x800) {
        text[0] = (char)(0xC0 | code >> 6);
        size = 2;
    } else if (code < 0x10000) {
        text[0] = (char)(0xE0 | code >> 12);
        size = 3;
    } else {
        text[0] = (char)(0xF0 | code >> 18);
        size = 4;
    }
    for (size_t i = 1; i < size; i++) {
        text[i] = (char)(0x80 | (code >> (6 * (size - 1 - i)) & 0x3F));
    }
    add_bytes(screen, text, size);
}

/* One of the 256: the nearest of the 24 greys, or of the cube of 6 * 6 * 6. */
static unsigned nearest_of_256(unsigned r, unsigned g, unsigned b)
{
    if (r == g && g == b && r >= 8 && r < 243) {
        return 232 + (r - 3) / 10;
    }
    const unsigned steps[3] = { r, g, b };
    unsigned index = 16;
    unsigned weight = 36;
    for (size_t i = 0; i < 3; i++, weight /= 6) {
        index += weight * (steps[i] < 48 ? 0 : steps[i] < 115 ? 1 : (steps[i] - 35) / 40);
    }
    return index;
}

/* One of the 16: which of red, green and blue there is, and how much. */
static unsigned nearest_of_16(unsigned r, unsigned g, unsigned b)
{
    const unsigned bright = (r > g ? r : g) > b ? (r > g ? r : g) : b;
    const unsigned half = bright / 2 + 1;
    const unsigned colour = bright < 64 ? 0 : (r >= half) | (unsigned)(g >= half) << 1 | (unsigned)(b >= half) << 2;
    return colour + (bright > 191 ? 8u : 0u);
}

/* Adds the numbers of a colour to an SGR sequence; `base` is 30 for ink and 40 for paper. */
static void add_colour(cli_screen *screen, uint32_t colour, unsigned base)
{
    char text[40];
    const unsigned r = colour >> 16 & 255;
    const unsigned g = colour >> 8 & 255;
    const unsigned b = colour & 255;
    if (colour == 0 || screen->colours == CLI_COLOURS_NONE) {
        return;
    }
    if (colour >> 24 == 1 || screen->colours == CLI_COLOURS_16) {
        const unsigned n = colour >> 24 == 1 ? colour & 15 : nearest_of_16(r, g, b);
        snprintf(text, sizeof text, ";%u", n < 8 ? base + n : base + 60 + n - 8);
    } else if (screen->colours == CLI_COLOURS_256) {
        snprintf(text, sizeof text, ";%u;5;%u", base + 8, nearest_of_256(r, g, b));
    } else {
        snprintf(text, sizeof text, ";%u;2;%u;%u;%u", base + 8, r, g, b);
    }
    add_text(screen, text);
}

static void add_pen(cli_screen *screen, const cli_pen *pen)
{
    add_text(screen, "\x1b[0");
    add_text(screen, (pen->look & CLI_PEN_BOLD) != 0 ? ";1" : "");
    add_text(screen, (pen->look & CLI_PEN_DIM) != 0 ? ";2" : "");
    add_text(screen, (pen->look & CLI_PEN_UNDERLINE) != 0 ? ";4" : "");
    add_text(screen, (pen->look & CLI_PEN_REVERSE) != 0 ? ";7" : "");
    add_colour(screen, pen->ink, 30);
    add_colour(screen, pen->paper, 40);
    add_text(screen, "m");
}

static void add_place(cli_screen *screen, size_t x, size_t y)
{
    char text[64];
    snprintf(text, sizeof text, "\x1b[%zu;%zuH", y + 1, x + 1);
    add_text(screen, text);
}

static bool same_pen(const cli_pen *a, const cli_pen *b)
{
    return a->ink == b->ink && a->paper == b->paper && a->look == b->look;
}

/* What a terminal without UTF-8 shows of another character: signs of our own, and ? in as many columns for those of names. */
static void add_in_ascii(cli_screen *screen, uint32_t code)
{
    static const struct {
        uint32_t code;
        char sign;
    } signs[] = {
        { 0x2026, '.' }, { 0x2194, '|' }, { 0x2193, 'v' }, { 0x25BE, 'v' },
        { 0x25B8, '>' }, { 0xD7, 'x' },   { 0x2191, '^' }, { 0x2502, '|' },
    };
    char text[2] = { '?', '?' };
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        text[0] = signs[i].code == code ? signs[i].sign : text[0];
    }
    if (code >= 0x2581 && code <= 0x2588) { /* eighths of a block, from the bottom up */
        text[0] = ".,:-=+*#"[code - 0x2581];
    }
    add_bytes(screen, text, cli_character_width(code));
}

static bool same_cell(const cli_cell *a, const cli_cell *b)
{
    return a->code == b->code && memcmp(a->marks, b->marks, sizeof a->marks) == 0 && same_pen(&a->pen, &b->pen);
}

static bool is_certain(const cli_cell *cell)
{
    return cell->marks[0] == 0 && cli_character_certain(cell->code);
}

/* Where the terminal writes next, and how. */
typedef struct screen_writer {
    cli_pen pen;
    size_t x; /* SIZE_MAX: not known */
} screen_writer;

static void write_cell(cli_screen *screen, screen_writer *writer, size_t x, size_t y)
{
    const cli_cell *cell = &screen->frame[y * screen->columns + x];
    if (writer->x != x) {
        add_place(screen, x, y);
    }
    if (!same_pen(&writer->pen, &cell->pen)) {
        add_pen(screen, &cell->pen);
        writer->pen = cell->pen;
    }
    if (screen->ascii && cell->code >= 0x80) {
        add_in_ascii(screen, cell->code);
        writer->x = cli_character_width(cell->code) == 1 ? x + 1 : SIZE_MAX;
        return;
    }
    add_character(screen, cell->code);
    for (size_t i = 0; i < CLI_SCREEN_MARKS && cell->marks[i] != 0 && !screen->ascii; i++) {
        add_character(screen, cell->marks[i]);
    }
    writer->x = is_certain(cell) ? x + 1 : SIZE_MAX;
}

/* Writes the cells of a row that changed. A terminal to which a character is wider than to us has also drawn over the
   cells after it, so those are written, too. */
static void write_row(cli_screen *screen, screen_writer *writer, size_t y)
{
    const cli_cell *frame = &screen->frame[y * screen->columns];
    const cli_cell *shown = &screen->shown[y * screen->columns];
    bool spoilt = false;
    writer->x = SIZE_MAX;
    for (size_t x = 0; x < screen->columns; x++) {
        const bool wide = x + 1 < screen->columns && frame[x + 1].code == 0;
        const bool changed = !same_cell(&frame[x], &shown[x]) || (wide && !same_cell(&frame[x + 1], &shown[x + 1]));
        if (frame[x].code != 0 && (changed || spoilt)) {
            spoilt = !is_certain(&frame[x]) || !is_certain(&shown[x]);
            write_cell(screen, writer, x, y);
        } else if (frame[x].code != 0) {
            spoilt = false;
        }
    }
}

const char *cli_screen_render(cli_screen *screen, size_t *size)
{
    screen_writer writer = { .x = SIZE_MAX };
    screen->used = 0;
    add_text(screen, "\x1b[?2026h\x1b[?25l\x1b[0m"); /* at once, if it can; no cursor while it draws */
    if (!screen->known) {
        add_text(screen, "\x1b[2J");
        blank_all(screen->shown, screen->columns * screen->rows);
    }
    for (size_t y = 0; y < screen->rows; y++) {
        write_row(screen, &writer, y);
    }
    add_text(screen, "\x1b[0m");
    if (screen->has_cursor) {
        add_place(screen, screen->cursor_x, screen->cursor_y);
        add_text(screen, "\x1b[?25h");
    }
    add_bytes(screen, "\x1b[?2026l", sizeof "\x1b[?2026l"); /* its NUL comes with it, and is not counted */
    screen->used -= screen->bytes != NULL;
    screen->known = screen->bytes != NULL;
    *size = screen->used;
    if (screen->known) {
        memcpy(screen->shown, screen->frame, screen->columns * screen->rows * sizeof *screen->shown);
    } else {
        screen->capacity = screen->used = 0;
    }
    return screen->bytes;
}
