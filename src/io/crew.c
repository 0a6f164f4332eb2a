/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"

#include "error.h"

/* ---- failing and telling ----------------------------------------------------------------------------------------- */

void coffer__crew_fail(coffer__crew *crew, coffer_status status, const coffer_error *error, size_t row)
{
    coffer__os_mutex_lock(&crew->mutex);
    if (crew->status == COFFER_OK) {
        crew->status = status;
        if (row != COFFER__CREW_NO_ROW && crew->failed != NULL) {
            *crew->failed = row;
        }
        if (crew->err != NULL) {
            *crew->err = *error;
        }
    }
    coffer__os_mutex_unlock(&crew->mutex);
}

static void crew_cancel(coffer__crew *crew)
{
    coffer_error error;
    const coffer_status status = coffer__fail(&error, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    coffer__crew_fail(crew, status, &error, COFFER__CREW_NO_ROW);
}

/* Whether a worker is to end, as things stood a moment ago. The mutex is free while the user answers: it may take long, and the others
   need the mutex to go on. */
static bool crew_ask(const coffer__crew_worker *worker, bool failed, uint64_t done)
{
    coffer__crew *crew = worker->crew;
    const bool last = done >= crew->total && crew->total > 0;
    if (failed || !worker->is_caller || crew->progress == NULL || last) {
        return failed;
    }
    if (crew->progress(crew->progress_ctx, done, crew->total) == 0) {
        return false;
    }
    crew_cancel(crew);
    return true;
}

bool coffer__crew_stop(const coffer__crew_worker *worker, uint64_t more)
{
    coffer__crew *crew = worker->crew;
    coffer__os_mutex_lock(&crew->mutex);
    const bool failed = crew->status != COFFER_OK;
    const uint64_t done = crew->done + more;
    coffer__os_mutex_unlock(&crew->mutex);
    return crew_ask(worker, failed, done);
}

bool coffer__crew_advance(const coffer__crew_worker *worker, uint64_t size)
{
    coffer__crew *crew = worker->crew;
    coffer__os_mutex_lock(&crew->mutex);
    crew->done += size;
    const bool failed = crew->status != COFFER_OK;
    const uint64_t done = crew->done;
    coffer__os_condition_wake(&crew->changed);
    coffer__os_mutex_unlock(&crew->mutex);
    return crew_ask(worker, failed, done);
}

static bool crew_worker_stop(void *ctx)
{
    return coffer__crew_stop(ctx, 0);
}

static bool crew_anyone_stop(void *ctx)
{
    coffer__crew *crew = ctx;
    coffer__os_mutex_lock(&crew->mutex);
    const bool failed = crew->status != COFFER_OK;
    const coffer__crew_worker *alone = crew->alone;
    coffer__os_mutex_unlock(&crew->mutex);
    return alone != NULL ? coffer__crew_stop(alone, 0) : failed;
}

coffer__watch coffer__crew_watch(coffer__crew *crew)
{
    return (coffer__watch){ crew_anyone_stop, crew };
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void crew_thread(void *arg)
{
    coffer__crew_worker *worker = arg;
    coffer__crew *crew = worker->crew;
    crew->work(worker);
    coffer__os_mutex_lock(&crew->mutex);
    crew->working--;
    if (crew->working == 0) {
        coffer__os_condition_wake(&crew->changed);
    }
    coffer__os_mutex_unlock(&crew->mutex);
}

/* Waits for the other workers. What they wait for may be far away, so the user is asked meanwhile whether it is still wanted. */
static void crew_wait(const coffer__crew_worker *caller)
{
    coffer__crew *crew = caller->crew;
    coffer__os_mutex_lock(&crew->mutex);
    while (crew->working > 0) {
        (void)coffer__os_condition_wait(&crew->changed, &crew->mutex, COFFER__WATCH_MS);
        coffer__os_mutex_unlock(&crew->mutex);
        (void)coffer__crew_stop(caller, 0);
        coffer__os_mutex_lock(&crew->mutex);
    }
    coffer__os_mutex_unlock(&crew->mutex);
}

static coffer__crew_worker *crew_worker_at(void *workers, size_t i, size_t size)
{
    void *worker = (uint8_t *)workers + i * size;
    return worker;
}

static coffer__crew_worker *crew_make_worker(coffer__crew *crew, void *workers, size_t i, size_t size)
{
    coffer__crew_worker *worker = crew_worker_at(workers, i, size);
    *worker = (coffer__crew_worker){ .crew = crew, .is_caller = i == 0 };
    worker->watch = (coffer__watch){ crew_worker_stop, worker };
    return worker;
}

/* Starts the other workers, works, and waits for them. */
static void crew_work(coffer__crew *crew, void *workers, size_t count, size_t size)
{
    coffer__crew_worker *caller = crew_make_worker(crew, workers, 0, size);
    size_t started = 1;
    crew->working = count - 1;
    for (; started < count; started++) {
        coffer__crew_worker *worker = crew_make_worker(crew, workers, started, size);
        if (coffer__os_thread_start(&worker->thread, crew_thread, worker, crew->own_code) != 0) {
            break;
        }
    }
    coffer__os_mutex_lock(&crew->mutex);
    crew->working -= count - started;
    crew->alone = started == 1 ? caller : NULL;
    coffer__os_mutex_unlock(&crew->mutex);
    if (!crew->caller_asks || started == 1) {
        crew->work(caller);
    }
    crew_wait(caller);
    for (size_t i = 1; i < started; i++) {
        coffer__os_thread_join(&crew_worker_at(workers, i, size)->thread);
    }
}

static coffer_status crew_init(coffer__crew *crew)
{
    int os_error = coffer__os_mutex_init(&crew->mutex);
    if (os_error == 0) {
        os_error = coffer__os_condition_init(&crew->changed);
        if (os_error != 0) {
            coffer__os_mutex_deinit(&crew->mutex);
        }
    }
    if (os_error != 0) {
        coffer__fail(crew->err, COFFER_ERR_IO, "the system cannot make a mutex");
        return coffer__fail_errno(crew->err, COFFER_ERR_IO, os_error);
    }
    return COFFER_OK;
}

coffer_status coffer__crew_run(coffer__crew *crew, void *workers, size_t count, size_t size)
{
    const coffer_status status = crew_init(crew);
    if (status != COFFER_OK) {
        return status;
    }
    crew_work(crew, workers, count, size);
    const bool complete = crew->status == COFFER_OK && crew->done >= crew->total;
    if (complete && crew->progress != NULL && crew->progress(crew->progress_ctx, crew->total, crew->total) != 0) {
        crew_cancel(crew);
    }
    coffer__os_condition_deinit(&crew->changed);
    coffer__os_mutex_deinit(&crew->mutex);
    return crew->status;
}
