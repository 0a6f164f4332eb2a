/* SPDX-License-Identifier: Apache-2.0 */
/* JSON token by token, as RFC 8259 has it, without recursion and without memory. */
#ifndef COFFER_CLI_TOKENS_H
#define COFFER_CLI_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#define CLI_TOKENS_DEPTH 64

/* Begin with the text and its length, everything else zero. After CLI_TOKEN_NONE `at` is where the text departs from
   JSON, or where it nests deeper than CLI_TOKENS_DEPTH. */
typedef struct cli_tokens {
    const char *text;
    size_t text_len;
    size_t at;
    size_t depth;
    bool lenient;                /* NaN, Infinity and -Infinity are scalars too, as Python writes and reads them */
    bool loose;                  /* one of them has come */
    char open[CLI_TOKENS_DEPTH]; /* the brackets that are open */
} cli_tokens;

/* What came. */
typedef enum cli_token {
    CLI_TOKEN_NONE = 0, /* no JSON */
    CLI_TOKEN_OPEN,
    CLI_TOKEN_CLOSE,
    CLI_TOKEN_KEY, /* a string in front of a colon, which belongs to it */
    CLI_TOKEN_SCALAR,
    CLI_TOKEN_END /* also what stands before the first */
} cli_token;

/* The token after `last`; *start is where it begins. */
cli_token cli_tokens_next(cli_tokens *reader, cli_token last, size_t *start);
/* Moves past a string that begins here; false where none does. */
bool cli_tokens_skip_string(cli_tokens *reader);
/* The next character; NUL at the end. */
char cli_tokens_peek(const cli_tokens *reader);

#endif
