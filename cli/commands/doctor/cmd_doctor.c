/* SPDX-License-Identifier: Apache-2.0 */
/* coffer doctor PATH: one verdict over a model and everything that lies around it. The rules are the library's. */
#include "cli_files.h"
#include "cli_folder.h"
#include "cli_import.h"
#include "cli_interrupt.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_publish.h"
#include "cli_report.h"
#include "cli_text.h"
#include "doctor_show.h"

#include <string.h>

/* ---- How far it has come ---- */

/* One line of progress for each long step. */
typedef struct doctor_progress {
    cli *app;
    cli_progress line;
    cli_progress_part part;
    bool begun;
} doctor_progress;

static void end_step(doctor_progress *progress)
{
    if (progress->begun) {
        cli_progress_finish(&progress->line);
    }
    progress->begun = false;
}

static void begin_step(void *ctx, const char *what, uint64_t total)
{
    doctor_progress *progress = ctx;
    end_step(progress);
    cli_progress_begin(&progress->line, progress->app, what, total);
    progress->part = (cli_progress_part){ &progress->line, 0 };
    progress->begun = true;
}

static int advance_step(void *ctx, uint64_t done, uint64_t total)
{
    doctor_progress *progress = ctx;
    return progress->begun && total > 0 ? cli_progress_call(&progress->part, done, total) : cli_interrupted();
}

/* Files of other programs are read in a process of their own. */
static coffer_status import_confined(void *ctx, const char *path, coffer_input **input, coffer_import **imported,
                                     coffer_error *err)
{
    cli_import opened;
    const coffer_import_options options = COFFER_IMPORT_OPTIONS_INIT;
    (void)ctx;
    const coffer_status status = cli_import_open(&opened, path, &options, true, err);
    *input = opened.input;
    *imported = opened.import;
    return status;
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

static int verdict_of(const doctor_view *view)
{
    const coffer_doctor_summary *summary = view->summary;
    const bool bad = summary->errors > 0 || (view->strict && summary->warnings > 0);
    return summary->unreadable ? CLI_EXIT_UNREADABLE : bad ? CLI_EXIT_NOT_CONFORMING : CLI_EXIT_OK;
}

static int show(const doctor_view *view, const char *html)
{
    int code = CLI_EXIT_OK;
    if (cli_interrupted()) {
        return CLI_EXIT_UNREADABLE;
    }
    if (html != NULL) {
        code = doctor_write_html(view, html);
    }
    if (html != NULL && code == CLI_EXIT_OK) {
        cli_remark_path(view->app, html, "written; open it in a browser");
    }
    if (view->app->json) {
        doctor_show_json(view);
    } else {
        doctor_show_text(view);
    }
    return cli_worse(code, verdict_of(view));
}

/* The model of a file of another program on this machine, which a confined process describes; NULL: it is none, or cannot be
   opened, which the doctor says. */
static coffer *open_foreign(const char *path)
{
    coffer_error err;
    coffer *model = NULL;
    if (!cli_is_folder(path) && cli_open_any(&model, path, &err) == COFFER_OK && coffer_model_import(model) == NULL) {
        coffer_close(model);
        model = NULL;
    }
    return model;
}

/* A URL is opened here, so that what it led to can be said. */
static int look(doctor_view *view, const coffer_doctor_options *given, const char *html)
{
    coffer_doctor_options options = *given;
    coffer_error err;
    int code = CLI_EXIT_OK;
    coffer_diagnosis *diagnosis = NULL;
    doctor_progress progress = { .app = view->app };
    const bool far = strstr(view->path, "://") != NULL;
    coffer *model = far ? cli_open(view->app, view->path, true, &code) : open_foreign(view->path);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (far) {
        (void)cli_remark_part(view->app, view->path, model);
    }
    options.model = model;
    options.step = begin_step;
    options.progress = advance_step;
    options.progress_ctx = &progress;
    options.import = import_confined;
    const coffer_status status = coffer_doctor(&diagnosis, view->path, &options, &err);
    end_step(&progress);
    if (status == COFFER_OK) {
        view->diagnosis = diagnosis;
        view->summary = coffer_diagnosis_summarize(diagnosis);
        code = show(view, html);
    } else {
        code = cli_fail(view->app, view->path, &err);
    }
    coffer_diagnosis_free(diagnosis);
    coffer_close(model);
    return code;
}

static int run_doctor(cli *app, const cli_arguments *arguments)
{
    const char *html = cli_value(arguments, CLI_OPTION_OUTPUT);
    coffer_doctor_options options = COFFER_DOCTOR_OPTIONS_INIT;
    doctor_view view = { .app = app,
                         .path = arguments->names[0],
                         .against = cli_value(arguments, CLI_OPTION_AGAINST),
                         .strict = cli_given(arguments, CLI_OPTION_STRICT) };
    const bool other_named = view.against == NULL || (strcmp(view.against, "-") != 0 && view.against[0] != '\0');
    if (strcmp(view.path, "-") == 0 || view.path[0] == '\0' || !other_named) {
        return cli_usage_error(app, "a doctor looks at files: name a folder, a file or a URL");
    }
    int code = check_html(app, arguments, html);
    coffer *other = code == CLI_EXIT_OK && view.against != NULL ? cli_open(app, view.against, false, &code) : NULL;
    if (code == CLI_EXIT_OK) {
        options.data = cli_given(arguments, CLI_OPTION_DATA);
        options.against = other;
        options.against_path = view.against;
        code = look(&view, &options, html);
    }
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
             "  companions tokenizer, generation_config.json, adapters of PEFT, the parts of pipelines of\n"
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
