/* SPDX-License-Identifier: Apache-2.0 */
/* coffer plan PATH: what each rank of a load would read, without reading it. */
#include "cli_columns.h"
#include "cli_files.h"
#include "cli_json.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_text.h"
#include "load_engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_RANKS_MAX 65536

/* The command line, understood. The rules point into the patterns, which live as long as they do. */
typedef struct plan_request {
    const char *path;
    coffer *model;
    size_t world; /* 1 to PLAN_RANKS_MAX */
    size_t rank;  /* the only one that is asked for; `world`: all */
    coffer_split_rule *rules;
    char **patterns; /* of the rules, to be freed */
    size_t rule_count;
} plan_request;

/* ---- The command line ---- */

/* GLOB=DIM, or GLOB=whole. `pattern` has space for all of the text. The last equals sign counts, since a name may have
   some, and a number has none. No tensor has more than 64 dimensions. */
static bool read_rule(const char *text, char *pattern, coffer_split_rule *rule)
{
    const char *equals = strrchr(text, '=');
    size_t dim = 0;
    if (equals == NULL || equals == text) {
        return false;
    }
    memcpy(pattern, text, (size_t)(equals - text));
    pattern[equals - text] = '\0';
    *rule = (coffer_split_rule){ .pattern = pattern, .dim = -1 };
    if (strcmp(equals + 1, "whole") == 0) {
        return true;
    }
    if (!cli_read_count(equals + 1, &dim) || dim > 63) {
        return false;
    }
    rule->dim = (int32_t)dim;
    return true;
}

/* The pattern is counted also when it is refused, so that it is freed with the others. What is shown was typed by
   somebody and may have any bytes. */
static int add_rule(cli *app, plan_request *request, const char *text)
{
    char *pattern = malloc(strlen(text) + 1);
    if (pattern == NULL) {
        return cli_fail_memory(app, request->path);
    }
    request->patterns[request->rule_count] = pattern;
    if (!read_rule(text, pattern, &request->rules[request->rule_count++])) {
        char shown[160];
        coffer_escape(text, strlen(text), shown, sizeof shown);
        return cli_usage_error(app, "\"%s\" is not a rule; --split needs GLOB=DIMENSION or GLOB=whole", shown);
    }
    return CLI_EXIT_OK;
}

/* There is space for every option of the line, which is more than enough, and one more, as an allocation of nothing
   may be NULL. */
static int read_rules(cli *app, const cli_arguments *arguments, plan_request *request)
{
    int code = CLI_EXIT_OK;
    request->rules = calloc(arguments->choice_count + 1, sizeof *request->rules);
    request->patterns = calloc(arguments->choice_count + 1, sizeof *request->patterns);
    if (request->rules == NULL || request->patterns == NULL) {
        return cli_fail_memory(app, request->path);
    }
    for (size_t c = 0; c < arguments->choice_count && code == CLI_EXIT_OK; c++) {
        if (arguments->choices[c].option->id == CLI_OPTION_SPLIT) {
            code = add_rule(app, request, arguments->choices[c].value);
        }
    }
    return code;
}

/* Without a number every rank is meant, which the number of ranks itself stands for: no rank has it. */
static int read_ranks(cli *app, const cli_arguments *arguments, plan_request *request)
{
    const char *world = cli_value(arguments, CLI_OPTION_TP);
    const char *rank = cli_value(arguments, CLI_OPTION_RANK);
    size_t count = 1;
    if (world != NULL && (!cli_read_count(world, &count) || count == 0 || count > PLAN_RANKS_MAX)) {
        return cli_usage_error(app, "--tp needs a number of ranks, from 1 to %d", PLAN_RANKS_MAX);
    }
    size_t number = count;
    if (rank != NULL && (!cli_read_count(rank, &number) || number >= count)) {
        return cli_usage_error(app, "--rank needs a number below that of --tp, which is %zu", count);
    }
    request->world = count;
    request->rank = number;
    return CLI_EXIT_OK;
}

static bool matches_any(const char *pattern, const coffer *model)
{
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        if (coffer_match(pattern, tensor->name, tensor->name_len)) {
            return true;
        }
    }
    return false;
}

/* A rule that was mistyped splits nothing, and the plan alone would not show why. */
static void remark_rules(cli *app, const cli_arguments *arguments, const plan_request *request)
{
    size_t rule = 0;
    for (size_t c = 0; c < arguments->choice_count; c++) {
        const cli_choice *choice = &arguments->choices[c];
        if (choice->option->id == CLI_OPTION_SPLIT && !matches_any(request->patterns[rule++], request->model)) {
            char shown[160];
            coffer_escape(choice->value, strlen(choice->value), shown, sizeof shown);
            cli_remark_path(app, request->path, "no tensor matches --split %s", shown);
        }
    }
}

/* ---- The plans ---- */

/* A plan without rules of the user's follows the names of the weights, which NULL stands for. */
static int make_plan(cli *app, const plan_request *request, uint32_t rank, coffer_plan **plan)
{
    coffer_error err;
    coffer_status status = coffer_plan_new(plan, request->model, NULL, &err);
    if (status == COFFER_OK) {
        const coffer_split_rule *rules = request->rule_count > 0 ? request->rules : NULL;
        status = coffer_plan_add_all(*plan, rules, request->rule_count, rank, (uint32_t)request->world, NULL, &err);
    }
    if (status != COFFER_OK) {
        coffer_plan_free(*plan);
        *plan = NULL;
        return cli_fail(app, request->path, &err);
    }
    return CLI_EXIT_OK;
}

/* A line of costs: of a rank, or of one of its files. The label is the caller's and outlives the line. */
typedef struct plan_line {
    const char *label;
    coffer_plan_cost cost;
    uint32_t engines;
} plan_line;

static void number_cell(cli_columns *columns, uint64_t number, bool bytes)
{
    char text[CLI_NUMBER_SIZE];
    if (bytes) {
        cli_bytes_text(text, number);
    } else {
        cli_number_text(text, number, true);
    }
    cli_columns_text(columns, text);
}

/* Where nothing is needed nothing is read too much: the ratio is 1, and not a division by zero. */
static void show_line(cli_columns *columns, const plan_line *line)
{
    char ratio[CLI_NUMBER_SIZE];
    char engines[LOAD_ENGINES_SIZE];
    const coffer_plan_cost *cost = &line->cost;
    snprintf(ratio, sizeof ratio, "%.3f", cost->needed > 0 ? (double)cost->read / (double)cost->needed : 1.0);
    cli_columns_text(columns, line->label);
    number_cell(columns, cost->items, false);
    number_cell(columns, cost->needed, true);
    number_cell(columns, cost->read, true);
    cli_columns_text(columns, ratio);
    number_cell(columns, cost->requests, false);
    load_engines_text(engines, line->engines);
    cli_columns_text(columns, engines[0] != '\0' ? engines : "none");
}

static void show_lines(cli_columns *columns, const char *first, const plan_line *lines, size_t count)
{
    static const char *const heads[] = { "tensors", "needed", "read", "ratio", "requests", "engine" };
    cli_columns_text(columns, first);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        cli_columns_text(columns, heads[i]);
    }
    for (size_t i = 0; i < count; i++) {
        show_line(columns, &lines[i]);
    }
}

/* The lines go through the columns twice, once to measure them and once to be written, so the text need not be
   kept. */
static void show_table(cli *app, const char *first, const plan_line *lines, size_t count)
{
    cli_columns columns = { .out = &app->out, .count = 7, .measuring = true };
    for (size_t i = 1; i + 1 < columns.count; i++) {
        columns.right[i] = true;
    }
    show_lines(&columns, first, lines, count);
    cli_columns_fit(&columns);
    show_lines(&columns, first, lines, count);
}

static void json_line(cli_output *out, const plan_line *line)
{
    const coffer_plan_cost *cost = &line->cost;
    cli_json_key(out, "tensors");
    cli_json_number(out, cost->items);
    cli_json_key(out, "needed");
    cli_json_number(out, cost->needed);
    cli_json_key(out, "read");
    cli_json_number(out, cost->read);
    cli_json_key(out, "requests");
    cli_json_number(out, cost->requests);
    load_engines_json(out, line->engines);
}

/* SIZE_MAX instead of a file means all of them. */
static coffer_status fill_line(const coffer_plan *plan, size_t shard, plan_line *line, coffer_error *err)
{
    line->cost = (coffer_plan_cost){ .struct_size = sizeof line->cost };
    const coffer_status status = coffer_plan_cost_of(plan, shard, &line->cost, err);
    return status != COFFER_OK ? status : coffer_plan_engines_of(plan, shard, &line->engines, err);
}

/* ---- All ranks ---- */

/* One plan exists at a time: those of 65,536 ranks might not fit in memory. Costs alone are kept of each. */
static int fill_ranks(cli *app, const plan_request *request, plan_line *lines, char (*labels)[CLI_NUMBER_SIZE])
{
    for (uint32_t rank = 0; rank < request->world; rank++) {
        coffer_plan *plan = NULL;
        coffer_error err;
        const int code = make_plan(app, request, rank, &plan);
        if (code != CLI_EXIT_OK) {
            return code;
        }
        cli_number_text(labels[rank], rank, false);
        lines[rank].label = labels[rank];
        const coffer_status status = fill_line(plan, SIZE_MAX, &lines[rank], &err);
        coffer_plan_free(plan);
        if (status != COFFER_OK) {
            return cli_fail(app, request->path, &err);
        }
    }
    return CLI_EXIT_OK;
}

static void json_ranks(cli *app, const plan_request *request, const plan_line *lines)
{
    cli_output *out = &app->out;
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, request->path);
    cli_json_key(out, "ranks");
    cli_json_open(out, '[', true);
    for (uint32_t rank = 0; rank < request->world; rank++) {
        cli_json_open(out, '{', false);
        cli_json_key(out, "rank");
        cli_json_number(out, rank);
        json_line(out, &lines[rank]);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
    cli_json_close(out, '}');
}

/* Everything is computed before anything is written, so that a failure leaves no half table or JSON behind. */
static int show_ranks(cli *app, const plan_request *request)
{
    plan_line *lines = calloc(request->world, sizeof *lines);
    char(*labels)[CLI_NUMBER_SIZE] = calloc(request->world, sizeof *labels);
    int code = CLI_EXIT_OK;
    if (lines == NULL || labels == NULL) {
        code = cli_fail_memory(app, request->path);
        goto done;
    }
    code = fill_ranks(app, request, lines, labels);
    if (code == CLI_EXIT_OK && app->json) {
        json_ranks(app, request, lines);
    } else if (code == CLI_EXIT_OK) {
        show_table(app, "rank", lines, request->world);
    }
done:
    free(lines);
    free(labels);
    return code;
}

/* ---- One rank ---- */

static void json_items(cli_output *out, const coffer_plan *plan)
{
    cli_json_key(out, "items");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < coffer_plan_count(plan); i++) {
        coffer_plan_item item;
        (void)coffer_plan_at(plan, i, &item);
        cli_json_open(out, '{', false);
        cli_json_key(out, "name");
        cli_json_string_n(out, item.tensor->name, item.tensor->name_len);
        cli_json_key(out, "dtype");
        cli_json_string(out, coffer_tensor_dtype_name(item.tensor));
        cli_json_shape(out, item.shape, item.rank);
        cli_json_key(out, "size");
        cli_json_number(out, item.size);
        cli_json_key(out, "whole");
        cli_json_bool(out, item.whole);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
}

/* The line after the last file's is that of all files; its numbers are those of the rank. */
static void json_rank(cli *app, const plan_request *request, const coffer_plan *plan, const plan_line *lines,
                      size_t shards)
{
    cli_output *out = &app->out;
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, request->path);
    cli_json_key(out, "rank");
    cli_json_number(out, request->rank);
    json_line(out, &lines[shards]);
    cli_json_key(out, "files");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < shards; i++) {
        cli_json_open(out, '{', false);
        cli_json_key(out, "file");
        cli_json_string(out, lines[i].label);
        json_line(out, &lines[i]);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
    json_items(out, plan);
    cli_json_close(out, '}');
}

/* A line for each file of the model, and one for all of them. The labels belong to the model, which stays open as
   long as the lines are used. */
static coffer_status fill_files(const plan_request *request, const coffer_plan *plan, plan_line *lines,
                                coffer_error *err)
{
    const size_t shards = coffer_shard_count(request->model);
    for (size_t i = 0; i < shards; i++) {
        const coffer_status status = fill_line(plan, i, &lines[i], err);
        if (status != COFFER_OK) {
            return status;
        }
        lines[i].label = coffer_shard_path(request->model, i);
    }
    lines[shards].label = "all";
    return fill_line(plan, SIZE_MAX, &lines[shards], err);
}

/* One line more than there are files, which also keeps the allocation from being empty. */
static int show_rank(cli *app, const plan_request *request)
{
    const size_t shards = coffer_shard_count(request->model);
    coffer_plan *plan = NULL;
    coffer_error err;
    int code = make_plan(app, request, (uint32_t)request->rank, &plan);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    plan_line *lines = calloc(shards + 1, sizeof *lines);
    if (lines == NULL) {
        code = cli_fail_memory(app, request->path);
    } else if (fill_files(request, plan, lines, &err) != COFFER_OK) {
        code = cli_fail(app, request->path, &err);
    } else if (app->json) {
        json_rank(app, request, plan, lines, shards);
    } else {
        show_table(app, "file", lines, shards + 1);
    }
    free(lines);
    coffer_plan_free(plan);
    return code;
}

/* ---- The command ---- */

/* Whatever was made is freed at the end on every way, since all of it begins as zeros. */
static int run_plan(cli *app, const cli_arguments *arguments)
{
    plan_request request = { .path = arguments->names[0], .world = 1 };
    int code = read_ranks(app, arguments, &request);
    if (code == CLI_EXIT_OK) {
        code = read_rules(app, arguments, &request);
    }
    if (code == CLI_EXIT_OK) {
        request.model = cli_open_to_load(app, request.path, &code);
    }
    if (code == CLI_EXIT_OK) {
        remark_rules(app, arguments, &request);
        code = request.rank < request.world ? show_rank(app, &request) : show_ranks(app, &request);
    }
    for (size_t i = 0; i < request.rule_count; i++) {
        free(request.patterns[i]);
    }
    free(request.patterns);
    free(request.rules);
    coffer_close(request.model);
    return code;
}

static const cli_option PLAN_OPTIONS[] = {
    { CLI_OPTION_TP, 0, "tp", "N", "split the model among N ranks; default: 1", NULL },
    { CLI_OPTION_RANK, 0, "rank", "R", "only rank R, file by file", NULL },
    { CLI_OPTION_SPLIT, 0, "split", "GLOB=DIM", "split matching tensors along DIM, or not at all: GLOB=whole", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example PLAN_EXAMPLES[] = {
    { "coffer plan model/ --tp 8", "what would each of 8 ranks read?" },
    { "coffer plan model/ --tp 8 --rank 3 --json", "file by file and tensor by tensor, for programs" },
    { "coffer plan model.safetensors --tp 2 --split 'h.*.weight=1'", "a rule of one's own" },
    { NULL, NULL },
};

const cli_command cli_plan = {
    .name = "plan",
    .run = run_plan,
    .summary = "show what each rank of a load would read, without reading it",
    .usage = "PATH",
    .about = "Plans the load of a model that N ranks share, and shows for each rank: its tensors, the bytes that\n"
             "it needs, the bytes that are read for them, in how many requests, and by which engine a load would\n"
             "read now. Only headers are read. Which dimension is split follows from the names of the weights, for\n"
             "the usual transformers; --split replaces those rules, and of several the first whose GLOB matches is\n"
             "used (see coffer help drop for patterns). A tensor that no rule matches, or that cannot be split\n"
             "evenly, is whole on every rank. PATH is a file, an index, a folder or a URL.\n"
             "\n"
             "JSON: {path, ranks: [{rank, tensors, needed, read, requests, engines}]}; with --rank {path, rank,\n"
             "tensors, needed, read, requests, engines, files: [the same with file], items: [{name, dtype, shape,\n"
             "size, whole}]}.\n",
    .options = PLAN_OPTIONS,
    .examples = PLAN_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
