/* SPDX-License-Identifier: Apache-2.0 */
/* JSON for eyes: see cli_pretty.h for the contract. */
#include "cli_pretty.h"

#include "cli_text.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MOST 64
#define FLAT_MOST 64 /* bytes of an object or array that stays on its line, if there is none within it */

/* ---- Reading: tokens, and which of them may come next ---- */

typedef struct json_reader {
    const char *text;
    size_t text_len;
    size_t at;
    size_t depth;
    char open[DEPTH_MOST]; /* the brackets that are open */
} json_reader;

/* What came. */
typedef enum json_token {
    TOKEN_NONE = 0, /* no JSON */
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_KEY, /* a string in front of a colon, which belongs to it */
    TOKEN_SCALAR,
    TOKEN_END
} json_token;

static char peek(const json_reader *reader)
{
    return reader->at < reader->text_len ? reader->text[reader->at] : '\0';
}

static void skip_space(json_reader *reader)
{
    while (reader->at < reader->text_len && strchr(" \t\n\r", reader->text[reader->at]) != NULL &&
           reader->text[reader->at] != '\0') {
        reader->at++;
    }
}

static bool skip_one_of(json_reader *reader, const char *set)
{
    const char c = peek(reader);
    const bool found = c != '\0' && strchr(set, c) != NULL;
    reader->at += found;
    return found;
}

static bool skip_digits(json_reader *reader)
{
    const size_t start = reader->at;
    while (skip_one_of(reader, "0123456789")) {}
    return reader->at > start;
}

static bool skip_number(json_reader *reader)
{
    skip_one_of(reader, "-");
    if (!skip_one_of(reader, "0") && !skip_digits(reader)) {
        return false;
    }
    if (skip_one_of(reader, ".") && !skip_digits(reader)) {
        return false;
    }
    if (skip_one_of(reader, "eE")) {
        skip_one_of(reader, "+-");
        return skip_digits(reader);
    }
    return true;
}

static bool skip_escape(json_reader *reader)
{
    if (!skip_one_of(reader, "u")) {
        return skip_one_of(reader, "\"\\/bfnrt");
    }
    for (int i = 0; i < 4; i++) {
        if (!skip_one_of(reader, "0123456789abcdefABCDEF")) {
            return false;
        }
    }
    return true;
}

static bool skip_string(json_reader *reader)
{
    if (!skip_one_of(reader, "\"")) {
        return false;
    }
    while (reader->at < reader->text_len) {
        const unsigned char c = (unsigned char)reader->text[reader->at++];
        if (c == '"') {
            return true;
        }
        if (c < 0x20 || (c == '\\' && !skip_escape(reader))) {
            return false;
        }
    }
    return false;
}

static bool skip_word(json_reader *reader)
{
    static const char *const words[] = { "true", "false", "null" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t len = strlen(words[i]);
        if (reader->text_len - reader->at >= len && memcmp(reader->text + reader->at, words[i], len) == 0) {
            reader->at += len;
            return true;
        }
    }
    return false;
}

static json_token read_open(json_reader *reader)
{
    if (reader->depth == DEPTH_MOST) {
        return TOKEN_NONE;
    }
    reader->open[reader->depth++] = reader->text[reader->at++];
    return TOKEN_OPEN;
}

static json_token read_value(json_reader *reader)
{
    const char c = peek(reader);
    if (c == '{' || c == '[') {
        return read_open(reader);
    }
    const bool fine = c == '"'                             ? skip_string(reader)
                      : c == '-' || (c >= '0' && c <= '9') ? skip_number(reader)
                                                           : skip_word(reader);
    return fine ? TOKEN_SCALAR : TOKEN_NONE;
}

static json_token read_key(json_reader *reader)
{
    if (!skip_string(reader)) {
        return TOKEN_NONE;
    }
    skip_space(reader);
    return skip_one_of(reader, ":") ? TOKEN_KEY : TOKEN_NONE;
}

/* The token after `last`; *start is where it begins. */
static json_token read_token(json_reader *reader, json_token last, size_t *start)
{
    skip_space(reader);
    *start = reader->at;
    if (reader->depth == 0 && last != TOKEN_END) {
        return reader->at == reader->text_len ? TOKEN_END : TOKEN_NONE;
    }
    if (last == TOKEN_KEY || reader->depth == 0) {
        return read_value(reader);
    }
    const bool in_object = reader->open[reader->depth - 1] == '{';
    if (skip_one_of(reader, in_object ? "}" : "]")) {
        reader->depth--;
        return TOKEN_CLOSE;
    }
    if (last != TOKEN_OPEN) {
        if (!skip_one_of(reader, ",")) {
            return TOKEN_NONE;
        }
        skip_space(reader);
        *start = reader->at;
    }
    return in_object ? read_key(reader) : read_value(reader);
}

bool cli_is_json(const char *text, size_t text_len)
{
    json_reader reader = { .text = text, .text_len = text_len };
    json_token token = TOKEN_END; /* what stands before the first */
    size_t start = 0;
    skip_space(&reader);
    if (peek(&reader) != '{' && peek(&reader) != '[') {
        return false;
    }
    do {
        token = read_token(&reader, token, &start);
    } while (token != TOKEN_NONE && token != TOKEN_END);
    return token == TOKEN_END;
}

/* ---- Writing ---- */

typedef struct json_printer {
    cli_output *out;
    size_t indent;
    size_t lines; /* that were begun after the first */
    size_t most;
    size_t flat; /* the depth above which everything stays on its line; 0: nothing does */
} json_printer;

static bool is_cut(const json_printer *printer)
{
    return printer->most != 0 && printer->lines >= printer->most;
}

static void new_line(json_printer *printer, size_t depth)
{
    printer->lines++;
    if (!is_cut(printer)) {
        cli_put_char(printer->out, '\n');
        cli_put_repeat(printer->out, ' ', printer->indent + 2 * depth);
    }
}

/* A token as it is, but what would steer a terminal as \uXXXX. */
static void put_token(json_printer *printer, const char *text, size_t text_len)
{
    for (size_t done = 0; done < text_len && !is_cut(printer);) {
        char escape[16];
        uint32_t code = 0;
        const size_t size = cli_read_character(text + done, text_len - done, &code);
        if (size == 0 || cli_is_unsafe(code)) {
            snprintf(escape, sizeof escape, "\\u%04x", size == 0 ? 0xFFFDu : (unsigned)code);
            cli_put_text(printer->out, escape);
        } else {
            cli_put(printer->out, text + done, size);
        }
        done += size > 0 ? size : 1;
    }
}

/* Whether the container that was just opened is short and holds no other. */
static bool is_flat(const json_reader *reader)
{
    json_reader ahead = *reader;
    while (ahead.at < ahead.text_len && ahead.at - reader->at < FLAT_MOST) {
        const char c = peek(&ahead);
        if (c == '{' || c == '[' || c == '}' || c == ']') {
            return c == '}' || c == ']';
        }
        if (c != '"') {
            ahead.at++;
        } else if (!skip_string(&ahead)) {
            return false;
        }
    }
    return false;
}

/* What stands between two tokens. */
static void put_space(json_printer *printer, json_token last, json_token token, size_t depth)
{
    const bool flat = printer->flat != 0 && depth >= printer->flat;
    if (last == TOKEN_KEY) {
        put_token(printer, " ", 1);
    } else if (token != TOKEN_CLOSE && last != TOKEN_OPEN && last != TOKEN_END) {
        put_token(printer, flat ? ", " : ",", flat ? 2 : 1);
    }
    if (!flat && last != TOKEN_KEY && last != TOKEN_END && !(last == TOKEN_OPEN && token == TOKEN_CLOSE)) {
        new_line(printer, token == TOKEN_CLOSE ? depth - 1 : depth);
    }
}

size_t cli_put_json(cli_output *out, const char *text, size_t text_len, size_t indent, size_t most)
{
    json_reader reader = { .text = text, .text_len = text_len };
    json_printer printer = { .out = out, .indent = indent, .most = most };
    json_token last = TOKEN_END;
    while (out->error == 0) {
        size_t start = 0;
        const size_t depth = reader.depth;
        const json_token token = read_token(&reader, last, &start);
        if (token == TOKEN_END || token == TOKEN_NONE) {
            break;
        }
        put_space(&printer, last, token, depth);
        if (token == TOKEN_KEY) {
            /* The key alone: there may be white space before its colon. */
            json_reader key = { .text = text, .text_len = text_len, .at = start };
            skip_string(&key);
            put_token(&printer, text + start, key.at - start);
            put_token(&printer, ":", 1);
        } else {
            put_token(&printer, text + start, reader.at - start);
        }
        if (token == TOKEN_OPEN && printer.flat == 0 && is_flat(&reader)) {
            printer.flat = reader.depth;
        } else if (token == TOKEN_CLOSE && reader.depth < printer.flat) {
            printer.flat = 0;
        }
        last = token;
    }
    return printer.most != 0 && printer.lines >= printer.most ? printer.lines - printer.most + 1 : 0;
}
