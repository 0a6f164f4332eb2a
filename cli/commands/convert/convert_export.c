/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way back: a model becomes a file of another program.
 *
 * The model was opened, and so checked, by the caller. The library refuses what the format lacks
 * before it writes anything, and reports how large the file will be; a dry run ends there. The new
 * file appears under its name complete or not at all.
 */
#include "cli_guard.h"
#include "cli_json.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_publish.h"
#include "cli_report.h"
#include "cli_text.h"
#include "convert.h"

#include <string.h>

typedef struct exporting {
    cli *app;
    const char *path;
    const char *output;
    coffer *model;
    coffer_export_format format;
    coffer_export_options options;
    uint64_t size; /* of the new file */
    double started;
} exporting;

/* Of bytes without a type, only whole numbers make sense to the programs that read them. --tied
   keep means here that no tied names are added, as --tied hf is what made them. */
static int read_export_options(exporting *run, const cli_arguments *arguments)
{
    const char *bytes_as = cli_value(arguments, CLI_OPTION_BYTES_AS);
    if (bytes_as != NULL) {
        run->options.bytes_as = coffer_dtype_from_name(bytes_as, strlen(bytes_as));
        if (run->options.bytes_as != COFFER_U8 && run->options.bytes_as != COFFER_I8) {
            return cli_usage_error(run->app, "--bytes-as needs U8 or I8 here");
        }
    }
    run->options.without_tied = cli_which(arguments, CLI_OPTION_TIED) > 0;
    run->options.arch = cli_value(arguments, CLI_OPTION_ARCH);
    run->options.sidecar = cli_value(arguments, CLI_OPTION_SIDECAR);
    run->options.tensor = cli_value(arguments, CLI_OPTION_TENSOR);
    run->options.tensor_len = run->options.tensor == NULL ? 0 : strlen(run->options.tensor);
    return CLI_EXIT_OK;
}

/* Not over a file of the model, nor without --force over any other. */
static int check_export_output(const exporting *run, bool force)
{
    int code = cli_publish_check_name(run->app, run->output);
    if (code == CLI_EXIT_OK) {
        code = cli_guard_model(run->app, run->output, run->path, run->model);
    }
    return code == CLI_EXIT_OK ? cli_publish_check(run->app, run->output, force) : code;
}

/* Tensors that are written: all, or the one that --tensor names. */
static size_t export_count(const exporting *run)
{
    return run->options.tensor != NULL ? 1 : coffer_count(run->model);
}

/* One line for people on standard error and, if wanted, an object on standard output. */
static void show_export(const exporting *run, bool done)
{
    char count[CLI_NUMBER_SIZE];
    char bytes[CLI_NUMBER_SIZE];
    char took[CLI_NUMBER_SIZE];
    cli_output *out = &run->app->out;
    cli_number_text(count, export_count(run), true);
    cli_bytes_text(bytes, run->size);
    cli_duration_text(took, cli_seconds() - run->started);
    cli_remark_path(run->app, run->output, "%s: %s tensor%s, %s%s%s%s", done ? "written" : "would be written", count,
                    export_count(run) == 1 ? "" : "s", bytes, done ? " (" : "", done ? took : "", done ? ")" : "");
    if (!run->app->json) {
        return;
    }
    cli_json_open(out, '{', true);
    cli_json_put_string(out, "path", run->path);
    cli_json_put_string(out, "output", run->output);
    cli_json_put_string(out, "done", done ? "written" : "dry_run");
    cli_json_put_string(out, "to", coffer_export_name(run->format));
    cli_json_put_number(out, "tensors", export_count(run));
    cli_json_put_number(out, "size", run->size);
    cli_json_seconds(out, cli_seconds() - run->started);
    cli_json_close(out, '}');
}

/* Of the output if the library says so, else of the model. */
static int fail_export(const exporting *run, const coffer_error *err)
{
    return cli_fail(run->app, err->path[0] != '\0' ? err->path : run->path, err);
}

static int write_export(const exporting *run)
{
    coffer_error err;
    cli_progress progress;
    cli_progress_part part = { &progress, 0 };
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.progress = cli_progress_call;
    reading.progress_ctx = &part;
    cli_progress_begin(&progress, run->app, "writing", 0);
    const coffer_status status = coffer_export(run->model, run->format, run->output, &run->options, &reading, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK) {
        return fail_export(run, &err);
    }
    show_export(run, true);
    return CLI_EXIT_OK;
}

/* Asking for the size lays the file out, so whatever the format lacks is reported by a dry run,
   too. */
static int carry_export_out(exporting *run, const cli_arguments *arguments)
{
    coffer_error err;
    int code = read_export_options(run, arguments);
    if (code == CLI_EXIT_OK) {
        code = check_export_output(run, cli_given(arguments, CLI_OPTION_FORCE));
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (coffer_export_size(run->model, run->format, &run->options, &run->size, &err) != COFFER_OK) {
        return fail_export(run, &err);
    }
    if (cli_given(arguments, CLI_OPTION_DRY_RUN)) {
        show_export(run, false);
        return CLI_EXIT_OK;
    }
    return write_export(run);
}

int convert_export(cli *app, const cli_arguments *arguments, coffer_export_format format, coffer *model)
{
    exporting run = { .app = app,
                      .path = arguments->names[0],
                      .output = cli_value(arguments, CLI_OPTION_OUTPUT),
                      .model = model,
                      .format = format,
                      .options = COFFER_EXPORT_OPTIONS_INIT,
                      .started = cli_seconds() };
    const int code = carry_export_out(&run, arguments);
    coffer_close(model);
    return code;
}
