/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer load PATH: loads a model as a program would, and says how fast that was, beside what this machine can do, and
 * what was the limit. Nothing is kept: each tensor is released when it is there.
 */
#include "cli_files.h"
#include "cli_host.h"
#include "cli_interrupt.h"
#include "cli_json.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"
#include "load_engines.h"
#include "load_floor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LOAD_WAIT_MS 100                /* how often Ctrl-C is looked for */
#define LOAD_BUDGET ((uint64_t)1 << 30) /* bytes that wait to be taken; more for a larger tensor */
#define LOAD_LIMIT_SHARE 0.5            /* of the threads' time: who waits that long waits for the limit */
#define LABEL_WIDTH 14

/* What was found out. All numbers are collected first and shown in the end, so that the text and the JSON say the
   same. */
typedef struct load_report {
    const char *path;
    const char *device;
    bool cold;     /* it was asked to begin with nothing cached */
    bool verified; /* every tensor was */
    uint64_t tensors;
    coffer_load_stats stats;
    double cpu;    /* seconds of processors */
    uint64_t peak; /* KiB of memory, at most */
    double floor;  /* bytes a second; 0: not known */
    bool disk;     /* the floor is the disk's, else that of the page cache */
} load_report;

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* A budget below the largest tensor could never hold it. */
static uint64_t largest_item(const coffer_plan *plan)
{
    uint64_t largest = 0;
    coffer_plan_item item;
    for (size_t i = 0; coffer_plan_at(plan, i, &item); i++) {
        largest = item.size > largest ? item.size : largest;
    }
    return largest;
}

/* Takes what is ready until there is nothing left. The wait has a limit, so that Ctrl-C is noticed while nothing
   comes. A load that was cancelled still ends by its own answer, which is a failure or the last tensor: then nothing
   of it is in progress any more. Memory is freed at once, or the budget would fill and the load would wait for this
   thread. */
static coffer_status take_all(coffer_load *load, load_report *report, cli_progress *progress, coffer_error *err)
{
    coffer_loaded loaded;
    for (;;) {
        const coffer_status status = coffer_load_next(load, LOAD_WAIT_MS, &loaded, err);
        if (cli_interrupted()) {
            coffer_load_cancel(load);
        }
        if (status == COFFER_NEED_MORE) {
            continue;
        }
        if (status != COFFER_OK || loaded.item == SIZE_MAX) {
            return status;
        }
        report->tensors++;
        report->verified = report->verified && loaded.verified;
        coffer_memory_free(loaded.memory);
        (void)cli_progress_add(progress, loaded.size);
    }
}

/* The statistics are asked twice: before, to know how much progress will be, and after, for the result. Processors
   are counted as a difference, because opening the model has used some already. */
static coffer_status run_load_of(cli *app, const coffer_plan *plan, coffer_staging *staging, load_report *report,
                                 coffer_error *err)
{
    coffer_load *load = NULL;
    coffer_load_options options = COFFER_LOAD_OPTIONS_INIT;
    const uint64_t largest = largest_item(plan);
    options.host_budget = options.device_budget = largest > LOAD_BUDGET ? largest : LOAD_BUDGET;
    const double before = cli_host_processor_seconds();
    coffer_status status = coffer_load_start(&load, plan, staging, &options, err);
    if (status != COFFER_OK) {
        return status;
    }
    cli_progress progress;
    report->stats = (coffer_load_stats){ .struct_size = sizeof report->stats };
    coffer_load_stats_of(load, &report->stats);
    cli_progress_begin(&progress, app, "loading", report->stats.wanted);
    /* Until a tensor comes that was not. */
    report->verified = true;
    status = take_all(load, report, &progress, err);
    cli_progress_finish(&progress);
    coffer_load_stats_of(load, &report->stats);
    coffer_load_free(load);
    report->cpu = cli_host_processor_seconds() - before;
    return status;
}

/* The staging buffer comes first, because it is what may be refused for an engine that this machine does not have. */
static coffer_status load_to(cli *app, const coffer *model, coffer_device *device, coffer_engine engine,
                             load_report *report, coffer_error *err)
{
    coffer_plan *plan = NULL;
    coffer_staging *staging = NULL;
    coffer_staging_options options = COFFER_STAGING_OPTIONS_INIT;
    options.engine = engine;
    coffer_status status = coffer_staging_new(&staging, &options, err);
    if (status == COFFER_OK) {
        status = coffer_plan_new(&plan, model, NULL, err);
    }
    if (status == COFFER_OK) {
        status = coffer_plan_add_all(plan, NULL, 0, 0, 1, device, err);
    }
    if (status == COFFER_OK) {
        status = run_load_of(app, plan, staging, report, err);
    }
    coffer_plan_free(plan);
    coffer_staging_free(staging);
    return status;
}

/* ---- Telling ----------------------------------------------------------------------------------------------------- */

static double seconds_of(uint64_t nanoseconds)
{
    return 1e-9 * (double)nanoseconds;
}

static double rate_of(const coffer_load_stats *stats)
{
    return stats->nanoseconds > 0 ? (double)stats->wanted / seconds_of(stats->nanoseconds) : 0;
}

/* The threads' time is that of the load times their number: each waits by itself. */
static double share_of(uint64_t waited, const coffer_load_stats *stats)
{
    const double all = (double)stats->nanoseconds * (stats->threads > 0 ? stats->threads : 1);
    return all > 0 ? (double)waited / all : 0;
}

/* Who kept the others waiting. The order is from the end of the way to its beginning: who waits at the end keeps all
   before it waiting, so that their times say nothing more. Who waits for bytes of the page cache waits for memory,
   not for a disk. */
static const char *limit_of(const coffer_load_stats *stats)
{
    if (share_of(stats->waited_device, stats) > LOAD_LIMIT_SHARE) {
        return "device";
    }
    if (share_of(stats->waited_caller, stats) > LOAD_LIMIT_SHARE) {
        return "caller";
    }
    if (share_of(stats->waited_source, stats) > LOAD_LIMIT_SHARE) {
        return stats->cached > stats->read / 2 ? "memory" : "source";
    }
    return "processors";
}

/* The names are those of limit_of alone, so the loop finds each. */
static const char *words_of_limit(const char *limit)
{
    static const char *const words[][2] = {
        { "device", "copying to the device" },       { "caller", "the program that takes the tensors" },
        { "memory", "copying from the page cache" }, { "source", "the disk or network: threads waited for bytes" },
        { "processors", "the processors" },
    };
    size_t i = 0;
    while (strcmp(words[i][0], limit) != 0) {
        i++;
    }
    return words[i][1];
}

/* Labels are shorter than their column, and no text here comes from a file, so that it needs no escapes. */
__attribute__((format(printf, 3, 4))) static void show_line(cli_output *out, const char *label, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_put_styled(out, CLI_DIM, label);
    cli_put_repeat(out, ' ', LABEL_WIDTH - strlen(label));
    cli_put_text(out, text);
    cli_put_char(out, '\n');
}

static bool is_mapped(const coffer_load_stats *stats)
{
    return (stats->engines >> COFFER_ENGINE_MAPPED & 1) != 0;
}

/* The floor is what plain reads reach with nothing else to do, so the share says how much of the machine the load has
   used. */
static void show_rates(cli_output *out, const load_report *report)
{
    char rate[CLI_NUMBER_SIZE];
    char floor[CLI_NUMBER_SIZE];
    cli_bytes_text(rate, (uint64_t)rate_of(&report->stats));
    show_line(out, "rate", "%s/s", rate);
    if (report->floor > 0) {
        cli_bytes_text(floor, (uint64_t)report->floor);
        const char *of = report->disk ? "disk" : "page cache";
        if (!report->disk && is_mapped(&report->stats)) {
            show_line(out, of, "%s/s by reads alone; the load copies nothing", floor);
        } else {
            show_line(out, of, "%s/s by reads alone; the load had %.0f %% of it", floor,
                      100 * rate_of(&report->stats) / report->floor);
        }
    }
}

/* What a model cache server has is read by no engine. */
static bool is_kept(const coffer_load_stats *stats)
{
    return stats->read > 0 && stats->engines == 0;
}

/* Little is read without looking whether it was in the page cache. */
static void show_read(cli_output *out, const coffer_load_stats *stats)
{
    char bytes[CLI_NUMBER_SIZE];
    char cached[64] = "";
    char engines[LOAD_ENGINES_SIZE];
    cli_bytes_text(bytes, stats->read);
    load_engines_text(engines, stats->engines);
    if (stats->read == 0) {
        show_line(out, "read", "nothing");
        return;
    }
    if (is_kept(stats)) {
        show_line(out, "read", "%s from the memory of coffer keep", bytes);
        return;
    }
    if (stats->cached + stats->direct > 0) {
        snprintf(cached, sizeof cached, ", %.0f %% of it from the page cache",
                 100 * (double)stats->cached / (double)stats->read);
    }
    show_line(out, "read", "%s in %" PRIu64 " request%s%s; engine: %s", bytes, stats->requests,
              stats->requests == 1 ? "" : "s", cached, engines);
}

static void show_text(cli *app, const load_report *report)
{
    char tensors[CLI_NUMBER_SIZE];
    char bytes[CLI_NUMBER_SIZE];
    char time[CLI_NUMBER_SIZE];
    char first[CLI_NUMBER_SIZE];
    const coffer_load_stats *stats = &report->stats;
    cli_number_text(tensors, report->tensors, true);
    cli_bytes_text(bytes, stats->wanted);
    cli_duration_text(time, seconds_of(stats->nanoseconds));
    cli_duration_text(first, seconds_of(stats->first));
    cli_output *out = &app->out;
    show_line(out, "loaded", "%s tensor%s, %s, to %s in %s; the first after %s", tensors,
              report->tensors == 1 ? "" : "s", bytes, report->device, time, first);
    if (stats->wanted > 0) {
        show_rates(out, report);
    }
    show_read(out, stats);
    cli_bytes_text(bytes, report->peak * 1024);
    show_line(out, "cost", "%.2f processor seconds, %" PRIu32 " thread%s, %s of memory at most", report->cpu,
              stats->threads, stats->threads == 1 ? "" : "s", bytes);
    show_line(out, "limit", "%s",
              stats->wanted > 0 ? words_of_limit(limit_of(stats)) : "none: there is nothing to load");
    show_line(out, "digests", "%s",
              report->verified && report->tensors > 0 ? "all verified" : "not recorded for every tensor");
}

static void json_decimal(cli_output *out, const char *key, double value)
{
    char text[CLI_NUMBER_SIZE];
    snprintf(text, sizeof text, "%.6f", value);
    cli_json_key(out, key);
    cli_json_raw(out, text);
}

static void json_number(cli_output *out, const char *key, uint64_t value)
{
    cli_json_key(out, key);
    cli_json_number(out, value);
}

static void json_text(cli_output *out, const char *key, const char *text)
{
    cli_json_key(out, key);
    cli_json_string(out, text);
}

static void json_read(cli_output *out, const coffer_load_stats *stats)
{
    json_number(out, "read", stats->read);
    json_number(out, "cached", stats->cached);
    json_number(out, "direct", stats->direct);
    json_number(out, "requests", stats->requests);
    load_engines_json(out, stats->engines);
}

static void show_json(cli *app, const load_report *report)
{
    cli_output *out = &app->out;
    const coffer_load_stats *stats = &report->stats;
    cli_json_open(out, '{', true);
    json_text(out, "path", report->path);
    json_text(out, "device", report->device);
    json_number(out, "tensors", report->tensors);
    json_number(out, "size", stats->wanted);
    cli_json_seconds(out, seconds_of(stats->nanoseconds));
    json_decimal(out, "first_seconds", seconds_of(stats->first));
    json_read(out, stats);
    json_number(out, "threads", stats->threads);
    json_decimal(out, "processor_seconds", report->cpu);
    json_number(out, "peak_memory", report->peak * 1024);
    cli_json_key(out, "floor");
    cli_json_number(out, (uint64_t)report->floor);
    json_text(out, "floor_of", report->disk ? "disk" : "page cache");
    json_text(out, "limit", limit_of(stats));
    cli_json_key(out, "verified");
    cli_json_bool(out, report->verified && report->tensors > 0);
    cli_json_close(out, '}');
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

/* It is compared with where the bytes came from: with the disk if most of them did, or a load that the disk has
   limited would be told it had a small share of the page cache. It comes after the load, since it changes what is
   cached. */
static void measure_floor(const coffer *model, load_report *report)
{
    report->disk = report->stats.cached < report->stats.read / 2;
    report->floor = load_floor(model, report->disk);
}

/* Bytes that do not match a digest have failed the load before; what is left are tensors of which no digest was
   recorded. */
static int judge(cli *app, const cli_arguments *arguments, const coffer *model, const load_report *report)
{
    if (cli_given(arguments, CLI_OPTION_VERIFY) && report->tensors > 0 && !report->verified) {
        cli_say_path(app, report->path, "not verified: the files do not record a digest for every tensor; %s",
                     cli_is_packed(model) ? "of packed ones coffer verify compares the whole"
                                          : "coffer hash --write adds them");
        return CLI_EXIT_NOT_CONFORMING;
    }
    return CLI_EXIT_OK;
}

/* A load that may not be cold is only told, as the user may know better. The peak of memory is taken before the floor
   is measured, whose buffers would raise it. */
static int load_model(cli *app, const cli_arguments *arguments, const coffer *model, coffer_device *device,
                      load_report *report)
{
    coffer_error err;
    const int engine = cli_which(arguments, CLI_OPTION_ENGINE);
    if (report->cold && !load_evict(model)) {
        cli_say_path(app, report->path, "its files cannot be evicted from the page cache; the load may not be cold");
    }
    if (load_to(app, model, device, engine < 0 ? COFFER_ENGINE_AUTO : (coffer_engine)engine, report, &err) !=
        COFFER_OK) {
        return cli_fail(app, err.path[0] != '\0' ? err.path : report->path, &err);
    }
    report->peak = cli_host_peak_kib();
    if (report->cold && is_kept(&report->stats)) {
        cli_say_path(app, report->path, "it came from the memory of coffer keep; the load was not cold");
    }
    measure_floor(model, report);
    if (app->json) {
        show_json(app, report);
    } else {
        show_text(app, report);
    }
    return judge(app, arguments, model, report);
}

/* The device outlives the model and everything that was loaded to it; both may be NULL when they are closed. */
static int run_load(cli *app, const cli_arguments *arguments)
{
    load_report report = { .path = arguments->names[0],
                           .device = "cpu",
                           .cold = cli_given(arguments, CLI_OPTION_COLD) };
    coffer_device *device = NULL;
    coffer_error err;
    int code = CLI_EXIT_OK;
    if (cli_given(arguments, CLI_OPTION_DEVICE)) {
        report.device = cli_value(arguments, CLI_OPTION_DEVICE);
        if (coffer_device_open(&device, report.device, NULL, &err) != COFFER_OK) {
            return cli_fail(app, report.path, &err); /* the message names the device */
        }
    }
    coffer *model = cli_open_to_load(app, report.path, &code);
    if (code == CLI_EXIT_OK) {
        code = load_model(app, arguments, model, device, &report);
    }
    coffer_close(model);
    coffer_device_close(device);
    return code;
}

static const cli_option LOAD_OPTIONS[] = {
    { CLI_OPTION_DEVICE, 0, "device", "DEVICE", "cpu, cuda:N or hip:N; default: cpu. See coffer devices", NULL },
    { CLI_OPTION_ENGINE, 0, "engine", "ENGINE", "how files are read; default: auto",
      "auto|buffered|direct|ring|cufile|mapped" },
    { CLI_OPTION_COLD, 0, "cold", NULL, "evict the files from the page cache first", NULL },
    { CLI_OPTION_VERIFY, 0, "verify", NULL, "exit code 1 unless every tensor matched a recorded digest", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example LOAD_EXAMPLES[] = {
    { "coffer load model/", "how fast does it load, and what is the limit?" },
    { "coffer load model.safetensors --cold --engine direct", "from the disk, past the page cache" },
    { "coffer load model.safetensors --device cuda:0 --verify", "into a GPU, digests checked" },
    { NULL, NULL },
};

const cli_command cli_load = {
    .name = "load",
    .run = run_load,
    .summary = "load a model as programs do, and say how fast it was and what limited it",
    .usage = "PATH",
    .about = "Loads every tensor into the memory of a device, releases it again, and shows the time, the time\n"
             "until the first tensor was there, the rate, and next to it what plain reads of the same files reach\n"
             "on this machine: of the disk, or of the page cache if most bytes were there. Digests that the files\n"
             "record are checked on the way. PATH is a file, an index, a folder or a URL.\n"
             "\n"
             "JSON: path, device, tensors, size, seconds, first_seconds, read, cached, direct, requests, engines,\n"
             "threads, processor_seconds, peak_memory, floor (bytes a second; 0: not measured), floor_of, limit\n"
             "(source, memory, device, caller or processors) and verified. A load that fails has path and error.\n",
    .options = LOAD_OPTIONS,
    .examples = LOAD_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
