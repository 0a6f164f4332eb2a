/* SPDX-License-Identifier: Apache-2.0 */
/* coffer average A B... -o FILE: models of the same tensors, averaged. */
#include "cli_guard.h"
#include "cli_mismatches.h"
#include "cli_options.h"
#include "cli_output.h"
#include "cli_recorded.h"
#include "cli_report.h"
#include "cli_rewrite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The weights of a line are in one block, each rule's after those of the one before. */
typedef struct averaging {
    cli *app;
    const char *const *paths;
    const coffer **models; /* the first one is opened by the rewrite */
    coffer **opened;       /* the others, to be closed */
    size_t count;
    coffer_average_options options;
    coffer_average_rule *rules;
    double *weights;
    char *patterns;
} averaging;

/* ---- weights ---- */

/* Reads numbers with commas between them, as many as there are to be. */
static bool read_numbers(const char *text, double *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *end = NULL;
        numbers[i] = strtod(text, &end);
        if (end == text || !isfinite(numbers[i]) || *end != (i + 1 < count ? ',' : '\0')) {
            return false;
        }
        text = end + 1;
    }
    return true;
}

/* Takes "1,2" or "GLOB=1,2" apart; a pattern may have a = of its own. */
static int read_weights(averaging *run, const char *text, size_t i, size_t each)
{
    double *numbers = run->weights + i * each;
    const char *equals = strrchr(text, '=');
    if (!read_numbers(equals != NULL ? equals + 1 : text, numbers, each)) {
        return cli_usage_error(run->app,
                               each == 1 ? "--slerp needs a number from 0 to 1, or GLOB=NUMBER: 0.5, '*.mlp.*=0.3'"
                                         : "--weight needs %zu numbers, one for each model, or GLOB=NUMBERS: 1,2, "
                                           "'*.mlp.*=0.3,0.7'",
                               run->count);
    }
    if (equals == NULL) {
        run->options.weights = numbers;
        return CLI_EXIT_OK;
    }
    const size_t len = (size_t)(equals - text);
    memcpy(run->patterns, text, len);
    run->patterns[len] = '\0';
    run->rules[run->options.rule_count++] = (coffer_average_rule){ run->patterns, numbers };
    run->patterns += len + 1;
    return CLI_EXIT_OK;
}

/* All of them, with memory that the caller frees by `patterns`, which the run moves on from. */
static int read_all_weights(averaging *run, const char *const *texts, size_t count, char **patterns)
{
    const size_t each = run->options.slerp ? 1 : run->count;
    size_t capacity = 1;
    for (size_t i = 0; i < count; i++) {
        capacity += strlen(texts[i]) + 1;
    }
    run->rules = calloc(count + 1, sizeof *run->rules);
    run->weights = calloc((count + 1) * each, sizeof *run->weights);
    *patterns = calloc(capacity, 1);
    run->patterns = *patterns;
    if (run->rules == NULL || run->weights == NULL || *patterns == NULL) {
        return cli_fail_memory(run->app, run->paths[0]);
    }
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < count && code == CLI_EXIT_OK; i++) {
        code = read_weights(run, texts[i], i, each);
    }
    run->options.rules = run->rules;
    return code;
}

/* ---- telling ---- */

static coffer_status plan_average(void *ctx, coffer_rewrite **rewrite, const coffer *model,
                                  const coffer_rewrite_options *options, coffer_error *err)
{
    averaging *run = ctx;
    cli_mismatches mismatches = { .app = run->app, .paths = run->paths, .between = " " };
    coffer_average_options average = run->options;
    run->models[0] = model;
    average.misfit = cli_mismatches_tell;
    average.misfit_ctx = &mismatches;
    const coffer_status status = coffer_average_plan(rewrite, run->models, run->count, &average, options, err);
    cli_mismatches_finish(&mismatches);
    return status;
}

static void put_averaged(const void *ctx, cli_output *out, const coffer_rewrite *rewrite, size_t i)
{
    const averaging *run = ctx;
    char text[64];
    (void)rewrite;
    (void)i;
    snprintf(text, sizeof text, "averaged over %zu models%s", run->count, run->options.slerp ? ", slerp" : "");
    cli_put_text(out, text);
}

static void json_averaged(const void *ctx, cli_output *out, const coffer_rewrite *rewrite, size_t i)
{
    (void)ctx;
    (void)out;
    (void)rewrite;
    (void)i;
}

static bool same_average(const void *ctx, const coffer_rewrite *rewrite, size_t i, size_t other)
{
    (void)ctx;
    (void)rewrite;
    (void)i;
    (void)other;
    return true;
}

/* ---- the whole ---- */

static int open_others(const averaging *run, const char *output)
{
    int code = CLI_EXIT_OK;
    for (size_t i = 1; i < run->count && code == CLI_EXIT_OK; i++) {
        run->opened[i] = cli_recorded_open(run->app, run->paths[i], &code);
        run->models[i] = run->opened[i];
        if (run->opened[i] != NULL) {
            code = cli_guard_model(run->app, output, run->paths[i], run->opened[i]);
        }
    }
    return code;
}

static int average_all(averaging *run, const cli_arguments *arguments)
{
    const cli_rewrite_planner planner = {
        plan_average, run, { "average", "averaged", put_averaged, json_averaged, same_average, run }, false
    };
    size_t count = 0;
    char *patterns = NULL;
    const char **texts = cli_values_of(arguments, run->options.slerp ? CLI_OPTION_SLERP : CLI_OPTION_WEIGHT, &count);
    int code = read_all_weights(run, texts, count, &patterns);
    if (code == CLI_EXIT_OK) {
        code = open_others(run, cli_value(arguments, CLI_OPTION_OUTPUT));
    }
    if (code == CLI_EXIT_OK) {
        code = cli_rewrite_planned(run->app, arguments, &planner);
    }
    free(texts);
    free(patterns);
    return code;
}

static int check_average(cli *app, const cli_arguments *arguments)
{
    const int code = cli_rewrite_check_given(app, arguments);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (arguments->name_count > COFFER_AVERAGE_MAX_MODELS) {
        return cli_usage_error(app, "at most %d models are averaged", COFFER_AVERAGE_MAX_MODELS);
    }
    if (!cli_given(arguments, CLI_OPTION_SLERP)) {
        return CLI_EXIT_OK;
    }
    if (cli_given(arguments, CLI_OPTION_WEIGHT)) {
        return cli_usage_error(app, "--slerp and --weight exclude each other");
    }
    return arguments->name_count == 2 ? CLI_EXIT_OK : cli_usage_error(app, "--slerp is between two models");
}

static int run_average(cli *app, const cli_arguments *arguments)
{
    averaging run = { .app = app, .paths = arguments->names, .count = arguments->name_count };
    int code = check_average(app, arguments);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    run.options = (coffer_average_options)COFFER_AVERAGE_OPTIONS_INIT;
    run.options.slerp = cli_given(arguments, CLI_OPTION_SLERP);
    run.models = calloc(run.count, sizeof(coffer *));
    run.opened = calloc(run.count, sizeof(coffer *));
    code = run.models != NULL && run.opened != NULL ? average_all(&run, arguments)
                                                    : cli_fail_memory(app, arguments->names[0]);
    for (size_t i = 1; i < run.count && run.opened != NULL; i++) {
        coffer_close(run.opened[i]);
    }
    free(run.rules);
    free(run.weights);
    free(run.opened);
    free(run.models);
    return code;
}

static const cli_option AVERAGE_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "the new file; or FOLDER/, for a whole model", NULL },
    { CLI_OPTION_WEIGHT, 0, "weight", "WEIGHTS",
      "one for each model, W,W,... or of some tensors GLOB=W,W,...; repeatable", NULL },
    { CLI_OPTION_SLERP, 0, "slerp", "T", "between two models along the sphere, T or GLOB=T from 0 to 1; repeatable",
      NULL },
    CLI_OPTION_ROW_SHARD_SIZE,
    CLI_OPTION_ROW_DRY_RUN,
    CLI_OPTION_ROW_ALL_CHANGES,
    { CLI_OPTION_FORCE, 'f', "force", NULL, "overwrite FILE", NULL },
    CLI_OPTION_ROW_DIGEST,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example AVERAGE_EXAMPLES[] = {
    { "coffer average a.safetensors b.safetensors -o mean.safetensors", "the mean of two models" },
    { "coffer average a/ b/ c/ --weight 2,1,1 --weight '*.embed*=1,0,0' -o mean.safetensors",
      "a weighted mean, whose embeddings are those of the first model" },
    { "coffer average a/ b/ --slerp 0.3 -o between.safetensors", "three tenths of the way from a to b" },
    { NULL, NULL },
};

const cli_command cli_average = {
    .name = "average",
    .run = run_average,
    .summary = "average models of the same tensors",
    .usage = "A B...",
    .about = "Writes the weighted mean of models that have the same tensors, by name, dtype and shape, to FILE\n"
             "(-o), with the layout, dtypes and metadata of the first. Weights are divided by their sum. It is\n"
             "computed in F64, and rounded once. --slerp T goes from A to B on the sphere, tensor by tensor, and\n"
             "on the line between tensors that are nearly parallel. Tensors of integers and other dtypes than F16,\n"
             "BF16, F32 and F64 have to be the same in all models. Where models differ, all differences are\n"
             "listed, and nothing is written. Of several GLOBs that match a tensor the first counts, and each has\n"
             "to match one.\n"
             "\n"
             "JSON: as of coffer align; of changes [{name, change, from, to, overflowed, vanished}].\n",
    .options = AVERAGE_OPTIONS,
    .examples = AVERAGE_EXAMPLES,
    .least_names = 2,
    .most_names = SIZE_MAX,
    .takes_apart = true,
};
