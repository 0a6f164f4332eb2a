/* SPDX-License-Identifier: Apache-2.0 */
/* Standard output: see cli_output.h for the contract. */
#include "cli_output.h"

#include "cli_text.h"
#include "coffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void cli_output_init(cli_output *out, FILE *stream)
{
    out->stream = stream;
    out->used = 0;
    out->error = 0;
    out->after_key = false;
    out->depth = 0;
    /* The buffer is ours; a second one in stdio would only copy. */
    setvbuf(stream, NULL, _IONBF, 0);
}

void cli_output_flush(cli_output *out)
{
    const size_t used = out->used;
    out->used = 0;
    if (used == 0 || out->error != 0) {
        return;
    }
    errno = 0;
    if (fwrite(out->buffer, 1, used, out->stream) != used) {
        out->error = errno != 0 ? errno : EIO;
    }
}

void cli_put(cli_output *out, const char *bytes, size_t size)
{
    while (size > 0) {
        if (out->used == sizeof out->buffer) {
            cli_output_flush(out);
        }
        const size_t room = sizeof out->buffer - out->used;
        const size_t part = size < room ? size : room;
        memcpy(out->buffer + out->used, bytes, part);
        out->used += part;
        bytes += part;
        size -= part;
    }
}

void cli_put_text(cli_output *out, const char *text)
{
    cli_put(out, text, strlen(text));
}

void cli_put_char(cli_output *out, char c)
{
    cli_put(out, &c, 1);
}

void cli_put_repeat(cli_output *out, char c, size_t count)
{
    char block[64];
    memset(block, c, sizeof block);
    while (count > 0) {
        const size_t part = count < sizeof block ? count : sizeof block;
        cli_put(out, block, part);
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

/* ---- JSON ---- */

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
    } else if (cli_is_unsafe(code)) {
        /* All of them lie in the first 65,536 code points. */
        snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
        cli_put_text(out, text);
    } else {
        cli_put(out, bytes, size);
    }
}

/* Bytes up to the first that may need more than to be copied. */
static size_t plain_run(const char *text, size_t text_len)
{
    size_t len = 0;
    while (len < text_len && text[len] >= 0x20 && text[len] <= 0x7E && text[len] != '"' && text[len] != '\\') {
        len++;
    }
    return len;
}

static void json_text(cli_output *out, const char *text, size_t text_len)
{
    cli_put_char(out, '"');
    size_t done = 0;
    while (done < text_len) {
        const size_t plain = plain_run(text + done, text_len - done);
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
