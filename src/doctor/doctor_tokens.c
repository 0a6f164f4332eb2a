/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of tokens against the rows of the embeddings: see doctor_tokens.h. */
#include "doctor_tokens.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TOKENIZER_MAX ((size_t)64 << 20) /* bytes of a tokenizer that is taken apart */

/* ---- Single tokens ---- */

static const char *const SPECIAL[] = {
    "bos_token_id", "eos_token_id", "pad_token_id",  "decoder_start_token_id", "forced_bos_token_id",
    "sep_token_id", "cls_token_id", "mask_token_id", "forced_eos_token_id",
};

static void check_id(const coffer__doctor_folder *folder, const char *name, const coffer__document *document,
                     const coffer__json_node *node, const char *key, uint64_t rows)
{
    uint64_t id = 0;
    if (node == NULL || !coffer__document_u64(document, node, &id) || id < rows) {
        return;
    }
    coffer__finding *finding = coffer__doctor_add_in(
        folder, COFFER_SEVERITY_WARNING, "token_id", name,
        "%s is %" PRIu64 ", and the embeddings have %" PRIu64 " rows: there is no such token", key, id, rows);
    if (finding != NULL) {
        finding->offset = node->at;
    }
}

/* Each is a number or a list of them; -1 and null are none. */
static void check_ids(const coffer__doctor_folder *folder, const char *name, const coffer__document *document,
                      const coffer__json_node *object, uint64_t rows)
{
    for (size_t i = 0; i < sizeof SPECIAL / sizeof SPECIAL[0]; i++) {
        const coffer__json_node *node = coffer__document_member(document, object, SPECIAL[i]);
        const bool list = node != NULL && node->kind == '[';
        check_id(folder, name, document, node, SPECIAL[i], rows);
        for (const coffer__json_node *item = list ? coffer__document_first(document, node) : NULL; item != NULL;
             item = coffer__document_after(document, node, item)) {
            check_id(folder, name, document, item, SPECIAL[i], rows);
        }
    }
}

static void check_generation(const coffer__doctor_folder *folder, uint64_t rows)
{
    static const char name[] = "generation_config.json";
    coffer__doctor_text text;
    coffer__document document;
    if (coffer__doctor_read_json(folder, name, &text, &document)) {
        check_ids(folder, name, &document, coffer__document_root(&document), rows);
        coffer__document_free(&document);
        coffer__block_free(text.bytes);
    }
}

/* ---- The tokenizer ---- */

/* The largest number of a token that was seen, and in which file. */
typedef struct vocabulary {
    const coffer__doctor_folder *folder;
    const char *file; /* NULL: none was seen */
    uint64_t most;
} vocabulary;

static void see_id(vocabulary *seen, const char *file, uint64_t id)
{
    if (seen->file == NULL || id > seen->most) {
        seen->file = file;
        seen->most = id;
    }
}

/* The values of an object {token: number}; of a list of tokens, their places. */
static void see_vocabulary(vocabulary *seen, const char *file, const coffer__document *document,
                           const coffer__json_node *node)
{
    uint64_t place = 0;
    const bool is_list = node != NULL && node->kind == '[';
    const bool is_object = node != NULL && node->kind == '{';
    for (const coffer__json_node *item = is_list || is_object ? coffer__document_first(document, node) : NULL;
         item != NULL; item = coffer__document_after(document, node, item)) {
        uint64_t id = place++;
        if (is_list || coffer__document_u64(document, item, &id)) {
            see_id(seen, file, id);
        }
    }
}

/* A list of objects that have a number each. */
static void see_added(vocabulary *seen, const char *file, const coffer__document *document,
                      const coffer__json_node *list)
{
    const bool is_list = list != NULL && list->kind == '[';
    for (const coffer__json_node *item = is_list ? coffer__document_first(document, list) : NULL; item != NULL;
         item = coffer__document_after(document, list, item)) {
        uint64_t id = 0;
        if (coffer__document_u64(document, coffer__document_member(document, item, "id"), &id)) {
            see_id(seen, file, id);
        }
    }
}

/* An object whose keys are numbers. */
static void see_keys(vocabulary *seen, const char *file, const coffer__document *document,
                     const coffer__json_node *object)
{
    const bool is_object = object != NULL && object->kind == '{';
    for (const coffer__json_node *item = is_object ? coffer__document_first(document, object) : NULL; item != NULL;
         item = coffer__document_after(document, object, item)) {
        size_t len = 0;
        char *key = coffer__document_key(document, item, &len);
        if (key != NULL && len > 0 && len < 19 && strspn(key, "0123456789") == len) {
            see_id(seen, file, strtoull(key, NULL, 10));
        }
        coffer__block_free(key);
    }
}

/* What cannot be read was told of with the other files. */
static bool read_file(const vocabulary *seen, const char *name, coffer__doctor_text *text, coffer__document *document)
{
    *document = (coffer__document){ .text = NULL };
    if (!coffer__doctor_read(seen->folder, name, TOKENIZER_MAX, text)) {
        return false;
    }
    if (coffer__document_read(document, &seen->folder->doctor->allocator, text->bytes, text->size)) {
        return true;
    }
    coffer__document_free(document);
    coffer__block_free(text->bytes);
    return false;
}

static void see_file(vocabulary *seen, const char *name)
{
    coffer__doctor_text text;
    coffer__document document;
    if (!read_file(seen, name, &text, &document)) {
        return;
    }
    const coffer__json_node *root = coffer__document_root(&document);
    if (strcmp(name, "tokenizer.json") == 0) {
        const coffer__json_node *model = coffer__document_member(&document, root, "model");
        see_vocabulary(seen, name, &document, coffer__document_member(&document, model, "vocab"));
        see_added(seen, name, &document, coffer__document_member(&document, root, "added_tokens"));
    } else if (strcmp(name, "tokenizer_config.json") == 0) {
        see_keys(seen, name, &document, coffer__document_member(&document, root, "added_tokens_decoder"));
    } else {
        see_vocabulary(seen, name, &document, root);
    }
    coffer__document_free(&document);
    coffer__block_free(text.bytes);
}

/* A line for each token. */
static void see_lines(vocabulary *seen, const char *name)
{
    coffer__doctor_text text;
    if (!coffer__doctor_read(seen->folder, name, TOKENIZER_MAX, &text)) {
        return;
    }
    uint64_t lines = 0;
    for (size_t i = 0; i < text.size; i++) {
        lines += text.bytes[i] == '\n' || i + 1 == text.size;
    }
    if (lines > 0) {
        see_id(seen, name, lines - 1);
    }
    coffer__block_free(text.bytes);
}

static void check_vocabulary(const coffer__doctor_folder *folder, uint64_t rows)
{
    vocabulary seen = { .folder = folder };
    see_file(&seen, "tokenizer.json");
    if (seen.file == NULL) {
        see_file(&seen, "vocab.json");
        see_file(&seen, "added_tokens.json");
        see_lines(&seen, "vocab.txt");
    }
    see_file(&seen, "tokenizer_config.json");
    if (seen.file != NULL && seen.most >= rows) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "tokenizer_ids", seen.file,
                              "the tokenizer has a token of number %" PRIu64 ", and the embeddings have %" PRIu64
                              " rows: a text with such a token fails",
                              seen.most, rows);
    }
}

void coffer__doctor_check_tokens(const coffer__doctor_folder *folder, const coffer__document *config,
                                 const coffer__json_node *root, const coffer__json_node *scope, uint64_t rows)
{
    if (rows == 0) {
        return;
    }
    check_ids(folder, "config.json", config, root, rows);
    if (scope != root) {
        check_ids(folder, "config.json", config, scope, rows);
    }
    if (folder->only != NULL) {
        return;
    }
    check_generation(folder, rows);
    /* At a URL a tokenizer is many megabytes, which nobody has asked for. */
    if (folder->input == NULL || folder->doctor->data) {
        check_vocabulary(folder, rows);
    }
}
