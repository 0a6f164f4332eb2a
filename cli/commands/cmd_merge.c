/* SPDX-License-Identifier: Apache-2.0 */
/* coffer merge MODEL... -o FILE: everything in one file. */
#include "cli_collect.h"
#include "cli_guard.h"
#include "cli_options.h"
#include "cli_publish.h"
#include "cli_recorded.h"
#include "cli_report.h"

#include <string.h>

static coffer_status write_file(const cli_collection *all, cli *app, const char *output, coffer_error *err)
{
    coffer_writer *writer = NULL;
    cli_progress progress;
    cli_progress_part part;
    coffer_writer_options file = COFFER_WRITER_OPTIONS_INIT;
    file.digests = all->digests;
    file.packed = all->packed;
    coffer_status status = coffer_writer_open(&writer, all->header, output, &file, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer_read_options options = cli_collect_progress(all, app, &progress, &part);
    status = coffer_writer_copy(writer, all->copies, all->count, &options, err);
    cli_progress_finish(&progress);
    if (status == COFFER_OK) {
        status = coffer_writer_finish(writer, err);
    }
    coffer_writer_free(writer);
    return status;
}

static void show_json(const cli_collection *all, cli *app, const cli_arguments *arguments, const char *output)
{
    cli_output *out = &app->out;
    cli_json_open(out, '{', true);
    cli_json_key(out, "paths");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < arguments->name_count; i++) {
        cli_json_string(out, arguments->names[i]);
    }
    cli_json_close(out, ']');
    cli_json_collect_done(all, app, output);
    cli_json_close(out, '}');
}

static int run_merge(cli *app, const cli_arguments *arguments)
{
    coffer_error err;
    cli_collection all;
    const char *output = cli_value(arguments, CLI_OPTION_OUTPUT);
    if (output == NULL || output[0] == '\0' || strcmp(output, "-") == 0) {
        return cli_usage_error(app, "name the new file: -o FILE");
    }
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < arguments->name_count && code == CLI_EXIT_OK; i++) {
        code = cli_guard_input(app, output, arguments->names[i]);
    }
    if (code == CLI_EXIT_OK) {
        code = cli_publish_check(app, output, cli_given(arguments, CLI_OPTION_FORCE));
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    code = cli_collect(&all, app, arguments);
    code = code == CLI_EXIT_OK ? cli_collect_guard(&all, app, arguments, output) : code;
    if (code == CLI_EXIT_OK && write_file(&all, app, output, &err) != COFFER_OK) {
        code = cli_collect_fail(&all, app, arguments, &err);
    } else if (code == CLI_EXIT_OK) {
        cli_collect_done(&all, app, output, 1);
        if (app->json) {
            show_json(&all, app, arguments, output);
        }
    }
    cli_collection_free(&all);
    return code;
}

static const cli_option MERGE_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "the new file", NULL },
    { CLI_OPTION_FORCE, 'f', "force", NULL, "overwrite FILE", NULL },
    CLI_OPTION_ROW_DIGEST,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example MERGE_EXAMPLES[] = {
    { "coffer merge sharded/model.safetensors.index.json -o model.safetensors", "a sharded model in one" },
    { "coffer merge base.safetensors extra.safetensors -o both.safetensors", "the tensors of two files together" },
    { NULL, NULL },
};

const cli_command cli_merge = {
    .name = "merge",
    .run = run_merge,
    .summary = "write the tensors of several files to one file",
    .usage = "MODEL...",
    .about = "Writes all tensors of a sharded model, or of several models, to one file (-o), in the order\n"
             "of any writer. A duplicate name is an error, and so are metadata that contradict each other. The new\n"
             "file does not appear before it is complete.\n"
             "\n"
             "JSON: paths, output, tensors, size of the tensors in bytes, seconds. A file that fails has path and\n"
             "error (see coffer help info).\n",
    .options = MERGE_OPTIONS,
    .examples = MERGE_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
