/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of one call, which share what there is to do. The thread that calls is the first worker, and the only one that
 * calls `progress`; when nothing is left for it, it waits for the others, and goes on telling. The first failure stops everyone
 * and is the answer. What the workers share, they share under the crew's mutex.
 */
#ifndef COFFER_TRANSFER_CREW_H
#define COFFER_TRANSFER_CREW_H

#include "coffer.h"
#include "os.h"
#include "transfer.h"

#define COFFER__CREW_NO_ROW SIZE_MAX

/* The first four are given by whoever runs it. */
typedef struct coffer__crew {
    const coffer__transfer_options *options;
    uint64_t total; /* bytes, as the user is told */
    coffer_error *err;
    void (*work)(void *worker); /* until there is nothing left, or somebody has failed */
    coffer__mutex mutex;        /* guards everything below, *err, and what the workers share besides */
    coffer__condition changed;  /* wakes the caller's thread, while it waits for the others */
    size_t working;             /* threads besides the caller's that have not ended */
    uint64_t done;              /* bytes */
    coffer_status status;
} coffer__crew;

/* What a worker begins with. It is set by coffer__crew_run. */
typedef struct coffer__crew_worker {
    coffer__crew *crew;
    bool is_caller;
    coffer__thread thread;
} coffer__crew_worker;

/* Works with `count` workers (1 at least) of `size` bytes each, or with fewer where a thread cannot be started. */
coffer_status coffer__crew_run(coffer__crew *crew, void *workers, size_t count, size_t size);

/* Keeps the first failure, which is about a row or about none; the others have lost. */
void coffer__crew_fail(coffer__crew *crew, coffer_status status, const coffer_error *error, size_t row);
/* Fails, because the user wants no more. */
void coffer__crew_cancel(coffer__crew *crew);
/* Tells, if it is the caller's worker, how many bytes are done, `more` by itself included; unless all are. True when the user
   wants no more. */
bool coffer__crew_tell(const coffer__crew_worker *worker, uint64_t more);

#endif
