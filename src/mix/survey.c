/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool that looks at pieces: see survey.h for the contract. */
#include "survey.h"

#include "alloc.h"
#include "os.h"
#include "thread_pool.h"

#define SURVEY_MAX_THREADS 64

/* `next` is guarded by the thread pool's mutex. */
typedef struct survey_job {
    coffer__thread_pool thread_pool;
    const coffer__survey *survey;
    coffer__survey_piece next;
} survey_job;

typedef struct survey_worker {
    coffer__thread_pool_worker base;
    survey_job *job;
    uint8_t *memory;
    coffer_error err;
} survey_worker;

uint64_t coffer__survey_pieces(const coffer__survey *survey, size_t tensor)
{
    const uint64_t length = survey->length(survey->ctx, tensor);
    return length / survey->piece_length + (length % survey->piece_length != 0);
}

uint64_t coffer__survey_all_pieces(const coffer__survey *survey)
{
    uint64_t pieces = 0;
    for (size_t i = 0; i < survey->tensor_count; i++) {
        pieces += coffer__survey_pieces(survey, i);
    }
    return pieces;
}

static bool survey_take(survey_job *job, coffer__survey_piece *piece)
{
    const coffer__survey *survey = job->survey;
    bool taken = false;
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    for (; job->thread_pool.status == COFFER_OK && !taken && job->next.tensor < survey->tensor_count;
         job->next.tensor += !taken) {
        const uint64_t length = survey->length(survey->ctx, job->next.tensor);
        if (job->next.first < length) {
            const uint64_t left = length - job->next.first;
            *piece = job->next;
            piece->count = (size_t)(left < survey->piece_length ? left : survey->piece_length);
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

static void survey_work(void *ctx)
{
    survey_worker *worker = ctx;
    const coffer__survey *survey = worker->job->survey;
    coffer__survey_piece piece;
    while (!coffer__thread_pool_stop(&worker->base, 0) && survey_take(worker->job, &piece)) {
        const coffer_status status = survey->look(survey->ctx, &piece, worker->memory, &worker->err);
        if (status != COFFER_OK) {
            coffer__thread_pool_fail_at(&worker->job->thread_pool, piece.number, status, &worker->err,
                                        COFFER__THREAD_POOL_NO_ROW);
            return;
        }
        if (survey->total > 0) {
            (void)coffer__thread_pool_advance(&worker->base, piece.count);
        }
    }
}

static coffer_status survey_with(survey_job *job, survey_worker *workers, size_t count, uint8_t *memory)
{
    for (size_t i = 0; i < count; i++) {
        workers[i].job = job;
        workers[i].memory = memory + i * job->survey->memory_size;
    }
    return coffer__thread_pool_run(&job->thread_pool, workers, count, sizeof *workers);
}

coffer_status coffer__survey_run(const coffer__survey *survey, const coffer_read_options *options, coffer_error *err)
{
    const uint64_t pieces = coffer__survey_all_pieces(survey);
    uint64_t threads = options->threads != 0 ? options->threads : coffer__os_processors();
    threads = threads < SURVEY_MAX_THREADS ? threads : SURVEY_MAX_THREADS;
    const size_t count = pieces == 0 ? 1 : (size_t)(threads < pieces ? threads : pieces);
    survey_job job = { .survey = survey };
    job.thread_pool = (coffer__thread_pool){ .work = survey_work,
                                             .progress = options->progress,
                                             .progress_ctx = options->progress_ctx,
                                             .total = survey->total,
                                             .err = err };
    survey_worker *workers = coffer__alloc_array(survey->allocator, count, sizeof *workers, err);
    uint8_t *memory = coffer__alloc_array(survey->allocator, count, survey->memory_size, err);
    const coffer_status status =
        workers != NULL && memory != NULL ? survey_with(&job, workers, count, memory) : COFFER_ERR_MEMORY;
    coffer__free_array(survey->allocator, workers, count, sizeof *workers);
    coffer__free_array(survey->allocator, memory, count, survey->memory_size);
    return status;
}
