/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file, and what a scan says of it: see scan_file.h.
 *
 * A verdict is only given of what was read to its end. So a file that cannot be read, or that no
 * reader knows, is never clean: it fails, with an exit code of its own. Files of tensors
 * (safetensors, bintensors) hold nothing that could be called, and are clean if they conform: the
 * library has looked at them as pickles before it said that no reader knows them.
 */
#include "scan_file.h"

#include "cli_files.h"
#include "cli_import.h"
#include "cli_interrupt.h"
#include "cli_json.h"
#include "cli_report.h"
#include "scan_passed.h"

#include <string.h>

/* A file that is looked into. `from` is NULL where it could not be read. */
typedef struct scanned {
    const char *path;
    cli_import opened;
    coffer *model; /* one of the formats that hold nothing but tensors */
    const char *from;
    const char *passed; /* what it is, where nothing runs it */
} scanned;

/* ---- Looking ---- */

/* A file of tensors is what remains when no reader knows it. Says which failure counts. */
static coffer_status look_for_tensors(scanned *file, coffer_error *err)
{
    coffer_error not_tensors;
    const coffer_status status = cli_open_quietly(&file->model, file->path, false, &not_tensors);
    if (status == COFFER_OK) {
        file->from = coffer_format_id(coffer_table_format(coffer_shard_table(file->model, 0)));
        return COFFER_OK;
    }
    /* What breaks the rules of safetensors is still none of what a scan knows: the first failure says what it is. */
    return err->code;
}

/* With `scan` a reader goes on after what would end a conversion, and lists it. Tensors that
   safetensors lacks do not matter here. In a folder each file speaks for itself, and an index for none. */
static coffer_status look(const scan_run *run, scanned *file, coffer_error *err)
{
    coffer_import_options wants = COFFER_IMPORT_OPTIONS_INIT;
    wants.scan = true;
    wants.skip_unsupported = true;
    coffer_status status = cli_import_open(&file->opened, file->path, &wants, run->confined, err);
    if (status == COFFER_OK) {
        file->from = coffer_import_summarize(file->opened.import)->reader;
        return status;
    }
    if (status != COFFER_ERR_UNKNOWN_INPUT) {
        return status;
    }
    file->passed = run->in_folder ? scan_passed_kind(file->opened.input) : NULL;
    return file->passed != NULL ? COFFER_OK : look_for_tensors(file, err);
}

/* ---- Telling ---- */

/* What makes a file not clean: notes do not. */
static size_t count_findings(const scanned *file)
{
    if (file->opened.import == NULL) {
        return 0;
    }
    const coffer_import_summary *summary = coffer_import_summarize(file->opened.import);
    return summary->opaque_count + summary->danger_count;
}

/* The verdict in a line, then what was found. */
static void show_text(cli *app, const scanned *file)
{
    cli_output *out = &app->out;
    const size_t count = count_findings(file);
    const coffer_import_finding *finding = NULL;
    cli_put_escaped(out, file->path, strlen(file->path), 0);
    cli_put_text(out, ": ");
    if (count == 0) {
        cli_put_styled(out, CLI_GREEN, "clean");
    } else {
        cli_put_number(out, count);
        cli_put_text(out, count == 1 ? " finding" : " findings");
    }
    cli_put_text(out, " (");
    cli_put_text(out, file->opened.import != NULL ? coffer_import_summarize(file->opened.import)->noun : file->from);
    cli_put_text(out, ")\n");
    for (size_t i = 0; (finding = coffer_import_finding_at(file->opened.import, i)) != NULL; i++) {
        cli_put_text(out, "  ");
        cli_import_put_finding(out, finding);
        cli_put_char(out, '\n');
    }
}

static void open_json(const scan_run *run, const scanned *file)
{
    cli_output *out = &run->app->out;
    cli_json_open(out, '{', true);
    cli_json_put_string(out, "path", file->path);
    if (run->target != NULL) {
        cli_json_put_string(out, "links_to", run->target);
    }
}

/* What was passed over is not called clean: nobody has read it for that. */
static void show_passed_json(const scan_run *run, const scanned *file)
{
    cli_output *out = &run->app->out;
    open_json(run, file);
    cli_json_put_string(out, "passed_over", file->passed);
    cli_json_close(out, '}');
}

static void show_json(const scan_run *run, const scanned *file)
{
    cli_output *out = &run->app->out;
    open_json(run, file);
    cli_json_put_string(out, "from", file->from);
    cli_json_put_bool(out, "clean", count_findings(file) == 0);
    cli_json_put_number(out, "bytes_read", coffer_input_bytes_read(file->opened.input));
    cli_json_import_findings(out, file->opened.import);
    cli_json_close(out, '}');
}

/* Nothing that this fails for is ever clean, nor a finding: it was not looked at. Only what is wrong with the command
   line, a URL that is none, keeps the exit code that it has everywhere. */
int scan_fail(scan_run *run, const char *path, const coffer_error *err)
{
    run->failed++;
    return cli_fail(run->app, path, err) == CLI_EXIT_USAGE ? CLI_EXIT_USAGE : CLI_EXIT_UNREADABLE;
}

static int show_passed(scan_run *run, const scanned *file)
{
    run->passed++;
    if (run->app->json) {
        show_passed_json(run, file);
    }
    return CLI_EXIT_OK;
}

static int show_file(scan_run *run, const scanned *file)
{
    const int code = count_findings(file) == 0 ? CLI_EXIT_OK : CLI_EXIT_NOT_CONFORMING;
    run->clean += code == CLI_EXIT_OK;
    run->found += code != CLI_EXIT_OK;
    if (run->app->json) {
        show_json(run, file);
    } else if (!run->app->quiet || code != CLI_EXIT_OK) {
        show_text(run->app, file);
    }
    return code;
}

/* ---- Models of several files ---- */

/* One file; *several is its model where that is in other files. */
static int scan_one(scan_run *run, const char *path, coffer **sharded)
{
    coffer_error err;
    scanned file = { .path = path };
    int code = CLI_EXIT_OK;
    if (look(run, &file, &err) != COFFER_OK) {
        code = scan_fail(run, path, &err);
    } else if (file.model != NULL && !cli_is_single_file(file.model, path)) {
        *sharded = file.model;
        file.model = NULL;
    } else {
        code = file.passed != NULL ? show_passed(run, &file) : show_file(run, &file);
    }
    coffer_close(file.model);
    cli_import_close(&file.opened);
    return code;
}

/* The index of a model has no verdict of its own: any of the files may be a pickle as well. */
static int scan_shards(scan_run *run, const coffer *model)
{
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < coffer_shard_count(model) && !cli_interrupted(); i++) {
        coffer *sharded = NULL;
        code = cli_worse(code, scan_one(run, coffer_shard_path(model, i), &sharded));
        coffer_close(sharded);
    }
    return code;
}

int scan_path(scan_run *run, const char *path)
{
    coffer *sharded = NULL;
    const int code = scan_one(run, path, &sharded);
    if (sharded == NULL) {
        return code;
    }
    const int worst = scan_shards(run, sharded);
    coffer_close(sharded);
    return worst;
}
