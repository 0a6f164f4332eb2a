/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON document, looked up: see json_document.h for the contract. */
#include "json_document.h"

#include "block.h"
#include "json_tokens.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

/* ---- Reading ---- */

static const char *what_of(const coffer__tokens *reader)
{
    return reader->at == reader->text_len          ? "it stops early"
           : reader->depth == COFFER__TOKENS_DEPTH ? "it nests too deep"
           : reader->depth == 0 && reader->at > 0  ? "something follows its end"
                                                   : "a value is expected";
}

bool coffer__document_check(const char *text, size_t text_len, bool *loose, const char **what, size_t *at)
{
    coffer__tokens reader = { .text = text, .text_len = text_len, .lenient = true };
    coffer__token token = COFFER__TOKEN_END;
    size_t start = 0;
    *at = coffer__utf8_valid_len(text, text_len);
    *what = *at < text_len ? "it is not UTF-8" : NULL;
    if (*what != NULL) {
        return false;
    }
    do {
        token = coffer__tokens_next(&reader, token, &start);
    } while (token != COFFER__TOKEN_NONE && token != COFFER__TOKEN_END);
    *loose = reader.loose;
    *at = reader.at;
    *what = token == COFFER__TOKEN_NONE ? what_of(&reader) : NULL;
    return *what == NULL;
}

/* A value of the text between two places; NULL without memory. */
static coffer__json_node *add_node(coffer__document *document)
{
    if (document->count == document->capacity) {
        const size_t capacity = document->capacity == 0 ? 64 : 2 * document->capacity;
        coffer__json_node *nodes =
            capacity < SIZE_MAX / sizeof *nodes
                ? coffer__block_resize(document->allocator, document->nodes, capacity * sizeof *nodes)
                : NULL;
        if (nodes == NULL) {
            return NULL;
        }
        document->nodes = nodes;
        document->capacity = capacity;
    }
    coffer__json_node *node = &document->nodes[document->count++];
    *node = (coffer__json_node){ .next = (uint32_t)document->count };
    return node;
}

/* What is open while a document is read. */
typedef struct document_reading {
    coffer__tokens reader;
    coffer__token last;
    uint32_t key;
    uint32_t key_len;
    size_t open[COFFER__TOKENS_DEPTH]; /* the numbers of the values that are open */
} document_reading;

/* The key's length within its quotes, which are not in the text after the colon. */
static void document_take_key(document_reading *reading, size_t start)
{
    coffer__tokens key = { .text = reading->reader.text, .text_len = reading->reader.text_len, .at = start };
    coffer__tokens_skip_string(&key);
    reading->key = (uint32_t)(start + 1);
    reading->key_len = (uint32_t)(key.at - start - 2);
}

static bool take_value(coffer__document *document, document_reading *reading, coffer__token token, size_t start)
{
    const char c = document->text[start];
    const size_t quote = c == '"';
    coffer__json_node *node = add_node(document);
    if (node == NULL) {
        return false;
    }
    node->kind = strchr("{[\"tfn", c) != NULL ? c : '\0';
    node->at = (uint32_t)(start + quote);
    node->len = token == COFFER__TOKEN_OPEN ? 0 : (uint32_t)(reading->reader.at - start - 2 * quote);
    if (reading->last == COFFER__TOKEN_KEY) {
        node->key = reading->key;
        node->key_len = reading->key_len;
    }
    if (token == COFFER__TOKEN_OPEN) {
        reading->open[reading->reader.depth - 1] = document->count - 1;
    }
    return true;
}

static bool read_values(coffer__document *document)
{
    document_reading reading = { .reader = { .text = document->text, .text_len = document->text_len, .lenient = true },
                                 .last = COFFER__TOKEN_END };
    for (;;) {
        size_t start = 0;
        const coffer__token token = coffer__tokens_next(&reading.reader, reading.last, &start);
        if (token == COFFER__TOKEN_END || token == COFFER__TOKEN_NONE) {
            return token == COFFER__TOKEN_END;
        }
        if (token == COFFER__TOKEN_KEY) {
            document_take_key(&reading, start);
        } else if (token == COFFER__TOKEN_CLOSE) {
            document->nodes[reading.open[reading.reader.depth]].next = (uint32_t)document->count;
        } else if (!take_value(document, &reading, token, start)) {
            return false;
        }
        reading.last = token;
    }
}

bool coffer__document_read(coffer__document *document, const coffer_allocator *allocator, const char *text,
                           size_t text_len)
{
    *document = (coffer__document){ .allocator = allocator, .text = text, .text_len = text_len };
    if (text_len >= UINT32_MAX) {
        document->what = "it is too large";
        return false;
    }
    if (!coffer__document_check(text, text_len, &document->loose, &document->what, &document->at)) {
        return false;
    }
    if (!read_values(document)) {
        coffer__document_free(document);
        return false;
    }
    return true;
}

void coffer__document_free(coffer__document *document)
{
    coffer__block_free(document->nodes);
    document->nodes = NULL;
    document->count = 0;
    document->capacity = 0;
}

/* ---- Strings ---- */

static uint32_t hex_of(const char *digits)
{
    uint32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        const char c = digits[i];
        const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
        value = (value << 4) | (uint32_t)digit;
    }
    return value;
}

/* Reads the \u escape at `at`, and the other half of a pair; returns its bytes in the text. */
static size_t read_unicode(const char *text, size_t len, size_t at, uint32_t *code)
{
    *code = hex_of(text + at + 2);
    const bool high = *code >= 0xD800 && *code <= 0xDBFF;
    if (high && len - at >= 12 && text[at + 6] == '\\' && text[at + 7] == 'u') {
        const uint32_t low = hex_of(text + at + 8);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
            return 12;
        }
    }
    *code = *code >= 0xD800 && *code <= 0xDFFF ? 0xFFFD : *code;
    return 6;
}

/* Undoing an escape never makes a text longer. The text was checked, so no escape is cut off. */
static char *unescape(const coffer_allocator *allocator, const char *text, size_t len, size_t *out_len)
{
    static const char plain[] = "bfnrt";
    static const char meant[] = "\b\f\n\r\t";
    size_t used = 0;
    char *out = coffer__block_new(allocator, len + 1);
    for (size_t at = 0; out != NULL && at < len;) {
        if (text[at] != '\\') {
            out[used++] = text[at++];
        } else if (text[at + 1] == 'u') {
            uint32_t code = 0;
            at += read_unicode(text, len, at, &code);
            used += coffer__utf8_encode(out + used, code);
        } else {
            const char *letter = strchr(plain, text[at + 1]);
            out[used++] = letter != NULL ? meant[letter - plain] : text[at + 1];
            at += 2;
        }
    }
    if (out != NULL) {
        out[used] = '\0';
        *out_len = used;
    }
    return out;
}

/* Whether a string as it was written stands for that text. */
static bool means(const coffer__document *document, const char *written, size_t written_len, const char *text,
                  size_t text_len)
{
    if (written_len < text_len || memchr(written, '\\', written_len) == NULL) {
        return written_len == text_len && memcmp(written, text, text_len) == 0;
    }
    size_t len = 0;
    char *undone = unescape(document->allocator, written, written_len, &len);
    const bool same = undone != NULL && len == text_len && memcmp(undone, text, text_len) == 0;
    coffer__block_free(undone);
    return same;
}

/* ---- Looking up ---- */

const coffer__json_node *coffer__document_root(const coffer__document *document)
{
    return document->count > 0 ? &document->nodes[0] : NULL;
}

const coffer__json_node *coffer__document_first(const coffer__document *document, const coffer__json_node *parent)
{
    if (parent == NULL || (parent->kind != '{' && parent->kind != '[')) {
        return NULL;
    }
    const coffer__json_node *child = parent + 1;
    return child < document->nodes + parent->next ? child : NULL;
}

const coffer__json_node *coffer__document_after(const coffer__document *document, const coffer__json_node *parent,
                                                const coffer__json_node *child)
{
    return child->next < parent->next ? &document->nodes[child->next] : NULL;
}

const coffer__json_node *coffer__document_member(const coffer__document *document, const coffer__json_node *object,
                                                 const char *key)
{
    const coffer__json_node *found = NULL;
    const size_t len = strlen(key);
    if (object == NULL || object->kind != '{') {
        return NULL;
    }
    for (const coffer__json_node *node = coffer__document_first(document, object); node != NULL;
         node = coffer__document_after(document, object, node)) {
        if (means(document, document->text + node->key, node->key_len, key, len)) {
            found = node;
        }
    }
    return found;
}

bool coffer__document_is(const coffer__document *document, const coffer__json_node *node, const char *text)
{
    return node != NULL && node->kind == '"' &&
           means(document, document->text + node->at, node->len, text, strlen(text));
}

bool coffer__document_u64(const coffer__document *document, const coffer__json_node *node, uint64_t *number)
{
    uint64_t value = 0;
    if (node == NULL || node->kind != '\0') {
        return false;
    }
    for (size_t i = 0; i < node->len; i++) {
        const char c = document->text[node->at + i];
        const uint64_t digit = (uint64_t)(c - '0');
        if (c < '0' || c > '9' || value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = 10 * value + digit;
    }
    *number = value;
    return true;
}

char *coffer__document_string(const coffer__document *document, const coffer__json_node *node, size_t *len)
{
    return node != NULL && node->kind == '"' ? unescape(document->allocator, document->text + node->at, node->len, len)
                                             : NULL;
}

char *coffer__document_key(const coffer__document *document, const coffer__json_node *node, size_t *len)
{
    return unescape(document->allocator, document->text + node->key, node->key_len, len);
}
