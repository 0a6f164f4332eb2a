/* SPDX-License-Identifier: Apache-2.0 */
#include "thread_pool.h"

#include "error.h"

/* ---- failing and telling ----------------------------------------------------------------------------------------- */

/* Whether a failure is the answer so far. With the mutex held. */
static bool thread_pool_counts(const coffer__thread_pool *thread_pool, uint64_t at, coffer_status status)
{
    return thread_pool->status == COFFER_OK || (thread_pool->status != COFFER_ERR_CANCELLED &&
                                                status != COFFER_ERR_CANCELLED && at < thread_pool->failed_at);
}

void coffer__thread_pool_fail_at(coffer__thread_pool *thread_pool, uint64_t at, coffer_status status,
                                 const coffer_error *error, size_t row)
{
    coffer__os_mutex_lock(&thread_pool->mutex);
    if (thread_pool_counts(thread_pool, at, status)) {
        thread_pool->status = status;
        thread_pool->failed_at = at;
        if (row != COFFER__THREAD_POOL_NO_ROW && thread_pool->failed != NULL) {
            *thread_pool->failed = row;
        }
        if (thread_pool->err != NULL) {
            *thread_pool->err = *error;
        }
    }
    coffer__os_mutex_unlock(&thread_pool->mutex);
}

/* Failures without a place lose to each other by time alone. */
void coffer__thread_pool_fail(coffer__thread_pool *thread_pool, coffer_status status, const coffer_error *error,
                              size_t row)
{
    coffer__thread_pool_fail_at(thread_pool, UINT64_MAX, status, error, row);
}

/* Being cancelled is a failure like any other, and loses to one that came first. */
static void thread_pool_cancel(coffer__thread_pool *thread_pool)
{
    coffer_error error;
    const coffer_status status = coffer__fail(&error, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    coffer__thread_pool_fail(thread_pool, status, &error, COFFER__THREAD_POOL_NO_ROW);
}

/* Whether a worker should end. `failed` and `done` were read under the mutex a moment ago and may
   be out of date, which costs one more piece at most. The mutex is free while the user answers: the
   answer may take long, and the others need the mutex to continue. */
static bool thread_pool_ask(const coffer__thread_pool_worker *worker, bool failed, uint64_t done)
{
    coffer__thread_pool *thread_pool = worker->thread_pool;
    const bool last = done >= thread_pool->total && thread_pool->total > 0;
    if (failed || !worker->is_caller || thread_pool->progress == NULL || last) {
        return failed;
    }
    if (thread_pool->progress(thread_pool->progress_ctx, done, thread_pool->total) == 0) {
        return false;
    }
    thread_pool_cancel(thread_pool);
    return true;
}

bool coffer__thread_pool_stop(const coffer__thread_pool_worker *worker, uint64_t more)
{
    coffer__thread_pool *thread_pool = worker->thread_pool;
    coffer__os_mutex_lock(&thread_pool->mutex);
    const bool failed = thread_pool->status != COFFER_OK;
    const uint64_t done = thread_pool->done + more;
    coffer__os_mutex_unlock(&thread_pool->mutex);
    return thread_pool_ask(worker, failed, done);
}

void coffer__thread_pool_tell(const coffer__thread_pool_worker *worker, uint64_t more)
{
    if (worker->is_caller && worker->thread_pool->progress != NULL) {
        (void)coffer__thread_pool_stop(worker, more);
    }
}

/* The wake-up lets the calling thread, if it waits in thread_pool_wait, tell the user at once how far
   things are. */
bool coffer__thread_pool_advance(const coffer__thread_pool_worker *worker, uint64_t size)
{
    coffer__thread_pool *thread_pool = worker->thread_pool;
    coffer__os_mutex_lock(&thread_pool->mutex);
    thread_pool->done += size;
    const bool failed = thread_pool->status != COFFER_OK;
    const uint64_t done = thread_pool->done;
    coffer__os_condition_wake(&thread_pool->changed);
    coffer__os_mutex_unlock(&thread_pool->mutex);
    return thread_pool_ask(worker, failed, done);
}

static bool thread_pool_worker_stop(void *ctx)
{
    return coffer__thread_pool_stop(ctx, 0);
}

/* Only where the calling thread is alone is the thread that asks known to be that one. */
static bool thread_pool_anyone_stop(void *ctx)
{
    coffer__thread_pool *thread_pool = ctx;
    coffer__os_mutex_lock(&thread_pool->mutex);
    const bool failed = thread_pool->status != COFFER_OK;
    const coffer__thread_pool_worker *alone = thread_pool->alone;
    coffer__os_mutex_unlock(&thread_pool->mutex);
    return alone != NULL ? coffer__thread_pool_stop(alone, 0) : failed;
}

coffer__watch coffer__thread_pool_watch(coffer__thread_pool *thread_pool)
{
    return (coffer__watch){ thread_pool_anyone_stop, thread_pool };
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* `working` is what thread_pool_wait waits for. The last thread wakes it under the mutex, so that the
   wake-up cannot fall between its check and its wait. */
static void thread_pool_thread(void *arg)
{
    coffer__thread_pool_worker *worker = arg;
    coffer__thread_pool *thread_pool = worker->thread_pool;
    thread_pool->work(worker);
    coffer__os_mutex_lock(&thread_pool->mutex);
    thread_pool->working--;
    if (thread_pool->working == 0) {
        coffer__os_condition_wake(&thread_pool->changed);
    }
    coffer__os_mutex_unlock(&thread_pool->mutex);
}

/* Waits for the other workers. What they wait for may be far away, so every COFFER__WATCH_MS, and
   whenever somebody made progress, the user is asked. The mutex is released for that. Whatever the
   answer is, the loop ends only when all have ended: they see the failure by themselves. */
static void thread_pool_wait(const coffer__thread_pool_worker *caller)
{
    coffer__thread_pool *thread_pool = caller->thread_pool;
    coffer__os_mutex_lock(&thread_pool->mutex);
    while (thread_pool->working > 0) {
        (void)coffer__os_condition_wait(&thread_pool->changed, &thread_pool->mutex, COFFER__WATCH_MS);
        coffer__os_mutex_unlock(&thread_pool->mutex);
        (void)coffer__thread_pool_stop(caller, 0);
        coffer__os_mutex_lock(&thread_pool->mutex);
    }
    coffer__os_mutex_unlock(&thread_pool->mutex);
}

/* Workers are structures of the caller's that begin with a coffer__thread_pool_worker. */
static coffer__thread_pool_worker *thread_pool_worker_at(void *workers, size_t i, size_t size)
{
    void *worker = (uint8_t *)workers + i * size;
    return worker;
}

/* The watch points at the worker, which stays where it is while the thread pool runs. */
static coffer__thread_pool_worker *thread_pool_make_worker(coffer__thread_pool *thread_pool, void *workers, size_t i,
                                                           size_t size)
{
    coffer__thread_pool_worker *worker = thread_pool_worker_at(workers, i, size);
    *worker = (coffer__thread_pool_worker){ .thread_pool = thread_pool, .is_caller = i == 0 };
    worker->watch = (coffer__watch){ thread_pool_worker_stop, worker };
    return worker;
}

/*
 * Starts the workers other than the first and returns how many workers there are then.
 *
 * `working` is set before the first thread starts, as that thread may end at once; those that could
 * not be started are subtracted afterwards. A thread pool of one takes no lock here.
 */
static size_t thread_pool_start(coffer__thread_pool *thread_pool, void *workers, size_t count, size_t size)
{
    const coffer__thread_pool_worker *caller = thread_pool_make_worker(thread_pool, workers, 0, size);
    size_t started = 1;
    thread_pool->working = count - 1;
    thread_pool->alone = count == 1 ? caller : NULL;
    for (; started < count; started++) {
        coffer__thread_pool_worker *worker = thread_pool_make_worker(thread_pool, workers, started, size);
        if (coffer__os_thread_start(&worker->thread, thread_pool_thread, worker, thread_pool->own_code) != 0) {
            break;
        }
    }
    if (started < count) {
        coffer__os_mutex_lock(&thread_pool->mutex);
        thread_pool->working -= count - started;
        thread_pool->alone = started == 1 ? caller : NULL;
        coffer__os_mutex_unlock(&thread_pool->mutex);
    }
    return started;
}

/* Works on the calling thread, too, waits, and joins. With caller_asks the calling thread leaves the
   work to the others, but only if there are others. Joining comes last: a thread that has left
   `working` still touches the mutex, which coffer__thread_pool_run destroys. */
static void thread_pool_work(coffer__thread_pool *thread_pool, void *workers, size_t count, size_t size)
{
    const size_t started = thread_pool_start(thread_pool, workers, count, size);
    if (!thread_pool->caller_asks || started == 1) {
        thread_pool->work(workers);
    }
    if (started > 1) {
        thread_pool_wait(workers);
    }
    for (size_t i = 1; i < started; i++) {
        coffer__os_thread_join(&thread_pool_worker_at(workers, i, size)->thread);
    }
}

/* The error of a failure is filled directly: there are no other threads yet. */
static coffer_status thread_pool_init(coffer__thread_pool *thread_pool)
{
    int os_error = coffer__os_mutex_init(&thread_pool->mutex);
    if (os_error == 0) {
        os_error = coffer__os_condition_init(&thread_pool->changed);
        if (os_error != 0) {
            coffer__os_mutex_close(&thread_pool->mutex);
        }
    }
    if (os_error != 0) {
        coffer__fail(thread_pool->err, COFFER_ERR_IO, "the system cannot make a mutex");
        return coffer__fail_errno(thread_pool->err, COFFER_ERR_IO, os_error);
    }
    return COFFER_OK;
}

/* All threads have been joined when the end is told, so thread_pool->status needs no lock there. The user
   may cancel even then, which makes the call fail. A thread pool that did less than the total without a
   failure, because what it did is not counted, does not tell the end. */
static void thread_pool_work_through(coffer__thread_pool *thread_pool, void *workers, size_t count, size_t size)
{
    thread_pool_work(thread_pool, workers, count, size);
    const bool complete = thread_pool->status == COFFER_OK && thread_pool->done >= thread_pool->total;
    if (complete && thread_pool->progress != NULL &&
        thread_pool->progress(thread_pool->progress_ctx, thread_pool->total, thread_pool->total) != 0) {
        thread_pool_cancel(thread_pool);
    }
}

static void thread_pool_close(coffer__thread_pool *thread_pool)
{
    coffer__os_condition_close(&thread_pool->changed);
    coffer__os_mutex_close(&thread_pool->mutex);
}

coffer_status coffer__thread_pool_run(coffer__thread_pool *thread_pool, void *workers, size_t count, size_t size)
{
    const coffer_status status = thread_pool_init(thread_pool);
    if (status != COFFER_OK) {
        return status;
    }
    thread_pool_work_through(thread_pool, workers, count, size);
    thread_pool_close(thread_pool);
    return thread_pool->status;
}

/* ---- in the background ------------------------------------------------------------------------------------------- */

static void thread_pool_background(void *arg)
{
    coffer__thread_pool *thread_pool = arg;
    thread_pool_work_through(thread_pool, thread_pool->workers, thread_pool->count, thread_pool->size);
}

coffer_status coffer__thread_pool_begin(coffer__thread_pool *thread_pool, void *workers, size_t count, size_t size)
{
    const coffer_status status = thread_pool_init(thread_pool);
    if (status != COFFER_OK) {
        return status;
    }
    thread_pool->workers = workers;
    thread_pool->count = count;
    thread_pool->size = size;
    const int os_error =
        coffer__os_thread_start(&thread_pool->background, thread_pool_background, thread_pool, thread_pool->own_code);
    if (os_error != 0) {
        thread_pool_close(thread_pool);
        coffer__fail(thread_pool->err, COFFER_ERR_IO, "the system cannot start a thread");
        return coffer__fail_errno(thread_pool->err, COFFER_ERR_IO, os_error);
    }
    return COFFER_OK;
}

coffer_status coffer__thread_pool_finish(coffer__thread_pool *thread_pool)
{
    coffer__os_thread_join(&thread_pool->background);
    thread_pool_close(thread_pool);
    return thread_pool->status;
}
