/* SPDX-License-Identifier: Apache-2.0 */
/* coffer add-lora A B... -o OUTPUT: one adapter that does what several do together. */
#include "cli_adapters.h"
#include "cli_filter.h"
#include "cli_json.h"
#include "cli_options.h"
#include "cli_output.h"
#include "cli_progress.h"
#include "cli_publish.h"
#include "cli_recorded.h"
#include "cli_report.h"
#include "cli_rewrite.h"
#include "cli_text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct adding {
    cli *app;
    const char *output;
    cli_adapters all;
    coffer_addition *addition;
    double started;
} adding;

/* ---- what is wanted ---- */

static int read_options(const adding *run, const cli_arguments *arguments, coffer_add_lora_options *options)
{
    size_t rank = 0;
    const char *text = cli_value(arguments, CLI_OPTION_RANK);
    const char *dtype = cli_value(arguments, CLI_OPTION_DTYPE);
    if (!cli_given(arguments, CLI_OPTION_OUTPUT) && !cli_given(arguments, CLI_OPTION_DRY_RUN)) {
        return cli_usage_error(run->app, "name the new adapter: -o FOLDER, of adapters that are no folders of PEFT "
                                         "-o FILE");
    }
    if (text != NULL && (!cli_read_count(text, &rank) || rank == 0)) {
        return cli_usage_error(run->app, "--rank needs a number above 0: --rank 16");
    }
    options->rank = rank;
    options->dtype = dtype != NULL ? coffer_dtype_from_name(dtype, strlen(dtype)) : COFFER_UNKNOWN_DTYPE;
    return CLI_EXIT_OK;
}

static int guard_adapters(void *ctx, const char *path)
{
    const adding *run = ctx;
    return cli_adapters_guard(&run->all, path);
}

static int check_output(adding *run, bool force)
{
    if (coffer_addition_is_folder(run->addition)) {
        return cli_adapter_folder_check(run->app, run->output, force, guard_adapters, run);
    }
    const int code = cli_publish_check(run->app, run->output, force);
    return code == CLI_EXIT_OK ? guard_adapters(run, run->output) : code;
}

/* ---- telling ---- */

/* "rank 24 of 3 adapters"; "rank 8 of 24, of 3 adapters, keeps 97.3 %" */
static void put_added(cli_output *out, const coffer_added *added, bool done)
{
    char share[CLI_SHARE_SIZE];
    cli_put_escaped(out, added->module, added->module_len, 0);
    cli_put_text(out, ": rank ");
    cli_put_number(out, added->rank);
    if (added->rank < added->rank_sum) {
        cli_put_text(out, " of ");
        cli_put_number(out, added->rank_sum);
        cli_put_char(out, ',');
    }
    cli_put_text(out, " of ");
    cli_put_number(out, added->adapter_count);
    cli_put_text(out, added->adapter_count == 1 ? " adapter" : " adapters");
    if (done && added->rank < added->rank_sum) {
        cli_share_text(share, added->kept);
        cli_put_text(out, ", keeps ");
        cli_put_text(out, share);
    }
    cli_put_char(out, '\n');
}

static void json_added(cli_output *out, const coffer_added *added, bool done)
{
    char share[CLI_SHARE_SIZE];
    snprintf(share, sizeof share, "%.17g", added->kept);
    cli_json_open(out, '{', false);
    cli_json_key(out, "module");
    cli_json_string_n(out, added->module, added->module_len);
    cli_json_put_number(out, "adapters", added->adapter_count);
    cli_json_put_number(out, "rank_sum", added->rank_sum);
    cli_json_put_number(out, "rank", added->rank);
    cli_json_key(out, "kept");
    cli_json_raw(out, done ? share : added->rank == added->rank_sum ? "1" : "null");
    cli_json_close(out, '}');
}

static void show_json(const adding *run, bool done)
{
    cli_output *out = &run->app->out;
    const coffer_added *added = NULL;
    char scale[32];
    cli_json_open(out, '{', true);
    cli_json_key(out, "adapters");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < run->all.count; i++) {
        snprintf(scale, sizeof scale, "%.17g", run->all.adapters[i].scale);
        cli_json_open(out, '{', false);
        cli_json_put_string(out, "path", run->all.paths[i]);
        cli_json_key(out, "scale");
        cli_json_raw(out, scale);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
    cli_json_text_or_null(out, "output", run->output, run->output != NULL ? strlen(run->output) : 0);
    cli_json_put_string(out, "done", done ? "written" : "dry_run");
    cli_json_key(out, "modules");
    cli_json_open(out, '[', true);
    for (size_t i = 0; (added = coffer_addition_at(run->addition, i)) != NULL; i++) {
        json_added(out, added, done);
    }
    cli_json_close(out, ']');
    cli_json_seconds(out, cli_seconds() - run->started);
    cli_json_close(out, '}');
}

static void show_modules(const adding *run, bool done)
{
    const coffer_added *added = NULL;
    for (size_t i = 0; (added = coffer_addition_at(run->addition, i)) != NULL; i++) {
        put_added(&run->app->out, added, done);
    }
}

/* The module of which the least is kept, NULL if nothing is dropped of any. */
static const coffer_added *worst_of(const adding *run)
{
    const coffer_added *added = NULL;
    const coffer_added *worst = NULL;
    for (size_t i = 0; (added = coffer_addition_at(run->addition, i)) != NULL; i++) {
        if (added->rank < added->rank_sum && (worst == NULL || added->kept < worst->kept)) {
            worst = added;
        }
    }
    return worst;
}

static void sum_up(const adding *run)
{
    char loss[512] = "";
    char name[256];
    char share[CLI_SHARE_SIZE];
    char took[CLI_NUMBER_SIZE];
    const size_t count = coffer_addition_count(run->addition);
    const coffer_added *worst = worst_of(run);
    if (worst != NULL) {
        coffer_escape(worst->module, worst->module_len, name, sizeof name);
        cli_share_text(share, worst->kept);
        snprintf(loss, sizeof loss, "; the least is kept of %s, %s", name, share);
    }
    cli_duration_text(took, cli_seconds() - run->started);
    cli_remark_path(run->app, run->output, "written: an adapter of %zu module%s%s (%s)", count, count == 1 ? "" : "s",
                    loss, took);
}

static void show(const adding *run, bool done)
{
    if (run->app->json) {
        show_json(run, done);
    } else {
        show_modules(run, done);
    }
    if (done) {
        sum_up(run);
    } else {
        const size_t count = coffer_addition_count(run->addition);
        cli_remark_path(run->app, run->output != NULL ? run->output : "the new adapter",
                        "would be written: an adapter of %zu module%s", count, count == 1 ? "" : "s");
    }
}

/* ---- the whole ---- */

static int fail(const adding *run, const coffer_error *err)
{
    return cli_fail(run->app, err->path[0] != '\0' ? err->path : run->all.paths[0], err);
}

static int write_adapter(const adding *run, const cli_arguments *arguments)
{
    coffer_error err;
    cli_progress progress;
    cli_progress_part part = { &progress, 0 };
    coffer_writer_options writing = COFFER_WRITER_OPTIONS_INIT;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    bool made = false;
    int code =
        coffer_addition_is_folder(run->addition) ? cli_publish_folder(run->app, run->output, &made) : CLI_EXIT_OK;
    if (code != CLI_EXIT_OK) {
        return code;
    }
    writing.digests = cli_recorded_wanted(arguments, coffer_lora_model(run->all.loras[0]));
    reading.progress = cli_progress_call;
    reading.progress_ctx = &part;
    cli_progress_begin_count(&progress, run->app, "adding", 0);
    const coffer_status status = coffer_add_lora_run(run->addition, run->output, &writing, &reading, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK && made && run->output != NULL) {
        (void)rmdir(run->output);
    }
    if (status != COFFER_OK) {
        return fail(run, &err);
    }
    show(run, true);
    return CLI_EXIT_OK;
}

static int add_adapters(adding *run, const cli_arguments *arguments, const coffer_add_lora_options *options)
{
    coffer_error err;
    const coffer_status status = coffer_add_lora_plan(&run->addition, run->all.adapters, run->all.count, options, &err);
    int code = status == COFFER_OK ? CLI_EXIT_OK : fail(run, &err);
    if (code == CLI_EXIT_OK && run->output != NULL) {
        code = check_output(run, cli_given(arguments, CLI_OPTION_FORCE));
    }
    if (code == CLI_EXIT_OK && cli_given(arguments, CLI_OPTION_DRY_RUN)) {
        show(run, false);
    } else if (code == CLI_EXIT_OK) {
        code = write_adapter(run, arguments);
    }
    coffer_addition_free(run->addition);
    return code;
}

static int run_add_lora(cli *app, const cli_arguments *arguments)
{
    adding run = { .app = app, .output = cli_value(arguments, CLI_OPTION_OUTPUT), .started = cli_seconds() };
    coffer_add_lora_options options = COFFER_ADD_LORA_OPTIONS_INIT;
    int code = read_options(&run, arguments, &options);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    code = cli_adapters_open(&run.all, app, arguments, arguments->names, arguments->name_count);
    if (code == CLI_EXIT_OK) {
        code = add_adapters(&run, arguments, &options);
    }
    cli_adapters_close(&run.all);
    return code;
}

static const cli_option ADD_LORA_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "PATH", "where the adapter goes: a folder, or as the adapters are, a file",
      NULL },
    { CLI_OPTION_SCALE, 0, "scale", "X", "how much of an adapter to add, 1 unless given; repeatable, in their order",
      NULL },
    { CLI_OPTION_RANK, 0, "rank", "R", "at most this rank, of which it shows how much is kept", NULL },
    CLI_OPTION_ROW_FILTER("only the adapters' tensors whose names match; !GLOB leaves out; repeatable"),
    { CLI_OPTION_DTYPE, 0, "dtype", "DTYPE", "of the matrices: F32, BF16 or F16; theirs, if it is one, else F32",
      "F32|BF16|F16" },
    CLI_OPTION_ROW_DRY_RUN,
    { CLI_OPTION_FORCE, 'f', "force", NULL, "replace an adapter that is there", NULL },
    CLI_OPTION_ROW_DIGEST,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example ADD_LORA_EXAMPLES[] = {
    { "coffer add-lora a/ b/ -o both", "two adapters of PEFT as one" },
    { "coffer add-lora a/ b/ --scale 1 --scale 0.5 --rank 16 -o both",
      "the second one by half, and as near as rank 16 comes" },
    { "coffer add-lora a.safetensors b.safetensors -o both.safetensors", "adapters of kohya's scripts" },
    { NULL, NULL },
};

const cli_command cli_add_lora = {
    .name = "add-lora",
    .run = run_add_lora,
    .summary = "make one adapter (LoRA) of several",
    .usage = "A B...",
    .about = "Writes the adapter whose product is the sum of those of all given ones, each times its --scale. Its\n"
             "matrices are theirs, stacked: nothing is lost, and ranks add up. Modules that only some adapters\n"
             "have keep their ranks. With --rank R a module of a larger rank gets the best matrices of rank R,\n"
             "which needs OpenBLAS or another LAPACK; for each it shows how much of the sum is kept, as a share of\n"
             "its squares.\n"
             "\n"
             "Folders of PEFT become a folder (-o), with adapter_model.safetensors and adapter_config.json; files\n"
             "with the names of kohya's scripts or of diffusers become a file. All have to be of one kind. DoRA,\n"
             "LoHa, LoKr, biases and other whole tensors are refused: merge those into their base (coffer\n"
             "merge-lora). So are adapters that state different bases, or whose matrices are for other shapes.\n"
             "\n"
             "JSON: adapters [{path, scale}], output, done (written or dry_run), modules [{module, adapters (how\n"
             "many have it), rank_sum, rank, kept (null if it was not computed)}], seconds.\n",
    .options = ADD_LORA_OPTIONS,
    .examples = ADD_LORA_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
    .takes_apart = true,
};
