/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of JSON, by RFC 8259: no tree, no recursion, no memory. What opens more than CLI_JSON_READER_DEPTH containers
 * is refused.
 */
#ifndef COFFER_CLI_JSON_READER_H
#define COFFER_CLI_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>

#define CLI_JSON_READER_DEPTH 64

/* Begins as zeros but for the text, which is borrowed. */
typedef struct cli_json_reader {
    const char *text;
    size_t text_len;
    size_t at;
    size_t depth;
    char open[CLI_JSON_READER_DEPTH]; /* the brackets that are open */
} cli_json_reader;

/* What came. */
typedef enum cli_json_token {
    CLI_JSON_NONE = 0, /* no JSON; the reader stands near the byte that is wrong */
    CLI_JSON_OPEN,
    CLI_JSON_CLOSE,
    CLI_JSON_KEY, /* a string in front of a colon, which belongs to it */
    CLI_JSON_SCALAR,
    CLI_JSON_END
} cli_json_token;

/* The token after `last`, which is CLI_JSON_END before the first. *start is where it begins; it ends at reader->at. */
cli_json_token cli_json_read_token(cli_json_reader *reader, cli_json_token last, size_t *start);
/* Skips the string that begins at reader->at, quotes included; false when there is none. */
bool cli_json_skip_string(cli_json_reader *reader);
/* Writes what a string stands for that was read as a token, and that begins with its quote, to `out`, which has room for
   as many bytes as the token has; no NUL. Stores the length; false when an escape names no character (half of a
   surrogate pair). */
bool cli_json_unescape(const char *token, char *out, size_t *out_len);

#endif
