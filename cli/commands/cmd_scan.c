/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer scan FILE…: what a loader would have called.
 *
 * A verdict is only given of what was read to its end. So a file that cannot be read, or that no
 * reader knows, is never clean: it fails, with an exit code of its own. Files of tensors
 * (safetensors, bintensors) hold nothing that could be called, and are clean if they conform.
 *
 * Reading is confined like a conversion's, as the files are those that one does not trust.
 */
#include "cli_files.h"
#include "cli_import.h"
#include "cli_interrupt.h"
#include "cli_options.h"
#include "cli_report.h"

#include <string.h>

/* A file that is looked into. `from` is NULL where it could not be read. */
typedef struct scanned {
    const char *path;
    cli_import opened;
    coffer *model; /* one of the formats that hold nothing but tensors */
    const char *from;
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
   safetensors lacks do not matter here. */
static coffer_status look(scanned *file, bool confined, coffer_error *err)
{
    coffer_import_options wants = COFFER_IMPORT_OPTIONS_INIT;
    wants.scan = true;
    wants.skip_unsupported = true;
    coffer_status status = cli_import_open(&file->opened, file->path, &wants, confined, err);
    if (status == COFFER_OK) {
        file->from = coffer_import_summarize(file->opened.import)->format;
    } else if (status == COFFER_ERR_UNKNOWN_INPUT) {
        status = look_for_tensors(file, err);
    }
    return status;
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

static void show_json(cli *app, const scanned *file)
{
    cli_output *out = &app->out;
    cli_json_open(out, '{', true);
    cli_json_put_string(out, "path", file->path);
    cli_json_put_string(out, "from", file->from);
    cli_json_put_bool(out, "clean", count_findings(file) == 0);
    cli_json_put_number(out, "bytes_read", coffer_input_bytes_read(file->opened.input));
    cli_json_import_findings(out, file->opened.import);
    cli_json_close(out, '}');
}

/* Nothing that this fails for is ever clean, nor a finding: it was not looked at. Only what is wrong with the command
   line, a URL that is none, keeps the exit code that it has everywhere. */
static int fail_file(cli *app, const char *path, const coffer_error *err)
{
    return cli_fail(app, path, err) == CLI_EXIT_USAGE ? CLI_EXIT_USAGE : CLI_EXIT_UNREADABLE;
}

static int scan_file(cli *app, const char *path, bool confined)
{
    coffer_error err;
    scanned file = { .path = path };
    int code = CLI_EXIT_OK;
    if (look(&file, confined, &err) != COFFER_OK) {
        code = fail_file(app, path, &err);
    } else {
        code = count_findings(&file) == 0 ? CLI_EXIT_OK : CLI_EXIT_NOT_CONFORMING;
        if (app->json) {
            show_json(app, &file);
        } else if (!app->quiet || code != CLI_EXIT_OK) {
            show_text(app, &file);
        }
    }
    coffer_close(file.model);
    cli_import_close(&file.opened);
    return code;
}

/* All files are looked at, whatever the first ones are; the exit code is that of the worst. */
static int run_scan(cli *app, const cli_arguments *arguments)
{
    int code = CLI_EXIT_OK;
    const bool confined = !cli_given(arguments, CLI_OPTION_NO_SANDBOX);
    if (app->json) {
        cli_json_open(&app->out, '[', true);
    }
    for (size_t i = 0; i < arguments->name_count && !cli_interrupted(); i++) {
        code = cli_worse(code, scan_file(app, arguments->names[i], confined));
    }
    if (app->json) {
        cli_json_close(&app->out, ']');
    }
    return code;
}

static const cli_option SCAN_OPTIONS[] = {
    CLI_OPTION_ROW_NO_SANDBOX,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example SCAN_EXAMPLES[] = {
    { "coffer scan pytorch_model.bin", "before a program loads it" },
    { "coffer scan hf://owner/name/pytorch_model.bin", "without downloading it" },
    { NULL, NULL },
};

const cli_command cli_scan = {
    .name = "scan",
    .run = run_scan,
    .summary = "say what a program that loads a checkpoint would run",
    .usage = "FILE...",
    .about = "A pickle is a program: loading one can call anything. This reads checkpoints and arrays (PyTorch,\n"
             "NumPy, Paddle) without running anything, and lists what a loader would have called, with which\n"
             "arguments, what it would have imported, and what makes a file misleading. Of an archive it reads the\n"
             "directory and the pickles, so a file behind a URL need not be downloaded.\n"
             "\n"
             "danger: made to run something, or to mislead; opaque: an object of another program, harmless or not;\n"
             "note: worth knowing. A clean file has notes at most. That is no promise about other programs.\n"
             "\n"
             "Exit codes: 0 clean, 1 findings, 2 wrong usage, 3 a file that could not be read, or that is nothing\n"
             "that scan knows.\n"
             "\n"
             "JSON: an array of {path, from, clean, bytes_read, findings [{weight, text, subject, file, member,\n"
             "offset}]}. A file that fails has path and error (see coffer help info).\n",
    .options = SCAN_OPTIONS,
    .examples = SCAN_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
