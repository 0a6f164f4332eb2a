/* SPDX-License-Identifier: Apache-2.0 */
/* Standard output as JSON: see cli_output.h for the contract. */
#include "cli_output.h"

#include "cli_text.h"

#include <stdio.h>
#include <string.h>

/* What stands between the value before and the one that now comes. */
static void json_separate(cli_output *out)
{
    if (out->after_key) {
        out->after_key = false;
        return;
    }
    if (out->depth == 0) {
        return;
    }
    cli_json_level *level = &out->levels[out->depth - 1];
    if (level->filled) {
        cli_put_text(out, level->lines ? "," : ", ");
    }
    if (level->lines) {
        cli_put_char(out, '\n');
        cli_put_repeat(out, ' ', (size_t)out->depth * 2);
    }
    level->filled = true;
}

void cli_json_open(cli_output *out, char bracket, bool lines)
{
    json_separate(out);
    cli_put_char(out, bracket);
    out->levels[out->depth].lines = lines;
    out->levels[out->depth].filled = false;
    out->depth++;
}

void cli_json_close(cli_output *out, char bracket)
{
    out->depth--;
    const cli_json_level *level = &out->levels[out->depth];
    if (level->lines && level->filled) {
        cli_put_char(out, '\n');
        cli_put_repeat(out, ' ', (size_t)out->depth * 2);
    }
    cli_put_char(out, bracket);
    if (out->depth == 0) {
        cli_put_char(out, '\n');
    }
}

/* Whether a character has a meaning in HTML. */
static bool is_markup(uint32_t code)
{
    return code == '<' || code == '>' || code == '&';
}

/* One character of a string: as it is, or as JSON writes what must not stand in a string or would steer a terminal. */
static void json_character(cli_output *out, const char *bytes, size_t size, uint32_t code)
{
    char text[16];
    if (code == '"' || code == '\\') {
        cli_put_char(out, '\\');
        cli_put(out, bytes, size);
    } else if (code == '\n') {
        cli_put_text(out, "\\n");
    } else if (code == '\t') {
        cli_put_text(out, "\\t");
    } else if (cli_is_unsafe(code) || (out->in_markup && is_markup(code))) {
        /* All of them lie in the first 65,536 code points. */
        snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
        cli_put_text(out, text);
    } else {
        cli_put(out, bytes, size);
    }
}

/* Bytes up to the first that may need more than to be copied. */
static size_t plain_run(const cli_output *out, const char *text, size_t text_len)
{
    size_t len = 0;
    while (len < text_len && text[len] >= 0x20 && text[len] <= 0x7E && text[len] != '"' && text[len] != '\\' &&
           !(out->in_markup && is_markup((unsigned char)text[len]))) {
        len++;
    }
    return len;
}

static void json_text(cli_output *out, const char *text, size_t text_len)
{
    cli_put_char(out, '"');
    size_t done = 0;
    while (done < text_len) {
        const size_t plain = plain_run(out, text + done, text_len - done);
        if (plain > 0) {
            cli_put(out, text + done, plain);
            done += plain;
            continue;
        }
        uint32_t code = 0;
        const size_t size = cli_read_character(text + done, text_len - done, &code);
        if (size == 0) {
            /* Only a path can hold bytes that are not UTF-8, and JSON has no way to write those. */
            cli_put_text(out, "\\ufffd");
            done++;
        } else {
            json_character(out, text + done, size, code);
            done += size;
        }
    }
    cli_put_char(out, '"');
}

void cli_json_key_n(cli_output *out, const char *key, size_t key_len)
{
    json_separate(out);
    json_text(out, key, key_len);
    cli_put_text(out, ": ");
    out->after_key = true;
}

void cli_json_key(cli_output *out, const char *key)
{
    cli_json_key_n(out, key, strlen(key));
}

void cli_json_string_n(cli_output *out, const char *text, size_t text_len)
{
    json_separate(out);
    json_text(out, text, text_len);
}

void cli_json_string(cli_output *out, const char *text)
{
    cli_json_string_n(out, text, strlen(text));
}

void cli_json_number(cli_output *out, uint64_t number)
{
    json_separate(out);
    cli_put_number(out, number);
}

void cli_json_bool(cli_output *out, bool value)
{
    cli_json_raw(out, value ? "true" : "false");
}

void cli_json_null(cli_output *out)
{
    cli_json_raw(out, "null");
}

void cli_json_raw(cli_output *out, const char *text)
{
    json_separate(out);
    cli_put_text(out, text);
}

void cli_json_put_string(cli_output *out, const char *key, const char *text)
{
    cli_json_key(out, key);
    cli_json_string(out, text);
}

void cli_json_put_number(cli_output *out, const char *key, uint64_t number)
{
    cli_json_key(out, key);
    cli_json_number(out, number);
}

void cli_json_put_bool(cli_output *out, const char *key, bool value)
{
    cli_json_key(out, key);
    cli_json_bool(out, value);
}
