/* SPDX-License-Identifier: Apache-2.0 */
#include "waiting.h"

#include <string.h>

static bool waiting_is_stopped(coffer__waiting *waiting)
{
    coffer__os_mutex_lock(&waiting->lock);
    const bool stopped = waiting->stopped;
    coffer__os_mutex_unlock(&waiting->lock);
    return stopped;
}

bool coffer__waiting_ask(coffer__waiting *waiting)
{
    coffer__os_mutex_lock(&waiting->lock);
    const uint64_t done = waiting->done;
    bool stopped = waiting->stopped;
    coffer__os_mutex_unlock(&waiting->lock);
    if (stopped || waiting->progress == NULL) {
        return stopped;
    }
    stopped = waiting->progress(waiting->progress_ctx, done, waiting->total) != 0;
    coffer__os_mutex_lock(&waiting->lock);
    waiting->stopped = stopped;
    coffer__os_mutex_unlock(&waiting->lock);
    return stopped;
}

static bool waiting_stop(void *ctx)
{
    coffer__waiting *waiting = ctx;
    return waiting->alone ? coffer__waiting_ask(waiting) : waiting_is_stopped(waiting);
}

bool coffer__waiting_begin(coffer__waiting *waiting, coffer_progress progress, void *progress_ctx, uint64_t total)
{
    memset(waiting, 0, sizeof *waiting);
    waiting->progress = progress;
    waiting->progress_ctx = progress_ctx;
    waiting->total = total;
    waiting->watch = (coffer__watch){ waiting_stop, waiting };
    if (coffer__os_mutex_init(&waiting->lock) != 0) {
        return false;
    }
    if (coffer__os_condition_init(&waiting->changed) != 0) {
        coffer__os_mutex_deinit(&waiting->lock);
        return false;
    }
    return true;
}

void coffer__waiting_end(coffer__waiting *waiting)
{
    coffer__os_condition_deinit(&waiting->changed);
    coffer__os_mutex_deinit(&waiting->lock);
}

void coffer__waiting_leave(coffer__waiting *waiting)
{
    coffer__os_mutex_lock(&waiting->lock);
    waiting->working--;
    if (waiting->working == 0) {
        coffer__os_condition_wake(&waiting->changed);
    }
    coffer__os_mutex_unlock(&waiting->lock);
}

void coffer__waiting_wait(coffer__waiting *waiting)
{
    coffer__os_mutex_lock(&waiting->lock);
    while (waiting->working > 0) {
        (void)coffer__os_condition_wait(&waiting->changed, &waiting->lock, COFFER__WATCH_MS);
        coffer__os_mutex_unlock(&waiting->lock);
        (void)coffer__waiting_ask(waiting);
        coffer__os_mutex_lock(&waiting->lock);
    }
    coffer__os_mutex_unlock(&waiting->lock);
}
