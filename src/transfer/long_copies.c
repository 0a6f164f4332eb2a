/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers share nothing but a cursor and the checksums. Each chunk is read, checked, changed and landed by one
 * worker, in memory of its own that stays in the cache; so the order in which chunks land is any.
 *
 * A failure of reading names the op, one of the output target does not: that is how the caller tells a bad source from a full disk.
 */
#include "long_copies.h"

#include "error.h"
#include "thread_pool.h"

#define LONG_CHUNK ((uint64_t)COFFER__LONG_CHUNK)
/* Files take one write at a time, so a few threads are enough to keep one of them writing. */
#define LONG_MAX_WORKERS 4u

/* What the workers share. The cursor (op, skip, at) and the checksums change under the thread pool's mutex only. */
typedef struct long_job {
    coffer__thread_pool thread_pool;
    const coffer__long_copies *which;
    size_t op;
    uint64_t skip;
    uint64_t at; /* bytes of all ops before the cursor */
} long_job;

typedef struct long_worker {
    coffer__thread_pool_worker base; /* must be first */
    long_job *job;
    uint8_t *memory; /* LONG_CHUNK bytes */
} long_worker;

/* `size` bytes of op `op`, from byte `skip` of it on. */
typedef struct long_chunk {
    size_t op;
    uint64_t skip;
    uint64_t size;
    uint64_t at; /* bytes of all ops before it */
} long_chunk;

/* Takes the next chunk; false when there is none, or when the thread pool has failed. The thread pool's mutex is free. The mutex is
   held for a few sums only, and reading and writing go without it. After a failure nothing more is taken, so that the
   thread pool comes to its end soon. */
static bool long_take(long_job *job, long_chunk *chunk)
{
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    const bool taken = job->thread_pool.status == COFFER_OK && job->op < job->which->count;
    if (taken) {
        const uint64_t left = job->which->ops[job->op].size - job->skip;
        *chunk = (long_chunk){ job->op, job->skip, left < LONG_CHUNK ? left : LONG_CHUNK, job->at };
        job->skip += chunk->size;
        job->at += chunk->size;
        if (chunk->size == left) {
            job->op++;
            job->skip = 0;
        }
    }
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return taken;
}

/* Adds the share of a chunk to the checksum of its op. The checksum of a op is the sum, without carries, of the
   shares of its chunks, each shifted by the bytes that follow it. So chunks may come in any order, and only that sum
   has to be made under the mutex; the work over the bytes is done before. */
static void long_check(long_job *job, const coffer__transfer_op *op, const long_chunk *chunk, const uint8_t *bytes)
{
    coffer__checksum *checksum = op->checksum;
    if (checksum == NULL) {
        return;
    }
    const uint32_t crc = coffer__crc32_update(checksum->crc32, 0, bytes, (size_t)chunk->size);
    const uint32_t share = coffer__crc32_share(checksum->crc32, crc, op->size - chunk->skip - chunk->size);
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    checksum->value ^= share;
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
}

/* Reads, checks and changes a chunk, and lands it. `*failed` becomes the op's number if it could not be read. The
   checksum is of the bytes as they were in the source, so it comes before the change, which is made in place. To be
   cancelled is no fault of the op's source and leaves `failed` as it is. */
static coffer_status long_carry(const long_worker *worker, const long_chunk *chunk, size_t *failed, coffer_error *err)
{
    long_job *job = worker->job;
    const coffer__transfer_op *op = &job->which->ops[chunk->op];
    const coffer_status status = coffer__source_read_watched(op->source, op->offset + chunk->skip, worker->memory,
                                                             (size_t)chunk->size, &worker->base.watch, err);
    if (status != COFFER_OK) {
        *failed = status == COFFER_ERR_CANCELLED ? *failed : chunk->op;
        return status;
    }
    long_check(job, op, chunk, worker->memory);
    if (coffer__change_unit(&op->change) > 1) {
        coffer__change_bytes(&op->change, worker->memory, (size_t)chunk->size);
    }
    return job->which->land(job->which->ctx, op->at + chunk->skip, worker->memory, (size_t)chunk->size, err);
}

/* A chunk that failed is counted, too: nobody is told any more. The thread pool stops after the chunk at hand. Each failure
   has an error of its own on this stack; the thread pool keeps that of the lowest chunk, so that a file that was cut is
   reported where it ends, whichever worker was the first to find nothing. */
static void long_work(void *arg)
{
    long_worker *worker = arg;
    long_job *job = worker->job;
    long_chunk chunk;
    bool stop = false;
    while (!stop && long_take(job, &chunk)) {
        coffer_error error;
        size_t failed = COFFER__THREAD_POOL_NO_ROW;
        coffer__error_clear(&error);
        const coffer_status status = long_carry(worker, &chunk, &failed, &error);
        if (status != COFFER_OK) {
            coffer__thread_pool_fail_at(&job->thread_pool, chunk.at, status, &error, failed);
        }
        stop = coffer__thread_pool_advance(&worker->base, chunk.size);
    }
}

/* Each worker should have several chunks, or starting it costs more than it brings. */
size_t coffer__long_copies_workers(const coffer__long_copies *which, uint32_t threads)
{
    const uint64_t chunks = which->size / (4 * LONG_CHUNK);
    const uint64_t most = threads == 0 ? coffer__os_processors() : threads;
    const uint64_t workers = most < LONG_MAX_WORKERS ? most : LONG_MAX_WORKERS;
    return (size_t)(chunks < 2 ? 1 : workers < chunks ? workers : chunks);
}

/* What came before `skip` of a checksum that is continued is its first chunk: its share replaces it. */
static void long_begin(const coffer__long_copies *which)
{
    coffer__checksum *checksum = which->ops[0].checksum;
    if (checksum != NULL) {
        checksum->value = coffer__crc32_share(checksum->crc32, checksum->value, which->ops[0].size - which->skip);
    }
}

/* Threads get small stacks where no code but the library's is called; a checksum may be a library's. Small stacks are
   safe only as long as it is known how deep the code on them goes. */
static bool long_is_own(const coffer__long_copies *which)
{
    for (size_t i = 0; i < which->count; i++) {
        if (which->ops[i].source->is.foreign || which->ops[i].checksum != NULL) {
            return false;
        }
    }
    return true;
}

/* Everything is on this stack: the thread pool has ended when it returns. The cursor begins where the caller has stopped in
   the first op. Each worker has a stretch of the caller's memory for itself, so that none waits for another's. */
coffer_status coffer__long_copies_run(const coffer__long_copies *which, size_t workers,
                                      const coffer__transfer_options *options, coffer_error *err)
{
    long_worker thread_pool[LONG_MAX_WORKERS];
    long_job job = { .which = which, .skip = which->skip };
    job.thread_pool = (coffer__thread_pool){ .work = long_work,
                                             .progress = options->progress,
                                             .progress_ctx = options->progress_ctx,
                                             .total = which->size,
                                             .err = err,
                                             .failed = options->failed,
                                             .own_code = long_is_own(which) };
    for (size_t i = 0; i < workers; i++) {
        thread_pool[i] = (long_worker){ .job = &job, .memory = which->memory + i * COFFER__LONG_CHUNK };
    }
    long_begin(which);
    return coffer__thread_pool_run(&job.thread_pool, thread_pool, workers, sizeof *thread_pool);
}
