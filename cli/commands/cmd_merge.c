/* SPDX-License-Identifier: Apache-2.0 */
/* coffer merge MODEL... -o FILE: everything in one file. */
#include "cli_collect.h"
#include "cli_guard.h"
#include "cli_model_folder.h"
#include "cli_options.h"
#include "cli_publish.h"
#include "cli_recorded.h"
#include "cli_report.h"
#include "cli_rewrite.h"
#include "cli_try.h"

#include <string.h>

static coffer_status write_file(const cli_collection *all, cli *app, const char *output, bool dry_run,
                                coffer_error *err)
{
    coffer_writer *writer = NULL;
    cli_progress progress;
    cli_progress_part part;
    coffer_writer_options file = COFFER_WRITER_OPTIONS_INIT;
    file.digests = all->digests;
    file.packed = all->packed;
    coffer_status status = coffer_writer_open(&writer, all->header, output, &file, err);
    if (status == COFFER_OK && dry_run) {
        status = cli_try_file(writer, all->header, err);
    } else if (status == COFFER_OK) {
        const coffer_read_options options = cli_collect_progress(all, app, &progress, &part);
        status = coffer_writer_copy(writer, all->copies, all->count, &options, err);
        cli_progress_finish(&progress);
        status = status == COFFER_OK ? coffer_writer_finish(writer, err) : status;
    }
    coffer_writer_free(writer);
    return status;
}

static void show_json(const cli_collection *all, cli *app, const cli_arguments *arguments, const char *output,
                      bool dry_run)
{
    cli_output *out = &app->out;
    cli_json_open(out, '{', true);
    cli_json_key(out, "paths");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < arguments->name_count; i++) {
        cli_json_string(out, arguments->names[i]);
    }
    cli_json_close(out, ']');
    cli_json_collect_done(all, app, output, dry_run);
    cli_json_close(out, '}');
}

/* A whole model, of one file, in a folder. */
static coffer_status write_folder(const cli_collection *all, cli *app, const cli_model_folder *folder, bool force,
                                  bool dry_run, coffer_error *err)
{
    coffer_model_writer *writer = NULL;
    cli_progress progress;
    cli_progress_part part;
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    coffer_model_writer_options model = COFFER_MODEL_WRITER_OPTIONS_INIT;
    files.digests = all->digests;
    model.max_shard_size = UINT64_MAX;
    model.force = force;
    model.files = &files;
    model.companions = folder->files;
    model.companion_count = folder->count;
    coffer_status status = coffer_model_writer_open(&writer, all->header, folder->path, &model, err);
    if (status == COFFER_OK && dry_run) {
        status = cli_try_files(writer, all->header, err);
    } else if (status == COFFER_OK) {
        const coffer_read_options options = cli_collect_progress(all, app, &progress, &part);
        status = coffer_model_writer_copy(writer, all->copies, all->count, &options, err);
        cli_progress_finish(&progress);
        status = status == COFFER_OK ? coffer_model_writer_finish(writer, err) : status;
    }
    coffer_model_writer_free(writer);
    return status;
}

/* Where the tensors go: -o, or the model in that folder. */
typedef struct merge_target {
    const char *output;
    bool into_folder;
    cli_model_folder folder;
    bool force;
    bool dry_run;
} merge_target;

static int check_target(cli *app, const cli_arguments *arguments, merge_target *target)
{
    target->output = cli_value(arguments, CLI_OPTION_OUTPUT);
    target->force = cli_given(arguments, CLI_OPTION_FORCE);
    target->dry_run = cli_given(arguments, CLI_OPTION_DRY_RUN);
    target->into_folder = cli_names_folder(target->output);
    if (target->output == NULL && target->dry_run) {
        return CLI_EXIT_OK;
    }
    if (target->output == NULL || target->output[0] == '\0' || strcmp(target->output, "-") == 0) {
        return cli_usage_error(app, "name the new file, or a folder for a whole model: -o FILE, -o FOLDER/");
    }
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < arguments->name_count && code == CLI_EXIT_OK; i++) {
        code = cli_guard_input(app, target->output, arguments->names[i]);
    }
    return code == CLI_EXIT_OK && !target->into_folder ? cli_publish_check(app, target->output, target->force) : code;
}

/* Writes the tensors, or does what comes before the first of them; without -o there is nothing to write to. */
static int write_target(cli *app, const cli_arguments *arguments, const cli_collection *all, merge_target *target)
{
    coffer_error err;
    coffer_status status = COFFER_OK;
    int code = target->output != NULL ? cli_collect_guard(all, app, arguments, target->output) : CLI_EXIT_OK;
    if (code == CLI_EXIT_OK && target->into_folder) {
        code = cli_model_folder_open(&target->folder, app, target->output, all->models[0], arguments->names[0], NULL,
                                     target->force);
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (target->output == NULL) {
        status = coffer_header_build(all->header, NULL, NULL, NULL, NULL, &err);
    } else {
        status = target->into_folder ? write_folder(all, app, &target->folder, target->force, target->dry_run, &err)
                                     : write_file(all, app, target->output, target->dry_run, &err);
    }
    return status == COFFER_OK ? CLI_EXIT_OK : cli_collect_fail(all, app, arguments, &err);
}

static int run_merge(cli *app, const cli_arguments *arguments)
{
    cli_collection all;
    merge_target target = { .output = NULL };
    int code = check_target(app, arguments, &target);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    code = cli_collect(&all, app, arguments);
    if (code == CLI_EXIT_OK) {
        code = write_target(app, arguments, &all, &target);
    }
    if (code == CLI_EXIT_OK) {
        cli_collect_done(&all, app, target.output, 1, target.dry_run);
        if (app->json) {
            show_json(&all, app, arguments, target.output, target.dry_run);
        }
    }
    cli_collection_free(&all);
    cli_model_folder_close(&target.folder, code == CLI_EXIT_OK && !target.dry_run);
    return code;
}

static const cli_option MERGE_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FILE", "the new file; or FOLDER/, for a whole model", NULL },
    CLI_OPTION_ROW_DRY_RUN,
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
             "file does not appear before it is complete. A folder gets the companions of the first MODEL.\n"
             "\n"
             "JSON: paths, output, done (\"written\", \"dry_run\"), tensors, size of the tensors in bytes, seconds. A\n"
             "file that fails has path and error (see coffer help info).\n",
    .options = MERGE_OPTIONS,
    .examples = MERGE_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
