/* SPDX-License-Identifier: Apache-2.0 */
/* coffer fetch URL: a model, or some tensors of it, from where it is into a folder. */
#include "cli_command.h"
#include "cli_filter.h"
#include "cli_options.h"
#include "cli_report.h"
#include "fetch_download.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where in hf://[datasets/|spaces/]owner/name the revision goes: after the name; 0 when there is
   one already, or no such place. */
static size_t revision_place(const char *url)
{
    static const char scheme[] = "hf://";
    const char *owner = url + sizeof scheme - 1;
    if (strncmp(url, scheme, sizeof scheme - 1) != 0) {
        return 0;
    }
    owner += strncmp(owner, "datasets/", 9) == 0 ? 9 : strncmp(owner, "spaces/", 7) == 0 ? 7 : 0;
    const size_t slash = strcspn(owner, "/");
    const size_t len = owner[slash] == '/' ? slash + 1 + strcspn(owner + slash + 1, "/") : 0;
    return len == 0 || memchr(owner, '@', len) != NULL ? 0 : (size_t)(owner - url) + len;
}

/* The URL at the revision that was asked for, of which a slash is written as %2F: the next one in a
   URL begins the name of a file. NULL, with the exit code, when that cannot be. To be freed. */
static char *at_revision(cli *app, const char *url, const char *revision, int *code)
{
    const size_t before = revision == NULL ? strlen(url) : revision_place(url);
    const size_t size = strlen(url) + (revision == NULL ? 0 : 3 * strlen(revision)) + 2;
    if (before == 0 || (revision != NULL && revision[0] == '\0')) {
        *code = cli_usage_error(app, "--revision is for hf://owner/name, without an @ of its own");
        return NULL;
    }
    char *text = malloc(size);
    if (text == NULL) {
        *code = cli_fail_memory(app, url);
        return NULL;
    }
    memcpy(text, url, before);
    size_t at = before;
    if (revision != NULL) {
        text[at++] = '@';
    }
    /* A branch may have a slash in its name, where the path after the revision begins. */
    for (; revision != NULL && *revision != '\0'; revision++) {
        const bool slash = *revision == '/';
        memcpy(text + at, slash ? "%2F" : revision, slash ? 3 : 1);
        at += slash ? 3 : 1;
    }
    memcpy(text + at, url + before, strlen(url + before) + 1);
    return text;
}

/* Whether a text is what people call a repository of the Hub: owner/name. */
static bool is_repository(const char *text)
{
    static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    const size_t owner = strspn(text, signs);
    const size_t name = text[owner] == '/' ? strspn(text + owner + 1, signs) : 0;
    return owner > 0 && name > 0 && text[0] != '.' && text[owner + 1 + name] == '\0';
}

static int fail_to_open(cli *app, const char *url, coffer_error *err)
{
    if (err->code == COFFER_ERR_NOT_FOUND && is_repository(url)) {
        const size_t used = strlen(err->message);
        snprintf(err->message + used, sizeof err->message - used,
                 "; for the repository of the Hub: coffer fetch hf://%s", url);
    }
    return cli_fail(app, url, err);
}

static int fetch_from(cli *app, const cli_arguments *arguments, const char *url, const char *folder)
{
    coffer *model = NULL;
    coffer_error err;
    const coffer_status status = fetch_open(&model, url, &err);
    if (status == COFFER_ERR_NO_MODEL && strstr(url, "://") != NULL && !cli_given(arguments, CLI_OPTION_FILTER)) {
        return fetch_pipeline(app, arguments, url, folder);
    }
    if (status != COFFER_OK) {
        return fail_to_open(app, url, &err);
    }
    const int code = fetch_download(app, model, arguments, url, folder);
    coffer_close(model);
    return code;
}

static int run_fetch(cli *app, const cli_arguments *arguments)
{
    int code = CLI_EXIT_OK;
    const char *folder = cli_value(arguments, CLI_OPTION_OUTPUT);
    char *url = at_revision(app, arguments->names[0], cli_value(arguments, CLI_OPTION_REVISION), &code);
    if (url != NULL) {
        code = fetch_from(app, arguments, url, folder != NULL ? folder : ".");
        free(url);
    }
    return code;
}

static const cli_option FETCH_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FOLDER", "the folder to fetch into, made if missing; default: this one",
      NULL },
    CLI_OPTION_ROW_FILTER("only tensors whose names match; !GLOB leaves out; repeatable"),
    { CLI_OPTION_REVISION, 0, "revision", "REVISION", "for a repository of the Hub: a branch, tag or commit", NULL },
    { CLI_OPTION_FORCE, 'f', "force", NULL, "replace existing files", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example FETCH_EXAMPLES[] = {
    { "coffer fetch hf://openai-community/gpt2 -o gpt2", "a model of the Hub" },
    { "coffer fetch s3://bucket/llama/model.safetensors.index.json", "one of several files, by its index" },
    { "coffer fetch hf://openai-community/gpt2 --filter 'h.0.*' -o layer", "its first layer, as a model of its own" },
    { NULL, NULL },
};

const cli_command cli_fetch = {
    .name = "fetch",
    .run = run_fetch,
    .summary = "download a model, or some tensors of it",
    .usage = "URL",
    .about = "Downloads a model, or one file, from a URL: http, https, s3://bucket/key or\n"
             "hf://owner/name[@revision][/file]. With a folder, a repository or an index the other files that\n"
             "loaders read are fetched too: config.json, the tokenizer's files and so on. Several ranges of all\n"
             "files are fetched at once. The same command resumes an interrupted fetch, from NAME.coffer-part;\n"
             "files get their names when all of them are complete and, if the server states their SHA-256, match\n"
             "it. Where all of them are there already, with the same bytes, nothing is done. Of a pipeline of\n"
             "diffusers all parts are fetched, one after the other, each into a folder of its name.\n"
             "\n"
             "With --filter only those tensors are fetched, into files that have no others. Quote patterns: the\n"
             "shell has patterns, too.\n"
             "\n"
             "JSON: path, output, done (\"written\" or \"nothing\"), tensors and their size in bytes; of a pipeline\n"
             "an array of these, for each part that has weights. What fails has path and error (see coffer help\n"
             "info).\n",
    .options = FETCH_OPTIONS,
    .examples = FETCH_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
