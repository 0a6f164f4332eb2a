/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of JSON, and which of them may come next: see json_tokens.h for the contract. */
#include "json_tokens.h"

#include <stdint.h>
#include <string.h>

char coffer__tokens_peek(const coffer__tokens *reader)
{
    return reader->at < reader->text_len ? reader->text[reader->at] : '\0';
}

static void token_skip_space(coffer__tokens *reader)
{
    while (reader->at < reader->text_len && strchr(" \t\n\r", reader->text[reader->at]) != NULL &&
           reader->text[reader->at] != '\0') {
        reader->at++;
    }
}

static bool token_skip_one_of(coffer__tokens *reader, const char *set)
{
    const char c = coffer__tokens_peek(reader);
    const bool found = c != '\0' && strchr(set, c) != NULL;
    reader->at += found;
    return found;
}

static bool token_skip_digits(coffer__tokens *reader)
{
    const size_t start = reader->at;
    while (token_skip_one_of(reader, "0123456789")) {}
    return reader->at > start;
}

static bool token_skip_number(coffer__tokens *reader)
{
    token_skip_one_of(reader, "-");
    if (!token_skip_one_of(reader, "0") && !token_skip_digits(reader)) {
        return false;
    }
    if (token_skip_one_of(reader, ".") && !token_skip_digits(reader)) {
        return false;
    }
    if (token_skip_one_of(reader, "eE")) {
        token_skip_one_of(reader, "+-");
        return token_skip_digits(reader);
    }
    return true;
}

static bool token_skip_escape(coffer__tokens *reader)
{
    if (!token_skip_one_of(reader, "u")) {
        return token_skip_one_of(reader, "\"\\/bfnrt");
    }
    for (int i = 0; i < 4; i++) {
        if (!token_skip_one_of(reader, "0123456789abcdefABCDEF")) {
            return false;
        }
    }
    return true;
}

bool coffer__tokens_skip_string(coffer__tokens *reader)
{
    if (!token_skip_one_of(reader, "\"")) {
        return false;
    }
    while (reader->at < reader->text_len) {
        const unsigned char c = (unsigned char)reader->text[reader->at++];
        if (c == '"') {
            return true;
        }
        if (c < 0x20 || (c == '\\' && !token_skip_escape(reader))) {
            return false;
        }
    }
    return false;
}

static bool token_skip_word(coffer__tokens *reader)
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

static bool is_minus_word(const coffer__tokens *reader)
{
    return reader->lenient && reader->text_len - reader->at > 1 && reader->text[reader->at + 1] == 'I';
}

static coffer__token token_read_open(coffer__tokens *reader)
{
    if (reader->depth == COFFER__TOKENS_DEPTH) {
        return COFFER__TOKEN_NONE;
    }
    reader->open[reader->depth++] = reader->text[reader->at++];
    return COFFER__TOKEN_OPEN;
}

static coffer__token token_read_value(coffer__tokens *reader)
{
    const char c = coffer__tokens_peek(reader);
    if (c == '{' || c == '[') {
        return token_read_open(reader);
    }
    const bool number = (c == '-' && !is_minus_word(reader)) || (c >= '0' && c <= '9');
    const bool fine = c == '"' ? coffer__tokens_skip_string(reader)
                      : number ? token_skip_number(reader)
                               : token_skip_word(reader);
    return fine ? COFFER__TOKEN_SCALAR : COFFER__TOKEN_NONE;
}

static coffer__token token_read_key(coffer__tokens *reader)
{
    if (!coffer__tokens_skip_string(reader)) {
        return COFFER__TOKEN_NONE;
    }
    token_skip_space(reader);
    return token_skip_one_of(reader, ":") ? COFFER__TOKEN_KEY : COFFER__TOKEN_NONE;
}

coffer__token coffer__tokens_next(coffer__tokens *reader, coffer__token last, size_t *start)
{
    token_skip_space(reader);
    *start = reader->at;
    if (reader->depth == 0 && last != COFFER__TOKEN_END) {
        return reader->at == reader->text_len ? COFFER__TOKEN_END : COFFER__TOKEN_NONE;
    }
    if (last == COFFER__TOKEN_KEY || reader->depth == 0) {
        return token_read_value(reader);
    }
    const bool in_object = reader->open[reader->depth - 1] == '{';
    if (token_skip_one_of(reader, in_object ? "}" : "]")) {
        reader->depth--;
        return COFFER__TOKEN_CLOSE;
    }
    if (last != COFFER__TOKEN_OPEN) {
        if (!token_skip_one_of(reader, ",")) {
            return COFFER__TOKEN_NONE;
        }
        token_skip_space(reader);
        *start = reader->at;
    }
    return in_object ? token_read_key(reader) : token_read_value(reader);
}
