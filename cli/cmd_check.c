/* SPDX-License-Identifier: Apache-2.0 */
/* coffer check PATH...: whether files conform to the format, and what in them is legal but odd. */
#include "cli_files.h"
#include "cli_json.h"
#include "cli_options.h"
#include "cli_report.h"

#include <string.h>

static void put_path(cli_output *out, const char *path)
{
    cli_put_escaped(out, path, strlen(path), 0);
    cli_put_text(out, ": ");
}

static void show_notes(cli_output *out, const char *path, const coffer *model)
{
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        char text[256];
        if (cli_note_text(model, (coffer_note_kind)kind, text, sizeof text)) {
            put_path(out, path);
            cli_put_styled(out, CLI_YELLOW, "note");
            cli_put_text(out, ": ");
            cli_put_text(out, text);
            cli_put_char(out, '\n');
        }
    }
}

/* ---- One file ---- */

static void json_conforming(cli_output *out, const char *path, const coffer *model, bool ok)
{
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, path);
    cli_json_key(out, "ok");
    cli_json_bool(out, ok);
    cli_json_notes(out, model);
    cli_json_close(out, '}');
}

static void tsv_row(cli_output *out, const char *path, bool ok, size_t notes, const coffer_error *err)
{
    cli_tsv_text(out, path);
    cli_tsv_text(out, ok ? "ok" : "fails");
    cli_tsv_number(out, notes);
    cli_tsv_text(out, err != NULL ? coffer_status_name(err->code) : "");
    cli_tsv_raw(out, err != NULL ? err->tensor : ""); /* as it is in the error it is escaped already */
    if (err != NULL && err->offset != COFFER_NO_OFFSET) {
        cli_tsv_number(out, err->offset);
    } else {
        cli_tsv_raw(out, "");
    }
    cli_tsv_raw(out, err != NULL ? err->message : "");
    cli_tsv_end(out);
}

static int show_conforming(cli *app, const char *path, const coffer *model, bool strict)
{
    cli_output *out = &app->out;
    const size_t notes = cli_count_notes(model);
    const bool ok = !strict || notes == 0;
    if (app->json) {
        json_conforming(out, path, model, ok);
    } else if (app->tsv) {
        tsv_row(out, path, ok, notes, NULL);
    } else if (!ok || !app->quiet) {
        put_path(out, path);
        cli_put_styled(out, ok ? CLI_GREEN : CLI_RED, ok ? "ok" : "conforms, but not strictly");
        cli_put_text(out, ok ? "\n" : ": it has the notes that follow\n");
        show_notes(out, path, model);
    }
    return ok ? CLI_EXIT_OK : CLI_EXIT_NOT_CONFORMING;
}

/* A file that breaks a rule is what was asked for, so it is data; one that cannot be read is trouble. */
static int show_failed(cli *app, const char *path, const coffer_error *err)
{
    cli_output *out = &app->out;
    char place[512];
    const int code = cli_exit_code(err->code);
    cli_error_place(err, path, true, place, sizeof place);
    if (app->json) {
        cli_say_path(app, path, "%s%s", err->message, place);
        cli_json_open(out, '{', true);
        cli_json_error(app, path, err);
        cli_json_key(out, "ok");
        cli_json_bool(out, false);
        cli_json_close(out, '}');
    } else if (app->tsv) {
        tsv_row(out, path, false, 0, err);
    } else if (code == CLI_EXIT_NOT_CONFORMING) {
        put_path(out, path);
        cli_put_style(out, CLI_RED);
        cli_put_text(out, err->message);
        cli_put_style(out, CLI_PLAIN);
        cli_put_text(out, place);
        cli_put_char(out, '\n');
    } else {
        cli_say_path(app, path, "%s%s", err->message, place);
    }
    return code;
}

/* ---- The command ---- */

/* What is counted over all files. */
typedef struct check_run {
    bool strict;
    size_t fine;
    size_t failed;
    size_t unread;
} check_run;

static int show_verdict(cli *app, void *ctx, const cli_file *file)
{
    check_run *run = ctx;
    const int code = file->status == COFFER_OK ? show_conforming(app, file->path, file->model, run->strict)
                                               : show_failed(app, file->path, &file->err);
    run->fine += code == CLI_EXIT_OK;
    run->failed += code == CLI_EXIT_NOT_CONFORMING;
    run->unread += code == CLI_EXIT_UNREADABLE;
    return code;
}

static int run_check(cli *app, const cli_arguments *arguments)
{
    check_run run = { .strict = cli_given(arguments, CLI_OPTION_STRICT) };
    const cli_file_work work = { true, "checking", NULL, show_verdict, &run };
    if (app->tsv) {
        cli_put_text(&app->out, "path\tverdict\tnotes\terror\ttensor\toffset\tmessage\n");
    }
    const int code = cli_each_file(app, &work, arguments->names, arguments->name_count);
    if (code != CLI_EXIT_OK && arguments->name_count > 1) {
        cli_remark(app, "%zu of %zu files are fine; %zu fail, %zu could not be read", run.fine, arguments->name_count,
                   run.failed, run.unread);
    }
    return code;
}

static const cli_option CHECK_OPTIONS[] = {
    { CLI_OPTION_STRICT, 0, "strict", NULL, "notes are failures too", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_TSV,
    CLI_OPTION_ROW_END,
};

static const cli_example CHECK_EXAMPLES[] = {
    { "coffer check *.safetensors", "is every download whole and right?" },
    { "coffer check --strict upload.safetensors && echo fit to publish", "accept nothing odd" },
    { NULL, NULL },
};

const cli_command cli_check = {
    .name = "check",
    .run = run_check,
    .summary = "check files against every rule of the format",
    .usage = "PATH...",
    .about = "Checks the header and the size of every file, several files at a time, and says for each `PATH: ok`,\n"
             "or what is wrong with which tensor at which byte. What is legal but odd is a note. Nothing is ever\n"
             "repaired. With --quiet only files that fail are named. - is standard input. The index of a model, or\n"
             "its folder, stands for all its files: they are checked, and that they and the index agree.\n"
             "\n"
             "Exit code: 0 all conform, 1 some do not (or, with --strict, have notes), 3 some could not be read.\n",
    .options = CHECK_OPTIONS,
    .examples = CHECK_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
