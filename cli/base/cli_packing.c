/* SPDX-License-Identifier: Apache-2.0 */
/* See cli_packing.h. */
#include "cli_packing.h"

#include "cli_files.h"
#include "cli_guard.h"
#include "cli_model_folder.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_publish.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cli_packing_job {
    cli *app;
    const char *path;
    const char *output; /* a file, or a folder for several; NULL: nothing is written */
    coffer *model;
    bool unpack;
    bool force;
    bool sharded;            /* the output is `folder` */
    cli_model_folder folder; /* of a whole model, with its companions */
    coffer_pack_result sum;
} cli_packing_job;

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* The new file for one of the model's, or for one that goes with it; NULL without memory. */
static char *new_path(const cli_packing_job *job, const char *old)
{
    const char *name = last_part(old);
    const char *before = job->sharded ? job->folder.folder : job->output;
    const size_t size = strlen(before) + strlen(name) + 1;
    char *path = malloc(size);
    if (path != NULL) {
        snprintf(path, size, "%s%s", before, job->sharded ? name : "");
    }
    return path;
}

static coffer_status write_shard(cli_packing_job *job, size_t shard, const char *path, coffer_error *err)
{
    coffer_pack_options options = COFFER_PACK_OPTIONS_INIT;
    coffer_pack_result result = { 0 };
    cli_progress progress;
    cli_progress_part part = { &progress, 0 };
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    cli_progress_begin(&progress, job->app, job->unpack ? "unpacking" : "packing", 0);
    const coffer_status status = job->unpack ? coffer_unpack_shard(job->model, shard, path, &options, err)
                                             : coffer_pack_shard(job->model, shard, path, &options, &result, err);
    cli_progress_finish(&progress);
    if (job->unpack) {
        result.original_size = coffer_shard_size(job->model, shard);
        result.packed_size = coffer_shard_stored_size(job->model, shard);
    }
    job->sum.original_size += result.original_size;
    job->sum.packed_size += result.packed_size;
    job->sum.tensor_count += result.tensor_count;
    job->sum.packed_count += result.packed_count;
    return status;
}

static int run_shard(cli_packing_job *job, size_t shard)
{
    coffer_error err;
    char *path = job->output == NULL ? NULL : new_path(job, coffer_shard_path(job->model, shard));
    if (job->output != NULL && path == NULL) {
        return cli_fail_memory(job->app, job->path);
    }
    int code = path == NULL ? CLI_EXIT_OK : cli_guard_model(job->app, path, job->path, job->model);
    if (code == CLI_EXIT_OK && path != NULL) {
        code = cli_publish_check(job->app, path, job->force);
    }
    if (code == CLI_EXIT_OK && write_shard(job, shard, path, &err) != COFFER_OK) {
        code = cli_fail(job->app, job->path, &err);
    }
    free(path);
    return code;
}

/* A small file beside the new ones. */
static int write_small(const cli_packing_job *job, const char *name, const void *bytes, size_t size)
{
    char *path = new_path(job, name);
    if (path == NULL) {
        return cli_fail_memory(job->app, job->path);
    }
    cli_publish file;
    int code = cli_publish_check(job->app, path, job->force);
    if (code == CLI_EXIT_OK) {
        code = cli_publish_open(job->app, &file, path);
    }
    if (code == CLI_EXIT_OK) {
        cli_put(file.out, bytes, size);
        code = cli_publish_close(job->app, &file, CLI_EXIT_OK);
    }
    free(path);
    return code;
}

/* What goes with the model: its index, which is that of the old files, and its companions. */
static int write_beside(const cli_packing_job *job)
{
    size_t size = 0;
    const void *text = coffer_index_text(job->model, &size);
    int code = text != NULL ? write_small(job, coffer_index_path(job->model), text, size) : CLI_EXIT_OK;
    for (size_t i = 0; i < job->folder.count && code == CLI_EXIT_OK; i++) {
        const coffer_companion *file = &job->folder.files[i];
        code = file->bytes != NULL ? write_small(job, file->name, file->bytes, file->size) : CLI_EXIT_OK;
    }
    return code;
}

static void show_result(const cli_packing_job *job)
{
    cli_output *out = &job->app->out;
    if (job->app->json) {
        cli_json_open(out, '{', true);
        cli_json_key(out, "path");
        cli_json_string(out, job->path);
        if (job->output != NULL) {
            cli_json_key(out, "output");
            cli_json_string(out, job->output);
        }
        cli_json_key(out, "original_size");
        cli_json_number(out, job->sum.original_size);
        cli_json_key(out, "packed_size");
        cli_json_number(out, job->sum.packed_size);
        cli_json_close(out, '}');
        return;
    }
    char from[CLI_NUMBER_SIZE];
    char to[CLI_NUMBER_SIZE];
    cli_bytes_text(from, job->unpack ? job->sum.packed_size : job->sum.original_size);
    cli_bytes_text(to, job->unpack ? job->sum.original_size : job->sum.packed_size);
    const uint64_t whole = job->sum.original_size == 0 ? 1 : job->sum.original_size;
    const double share = 100.0 * (double)job->sum.packed_size / (double)whole;
    if (job->unpack) {
        cli_remark_path(job->app, job->output, "unpacked: %s from %s; the SHA-256 is that of the original", to, from);
    } else {
        cli_remark_path(job->app, job->output != NULL ? job->output : job->path, "%s: %s from %s, %.1f %%",
                        job->output != NULL ? "packed" : "would be packed", to, from, share);
        if (job->sum.packed_size >= job->sum.original_size) {
            cli_remark_path(job->app, job->path,
                            "nothing is gained: none of its tensors becomes smaller; keep it as it is");
        }
    }
}

/* Fails for the first file that is packed already, or is not packed: before another one is written. */
static int check_shards(const cli_packing_job *job)
{
    coffer_error err;
    for (size_t i = 0; i < coffer_shard_count(job->model); i++) {
        if (coffer_shard_is_packed(job->model, i) == job->unpack) {
            continue;
        }
        (void)(job->unpack ? coffer_verify_packed(job->model, i, NULL, &err)
                           : coffer_pack_shard(job->model, i, NULL, NULL, NULL, &err));
        return cli_fail(job->app, job->path, &err);
    }
    return CLI_EXIT_OK;
}

static int run_all(cli_packing_job *job)
{
    const bool whole = job->sharded && job->output != NULL;
    int code = check_shards(job);
    if (code == CLI_EXIT_OK && whole) {
        code = cli_model_folder_open(&job->folder, job->app, job->output, job->model, job->path, NULL, job->force);
    }
    for (size_t i = 0; i < coffer_shard_count(job->model) && code == CLI_EXIT_OK; i++) {
        code = run_shard(job, i);
    }
    if (code == CLI_EXIT_OK && whole) {
        code = write_beside(job);
    }
    if (code == CLI_EXIT_OK) {
        show_result(job);
    }
    if (job->folder.app != NULL) {
        cli_model_folder_close(&job->folder, code == CLI_EXIT_OK);
    }
    return code;
}

int cli_packing(cli *app, const cli_arguments *arguments, bool unpack)
{
    const bool dry = cli_given(arguments, CLI_OPTION_DRY_RUN);
    const char *output = cli_value(arguments, CLI_OPTION_OUTPUT);
    if (!dry && (output == NULL || output[0] == '\0' || strcmp(output, "-") == 0)) {
        return cli_usage_error(app, "name the new file, or the folder for several: -o FILE");
    }
    int code = CLI_EXIT_OK;
    cli_packing_job job = { .app = app, .path = arguments->names[0], .output = dry ? NULL : output, .unpack = unpack };
    job.force = cli_given(arguments, CLI_OPTION_FORCE);
    job.model = cli_open(app, job.path, false, &code);
    if (job.model == NULL) {
        return code;
    }
    job.sharded = coffer_shard_count(job.model) > 1 || coffer_index_text(job.model, NULL) != NULL ||
                  (output != NULL && cli_names_folder(output));
    code = run_all(&job);
    coffer_close(job.model);
    return code;
}
