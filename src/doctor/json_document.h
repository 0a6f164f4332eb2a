/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON document of a stranger, such as a config.json: read whole and checked whole, then looked up. Values lie in one
 * array, in the order of the text, each with the number of the value that follows all that is within it:
 *
 *     {"a": [1, 2], "b": 3}      0 object, next 5    1 "a": array, next 4    2 number    3 number    4 "b": number
 *
 * Nothing recurses, nesting is bounded (COFFER__TOKENS_DEPTH), and memory is bounded by the text, which has fewer than 4 GiB: a
 * value takes at least two bytes of it, and 24 of memory. What Python's json reads is read, and means the same, since that
 * is what loaders have: NaN and Infinity are numbers, and of two members of one name the last one counts.
 */
#ifndef COFFER_DOCTOR_JSON_DOCUMENT_H
#define COFFER_DOCTOR_JSON_DOCUMENT_H

#include "coffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COFFER__CONFIG_MAX ((size_t)8 << 20) /* bytes of a config.json and its like that are read */

/* A value. Places count in the text, whose bytes are those of the file: strings are without their quotes, and their
   escapes are as they were written. */
typedef struct coffer__json_node {
    uint32_t key; /* of a member of an object */
    uint32_t key_len;
    uint32_t at;
    uint32_t len;  /* 0 of objects and arrays */
    uint32_t next; /* the number of the value after this one and all that is within it */
    char kind;     /* the first character: { [ " t f n, or 0 for a number */
} coffer__json_node;

typedef struct coffer__document {
    const coffer_allocator *allocator; /* borrowed */
    const char *text;                  /* borrowed */
    size_t text_len;
    coffer__json_node *nodes;
    size_t count;
    size_t capacity;
    bool loose;       /* it has NaN or Infinity, which RFC 8259 does not know */
    const char *what; /* what is wrong with it; NULL: nothing, or there was no memory */
    size_t at;        /* the byte that is wrong */
} coffer__document;

/* Whether a text is JSON, without keeping anything. Where it is not, *what says why and *at at which byte. *loose says
   whether it has NaN or Infinity. */
bool coffer__document_check(const char *text, size_t text_len, bool *loose, const char **what, size_t *at);
/* Reads a text, which is borrowed until coffer__document_free. False, with `what` and `at`, where it is not JSON; with `what`
   NULL, where there is no memory. Free it in any case. */
bool coffer__document_read(coffer__document *document, const coffer_allocator *allocator, const char *text,
                           size_t text_len);
void coffer__document_free(coffer__document *document);

/* The outermost value; NULL when nothing was read. */
const coffer__json_node *coffer__document_root(const coffer__document *document);
/* The member of an object whose key is this one once its escapes are undone, of two the last; NULL when there is none, or
   no object. */
const coffer__json_node *coffer__document_member(const coffer__document *document, const coffer__json_node *object,
                                                 const char *key);
/* The first value in an object or array, and the one after it; NULL when there is none. */
const coffer__json_node *coffer__document_first(const coffer__document *document, const coffer__json_node *parent);
const coffer__json_node *coffer__document_after(const coffer__document *document, const coffer__json_node *parent,
                                                const coffer__json_node *child);
/* Whether a value is this string once its escapes are undone; false for NULL. */
bool coffer__document_is(const coffer__document *document, const coffer__json_node *node, const char *text);
/* A whole number that is not negative and fits; false for anything else, and for NULL. */
bool coffer__document_u64(const coffer__document *document, const coffer__json_node *node, uint64_t *number);
/* The string, or a member's key, with its escapes undone and a NUL after it, to be freed by coffer__block_free; half a surrogate pair becomes
   U+FFFD. NULL for another value, or without memory. */
char *coffer__document_string(const coffer__document *document, const coffer__json_node *node, size_t *len);
char *coffer__document_key(const coffer__document *document, const coffer__json_node *node, size_t *len);

#endif
