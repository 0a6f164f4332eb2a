/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"

#include "error.h"

/* ---- failing and telling ----------------------------------------------------------------------------------------- */

/* Whether a failure is the answer so far. With the mutex held. */
static bool crew_counts(const coffer__crew *crew, uint64_t at, coffer_status status)
{
    return crew->status == COFFER_OK ||
           (crew->status != COFFER_ERR_CANCELLED && status != COFFER_ERR_CANCELLED && at < crew->failed_at);
}

void coffer__crew_fail_at(coffer__crew *crew, uint64_t at, coffer_status status, const coffer_error *error, size_t row)
{
    coffer__os_mutex_lock(&crew->mutex);
    if (crew_counts(crew, at, status)) {
        crew->status = status;
        crew->failed_at = at;
        if (row != COFFER__CREW_NO_ROW && crew->failed != NULL) {
            *crew->failed = row;
        }
        if (crew->err != NULL) {
            *crew->err = *error;
        }
    }
    coffer__os_mutex_unlock(&crew->mutex);
}

/* Failures without a place lose to each other by time alone. */
void coffer__crew_fail(coffer__crew *crew, coffer_status status, const coffer_error *error, size_t row)
{
    coffer__crew_fail_at(crew, UINT64_MAX, status, error, row);
}

/* Being cancelled is a failure like any other, and loses to one that came first. */
static void crew_cancel(coffer__crew *crew)
{
    coffer_error error;
    const coffer_status status = coffer__fail(&error, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    coffer__crew_fail(crew, status, &error, COFFER__CREW_NO_ROW);
}

/* Whether a worker should end. `failed` and `done` were read under the mutex a moment ago and may
   be out of date, which costs one more piece at most. The mutex is free while the user answers: the
   answer may take long, and the others need the mutex to continue. */
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

void coffer__crew_tell(const coffer__crew_worker *worker, uint64_t more)
{
    if (worker->is_caller && worker->crew->progress != NULL) {
        (void)coffer__crew_stop(worker, more);
    }
}

/* The wake-up lets the calling thread, if it waits in crew_wait, tell the user at once how far
   things are. */
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

/* Only where the calling thread is alone is the thread that asks known to be that one. */
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

/* `working` is what crew_wait waits for. The last thread wakes it under the mutex, so that the
   wake-up cannot fall between its check and its wait. */
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

/* Waits for the other workers. What they wait for may be far away, so every COFFER__WATCH_MS, and
   whenever somebody made progress, the user is asked. The mutex is released for that. Whatever the
   answer is, the loop ends only when all have ended: they see the failure by themselves. */
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

/* Workers are structures of the caller's that begin with a coffer__crew_worker. */
static coffer__crew_worker *crew_worker_at(void *workers, size_t i, size_t size)
{
    void *worker = (uint8_t *)workers + i * size;
    return worker;
}

/* The watch points at the worker, which stays where it is while the crew runs. */
static coffer__crew_worker *crew_make_worker(coffer__crew *crew, void *workers, size_t i, size_t size)
{
    coffer__crew_worker *worker = crew_worker_at(workers, i, size);
    *worker = (coffer__crew_worker){ .crew = crew, .is_caller = i == 0 };
    worker->watch = (coffer__watch){ crew_worker_stop, worker };
    return worker;
}

/*
 * Starts the workers other than the first and returns how many workers there are then.
 *
 * `working` is set before the first thread starts, as that thread may end at once; those that could
 * not be started are subtracted afterwards. A crew of one takes no lock here.
 */
static size_t crew_start(coffer__crew *crew, void *workers, size_t count, size_t size)
{
    const coffer__crew_worker *caller = crew_make_worker(crew, workers, 0, size);
    size_t started = 1;
    crew->working = count - 1;
    crew->alone = count == 1 ? caller : NULL;
    for (; started < count; started++) {
        coffer__crew_worker *worker = crew_make_worker(crew, workers, started, size);
        if (coffer__os_thread_start(&worker->thread, crew_thread, worker, crew->own_code) != 0) {
            break;
        }
    }
    if (started < count) {
        coffer__os_mutex_lock(&crew->mutex);
        crew->working -= count - started;
        crew->alone = started == 1 ? caller : NULL;
        coffer__os_mutex_unlock(&crew->mutex);
    }
    return started;
}

/* Works on the calling thread, too, waits, and joins. With caller_asks the calling thread leaves the
   work to the others, but only if there are others. Joining comes last: a thread that has left
   `working` still touches the mutex, which coffer__crew_run destroys. */
static void crew_work(coffer__crew *crew, void *workers, size_t count, size_t size)
{
    const size_t started = crew_start(crew, workers, count, size);
    if (!crew->caller_asks || started == 1) {
        crew->work(workers);
    }
    if (started > 1) {
        crew_wait(workers);
    }
    for (size_t i = 1; i < started; i++) {
        coffer__os_thread_join(&crew_worker_at(workers, i, size)->thread);
    }
}

/* The error of a failure is filled directly: there are no other threads yet. */
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

/* All threads have been joined when the end is told, so crew->status needs no lock there. The user
   may cancel even then, which makes the call fail. A crew that did less than the total without a
   failure, because what it did is not counted, does not tell the end. */
static void crew_work_to_end(coffer__crew *crew, void *workers, size_t count, size_t size)
{
    crew_work(crew, workers, count, size);
    const bool complete = crew->status == COFFER_OK && crew->done >= crew->total;
    if (complete && crew->progress != NULL && crew->progress(crew->progress_ctx, crew->total, crew->total) != 0) {
        crew_cancel(crew);
    }
}

static void crew_deinit(coffer__crew *crew)
{
    coffer__os_condition_deinit(&crew->changed);
    coffer__os_mutex_deinit(&crew->mutex);
}

coffer_status coffer__crew_run(coffer__crew *crew, void *workers, size_t count, size_t size)
{
    const coffer_status status = crew_init(crew);
    if (status != COFFER_OK) {
        return status;
    }
    crew_work_to_end(crew, workers, count, size);
    crew_deinit(crew);
    return crew->status;
}

/* ---- in the background ------------------------------------------------------------------------------------------- */

static void crew_background(void *arg)
{
    coffer__crew *crew = arg;
    crew_work_to_end(crew, crew->workers, crew->count, crew->size);
}

coffer_status coffer__crew_begin(coffer__crew *crew, void *workers, size_t count, size_t size)
{
    const coffer_status status = crew_init(crew);
    if (status != COFFER_OK) {
        return status;
    }
    crew->workers = workers;
    crew->count = count;
    crew->size = size;
    const int os_error = coffer__os_thread_start(&crew->background, crew_background, crew, crew->own_code);
    if (os_error != 0) {
        crew_deinit(crew);
        coffer__fail(crew->err, COFFER_ERR_IO, "the system cannot start a thread");
        return coffer__fail_errno(crew->err, COFFER_ERR_IO, os_error);
    }
    return COFFER_OK;
}

coffer_status coffer__crew_end(coffer__crew *crew)
{
    coffer__os_thread_join(&crew->background);
    crew_deinit(crew);
    return crew->status;
}
