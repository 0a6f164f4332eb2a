/* SPDX-License-Identifier: Apache-2.0 */
/* What belongs beside weights: a tokenizer and the like for language models, the parts of a pipeline. */
#include "cli_folder.h"
#include "cli_text.h"
#include "doctor.h"
#include "doctor_family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Language models ---- */

static bool has_any(const doctor_folder *folder, const char *const *names, size_t count)
{
    bool has = false;
    for (size_t i = 0; i < count && !has; i++) {
        has = doctor_has(folder, names[i]);
    }
    return has;
}

static void check_tokenizer(const doctor_folder *folder)
{
    static const char *const whole[] = { "tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                         "vocab.txt",      "tekken.json",     "vocab.json" };
    const bool vocabulary = has_any(folder, whole, sizeof whole / sizeof whole[0]);
    const bool settings = doctor_has(folder, "tokenizer_config.json");
    if (!vocabulary && settings) {
        doctor_add_in(folder, DOCTOR_WARNING, "tokenizer", "tokenizer_config.json",
                      "there are settings of a tokenizer, and no tokenizer.json, tokenizer.model or vocabulary");
    } else if (!vocabulary) {
        doctor_add_in(folder, DOCTOR_NOTE, "tokenizer", "", "there is no tokenizer next to the weights");
    } else if (!settings && !doctor_has(folder, "tekken.json")) {
        doctor_add_in(folder, DOCTOR_NOTE, "tokenizer_config", "",
                      "there is a tokenizer without tokenizer_config.json");
    }
    if (doctor_has(folder, "merges.txt") && !doctor_has(folder, "vocab.json") &&
        !doctor_has(folder, "tokenizer.json")) {
        doctor_add_in(folder, DOCTOR_WARNING, "tokenizer", "merges.txt",
                      "there are a tokenizer's merges without its vocabulary, vocab.json");
    }
}

/* ---- Pipelines ---- */

/* A part is ["library", "Class"]; [null, null] is one that the pipeline does without. */
static void check_part_of(const doctor_folder *folder, const cli_document *config, const cli_node *part)
{
    size_t len = 0;
    char shown[DOCTOR_SHOWN];
    const cli_node *library = cli_document_first(config, part);
    char *name = cli_document_key(config, part, &len);
    if (name == NULL || part->kind != '[' || library == NULL || library->kind != '"' || name[0] == '_' ||
        strlen(name) != len || strpbrk(name, "/\\") != NULL || strcmp(name, "..") == 0) {
        free(name);
        return;
    }
    char *path = doctor_path(folder, name);
    if (path != NULL && !cli_is_folder(path)) {
        doctor_add_in(folder, DOCTOR_ERROR, "part_missing", "model_index.json",
                      "the pipeline has a part \"%s\", and its folder is missing", doctor_shown(shown, name, len));
    }
    free(path);
    free(name);
}

static void check_pipeline(const doctor_folder *folder)
{
    cli_input text;
    cli_document config;
    if (folder->input != NULL || !doctor_read_json(folder, "model_index.json", &text, &config)) {
        return;
    }
    const cli_node *root = cli_document_root(&config);
    for (const cli_node *part = cli_document_first(&config, root); part != NULL && root->kind == '{';
         part = cli_document_after(&config, root, part)) {
        check_part_of(folder, &config, part);
    }
    cli_document_free(&config);
    free(text.bytes);
}

/* ---- All of it ---- */

/* Weights of other programs, which are no business of this command but are weights. */
static bool has_other_weights(const doctor_folder *folder)
{
    static const char *const endings[] = { ".bin", ".pt",      ".pth", ".ckpt", ".gguf", ".onnx",  ".h5",
                                           ".npz", ".msgpack", ".ot",  ".pkl",  ".bt",   ".keras", ".safetensors" };
    for (size_t i = 0; i < folder->count; i++) {
        for (size_t k = 0; k < sizeof endings / sizeof endings[0]; k++) {
            if (cli_ends_in(folder->entries[i].name, endings[k])) {
                return true;
            }
        }
    }
    return false;
}

/* Whether config.json is that of a model: others use the name too, such as the parts of sentence-transformers. */
static bool describes_model(const doctor_folder *folder)
{
    cli_input text;
    cli_document config;
    if (!doctor_read_json(folder, "config.json", &text, &config)) {
        return false;
    }
    const cli_node *root = cli_document_root(&config);
    const bool describes = cli_document_member(&config, root, "architectures") != NULL ||
                           cli_document_member(&config, root, "model_type") != NULL;
    cli_document_free(&config);
    free(text.bytes);
    return describes;
}

void doctor_check_companions(doctor_folder *folder, bool has_model)
{
    if (folder->only != NULL) {
        return;
    }
    check_pipeline(folder);
    doctor_check_adapter(folder);
    if (!has_model && folder->input == NULL && !has_other_weights(folder) && describes_model(folder)) {
        doctor_add_in(folder, DOCTOR_WARNING, "no_weights", "config.json",
                      "it describes a model, and there are no weights next to it");
    }
    const doctor_family *family = folder->type != NULL ? doctor_family_of(folder->type, strlen(folder->type)) : NULL;
    if (has_model && family != NULL && family->generates) {
        check_tokenizer(folder);
        if (!doctor_has(folder, "generation_config.json")) {
            doctor_add_in(
                folder, DOCTOR_NOTE, "generation_config", "",
                "there is no generation_config.json: programs that generate text use what they think is usual");
        }
    } else if (has_model && family != NULL && family->rules[0].shape[0] == 'V') {
        check_tokenizer(folder);
    }
}
