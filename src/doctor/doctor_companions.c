/* SPDX-License-Identifier: Apache-2.0 */
/* What belongs beside weights: a tokenizer and the like for language models, the parts of a pipeline. */
#include "checkup.h"
#include "doctor_family.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Language models ---- */

static bool has_any(const coffer__doctor_folder *folder, const char *const *names, size_t count)
{
    bool has = false;
    for (size_t i = 0; i < count && !has; i++) {
        has = coffer__doctor_has(folder, names[i]);
    }
    return has;
}

static void check_tokenizer(const coffer__doctor_folder *folder)
{
    static const char *const whole[] = { "tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                         "vocab.txt",      "tekken.json",     "vocab.json" };
    const bool vocabulary = has_any(folder, whole, sizeof whole / sizeof whole[0]);
    const bool settings = coffer__doctor_has(folder, "tokenizer_config.json");
    if (!vocabulary && settings) {
        coffer__doctor_add_in(
            folder, COFFER_SEVERITY_WARNING, "tokenizer", "tokenizer_config.json",
            "there are settings of a tokenizer, and no tokenizer.json, tokenizer.model or vocabulary");
    } else if (!vocabulary) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_NOTE, "tokenizer", "",
                              "there is no tokenizer next to the weights");
    } else if (!settings && !coffer__doctor_has(folder, "tekken.json")) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_NOTE, "tokenizer_config", "",
                              "there is a tokenizer without tokenizer_config.json");
    }
    if (coffer__doctor_has(folder, "merges.txt") && !coffer__doctor_has(folder, "vocab.json") &&
        !coffer__doctor_has(folder, "tokenizer.json")) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "tokenizer", "merges.txt",
                              "there are a tokenizer's merges without its vocabulary, vocab.json");
    }
}

/* ---- Pipelines ---- */

/* A part is ["library", "Class"]; [null, null] is one that the pipeline does without. */
static void check_part_of(const coffer__doctor_folder *folder, const coffer__document *config,
                          const coffer__json_node *part)
{
    size_t len = 0;
    char shown[COFFER__DOCTOR_SHOWN];
    const coffer__json_node *library = coffer__document_first(config, part);
    char *name = coffer__document_key(config, part, &len);
    if (name == NULL || part->kind != '[' || library == NULL || library->kind != '"' || name[0] == '_' ||
        strlen(name) != len || strpbrk(name, "/\\") != NULL || strcmp(name, "..") == 0) {
        coffer__block_free(name);
        return;
    }
    char *path = coffer__doctor_path(folder, name);
    if (path != NULL && !coffer__doctor_is_folder(path)) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "part_missing", "model_index.json",
                              "the pipeline has a part \"%s\", and its folder is missing",
                              coffer__doctor_shown(shown, name, len));
    }
    coffer__block_free(path);
    coffer__block_free(name);
}

static void check_pipeline(const coffer__doctor_folder *folder)
{
    coffer__doctor_text text;
    coffer__document config;
    if (folder->input != NULL || !coffer__doctor_read_json(folder, "model_index.json", &text, &config)) {
        return;
    }
    const coffer__json_node *root = coffer__document_root(&config);
    for (const coffer__json_node *part = coffer__document_first(&config, root); part != NULL && root->kind == '{';
         part = coffer__document_after(&config, root, part)) {
        check_part_of(folder, &config, part);
    }
    coffer__document_free(&config);
    coffer__block_free(text.bytes);
}

/* ---- All of it ---- */

/* Weights of other programs, which are no business of this command but are weights. */
static bool has_other_weights(const coffer__doctor_folder *folder)
{
    static const char *const endings[] = { ".bin", ".pt",      ".pth", ".ckpt", ".gguf", ".onnx",  ".h5",
                                           ".npz", ".msgpack", ".ot",  ".pkl",  ".bt",   ".keras", ".safetensors" };
    for (size_t i = 0; i < folder->count; i++) {
        for (size_t k = 0; k < sizeof endings / sizeof endings[0]; k++) {
            if (coffer__text_has_ending(folder->entries[i].name, endings[k])) {
                return true;
            }
        }
    }
    return false;
}

/* Whether config.json is that of a model: others use the name too, such as the parts of sentence-transformers. */
static bool describes_model(const coffer__doctor_folder *folder)
{
    coffer__doctor_text text;
    coffer__document config;
    if (!coffer__doctor_read_json(folder, "config.json", &text, &config)) {
        return false;
    }
    const coffer__json_node *root = coffer__document_root(&config);
    const bool describes = coffer__document_member(&config, root, "architectures") != NULL ||
                           coffer__document_member(&config, root, "model_type") != NULL;
    coffer__document_free(&config);
    coffer__block_free(text.bytes);
    return describes;
}

void coffer__doctor_check_companions(coffer__doctor_folder *folder, bool has_model)
{
    if (folder->only != NULL) {
        return;
    }
    check_pipeline(folder);
    coffer__doctor_check_adapter(folder);
    if (!has_model && folder->input == NULL && !has_other_weights(folder) && describes_model(folder)) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "no_weights", "config.json",
                              "it describes a model, and there are no weights next to it");
    }
    const coffer__doctor_family *family =
        folder->type != NULL ? coffer__doctor_family_of(folder->type, strlen(folder->type)) : NULL;
    if (has_model && family != NULL && family->generates) {
        check_tokenizer(folder);
        if (!coffer__doctor_has(folder, "generation_config.json")) {
            coffer__doctor_add_in(
                folder, COFFER_SEVERITY_NOTE, "generation_config", "",
                "there is no generation_config.json: programs that generate text use what they think is usual");
        }
    } else if (has_model && family != NULL && family->rules[0].shape[0] == 'V') {
        check_tokenizer(folder);
    }
}
