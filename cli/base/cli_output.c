/* SPDX-License-Identifier: Apache-2.0 */
/* Standard output: see cli_output.h for the contract. */
#include "cli_output.h"

#include "cli_interrupt.h"
#include "cli_terminal.h"
#include "cli_text.h"
#include "coffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_output_init(cli_output *out, int fd)
{
    out->fd = fd;
    out->width = cli_terminal_width(fd);
    out->colour = cli_terminal_colour(fd);
    out->ascii = out->width > 0 && !cli_terminal_utf8();
    out->before = NULL;
    out->before_ctx = NULL;
    out->take = NULL;
    out->take_ctx = NULL;
    out->in_markup = false;
    out->used = 0;
    out->error = 0;
    out->in_row = false;
    out->after_key = false;
    out->depth = 0;
}

void cli_output_init_take(cli_output *out, size_t width, void (*take)(void *ctx, const char *bytes, size_t size),
                          void *ctx)
{
    cli_output_init(out, -1);
    out->width = width;
    out->colour = true;
    out->ascii = false;
    out->take = take;
    out->take_ctx = ctx;
}

/* After an interrupt nothing more comes out: what was counted or compared until then would look like the whole. */
static void stop_when_interrupted(cli_output *out)
{
    if (cli_interrupted() && out->error == 0) {
        out->error = EINTR;
    }
}

/* Writes bytes, unless a write has failed before. */
static void write_out(cli_output *out, const char *bytes, size_t size)
{
    stop_when_interrupted(out);
    if (out->take != NULL && out->error == 0) {
        out->take(out->take_ctx, bytes, size);
        return;
    }
    if (size > 0 && out->width > 0 && out->before != NULL) {
        out->before(out->before_ctx);
    }
    while (size > 0 && out->error == 0) {
        const ssize_t written = write(out->fd, bytes, size);
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        } else if (written == 0 || errno != EINTR || cli_interrupted()) {
            out->error = written == 0 ? EIO : errno;
        }
    }
    stop_when_interrupted(out);
}

void cli_output_flush(cli_output *out)
{
    const size_t used = out->used;
    out->used = 0;
    write_out(out, out->buffer, used);
}

void cli_put(cli_output *out, const char *bytes, size_t size)
{
    if (size >= sizeof out->buffer) {
        cli_output_flush(out);
        write_out(out, bytes, size); /* whole tensors need no copy */
        return;
    }
    if (sizeof out->buffer - out->used < size) {
        cli_output_flush(out);
    }
    memcpy(out->buffer + out->used, bytes, size);
    out->used += size;
}

/* Signs that texts of ours have, and how they are spelled where the terminal shows no UTF-8. */
static const struct {
    const char *sign;
    const char *ascii;
} SIGNS[] = { { "\u2026", "..." }, { "\u00d7", "x" } };

const char *cli_sign_in_ascii(const char *text, size_t *text_len)
{
    for (size_t i = 0; i < sizeof SIGNS / sizeof SIGNS[0]; i++) {
        *text_len = strlen(SIGNS[i].sign);
        if (strncmp(text, SIGNS[i].sign, *text_len) == 0) {
            return SIGNS[i].ascii;
        }
    }
    *text_len = 1;
    return NULL;
}

static void put_in_ascii(cli_output *out, const char *text)
{
    size_t len = 0;
    for (; *text != '\0'; text += len) {
        const char *as = cli_sign_in_ascii(text, &len);
        cli_put(out, as != NULL ? as : text, as != NULL ? strlen(as) : 1);
    }
}

void cli_put_text(cli_output *out, const char *text)
{
    if (out->ascii) {
        put_in_ascii(out, text);
    } else {
        cli_put(out, text, strlen(text));
    }
}

void cli_put_char(cli_output *out, char c)
{
    cli_put(out, &c, 1);
}

void cli_put_markup(cli_output *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            cli_put_text(out, "&amp;");
            break;
        case '<':
            cli_put_text(out, "&lt;");
            break;
        case '>':
            cli_put_text(out, "&gt;");
            break;
        case '"':
            cli_put_text(out, "&quot;");
            break;
        default:
            cli_put_char(out, *text);
            break;
        }
    }
}

void cli_put_repeat(cli_output *out, char c, size_t count)
{
    while (count > 0) {
        if (out->used == sizeof out->buffer) {
            cli_output_flush(out);
        }
        const size_t capacity = sizeof out->buffer - out->used;
        const size_t part = count < capacity ? count : capacity;
        memset(out->buffer + out->used, c, part);
        out->used += part;
        count -= part;
    }
}

void cli_put_number(cli_output *out, uint64_t number)
{
    char text[CLI_NUMBER_SIZE];
    cli_put(out, text, cli_number_text(text, number, false));
}

void cli_put_grouped(cli_output *out, uint64_t number)
{
    char text[CLI_NUMBER_SIZE];
    cli_put(out, text, cli_number_text(text, number, true));
}

void cli_put_bytes(cli_output *out, uint64_t size)
{
    char text[CLI_NUMBER_SIZE];
    cli_put(out, text, cli_bytes_text(text, size));
}

bool cli_put_escaped(cli_output *out, const char *text, size_t text_len, size_t most)
{
    const bool cut = most != 0 && text_len > most;
    size_t len = cut ? cli_cut_at_character(text, text_len, most) : text_len;
    if (cli_is_plain(text, len)) {
        cli_put(out, text, len);
    } else {
        char small[1024];
        const size_t need = coffer_escape(text, len, small, sizeof small);
        char *large = need < sizeof small ? NULL : malloc(need + 1);
        if (large != NULL) {
            coffer_escape(text, len, large, need + 1);
        }
        /* Without memory the part that fits the small buffer is shown, which is still safe. */
        cli_put_text(out, large != NULL ? large : small);
        free(large);
    }
    if (cut) {
        cli_put_text(out, "...");
    }
    return cut;
}

/* Where in UTF-8 text the character number `count` begins. */
static size_t skip_characters(const char *text, size_t count)
{
    size_t at = 0;
    while (text[at] != '\0' && count > 0) {
        at++;
        while (((unsigned char)text[at] & 0xC0) == 0x80) {
            at++;
        }
        count--;
    }
    return at;
}

size_t cli_put_cut(cli_output *out, const char *text, size_t text_len, size_t width)
{
    const size_t whole = cli_escaped_width(text, text_len);
    const size_t need = whole <= width || width == 0 ? 0 : coffer_escape(text, text_len, NULL, 0);
    char *escaped = need == 0 ? NULL : malloc(need + 1);
    if (escaped == NULL) {
        cli_put_escaped(out, text, text_len, 0);
        return whole;
    }
    coffer_escape(text, text_len, escaped, need + 1);
    /* The end of a name tells more than its middle, and as much as its beginning. */
    const size_t gap = !out->ascii ? 1 : width > 4 ? 3 : width;
    const size_t tail = (width - gap) / 2;
    const size_t head = width - gap - tail;
    const char *end = escaped + skip_characters(escaped, whole - tail);
    cli_put(out, escaped, skip_characters(escaped, head));
    if (out->ascii) {
        cli_put_repeat(out, '.', gap);
    } else {
        cli_put_text(out, "\u2026");
    }
    cli_put_text(out, end);
    free(escaped);
    return width;
}

/* Bytes up to the next space, and the columns that they take. */
static size_t word_size(const char *text, size_t text_len, size_t *width)
{
    size_t size = 0;
    *width = 0;
    while (size < text_len && text[size] != ' ') {
        *width += ((unsigned char)text[size++] & 0xC0) != 0x80;
    }
    return size;
}

size_t cli_put_folded(cli_output *out, const char *text, size_t text_len, size_t used, size_t indent)
{
    size_t column = used;
    for (size_t at = 0; at < text_len;) {
        size_t spaces = 0;
        size_t width = 0;
        while (at + spaces < text_len && text[at + spaces] == ' ') {
            spaces++;
        }
        const size_t size = word_size(text + at + spaces, text_len - at - spaces, &width);
        if (out->width > 0 && column > indent && column + spaces + width > out->width) {
            cli_put_char(out, '\n');
            cli_put_repeat(out, ' ', indent);
            column = indent + width;
        } else {
            cli_put_repeat(out, ' ', spaces);
            column += spaces + width;
        }
        cli_put(out, text + at + spaces, size);
        at += spaces + size;
    }
    return column;
}

const char *cli_style_text(cli_style style)
{
    static const char *const texts[] = {
        [CLI_PLAIN] = "\x1b[0m",  [CLI_BOLD] = "\x1b[1m",    [CLI_DIM] = "\x1b[2m",   [CLI_RED] = "\x1b[31m",
        [CLI_GREEN] = "\x1b[32m", [CLI_YELLOW] = "\x1b[33m", [CLI_CYAN] = "\x1b[36m",
    };
    return texts[style];
}

void cli_put_style(cli_output *out, cli_style style)
{
    if (out->take != NULL) {
        cli_put_char(out, CLI_OUTPUT_STYLE);
        cli_put_char(out, (char)('0' + style));
    } else if (out->colour) {
        cli_put_text(out, cli_style_text(style));
    }
}

void cli_put_styled(cli_output *out, cli_style style, const char *text)
{
    cli_put_style(out, style);
    cli_put_text(out, text);
    cli_put_style(out, CLI_PLAIN);
}

/* ---- TSV ---- */

static void next_field(cli_output *out)
{
    if (out->in_row) {
        cli_put_char(out, '\t');
    }
    out->in_row = true;
}

void cli_tsv_text_n(cli_output *out, const char *text, size_t text_len)
{
    next_field(out);
    cli_put_escaped(out, text, text_len, 0);
}

void cli_tsv_text(cli_output *out, const char *text)
{
    cli_tsv_text_n(out, text, strlen(text));
}

void cli_tsv_raw(cli_output *out, const char *text)
{
    next_field(out);
    cli_put_text(out, text);
}

void cli_tsv_number(cli_output *out, uint64_t number)
{
    next_field(out);
    cli_put_number(out, number);
}

void cli_tsv_shape(cli_output *out, const uint64_t *shape, size_t rank)
{
    next_field(out);
    for (size_t i = 0; i < rank; i++) {
        if (i > 0) {
            cli_put_char(out, ',');
        }
        cli_put_number(out, shape[i]);
    }
}

void cli_tsv_finish(cli_output *out)
{
    cli_put_char(out, '\n');
    out->in_row = false;
}
