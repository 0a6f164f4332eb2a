/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs by several threads: see cli_parallel.h for the contract. */
#include "cli_parallel.h"

#include "cli_interrupt.h"

#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#define AHEAD 4 /* results that may wait for their turn, for each thread */
#define THREADS_MAX (CLI_JOBS_AHEAD_MAX / AHEAD)

typedef struct job_pool {
    const cli_jobs *jobs;
    size_t count;
    size_t window;                 /* jobs that are begun but not delivered, at most */
    size_t begun;                  /* jobs that some thread has taken */
    size_t delivered;              /* jobs that are through */
    bool done[CLI_JOBS_AHEAD_MAX]; /* of job i at i % window: its work has ended */
    pthread_mutex_t lock;          /* holds all of the above */
    pthread_cond_t changed;
} job_pool;

/* Takes the next job, waiting until it is near enough; false when there is none left to begin. */
static bool take_job(job_pool *pool, size_t *job)
{
    while (pool->begun < pool->count && pool->begun >= pool->delivered + pool->window && !cli_interrupted()) {
        pthread_cond_wait(&pool->changed, &pool->lock);
    }
    if (pool->begun == pool->count || cli_interrupted()) {
        return false;
    }
    *job = pool->begun++;
    pool->done[*job % pool->window] = false;
    return true;
}

static void *work_on(void *ctx)
{
    job_pool *pool = ctx;
    size_t job = 0;
    pthread_mutex_lock(&pool->lock);
    while (take_job(pool, &job)) {
        pthread_mutex_unlock(&pool->lock);
        pool->jobs->work(pool->jobs->ctx, job);
        pthread_mutex_lock(&pool->lock);
        pool->done[job % pool->window] = true;
        pthread_cond_broadcast(&pool->changed);
    }
    /* Threads that wait for a job that will not be begun any more shall look again. */
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Delivers in order until all are through or, after an interrupt, all that were begun. */
static void deliver_all(job_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->delivered < pool->count) {
        const size_t next = pool->delivered;
        if (next == pool->begun && cli_interrupted()) {
            break;
        }
        if (next == pool->begun || !pool->done[next % pool->window]) {
            pthread_cond_wait(&pool->changed, &pool->lock);
            continue;
        }
        pthread_mutex_unlock(&pool->lock);
        pool->jobs->deliver(pool->jobs->ctx, next);
        pthread_mutex_lock(&pool->lock);
        pool->delivered++;
        pthread_cond_broadcast(&pool->changed);
    }
    pthread_mutex_unlock(&pool->lock);
}

static size_t one_after_the_other(const cli_jobs *jobs, size_t count)
{
    size_t job = 0;
    while (job < count && !cli_interrupted()) {
        jobs->work(jobs->ctx, job);
        jobs->deliver(jobs->ctx, job);
        job++;
    }
    return job;
}

size_t cli_processors(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > THREADS_MAX ? THREADS_MAX : (size_t)count;
}

size_t cli_parallel(const cli_jobs *jobs, size_t count, size_t threads)
{
    pthread_t started[THREADS_MAX];
    size_t running = 0;
    threads = threads > THREADS_MAX ? THREADS_MAX : threads;
    threads = threads > count ? count : threads;
    if (threads <= 1) {
        return one_after_the_other(jobs, count);
    }
    job_pool pool = { .jobs = jobs, .count = count, .window = threads * AHEAD };
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.changed, NULL);
    while (running < threads && pthread_create(&started[running], NULL, work_on, &pool) == 0) {
        running++;
    }
    if (running > 0) {
        deliver_all(&pool);
    }
    for (size_t i = 0; i < running; i++) {
        pthread_join(started[i], NULL);
    }
    pthread_cond_destroy(&pool.changed);
    pthread_mutex_destroy(&pool.lock);
    return running > 0 ? pool.delivered : one_after_the_other(jobs, count);
}
