/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_pipeline.h"

#include "block.h"
#include "json_document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static coffer_status pipeline_fail(coffer_error *err, coffer_status status, const char *words)
{
    *err = (coffer_error){ .code = status, .offset = COFFER_NO_OFFSET };
    snprintf(err->message, sizeof err->message, "%s", words);
    return status;
}

static char *pipeline_join(const char *url, const char *name)
{
    const size_t len = strlen(url);
    const size_t size = len + strlen(name) + 2;
    char *text = malloc(size);
    if (text != NULL) {
        snprintf(text, size, "%s%s%s", url, len > 0 && url[len - 1] == '/' ? "" : "/", name);
    }
    return text;
}

static coffer_status pipeline_read_file(coffer_input *input, uint32_t file, uint64_t file_size, size_t most,
                                        char **bytes, size_t *size, coffer_error *err)
{
    if (file_size > most) {
        return pipeline_fail(err, COFFER_ERR_UNSUPPORTED, "the file is too large for one of its kind");
    }
    *bytes = malloc((size_t)file_size + 1);
    if (*bytes == NULL) {
        return pipeline_fail(err, COFFER_ERR_MEMORY, "no memory for a file of the pipeline");
    }
    const coffer_status status =
        file_size == 0 ? COFFER_OK : coffer_input_read(input, file, 0, *bytes, (size_t)file_size, err);
    if (status != COFFER_OK) {
        free(*bytes);
        *bytes = NULL;
        return status;
    }
    *size = (size_t)file_size;
    (*bytes)[*size] = '\0';
    return COFFER_OK;
}

coffer_status cli_pipeline_read(const cli_pipeline *pipeline, const char *name, size_t most, char **bytes, size_t *size,
                                coffer_error *err)
{
    uint32_t file = 0;
    uint64_t file_size = 0;
    *bytes = NULL;
    const coffer_status status = coffer_input_beside(pipeline->input, name, strlen(name), &file, &file_size, err);
    return status == COFFER_OK ? pipeline_read_file(pipeline->input, file, file_size, most, bytes, size, err) : status;
}

/* A name becomes a folder on this machine: nothing in it may lead elsewhere, or mean something to a shell or a URL. */
static bool pipeline_is_plain(const char *name, size_t len)
{
    static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    return len > 0 && len <= 64 && name[0] != '.' && name[0] != '-' && strspn(name, signs) == len;
}

/* A part is ["library", "Class"]; [null, null] is one that the pipeline does without, and other members are settings. */
static coffer_status pipeline_take(cli_pipeline *pipeline, const coffer__document *document,
                                   const coffer__json_node *member, coffer_error *err)
{
    size_t len = 0;
    const coffer__json_node *library = coffer__document_first(document, member);
    if (member->kind != '[' || library == NULL || library->kind != '"') {
        return COFFER_OK;
    }
    char *name = coffer__document_key(document, member, &len);
    if (name == NULL) {
        return pipeline_fail(err, COFFER_ERR_MEMORY, "no memory for the parts of the pipeline");
    }
    if (name[0] == '_') {
        coffer__block_free(name);
        return COFFER_OK;
    }
    if (!pipeline_is_plain(name, len) || pipeline->count == CLI_PIPELINE_PARTS) {
        coffer__block_free(name);
        return pipeline_fail(err, COFFER_ERR_SHARD_NAME,
                             "a part of the pipeline has a name that is no plain name of a folder, or there are too "
                             "many of them");
    }
    pipeline->parts[pipeline->count++] = name;
    return COFFER_OK;
}

static coffer_status pipeline_list(cli_pipeline *pipeline, coffer_error *err)
{
    coffer__document document;
    const bool read = coffer__document_read(&document, coffer_libc_allocator(), pipeline->index, pipeline->index_size);
    const coffer__json_node *root = read ? coffer__document_root(&document) : NULL;
    coffer_status status = COFFER_OK;
    if (root == NULL || root->kind != '{') {
        status =
            pipeline_fail(err, COFFER_ERR_NO_MODEL, "model_index.json is not a JSON object, as that of a pipeline is");
    } else {
        for (const coffer__json_node *member = coffer__document_first(&document, root);
             member != NULL && status == COFFER_OK; member = coffer__document_after(&document, root, member)) {
            status = pipeline_take(pipeline, &document, member, err);
        }
    }
    coffer__document_free(&document);
    if (status == COFFER_OK && pipeline->count == 0) {
        status = pipeline_fail(err, COFFER_ERR_NO_MODEL, "model_index.json names no part of a pipeline");
    }
    return status;
}

coffer_status cli_pipeline_open(cli_pipeline *pipeline, const char *url, coffer_error *err)
{
    *pipeline = (cli_pipeline){ .url = pipeline_join(url, "") };
    char *index = pipeline_join(url, CLI_PIPELINE_INDEX);
    if (pipeline->url == NULL || index == NULL) {
        free(index);
        return pipeline_fail(err, COFFER_ERR_MEMORY, "no memory for the URL of the pipeline");
    }
    coffer_status status = coffer_input_open(&pipeline->input, index, NULL, err);
    free(index);
    if (status == COFFER_OK) {
        status = pipeline_read_file(pipeline->input, 0, coffer_input_size(pipeline->input, 0), COFFER__CONFIG_MAX,
                                    &pipeline->index, &pipeline->index_size, err);
    }
    return status == COFFER_OK ? pipeline_list(pipeline, err) : status;
}

void cli_pipeline_free(cli_pipeline *pipeline)
{
    for (size_t i = 0; i < pipeline->count; i++) {
        coffer__block_free(pipeline->parts[i]);
    }
    coffer_input_free(pipeline->input);
    free(pipeline->index);
    free(pipeline->url);
    *pipeline = (cli_pipeline){ .url = NULL };
}
