/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers share one struct under one mutex: which row is next, what is done, the first failure. A worker holds the mutex
 * when it takes a row, and once for each piece of a long one.
 */
#include "digest.h"

#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "os.h"
#include "sort.h"

#include <string.h>

/* What is hashed right after it was read is still in the processor's cache, and what is in a map costs no copy. */
#define DIGEST_READ_PIECE ((uint64_t)256 << 10)
#define DIGEST_MAP_PIECE ((uint64_t)4 << 20)
/* Of what is far away: a journey is worth more, and several are made side by side. */
#define DIGEST_FAR_PIECE ((uint64_t)2 << 20)
#define DIGEST_ALONE_SIZE ((uint64_t)1 << 20) /* below it starting a thread costs more than it brings */
#define DIGEST_DEFAULT_THREADS 16u
#define DIGEST_MOST_THREADS 64u
#define DIGEST_ALGORITHMS (COFFER_XXH3_128 + 1)

typedef struct digest_job {
    const coffer__digest_row *rows;
    size_t count;
    const uint32_t *order; /* the longest first */
    uint64_t total;
    coffer_error *err;
    size_t *failed;
    coffer__mutex mutex;       /* guards everything below, *err and *failed */
    coffer__condition changed; /* woken for the caller's thread, while that waits */
    bool waiting;
    size_t working; /* threads besides the caller's that have not ended */
    size_t next;    /* in the order */
    uint64_t done;
    coffer_status status;
} digest_job;

typedef struct digest_worker {
    digest_job *job;
    coffer__thread thread;
    coffer_hasher *hashers[DIGEST_ALGORITHMS]; /* of those that rows ask for */
    uint8_t *buffer;                           /* for a piece that is read; NULL: no row needs it */
    const coffer__transfer_options *options;   /* the caller's worker only: whose progress it tells */
    coffer__watch watch;                       /* given to what reads from far away */
} digest_worker;

/* ---- what the workers share -------------------------------------------------------------------------------------- */

/* Keeps the first failure; the others have lost. */
static void digest_fail(digest_job *job, coffer_status status, const coffer_error *error, const coffer__digest_row *row)
{
    coffer__os_mutex_lock(&job->mutex);
    if (job->status == COFFER_OK) {
        job->status = status;
        if (row != NULL && job->failed != NULL) {
            *job->failed = (size_t)(row - job->rows);
        }
        if (job->err != NULL) {
            *job->err = *error;
        }
    }
    coffer__os_mutex_unlock(&job->mutex);
}

/* Counts what was done. *so_far is all that was; false when somebody failed, and nobody is to go on. */
static bool digest_advance(digest_job *job, uint64_t done, uint64_t *so_far)
{
    coffer__os_mutex_lock(&job->mutex);
    job->done += done;
    *so_far = job->done;
    const bool go_on = job->status == COFFER_OK;
    if (job->waiting) {
        coffer__os_condition_wake(&job->changed);
    }
    coffer__os_mutex_unlock(&job->mutex);
    return go_on;
}

static const coffer__digest_row *digest_take(digest_job *job)
{
    coffer__os_mutex_lock(&job->mutex);
    const bool more = job->status == COFFER_OK && job->next < job->count;
    const coffer__digest_row *row = more ? &job->rows[job->order[job->next++]] : NULL;
    coffer__os_mutex_unlock(&job->mutex);
    return row;
}

/* Tells the caller, unless all is done: the last word is spoken at the end. False when the answer was to stop. */
static bool digest_tell(digest_job *job, const coffer__transfer_options *options, uint64_t so_far)
{
    if (options == NULL || options->progress == NULL || so_far >= job->total ||
        options->progress(options->progress_ctx, so_far, job->total) == 0) {
        return true;
    }
    coffer_error error;
    const coffer_status status = coffer__fail(&error, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    digest_fail(job, status, &error, NULL);
    return false;
}

/* Whether a worker that waits for something far away need not wait any longer. */
static bool digest_stop(void *ctx)
{
    const digest_worker *worker = ctx;
    uint64_t so_far = 0;
    return !digest_advance(worker->job, 0, &so_far) || !digest_tell(worker->job, worker->options, so_far);
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

/* The bytes of a piece in memory: in the map, or read to where they are wanted or into the buffer. */
static coffer_status digest_fetch(const digest_worker *worker, const coffer__digest_row *row, uint64_t at,
                                  uint64_t size, const uint8_t **bytes, coffer_error *err)
{
    uint8_t *to = row->to != NULL ? row->to + (size_t)at : worker->buffer;
    if (row->map == NULL) {
        *bytes = to;
        return coffer__source_read_watched(row->source, row->offset + at, to, (size_t)size, &worker->watch, err);
    }
    *bytes = row->map + (size_t)(row->offset + at);
    if (row->to != NULL) {
        memcpy(to, *bytes, (size_t)size);
        *bytes = to;
    }
    return COFFER_OK;
}

static bool digest_is_far(const coffer__digest_row *row)
{
    return row->map == NULL && row->source->ops->read_watched != NULL;
}

/* Bytes that are read, or looked at in the map, at a stretch. */
static uint64_t digest_piece(const coffer__digest_row *row)
{
    if (row->map != NULL && row->to == NULL) {
        return DIGEST_MAP_PIECE;
    }
    return digest_is_far(row) ? DIGEST_FAR_PIECE : DIGEST_READ_PIECE;
}

static coffer_status digest_row(const digest_worker *worker, const coffer__digest_row *row, coffer_error *err)
{
    const uint64_t most = digest_piece(row);
    coffer_hasher *hasher = worker->hashers[row->algorithm];
    uint64_t so_far = 0;
    for (uint64_t at = 0; at < row->size;) {
        const uint64_t size = row->size - at < most ? row->size - at : most;
        const uint8_t *bytes = NULL;
        coffer_status status = digest_fetch(worker, row, at, size, &bytes, err);
        if (status == COFFER_OK && hasher != NULL) {
            status = coffer_hasher_update(hasher, bytes, (size_t)size, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        at += size;
        if (!digest_advance(worker->job, size, &so_far) || !digest_tell(worker->job, worker->options, so_far)) {
            return COFFER_OK; /* somebody failed, and said so */
        }
    }
    return hasher == NULL
               ? COFFER_OK
               : coffer_hasher_finish(hasher, row->digest, coffer_algorithm_digest_size(row->algorithm), err);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static void digest_work(const digest_worker *worker)
{
    const coffer__digest_row *row = digest_take(worker->job);
    while (row != NULL) {
        coffer_error error;
        coffer__error_clear(&error);
        const coffer_status status = digest_row(worker, row, &error);
        if (status != COFFER_OK) {
            digest_fail(worker->job, status, &error, row);
        }
        row = digest_take(worker->job);
    }
}

static void digest_thread(void *arg)
{
    const digest_worker *worker = arg;
    digest_job *job = worker->job;
    digest_work(worker);
    coffer__os_mutex_lock(&job->mutex);
    job->working--;
    coffer__os_condition_wake(&job->changed);
    coffer__os_mutex_unlock(&job->mutex);
}

/* Waits for the other workers, and tells what they do meanwhile. */
static void digest_wait(digest_job *job, const coffer__transfer_options *options)
{
    coffer__os_mutex_lock(&job->mutex);
    while (job->working > 0) {
        job->waiting = true;
        (void)coffer__os_condition_wait(&job->changed, &job->mutex, COFFER__WATCH_MS);
        job->waiting = false;
        const uint64_t so_far = job->done;
        const bool telling = job->status == COFFER_OK;
        coffer__os_mutex_unlock(&job->mutex);
        if (telling) {
            (void)digest_tell(job, options, so_far);
        }
        coffer__os_mutex_lock(&job->mutex);
    }
    coffer__os_mutex_unlock(&job->mutex);
}

/* Starts the other workers, works, and waits for them. A thread that cannot be started is one worker less. */
static void digest_run_workers(digest_job *job, digest_worker *workers, size_t count)
{
    size_t started = 1;
    job->working = count - 1;
    while (started < count &&
           coffer__os_thread_start(&workers[started].thread, digest_thread, &workers[started]) == 0) {
        started++;
    }
    coffer__os_mutex_lock(&job->mutex);
    job->working -= count - started;
    coffer__os_mutex_unlock(&job->mutex);
    digest_work(&workers[0]);
    digest_wait(job, workers[0].options);
    for (size_t i = 1; i < started; i++) {
        coffer__os_thread_join(&workers[i].thread);
    }
}

/* Threads that are worth while, the caller's included. */
static size_t digest_thread_count(const digest_job *job, uint32_t wanted)
{
    uint64_t count = wanted;
    bool far = false;
    for (size_t i = 0; i < job->count && !far; i++) {
        far = digest_is_far(&job->rows[i]);
    }
    if (wanted == 0 && far) {
        count = DIGEST_DEFAULT_THREADS; /* which mostly wait */
    } else if (wanted == 0) {
        const unsigned processors = coffer__os_processors();
        count = processors < DIGEST_DEFAULT_THREADS ? processors : DIGEST_DEFAULT_THREADS;
    }
    count = count < DIGEST_MOST_THREADS ? count : DIGEST_MOST_THREADS;
    const uint64_t worth = job->total / DIGEST_ALONE_SIZE + 1;
    count = count < worth ? count : worth;
    return (size_t)(job->count > 0 && count > job->count ? job->count : count);
}

/* Bytes of the buffer that a worker needs for the rows; 0 when all of them go elsewhere. */
static size_t digest_buffer_size(const digest_job *job)
{
    uint64_t most = 0;
    for (size_t i = 0; i < job->count; i++) {
        const coffer__digest_row *row = &job->rows[i];
        const uint64_t piece = digest_piece(row);
        const bool needed = row->map == NULL && row->to == NULL && row->size > 0;
        most = needed && piece > most ? piece : most;
    }
    return (size_t)most;
}

/* Gives a worker a hasher of each algorithm that rows ask for. */
static coffer_status digest_make_hashers(digest_worker *worker, const coffer_allocator *allocator, coffer_error *err)
{
    const digest_job *job = worker->job;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < job->count && status == COFFER_OK; i++) {
        const coffer_algorithm algorithm = job->rows[i].algorithm;
        if (worker->hashers[algorithm] == NULL && algorithm != COFFER_NO_ALGORITHM) {
            status = coffer_hasher_new(&worker->hashers[algorithm], algorithm, allocator, err);
        }
    }
    return status;
}

static void digest_free_hashers(digest_worker *worker)
{
    for (size_t i = 0; i < DIGEST_ALGORITHMS; i++) {
        coffer_hasher_free(worker->hashers[i]);
    }
}

static coffer_status digest_run_job(digest_job *job, const coffer__transfer_options *options, coffer_error *err)
{
    const coffer_allocator *allocator = options->allocator;
    const size_t count = digest_thread_count(job, options->threads);
    const size_t buffer_size = digest_buffer_size(job);
    const size_t block_size = count * (sizeof(digest_worker) + buffer_size);
    digest_worker *workers = coffer__alloc(allocator, block_size);
    if (workers == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %u bytes that hashing works with",
                            (uint64_t)block_size);
    }
    uint8_t *buffers = (uint8_t *)(workers + count);
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < count; i++) {
        workers[i] = (digest_worker){ .job = job, .options = i == 0 ? options : NULL };
        workers[i].watch = (coffer__watch){ digest_stop, &workers[i] };
        workers[i].buffer = buffer_size > 0 ? buffers + i * buffer_size : NULL;
        status = status == COFFER_OK ? digest_make_hashers(&workers[i], allocator, err) : status;
    }
    if (status == COFFER_OK) {
        digest_run_workers(job, workers, count);
        status = job->status;
    }
    for (size_t i = 0; i < count; i++) {
        digest_free_hashers(&workers[i]);
    }
    coffer__free(allocator, workers, block_size);
    return status;
}

static bool digest_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__digest_row *rows = ctx;
    return rows[a].size != rows[b].size ? rows[a].size > rows[b].size : a < b;
}

/* Orders the rows, runs the job under its mutex and condition. */
static coffer_status digest_run_ordered(digest_job *job, uint32_t *order, const coffer__transfer_options *options,
                                        coffer_error *err)
{
    for (size_t i = 0; i < job->count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, job->count, digest_before, job->rows);
    job->order = order;
    int os_error = coffer__os_mutex_init(&job->mutex);
    if (os_error == 0) {
        os_error = coffer__os_condition_init(&job->changed);
        if (os_error != 0) {
            coffer__os_mutex_deinit(&job->mutex);
        }
    }
    if (os_error != 0) {
        coffer__fail(err, COFFER_ERR_IO, "the system gives no mutex");
        return coffer__fail_errno(err, COFFER_ERR_IO, os_error);
    }
    const coffer_status status = digest_run_job(job, options, err);
    coffer__os_condition_deinit(&job->changed);
    coffer__os_mutex_deinit(&job->mutex);
    return status;
}

coffer_status coffer__digest(const coffer__digest_row *rows, size_t count, const coffer__transfer_options *options,
                             coffer_error *err)
{
    digest_job job = { .rows = rows, .count = count, .err = err, .failed = options->failed };
    for (size_t i = 0; i < count; i++) {
        if (!coffer__add_u64(job.total, rows[i].size, &job.total)) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "more than 2^64-1 bytes cannot be hashed at once");
        }
    }
    const size_t order_size = (count + 1) * sizeof(uint32_t);
    uint32_t *order = count < UINT32_MAX / sizeof *order ? coffer__alloc(options->allocator, order_size) : NULL;
    if (order == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to order %u tensors", (uint64_t)count);
    }
    coffer_status status = digest_run_ordered(&job, order, options, err);
    coffer__free(options->allocator, order, order_size);
    if (status == COFFER_OK && options->progress != NULL &&
        options->progress(options->progress_ctx, job.total, job.total) != 0) {
        status = coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    }
    return status;
}
