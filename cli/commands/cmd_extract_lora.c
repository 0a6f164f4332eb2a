/* SPDX-License-Identifier: Apache-2.0 */
/* coffer extract-lora BASE TUNED -o FOLDER --rank R: the adapter that makes one model of another. */
#include "cli_adapters.h"
#include "cli_fold.h"
#include "cli_guard.h"
#include "cli_json.h"
#include "cli_mismatches.h"
#include "cli_options.h"
#include "cli_output.h"
#include "cli_progress.h"
#include "cli_publish.h"
#include "cli_recorded.h"
#include "cli_report.h"
#include "cli_rewrite.h"
#include "cli_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct extracting {
    cli *app;
    const char *const *paths; /* of the two models */
    const char *output;
    bool all; /* every tensor has a line of its own, also before anything is computed */
    coffer *models[2];
    coffer_extraction *extraction;
    double started;
} extracting;

/* ---- what is wanted ---- */

static int read_options(extracting *run, const cli_arguments *arguments, coffer_extract_lora_options *options)
{
    size_t rank = 0;
    const char *text = cli_value(arguments, CLI_OPTION_RANK);
    const char *dtype = cli_value(arguments, CLI_OPTION_DTYPE);
    if (!cli_given(arguments, CLI_OPTION_OUTPUT) && !cli_given(arguments, CLI_OPTION_DRY_RUN)) {
        return cli_usage_error(run->app, "name the folder of the adapter: -o FOLDER");
    }
    if (text == NULL || !cli_read_count(text, &rank) || rank == 0) {
        return cli_usage_error(run->app, "the adapter needs a rank: --rank 16");
    }
    options->rank = rank;
    options->dtype = dtype != NULL ? coffer_dtype_from_name(dtype, strlen(dtype)) : COFFER_F32;
    options->fan_in_fan_out = cli_given(arguments, CLI_OPTION_FAN_IN_FAN_OUT);
    return CLI_EXIT_OK;
}

/* Neither file may be one of the models', or there already, unless that is what the user wants. */
static int guard_models(void *ctx, const char *path)
{
    const extracting *run = ctx;
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < 2 && code == CLI_EXIT_OK; i++) {
        code = cli_guard_model(run->app, path, run->paths[i], run->models[i]);
    }
    return code;
}

/* ---- telling ---- */

/* "rank 16, keeps 97.3 %"; "whole" */
static void put_reported(cli_output *out, const coffer_extracted *reported, bool done)
{
    char share[CLI_SHARE_SIZE];
    if (reported->rank == 0) {
        cli_put_text(out, ": whole\n");
        return;
    }
    cli_put_text(out, ": rank ");
    cli_put_number(out, reported->rank);
    cli_put_text(out, reported->transposed ? ", transposed" : "");
    if (done) {
        cli_share_text(share, reported->kept);
        cli_put_text(out, ", keeps ");
        cli_put_text(out, share);
    }
    cli_put_char(out, '\n');
}

static void json_tensor(cli_output *out, const coffer_extracted *reported, bool done)
{
    char share[CLI_SHARE_SIZE];
    snprintf(share, sizeof share, "%.17g", reported->kept);
    cli_json_open(out, '{', false);
    cli_json_key(out, "name");
    cli_json_string_n(out, reported->tensor->name, reported->tensor->name_len);
    cli_json_put_number(out, "rank", reported->rank);
    cli_json_put_bool(out, "transposed", reported->transposed);
    cli_json_key(out, "kept");
    cli_json_raw(out, done || reported->rank == 0 ? share : "null");
    cli_json_close(out, '}');
}

static void show_tensors(const extracting *run, bool done)
{
    cli_output *out = &run->app->out;
    const coffer_extracted *reported = NULL;
    for (size_t i = 0; (reported = coffer_extraction_at(run->extraction, i)) != NULL; i++) {
        cli_put_escaped(out, reported->tensor->name, reported->tensor->name_len, 0);
        put_reported(out, reported, done);
    }
}

/* Without what is kept, which is not known yet: by shape, type and name all tensors of a fold are told alike. */
static int show_folded(const extracting *run)
{
    cli_output *out = &run->app->out;
    const size_t count = coffer_extraction_count(run->extraction);
    const coffer_tensor **tensors = malloc((count + 1) * sizeof(void *));
    cli_folds tree;
    for (size_t i = 0; tensors != NULL && i < count; i++) {
        tensors[i] = coffer_extraction_at(run->extraction, i)->tensor;
    }
    if (tensors == NULL || !cli_folds_make(&tree, tensors, count)) {
        free(tensors);
        return cli_fail_memory(run->app, run->paths[0]);
    }
    for (size_t i = 0; i < tree.fold_count; i++) {
        char tail[CLI_FOLD_TAIL_SIZE];
        const cli_fold *fold = &tree.folds[i];
        cli_fold_tail(&tree, fold, tail);
        cli_put_escaped(out, fold->name, fold->name_len, 0);
        cli_put_text(out, tail);
        put_reported(out, coffer_extraction_at(run->extraction, tree.leaves[fold->first].item), false);
    }
    cli_folds_free(&tree);
    free(tensors);
    return CLI_EXIT_OK;
}

static void show_json(const extracting *run, bool done)
{
    cli_output *out = &run->app->out;
    const coffer_extracted *reported = NULL;
    cli_json_open(out, '{', true);
    cli_json_put_string(out, "base", run->paths[0]);
    cli_json_put_string(out, "tuned", run->paths[1]);
    cli_json_text_or_null(out, "output", run->output, run->output != NULL ? strlen(run->output) : 0);
    cli_json_put_string(out, "done", done ? "written" : "dry_run");
    cli_json_key(out, "tensors");
    cli_json_open(out, '[', true);
    for (size_t i = 0; (reported = coffer_extraction_at(run->extraction, i)) != NULL; i++) {
        json_tensor(out, reported, done);
    }
    cli_json_close(out, ']');
    cli_json_seconds(out, cli_seconds() - run->started);
    cli_json_close(out, '}');
}

/* The tensor of which the least is kept, NULL if all of each is, but for rounding. */
static const coffer_extracted *worst_of(const extracting *run)
{
    const coffer_extracted *reported = NULL;
    const coffer_extracted *worst = NULL;
    for (size_t i = 0; (reported = coffer_extraction_at(run->extraction, i)) != NULL; i++) {
        if (reported->kept < (worst != NULL ? worst->kept : CLI_SHARE_OF_ALL)) {
            worst = reported;
        }
    }
    return worst;
}

static void sum_up(const extracting *run)
{
    char loss[512] = "";
    char name[256];
    char share[CLI_SHARE_SIZE];
    char took[CLI_NUMBER_SIZE];
    const size_t count = coffer_extraction_count(run->extraction);
    const coffer_extracted *worst = worst_of(run);
    if (worst != NULL) {
        coffer_escape(worst->tensor->name, worst->tensor->name_len, name, sizeof name);
        cli_share_text(share, worst->kept);
        snprintf(loss, sizeof loss, "; the least is kept of %s, %s", name, share);
    }
    cli_duration_text(took, cli_seconds() - run->started);
    cli_remark_path(run->app, run->output, "written: the adapter of %zu of %zu tensors%s (%s)", count,
                    coffer_count(run->models[0]), loss, took);
}

static int show(const extracting *run, bool done)
{
    int code = CLI_EXIT_OK;
    if (run->app->json) {
        show_json(run, done);
    } else if (done || run->all) {
        show_tensors(run, done);
    } else {
        code = show_folded(run);
    }
    if (done) {
        sum_up(run);
    } else {
        cli_remark_path(run->app, run->output != NULL ? run->output : "the new adapter",
                        "would be written: the adapter of %zu of %zu tensors", coffer_extraction_count(run->extraction),
                        coffer_count(run->models[0]));
    }
    return code;
}

/* ---- the whole ---- */

static int fail(const extracting *run, const coffer_error *err)
{
    return cli_fail(run->app, err->path[0] != '\0' ? err->path : run->paths[0], err);
}

static int plan(extracting *run, const coffer_extract_lora_options *options)
{
    coffer_error err;
    cli_progress progress;
    cli_progress_part part = { &progress, 0 };
    cli_mismatches mismatches = { .app = run->app, .paths = run->paths, .between = " " };
    coffer_extract_lora_options wanted = *options;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    wanted.misfit = cli_mismatches_tell;
    wanted.misfit_ctx = &mismatches;
    reading.progress = cli_progress_call;
    reading.progress_ctx = &part;
    cli_progress_begin_count(&progress, run->app, "comparing", 0);
    const coffer_status status =
        coffer_extract_lora_plan(&run->extraction, run->models[0], run->models[1], &wanted, &reading, &err);
    cli_progress_finish(&progress);
    cli_mismatches_finish(&mismatches);
    return status == COFFER_OK ? CLI_EXIT_OK : fail(run, &err);
}

static int write_adapter(const extracting *run, const cli_arguments *arguments)
{
    coffer_error err;
    cli_progress progress;
    cli_progress_part part = { &progress, 0 };
    coffer_writer_options writing = COFFER_WRITER_OPTIONS_INIT;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    bool made = false;
    const int code = cli_publish_folder(run->app, run->output, &made);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    writing.digests = cli_recorded_wanted(arguments, run->models[1]);
    reading.progress = cli_progress_call;
    reading.progress_ctx = &part;
    cli_progress_begin_count(&progress, run->app, "extracting", 0);
    const coffer_status status = coffer_extract_lora_run(run->extraction, run->output, &writing, &reading, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK && made) {
        (void)rmdir(run->output);
    }
    return status == COFFER_OK ? show(run, true) : fail(run, &err);
}

static int extract_with(extracting *run, const cli_arguments *arguments, const coffer_extract_lora_options *options)
{
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < 2 && code == CLI_EXIT_OK; i++) {
        run->models[i] = cli_recorded_open(run->app, run->paths[i], &code);
    }
    if (code == CLI_EXIT_OK && run->output != NULL) {
        code =
            cli_adapter_folder_check(run->app, run->output, cli_given(arguments, CLI_OPTION_FORCE), guard_models, run);
    }
    if (code == CLI_EXIT_OK) {
        code = plan(run, options);
    }
    if (code == CLI_EXIT_OK) {
        code = cli_given(arguments, CLI_OPTION_DRY_RUN) ? show(run, false) : write_adapter(run, arguments);
    }
    coffer_extraction_free(run->extraction);
    coffer_close(run->models[0]);
    coffer_close(run->models[1]);
    return code;
}

static int run_extract_lora(cli *app, const cli_arguments *arguments)
{
    extracting run = { .app = app,
                       .paths = arguments->names,
                       .output = cli_value(arguments, CLI_OPTION_OUTPUT),
                       .all = cli_given(arguments, CLI_OPTION_ALL),
                       .started = cli_seconds() };
    coffer_extract_lora_options options = COFFER_EXTRACT_LORA_OPTIONS_INIT;
    int code = read_options(&run, arguments, &options);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    const char **patterns = cli_values_of(arguments, CLI_OPTION_SELECT, &options.select_count);
    options.select = patterns;
    code = extract_with(&run, arguments, &options);
    free(patterns);
    return code;
}

static const cli_option EXTRACT_LORA_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FOLDER", "where the adapter goes", NULL },
    { CLI_OPTION_RANK, 0, "rank", "R", "the rank of its matrices", NULL },
    { CLI_OPTION_SELECT, 0, "select", "GLOB", "only tensors whose names match; repeatable", NULL },
    { CLI_OPTION_DTYPE, 0, "dtype", "DTYPE", "of the matrices: F32 (if not given), BF16 or F16", "F32|BF16|F16" },
    { CLI_OPTION_FAN_IN_FAN_OUT, 0, "fan-in-fan-out", NULL, "matrices are stored as [in, out], as those of GPT-2",
      NULL },
    CLI_OPTION_ROW_DRY_RUN,
    CLI_OPTION_ROW_ALL_CHANGES,
    { CLI_OPTION_FORCE, 'f', "force", NULL, "replace an adapter that is there", NULL },
    CLI_OPTION_ROW_DIGEST,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example EXTRACT_LORA_EXAMPLES[] = {
    { "coffer extract-lora base/ tuned/ -o adapter --rank 16", "what training has changed, as an adapter of PEFT" },
    { "coffer extract-lora base/ tuned/ -o adapter --rank 64 --dtype BF16 --select '*_proj.weight'",
      "only of some layers, in half the size" },
    { "coffer extract-lora base/ tuned/ -o adapter --rank 16 -n", "which tensors differ" },
    { NULL, NULL },
};

const cli_command cli_extract_lora = {
    .name = "extract-lora",
    .run = run_extract_lora,
    .summary = "write what differs between two models as an adapter (LoRA)",
    .usage = "BASE TUNED",
    .about = "Writes the adapter that makes TUNED of BASE to adapter_model.safetensors and adapter_config.json in\n"
             "FOLDER (-o), as PEFT has them. Of each tensor that differs it has two matrices of rank R, whose\n"
             "product is nearly the best that there is, if they are smaller than the tensor and its name ends in\n"
             ".weight; else, as of biases and norms, the tensor of TUNED itself. For each it shows how much of the\n"
             "difference is kept, as a share of its squares. coffer merge-lora BASE FOLDER gives TUNED back, but\n"
             "for the rest.\n"
             "\n"
             "Models have to have the same tensors, by name and shape, among those that --select chooses; else all\n"
             "that differ are listed, and nothing is written. Numbers that are infinite or NaN are refused, and so\n"
             "are quantised tensors that differ. It needs OpenBLAS or another LAPACK.\n"
             "\n"
             "JSON: base, tuned, output, done (written or dry_run), tensors [{name, rank (0: the tensor itself),\n"
             "transposed, kept (null if it was not computed)}], seconds.\n",
    .options = EXTRACT_LORA_OPTIONS,
    .examples = EXTRACT_LORA_EXAMPLES,
    .least_names = 2,
    .most_names = 2,
};
