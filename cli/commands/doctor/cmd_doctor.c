/* SPDX-License-Identifier: Apache-2.0 */
/* coffer doctor PATH: one verdict over a model and everything that lies around it. */
#include "cli_files.h"
#include "cli_folder.h"
#include "cli_interrupt.h"
#include "cli_options.h"
#include "cli_publish.h"
#include "cli_report.h"
#include "cli_text.h"
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDERS_MAX 10000
#define DEPTH_MAX 16

/* ---- Folders ---- */

/* Folders that are still to be looked at, by their names below the one that was named. */
typedef struct folder_stack {
    char **names;
    size_t count;
    size_t capacity;
    size_t seen; /* in all */
} folder_stack;

static bool push_folder(folder_stack *stack, const char *parent, const char *name)
{
    if (stack->count == stack->capacity) {
        const size_t capacity = stack->capacity == 0 ? 64 : 2 * stack->capacity;
        char **names = realloc(stack->names, capacity * sizeof *names);
        if (names == NULL) {
            return false;
        }
        stack->names = names;
        stack->capacity = capacity;
    }
    const size_t size = strlen(parent) + strlen(name) + 2;
    char *joined = malloc(size);
    if (joined == NULL) {
        return false;
    }
    snprintf(joined, size, "%s%s%s", parent, parent[0] != '\0' ? "/" : "", name);
    stack->names[stack->count++] = joined;
    stack->seen++;
    return true;
}

static size_t depth_of(const char *name)
{
    size_t depth = 0;
    for (; *name != '\0'; name++) {
        depth += *name == '/';
    }
    return depth;
}

/* From the last to the first, so that they come off the stack in order. */
static void push_folders(folder_stack *stack, const doctor_folder *folder)
{
    doctor *d = folder->doctor;
    for (size_t i = folder->count; i > 0 && !d->failed; i--) {
        const doctor_entry *entry = &folder->entries[i - 1];
        if (entry->type != DOCTOR_DIR || entry->name[0] == '.') {
            continue;
        }
        if (stack->seen >= FOLDERS_MAX || depth_of(folder->name) >= DEPTH_MAX) {
            doctor_add_in(folder, DOCTOR_WARNING, "too_deep", entry->name,
                          "the folder was not looked at: there are too many");
        } else {
            d->failed = !push_folder(stack, folder->name, entry->name);
        }
    }
}

static void look_at_listed(doctor_folder *folder)
{
    uint64_t size = 0;
    doctor_check_files(folder);
    const bool has_model = doctor_check_models(folder, &size);
    doctor_check_companions(folder, has_model);
    doctor_check_copies(folder, has_model, size);
    doctor_check_hub(folder);
}

static void look_below(doctor *d, folder_stack *stack)
{
    while (stack->count > 0 && !d->failed && !cli_interrupted()) {
        char *name = stack->names[--stack->count];
        const size_t size = strlen(d->path) + strlen(name) + 2;
        char *path = malloc(size);
        d->failed = path == NULL;
        if (path != NULL) {
            const bool slash = name[0] != '\0' && d->path[strlen(d->path) - 1] != '/';
            snprintf(path, size, "%s%s%s", d->path, slash ? "/" : "", name);
            doctor_folder folder = { .doctor = d, .path = path, .name = name };
            if (doctor_list(&folder, d->path)) {
                look_at_listed(&folder);
                push_folders(stack, &folder);
            }
            doctor_unlist(&folder);
        }
        free(path);
        free(name);
    }
    while (stack->count > 0) {
        free(stack->names[--stack->count]);
    }
    free(stack->names);
}

static void look_at_folder(doctor *d)
{
    folder_stack stack = { .names = NULL };
    d->failed = !push_folder(&stack, "", "");
    look_below(d, &stack);
    const bool reported = d->totals[DOCTOR_ERROR] + d->totals[DOCTOR_WARNING] > 0;
    if (d->seen_count == 0 && !reported && !d->failed && !cli_interrupted()) {
        d->unreadable = true;
        doctor_add(d, DOCTOR_ERROR, "no_model", "", "there is no model in the folder");
    }
}

/* ---- One file, one URL ---- */

static int look_at_one(doctor *d)
{
    coffer_error err;
    coffer *model = NULL;
    const char *slash = cli_last_slash(d->path);
    char *parent = slash != NULL ? strndup(d->path, slash > d->path ? (size_t)(slash - d->path) : 1) : strdup(".");
    doctor_folder folder = { .doctor = d, .path = parent, .name = "", .only = slash != NULL ? slash + 1 : d->path };
    int code = CLI_EXIT_OK;
    if (parent == NULL) {
        return cli_fail_memory(d->app, d->path);
    }
    const bool listed = doctor_list(&folder, parent);
    const doctor_entry *entry = listed ? doctor_entry_of(&folder, folder.only) : NULL;
    if (entry == NULL) {
        const coffer_status status = cli_open_quietly(&model, d->path, false, &err);
        code = status != COFFER_OK ? cli_fail(d->app, d->path, &err) : CLI_EXIT_OK;
        coffer_close(model);
    } else {
        look_at_listed(&folder);
    }
    doctor_unlist(&folder);
    free(parent);
    return code;
}

static int look_at_url(doctor *d)
{
    int code = CLI_EXIT_OK;
    coffer_error err;
    coffer_input *input = NULL;
    coffer *model = cli_open(d->app, d->path, true, &code);
    if (model == NULL) {
        return code;
    }
    (void)cli_remark_part(d->app, d->path, model);
    doctor_folder folder = { .doctor = d, .path = d->path, .name = "" };
    if (coffer_input_open(&input, coffer_shard_path(model, 0), NULL, &err) == COFFER_OK) {
        folder.input = input;
        doctor_check_remote(&folder, model);
    } else {
        (void)doctor_add_failure(d, "unreadable", "", &err);
    }
    doctor_unlist(&folder);
    coffer_input_free(input);
    coffer_close(model);
    return CLI_EXIT_OK;
}

/* ---- The command ---- */

static int check_html(cli *app, const cli_arguments *arguments, const char *html)
{
    if (html == NULL) {
        return CLI_EXIT_OK;
    }
    if (!cli_ends_in(html, ".html") && !cli_ends_in(html, ".htm")) {
        return cli_usage_error(app, "-o writes a page of HTML, so that its name has to end in .html");
    }
    return cli_publish_check(app, html, cli_given(arguments, CLI_OPTION_FORCE));
}

static int verdict_of(const doctor *d)
{
    const bool bad = d->totals[DOCTOR_ERROR] > 0 || (d->strict && d->totals[DOCTOR_WARNING] > 0);
    return d->unreadable ? CLI_EXIT_UNREADABLE : bad ? CLI_EXIT_NOT_CONFORMING : CLI_EXIT_OK;
}

static int show(const doctor *d, const char *html)
{
    int code = CLI_EXIT_OK;
    if (cli_interrupted()) {
        return CLI_EXIT_UNREADABLE;
    }
    if (html != NULL) {
        code = doctor_write_html(d, html);
    }
    if (html != NULL && code == CLI_EXIT_OK) {
        cli_remark_path(d->app, html, "written; open it in a browser");
    }
    if (d->app->json) {
        doctor_show_json(d);
    } else {
        doctor_show_text(d);
    }
    return cli_worse(code, verdict_of(d));
}

/* Everything is looked at before it is compared, so that what cannot be is known by then. */
static int look(doctor *d, const coffer *other)
{
    int code = CLI_EXIT_OK;
    if (strstr(d->path, "://") != NULL) {
        code = look_at_url(d);
    } else if (cli_is_folder(d->path)) {
        look_at_folder(d);
    } else {
        code = look_at_one(d);
    }
    if (code == CLI_EXIT_OK && other != NULL && !d->failed && !cli_interrupted()) {
        doctor_check_against(d, other);
    }
    return d->failed ? cli_fail_memory(d->app, d->path) : code;
}

static int run_doctor(cli *app, const cli_arguments *arguments)
{
    const char *html = cli_value(arguments, CLI_OPTION_OUTPUT);
    doctor d = { .app = app,
                 .path = arguments->names[0],
                 .against = cli_value(arguments, CLI_OPTION_AGAINST),
                 .data = cli_given(arguments, CLI_OPTION_DATA),
                 .strict = cli_given(arguments, CLI_OPTION_STRICT) };
    const bool other_named = d.against == NULL || (strcmp(d.against, "-") != 0 && d.against[0] != '\0');
    if (strcmp(d.path, "-") == 0 || d.path[0] == '\0' || !other_named) {
        return cli_usage_error(app, "a doctor looks at files: name a folder, a file or a URL");
    }
    int code = check_html(app, arguments, html);
    coffer *other = code == CLI_EXIT_OK && d.against != NULL ? cli_open(app, d.against, false, &code) : NULL;
    if (code == CLI_EXIT_OK) {
        code = look(&d, other);
    }
    if (code == CLI_EXIT_OK) {
        code = show(&d, html);
    }
    doctor_free_findings(&d);
    coffer_close(other);
    return code;
}

static const cli_option DOCTOR_OPTIONS[] = {
    { CLI_OPTION_DATA, 0, "data", NULL, "read everything: NaN, infinity, zeros, and digests where there are any",
      NULL },
    { CLI_OPTION_AGAINST, 0, "against", "OTHER", "also compare the model with another one", NULL },
    { CLI_OPTION_STRICT, 0, "strict", NULL, "warnings are failures too", NULL },
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "also write what was found as a page of HTML", NULL },
    { CLI_OPTION_FORCE, 'f', "force", NULL, "overwrite FILE", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example DOCTOR_EXAMPLES[] = {
    { "coffer doctor gpt2", "is everything there, and does it fit together?" },
    { "coffer doctor gpt2 --data --strict && echo fit to publish", "also by its bytes, and without a warning" },
    { "coffer doctor hf://openai-community/gpt2", "before it is downloaded" },
    { "coffer doctor tuned --against base", "does it still fit what it was trained from?" },
    { "coffer doctor backup --against hf://openai-community/gpt2 --data", "is the copy the same, to the byte?" },
    { "coffer doctor gpt2 -o gpt2.html", "a page to send to somebody" },
    { NULL, NULL },
};

const cli_command cli_doctor = {
    .name = "doctor",
    .run = run_doctor,
    .summary = "say what is wrong with a model and its folder, and what fixes it",
    .usage = "PATH",
    .about = "Looks at a folder with all folders in it, at one file or index, or at a URL, and says what is wrong,\n"
             "how badly, and which command fixes it:\n"
             "\n"
             "  files      models and indices that break a rule; files that are missing or that nobody names; what\n"
             "             interrupted downloads, edits and saves left; Git LFS pointers and web pages in the\n"
             "             place of files; broken JSON; pickles; links out of the folder\n"
             "  weights    against config.json, for the usual families: layers, shapes, heads, experts,\n"
             "             vocabulary, tied embeddings, dtype, quantisation; weights that are there twice\n"
             "  company    tokenizer, generation_config.json, adapters of PEFT, the parts of pipelines of\n"
             "             diffusers\n"
             "  data       with --data: NaN, infinity, tensors of zeros; recorded digests, and the SHA-256 that\n"
             "             the Hub's tools keep, are verified\n"
             "  another    with --against OTHER, a file, a folder or a URL: its tensors, dtypes and shapes, what\n"
             "             its config.json says of sizes and positions, its tokenizer; with --data also its\n"
             "             numbers\n"
             "\n"
             "An error keeps a model from being loaded, or from being the one that was saved; a warning is to be\n"
             "looked at; a note is good to know. Nothing is ever changed. At a URL, without --data, only headers\n"
             "and small files are read. With --quiet notes are left out. `fix:` is a command that removes the\n"
             "finding, `look:` one that says more. Of a kind of finding that comes very often, 10 are listed and\n"
             "the others counted.\n"
             "\n"
             "Exit codes: 0 no errors, 1 errors (with --strict warnings too), 2 wrong usage, 3 something could not\n"
             "be read, or there is no model.\n"
             "\n"
             "JSON: path, against (OTHER or null), ok, errors, warnings, notes (how many), data, models [{file,\n"
             "type, files, tensors, size}], findings [{weight (\"error\", \"warning\", \"note\"), kind, file, tensor,\n"
             "offset, reason, command, fixes, more}]. file is below path, and \"\" is path itself; tensor, offset\n"
             "and command may be null. A path that cannot be opened has path and error (see coffer help info).\n",
    .options = DOCTOR_OPTIONS,
    .examples = DOCTOR_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
