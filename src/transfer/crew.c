/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"

#include "error.h"

void coffer__crew_fail(coffer__crew *crew, coffer_status status, const coffer_error *error, size_t row)
{
    coffer__os_mutex_lock(&crew->mutex);
    if (crew->status == COFFER_OK) {
        crew->status = status;
        if (row != COFFER__CREW_NO_ROW && crew->options->failed != NULL) {
            *crew->options->failed = row;
        }
        if (crew->err != NULL) {
            *crew->err = *error;
        }
    }
    coffer__os_mutex_unlock(&crew->mutex);
}

void coffer__crew_cancel(coffer__crew *crew)
{
    coffer_error error;
    const coffer_status status = coffer__fail(&error, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    coffer__crew_fail(crew, status, &error, COFFER__CREW_NO_ROW);
}

bool coffer__crew_tell(const coffer__crew_worker *worker, uint64_t more)
{
    coffer__crew *crew = worker->crew;
    const coffer__transfer_options *options = crew->options;
    if (!worker->is_caller || options->progress == NULL) {
        return false;
    }
    coffer__os_mutex_lock(&crew->mutex);
    const uint64_t done = crew->done + more;
    coffer__os_mutex_unlock(&crew->mutex);
    /* The last word is spoken at the end, when everyone is done. */
    return done < crew->total && options->progress(options->progress_ctx, done, crew->total) != 0;
}

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
        const bool telling = crew->status == COFFER_OK;
        coffer__os_mutex_unlock(&crew->mutex);
        if (telling && coffer__crew_tell(caller, 0)) {
            coffer__crew_cancel(crew);
        }
        coffer__os_mutex_lock(&crew->mutex);
    }
    coffer__os_mutex_unlock(&crew->mutex);
}

static coffer__crew_worker *crew_worker_at(void *workers, size_t i, size_t size)
{
    void *worker = (uint8_t *)workers + i * size;
    return worker;
}

/* Starts the other workers, works, and waits for them. */
static void crew_work(coffer__crew *crew, void *workers, size_t count, size_t size)
{
    coffer__crew_worker *caller = workers;
    size_t started = 1;
    *caller = (coffer__crew_worker){ .crew = crew, .is_caller = true };
    crew->working = count - 1;
    for (; started < count; started++) {
        coffer__crew_worker *worker = crew_worker_at(workers, started, size);
        *worker = (coffer__crew_worker){ .crew = crew };
        if (coffer__os_thread_start(&worker->thread, crew_thread, worker) != 0) {
            break;
        }
    }
    coffer__os_mutex_lock(&crew->mutex);
    crew->working -= count - started;
    coffer__os_mutex_unlock(&crew->mutex);
    crew->work(caller);
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
        coffer__fail(crew->err, COFFER_ERR_IO, "the system gives no mutex");
        return coffer__fail_errno(crew->err, COFFER_ERR_IO, os_error);
    }
    return COFFER_OK;
}

coffer_status coffer__crew_run(coffer__crew *crew, void *workers, size_t count, size_t size)
{
    const coffer__transfer_options *options = crew->options;
    const coffer_status status = crew_init(crew);
    if (status != COFFER_OK) {
        return status;
    }
    crew_work(crew, workers, count, size);
    if (crew->status == COFFER_OK && options->progress != NULL &&
        options->progress(options->progress_ctx, crew->total, crew->total) != 0) {
        coffer__crew_cancel(crew);
    }
    coffer__os_condition_deinit(&crew->changed);
    coffer__os_mutex_deinit(&crew->mutex);
    return crew->status;
}
