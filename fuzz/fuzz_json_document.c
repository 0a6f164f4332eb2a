/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the reader of JSON documents of strangers, such as a config.json. The text lies at the edge of what may be touched.
 * Checking and reading agree, a fault is within the text, every value and key lies in the text, values follow each other as
 * their numbers say, and what a string stands for is UTF-8 and is recognised as that.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "block.h"
#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "json_document.h"
#include "text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void expect_string(const coffer__document *document, const coffer__json_node *node)
{
    size_t len = 0;
    char *text = coffer__document_string(document, node, &len);
    expect((text != NULL) == (node->kind == '"'), "a string is one, and nothing else is");
    if (text == NULL) {
        return;
    }
    expect(len <= node->len && text[len] == '\0', "it is never longer than it is written, and ends");
    expect(coffer__utf8_valid_len(text, len) == len, "it is UTF-8");
    if (strlen(text) == len) {
        expect(coffer__document_is(document, node, text), "it is recognised");
    }
    coffer__block_free(text);
}

static void expect_key(const coffer__document *document, const coffer__json_node *object, const coffer__json_node *node)
{
    size_t len = 0;
    expect(node->key <= document->text_len && node->key_len <= document->text_len - node->key, "a key is in the text");
    char *key = coffer__document_key(document, node, &len);
    expect(key != NULL && coffer__utf8_valid_len(key, len) == len, "and is UTF-8");
    if (strlen(key) == len) {
        const coffer__json_node *found = coffer__document_member(document, object, key);
        expect(found != NULL && found >= node, "a member is found by it, of two the last");
    }
    coffer__block_free(key);
}

/* Each value, and what is within it; looking a key up costs as much as the object is long, so of a long one few are. */
static void expect_value(const coffer__document *document, const coffer__json_node *node)
{
    const size_t number = (size_t)(node - document->nodes);
    size_t members = 0;
    expect(node->at <= document->text_len && node->len <= document->text_len - node->at, "a value is in the text");
    expect(node->next > number && node->next <= document->count, "what follows it comes after it");
    expect_string(document, node);
    for (const coffer__json_node *child = coffer__document_first(document, node); child != NULL;
         child = coffer__document_after(document, node, child)) {
        expect(child > node && child < document->nodes + node->next, "what is within it is in it");
        if (node->kind == '{' && members++ < 64) {
            expect_key(document, node, child);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    bool loose = false;
    size_t at = 0;
    const char *what = NULL;
    coffer__document document;
    if (size > GUARDED_LARGEST) {
        return 0;
    }
    const char *text = (const char *)guarded_copy(bytes, size);
    const bool sound = coffer__document_check(text, size, &loose, &what, &at);
    expect(sound == (what == NULL) && at <= size, "a fault is named, and within the text");
    expect(coffer__document_read(&document, coffer_libc_allocator(), text, size) == sound, "reading agrees");
    expect(sound == (coffer__document_root(&document) != NULL), "what is read has a value");
    for (size_t i = 0; i < document.count; i++) {
        expect_value(&document, &document.nodes[i]);
    }
    coffer__document_free(&document);
    return 0;
}
