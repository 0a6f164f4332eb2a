/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of one call, which share what there is to do: the one place that starts threads. The
 * transfer and whatever waits for servers both use it.
 *
 *   - The calling thread is the first worker, and the only one that calls `progress`: a binding may hold a
 *     lock, like Python's, that belongs to that thread. When nothing is left for it, it waits for the
 *     others and keeps calling `progress`.
 *   - The first failure stops everyone and is the answer of the call. Later ones are dropped, unless they are of an
 *     earlier place in what is worked on: see coffer__thread_pool_fail_at.
 *   - Nothing outlives coffer__thread_pool_run: all threads are joined when it returns. A thread pool in the background
 *     ends with coffer__thread_pool_finish; there the calling thread is one of its own.
 *   - What the workers share, they share under the thread pool's mutex. No callback is called while it is held.
 */
#ifndef COFFER_IO_THREAD_POOL_H
#define COFFER_IO_THREAD_POOL_H

#include "coffer.h"
#include "os.h"
#include "source.h"

#define COFFER__THREAD_POOL_NO_ROW SIZE_MAX

typedef struct coffer__thread_pool_worker coffer__thread_pool_worker;

typedef struct coffer__thread_pool {
    /* Set by whoever runs it, and constant while it runs. */
    void (*work)(void *worker); /* returns when nothing is left, or when coffer__thread_pool_stop says so */
    coffer_progress progress;   /* NULL: nobody is told, and nobody can cancel */
    void *progress_ctx;
    uint64_t total; /* in bytes or items, as `progress` gets it; 0: nothing is counted, the user is only asked */
    coffer_error *err;
    size_t *failed;   /* set to the row of the first failure, if it is about one; may be NULL */
    bool caller_asks; /* the calling thread only waits and asks, unless it is alone */
    bool own_code;    /* the workers run nothing but this library's code, so small stacks suffice */

    coffer__mutex mutex;                     /* guards everything below, *err, and what else the workers share */
    coffer__condition changed;               /* wakes the calling thread while it waits for the others */
    size_t working;                          /* threads other than the calling one that have not ended */
    const coffer__thread_pool_worker *alone; /* the calling thread's worker, when there are no others; else NULL */
    uint64_t done;                           /* of `total`; may be set before, when something was done already */
    coffer_status status;                    /* the status of the failure that is the answer */
    uint64_t failed_at;                      /* the place of that failure */

    coffer__thread background; /* of a thread pool that was begun: the calling thread */
    void *workers;             /* what a thread pool was begun with */
    size_t count;
    size_t size;
} coffer__thread_pool;

/* The first member of every worker. coffer__thread_pool_run fills it; the rest of the worker is the caller's. */
struct coffer__thread_pool_worker {
    coffer__thread_pool *thread_pool;
    bool is_caller;
    coffer__watch watch; /* for what this worker reads: coffer__thread_pool_stop */
    coffer__thread thread;
};

/* Runs `count` workers (at least 1), which are an array of elements of `size` bytes. Where a thread
   cannot be started, the work is done by those that could: a lack of threads is never a failure. */
coffer_status coffer__thread_pool_run(coffer__thread_pool *thread_pool, void *workers, size_t count, size_t size);

/* The same in the background: returns at once, and coffer__thread_pool_finish waits for all of it and gives the answer. A failure
   is that there cannot be a single thread; then nothing is to be ended. */
coffer_status coffer__thread_pool_begin(coffer__thread_pool *thread_pool, void *workers, size_t count, size_t size);
coffer_status coffer__thread_pool_finish(coffer__thread_pool *thread_pool);

/* Records a failure, which is about a row or about COFFER__THREAD_POOL_NO_ROW. Only the first one counts. */
void coffer__thread_pool_fail(coffer__thread_pool *thread_pool, coffer_status status, const coffer_error *error,
                              size_t row);
/* Records the failure of work at `at`, a number that rises from one piece of work to the next. The lowest counts,
   whichever came first. Where workers take pieces in order, and finish what they took, the answer is then the same
   whoever is faster: all pieces before one that failed were taken earlier. To be cancelled is no failure of a place:
   it is not replaced, and replaces nothing. */
void coffer__thread_pool_fail_at(coffer__thread_pool *thread_pool, uint64_t at, coffer_status status,
                                 const coffer_error *error, size_t row);
/* Whether the worker should end, because a worker has failed or the user cancelled. On the calling
   thread it also asks `progress`, with what is done plus `more`, which the worker has not reported
   yet. When that is everything it does not ask: the end is told exactly once, by coffer__thread_pool_run. */
bool coffer__thread_pool_stop(const coffer__thread_pool_worker *worker, uint64_t more);
/* The same for a worker that learns elsewhere that the thread pool has failed: only the calling thread has
   something to do, and only if there is somebody to ask. */
void coffer__thread_pool_tell(const coffer__thread_pool_worker *worker, uint64_t more);
/* Adds to what is done, and then does what coffer__thread_pool_stop does. */
bool coffer__thread_pool_advance(const coffer__thread_pool_worker *worker, uint64_t size);
/* A watch for waits that are not known to belong to a certain worker. On a thread that is not the
   calling one it may not call `progress`, so it asks the user only where the calling thread is
   alone. */
coffer__watch coffer__thread_pool_watch(coffer__thread_pool *thread_pool);

#endif
