/* SPDX-License-Identifier: Apache-2.0 */
/* coffer get PATH NAME[SLICE]: a tensor, or a slice of it, as text or into a file. coffer get PATH GLOB... -o FILE: a file
   of some tensors. */
#include "cli_files.h"
#include "cli_formats.h"
#include "cli_guard.h"
#include "cli_model_folder.h"
#include "cli_options.h"
#include "cli_partial.h"
#include "cli_publish.h"
#include "cli_report.h"
#include "cli_rewrite.h"
#include "get.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BINARY (UINT64_C(1) << 20) /* elements read at a time */

/* ---- Writing ---- */

static bool is_binary(get_format format)
{
    return format != GET_TEXT && format != GET_JSON;
}

/* Text, JSON, .npy or raw bytes to an open output. */
static int write_to(const get_request *request, cli_view *view, cli_output *out)
{
    coffer_error err;
    if (!is_binary(request->format)) {
        return get_write_text(request, view, out);
    }
    const coffer_status status = get_write_binary(request, view, out, &err);
    return status == COFFER_OK ? CLI_EXIT_OK : cli_fail(request->app, request->path, &err);
}

static int write_view(const get_request *request, cli_view *view)
{
    cli *app = request->app;
    if (request->format == GET_TENSORS) {
        coffer_error err;
        const coffer_status status = get_write_file(request, view, &err);
        /* What cannot be read is the input's fault, and everything else here the output's. */
        return status == COFFER_OK ? CLI_EXIT_OK : cli_fail(app, err.path[0] != '\0' ? err.path : request->path, &err);
    }
    if (request->output == NULL) {
        return write_to(request, view, &app->out);
    }
    cli_publish file;
    const int code = cli_publish_open(app, &file, request->output);
    return code != CLI_EXIT_OK ? code : cli_publish_close(app, &file, write_to(request, view, file.out));
}

static int get_tensor(const get_request *request)
{
    coffer_error err;
    coffer_index *indices = NULL;
    size_t count = 0;
    cli_view view;
    coffer_status status = get_indices(request, &indices, &count, &err);
    if (status == COFFER_OK) {
        const uint64_t most = is_binary(request->format) ? BLOCK_BINARY : get_text_block(request);
        status = cli_view_open(&view, request->model, request->tensor, indices, count, most, &err);
    }
    if (status != COFFER_OK) {
        free(indices);
        return cli_fail(request->app, request->path, &err);
    }
    const int code = write_view(request, &view);
    cli_view_free(&view);
    free(indices);
    return code;
}

/* ---- What is asked for ---- */

/* In the order of --as's values. */
static const coffer_dtype DTYPES[] = { COFFER_F32, COFFER_F64, COFFER_F16, COFFER_BF16 };

/* The format that a file's name ends in, or -1. */
static int format_of_ending(const char *path)
{
    static const struct {
        const char *ending;
        get_format format;
    } endings[] = {
        { ".txt", GET_TEXT }, { ".json", GET_JSON }, { ".npy", GET_NPY }, { ".raw", GET_RAW }, { ".bin", GET_RAW },
    };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof endings / sizeof endings[0]; i++) {
        if (strcmp(dot, endings[i].ending) == 0) {
            return (int)endings[i].format;
        }
    }
    return -1;
}

/* What the name of the file to write ends in. */
static int choose_by_ending(get_request *request)
{
    const int format = format_of_ending(request->output);
    request->tensors = coffer_format_to_write(coffer_format_from_path(request->output));
    if (format < 0 && request->tensors == COFFER_FORMAT_ANY) {
        return cli_usage_error(request->app,
                               "the output file's name does not end in a format (.txt, .json, .npy, .raw, .bin, "
                               ".safetensors); use --format");
    }
    request->format = format < 0 ? GET_TENSORS : (get_format)format;
    return CLI_EXIT_OK;
}

/* What --format names: the formats of tensors are the last of its values. */
static void choose_by_name(get_request *request, int which)
{
    request->format = which < GET_TENSORS ? (get_format)which : GET_TENSORS;
    request->tensors = which < GET_TENSORS ? COFFER_FORMAT_ANY : cli_written_format((size_t)(which - GET_TENSORS));
}

/* The format: what --format or --json says, else what the file's name ends in, else text. */
static int choose_format(get_request *request, const cli_arguments *arguments)
{
    cli *app = request->app;
    const int which = cli_which(arguments, CLI_OPTION_FORMAT);
    request->format = GET_TEXT;
    if (app->json && which >= 0 && which != GET_JSON) {
        return cli_usage_error(app, "--json and --format %s exclude each other",
                               cli_value(arguments, CLI_OPTION_FORMAT));
    }
    if (app->json) {
        request->format = GET_JSON;
    } else if (which >= 0) {
        choose_by_name(request, which);
    } else if (request->output != NULL) {
        const int code = choose_by_ending(request);
        if (code != CLI_EXIT_OK) {
            return code;
        }
    }
    if (is_binary(request->format) && request->output == NULL && isatty(STDOUT_FILENO)) {
        return cli_usage_error(app, "this is binary, and standard output is a terminal; write it to a file: -o FILE");
    }
    return CLI_EXIT_OK;
}

/* Whether the tensor's elements can be had as they are asked for. */
static int choose_dtype(get_request *request, const cli_arguments *arguments)
{
    const int as = cli_which(arguments, CLI_OPTION_AS);
    const char *name = coffer_tensor_dtype_name(request->tensor);
    request->as = as < 0 ? request->tensor->dtype : DTYPES[as];
    if (request->as != request->tensor->dtype && coffer_dtype_kind(request->tensor->dtype) == COFFER_KIND_COMPLEX) {
        return cli_usage_error(request->app, "the tensor is %s, which is complex, and --as converts only real dtypes",
                               name);
    }
    if (request->format == GET_NPY && !get_has_npy(request->as)) {
        return cli_usage_error(request->app, "the tensor is %s, which .npy files cannot hold; --as f32 converts it",
                               coffer_dtype_name(request->as));
    }
    return CLI_EXIT_OK;
}

/* ---- Some of the tensors ---- */

/* The format of a file of several tensors: what --format names, else that of the file's name; COFFER_FORMAT_ANY: none. */
static coffer_format part_format(const cli_arguments *arguments, const char *output)
{
    const int which = cli_which(arguments, CLI_OPTION_FORMAT);
    if (which >= 0) {
        return which < GET_TENSORS ? COFFER_FORMAT_ANY : cli_written_format((size_t)(which - GET_TENSORS));
    }
    if (cli_names_folder(output)) {
        return COFFER_FORMAT_SAFETENSORS;
    }
    return output == NULL ? COFFER_FORMAT_ANY : coffer_format_to_write(coffer_format_from_path(output));
}

/* One name with a * or a ? is a pattern only where a file of tensors is written: a tensor may be called so. */
static bool is_part(const cli_arguments *arguments)
{
    const char *output = cli_value(arguments, CLI_OPTION_OUTPUT);
    return arguments->name_count > 2 || cli_given(arguments, CLI_OPTION_DRY_RUN) || cli_names_folder(output) ||
           (strpbrk(arguments->names[1], "*?") != NULL && part_format(arguments, output) != COFFER_FORMAT_ANY);
}

/* Tensors go to the new file as in any rewrite: from file to file, or from a URL by requests for what is wanted. */
static int get_part(cli *app, const cli_arguments *arguments)
{
    const char *output = cli_value(arguments, CLI_OPTION_OUTPUT);
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.unplaced = output == NULL;
    options.format = options.unplaced ? COFFER_FORMAT_SAFETENSORS : part_format(arguments, output);
    options.max_shard_size = cli_names_folder(output) ? 0 : UINT64_MAX;
    if ((output == NULL && !cli_given(arguments, CLI_OPTION_DRY_RUN)) || options.format == COFFER_FORMAT_ANY) {
        return cli_usage_error(app, "several tensors go to a file of tensors: -o FILE.safetensors, or a whole model: "
                                    "-o FOLDER/");
    }
    if (cli_given(arguments, CLI_OPTION_AS) || cli_given(arguments, CLI_OPTION_PARTIAL)) {
        return cli_usage_error(app, "--as and --partial are for one tensor; coffer cast converts a file");
    }
    const cli_rewrite_texts rules = cli_rewrite_names(arguments, cli_rewrite_read_keep);
    return cli_rewrite_choose(app, arguments, &rules, &options);
}

/* ---- The whole ---- */

static int run_get(cli *app, const cli_arguments *arguments)
{
    if (is_part(arguments)) {
        return get_part(app, arguments);
    }
    get_request request = { .app = app, .path = arguments->names[0], .all = cli_given(arguments, CLI_OPTION_ALL) };
    const char *output = cli_value(arguments, CLI_OPTION_OUTPUT);
    request.output = output != NULL && strcmp(output, "-") != 0 ? output : NULL;
    int code = choose_format(&request, arguments);
    if (code == CLI_EXIT_OK && request.output != NULL) {
        code = cli_guard_input(app, request.output, request.path);
    }
    if (code == CLI_EXIT_OK && request.output != NULL) {
        code = cli_publish_check(app, request.output, cli_given(arguments, CLI_OPTION_FORCE));
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    coffer *model = cli_open_partial(app, request.path, cli_given(arguments, CLI_OPTION_PARTIAL), &code);
    if (model == NULL) {
        return code;
    }
    request.model = model;
    code = request.output != NULL ? cli_guard_model(app, request.output, request.path, model) : CLI_EXIT_OK;
    if (code == CLI_EXIT_OK) {
        code = get_find(&request, arguments->names[1]);
    }
    if (code == CLI_EXIT_OK) {
        code = choose_dtype(&request, arguments);
    }
    if (code == CLI_EXIT_OK) {
        code = get_tensor(&request);
        code = cli_worse(code, cli_report_whole(app, request.path, model));
    }
    coffer_close(model);
    return code;
}

static const cli_option GET_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "write to a file; its ending gives the format", NULL },
    { CLI_OPTION_FORCE, 'f', "force", NULL, "overwrite FILE", NULL },
    { CLI_OPTION_FORMAT, 0, "format", "FORMAT", "text (the default), json, npy, raw, safetensors or bintensors",
      "text|json|npy|raw|" CLI_VALUES_FORMATS },
    { CLI_OPTION_AS, 0, "as", "DTYPE", "convert to f32, f64, f16 or bf16, rounding to nearest", "f32|f64|f16|bf16" },
    { CLI_OPTION_ALL, 0, "all", NULL, "show every element", NULL },
    { CLI_OPTION_DRY_RUN, 'n', "dry-run", NULL, "of a file of several tensors: say what would be written", NULL },
    CLI_OPTION_ROW_PARTIAL,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example GET_EXAMPLES[] = {
    { "coffer get model.safetensors wte.weight", "the corners of a large tensor" },
    { "coffer get model.safetensors 'wte.weight[0, :8]'", "the first eight numbers of its first row" },
    { "coffer get model.safetensors 'wte.weight[::-1, -1]' --all", "all of its last column, backwards" },
    { "coffer get model.safetensors wte.weight --as f32 -o wte.npy", "a file for numpy" },
    { "coffer get model.safetensors 'wte.weight[:100]' -o part.safetensors", "a smaller file to try things on" },
    { "coffer get model/ 'model.layers.0.*' 'lm_head.*' -o part.safetensors", "some tensors, from any of its files" },
    { NULL, NULL },
};

const cli_command cli_get = {
    .name = "get",
    .alias = "cat",
    .run = run_get,
    .summary = "show or extract a tensor, a slice of it, or several",
    .usage = "PATH NAME[SLICE] [GLOB...]",
    .about = "Shows the elements of a tensor. A slice in brackets is as in Python: indices, start:stop:step,\n"
             "negative ones, and ...; quote it, since the shell interprets brackets. Only what is shown is read.\n"
             "More than 1,000 elements are abbreviated in each dimension. Numbers are the shortest that read\n"
             "back as the same element; a name may be typed as coffer ls shows it. - is standard input.\n"
             "\n"
             "With -o the tensor is written to a file, which appears when it is complete: .txt and .json with\n"
             "every element, .npy, the bare bytes (.raw, .bin), or a .safetensors or .bt of this one tensor.\n"
             "\n"
             "Several names, or patterns as in coffer drop, write a .safetensors or .bt of all tensors that match,\n"
             "with the metadata of PATH. Only these are read, also of a URL. Every pattern has to match something.\n"
             "JSON: as of coffer align, without changes.\n",
    .options = GET_OPTIONS,
    .examples = GET_EXAMPLES,
    .least_names = 2,
    .most_names = SIZE_MAX,
};
