/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of JSON, and which of them may come next: see cli_tokens.h for the contract. */
#include "cli_tokens.h"

#include <stdint.h>
#include <string.h>

char cli_tokens_peek(const cli_tokens *reader)
{
    return reader->at < reader->text_len ? reader->text[reader->at] : '\0';
}

static void skip_space(cli_tokens *reader)
{
    while (reader->at < reader->text_len && strchr(" \t\n\r", reader->text[reader->at]) != NULL &&
           reader->text[reader->at] != '\0') {
        reader->at++;
    }
}

static bool skip_one_of(cli_tokens *reader, const char *set)
{
    const char c = cli_tokens_peek(reader);
    const bool found = c != '\0' && strchr(set, c) != NULL;
    reader->at += found;
    return found;
}

static bool skip_digits(cli_tokens *reader)
{
    const size_t start = reader->at;
    while (skip_one_of(reader, "0123456789")) {}
    return reader->at > start;
}

static bool skip_number(cli_tokens *reader)
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

static bool skip_escape(cli_tokens *reader)
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

bool cli_tokens_skip_string(cli_tokens *reader)
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

static bool skip_word(cli_tokens *reader)
{
    static const char *const words[] = { "true", "false", "null", "NaN", "Infinity", "-Infinity" };
    const size_t count = reader->lenient ? sizeof words / sizeof words[0] : 3;
    for (size_t i = 0; i < count; i++) {
        const size_t len = strlen(words[i]);
        if (reader->text_len - reader->at >= len && memcmp(reader->text + reader->at, words[i], len) == 0) {
            reader->at += len;
            reader->loose = reader->loose || i >= 3;
            return true;
        }
    }
    return false;
}

static bool is_minus_word(const cli_tokens *reader)
{
    return reader->lenient && reader->text_len - reader->at > 1 && reader->text[reader->at + 1] == 'I';
}

static cli_token read_open(cli_tokens *reader)
{
    if (reader->depth == CLI_TOKENS_DEPTH) {
        return CLI_TOKEN_NONE;
    }
    reader->open[reader->depth++] = reader->text[reader->at++];
    return CLI_TOKEN_OPEN;
}

static cli_token read_value(cli_tokens *reader)
{
    const char c = cli_tokens_peek(reader);
    if (c == '{' || c == '[') {
        return read_open(reader);
    }
    const bool number = (c == '-' && !is_minus_word(reader)) || (c >= '0' && c <= '9');
    const bool fine = c == '"' ? cli_tokens_skip_string(reader) : number ? skip_number(reader) : skip_word(reader);
    return fine ? CLI_TOKEN_SCALAR : CLI_TOKEN_NONE;
}

static cli_token read_key(cli_tokens *reader)
{
    if (!cli_tokens_skip_string(reader)) {
        return CLI_TOKEN_NONE;
    }
    skip_space(reader);
    return skip_one_of(reader, ":") ? CLI_TOKEN_KEY : CLI_TOKEN_NONE;
}

cli_token cli_tokens_next(cli_tokens *reader, cli_token last, size_t *start)
{
    skip_space(reader);
    *start = reader->at;
    if (reader->depth == 0 && last != CLI_TOKEN_END) {
        return reader->at == reader->text_len ? CLI_TOKEN_END : CLI_TOKEN_NONE;
    }
    if (last == CLI_TOKEN_KEY || reader->depth == 0) {
        return read_value(reader);
    }
    const bool in_object = reader->open[reader->depth - 1] == '{';
    if (skip_one_of(reader, in_object ? "}" : "]")) {
        reader->depth--;
        return CLI_TOKEN_CLOSE;
    }
    if (last != CLI_TOKEN_OPEN) {
        if (!skip_one_of(reader, ",")) {
            return CLI_TOKEN_NONE;
        }
        skip_space(reader);
        *start = reader->at;
    }
    return in_object ? read_key(reader) : read_value(reader);
}
