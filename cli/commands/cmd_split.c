/* SPDX-License-Identifier: Apache-2.0 */
/* coffer split MODEL -o FOLDER: a model as several files and their index. */
#include "cli_collect.h"
#include "cli_guard.h"
#include "cli_model_folder.h"
#include "cli_options.h"
#include "cli_publish.h"
#include "cli_recorded.h"
#include "cli_report.h"
#include "cli_rewrite.h"
#include "cli_text.h"
#include "cli_try.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPLIT_ENDING ".safetensors"
#define SPLIT_DEFAULT_SIZE UINT64_C(5000000000)

/* Where the files go. */
typedef struct split_target {
    const char *path; /* of the model if it were one file */
    char *index;      /* its index */
    char *beside;     /* the same path, where it is next to the file that is split, with its companions; else NULL */
    cli_model_folder folder; /* unless -o is the whole path, or that of the file's own folder */
} split_target;

/* ---- Where ---- */

/* What is there already is replaced only when told to. Of a folder this has been looked at. */
static int check_file(cli *app, const split_target *target, bool force)
{
    const int code = cli_publish_check(app, target->path, force);
    return code == CLI_EXIT_OK ? cli_publish_check(app, target->index, force) : code;
}

/* A folder, in which the model is called "model" or as it is, where programs look for that; or the whole path of it. */
static int open_target(cli *app, split_target *target, const char *output, const cli_collection *all, const char *input,
                       bool force)
{
    const coffer *model = all->models[0];
    const bool beside = coffer_shard_count(model) == 1 && cli_guard_is_in_folder(output, coffer_shard_path(model, 0));
    const bool whole = beside || (cli_ends_in(output, SPLIT_ENDING) && !cli_names_folder(output));
    const int code =
        whole ? CLI_EXIT_OK : cli_model_folder_open(&target->folder, app, output, model, input, "model", force);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (beside) {
        const size_t capacity = strlen(output) + sizeof "/model" SPLIT_ENDING;
        target->beside = malloc(capacity);
        if (target->beside == NULL) {
            return cli_fail_memory(app, output);
        }
        snprintf(target->beside, capacity, "%s/model" SPLIT_ENDING, output);
    }
    target->path = beside ? target->beside : whole ? output : target->folder.path;
    const size_t size = strlen(target->path) + sizeof ".index.json";
    target->index = malloc(size);
    if (target->index == NULL) {
        return cli_fail_memory(app, output);
    }
    snprintf(target->index, size, "%s.index.json", target->path);
    return whole ? check_file(app, target, force) : CLI_EXIT_OK;
}

/* What is being split, and all that is going to be replaced. */
typedef struct split_guard {
    cli *app;
    const cli_arguments *arguments;
    const cli_collection *all;
    int code;
} split_guard;

static int guard_file(void *ctx, const char *path, bool exists)
{
    split_guard *guard = ctx;
    guard->code = exists ? cli_collect_guard(guard->all, guard->app, guard->arguments, path) : CLI_EXIT_OK;
    return guard->code != CLI_EXIT_OK;
}

/* The one file of an older model, its index, and the files which that names: all of them go when
   the new model is complete. */
static int guard_old_model(split_guard *guard, const split_target *target)
{
    coffer_error err;
    if (guard_file(guard, target->path, true) == 0 && guard_file(guard, target->index, true) == 0) {
        /* An index that cannot be read names nothing. */
        (void)coffer_list_files(target->index, NULL, guard_file, guard, &err);
    }
    return guard->code;
}

/* What the new files are going to be called. */
static int guard_new_files(split_guard *guard, const split_target *target, const coffer_model_writer *writer)
{
    const char *slash = cli_last_slash(target->path);
    const int folder_len = slash != NULL ? (int)(slash - target->path) + 1 : 0;
    for (size_t i = 0; i < coffer_model_writer_shard_count(writer) && guard->code == CLI_EXIT_OK; i++) {
        const char *name = coffer_model_writer_shard_name(writer, i);
        const size_t size = (size_t)folder_len + strlen(name) + 1;
        char *path = malloc(size);
        if (path == NULL) {
            return cli_fail_memory(guard->app, name);
        }
        snprintf(path, size, "%.*s%s", folder_len, target->path, name);
        (void)guard_file(guard, path, true);
        free(path);
    }
    return guard->code;
}

/* ---- Writing ---- */

static void show_json(const cli_collection *all, cli *app, const char *path, const char *output,
                      const coffer_model_writer *writer, bool dry_run)
{
    cli_output *out = &app->out;
    const size_t count = writer != NULL ? coffer_model_writer_shard_count(writer) : 0;
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, path);
    cli_json_key(out, "files");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < count; i++) {
        cli_json_string(out, coffer_model_writer_shard_name(writer, i));
    }
    cli_json_close(out, ']');
    cli_json_collect_done(all, app, output, dry_run);
    cli_json_close(out, '}');
}

static coffer_status write_files(const cli_collection *all, cli *app, coffer_model_writer *writer, coffer_error *err)
{
    cli_progress progress;
    cli_progress_part part;
    const coffer_read_options options = cli_collect_progress(all, app, &progress, &part);
    coffer_status status = coffer_model_writer_copy(writer, all->copies, all->count, &options, err);
    cli_progress_finish(&progress);
    return status == COFFER_OK ? coffer_model_writer_finish(writer, err) : status;
}

/* The guards come before anything is written: first what an older model would lose, then, as only the
   writer knows the names, what the new files would replace. */
static int write_model(const cli_collection *all, cli *app, const cli_arguments *arguments, const split_target *target,
                       const coffer_model_writer_options *given)
{
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    files.digests = all->digests;
    files.packed = all->packed;
    coffer_model_writer_options options = *given;
    options.files = &files;
    options.companions = target->folder.files;
    options.companion_count = target->folder.count;
    coffer_error err;
    coffer_model_writer *writer = NULL;
    const char *path = arguments->names[0];
    const char *output = cli_value(arguments, CLI_OPTION_OUTPUT);
    const bool dry_run = cli_given(arguments, CLI_OPTION_DRY_RUN);
    split_guard guard = { app, arguments, all, CLI_EXIT_OK };
    if (guard_old_model(&guard, target) != CLI_EXIT_OK) {
        return guard.code;
    }
    coffer_status status = coffer_model_writer_open(&writer, all->header, target->path, &options, &err);
    if (status == COFFER_OK && guard_new_files(&guard, target, writer) != CLI_EXIT_OK) {
        coffer_model_writer_free(writer);
        return guard.code;
    }
    if (status == COFFER_OK) {
        status = dry_run ? cli_try_files(writer, all->header, &err) : write_files(all, app, writer, &err);
    }
    if (status == COFFER_OK) {
        cli_collect_done(all, app, output, coffer_model_writer_shard_count(writer), dry_run);
        if (app->json) {
            show_json(all, app, path, output, writer, dry_run);
        }
    }
    coffer_model_writer_free(writer);
    return status == COFFER_OK ? CLI_EXIT_OK : cli_collect_fail(all, app, arguments, &err);
}

/* A dry run without -o: what the files would have can be written, wherever that is. Which files there would be is known
   with their place. */
static int show_unplaced(const cli_collection *all, cli *app, const cli_arguments *arguments)
{
    coffer_error err;
    if (coffer_header_build(all->header, NULL, NULL, NULL, NULL, &err) != COFFER_OK) {
        return cli_collect_fail(all, app, arguments, &err);
    }
    cli_collect_done(all, app, NULL, 1, true);
    if (app->json) {
        show_json(all, app, arguments->names[0], NULL, NULL, true);
    }
    return CLI_EXIT_OK;
}

static int run_split(cli *app, const cli_arguments *arguments)
{
    const char *output = cli_value(arguments, CLI_OPTION_OUTPUT);
    const char *size = cli_value(arguments, CLI_OPTION_MAX_SHARD_SIZE);
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    options.max_shard_size = SPLIT_DEFAULT_SIZE;
    options.balanced = cli_given(arguments, CLI_OPTION_BALANCED);
    options.force = cli_given(arguments, CLI_OPTION_FORCE);
    const bool unplaced = output == NULL && cli_given(arguments, CLI_OPTION_DRY_RUN);
    if (!unplaced && (output == NULL || output[0] == '\0' || strcmp(output, "-") == 0)) {
        return cli_usage_error(app, "name the folder for the files: -o FOLDER");
    }
    if (size != NULL && !cli_read_size(size, &options.max_shard_size)) {
        return cli_usage_error(app, "--max-shard-size needs a number of bytes: 5GB, 500MB, 1GiB, 250000");
    }
    split_target target = { .path = NULL };
    cli_collection all;
    int code = cli_collect(&all, app, arguments);
    if (code == CLI_EXIT_OK && unplaced) {
        code = show_unplaced(&all, app, arguments);
    } else if (code == CLI_EXIT_OK) {
        code = open_target(app, &target, output, &all, arguments->names[0], options.force);
    }
    if (code == CLI_EXIT_OK && !unplaced) {
        code = write_model(&all, app, arguments, &target, &options);
    }
    cli_collection_free(&all);
    cli_model_folder_close(&target.folder, code == CLI_EXIT_OK && !cli_given(arguments, CLI_OPTION_DRY_RUN));
    free(target.index);
    free(target.beside);
    return code;
}

static const cli_option SPLIT_OPTIONS[] = {
    { CLI_OPTION_OUTPUT, 'o', "output", "FOLDER", "where the files go; or NAME.safetensors, for other names than model",
      NULL },
    { CLI_OPTION_MAX_SHARD_SIZE, 0, "max-shard-size", "SIZE", "bytes of tensors in a file; 5GB if not given", NULL },
    { CLI_OPTION_BALANCED, 0, "balanced", NULL, "as many files, but as even as the order allows", NULL },
    CLI_OPTION_ROW_DRY_RUN,
    { CLI_OPTION_FORCE, 'f', "force", NULL, "replace an existing model", NULL },
    CLI_OPTION_ROW_DIGEST,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example SPLIT_EXAMPLES[] = {
    { "coffer split model.safetensors -o sharded", "files of at most 5 GB, and their index" },
    { "coffer split model.safetensors -o sharded --max-shard-size 500MB --balanced", "smaller ones, of similar size" },
    { NULL, NULL },
};

const cli_command cli_split = {
    .name = "split",
    .run = run_split,
    .summary = "write a model as several files and their index",
    .usage = "MODEL",
    .about = "Writes the tensors in the order of the model to FOLDER/model-00001-of-0000N.safetensors, by the same\n"
             "rules and names as other programs, and an index; a model that fits into one file becomes\n"
             "model.safetensors. Every file has the model's metadata. The folder gets the companions of MODEL,\n"
             "too: its config.json, tokenizer and the like. An older model and the new one are never mixed; the\n"
             "next split, or coffer meta --recover FOLDER/model.safetensors, finishes or undoes what was\n"
             "interrupted. SIZE is in bytes, or has a unit: KB, MB, GB or TB for powers of 1000, KiB, MiB, GiB or\n"
             "TiB for powers of 1024.\n"
             "\n"
             "JSON: path, files [name], output, done (\"written\", \"dry_run\"), tensors, size of the tensors in\n"
             "bytes, seconds. A model that fails has path and error (see coffer help info).\n",
    .options = SPLIT_OPTIONS,
    .examples = SPLIT_EXAMPLES,
    .least_names = 1,
    .most_names = 1,
};
