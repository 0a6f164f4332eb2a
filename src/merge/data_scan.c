/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool that looks at pieces: see data_scan.h for the contract. */
#include "data_scan.h"

#include "alloc.h"
#include "os.h"
#include "thread_pool.h"

#define DATA_SCAN_MAX_THREADS 64

/* `next` is guarded by the thread pool's mutex. */
typedef struct data_scan_job {
    coffer__thread_pool thread_pool;
    const coffer__data_scan *scan;
    coffer__data_scan_part next;
} data_scan_job;

typedef struct data_scan_worker {
    coffer__thread_pool_worker base;
    data_scan_job *job;
    uint8_t *memory;
    coffer_error err;
} data_scan_worker;

uint64_t coffer__data_scan_parts(const coffer__data_scan *scan, size_t tensor)
{
    const uint64_t length = scan->length(scan->ctx, tensor);
    return length / scan->piece_length + (length % scan->piece_length != 0);
}

uint64_t coffer__data_scan_all_parts(const coffer__data_scan *scan)
{
    uint64_t pieces = 0;
    for (size_t i = 0; i < scan->tensor_count; i++) {
        pieces += coffer__data_scan_parts(scan, i);
    }
    return pieces;
}

static bool data_scan_take(data_scan_job *job, coffer__data_scan_part *piece)
{
    const coffer__data_scan *scan = job->scan;
    bool taken = false;
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    for (; job->thread_pool.status == COFFER_OK && !taken && job->next.tensor < scan->tensor_count;
         job->next.tensor += !taken) {
        const uint64_t length = scan->length(scan->ctx, job->next.tensor);
        if (job->next.first < length) {
            const uint64_t left = length - job->next.first;
            *piece = job->next;
            piece->count = (size_t)(left < scan->piece_length ? left : scan->piece_length);
            job->next.first += piece->count;
            job->next.number++;
            taken = true;
        } else {
            job->next.first = 0;
        }
    }
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return taken;
}

static void data_scan_work(void *ctx)
{
    data_scan_worker *worker = ctx;
    const coffer__data_scan *scan = worker->job->scan;
    coffer__data_scan_part piece;
    while (!coffer__thread_pool_stop(&worker->base, 0) && data_scan_take(worker->job, &piece)) {
        const coffer_status status = scan->look(scan->ctx, &piece, worker->memory, &worker->err);
        if (status != COFFER_OK) {
            coffer__thread_pool_fail_at(&worker->job->thread_pool, piece.number, status, &worker->err,
                                        COFFER__THREAD_POOL_NO_ROW);
            return;
        }
        if (scan->total > 0) {
            (void)coffer__thread_pool_advance(&worker->base, piece.count);
        }
    }
}

static coffer_status data_scan_with(data_scan_job *job, data_scan_worker *workers, size_t count, uint8_t *memory)
{
    for (size_t i = 0; i < count; i++) {
        workers[i].job = job;
        workers[i].memory = memory + i * job->scan->memory_size;
    }
    return coffer__thread_pool_run(&job->thread_pool, workers, count, sizeof *workers);
}

coffer_status coffer__data_scan_run(const coffer__data_scan *scan, const coffer_read_options *options,
                                    coffer_error *err)
{
    const uint64_t pieces = coffer__data_scan_all_parts(scan);
    uint64_t threads = options->threads != 0 ? options->threads : coffer__os_processors();
    threads = threads < DATA_SCAN_MAX_THREADS ? threads : DATA_SCAN_MAX_THREADS;
    const size_t count = pieces == 0 ? 1 : (size_t)(threads < pieces ? threads : pieces);
    data_scan_job job = { .scan = scan };
    job.thread_pool = (coffer__thread_pool){ .work = data_scan_work,
                                             .progress = options->progress,
                                             .progress_ctx = options->progress_ctx,
                                             .total = scan->total,
                                             .err = err };
    data_scan_worker *workers = coffer__alloc_array(scan->allocator, count, sizeof *workers, err);
    uint8_t *memory = coffer__alloc_array(scan->allocator, count, scan->memory_size, err);
    const coffer_status status =
        workers != NULL && memory != NULL ? data_scan_with(&job, workers, count, memory) : COFFER_ERR_MEMORY;
    coffer__free_array(scan->allocator, workers, count, sizeof *workers);
    coffer__free_array(scan->allocator, memory, count, scan->memory_size);
    return status;
}
