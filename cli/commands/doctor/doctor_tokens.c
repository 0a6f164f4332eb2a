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

static void check_id(const doctor_folder *folder, const char *name, const cli_document *document, const cli_node *node,
                     const char *key, uint64_t rows)
{
    uint64_t id = 0;
    if (node == NULL || !cli_document_u64(document, node, &id) || id < rows) {
        return;
    }
    doctor_finding *finding = doctor_add_in(
        folder, DOCTOR_WARNING, "token_id", name,
        "%s is %" PRIu64 ", and the embeddings have %" PRIu64 " rows: there is no such token", key, id, rows);
    if (finding != NULL) {
        finding->offset = node->at;
    }
}

/* Each is a number or a list of them; -1 and null are none. */
static void check_ids(const doctor_folder *folder, const char *name, const cli_document *document,
                      const cli_node *object, uint64_t rows)
{
    for (size_t i = 0; i < sizeof SPECIAL / sizeof SPECIAL[0]; i++) {
        const cli_node *node = cli_document_member(document, object, SPECIAL[i]);
        const bool list = node != NULL && node->kind == '[';
        check_id(folder, name, document, node, SPECIAL[i], rows);
        for (const cli_node *item = list ? cli_document_first(document, node) : NULL; item != NULL;
             item = cli_document_after(document, node, item)) {
            check_id(folder, name, document, item, SPECIAL[i], rows);
        }
    }
}

static void check_generation(const doctor_folder *folder, uint64_t rows)
{
    static const char name[] = "generation_config.json";
    cli_input text;
    cli_document document;
    if (doctor_read_json(folder, name, &text, &document)) {
        check_ids(folder, name, &document, cli_document_root(&document), rows);
        cli_document_free(&document);
        free(text.bytes);
    }
}

/* ---- The tokenizer ---- */

/* The largest number of a token that was seen, and in which file. */
typedef struct vocabulary {
    const doctor_folder *folder;
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
static void see_vocabulary(vocabulary *seen, const char *file, const cli_document *document, const cli_node *node)
{
    uint64_t place = 0;
    const bool is_list = node != NULL && node->kind == '[';
    const bool is_object = node != NULL && node->kind == '{';
    for (const cli_node *item = is_list || is_object ? cli_document_first(document, node) : NULL; item != NULL;
         item = cli_document_after(document, node, item)) {
        uint64_t id = place++;
        if (is_list || cli_document_u64(document, item, &id)) {
            see_id(seen, file, id);
        }
    }
}

/* A list of objects that have a number each. */
static void see_added(vocabulary *seen, const char *file, const cli_document *document, const cli_node *list)
{
    const bool is_list = list != NULL && list->kind == '[';
    for (const cli_node *item = is_list ? cli_document_first(document, list) : NULL; item != NULL;
         item = cli_document_after(document, list, item)) {
        uint64_t id = 0;
        if (cli_document_u64(document, cli_document_member(document, item, "id"), &id)) {
            see_id(seen, file, id);
        }
    }
}

/* An object whose keys are numbers. */
static void see_keys(vocabulary *seen, const char *file, const cli_document *document, const cli_node *object)
{
    const bool is_object = object != NULL && object->kind == '{';
    for (const cli_node *item = is_object ? cli_document_first(document, object) : NULL; item != NULL;
         item = cli_document_after(document, object, item)) {
        size_t len = 0;
        char *key = cli_document_key(document, item, &len);
        if (key != NULL && len > 0 && len < 19 && strspn(key, "0123456789") == len) {
            see_id(seen, file, strtoull(key, NULL, 10));
        }
        free(key);
    }
}

/* What cannot be read was told of with the other files. */
static bool read_file(const vocabulary *seen, const char *name, cli_input *text, cli_document *document)
{
    *document = (cli_document){ .text = NULL };
    if (!doctor_read(seen->folder, name, TOKENIZER_MAX, text)) {
        return false;
    }
    if (cli_document_read(document, text->bytes, text->size)) {
        return true;
    }
    cli_document_free(document);
    free(text->bytes);
    return false;
}

static void see_file(vocabulary *seen, const char *name)
{
    cli_input text;
    cli_document document;
    if (!read_file(seen, name, &text, &document)) {
        return;
    }
    const cli_node *root = cli_document_root(&document);
    if (strcmp(name, "tokenizer.json") == 0) {
        const cli_node *model = cli_document_member(&document, root, "model");
        see_vocabulary(seen, name, &document, cli_document_member(&document, model, "vocab"));
        see_added(seen, name, &document, cli_document_member(&document, root, "added_tokens"));
    } else if (strcmp(name, "tokenizer_config.json") == 0) {
        see_keys(seen, name, &document, cli_document_member(&document, root, "added_tokens_decoder"));
    } else {
        see_vocabulary(seen, name, &document, root);
    }
    cli_document_free(&document);
    free(text.bytes);
}

/* A line for each token. */
static void see_lines(vocabulary *seen, const char *name)
{
    cli_input text;
    if (!doctor_read(seen->folder, name, TOKENIZER_MAX, &text)) {
        return;
    }
    uint64_t lines = 0;
    for (size_t i = 0; i < text.size; i++) {
        lines += text.bytes[i] == '\n' || i + 1 == text.size;
    }
    if (lines > 0) {
        see_id(seen, name, lines - 1);
    }
    free(text.bytes);
}

static void check_vocabulary(const doctor_folder *folder, uint64_t rows)
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
        doctor_add_in(folder, DOCTOR_WARNING, "tokenizer_ids", seen.file,
                      "the tokenizer has a token of number %" PRIu64 ", and the embeddings have %" PRIu64
                      " rows: a text with such a token fails",
                      seen.most, rows);
    }
}

void doctor_check_tokens(const doctor_folder *folder, const cli_document *config, const cli_node *root,
                         const cli_node *scope, uint64_t rows)
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
