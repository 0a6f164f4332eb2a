/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer stats PATH [GLOB...]: what numbers the tensors hold. The file is read once, by several
 * threads, and a second time for histograms, whose ends are not known before.
 */
#include "stats.h"

#include "cli_files.h"
#include "cli_filter.h"
#include "cli_guard.h"
#include "cli_options.h"
#include "cli_parallel.h"
#include "cli_pieces.h"
#include "cli_progress.h"
#include "cli_publish.h"
#include "cli_report.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Reading ---- */

/* A walk over all pieces. */
typedef struct stats_run {
    stats_report *report;
    const cli_piece *pieces;
    coffer_statistics *found; /* by piece; NULL: histograms are filled */
    cli_progress progress;
    pthread_mutex_t lock; /* of the histograms and of what follows */
    atomic_bool failed;
    coffer_status status;
    coffer_error err;
} stats_run;

static void fail(stats_run *run, const coffer_error *err)
{
    pthread_mutex_lock(&run->lock);
    if (run->status == COFFER_OK) {
        run->status = err->code;
        run->err = *err;
    }
    pthread_mutex_unlock(&run->lock);
    atomic_store(&run->failed, true);
}

static void look_at(stats_run *run, size_t job, const void *bytes)
{
    const cli_piece *piece = &run->pieces[job];
    const stats_tensor *stats = &run->report->tensors[piece->item];
    const coffer_dtype dtype = stats->tensor->dtype;
    if (run->found != NULL) {
        (void)coffer_statistics_add(&run->found[job], dtype, bytes, piece->count);
        return;
    }
    stats_row *row = &run->report->rows[stats->row]; /* its extremes are final now */
    stats_histogram own = { .low = row->numbers.min, .high = row->numbers.max };
    stats_histogram all = { .low = run->report->all.numbers.min, .high = run->report->all.numbers.max };
    stats_count(&own, dtype, bytes, piece->count);
    stats_count(&all, dtype, bytes, piece->count);
    pthread_mutex_lock(&run->lock);
    stats_add_bins(&row->histogram, &own);
    stats_add_bins(&run->report->all.histogram, &all);
    pthread_mutex_unlock(&run->lock);
}

/* Runs on any thread. */
static void work(void *ctx, size_t job)
{
    stats_run *run = ctx;
    const cli_piece *piece = &run->pieces[job];
    coffer_error err;
    if (atomic_load(&run->failed)) {
        return;
    }
    void *bytes = cli_read_piece(run->report->model, run->report->tensors[piece->item].tensor, piece, &err);
    if (bytes == NULL) {
        fail(run, &err);
        return;
    }
    look_at(run, job, bytes);
    free(bytes);
}

/* In the order of the pieces, so that sums are the same every time. */
static void deliver(void *ctx, size_t job)
{
    stats_run *run = ctx;
    const cli_piece *piece = &run->pieces[job];
    stats_tensor *stats = &run->report->tensors[piece->item];
    if (run->found != NULL) {
        coffer_statistics_merge(&stats->numbers, &run->found[job]);
    }
    cli_progress_add(&run->progress, cli_elements_size(stats->tensor->dtype, piece->count));
}

static uint64_t bytes_of(const stats_report *report)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < report->count; i++) {
        bytes += report->tensors[i].tensor->size;
    }
    return bytes;
}

static int walk(cli *app, stats_run *run, size_t count, const char *label)
{
    const cli_jobs jobs = { work, deliver, run };
    run->status = COFFER_OK;
    pthread_mutex_init(&run->lock, NULL);
    cli_progress_begin(&run->progress, app, label, bytes_of(run->report));
    cli_parallel(&jobs, count, cli_processors());
    cli_progress_finish(&run->progress);
    pthread_mutex_destroy(&run->lock);
    return run->status == COFFER_OK ? CLI_EXIT_OK : cli_fail(app, run->report->path, &run->err);
}

static void sum_up(stats_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const stats_tensor *stats = &report->tensors[i];
        coffer_statistics_merge(&report->rows[stats->row].numbers, &stats->numbers);
        coffer_statistics_merge(&report->all.numbers, &stats->numbers);
    }
    for (size_t i = 0; i < report->row_count; i++) {
        stats_row *row = &report->rows[i];
        row->histogram.low = row->numbers.min;
        row->histogram.high = row->numbers.max;
    }
    report->all.histogram.low = report->all.numbers.min;
    report->all.histogram.high = report->all.numbers.max;
}

static int find_out(cli *app, stats_report *report)
{
    size_t count = 0;
    stats_run run = { .report = report };
    uint64_t *elements = calloc(report->count + 1, sizeof *elements);
    for (size_t i = 0; i < report->count && elements != NULL; i++) {
        elements[i] = coffer_tensor_elements(report->tensors[i].tensor);
    }
    cli_piece *pieces = elements != NULL ? cli_cut(elements, report->count, &count) : NULL;
    free(elements);
    run.pieces = pieces;
    run.found = calloc(count + 1, sizeof *run.found);
    int code = CLI_EXIT_OK;
    if (pieces == NULL || run.found == NULL) {
        code = cli_fail_memory(app, report->path);
    } else {
        code = walk(app, &run, count, "reading");
        sum_up(report);
    }
    free(run.found);
    run.found = NULL;
    if (code == CLI_EXIT_OK && report->histograms) {
        code = walk(app, &run, count, "counting");
    }
    free(pieces);
    return code;
}

/* ---- Choosing ---- */

static int choose(cli *app, stats_report *report, const cli_filter *filter)
{
    const size_t all = coffer_count(report->model);
    const char *idle = cli_filter_idle(filter, report->model);
    if (idle != NULL) {
        return cli_filter_fail(app, report->path, report->model, idle);
    }
    report->tensors = calloc(all + 1, sizeof *report->tensors);
    if (report->tensors == NULL) {
        return cli_fail_memory(app, report->path);
    }
    for (size_t i = 0; i < all; i++) {
        const coffer_tensor *tensor = coffer_at(report->model, i);
        if (cli_filter_takes(filter, tensor)) {
            report->tensors[report->count++].tensor = tensor;
        }
    }
    return CLI_EXIT_OK;
}

static int choose_by(cli *app, stats_report *report, const cli_arguments *arguments)
{
    cli_filter filter;
    const int code = cli_filter_init(&filter, app, arguments, 1) ? choose(app, report, &filter) : CLI_EXIT_UNREADABLE;
    cli_filter_free(&filter);
    return code;
}

/* ---- What must not be there ---- */

typedef struct stats_bans {
    bool nan;
    bool infinite;
} stats_bans;

/* "nan", "inf", or both with a comma between. */
static bool read_bans(const char *text, stats_bans *bans)
{
    while (text != NULL) {
        const size_t len = strcspn(text, ",");
        if (len == 3 && strncasecmp(text, "nan", len) == 0) {
            bans->nan = true;
        } else if (len == 3 && strncasecmp(text, "inf", len) == 0) {
            bans->infinite = true;
        } else {
            return false;
        }
        text = text[len] == ',' ? text + len + 1 : NULL;
    }
    return true;
}

/* A line for each tensor that has what it must not have. Returns the exit code. */
static int judge(cli *app, const stats_report *report, const stats_bans *bans)
{
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < report->count; i++) {
        const coffer_tensor *tensor = report->tensors[i].tensor;
        const coffer_statistics *numbers = &report->tensors[i].numbers;
        const uint64_t nan = bans->nan ? numbers->nan : 0;
        const uint64_t infinite = bans->infinite ? numbers->infinite : 0;
        char shown[256];
        if (nan == 0 && infinite == 0) {
            continue;
        }
        coffer_escape(tensor->name, tensor->name_len, shown, sizeof shown);
        cli_say_path(app, report->path,
                     "tensor \"%s\" has numbers that are not finite: %" PRIu64 " NaN, %" PRIu64 " infinite", shown,
                     numbers->nan, numbers->infinite);
        code = CLI_EXIT_NOT_CONFORMING;
    }
    return code;
}

/* ---- The command ---- */

static int show(cli *app, const stats_report *report, const char *plot)
{
    if (app->json) {
        stats_show_json(app, report);
    } else if (app->tsv) {
        stats_show_tsv(app, report);
    } else {
        stats_show_text(app, report);
    }
    return plot != NULL ? stats_plot(app, report, plot) : CLI_EXIT_OK;
}

static int run_stats(cli *app, const cli_arguments *arguments)
{
    const char *plot = cli_value(arguments, CLI_OPTION_OUTPUT);
    const char *banned = cli_value(arguments, CLI_OPTION_FAIL_ON);
    const bool folded = !app->json && !app->tsv && !cli_given(arguments, CLI_OPTION_ALL);
    stats_bans bans = { false, false };
    stats_report report = { .path = arguments->names[0] };
    if (banned != NULL && !read_bans(banned, &bans)) {
        return cli_usage_error(app, "--fail-on needs nan, inf or nan,inf");
    }
    report.shows_histograms = cli_given(arguments, CLI_OPTION_HISTOGRAM);
    report.histograms = report.shows_histograms || plot != NULL;
    int code = plot != NULL ? cli_guard_input(app, plot, report.path) : CLI_EXIT_OK;
    if (code == CLI_EXIT_OK && plot != NULL) {
        code = cli_publish_check(app, plot, cli_given(arguments, CLI_OPTION_FORCE));
    }
    if (code == CLI_EXIT_OK) {
        report.model = cli_open(app, report.path, false, &code);
    }
    if (code == CLI_EXIT_OK && plot != NULL) {
        code = cli_guard_model(app, plot, report.path, report.model);
    }
    if (code == CLI_EXIT_OK) {
        code = choose_by(app, &report, arguments);
    }
    if (code == CLI_EXIT_OK && !stats_make_rows(&report, folded)) {
        code = cli_fail_memory(app, report.path);
    }
    if (code == CLI_EXIT_OK) {
        code = find_out(app, &report);
    }
    if (code == CLI_EXIT_OK) {
        code = show(app, &report, plot);
    }
    if (code == CLI_EXIT_OK) {
        code = judge(app, &report, &bans);
    }
    stats_free_rows(&report);
    free(report.tensors);
    coffer_close(report.model);
    return code;
}

static const cli_option STATS_OPTIONS[] = {
    CLI_OPTION_ROW_FILTER("only tensors whose names match, as with GLOB; !GLOB leaves out; repeatable"),
    { CLI_OPTION_ALL, 'a', "all", NULL, "a row for each tensor, instead of one for all layers", NULL },
    { CLI_OPTION_FAIL_ON, 0, "fail-on", "KINDS", "exit code 1 when a tensor has any: nan, inf or nan,inf", NULL },
    { CLI_OPTION_HISTOGRAM, 0, "histogram", NULL, "also show how the numbers are distributed", NULL },
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "draw that as SVG, for all tensors and for each row", NULL },
    { CLI_OPTION_FORCE, 'f', "force", NULL, "overwrite FILE", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_TSV,
    CLI_OPTION_ROW_END,
};

static const cli_example STATS_EXAMPLES[] = {
    { "coffer stats model.safetensors", "each tensor, and all together" },
    { "coffer stats model.safetensors '*.attn.*' --histogram", "how the weights of attention are distributed" },
    { "coffer stats model.safetensors --all --fail-on nan,inf", "each tensor; is any of them broken?" },
    { "coffer stats model.safetensors -o weights.svg", "the same as a picture" },
    { NULL, NULL },
};

const cli_command cli_stats = {
    .name = "stats",
    .run = run_stats,
    .summary = "show statistics of the numbers in tensors: range, mean, deviation, NaN",
    .usage = "PATH [GLOB...]",
    .about = "Shows for each tensor, or for those whose names match a pattern (see coffer help drop), and for all\n"
             "together: the minimum, the maximum, the mean and the standard deviation (of the population, not of a\n"
             "sample), and how many numbers are NaN, infinite, zero and subnormal. The first four are of the\n"
             "finite numbers. Every dtype counts: BOOL as 0 and 1, a complex number as two numbers; integers\n"
             "beyond 2^53 are rounded to a double. Results do not depend on the number of processors.\n"
             "\n"
             "Tensors whose names differ only in their numbers, such as those of layers, share a row, unless --all\n"
             "is given. On a narrow terminal rows are shorter: zeros in percent, and NaN, infinite and subnormal\n"
             "numbers only if there are any.\n"
             "\n"
             "JSON, tensor by tensor: path, tensors [{name, dtype, count, min, max, mean, std, nan, infinite,\n"
             "zeros, subnormal}] and all, the same without name and dtype; with --histogram also histogram {low,\n"
             "high, counts}. Where no number is finite, min, max, mean and std are null. A file that\n"
             "fails has path and error.\n",
    .options = STATS_OPTIONS,
    .examples = STATS_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
