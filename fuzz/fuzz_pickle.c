/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the pickle machine. Whatever the stream, the graph is whole: links lead to nodes that are there, places lie within
 * the stream, texts are UTF-8 but for surrogates, and a failure names a byte of the stream. The second run, which has less
 * memory, sees the same things happen, as far as it gets.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "pickle.h"
#include "text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

typedef struct fuzz_stream {
    const uint8_t *bytes;
    size_t size;
    size_t reported;
} fuzz_stream;

static coffer_status read_stream(void *ctx, uint64_t offset, void *bytes, size_t size, coffer_error *err)
{
    const fuzz_stream *in = ctx;
    (void)err;
    expect(size > 0 && offset <= in->size && size <= in->size - offset, "a read is within the stream");
    memcpy(bytes, in->bytes + offset, size);
    return COFFER_OK;
}

static coffer_status see(void *ctx, const coffer__pickle *pickle, coffer__value value, coffer_error *err)
{
    fuzz_stream *in = ctx;
    (void)err;
    const coffer__node *node = coffer__pickle_node(pickle, value);
    expect(value <= coffer__pickle_count(pickle), "what is told is a node");
    expect(node->kind == COFFER__VALUE_GLOBAL || node->kind == COFFER__VALUE_CALL ||
               node->kind == COFFER__VALUE_PERSISTENT,
           "what is told is a name, a call, or asked for by an id");
    in->reported++;
    return COFFER_OK;
}

static bool is_surrogate(const char *text, size_t len)
{
    return len >= 3 && (uint8_t)text[0] == 0xED && ((uint8_t)text[1] & 0xE0) == 0xA0;
}

static void expect_text(const char *text, size_t len)
{
    for (size_t at = coffer__utf8_valid_len(text, len); at < len; at += coffer__utf8_valid_len(text + at, len - at)) {
        expect(is_surrogate(text + at, len - at), "a text is UTF-8");
        at += 3;
    }
}

static void expect_bytes(const coffer__pickle *pickle, coffer__value value, const coffer__node *node, size_t size)
{
    size_t len = 0;
    const char *kept = coffer__pickle_bytes_of(pickle, value, &len);
    /* Those that are not there, since the stream ends before, are the last thing that happened. */
    const bool inside = node->as.bytes.at <= size && node->as.bytes.size <= size - node->as.bytes.at;
    expect(inside || kept == NULL, "bytes lie within the stream");
    if (kept != NULL) {
        expect(kept[len] == '\0', "what is kept ends with a NUL");
    }
    if (kept != NULL && node->kind == COFFER__VALUE_TEXT) {
        expect_text(kept, len);
    }
}

static void expect_items(const coffer__pickle *pickle, const coffer__node *node)
{
    uint32_t count = 0;
    for (uint32_t link = node->first; link != 0; count++) {
        const coffer__value item = coffer__pickle_item(pickle, &link);
        expect(item != 0 && item <= coffer__pickle_count(pickle), "an item is a node");
    }
    expect(count == node->count, "there are as many items as the node says");
    expect(node->kind != COFFER__VALUE_DICT || count % 2 == 0, "keys have values");
    expect(node->kind != COFFER__VALUE_CALL || (count >= 2 && count <= 3), "a call has a callable and arguments");
}

static void expect_node(const coffer__pickle *pickle, coffer__value value, size_t size)
{
    const coffer__node *node = coffer__pickle_node(pickle, value);
    const size_t nodes = coffer__pickle_count(pickle);
    expect(node->kind >= COFFER__VALUE_NONE && node->kind <= COFFER__VALUE_PERSISTENT, "a node has a kind");
    expect(node->offset < size, "a node's opcode lies within the stream");
    expect(coffer__node_state(node) <= nodes && coffer__node_attributes(node) <= nodes,
           "states and attributes are nodes");
    if (node->kind == COFFER__VALUE_GLOBAL) {
        const char *module = coffer__pickle_module(pickle, value);
        const char *name = coffer__pickle_name(pickle, value);
        expect(coffer__utf8_valid_len(module, strlen(module)) == strlen(module), "a module's name is UTF-8");
        expect(coffer__utf8_valid_len(name, strlen(name)) == strlen(name), "a name is UTF-8");
    } else if (node->kind == COFFER__VALUE_TEXT || node->kind == COFFER__VALUE_BYTES) {
        expect_bytes(pickle, value, node, size);
    }
    expect_items(pickle, node);
}

/* Runs the machine; how many things were told. */
static size_t run(const uint8_t *bytes, size_t size, uint64_t budget, coffer_status *status)
{
    fuzz_stream in = { .bytes = bytes, .size = size };
    const coffer__pickle_bytes stream = { &in, read_stream, size };
    const coffer__pickle_watch watch = { .ctx = &in, .seen = see };
    coffer__pickle *pickle = NULL;
    coffer_error err;
    uint64_t end = 0;
    *status = coffer__pickle_run(&pickle, &stream, 0, coffer_libc_allocator(), budget, &watch, &end, &err);
    if (pickle == NULL) {
        return 0;
    }
    for (coffer__value value = 1; value <= coffer__pickle_count(pickle); value++) {
        expect_node(pickle, value, size);
    }
    expect(coffer__pickle_root(pickle) <= coffer__pickle_count(pickle), "the root is a node");
    expect(*status != COFFER_OK || (coffer__pickle_root(pickle) != 0 && end > 0 && end <= size),
           "a pickle has a value");
    expect(*status == COFFER_OK || *status == COFFER_ERR_PICKLE || *status == COFFER_ERR_MEMORY, "it fails as it says");
    expect(*status == COFFER_OK || err.offset <= size, "a failure names a byte");
    (void)coffer__pickle_get(pickle, coffer__pickle_root(pickle), "state_dict");
    coffer__pickle_free(pickle);
    return in.reported;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const uint8_t *edge = guarded_copy(bytes, size);
    coffer_status status = COFFER_OK;
    coffer_status again = COFFER_OK;
    if (edge == NULL) {
        return 0;
    }
    const size_t reported = run(edge, size, (uint64_t)16 << 20, &status);
    const size_t less = run(edge, size, 2048, &again);
    expect(less <= reported, "with less memory no more happens");
    expect(again == status || again == COFFER_ERR_MEMORY, "with less memory the same happens, or memory is missing");
    return 0;
}
