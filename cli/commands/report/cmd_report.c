/* SPDX-License-Identifier: Apache-2.0 */
/* coffer report MODEL: a page of HTML that shows what is in a model, with the model's headers in it. */
#include "cli_files.h"
#include "cli_guard.h"
#include "cli_options.h"
#include "cli_parallel.h"
#include "cli_progress.h"
#include "cli_publish.h"
#include "cli_report.h"
#include "cli_text.h"
#include "report.h"
#include "report_deflate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BASE64_BLOCK 12288 /* bytes written at a time; a multiple of 3, so that only the last block has padding */
#define READ_THREADS 16    /* headers at a time: reading them is waiting, so the number of processors is no bound */

/* All that is known of a report. `output` is NULL for standard output. */
typedef struct report_request {
    cli *app;
    const char *path;
    const char *named; /* the path that the model has its name from */
    const char *output;
    const coffer *model;
    report_page page;
    cli_progress progress;
} report_request;

/* ---- What stands in it ---- */

static void put_text(cli_output *out, report_text text)
{
    cli_put(out, text.bytes, text.size);
}

static void json_member(cli_output *out, const char *key, report_text value)
{
    cli_json_key(out, key);
    cli_json_string_n(out, value.bytes, value.size);
}

/* A string that may be of any length, and needs no escape: base64 of the bytes, deflated. False without memory. */
static bool json_packed(cli_output *out, const char *key, const uint8_t *bytes, size_t size)
{
    char text[BASE64_BLOCK / 3 * 4 + 1];
    uint8_t *stream = NULL;
    size_t stream_size = 0;
    const bool packed = report_deflate(bytes, size, &stream, &stream_size);
    cli_json_key(out, key);
    cli_json_raw(out, "\"");
    for (size_t at = 0; at < stream_size; at += BASE64_BLOCK) {
        const size_t part = stream_size - at < BASE64_BLOCK ? stream_size - at : BASE64_BLOCK;
        cli_put(out, text, coffer_base64(stream + at, part, text, sizeof text));
    }
    cli_put_char(out, '"');
    free(stream);
    return packed;
}

/* A file in memory has no path, and is called as the model is. */
static report_text name_of_file(const report_request *request, size_t shard)
{
    const report_text name = report_file_name(request->model, shard);
    return name.size > 0 && strcmp(request->path, "-") != 0 ? name : report_model_name(request->named);
}

/* The header of a file, and whether it could be read. */
typedef struct report_header {
    uint8_t *bytes;
    uint64_t size;
    coffer_status status;
    coffer_error err;
} report_header;

/* The headers are read several at a time, since at a URL each may take a round trip, and written in the files' order. */
typedef struct header_run {
    report_request *request;
    cli_output *out;
    report_header *headers;
    int code;
} header_run;

static void read_header(void *ctx, size_t shard)
{
    header_run *run = ctx;
    report_header *header = &run->headers[shard];
    const coffer *model = run->request->model;
    header->size = coffer_table_data_offset(coffer_shard_table(model, shard));
    header->bytes = header->size <= SIZE_MAX ? malloc((size_t)header->size) : NULL;
    if (header->bytes == NULL) {
        header->status = cli_no_memory(&header->err);
        return;
    }
    cli_progress_part part = { &run->request->progress, 0 };
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    header->status = coffer_read_header(model, shard, header->bytes, header->size, &options, &header->err);
}

static void json_file(void *ctx, size_t shard)
{
    header_run *run = ctx;
    report_header *header = &run->headers[shard];
    if (run->code == CLI_EXIT_OK && header->status != COFFER_OK) {
        run->code = cli_fail(run->request->app, run->request->path, &header->err);
    } else if (run->code == CLI_EXIT_OK) {
        cli_json_open(run->out, '{', false);
        json_member(run->out, "name", name_of_file(run->request, shard));
        cli_json_key(run->out, "size");
        cli_json_number(run->out, coffer_shard_size(run->request->model, shard));
        if (!json_packed(run->out, "header", header->bytes, (size_t)header->size)) {
            run->code = cli_fail_memory(run->request->app, run->request->path);
        }
        cli_json_close(run->out, '}');
    }
    free(header->bytes);
}

static int json_files(report_request *request, cli_output *out)
{
    header_run run = { .request = request, .out = out };
    const cli_jobs jobs = { read_header, json_file, &run };
    const size_t count = coffer_shard_count(request->model);
    run.headers = calloc(count, sizeof *run.headers);
    if (run.headers == NULL) {
        return cli_fail_memory(request->app, request->path);
    }
    cli_json_key(out, "files");
    cli_json_open(out, '[', true);
    cli_parallel(&jobs, count, READ_THREADS);
    cli_json_close(out, ']');
    free(run.headers);
    return run.code;
}

static int json_index(const report_request *request, cli_output *out)
{
    size_t size = 0;
    const void *text = coffer_index_text(request->model, &size);
    cli_json_key(out, "index");
    if (text == NULL) {
        cli_json_null(out);
        return CLI_EXIT_OK;
    }
    cli_json_open(out, '{', false);
    json_member(out, "name", report_index_name(request->model));
    const bool packed = json_packed(out, "text", text, size);
    cli_json_close(out, '}');
    return packed ? CLI_EXIT_OK : cli_fail_memory(request->app, request->path);
}

static int json_model(report_request *request, cli_output *out)
{
    cli_json_open(out, '{', false);
    cli_json_key(out, "version");
    cli_json_number(out, 2);
    json_member(out, "name", report_model_name(request->named));
    const int code = json_files(request, out);
    const int index = json_index(request, out);
    cli_json_close(out, '}');
    return cli_worse(code, index);
}

/* ---- Writing it ---- */

static int write_to(report_request *request, cli_output *out)
{
    put_text(out, request->page.before);
    cli_put_text(out, "<script type=\"application/json\" id=\"coffer-report\">");
    out->in_markup = true;
    const int code = json_model(request, out);
    out->in_markup = false;
    cli_put_text(out, "</script>");
    put_text(out, request->page.after);
    return code;
}

static uint64_t header_bytes(const coffer *model)
{
    uint64_t size = 0;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        size += coffer_table_data_offset(coffer_shard_table(model, i));
    }
    return size;
}

static int write_report(report_request *request)
{
    cli *app = request->app;
    cli_publish file;
    int code = CLI_EXIT_OK;
    cli_progress_begin(&request->progress, app, "reading", header_bytes(request->model));
    if (request->output == NULL) {
        code = write_to(request, &app->out);
    } else {
        code = cli_publish_open(app, &file, request->output);
        code = code == CLI_EXIT_OK ? cli_publish_close(app, &file, write_to(request, file.out)) : code;
    }
    cli_progress_finish(&request->progress);
    return code;
}

/* What was written, where standard output is free to say so. */
static void tell_done(const report_request *request)
{
    cli *app = request->app;
    char tensors[CLI_NUMBER_SIZE];
    char files[2 * CLI_NUMBER_SIZE] = "";
    const size_t count = coffer_count(request->model);
    const size_t file_count = coffer_shard_count(request->model);
    if (file_count > 1) {
        snprintf(files, sizeof files, "%zu files, ", file_count);
    }
    cli_number_text(tensors, count, true);
    cli_remark_path(app, request->output, "written: %s%s tensor%s; open it in a browser", files, tensors,
                    count == 1 ? "" : "s");
    if (app->json) {
        cli_json_open(&app->out, '{', true);
        cli_json_key(&app->out, "path");
        cli_json_string(&app->out, request->path);
        cli_json_key(&app->out, "output");
        cli_json_string(&app->out, request->output);
        cli_json_key(&app->out, "files");
        cli_json_number(&app->out, file_count);
        cli_json_key(&app->out, "tensors");
        cli_json_number(&app->out, count);
        cli_json_close(&app->out, '}');
    }
}

/* ---- What is asked for ---- */

static int check_output(const report_request *request, const cli_arguments *arguments)
{
    cli *app = request->app;
    const char *page = cli_value(arguments, CLI_OPTION_PAGE);
    if (request->output == NULL) {
        return app->json ? cli_usage_error(app, "--json says what was written to a file, so name it: -o FILE")
               : isatty(STDOUT_FILENO)
                   ? cli_usage_error(app, "the report would go to the terminal; write it to a file: -o report.html")
                   : CLI_EXIT_OK;
    }
    int code = cli_guard_input(app, request->output, request->path);
    if (code == CLI_EXIT_OK && page != NULL) {
        code = cli_guard_input(app, request->output, page);
    }
    return code == CLI_EXIT_OK ? cli_publish_check(app, request->output, cli_given(arguments, CLI_OPTION_FORCE)) : code;
}

static int report_model(report_request *request)
{
    int code = CLI_EXIT_OK;
    coffer *model = cli_open(request->app, request->path, false, &code);
    if (model == NULL) {
        return code;
    }
    request->model = model;
    if (request->output != NULL) {
        code = cli_guard_model(request->app, request->output, request->path, model);
    }
    if (code == CLI_EXIT_OK) {
        code = write_report(request);
    }
    if (code == CLI_EXIT_OK && request->output != NULL) {
        tell_done(request);
    }
    coffer_close(model);
    return code;
}

/* The folder `.` has a name elsewhere; to be freed. NULL for a path that ends in a name. */
static char *path_with_name(const char *path)
{
    const char *slash = cli_last_slash(path);
    const char *last = slash != NULL ? slash + 1 : path;
    const bool nameless = strcmp(last, ".") == 0 || strcmp(last, "..") == 0 || last[0] == '\0';
    return nameless ? realpath(path, NULL) : NULL;
}

static int run_report(cli *app, const cli_arguments *arguments)
{
    report_request request = { .app = app, .path = arguments->names[0] };
    const char *output = cli_value(arguments, CLI_OPTION_OUTPUT);
    request.output = output != NULL && strcmp(output, "-") != 0 ? output : NULL;
    int code = check_output(&request, arguments);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    char *real = path_with_name(request.path);
    request.named = real != NULL ? real : request.path;
    code = report_page_open(app, cli_value(arguments, CLI_OPTION_PAGE), &request.page);
    if (code == CLI_EXIT_OK) {
        code = report_model(&request);
    }
    report_page_free(&request.page);
    free(real);
    return code;
}

static const cli_option REPORT_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "the new file, which appears when it is complete", NULL },
    { CLI_OPTION_FORCE, 'f', "force", NULL, "overwrite FILE", NULL },
    { CLI_OPTION_PAGE, 0, "page", "FILE", "take the page from FILE, not the one that is built in", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example REPORT_EXAMPLES[] = {
    { "coffer report model.safetensors -o report.html", "one file to look at, or to send" },
    { "coffer report hf://openai-community/gpt2 -o gpt2.html", "of a model on the Hub; only its headers are read" },
    { "coffer report sharded --page index.html -o report.html", "with a page that was built elsewhere" },
    { NULL, NULL },
};

const cli_command cli_report = {
    .name = "report",
    .run = run_report,
    .summary = "write a page of HTML that shows what is in a model",
    .usage = "MODEL",
    .about = "Writes one file of HTML that shows the model in a browser: its tensors, metadata, sizes and notes.\n"
             "MODEL is a file, an index, a folder or a URL. The headers are in the report, with the index if there\n"
             "is one; the tensors' values are not. It loads nothing from elsewhere. The names of files are in it,\n"
             "but not the folders that they are in. Without -o it goes to standard output.\n"
             "\n"
             "The page is part of the command; --page takes another one from a file. Headers are packed in it,\n"
             "which browsers since 2023 undo (DecompressionStream).\n"
             "\n"
             "JSON: path, output, files and tensors (their numbers). A model that fails has path and error (see\n"
             "coffer help info).\n",
    .options = REPORT_OPTIONS,
    .examples = REPORT_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
