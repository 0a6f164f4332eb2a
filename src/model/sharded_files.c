/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the files of a model: several threads read their headers. Which failure is reported does
 * not depend on timing: it is that of the first shard that has one. Each shard belongs to the
 * worker that took it; the queue and the failure are guarded by the thread pool's mutex.
 */
#include "alloc.h"
#include "error.h"
#include "missing.h"
#include "os.h"
#include "sharded.h"
#include "thread_pool.h"
#include "web.h"

#include <string.h>

/* Reading a header is waiting, most of all on a network file system, so the number of processors is
   no bound. */
#define FILES_THREADS 16u
/* From a server it is nothing but waiting, so most models are asked for all their files at once:
   each turn less saves a round trip. A connection takes three descriptors, and half of those that
   the process may have are left to it. */
#define FILES_THREADS_FAR 192u
#define FILES_DESCRIPTORS_FAR 6u

/* One for all workers, on the stack of the thread that opens the model. `model`, `files` and
   `options` are constant while they run. */
typedef struct files_job {
    coffer *model;
    const coffer__index_shard *files;
    const coffer_open_options *options;
    coffer__thread_pool thread_pool; /* its mutex guards what follows; it counts shards */
    size_t next;                     /* the shard to take next */
    size_t failed;                   /* the first that could not be opened */
    coffer_error error;              /* why that one could not be opened */
} files_job;

typedef struct files_worker {
    coffer__thread_pool_worker base;
    files_job *job;
} files_worker;

/* Opens shard `i` and reads its header. `source.ops` is NULL if there is no source to close. It
   runs on a worker's thread. The shard is this worker's alone; what is shared are the pool, the
   allocator that takes turns and the client, each with a lock of its own. */
static coffer_status files_open_one(const files_job *job, size_t i, coffer_error *err)
{
    coffer__sharded *sharded = job->model->sharded;
    coffer__shard *shard = &job->model->shards[i];
    const coffer__name file = job->files[i].file;
    coffer_status status = coffer__model_dir_open(&sharded->place, file, &sharded->allocator, &sharded->pool,
                                                  &shard->pooled, &shard->source, err);
    if (status != COFFER_OK) {
        shard->source.ops = NULL;
        return status;
    }
    shard->access = job->options->access;
    shard->populate = job->options->populate;
    status = coffer__shard_read_header(shard, shard->pooled.path, &sharded->allocator, job->options, err);
    /* This is checked whether the header was understood or not: what was read may have been the
       middle of an edit. */
    const coffer_status again =
        shard->pooled.path == NULL ? COFFER_OK : coffer__source_path_again(&shard->source, shard->pooled.path, err);
    return again == COFFER_OK ? status : again;
}

/* Takes the next shard; false when there is none. Shards after one that has failed are not opened,
   but all before it are, since one of them may fail and is then the first. Shards are taken in
   order, which makes the first failure independent of timing: everything below the lowest failed
   shard has been taken by then and will be opened. */
static bool files_take(files_job *job, size_t *i)
{
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    /* `failed` begins as the number of shards, so it bounds both cases. */
    const bool taken = job->next < job->failed;
    *i = taken ? job->next++ : 0;
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return taken;
}

/* Opens the next shard; false when there is none. Of two failures the one of the lower shard is
   kept. The error is copied under the lock, so that it always belongs to `failed`. */
static bool files_work_once(files_job *job)
{
    size_t i = 0;
    if (!files_take(job, &i)) {
        return false;
    }
    /* Opening runs outside the lock. */
    coffer_error error;
    const coffer_status status = files_open_one(job, i, &error);
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    if (status == COFFER_OK) {
        job->thread_pool.done++;
    } else if (i < job->failed) {
        job->failed = i;
        job->error = error;
    }
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return true;
}

/* Between two shards it asks the thread pool whether to stop: after a cancel no new file is opened, and
   files in progress are given up by the watch. */
static void files_work(void *arg)
{
    const files_worker *worker = arg;
    while (!coffer__thread_pool_stop(&worker->base, 0) && files_work_once(worker->job)) {}
}

/* How many files are asked for at once. With very few descriptors the result may be 0; files_run
   then uses one thread. */
static size_t files_threads(const coffer__model_dir *place)
{
    if (place->web == NULL) {
        return FILES_THREADS;
    }
    const size_t connections = coffer__os_descriptors() / FILES_DESCRIPTORS_FAR;
    return connections < FILES_THREADS_FAR ? connections : FILES_THREADS_FAR;
}

/* Runs the thread pool. The watch lives on this stack, so the web gets its previous one back before the
   function returns. `failed` is the number of shards at first, so it bounds the threads, too. The
   array of workers is for the largest thread pool: a few KiB of the caller's stack. */
static coffer_status files_run(files_job *job, coffer_error *err)
{
    files_worker workers[FILES_THREADS_FAR + 1];
    coffer__web *web = job->model->sharded->place.web;
    const size_t bound = files_threads(&job->model->sharded->place);
    const size_t most = job->failed < bound ? job->failed : bound;
    job->thread_pool = (coffer__thread_pool){
        .work = files_work,
        .progress = job->options->progress,
        .progress_ctx = job->options->progress_ctx,
        .total = job->failed,
        .err = err,
        /* While all workers wait for a server, the calling thread asks the user whether to go on. */
        .caller_asks = web != NULL && job->options->progress != NULL,
    };
    const size_t others = job->thread_pool.caller_asks ? 1 : 0;
    const coffer__watch watch = coffer__thread_pool_watch(&job->thread_pool);
    const coffer__watch *before = web == NULL ? NULL : coffer__web_watch(web, &watch);
    for (size_t i = 0; i < FILES_THREADS_FAR + 1; i++) {
        workers[i].job = job;
    }
    const coffer_status status =
        coffer__thread_pool_run(&job->thread_pool, workers, most == 0 ? 1 : most + others, sizeof workers[0]);
    if (web != NULL) {
        (void)coffer__web_watch(web, before);
    }
    return status;
}

/* Gives the shards their paths, as they are shown. This is done before anything is opened, so that
   every failure can name its file. A path that is too long stays as far as it was joined; opening
   that file then says so. */
static coffer_status files_set_paths(coffer *model, const coffer__index_shard *files, coffer_error *err)
{
    for (size_t i = 0; i < model->shard_count; i++) {
        coffer__path path;
        (void)coffer__model_dir_join(&model->sharded->place, files[i].file, &path);
        const coffer_status status =
            coffer__shard_set_path(&model->shards[i], path.text, &model->sharded->allocator, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* Counts a file as missing if there is none at its path. One whose path is too long is missing as far as this program is
   concerned. */
static void files_look_for(coffer__missing *missing, const char *path, coffer__name name)
{
    if (path != NULL && coffer__os_exists(path)) {
        return;
    }
    if (missing->count < COFFER__MISSING_NAMED) {
        (void)coffer__text_append(missing->names[missing->count], sizeof missing->names[0], name.text, name.len);
    }
    missing->count++;
}

/* One missing file is reported together with all that are missing. Not for files at a URL, since
   each would have to be asked for again. Looking is done only after a failure, and costs one system
   call for each file. If another program has fetched them by now, the first failure stands. */
static void files_tell_missing(const coffer *model, const coffer__index_shard *files, coffer_error *err)
{
    coffer__missing missing = { .count = 0 };
    for (size_t i = 0; model->sharded->place.web == NULL && i < model->shard_count; i++) {
        files_look_for(&missing, model->shards[i].path, files[i].file);
    }
    if (missing.count > 1 && err != NULL) {
        const int os_error = err->os_error;
        coffer__missing_fail(&missing, model->shard_count,
                             "the download is incomplete, or the index is of another model", err);
        coffer__fail_errno(err, COFFER_ERR_SHARD_MISSING, os_error);
    }
}

/* Lets the threads read all headers. The error is that of the first shard that has one. A failure
   of the thread pool itself, such as a cancel, comes before that of a shard. */
static coffer_status files_open_all(files_job *job, coffer_error *err)
{
    coffer *model = job->model;
    const coffer_status status = files_run(job, err);
    if (status != COFFER_OK || job->failed == model->shard_count) {
        return status;
    }
    if (err != NULL) {
        *err = job->error;
    }
    /* One message for all files that are missing. */
    if (job->error.code == COFFER_ERR_SHARD_MISSING) {
        files_tell_missing(model, job->files, err);
    }
    return coffer__fail_path(err, job->error.code, model->shards[job->failed].path);
}

coffer_status coffer__sharded_open_files(coffer *model, const coffer__index_shard *files, size_t count,
                                         const coffer_open_options *options, coffer_error *err)
{
    coffer_status status = coffer__model_make_shards(model, count, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = files_set_paths(model, files, err);
    if (status != COFFER_OK) {
        return status;
    }
    files_job job = { .model = model, .files = files, .options = options, .failed = count };
    return files_open_all(&job, err);
}
