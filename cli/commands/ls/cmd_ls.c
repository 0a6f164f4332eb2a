/* SPDX-License-Identifier: Apache-2.0 */
/* coffer ls PATH: the tensors of a file, a line each; as a tree, as sums, as a map. */
#include "cli_columns.h"
#include "cli_files.h"
#include "cli_json.h"
#include "cli_nearest.h"
#include "cli_options.h"
#include "cli_partial.h"
#include "cli_quote.h"
#include "cli_report.h"
#include "cli_stored.h"
#include "cli_sums.h"
#include "cli_text.h"
#include "ls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t ls_shape_text(char text[LS_SHAPE_SIZE], const coffer_tensor *tensor)
{
    size_t len = 0;
    text[len++] = '[';
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (LS_SHAPE_SIZE - len < CLI_NUMBER_SIZE + 8) {
            memcpy(text + len, ", ...", 5); /* nobody reads so many dimensions; --json has them all */
            len += 5;
            break;
        }
        if (i > 0) {
            text[len++] = ',';
            text[len++] = ' ';
        }
        len += cli_number_text(text + len, tensor->shape[i], false);
    }
    text[len++] = ']';
    text[len] = '\0';
    return len;
}

void ls_remark_cut(cli *app, size_t shown, size_t total, const char *what)
{
    char few[CLI_NUMBER_SIZE];
    char many[CLI_NUMBER_SIZE];
    if (shown < total) {
        cli_number_text(few, shown, true);
        cli_number_text(many, total, true);
        cli_remark(app, "cut by --limit: %s of %s %s shown", few, many, what);
    }
}

/* ---- A line each ---- */

/* The name of the tensor's file, without its folder. */
static const char *file_of(const ls_selection *selection, const coffer_tensor *tensor)
{
    const char *path = coffer_shard_path(selection->model, tensor->shard);
    const char *slash = cli_last_slash(path);
    return slash == NULL ? path : slash + 1;
}

static bool has_files(const ls_selection *selection)
{
    return coffer_shard_count(selection->model) > 1;
}

/* Whether it is a file of another program, of whose tensors it is said how they lie there. */
static bool is_foreign(const ls_selection *selection)
{
    return coffer_model_import(selection->model) != NULL;
}

/* Whether there is a column of how tensors are stored, where that is not as they are. */
static bool tells_stored(const ls_selection *selection)
{
    return is_foreign(selection) || cli_is_packed(selection->model);
}

/* Bytes that a packed tensor takes in its file; 0 for a plain one. */
static uint64_t packed_size(const ls_selection *selection, const coffer_tensor *tensor)
{
    const uint64_t stored = coffer_tensor_stored_size(selection->model, tensor);
    return stored < tensor->size ? stored : 0;
}

static void put_packed(cli_columns *columns, const ls_selection *selection, const coffer_tensor *tensor)
{
    char text[CLI_NUMBER_SIZE];
    char cell[CLI_NUMBER_SIZE + 16];
    const uint64_t size = packed_size(selection, tensor);
    cli_bytes_text(text, size);
    snprintf(cell, sizeof cell, "packed %s", text);
    cli_columns_text(columns, size > 0 ? cell : "plain");
}

static void row(cli_columns *columns, const ls_selection *selection, const coffer_tensor *tensor)
{
    char stored[CLI_STORED_SIZE];
    char shape[LS_SHAPE_SIZE];
    char size[CLI_NUMBER_SIZE];
    const size_t shape_len = ls_shape_text(shape, tensor);
    const size_t size_len = cli_bytes_text(size, tensor->size);
    cli_columns_cell(columns, tensor->name, tensor->name_len);
    cli_columns_text(columns, coffer_tensor_dtype_name(tensor));
    cli_columns_cell(columns, shape, shape_len);
    cli_columns_cell(columns, size, size_len);
    if (is_foreign(selection)) {
        cli_stored_text(selection->model, tensor, stored);
        cli_columns_text(columns, stored);
    } else if (cli_is_packed(selection->model)) {
        put_packed(columns, selection, tensor);
    }
    if (!selection->all_columns) {
        return;
    }
    cli_columns_cell(columns, size, cli_number_text(size, coffer_tensor_elements(tensor), true));
    if (!is_foreign(selection)) {
        cli_columns_cell(columns, size, cli_number_text(size, tensor->offset, true));
    }
    if (has_files(selection)) {
        cli_columns_text(columns, file_of(selection, tensor));
    }
}

/* The names of the columns, where what they are cannot be seen by their contents. */
static void head(cli_columns *columns, const ls_selection *selection)
{
    static const char *const names[] = { "name", "dtype", "shape", "size", "elements", "offset", "file" };
    static const char *const more[] = { "name", "dtype", "shape", "size", "stored", "elements", "offset", "file" };
    for (size_t i = 0; i < columns->count && selection->all_columns; i++) {
        cli_columns_text(columns, (tells_stored(selection) ? more : names)[i]);
    }
}

static void text_rows(cli_output *out, const ls_selection *selection)
{
    const size_t sizes = tells_stored(selection) ? 5 : 4; /* columns up to how it is stored */
    const size_t more = is_foreign(selection) ? 1 : has_files(selection) ? 3 : 2;
    cli_columns columns = { .out = out,
                            .count = selection->all_columns ? sizes + more : sizes,
                            .measuring = true,
                            .styles = { [1] = CLI_CYAN, [3] = CLI_DIM } };
    columns.right[sizes] = true;
    columns.right[sizes + 1] = true;
    head(&columns, selection);
    for (size_t i = 0; i < selection->count; i++) {
        row(&columns, selection, coffer_at(selection->model, selection->order[i]));
    }
    cli_columns_fit(&columns);
    head(&columns, selection);
    for (size_t i = 0; i < selection->count && out->error == 0; i++) {
        row(&columns, selection, coffer_at(selection->model, selection->order[i]));
    }
}

static void json_tensor(cli_output *out, const ls_selection *selection, const coffer_tensor *tensor)
{
    cli_json_open(out, '{', false);
    cli_json_key(out, "name");
    cli_json_string_n(out, tensor->name, tensor->name_len);
    cli_json_key(out, "dtype");
    cli_json_string(out, coffer_tensor_dtype_name(tensor));
    cli_json_shape(out, tensor->shape, tensor->rank);
    cli_json_key(out, "elements");
    cli_json_number(out, coffer_tensor_elements(tensor));
    cli_json_key(out, "offset");
    if (is_foreign(selection)) {
        cli_json_null(out);
    } else {
        cli_json_number(out, tensor->offset);
    }
    cli_json_key(out, "size");
    cli_json_number(out, tensor->size);
    if (is_foreign(selection)) {
        cli_json_stored(out, selection->model, tensor);
    } else if (packed_size(selection, tensor) > 0) {
        cli_json_key(out, "packed_size");
        cli_json_number(out, packed_size(selection, tensor));
        cli_json_key(out, "packed_as");
        cli_json_string(out, "values");
    }
    if (has_files(selection)) {
        cli_json_key(out, "file");
        cli_json_string(out, file_of(selection, tensor));
    }
    cli_json_close(out, '}');
}

static void json_rows(cli_output *out, const ls_selection *selection)
{
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, selection->path);
    cli_json_key(out, "total");
    cli_json_number(out, selection->total);
    cli_json_key(out, "tensors");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < selection->count && out->error == 0; i++) {
        json_tensor(out, selection, coffer_at(selection->model, selection->order[i]));
    }
    cli_json_close(out, ']');
    cli_json_close(out, '}');
}

static void tsv_rows(cli_output *out, const ls_selection *selection)
{
    char stored[CLI_STORED_SIZE];
    const bool packed = cli_is_packed(selection->model);
    const bool files = selection->of_many || has_files(selection);
    if (!selection->continued) {
        cli_put_text(out, selection->of_many ? "path\t" : "");
        cli_put_text(out, "name\tdtype\tshape\telements\toffset\tsize");
        cli_put_text(out, tells_stored(selection) ? "\tstored" : "");
        cli_put_text(out, files ? "\tfile\n" : "\n");
    }
    for (size_t i = 0; i < selection->count && out->error == 0; i++) {
        const coffer_tensor *tensor = coffer_at(selection->model, selection->order[i]);
        if (selection->of_many) {
            cli_tsv_text(out, selection->path);
        }
        cli_tsv_text_n(out, tensor->name, tensor->name_len);
        cli_tsv_text(out, coffer_tensor_dtype_name(tensor));
        cli_tsv_shape(out, tensor->shape, tensor->rank);
        cli_tsv_number(out, coffer_tensor_elements(tensor));
        if (is_foreign(selection)) {
            cli_tsv_text(out, "");
        } else {
            cli_tsv_number(out, tensor->offset);
        }
        cli_tsv_number(out, tensor->size);
        if (is_foreign(selection)) {
            cli_stored_text(selection->model, tensor, stored);
            cli_tsv_text(out, stored);
        } else if (packed) {
            cli_tsv_number(out, coffer_tensor_stored_size(selection->model, tensor));
        }
        if (files) {
            cli_tsv_text(out, file_of(selection, tensor));
        }
        cli_tsv_finish(out);
    }
}

void ls_show_rows(cli *app, const ls_selection *selection)
{
    if (app->json) {
        json_rows(&app->out, selection);
    } else if (app->tsv) {
        tsv_rows(&app->out, selection);
    } else {
        text_rows(&app->out, selection);
    }
    ls_remark_cut(app, selection->count, selection->total, "tensors");
}

/* ---- Sums ---- */

static void tsv_dtypes(cli_output *out, const cli_sums *sums)
{
    cli_put_text(out, "dtype\ttensors\tparameters\tbytes\n");
    for (size_t i = 0; i < sums->share_count; i++) {
        cli_tsv_text(out, coffer_dtype_name(sums->shares[i].dtype));
        cli_tsv_number(out, sums->shares[i].tensors);
        cli_tsv_number(out, sums->shares[i].elements);
        cli_tsv_number(out, sums->shares[i].bytes);
        cli_tsv_finish(out);
    }
}

static void show_dtypes(cli *app, const ls_selection *selection)
{
    cli_output *out = &app->out;
    cli_sums sums = { .share_count = 0 };
    for (size_t i = 0; i < selection->count; i++) {
        cli_sums_add(&sums, coffer_at(selection->model, selection->order[i]));
    }
    cli_sums_finish(&sums);
    if (app->json) {
        cli_json_open(out, '{', true);
        cli_json_key(out, "path");
        cli_json_string(out, selection->path);
        cli_json_dtypes(out, &sums);
        cli_json_close(out, '}');
    } else if (app->tsv) {
        tsv_dtypes(out, &sums);
    } else {
        cli_sums_show(out, &sums, NULL, 0);
    }
}

/* ---- The command ---- */

static void head_path(cli_output *out, const ls_selection *selection)
{
    cli_put_text(out, selection->continued ? "\n" : "");
    cli_put_style(out, CLI_BOLD);
    cli_put_escaped(out, selection->path, strlen(selection->path), 0);
    cli_put_style(out, CLI_PLAIN);
    cli_put_text(out, ":\n");
}

static int show(cli *app, const cli_arguments *arguments, const ls_selection *selection, size_t limit)
{
    if (selection->of_many && !app->json && !app->tsv) {
        head_path(&app->out, selection);
    }
    if (cli_given(arguments, CLI_OPTION_TREE)) {
        return ls_show_tree(app, selection, limit);
    }
    if (cli_given(arguments, CLI_OPTION_MAP) && has_files(selection)) {
        return cli_usage_error(app, "a map shows one file, and this model has %zu: name one of them",
                               coffer_shard_count(selection->model));
    }
    if (cli_given(arguments, CLI_OPTION_MAP) && is_foreign(selection)) {
        return cli_usage_error(app, "a map shows a file of tensors: convert this one first, with coffer convert");
    }
    if (cli_given(arguments, CLI_OPTION_MAP)) {
        return ls_show_map(app, selection);
    }
    if (cli_given(arguments, CLI_OPTION_DTYPES)) {
        show_dtypes(app, selection);
    } else {
        ls_show_rows(app, selection);
    }
    return CLI_EXIT_OK;
}

/* A pattern of whole names is not what everybody expects. */
static void remark_no_match(cli *app, const char *path, const cli_filter *filter)
{
    char shown[256];
    char pattern[128];
    char word[8 * sizeof pattern];
    if (filter->taking == 0) {
        cli_remark_path(app, path, "--filter leaves out all tensors");
        return;
    }
    const char *last = filter->patterns[filter->taking - 1];
    coffer_escape(last, strlen(last), shown, sizeof shown);
    const int len = snprintf(pattern, sizeof pattern, "*%s*", last);
    if (!cli_is_pattern(last) && (size_t)len < sizeof pattern) {
        cli_quote(pattern, (size_t)len, word, sizeof word);
        cli_remark_path(app, path, "no tensor is named \"%s\"; for names that contain it: --filter %s", shown, word);
    } else {
        cli_remark_path(app, path, "no tensor's name matches \"%s\"", shown);
    }
}

/* What is the same for every path. */
typedef struct listing {
    const cli_arguments *arguments;
    cli_filter filter;
    size_t limit;
} listing;

static int list(cli *app, const char *path, const listing *all)
{
    const cli_arguments *arguments = all->arguments;
    int code = CLI_EXIT_OK;
    ls_selection selection = { .path = path, .of_many = arguments->name_count > 1 };
    selection.continued = path != arguments->names[0];
    coffer *model = cli_open_partial(app, path, cli_given(arguments, CLI_OPTION_PARTIAL), &code);
    if (model == NULL) {
        return code;
    }
    /* Where lines are not tensors, the limit is on lines. */
    const bool lines = cli_given(arguments, CLI_OPTION_TREE);
    selection.model = model;
    selection.all_columns = cli_given(arguments, CLI_OPTION_LONG);
    if (!ls_select(&selection, arguments, &all->filter, lines ? SIZE_MAX : all->limit)) {
        code = cli_fail_memory(app, path);
    } else {
        code = show(app, arguments, &selection, all->limit);
        if (selection.total == 0 && all->filter.count > 0 && coffer_count(model) > 0) {
            remark_no_match(app, path, &all->filter);
        }
        cli_stored_remark(app, path, model);
        code = cli_worse(code, cli_report_whole(app, path, model));
    }
    free(selection.order);
    coffer_close(model);
    return code;
}

/* Of several paths each is headed by its name, and JSON is an array. */
static int list_each(cli *app, const listing *all)
{
    const cli_arguments *arguments = all->arguments;
    const bool many = arguments->name_count > 1;
    int code = CLI_EXIT_OK;
    if (many && app->json) {
        cli_json_open(&app->out, '[', true);
    }
    for (size_t i = 0; i < arguments->name_count; i++) {
        code = cli_worse(code, list(app, arguments->names[i], all));
    }
    if (many && app->json) {
        cli_json_close(&app->out, ']');
    }
    return code;
}

static int run_ls(cli *app, const cli_arguments *arguments)
{
    const char *limit_text = cli_value(arguments, CLI_OPTION_LIMIT);
    const bool tree = cli_given(arguments, CLI_OPTION_TREE);
    const bool map = cli_given(arguments, CLI_OPTION_MAP);
    const bool dtypes = cli_given(arguments, CLI_OPTION_DTYPES);
    size_t limit = SIZE_MAX;
    if (tree + map + dtypes > 1) {
        return cli_usage_error(app, "--tree, --map and --dtypes exclude each other");
    }
    if ((tree || map || dtypes) && cli_given(arguments, CLI_OPTION_SORT)) {
        return cli_usage_error(app, "--sort is only for the list; --tree, --map and --dtypes have their own order");
    }
    if ((tree || map || dtypes) && cli_given(arguments, CLI_OPTION_LONG)) {
        return cli_usage_error(app, "--long is only for the list");
    }
    if ((map || dtypes) && limit_text != NULL) {
        return cli_usage_error(app, "--limit is only for the list and --tree");
    }
    if ((tree || map || dtypes) && app->tsv && arguments->name_count > 1) {
        return cli_usage_error(app, "of --tree, --map and --dtypes, --tsv is for one path");
    }
    if (map && cli_given(arguments, CLI_OPTION_PARTIAL)) {
        return cli_usage_error(app, "a map shows a whole file: --map and --partial exclude each other");
    }
    if (limit_text != NULL && !cli_read_count(limit_text, &limit)) {
        return cli_usage_error(app, "--limit needs a number");
    }
    listing all = { .arguments = arguments, .limit = limit };
    const int code =
        cli_filter_init(&all.filter, app, arguments, SIZE_MAX) ? list_each(app, &all) : CLI_EXIT_UNREADABLE;
    cli_filter_free(&all.filter);
    return code;
}

static const cli_option LS_OPTIONS[] = {
    { CLI_OPTION_LONG, 'l', "long", NULL, "also how many elements, where in the file, and which file", NULL },
    { CLI_OPTION_TREE, 't', "tree", NULL, "a tree of names, with equal layers folded into one: layers.#", NULL },
    { CLI_OPTION_DTYPES, 0, "dtypes", NULL, "sums by dtype", NULL },
    { CLI_OPTION_MAP, 0, "map", NULL, "where in the file the header and the largest tensors are", NULL },
    CLI_OPTION_ROW_FILTER("only names that match; !GLOB leaves out; repeatable"),
    { CLI_OPTION_SORT, 0, "sort", "ORDER", "name, offset (the default) or size, the largest first",
      "name|offset|size" },
    { CLI_OPTION_LIMIT, 0, "limit", "N", "at most N lines", NULL },
    CLI_OPTION_ROW_PARTIAL,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_TSV,
    CLI_OPTION_ROW_END,
};

static const cli_example LS_EXAMPLES[] = {
    { "coffer ls model.safetensors", "all tensors, in the order of the file" },
    { "coffer ls --tree model.safetensors", "the model's structure, layers folded" },
    { "coffer ls --sort size --limit 10 model.safetensors", "the ten largest" },
    { "coffer ls a.safetensors b.safetensors", "those of two files" },
    { "coffer ls --filter '*.attn.*' --dtypes model.safetensors", "the size of attention, by dtype" },
    { NULL, NULL },
};

const cli_command cli_ls = {
    .name = "ls",
    .run = run_ls,
    .summary = "list the tensors of a file: name, dtype, shape, size",
    .usage = "PATH...",
    .about = "Lists a file's tensors, a line each; - is standard input. Of several paths each has its name above\n"
             "its tensors; with --tsv it is the first column, and JSON is an array. Control characters in names\n"
             "are shown as \\x1b, and on a narrow terminal long names are shortened in the middle. A GLOB matches\n"
             "whole names: * is any text, ? one character, [a-z] one of a set. --sort name is natural: layer 2\n"
             "comes before layer 10.\n"
             "\n"
             "--tree folds the numbers in names where shapes and dtypes agree: \"q_proj × 80\" below \"layers.#\"\n"
             "are 80 tensors. Where they do not agree, it says which numbers a line stands for.\n",
    .options = LS_OPTIONS,
    .examples = LS_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
