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

static void show_notes(cli_output *out, const char *path, const coffer_table *table)
{
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        const coffer_note note = coffer_table_note(table, (coffer_note_kind)kind);
        if (note.count == 0) {
            continue;
        }
        put_path(out, path);
        cli_put_text(out, "note: ");
        cli_put_text(out, coffer_note_text((coffer_note_kind)kind));
        cli_put_text(out, " (");
        cli_put_grouped(out, note.count);
        cli_put_text(out, note.count == 1 ? " time, at byte " : " times, first at byte ");
        cli_put_number(out, note.offset);
        cli_put_text(out, ")\n");
    }
}

static bool has_notes(const coffer_table *table)
{
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        if (coffer_table_note(table, (coffer_note_kind)kind).count > 0) {
            return true;
        }
    }
    return false;
}

static int show_conforming(cli *app, const char *path, const coffer *model, bool strict)
{
    cli_output *out = &app->out;
    const coffer_table *table = coffer_shard_table(model, 0);
    const bool ok = !(strict && has_notes(table));
    if (app->json) {
        cli_json_open(out, '{', true);
        cli_json_key(out, "path");
        cli_json_string(out, path);
        cli_json_key(out, "ok");
        cli_json_bool(out, ok);
        cli_json_notes(out, table);
        cli_json_close(out, '}');
    } else {
        put_path(out, path);
        cli_put_text(out, ok ? "ok\n" : "conforms, but not strictly: it has the notes that follow\n");
        show_notes(out, path, table);
    }
    return ok ? CLI_EXIT_OK : CLI_EXIT_NOT_CONFORMING;
}

/* A file that breaks a rule is what was asked for, so it is data; one that cannot be read is trouble. */
static int show_failed(cli *app, const char *path, const coffer_error *err)
{
    char place[512];
    const int code = cli_exit_code(err->code);
    cli_error_place(err, true, place, sizeof place);
    if (app->json) {
        cli_say_path(app, path, "%s%s", err->message, place);
        cli_json_open(&app->out, '{', true);
        cli_json_error(app, path, err);
        cli_json_key(&app->out, "ok");
        cli_json_bool(&app->out, false);
        cli_json_close(&app->out, '}');
    } else if (code == CLI_EXIT_NOT_CONFORMING) {
        put_path(&app->out, path);
        cli_put_text(&app->out, err->message);
        cli_put_text(&app->out, place);
        cli_put_char(&app->out, '\n');
    } else {
        cli_say_path(app, path, "%s%s", err->message, place);
    }
    return code;
}

/* `ctx` is whether notes count. */
static int show_verdict(cli *app, void *ctx, const cli_file *file)
{
    const bool *strict = ctx;
    return file->status == COFFER_OK ? show_conforming(app, file->path, file->model, *strict)
                                     : show_failed(app, file->path, &file->err);
}

static int run_check(cli *app, const cli_arguments *arguments)
{
    bool strict = cli_given(arguments, CLI_OPTION_STRICT);
    const cli_file_work work = { true, "checking", NULL, show_verdict, &strict };
    return cli_each_file(app, &work, arguments->names, arguments->name_count);
}

static const cli_option CHECK_OPTIONS[] = {
    { CLI_OPTION_STRICT, 0, "strict", NULL, "notes are failures too", NULL },
    CLI_OPTION_ROW_JSON,
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
    .about = "Checks the header and the size of every file, and says for each `PATH: ok`, or what is wrong with\n"
             "which tensor at which byte. What is legal but odd is a note. Exit code: 0 all conform, 1 some do\n"
             "not (or, with --strict, have notes), 3 some could not be read.\n"
             "\n"
             "JSON: path, ok, notes [{kind, text, count, offset}]; a file that fails has path, error and ok, see\n"
             "coffer help info.\n",
    .options = CHECK_OPTIONS,
    .examples = CHECK_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
