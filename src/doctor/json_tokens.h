/* SPDX-License-Identifier: Apache-2.0 */
/* JSON token by token, as RFC 8259 has it, without recursion and without memory. */
#ifndef COFFER_DOCTOR_JSON_TOKENS_H
#define COFFER_DOCTOR_JSON_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#define COFFER__TOKENS_DEPTH 64

/* Begin with the text and its length, everything else zero. After COFFER__TOKEN_NONE `at` is where the text departs from
   JSON, or where it nests deeper than COFFER__TOKENS_DEPTH. */
typedef struct coffer__tokens {
    const char *text;
    size_t text_len;
    size_t at;
    size_t depth;
    bool lenient;                    /* NaN, Infinity and -Infinity are scalars too, as Python writes and reads them */
    bool loose;                      /* one of them has come */
    char open[COFFER__TOKENS_DEPTH]; /* the brackets that are open */
} coffer__tokens;

/* What came. */
typedef enum coffer__token {
    COFFER__TOKEN_NONE = 0, /* no JSON */
    COFFER__TOKEN_OPEN,
    COFFER__TOKEN_CLOSE,
    COFFER__TOKEN_KEY, /* a string in front of a colon, which belongs to it */
    COFFER__TOKEN_SCALAR,
    COFFER__TOKEN_END /* also what stands before the first */
} coffer__token;

/* The token after `last`; *start is where it begins. */
coffer__token coffer__tokens_next(coffer__tokens *reader, coffer__token last, size_t *start);
/* Moves past a string that begins here; false where none does. */
bool coffer__tokens_skip_string(coffer__tokens *reader);
/* The next character; NUL at the end. */
char coffer__tokens_peek(const coffer__tokens *reader);

#endif
