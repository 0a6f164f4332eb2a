/* SPDX-License-Identifier: Apache-2.0 */
/* coffer check PATH...: whether files conform to the format, and what in them is legal but odd. */
#include "check_bytes.h"
#include "cli_files.h"
#include "cli_folder.h"
#include "cli_interrupt.h"
#include "cli_json.h"
#include "cli_models.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_OTHERS_MAX 1000 /* files of one model of which it is said what is wrong with them */

static void put_path(cli_output *out, const char *path)
{
    cli_put_escaped(out, path, strlen(path), 0);
    cli_put_text(out, ": ");
}

static void show_note(cli_output *out, const char *path, const char *text)
{
    put_path(out, path);
    cli_put_styled(out, CLI_YELLOW, "note");
    cli_put_text(out, ": ");
    cli_put_text(out, text);
    cli_put_char(out, '\n');
}

static void show_notes(cli_output *out, const char *path, const coffer *model, const check_bytes *bytes)
{
    char text[512];
    for (int kind = 0; kind < COFFER_NOTE_COUNT; kind++) {
        if (cli_note_text(model, (coffer_note_kind)kind, text, sizeof text)) {
            show_note(out, path, text);
        }
    }
    for (size_t i = 0; i < bytes->count; i++) {
        cli_note_format(&bytes->notes[i], text, sizeof text);
        show_note(out, path, text);
    }
}

/* ---- One file ---- */

static void json_conforming(cli_output *out, const char *path, const coffer *model, const check_bytes *bytes, bool ok)
{
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, path);
    cli_json_key(out, "ok");
    cli_json_bool(out, ok);
    cli_json_notes(out, model, bytes->notes, bytes->count);
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
    cli_tsv_finish(out);
}

static int show_conforming(cli *app, const cli_file *file, bool strict)
{
    cli_output *out = &app->out;
    const char *path = file->path;
    const coffer *model = file->model;
    const check_bytes *bytes = file->result;
    const size_t notes = cli_count_notes(model) + bytes->count;
    const bool ok = !strict || notes == 0;
    if (app->json) {
        json_conforming(out, path, model, bytes, ok);
    } else if (app->tsv) {
        tsv_row(out, path, ok, notes, NULL);
    } else if (!ok || !app->quiet) {
        put_path(out, path);
        cli_put_styled(out, ok ? CLI_GREEN : CLI_RED, ok ? "ok" : "conforms, but not strictly");
        cli_put_text(out, ok ? "\n" : ", because of these notes\n");
        show_notes(out, path, model, bytes);
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
    bool data; /* the tensors' bytes are looked at, too */
    size_t fine;
    size_t failed;
    size_t unread;
} check_run;

static coffer_status look(void *ctx, cli_file *file)
{
    const check_run *run = ctx;
    check_bytes *bytes = calloc(1, sizeof *bytes);
    file->result = bytes;
    if (bytes == NULL) {
        return cli_no_memory(&file->err);
    }
    check_holes(file->model, bytes);
    const coffer_status status = run->data ? check_packed(file->model, &file->err) : COFFER_OK;
    return run->data && status == COFFER_OK ? check_zeros(file->model, bytes, &file->err) : status;
}

/* What is wrong with other files of a model than the one that its failure is about. */
typedef struct check_others {
    cli *app;
    check_run *run;
    const coffer_error *reported;
    size_t count; /* lines that were shown */
    int code;
} check_others;

static int count_verdict(check_run *run, int code)
{
    run->fine += code == CLI_EXIT_OK;
    run->failed += code == CLI_EXIT_NOT_CONFORMING;
    run->unread += code == CLI_EXIT_UNREADABLE;
    return code;
}

/* A message about missing files names the first few of them. */
static bool is_reported(const coffer_error *reported, const char *path)
{
    char name[4 * 256];
    const char *slash = cli_last_slash(path);
    slash = slash != NULL ? slash + 1 : path;
    coffer_escape(slash, strlen(slash), name, sizeof name);
    return strcmp(reported->path, path) == 0 ||
           (reported->code == COFFER_ERR_SHARD_MISSING && strstr(reported->message, name));
}

static int show_other(void *ctx, const char *path, bool exists)
{
    check_others *others = ctx;
    coffer *model = NULL;
    coffer_error err;
    if (is_reported(others->reported, path)) {
        return 0;
    }
    if ((exists ? cli_open_quietly(&model, path, true, &err) : cli_missing_file(&err)) != COFFER_OK) {
        others->code = cli_worse(others->code, count_verdict(others->run, show_failed(others->app, path, &err)));
        others->count++;
    }
    coffer_close(model);
    return others->count == CHECK_OTHERS_MAX || cli_interrupted();
}

/* Whether a path is that of a model which may be several files. */
static bool stands_for_files(const char *path)
{
    return cli_is_folder(path) || coffer_is_index(path);
}

static int show_verdict(cli *app, void *ctx, const cli_file *file)
{
    check_run *run = ctx;
    if (file->status == COFFER_OK) {
        return count_verdict(run, show_conforming(app, file, run->strict));
    }
    check_others others = { app, run, &file->err, 0, count_verdict(run, show_failed(app, file->path, &file->err)) };
    if (stands_for_files(file->path)) {
        coffer_error err;
        (void)coffer_list_files(file->path, NULL, show_other, &others, &err);
    }
    return others.code;
}

static int run_check(cli *app, const cli_arguments *arguments)
{
    check_run run = { .strict = cli_given(arguments, CLI_OPTION_STRICT),
                      .data = cli_given(arguments, CLI_OPTION_DATA) };
    cli_models models;
    if (!cli_models_find(app, arguments->names, arguments->name_count, &models)) {
        cli_models_free(&models);
        return models.code;
    }
    const cli_file_work work = { .all_notes = true,
                                 .missing = models.missing,
                                 .label = "checking",
                                 .look = look,
                                 .show = show_verdict,
                                 .ctx = &run };
    if (app->tsv) {
        cli_put_text(&app->out, "path\tverdict\tnotes\terror\ttensor\toffset\tmessage\n");
    }
    const int code = cli_each_file(app, &work, (const char *const *)models.paths, models.count);
    const size_t seen = run.fine + run.failed + run.unread;
    if (code != CLI_EXIT_OK && seen > 1) {
        cli_remark(app, "%zu of %zu files are ok; %zu fail, %zu could not be read", run.fine, seen, run.failed,
                   run.unread);
    }
    const int listed = models.code;
    cli_models_free(&models);
    return cli_worse(code, listed);
}

static const cli_option CHECK_OPTIONS[] = {
    { CLI_OPTION_STRICT, 0, "strict", NULL, "notes are failures too", NULL },
    { CLI_OPTION_DATA, 0, "data", NULL, "also read the tensors' bytes: note zeros, unpack what is packed", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_TSV,
    CLI_OPTION_ROW_END,
};

static const cli_example CHECK_EXAMPLES[] = {
    { "coffer check *.safetensors", "is every download complete and valid?" },
    { "coffer check --strict upload.safetensors && echo fit to publish", "accept nothing odd" },
    { NULL, NULL },
};

const cli_command cli_check = {
    .name = "check",
    .run = run_check,
    .summary = "check files against every rule of the format",
    .usage = "PATH...",
    .about = "Checks the header and the size of every file, several files at a time, and prints for each `PATH:\n"
             "ok`, or what is wrong, with the tensor and the byte. What is legal but odd is a note. Nothing is\n"
             "ever repaired. With --quiet only files that fail are named. - is standard input. The index of a\n"
             "model stands for all its files: they are checked, and compared with the index. In a folder every\n"
             "model below it is checked, and skipped files are named.\n"
             "\n"
             "A hole in a file, which reads as zeros, is a note if the file system reports it; an interrupted\n"
             "download into reserved space leaves holes. With --data tensors of zeros are notes, too,\n"
             "and of a packed file all is decoded, and the SHA-256 of the original compared.\n"
             "\n"
             "Exit code: 0 all conform, 1 some do not (or, with --strict, have notes), 3 some could not be read.\n",
    .options = CHECK_OPTIONS,
    .examples = CHECK_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
