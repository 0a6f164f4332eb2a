/* SPDX-License-Identifier: Apache-2.0 */
/* JSON for eyes: see cli_pretty.h for the contract. */
#include "cli_pretty.h"

#include "cli_text.h"
#include "json_tokens.h"

#include <stdio.h>
#include <string.h>

#define FLAT_MAX 64 /* bytes of an object or array that stays on its line, if there is none within it */

bool cli_is_json(const char *text, size_t text_len)
{
    coffer__tokens reader = { .text = text, .text_len = text_len };
    size_t start = 0;
    coffer__token token = coffer__tokens_next(&reader, COFFER__TOKEN_END, &start);
    if (token != COFFER__TOKEN_OPEN) {
        return false;
    }
    while (token != COFFER__TOKEN_NONE && token != COFFER__TOKEN_END) {
        token = coffer__tokens_next(&reader, token, &start);
    }
    return token == COFFER__TOKEN_END;
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
static bool is_flat(const coffer__tokens *reader)
{
    coffer__tokens ahead = *reader;
    while (ahead.at < ahead.text_len && ahead.at - reader->at < FLAT_MAX) {
        const char c = coffer__tokens_peek(&ahead);
        if (c == '{' || c == '[' || c == '}' || c == ']') {
            return c == '}' || c == ']';
        }
        if (c != '"') {
            ahead.at++;
        } else if (!coffer__tokens_skip_string(&ahead)) {
            return false;
        }
    }
    return false;
}

/* What stands between two tokens. */
static void put_space(json_printer *printer, coffer__token last, coffer__token token, size_t depth)
{
    const bool flat = printer->flat != 0 && depth >= printer->flat;
    if (last == COFFER__TOKEN_KEY) {
        put_token(printer, " ", 1);
    } else if (token != COFFER__TOKEN_CLOSE && last != COFFER__TOKEN_OPEN && last != COFFER__TOKEN_END) {
        put_token(printer, flat ? ", " : ",", flat ? 2 : 1);
    }
    if (!flat && last != COFFER__TOKEN_KEY && last != COFFER__TOKEN_END &&
        !(last == COFFER__TOKEN_OPEN && token == COFFER__TOKEN_CLOSE)) {
        new_line(printer, token == COFFER__TOKEN_CLOSE ? depth - 1 : depth);
    }
}

size_t cli_put_json(cli_output *out, const char *text, size_t text_len, size_t indent, size_t most)
{
    coffer__tokens reader = { .text = text, .text_len = text_len };
    json_printer printer = { .out = out, .indent = indent, .most = most };
    coffer__token last = COFFER__TOKEN_END;
    while (out->error == 0) {
        size_t start = 0;
        const size_t depth = reader.depth;
        const coffer__token token = coffer__tokens_next(&reader, last, &start);
        if (token == COFFER__TOKEN_END || token == COFFER__TOKEN_NONE) {
            break;
        }
        put_space(&printer, last, token, depth);
        if (token == COFFER__TOKEN_KEY) {
            /* The key alone: there may be white space before its colon. */
            coffer__tokens key = { .text = text, .text_len = text_len, .at = start };
            coffer__tokens_skip_string(&key);
            put_token(&printer, text + start, key.at - start);
            put_token(&printer, ":", 1);
        } else {
            put_token(&printer, text + start, reader.at - start);
        }
        if (token == COFFER__TOKEN_OPEN && printer.flat == 0 && is_flat(&reader)) {
            printer.flat = reader.depth;
        } else if (token == COFFER__TOKEN_CLOSE && reader.depth < printer.flat) {
            printer.flat = 0;
        }
        last = token;
    }
    return printer.most != 0 && printer.lines >= printer.most ? printer.lines - printer.most + 1 : 0;
}
