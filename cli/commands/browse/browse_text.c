/* SPDX-License-Identifier: Apache-2.0 */
/* Text in lines: see browse_text.h for the contract. */
#include "browse_text.h"

#include "browse_match.h"
#include "cli_text.h"
#include "cli_width.h"
#include "coffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 2000000

static void add_raw(browse_text *text, const char *bytes, size_t size)
{
    if (size > text->capacity - text->used) {
        const size_t capacity = text->capacity * 2 + size + 1024;
        char *grown = text->failed ? NULL : realloc(text->bytes, capacity);
        if (grown == NULL) {
            text->failed = true;
            return;
        }
        text->bytes = grown;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->used, bytes, size);
    text->used += size;
}

/* A style applies to its line, so that a page can begin with any: the next line states it again. */
static void begin_line(browse_text *text, size_t indent)
{
    if (text->line_count == text->line_capacity) {
        const size_t capacity = text->line_capacity * 2 + 64;
        size_t *grown = text->failed || capacity > LINES_MAX ? NULL : realloc(text->lines, capacity * sizeof *grown);
        if (grown == NULL) {
            text->failed = true;
            return;
        }
        text->lines = grown;
        text->line_capacity = capacity;
    }
    text->lines[text->line_count++] = text->used;
    text->column = indent;
    for (size_t i = 0; i < indent; i++) {
        add_raw(text, " ", 1);
    }
    if (text->style != '0') {
        add_raw(text, (const char[2]){ CLI_OUTPUT_STYLE, text->style }, 2);
    }
}

void browse_text_begin(browse_text *text, size_t width)
{
    text->used = 0;
    text->line_count = 0;
    text->width = width;
    text->indent = 0;
    text->style = '0';
    text->failed = false;
    text->marked = false;
    begin_line(text, 0);
}

void browse_text_free(browse_text *text)
{
    free(text->bytes);
    free(text->lines);
    memset(text, 0, sizeof *text);
}

/* How much of the bytes is one character, a style's mark or the end of a line; adds that. */
static size_t put_one(browse_text *text, const char *bytes, size_t size)
{
    if (text->marked) {
        text->style = bytes[0];
        text->marked = false;
        add_raw(text, (const char[2]){ CLI_OUTPUT_STYLE, text->style }, 2);
        return 1;
    }
    if (bytes[0] == CLI_OUTPUT_STYLE) {
        text->marked = true;
        return 1;
    }
    if (bytes[0] == '\n') {
        begin_line(text, 0);
        return 1;
    }
    uint32_t code = 0;
    const size_t read = cli_read_character(bytes, size, &code);
    const size_t width = read == 0 ? 1 : cli_character_width(code);
    if (text->column + width > text->width) {
        begin_line(text, text->indent < text->width / 2 ? text->indent : 0);
    }
    add_raw(text, bytes, read == 0 ? 1 : read);
    text->column += width;
    return read == 0 ? 1 : read;
}

/* Plain characters go as many at a time as the line has space for. */
static size_t put_plain(browse_text *text, const char *bytes, size_t size)
{
    const size_t most = text->width > text->column ? text->width - text->column : 0;
    size_t len = 0;
    while (len < size && len < most && bytes[len] >= 0x20 && bytes[len] < 0x7F) {
        len++;
    }
    if (len > 0 && !text->marked) {
        add_raw(text, bytes, len);
        text->column += len;
        return len;
    }
    return put_one(text, bytes, size);
}

void browse_put(browse_text *text, const char *bytes, size_t size)
{
    for (size_t done = 0; done < size && !text->failed;) {
        done += put_plain(text, bytes + done, size - done);
    }
}

void browse_put_text(browse_text *text, const char *words)
{
    browse_put(text, words, strlen(words));
}

void browse_put_escaped(browse_text *text, const char *words, size_t words_len)
{
    char part[1024];
    for (size_t done = 0; done < words_len && !text->failed;) {
        /* No escape is longer than 8 times what it stands for. */
        const size_t take = cli_cut_at_character(words + done, words_len - done, 96);
        const size_t step = take > 0 ? take : 1;
        coffer_escape(words + done, step, part, sizeof part);
        browse_put_text(text, part);
        done += step;
    }
}

void browse_put_style(browse_text *text, cli_style style)
{
    browse_put(text, (const char[2]){ CLI_OUTPUT_STYLE, (char)('0' + style) }, 2);
}

void browse_put_styled(browse_text *text, cli_style style, const char *words)
{
    browse_put_style(text, style);
    browse_put_text(text, words);
    browse_put_style(text, CLI_PLAIN);
}

void browse_putf(browse_text *text, const char *format, ...)
{
    char words[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    browse_put_text(text, words);
}

void browse_put_shade(browse_text *text, unsigned shade)
{
    if (text->column + 2 <= text->width) {
        add_raw(text, (const char[2]){ BROWSE_SHADE, (char)('a' + shade) }, 2);
        text->column += 2;
    }
}

void browse_text_take(void *text, const char *bytes, size_t size)
{
    browse_put(text, bytes, size);
}

/* ---- Drawing ---- */

cli_pen browse_pen(cli_style style)
{
    switch (style) {
    case CLI_BOLD:
        return (cli_pen){ .look = CLI_PEN_BOLD };
    case CLI_DIM:
        return (cli_pen){ .look = CLI_PEN_DIM };
    case CLI_RED:
        return (cli_pen){ .ink = CLI_INK(1) };
    case CLI_GREEN:
        return (cli_pen){ .ink = CLI_INK(2) };
    case CLI_YELLOW:
        return (cli_pen){ .ink = CLI_INK(3) };
    case CLI_CYAN:
        return (cli_pen){ .ink = CLI_INK(6) };
    default:
        return (cli_pen){ .look = 0 };
    }
}

/* Blue below zero and red above where there are colours enough, else a denser block for more. */
static void draw_shade(cli_screen *screen, size_t x, size_t y, unsigned shade)
{
    static const uint32_t blocks[] = { ' ', 0x2591, 0x2592, 0x2593, 0x2588 };
    const unsigned middle = BROWSE_SHADES / 2;
    const unsigned distance = shade > middle ? shade - middle : middle - shade;
    if (screen->colours < CLI_COLOURS_256) {
        const uint32_t ink = shade > middle ? CLI_INK(1) : CLI_INK(4);
        cli_screen_fill(screen, x, y, 2, blocks[(distance + 1) / 2], (cli_pen){ .ink = ink });
        return;
    }
    const unsigned strong = 32 + distance * 27;
    const unsigned weak = 32 + distance * 8;
    const uint32_t paper = shade > middle ? CLI_RGB(strong, weak, 32) : CLI_RGB(32, weak, strong);
    cli_screen_fill(screen, x, y, 2, ' ', (cli_pen){ .paper = distance == 0 ? CLI_RGB(32, 32, 32) : paper });
}

static void draw_line(cli_screen *screen, size_t x, size_t y, size_t width, const char *line, size_t line_len)
{
    cli_pen pen = browse_pen(CLI_PLAIN);
    size_t used = 0;
    for (size_t at = 0; at < line_len;) {
        size_t len = 0;
        while (at + len < line_len && line[at + len] != CLI_OUTPUT_STYLE && line[at + len] != BROWSE_SHADE) {
            len++;
        }
        used += cli_screen_put(screen, x + used, y, width - used, line + at, len, pen);
        at += len;
        if (line_len - at < 2) {
            break;
        }
        if (line[at] == CLI_OUTPUT_STYLE) {
            pen = browse_pen((cli_style)(line[at + 1] - '0'));
        } else if (width - used >= 2) {
            draw_shade(screen, x + used, y, (unsigned)(line[at + 1] - 'a'));
            used += 2;
        }
        at += 2;
    }
}

static size_t line_length(const browse_text *text, size_t line)
{
    const size_t end = line + 1 < text->line_count ? text->lines[line + 1] : text->used;
    return end - text->lines[line];
}

/* A text without bytes has no memory, and yet an empty line. */
static const char *line_bytes(const browse_text *text, size_t line)
{
    return text->bytes == NULL ? "" : text->bytes + text->lines[line];
}

void browse_text_draw(const browse_text *text, cli_screen *screen, size_t x, size_t y, size_t rows, size_t top)
{
    for (size_t i = 0; i < rows && top + i < text->line_count; i++) {
        const size_t line = top + i;
        draw_line(screen, x, y + i, text->width, line_bytes(text, line), line_length(text, line));
    }
}

size_t browse_text_find(const browse_text *text, size_t from, bool back, const char *words, size_t words_len)
{
    for (size_t i = 0; i < text->line_count; i++) {
        const size_t line = (from + (back ? text->line_count - i : i)) % text->line_count;
        if (browse_finds(line_bytes(text, line), line_length(text, line), words, words_len, NULL)) {
            return line;
        }
    }
    return SIZE_MAX;
}
