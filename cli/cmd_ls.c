/* SPDX-License-Identifier: Apache-2.0 */
/* coffer ls PATH: the tensors of a file, a line each. */
#include "cli_files.h"
#include "cli_json.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdlib.h>
#include <string.h>

#define NAME_WIDTH_MOST 80 /* a longer name pushes its own line only */
#define SHAPE_WIDTH_MOST 40

typedef struct ls_widths {
    size_t name;
    size_t dtype;
    size_t shape;
} ls_widths;

typedef struct ls_size {
    uint64_t size;
    uint32_t index;
} ls_size;

static int compare_sizes(const void *left, const void *right)
{
    const ls_size *a = left;
    const ls_size *b = right;
    if (a->size != b->size) {
        return a->size > b->size ? -1 : 1;
    }
    return a->index < b->index ? -1 : a->index > b->index;
}

/* The largest first; those of one size in file order. */
static bool sort_by_size(const coffer *model, uint32_t *order)
{
    const size_t count = coffer_count(model);
    ls_size *sizes = malloc((count + 1) * sizeof *sizes);
    if (sizes == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        sizes[i].size = coffer_at(model, i)->size;
        sizes[i].index = (uint32_t)i;
    }
    qsort(sizes, count, sizeof *sizes, compare_sizes);
    for (size_t i = 0; i < count; i++) {
        order[i] = sizes[i].index;
    }
    free(sizes);
    return true;
}

/* The order in which the tensors are listed, or NULL without memory. */
static uint32_t *make_order(const coffer *model, const char *sort)
{
    const size_t count = coffer_count(model);
    uint32_t *order = calloc(count + 1, sizeof *order);
    if (order == NULL) {
        return NULL;
    }
    if (strcmp(sort, "name") == 0) {
        coffer_sort_by_name(model, order);
    } else if (strcmp(sort, "size") == 0) {
        if (!sort_by_size(model, order)) {
            free(order);
            return NULL;
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            order[i] = (uint32_t)i;
        }
    }
    return order;
}

static size_t shape_width(const coffer_tensor *tensor)
{
    char text[CLI_NUMBER_SIZE];
    size_t width = 2 + (tensor->rank > 1 ? (tensor->rank - 1) * (size_t)2 : 0);
    for (size_t i = 0; i < tensor->rank; i++) {
        width += cli_number_text(text, tensor->shape[i], false);
    }
    return width;
}

static void put_shape(cli_output *out, const coffer_tensor *tensor)
{
    cli_put_char(out, '[');
    for (size_t i = 0; i < tensor->rank; i++) {
        if (i > 0) {
            cli_put_text(out, ", ");
        }
        cli_put_number(out, tensor->shape[i]);
    }
    cli_put_char(out, ']');
}

static size_t larger_up_to(size_t a, size_t b, size_t most)
{
    return b > a && b <= most ? b : a;
}

static ls_widths measure(const coffer *model)
{
    ls_widths widths = { 0, 0, 0 };
    for (size_t i = 0; i < coffer_count(model); i++) {
        const coffer_tensor *tensor = coffer_at(model, i);
        const size_t name = cli_escaped_width(tensor->name, tensor->name_len);
        widths.name = larger_up_to(widths.name, name, NAME_WIDTH_MOST);
        widths.dtype = larger_up_to(widths.dtype, strlen(coffer_tensor_dtype_name(tensor)), NAME_WIDTH_MOST);
        widths.shape = larger_up_to(widths.shape, shape_width(tensor), SHAPE_WIDTH_MOST);
    }
    return widths;
}

static void put_padding(cli_output *out, size_t used, size_t width)
{
    cli_put_repeat(out, ' ', (used < width ? width - used : 0) + 2);
}

static void show_row(cli_output *out, const coffer_tensor *tensor, const ls_widths *widths)
{
    const char *dtype = coffer_tensor_dtype_name(tensor);
    cli_put_escaped(out, tensor->name, tensor->name_len, 0);
    put_padding(out, cli_escaped_width(tensor->name, tensor->name_len), widths->name);
    cli_put_text(out, dtype);
    put_padding(out, strlen(dtype), widths->dtype);
    put_shape(out, tensor);
    put_padding(out, shape_width(tensor), widths->shape);
    cli_put_bytes(out, tensor->size);
    cli_put_char(out, '\n');
}

static void show_rows(cli_output *out, const coffer *model, const uint32_t *order)
{
    const ls_widths widths = measure(model);
    for (size_t i = 0; i < coffer_count(model) && out->error == 0; i++) {
        show_row(out, coffer_at(model, order[i]), &widths);
    }
}

static void json_tensor(cli_output *out, const coffer_tensor *tensor)
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
    cli_json_number(out, tensor->offset);
    cli_json_key(out, "size");
    cli_json_number(out, tensor->size);
    cli_json_close(out, '}');
}

static void show_json(cli_output *out, const char *path, const coffer *model, const uint32_t *order)
{
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, path);
    cli_json_key(out, "tensors");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < coffer_count(model) && out->error == 0; i++) {
        json_tensor(out, coffer_at(model, order[i]));
    }
    cli_json_close(out, ']');
    cli_json_close(out, '}');
}

static int list_file(cli *app, const char *path, const char *sort)
{
    int code = CLI_EXIT_OK;
    coffer *model = cli_open(app, path, false, &code);
    if (model == NULL) {
        return code;
    }
    uint32_t *order = make_order(model, sort);
    if (order == NULL) {
        code = cli_fail_memory(app, path);
    } else if (app->json) {
        show_json(&app->out, path, model, order);
    } else {
        show_rows(&app->out, model, order);
    }
    free(order);
    coffer_close(model);
    return code;
}

static int run_ls(cli *app, const cli_arguments *arguments)
{
    const char *sort = cli_value(arguments, CLI_OPTION_SORT);
    if (sort == NULL) {
        sort = "offset";
    }
    return list_file(app, arguments->names[0], sort);
}

static const cli_option LS_OPTIONS[] = {
    { CLI_OPTION_SORT, 0, "sort", "ORDER", "name, offset (the default) or size, the largest first",
      "name|offset|size" },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example LS_EXAMPLES[] = {
    { "coffer ls model.safetensors", "all tensors, as they lie in the file" },
    { "coffer ls --sort size model.safetensors | head", "the ten largest" },
    { NULL, NULL },
};

const cli_command cli_ls = {
    .name = "ls",
    .run = run_ls,
    .summary = "list the tensors of a file: name, dtype, shape, size",
    .usage = "PATH",
    .about = "Lists a file's tensors, a line each. Control characters in names are shown as \\x1b.\n"
             "\n"
             "JSON: path and tensors [{name, dtype, shape, elements, offset, size}], offset and size in bytes,\n"
             "offset from the start of the file. A file that fails has path and error (see coffer help info).\n",
    .options = LS_OPTIONS,
    .examples = LS_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
