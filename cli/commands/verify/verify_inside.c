/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying files by the digests inside them. A model of several files is opened as one; then each
 * file is verified for itself, so that what is missing in it shows, too, and so that a state can
 * keep which files are done.
 */
#include "cli_files.h"
#include "cli_interrupt.h"
#include "cli_report.h"
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tensors of a model that are verified together. */
typedef struct inside_job {
    verify_run *run;
    const char *path;
    const coffer *model;
    const coffer_tensor **tensors;
    bool *sound;
    size_t count;
} inside_job;

/* The word and the sentence for what is wrong with a file but with none of its tensors. */
static void show_failure(const inside_job *job, const coffer_error *err)
{
    verify_run *run = job->run;
    /* Of several files the failure says which. */
    const char *path = coffer_shard_count(job->model) > 1 && err->path[0] != '\0' ? err->path : job->path;
    switch (err->code) {
    case COFFER_ERR_NO_DIGESTS:
    case COFFER_ERR_DIGESTS:
        verify_show_problem(run, path, NULL, "not verifiable", err->message);
        break;
    case COFFER_ERR_METADATA_DIGEST:
    case COFFER_ERR_TENSOR_DIGEST:
    case COFFER_ERR_CONTENT_DIGEST:
    case COFFER_ERR_PACK_HEAD:
    case COFFER_ERR_PACK_TABLE:
    case COFFER_ERR_PACK_CODE:
    case COFFER_ERR_PACK_STREAM:
    case COFFER_ERR_PACK_CHECKSUM:
        verify_show_problem(run, path, NULL, "changed", err->message);
        break;
    default:
        verify_show_trouble(run, path, err);
        break;
    }
}

/* Every tensor that is not what was recorded. Returns how many there are. */
static size_t show_tensors(const inside_job *job)
{
    size_t count = 0;
    for (size_t i = 0; i < job->count; i++) {
        if (!job->sound[i]) {
            verify_show_problem(job->run, job->path, job->tensors[i], "changed", "does not match its recorded digest");
            count++;
        }
    }
    return count;
}

/* Verifies the tensors of a job: all of a model, and what else the file records, when `all` is set. */
static coffer_status verify_tensors(const inside_job *job, bool all, coffer_error *err)
{
    coffer_digest_options options = COFFER_DIGEST_OPTIONS_INIT;
    cli_progress_part part = { &job->run->progress, 0 };
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    for (size_t i = 0; i < job->count; i++) {
        job->sound[i] = true; /* when nothing comes to be judged, the failure says why */
    }
    return coffer_verify(job->model, all ? NULL : job->tensors, job->count, job->sound, &options, err);
}

/* All of a packed file, whose original has a digest whether or not its tensors have. */
static coffer_status verify_packed(const inside_job *job, coffer_error *err)
{
    coffer_digest_options options = COFFER_DIGEST_OPTIONS_INIT;
    cli_progress_part part = { &job->run->progress, 0 };
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    return coffer_verify_packed(job->model, 0, &options, err);
}

static void run_job(const inside_job *job, bool all)
{
    coffer_error err;
    char how[160];
    verify_run *run = job->run;
    const bool packed = all && coffer_shard_is_packed(job->model, 0);
    if (packed && verify_packed(job, &err) != COFFER_OK) {
        show_failure(job, &err);
        return;
    }
    const coffer_status status = verify_tensors(job, all, &err);
    if (status == COFFER_OK) {
        snprintf(how, sizeof how, "%zu tensor%s, %s%s", job->count, job->count == 1 ? "" : "s",
                 coffer_algorithm_name(coffer_recorded_algorithm(job->model, 0)),
                 packed ? "; the whole original, sha256" : "");
        verify_show_sound(run, job->path, how);
    } else if (status == COFFER_ERR_NO_DIGESTS && packed) {
        verify_show_sound(run, job->path, "the whole original, sha256");
    } else if (status != COFFER_ERR_TENSOR_DIGEST || show_tensors(job) == 0) {
        show_failure(job, &err);
    }
}

/* Fills the job with the tensors that the pattern takes, all without one. False without memory. */
static bool choose_tensors(inside_job *job)
{
    const size_t count = coffer_count(job->model);
    job->tensors = calloc(count + 1, sizeof(void *));
    job->sound = calloc(count + 1, sizeof *job->sound);
    if (job->tensors == NULL || job->sound == NULL) {
        job->run->code = cli_fail_memory(job->run->app, job->path);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = coffer_at(job->model, i);
        if (cli_filter_takes(&job->run->filter, tensor)) {
            job->tensors[job->count++] = tensor;
            job->run->bytes += tensor->size;
        }
    }
    return true;
}

static void verify_model(verify_run *run, const char *path, const coffer *model, bool all)
{
    inside_job job = { .run = run, .path = path, .model = model };
    if (!choose_tensors(&job)) {
        run->code = CLI_EXIT_UNREADABLE;
    } else if (job.count == 0 && !all) {
        verify_show_problem(run, path, NULL, "no such tensor", "has no tensor of that name");
    } else {
        run_job(&job, all);
    }
    free(job.sound);
    free(job.tensors);
}

/* One file, as a model of its own. */
static void verify_file(verify_run *run, const char *path)
{
    cli_identity before = { .size = 0 };
    cli_identity after = { .size = 0 };
    const int64_t begun = cli_now();
    const bool identified = cli_identify(path, &before);
    if (identified && cli_state_has(run->state, CLI_STATE_DIGESTS, &before)) {
        cli_progress_add(&run->progress, before.size);
        run->unread++;
        verify_show_sound(run, path, "verified before");
        return;
    }
    coffer_error err;
    coffer *model = NULL;
    const size_t problems = run->problems;
    if (cli_open_quietly(&model, path, false, &err) != COFFER_OK) {
        verify_show_trouble(run, path, &err);
        return;
    }
    verify_model(run, path, model, true);
    coffer_close(model);
    if (run->problems == problems && identified && cli_identify(path, &after) && cli_same_identity(&before, &after)) {
        cli_state_add(run->state, CLI_STATE_DIGESTS, &before, begun);
    }
}

/* Whether the files belong together, which each of them by itself does not tell. */
static void verify_whole(verify_run *run, const char *path, const coffer *model)
{
    coffer_error err;
    char how[80];
    const coffer_tensor *none = NULL;
    const coffer_algorithm algorithm = coffer_recorded_content(model);
    const inside_job job = { .run = run, .path = path, .model = model };
    if (coffer_verify(model, &none, 0, NULL, NULL, &err) != COFFER_OK) {
        show_failure(&job, &err);
    } else if (algorithm != COFFER_NO_ALGORITHM) {
        snprintf(how, sizeof how, "%zu files, as the index records them, %s", coffer_shard_count(model),
                 coffer_algorithm_name(algorithm));
        verify_show_sound(run, path, how);
    } else if (run->problems == 0) {
        cli_remark_path(run->app, path, "the index does not record that the files belong together%s",
                        cli_is_packed(model) ? "" : ": `coffer hash --write` records it");
    }
}

static uint64_t size_of(const coffer *model)
{
    uint64_t size = 0;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        size += coffer_shard_size(model, i);
    }
    return size;
}

void verify_inside(verify_run *run, const char *path)
{
    coffer_error err;
    coffer *model = NULL;
    if (cli_open_quietly(&model, path, false, &err) != COFFER_OK) {
        verify_show_trouble(run, path, &err);
        return;
    }
    cli_progress_begin(&run->progress, run->app, "verifying", size_of(model));
    if (run->filter.count > 0 || strcmp(path, "-") == 0) {
        verify_model(run, path, model, run->filter.count == 0);
    } else if (coffer_shard_count(model) == 1) {
        verify_file(run, path);
    } else {
        for (size_t i = 0; i < coffer_shard_count(model) && !cli_interrupted(); i++) {
            verify_file(run, coffer_shard_path(model, i));
        }
        if (!cli_interrupted()) {
            verify_whole(run, path, model);
        }
    }
    cli_progress_finish(&run->progress);
    coffer_close(model);
}
