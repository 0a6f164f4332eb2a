/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers share nothing but a cursor and the checksums. Each piece is read, checked, changed and landed by one
 * worker, in memory of its own that stays in the cache; so the order in which pieces land is any.
 *
 * A failure of reading names the row, one of the output target does not: that is how the caller tells a bad source from a full disk.
 */
#include "long_rows.h"

#include "error.h"
#include "thread_pool.h"

#define LONG_PIECE ((uint64_t)COFFER__LONG_PIECE)
/* Files take one write at a time, so a few threads are enough to keep one of them writing. */
#define LONG_MAX_WORKERS 4u

/* What the workers share. The cursor (row, skip, at) and the checksums change under the thread pool's mutex only. */
typedef struct long_job {
    coffer__thread_pool thread_pool;
    const coffer__long_rows *which;
    size_t row;
    uint64_t skip;
    uint64_t at; /* bytes of all rows before the cursor */
} long_job;

typedef struct long_worker {
    coffer__thread_pool_worker base; /* must be first */
    long_job *job;
    uint8_t *memory; /* LONG_PIECE bytes */
} long_worker;

/* `size` bytes of row `row`, from byte `skip` of it on. */
typedef struct long_piece {
    size_t row;
    uint64_t skip;
    uint64_t size;
    uint64_t at; /* bytes of all rows before it */
} long_piece;

/* Takes the next piece; false when there is none, or when the thread pool has failed. The thread pool's mutex is free. The mutex is
   held for a few sums only, and reading and writing go without it. After a failure nothing more is taken, so that the
   thread pool comes to its end soon. */
static bool long_take(long_job *job, long_piece *piece)
{
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    const bool taken = job->thread_pool.status == COFFER_OK && job->row < job->which->count;
    if (taken) {
        const uint64_t left = job->which->rows[job->row].size - job->skip;
        *piece = (long_piece){ job->row, job->skip, left < LONG_PIECE ? left : LONG_PIECE, job->at };
        job->skip += piece->size;
        job->at += piece->size;
        if (piece->size == left) {
            job->row++;
            job->skip = 0;
        }
    }
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return taken;
}

/* Adds the share of a piece to the checksum of its row. The checksum of a row is the sum, without carries, of the
   shares of its pieces, each shifted by the bytes that follow it. So pieces may come in any order, and only that sum
   has to be made under the mutex; the work over the bytes is done before. */
static void long_check(long_job *job, const coffer__row *row, const long_piece *piece, const uint8_t *bytes)
{
    coffer__checksum *checksum = row->checksum;
    if (checksum == NULL) {
        return;
    }
    const uint32_t crc = coffer__crc32_update(checksum->crc32, 0, bytes, (size_t)piece->size);
    const uint32_t share = coffer__crc32_share(checksum->crc32, crc, row->size - piece->skip - piece->size);
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    checksum->value ^= share;
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
}

/* Reads, checks and changes a piece, and lands it. `*failed` becomes the row's number if it could not be read. The
   checksum is of the bytes as they were in the source, so it comes before the change, which is made in place. To be
   cancelled is no fault of the row's source and leaves `failed` as it is. */
static coffer_status long_carry(const long_worker *worker, const long_piece *piece, size_t *failed, coffer_error *err)
{
    long_job *job = worker->job;
    const coffer__row *row = &job->which->rows[piece->row];
    const coffer_status status = coffer__source_read_watched(row->source, row->offset + piece->skip, worker->memory,
                                                             (size_t)piece->size, &worker->base.watch, err);
    if (status != COFFER_OK) {
        *failed = status == COFFER_ERR_CANCELLED ? *failed : piece->row;
        return status;
    }
    long_check(job, row, piece, worker->memory);
    if (coffer__change_unit(&row->change) > 1) {
        coffer__change_bytes(&row->change, worker->memory, (size_t)piece->size);
    }
    return job->which->land(job->which->ctx, row->at + piece->skip, worker->memory, (size_t)piece->size, err);
}

/* A piece that failed is counted, too: nobody is told any more. The thread pool stops after the piece at hand. Each failure
   has an error of its own on this stack; the thread pool keeps that of the lowest piece, so that a file that was cut is
   reported where it ends, whichever worker was the first to find nothing. */
static void long_work(void *arg)
{
    long_worker *worker = arg;
    long_job *job = worker->job;
    long_piece piece;
    bool stop = false;
    while (!stop && long_take(job, &piece)) {
        coffer_error error;
        size_t failed = COFFER__THREAD_POOL_NO_ROW;
        coffer__error_clear(&error);
        const coffer_status status = long_carry(worker, &piece, &failed, &error);
        if (status != COFFER_OK) {
            coffer__thread_pool_fail_at(&job->thread_pool, piece.at, status, &error, failed);
        }
        stop = coffer__thread_pool_advance(&worker->base, piece.size);
    }
}

/* Each worker should have several pieces, or starting it costs more than it brings. */
size_t coffer__long_rows_workers(const coffer__long_rows *which, uint32_t threads)
{
    const uint64_t pieces = which->size / (4 * LONG_PIECE);
    const uint64_t most = threads == 0 ? coffer__os_processors() : threads;
    const uint64_t workers = most < LONG_MAX_WORKERS ? most : LONG_MAX_WORKERS;
    return (size_t)(pieces < 2 ? 1 : workers < pieces ? workers : pieces);
}

/* What came before `skip` of a checksum that is continued is its first piece: its share replaces it. */
static void long_begin(const coffer__long_rows *which)
{
    coffer__checksum *checksum = which->rows[0].checksum;
    if (checksum != NULL) {
        checksum->value = coffer__crc32_share(checksum->crc32, checksum->value, which->rows[0].size - which->skip);
    }
}

/* Threads get small stacks where no code but the library's is called; a checksum may be a library's. Small stacks are
   safe only as long as it is known how deep the code on them goes. */
static bool long_is_own(const coffer__long_rows *which)
{
    for (size_t i = 0; i < which->count; i++) {
        if (which->rows[i].source->is.foreign || which->rows[i].checksum != NULL) {
            return false;
        }
    }
    return true;
}

/* Everything is on this stack: the thread pool has ended when it returns. The cursor begins where the caller has stopped in
   the first row. Each worker has a stretch of the caller's memory for itself, so that none waits for another's. */
coffer_status coffer__long_rows_run(const coffer__long_rows *which, size_t workers,
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
        thread_pool[i] = (long_worker){ .job = &job, .memory = which->memory + i * COFFER__LONG_PIECE };
    }
    long_begin(which);
    return coffer__thread_pool_run(&job.thread_pool, thread_pool, workers, sizeof *thread_pool);
}
