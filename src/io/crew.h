/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of one call, which share what there is to do: the one place that starts threads. What carries rows and what waits for
 * servers both use it. The thread that calls is the first worker, and the only one that calls `progress`; when nothing is left for
 * it, it waits for the others and keeps telling. The first failure stops everyone and is the answer. What the workers share, they
 * share under the crew's mutex.
 */
#ifndef COFFER_IO_CREW_H
#define COFFER_IO_CREW_H

#include "coffer.h"
#include "os.h"
#include "source.h"

#define COFFER__CREW_NO_ROW SIZE_MAX

typedef struct coffer__crew_worker coffer__crew_worker;

typedef struct coffer__crew {
    /* Given by whoever runs it. */
    void (*work)(void *worker); /* until there is nothing left, or coffer__crew_stop says so */
    coffer_progress progress;   /* NULL: nobody is told, and nobody can cancel */
    void *progress_ctx;
    uint64_t total; /* bytes or things, as the user is told; 0: nothing is counted, the user is only asked */
    coffer_error *err;
    size_t *failed;   /* set to the row of the first failure, if it is about one; may be NULL */
    bool caller_asks; /* the caller's thread only waits and asks, unless it is alone */
    bool own_code;    /* the workers run nothing but this library's code, so that small stacks will do */

    coffer__mutex mutex;              /* guards everything below, *err, and what the workers share besides */
    coffer__condition changed;        /* wakes the caller's thread, while it waits for the others */
    size_t working;                   /* threads besides the caller's that have not ended */
    const coffer__crew_worker *alone; /* the caller's, when there are no others */
    uint64_t done;                    /* of the total; may be given, when something was done before */
    coffer_status status;
} coffer__crew;

/* What a worker begins with. It is set by coffer__crew_run. */
struct coffer__crew_worker {
    coffer__crew *crew;
    bool is_caller;
    coffer__watch watch; /* for what this worker reads: coffer__crew_stop */
    coffer__thread thread;
};

/* Works with `count` workers (1 at least) of `size` bytes each, or with fewer where a thread cannot be started. */
coffer_status coffer__crew_run(coffer__crew *crew, void *workers, size_t count, size_t size);

/* Keeps the first failure, which is about a row or about none; the others have lost. */
void coffer__crew_fail(coffer__crew *crew, coffer_status status, const coffer_error *error, size_t row);
/* Whether the worker is to end, because somebody has failed or the user wants no more. The caller's worker asks the user, and tells
   how much is done, `more` by itself included; unless all is, as that is told at the end. */
bool coffer__crew_stop(const coffer__crew_worker *worker, uint64_t more);
/* Counts what a worker has done, and then is coffer__crew_stop. */
bool coffer__crew_advance(const coffer__crew_worker *worker, uint64_t size);
/* A watch for questions of which nobody knows which worker asks them. */
coffer__watch coffer__crew_watch(coffer__crew *crew);

#endif
