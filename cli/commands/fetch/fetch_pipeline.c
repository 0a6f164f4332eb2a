/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pipeline is fetched part by part, as models are. Everything is opened and judged before the first byte is written:
 * the parts' names, their headers, and the small files that belong to no model. These come last, and model_index.json, by
 * which a folder is known to be a pipeline, after all others.
 */
#include "cli_inputs.h"
#include "cli_options.h"
#include "cli_output.h"
#include "cli_pipeline.h"
#include "cli_publish.h"
#include "cli_report.h"
#include "cli_text.h"
#include "fetch_download.h"
#include "json_document.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PIPELINE_FILE_MAX ((size_t)64 << 20)

/* What schedulers, tokenizers and feature extractors consist of: parts without weights. */
static const char *const PIPELINE_NAMES[] = {
    "scheduler_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "preprocessor_config.json",
    "processor_config.json",
    "sentencepiece.bpe.model",
};
#define PIPELINE_NAME_COUNT (sizeof PIPELINE_NAMES / sizeof PIPELINE_NAMES[0])

/* A small file that is written as it is. */
typedef struct pipeline_file {
    char *path; /* here */
    char *bytes;
    size_t size;
    bool there; /* with the same bytes */
} pipeline_file;

typedef struct pipeline_job {
    cli *app;
    const cli_arguments *arguments;
    const char *folder;
    cli_pipeline whole;
    coffer *models[CLI_PIPELINE_PARTS]; /* of each part; NULL: it has no weights */
    pipeline_file *files;               /* model_index.json is the last one */
    size_t file_count;
} pipeline_job;

static char *pipeline_path(const char *folder, const char *part, const char *name)
{
    const size_t size = strlen(folder) + strlen(part) + strlen(name) + 3;
    char *path = malloc(size);
    if (path != NULL) {
        snprintf(path, size, "%s/%s%s%s", folder, part, part[0] != '\0' && name[0] != '\0' ? "/" : "", name);
    }
    return path;
}

/* The part's URL: a slash at its end says that it is a folder. */
static char *pipeline_part_url(const cli_pipeline *whole, size_t part)
{
    const size_t size = strlen(whole->url) + strlen(whole->parts[part]) + 2;
    char *url = malloc(size);
    if (url != NULL) {
        snprintf(url, size, "%s%s/", whole->url, whole->parts[part]);
    }
    return url;
}

/* Whether a small file does not exist; offline, only what is cached does. */
static bool is_absent(coffer_status status)
{
    return status == COFFER_ERR_NOT_FOUND || status == COFFER_ERR_SHARD_MISSING || status == COFFER_ERR_OFFLINE;
}

/* Opens the model of a part; *model stays NULL for one that has none. */
static int open_part(const pipeline_job *job, size_t part, coffer **model)
{
    coffer_error err;
    char *url = pipeline_part_url(&job->whole, part);
    if (url == NULL) {
        return cli_fail_memory(job->app, job->whole.url);
    }
    const coffer_status status = fetch_open(model, url, &err);
    const bool none = status == COFFER_ERR_NOT_FOUND || status == COFFER_ERR_NO_MODEL;
    const int code = status == COFFER_OK || none ? CLI_EXIT_OK : cli_fail(job->app, url, &err);
    free(url);
    return code;
}

/* ---- One commit ---- */

/* Where a model of a part says that the pipeline is: of the Hub, at the commit that its revision leads to. */
static char *base_of(const coffer *model)
{
    char *url = strdup(coffer_shard_path(model, 0));
    for (int i = 0; url != NULL && i < 2; i++) {
        char *slash = strrchr(url, '/');
        if (slash != NULL) {
            *slash = '\0';
        }
    }
    return url;
}

/* Reads the pipeline, and again at the commit that its first model is of, so that all of it is of one even if the branch
   moves meanwhile. */
static int settle(pipeline_job *job, const char *url)
{
    coffer_error err;
    coffer *model = NULL;
    int code = CLI_EXIT_OK;
    if (cli_pipeline_open(&job->whole, url, &err) != COFFER_OK) {
        return cli_fail(job->app, url, &err);
    }
    for (size_t i = 0; i < job->whole.count && model == NULL && code == CLI_EXIT_OK; i++) {
        code = open_part(job, i, &model);
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (model == NULL) {
        cli_say_path(job->app, url, "this is a pipeline, and no part of it has safetensors by the usual names");
        return CLI_EXIT_NOT_CONFORMING;
    }
    char *base = base_of(model);
    coffer_close(model);
    cli_pipeline_free(&job->whole);
    const coffer_status status = base != NULL ? cli_pipeline_open(&job->whole, base, &err) : COFFER_ERR_MEMORY;
    code = base == NULL ? cli_fail_memory(job->app, url) : status == COFFER_OK ? code : cli_fail(job->app, base, &err);
    free(base);
    return code;
}

/* ---- Small files ---- */

/* A server may say that it has a file, and send a page that says it has not. */
static bool is_page(const char *bytes)
{
    return strncasecmp(bytes, "<!doctype html", 14) == 0 || strncasecmp(bytes, "<html", 5) == 0;
}

/* Takes over the bytes. A file that is there with other ones is replaced only with --force. */
static int add_file(pipeline_job *job, const char *part, const char *name, char *bytes, size_t size)
{
    cli_input old = { .size = 0 };
    pipeline_file *file = &job->files[job->file_count++];
    *file = (pipeline_file){ pipeline_path(job->folder, part, name), bytes, size, false };
    if (file->path == NULL) {
        return cli_fail_memory(job->app, job->whole.url);
    }
    if (cli_input_read_regular(file->path, PIPELINE_FILE_MAX, &old) == 0) {
        file->there = old.size == size && memcmp(old.bytes, bytes, size) == 0;
        cli_input_free(&old);
    }
    return file->there ? CLI_EXIT_OK
                       : cli_publish_check(job->app, file->path, cli_given(job->arguments, CLI_OPTION_FORCE));
}

/* Reads a file of a part; *bytes is NULL, without a failure, when there is none. */
static int read_file(const pipeline_job *job, const char *part, const char *name, char **bytes, size_t *size)
{
    coffer_error err;
    char *path = pipeline_path(part, name, "");
    *bytes = NULL;
    if (path == NULL) {
        return cli_fail_memory(job->app, job->whole.url);
    }
    const coffer_status status = cli_pipeline_read(&job->whole, path, PIPELINE_FILE_MAX, bytes, size, &err);
    free(path);
    if (status != COFFER_OK && !is_absent(status)) {
        return cli_fail(job->app, err.path[0] != '\0' ? err.path : job->whole.url, &err);
    }
    if (status == COFFER_OK && is_page(*bytes)) {
        free(*bytes);
        *bytes = NULL;
    }
    return CLI_EXIT_OK;
}

/* Takes a file that may not exist; *found says whether it does. */
static int look_for(pipeline_job *job, const char *part, const char *name, bool *found)
{
    char *bytes = NULL;
    size_t size = 0;
    const char *what = NULL;
    bool loose = false;
    size_t at = 0;
    const int code = read_file(job, part, name, &bytes, &size);
    *found = bytes != NULL;
    if (bytes == NULL) {
        return code;
    }
    if (cli_ends_in(name, ".json") && !coffer__document_check(bytes, size, &loose, &what, &at)) {
        free(bytes);
        cli_say_path(job->app, job->whole.url, "%s/%s is not JSON, at byte %zu: %s", part, name, at, what);
        return CLI_EXIT_NOT_CONFORMING;
    }
    return add_file(job, part, name, bytes, size);
}

/* Refuses a part that lacks its weights: models have a config.json, and other parts do not. */
static int refuse_config(const pipeline_job *job, const char *part, bool any)
{
    char *bytes = NULL;
    size_t size = 0;
    const int code = read_file(job, part, "config.json", &bytes, &size);
    const bool is_model = bytes != NULL;
    free(bytes);
    if (code != CLI_EXIT_OK || (any && !is_model)) {
        return code;
    }
    cli_say_path(job->app, job->whole.url,
                 "the pipeline's part %s has no safetensors by the usual names, so it cannot be fetched whole; other "
                 "parts can be, by their folders",
                 part);
    return CLI_EXIT_NOT_CONFORMING;
}

/* A part without weights, of which something has to be there: a pipeline that lacks it is not whole. */
static int add_small_part(pipeline_job *job, const char *part)
{
    int code = CLI_EXIT_OK;
    bool any = false;
    for (size_t i = 0; i < PIPELINE_NAME_COUNT && code == CLI_EXIT_OK; i++) {
        bool found = false;
        code = look_for(job, part, PIPELINE_NAMES[i], &found);
        any = any || found;
    }
    return code == CLI_EXIT_OK ? refuse_config(job, part, any) : code;
}

/* ---- All of it ---- */

static int judge(pipeline_job *job)
{
    int code = CLI_EXIT_OK;
    job->files = calloc(job->whole.count * PIPELINE_NAME_COUNT + 1, sizeof *job->files);
    if (job->files == NULL) {
        return cli_fail_memory(job->app, job->whole.url);
    }
    for (size_t i = 0; i < job->whole.count && code == CLI_EXIT_OK; i++) {
        code = open_part(job, i, &job->models[i]);
        if (code == CLI_EXIT_OK && job->models[i] == NULL) {
            code = add_small_part(job, job->whole.parts[i]);
        }
    }
    if (code == CLI_EXIT_OK) {
        char *index = job->whole.index;
        job->whole.index = NULL;
        code = add_file(job, "", CLI_PIPELINE_INDEX, index, job->whole.index_size);
    }
    return code;
}

static int write_file(cli *app, const pipeline_file *file)
{
    cli_publish published;
    int code = cli_publish_open(app, &published, file->path);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    cli_put(published.out, file->bytes, file->size);
    return cli_publish_close(app, &published, CLI_EXIT_OK);
}

static int download_part(const pipeline_job *job, size_t part)
{
    bool made = false;
    char *folder = pipeline_path(job->folder, job->whole.parts[part], "");
    char *url = pipeline_part_url(&job->whole, part);
    int code = CLI_EXIT_OK;
    if (folder == NULL || url == NULL) {
        code = cli_fail_memory(job->app, job->whole.url);
    } else if (job->models[part] != NULL) {
        code = fetch_download(job->app, job->models[part], job->arguments, url, folder);
    } else {
        code = cli_publish_folder(job->app, folder, &made);
    }
    free(folder);
    free(url);
    return code;
}

/* Of JSON, an array of what each part says. */
static int download_parts(const pipeline_job *job)
{
    cli *app = job->app;
    int code = CLI_EXIT_OK;
    if (app->json) {
        cli_json_open(&app->out, '[', true);
    }
    for (size_t i = 0; i < job->whole.count && code == CLI_EXIT_OK; i++) {
        code = download_part(job, i);
    }
    if (app->json) {
        cli_json_close(&app->out, ']');
    }
    return code;
}

static int download_all(const pipeline_job *job)
{
    bool made = false;
    size_t written = 0;
    int code = cli_publish_folder(job->app, job->folder, &made);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    code = download_parts(job);
    for (size_t i = 0; i < job->file_count && code == CLI_EXIT_OK; i++) {
        if (!job->files[i].there) {
            code = write_file(job->app, &job->files[i]);
            written++;
        }
    }
    if (code == CLI_EXIT_OK) {
        cli_remark_path(job->app, job->folder, "the pipeline is complete: %zu parts; %zu small files were written",
                        job->whole.count, written);
    }
    return code;
}

int fetch_pipeline(cli *app, const cli_arguments *arguments, const char *url, const char *folder)
{
    pipeline_job job = { .app = app, .arguments = arguments, .folder = folder };
    int code = settle(&job, url);
    code = code == CLI_EXIT_OK ? judge(&job) : code;
    code = code == CLI_EXIT_OK ? download_all(&job) : code;
    for (size_t i = 0; i < CLI_PIPELINE_PARTS; i++) {
        coffer_close(job.models[i]);
    }
    for (size_t i = 0; i < job.file_count; i++) {
        free(job.files[i].path);
        free(job.files[i].bytes);
    }
    free(job.files);
    cli_pipeline_free(&job.whole);
    return code;
}
