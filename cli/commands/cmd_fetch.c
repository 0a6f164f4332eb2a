/* SPDX-License-Identifier: Apache-2.0 */
/* coffer fetch URL: a model, or some tensors of it, from where it is into a folder. */
#include "cli_command.h"
#include "cli_files.h"
#include "cli_guard.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is fetched: the tensors that a pattern takes, or all. */
typedef struct fetch_choice {
    const coffer_tensor **tensors; /* to be freed; NULL: no memory */
    size_t count;
    bool all;
    const char *idle; /* a pattern that takes nothing; NULL: there is none */
} fetch_choice;

static bool matches(const cli_choice *choice, const coffer_tensor *tensor)
{
    return choice->option->id == CLI_OPTION_FILTER && coffer_match(choice->value, tensor->name, tensor->name_len);
}

static const char *idle_pattern(const fetch_choice *chosen, const cli_arguments *arguments)
{
    const char *idle = NULL;
    for (size_t c = 0; c < arguments->choice_count; c++) {
        const cli_choice *choice = &arguments->choices[c];
        bool found = choice->option->id != CLI_OPTION_FILTER;
        for (size_t i = 0; !found && i < chosen->count; i++) {
            found = matches(choice, chosen->tensors[i]);
        }
        idle = found ? idle : choice->value;
    }
    return idle;
}

static fetch_choice choose(const coffer *model, const cli_arguments *arguments)
{
    fetch_choice chosen = { .all = !cli_given(arguments, CLI_OPTION_FILTER) };
    chosen.tensors = calloc(coffer_count(model) + 1, sizeof(const coffer_tensor *));
    for (size_t i = 0; chosen.tensors != NULL && i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        if (cli_filter_takes(arguments, tensor->name, tensor->name_len)) {
            chosen.tensors[chosen.count++] = tensor;
        }
    }
    chosen.idle = idle_pattern(&chosen, arguments);
    return chosen;
}

/* A copy of what lies here goes elsewhere: no file may replace the one that it is made from. */
static int guard_files(cli *app, const coffer *model, const char *url, const char *folder)
{
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < coffer_shard_count(model) && code == CLI_EXIT_OK; i++) {
        const char *source = coffer_shard_path(model, i);
        const char *slash = strrchr(source, '/');
        const char *name = slash != NULL ? slash + 1 : source;
        const size_t size = strlen(folder) + strlen(name) + 2;
        char *target = malloc(size);
        if (target == NULL) {
            return cli_fail_memory(app, url);
        }
        snprintf(target, size, "%s/%s", folder, name);
        code = cli_guard_input(app, target, source);
        free(target);
    }
    return code;
}

/* What came. */
static void report(cli *app, const fetch_choice *chosen, const char *folder, bool unchanged)
{
    char tensors[CLI_NUMBER_SIZE];
    char bytes[CLI_NUMBER_SIZE];
    uint64_t size = 0;
    for (size_t i = 0; i < chosen->count; i++) {
        size += chosen->tensors[i]->size;
    }
    cli_number_text(tensors, chosen->count, true);
    cli_bytes_text(bytes, size);
    cli_remark_path(app, folder, "%s: %s tensor%s, %s", unchanged ? "all of it is there already" : "fetched", tensors,
                    chosen->count == 1 ? "" : "s", bytes);
}

static int download(cli *app, const coffer *model, const char *url, const fetch_choice *chosen, const char *folder,
                    bool force)
{
    cli_progress progress;
    coffer_error err;
    cli_progress_begin(&progress, app, "fetching", 0);
    cli_progress_part part = { &progress, 0 };
    coffer_fetch_options options = COFFER_FETCH_OPTIONS_INIT;
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    bool unchanged = false;
    options.force = force;
    options.unchanged = &unchanged;
    const coffer_tensor *const *tensors = chosen->all ? NULL : chosen->tensors;
    const coffer_status status = coffer_fetch(model, tensors, chosen->count, folder, &options, &err);
    cli_progress_end(&progress);
    if (status != COFFER_OK) {
        return cli_fail(app, err.path[0] != '\0' ? err.path : url, &err);
    }
    report(app, chosen, folder, unchanged);
    return CLI_EXIT_OK;
}

/* The same into a folder that may have to be made, and goes again when nothing came into it. */
static int download_into(cli *app, const coffer *model, const char *url, const fetch_choice *chosen, const char *folder,
                         bool force)
{
    const bool made = mkdir(folder, 0777) == 0;
    if (!made && errno != EEXIST) {
        cli_say_path(app, folder, "cannot make the folder: %s", strerror(errno));
        return CLI_EXIT_UNREADABLE;
    }
    int code = guard_files(app, model, url, folder);
    code = code == CLI_EXIT_OK ? download(app, model, url, chosen, folder, force) : code;
    if (made && code != CLI_EXIT_OK) {
        (void)rmdir(folder);
    }
    return code;
}

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
    int code = CLI_EXIT_OK;
    coffer *model = NULL;
    coffer_error err;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    options.to_fetch = true;
    if (cli_open_with(&model, url, &options, &err) != COFFER_OK) {
        return fail_to_open(app, url, &err);
    }
    const fetch_choice chosen = choose(model, arguments);
    if (chosen.tensors == NULL) {
        code = cli_fail_memory(app, url);
    } else if (chosen.idle != NULL) {
        char shown[160];
        coffer_escape(chosen.idle, strlen(chosen.idle), shown, sizeof shown);
        cli_say_path(app, url, "no tensor matches the pattern \"%s\"; coffer ls shows the names", shown);
        code = CLI_EXIT_NOT_CONFORMING;
    } else {
        code = download_into(app, model, url, &chosen, folder, cli_given(arguments, CLI_OPTION_FORCE));
    }
    free(chosen.tensors);
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
    { CLI_OPTION_FILTER, 0, "filter", "GLOB", "only tensors whose names match; repeatable", NULL },
    { CLI_OPTION_REVISION, 0, "revision", "REVISION", "for a repository of the Hub: a branch, tag or commit", NULL },
    { CLI_OPTION_FORCE, 'f', "force", NULL, "replace existing files", NULL },
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
             "it. Where all of them are there already, with the same bytes, nothing is done.\n"
             "\n"
             "With --filter only those tensors are fetched, into files that have no others. Quote patterns: the\n"
             "shell has patterns, too.\n",
    .options = FETCH_OPTIONS,
    .examples = FETCH_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
