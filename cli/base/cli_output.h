/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard output: one buffer; text, JSON and TSV. Nothing here fails where it is called: the first
 * write that fails is kept and what follows is dropped; `error` tells. A closed pipe is such a
 * failure too (EPIPE), and so is Ctrl-C (EINTR).
 *
 * Text: escaped for a terminal; styles are written only where there is colour.
 *
 * TSV: fields of a row end in a tab, the last one in a newline. Names are escaped as in text, tabs
 * and newlines in them are therefore \x09 and \x0a, and a backslash is \\.
 *
 * JSON: containers open and close, and commas and line breaks come by themselves. A container opened with `lines` has
 * each of its members on a line of its own, one without stays on the line that it began on. The outermost one ends
 * its line. In markup, <, > and & are written as \u003c, \u003e and \u0026, so that no string can end the element.
 */
#ifndef COFFER_CLI_OUTPUT_H
#define COFFER_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_OUTPUT_BUFFER 65536
#define CLI_JSON_DEPTH 12 /* the commands nest no deeper; a tensor's values are not written through containers */

typedef struct cli_json_level {
    bool lines;
    bool filled; /* has a member already */
} cli_json_level;

typedef enum cli_style { CLI_PLAIN = 0, CLI_BOLD, CLI_DIM, CLI_RED, CLI_GREEN, CLI_YELLOW, CLI_CYAN } cli_style;

typedef struct cli_output {
    int fd;
    size_t width; /* columns of the terminal; 0: there is none, and nothing is cut or folded */
    bool colour;
    bool ascii; /* a terminal that does not show UTF-8: signs of our own are spelled in ASCII */
    /* called before bytes go to a terminal, for what else is on it; NULL: nothing */
    void (*before)(void *ctx);
    void *before_ctx;
    /* takes the bytes in place of the descriptor, styles as CLI_OUTPUT_STYLE and a digit; NULL: nobody does */
    void (*take)(void *ctx, const char *bytes, size_t size);
    void *take_ctx;
    size_t used;
    int error;      /* errno of the first write that failed; 0: none */
    bool in_row;    /* a row of TSV has a field already */
    bool after_key; /* the next JSON value belongs to a key */
    bool in_markup; /* the JSON stands in an element of HTML, which no string may end */
    unsigned depth; /* containers that are open */
    cli_json_level levels[CLI_JSON_DEPTH];
    char buffer[CLI_OUTPUT_BUFFER];
} cli_output;

#define CLI_OUTPUT_STYLE 1 /* no text that is escaped has this byte */

void cli_output_init(cli_output *out, int fd);
/* What is written goes to `take` once it is flushed, as for a terminal that is `width` columns wide and has colour. */
void cli_output_init_take(cli_output *out, size_t width, void (*take)(void *ctx, const char *bytes, size_t size),
                          void *ctx);
void cli_output_flush(cli_output *out);

void cli_put(cli_output *out, const char *bytes, size_t size);
void cli_put_text(cli_output *out, const char *text);
/* How the sign that a text begins with is spelled where a terminal shows no UTF-8, and how long it is; NULL and 1 for any
   other text. */
const char *cli_sign_in_ascii(const char *text, size_t *text_len);
void cli_put_char(cli_output *out, char c);
void cli_put_repeat(cli_output *out, char c, size_t count);
/* Plain decimal digits. */
void cli_put_number(cli_output *out, uint64_t number);
/* Decimal digits in groups of three: 137,022,720. */
void cli_put_grouped(cli_output *out, uint64_t number);
/* Bytes for people, in powers of 1000: "512 B", "1.5 MB". */
void cli_put_bytes(cli_output *out, uint64_t size);
/* A name or value as coffer_escape makes it safe for a terminal; cut to about `most` bytes when it is longer (0:
   never), which is shown by "...". Returns whether it was cut. */
bool cli_put_escaped(cli_output *out, const char *text, size_t text_len, size_t most);
/* The same cut in the middle, which "…" shows, to at most `width` columns (0: never). Returns the columns it took. */
size_t cli_put_cut(cli_output *out, const char *text, size_t text_len, size_t width);
/* Text that is safe already, broken at spaces where a terminal's line ends; `used` columns of the
   first line are taken, and the others are indented. Ends no line. Returns the columns that the
   last line has then. */
size_t cli_put_folded(cli_output *out, const char *text, size_t text_len, size_t used, size_t indent);
/* Text that is safe already, in HTML or SVG: what is markup there stands for itself. */
void cli_put_markup(cli_output *out, const char *text);
/* What follows is in that style, until CLI_PLAIN. */
void cli_put_style(cli_output *out, cli_style style);
void cli_put_styled(cli_output *out, cli_style style, const char *text);
/* The escape sequence of a style, for standard error. */
const char *cli_style_text(cli_style style);

void cli_tsv_text(cli_output *out, const char *text);
void cli_tsv_text_n(cli_output *out, const char *text, size_t text_len);
/* Text that is safe already. */
void cli_tsv_raw(cli_output *out, const char *text);
void cli_tsv_number(cli_output *out, uint64_t number);
/* [50, 8] as 50,8; nothing for a scalar. */
void cli_tsv_shape(cli_output *out, const uint64_t *shape, size_t rank);
void cli_tsv_finish(cli_output *out);

void cli_json_open(cli_output *out, char bracket, bool lines); /* '{' or '[' */
void cli_json_close(cli_output *out, char bracket);            /* '}' or ']' */
void cli_json_key(cli_output *out, const char *key);
void cli_json_key_n(cli_output *out, const char *key, size_t key_len);
void cli_json_string(cli_output *out, const char *text);
void cli_json_string_n(cli_output *out, const char *text, size_t text_len);
void cli_json_number(cli_output *out, uint64_t number);
void cli_json_bool(cli_output *out, bool value);
void cli_json_null(cli_output *out);
/* Members: a key and its value. */
void cli_json_put_string(cli_output *out, const char *key, const char *text);
void cli_json_put_number(cli_output *out, const char *key, uint64_t number);
void cli_json_put_bool(cli_output *out, const char *key, bool value);
/* A value whose text the caller makes and knows to be JSON. */
void cli_json_raw(cli_output *out, const char *text);

#endif
