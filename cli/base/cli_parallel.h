/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many jobs by several threads, their results shown in order: `work` of any job may run on any
 * thread at any time, `deliver` runs on the caller's thread, for job 0, 1, 2 and so on, each as
 * soon as it and all before it are done. A result that waits for its turn takes memory, so threads
 * run only so far ahead.
 */
#ifndef COFFER_CLI_PARALLEL_H
#define COFFER_CLI_PARALLEL_H

#include <stddef.h>

/* Two jobs that are begun and not delivered are closer to each other than that: results may go round in so many places. */
#define CLI_JOBS_AHEAD_MAX 256

typedef struct cli_jobs {
    void (*work)(void *ctx, size_t job);
    void (*deliver)(void *ctx, size_t job);
    void *ctx;
} cli_jobs;

/* As many jobs at once as there are processors. */
size_t cli_processors(void);
/* Does `count` jobs, at most `threads` at once (1: all on the caller's thread). Returns how many
   were delivered: fewer than `count` only after an interrupt. Each job whose work was begun is
   delivered, so that what it holds can be released. */
size_t cli_parallel(const cli_jobs *jobs, size_t count, size_t threads);

#endif
