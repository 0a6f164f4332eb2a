/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at all bytes of some tensors by several threads, before anything is written. Tensors are cut into pieces, which
 * workers take in order; sums are kept for each piece and added up in the end in their order, so that the result is the
 * same with any number of threads.
 */
#include "alloc.h"
#include "average.h"
#include "crew.h"
#include "error.h"
#include "os.h"

#include <string.h>

#define AVERAGE_PIECE_SIZE ((uint64_t)2 << 20) /* bytes: whole elements of any dtype */
#define AVERAGE_DECODE_ELEMENTS 512
#define AVERAGE_MOST_THREADS 64

/* Some bytes of a tensor. */
typedef struct average_piece {
    size_t tensor;
    uint64_t offset;
    size_t size;
    size_t number; /* of all pieces */
} average_piece;

/* `next` is guarded by the crew's mutex; each piece of `sums` is one worker's. */
typedef struct average_job {
    coffer__crew crew;
    coffer__average *average;
    average_piece next;
    coffer__average_sums *sums;
} average_job;

typedef struct average_worker {
    coffer__crew_worker base;
    average_job *job;
    uint8_t *first; /* a piece of the first model … */
    uint8_t *other; /* … and of another one */
    coffer_error err;
} average_worker;

/* Whether a tensor's bytes are looked at. */
static bool average_is_scanned(const coffer__average *average, size_t tensor)
{
    return average->slerp || !coffer__average_computes(average, tensor);
}

static uint64_t average_pieces_of(const coffer__average *average, size_t tensor)
{
    const uint64_t size = coffer__average_tensor(average, 0, tensor)->size;
    return average_is_scanned(average, tensor) ? size / AVERAGE_PIECE_SIZE + (size % AVERAGE_PIECE_SIZE != 0) : 0;
}

/* ---- one piece --------------------------------------------------------------------------------------------------- */

static bool average_take(average_job *job, average_piece *piece)
{
    const coffer__average *average = job->average;
    bool taken = false;
    coffer__os_mutex_lock(&job->crew.mutex);
    for (; job->crew.status == COFFER_OK && !taken && job->next.tensor < average->tensor_count;
         job->next.tensor += !taken) {
        const uint64_t size = coffer__average_tensor(average, 0, job->next.tensor)->size;
        if (average_is_scanned(average, job->next.tensor) && job->next.offset < size) {
            const uint64_t left = size - job->next.offset;
            *piece = job->next;
            piece->size = (size_t)(left < AVERAGE_PIECE_SIZE ? left : AVERAGE_PIECE_SIZE);
            job->next.offset += piece->size;
            job->next.number++;
            taken = true;
        } else {
            job->next.offset = 0;
        }
    }
    coffer__os_mutex_unlock(&job->crew.mutex);
    return taken;
}

static coffer_status average_read(average_worker *worker, const average_piece *piece, size_t model, uint8_t *to)
{
    const coffer__average *average = worker->job->average;
    coffer_read_options alone = COFFER_READ_OPTIONS_INIT;
    alone.threads = 1;
    return coffer_read_part(average->models[model], coffer__average_tensor(average, model, piece->tensor),
                            piece->offset, to, piece->size, &alone, &worker->err);
}

static void average_add_up(const average_worker *worker, const average_piece *piece)
{
    double first[AVERAGE_DECODE_ELEMENTS];
    double second[AVERAGE_DECODE_ELEMENTS];
    const coffer_dtype dtype = coffer__average_tensor(worker->job->average, 0, piece->tensor)->dtype;
    const size_t count = piece->size / (coffer_dtype_bits(dtype) / 8);
    coffer__average_sums sums = { 0, 0, 0 };
    for (size_t done = 0; done < count; done += AVERAGE_DECODE_ELEMENTS) {
        const size_t now = count - done < AVERAGE_DECODE_ELEMENTS ? count - done : AVERAGE_DECODE_ELEMENTS;
        (void)coffer_decode(dtype, worker->first, done, now, first);
        (void)coffer_decode(dtype, worker->other, done, now, second);
        for (size_t i = 0; i < now; i++) {
            sums.both += first[i] * second[i];
            sums.first += first[i] * first[i];
            sums.second += second[i] * second[i];
        }
    }
    worker->job->sums[piece->number] = sums;
}

static coffer_status average_differs(average_worker *worker, const coffer_tensor *tensor)
{
    coffer__fail(&worker->err, COFFER_ERR_DTYPE,
                 "tensor %q is %s, which is not averaged, and differs between the models: drop it from all, or take "
                 "models that agree",
                 tensor->name, (size_t)tensor->name_len, coffer_tensor_dtype_name(tensor));
    return coffer__fail_tensor(&worker->err, COFFER_ERR_DTYPE, tensor->name, tensor->name_len);
}

static coffer_status average_scan_piece(average_worker *worker, const average_piece *piece)
{
    const coffer__average *average = worker->job->average;
    coffer_status status = average_read(worker, piece, 0, worker->first);
    for (size_t m = 1; m < average->model_count && status == COFFER_OK; m++) {
        status = average_read(worker, piece, m, worker->other);
        if (status != COFFER_OK) {
            return status;
        }
        if (coffer__average_computes(average, piece->tensor)) {
            average_add_up(worker, piece);
        } else if (memcmp(worker->first, worker->other, piece->size) != 0) {
            return average_differs(worker, coffer__average_tensor(average, 0, piece->tensor));
        }
    }
    return status;
}

static void average_work(void *ctx)
{
    average_worker *worker = ctx;
    average_piece piece;
    while (!coffer__crew_stop(&worker->base, 0) && average_take(worker->job, &piece)) {
        const coffer_status status = average_scan_piece(worker, &piece);
        if (status != COFFER_OK) {
            coffer__crew_fail_at(&worker->job->crew, piece.number, status, &worker->err, COFFER__CREW_NO_ROW);
            return;
        }
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* The pieces of a tensor, added up in their order. */
static void average_find_coefficients(coffer__average *average, const coffer__average_sums *sums)
{
    size_t piece = 0;
    for (size_t i = 0; i < average->tensor_count; i++) {
        const uint64_t pieces = average_pieces_of(average, i);
        coffer__average_sums all = { 0, 0, 0 };
        for (uint64_t k = 0; k < pieces; k++, piece++) {
            all.both += sums[piece].both;
            all.first += sums[piece].first;
            all.second += sums[piece].second;
        }
        double *coefficients = &average->coefficients[i * average->model_count];
        coffer__average_angle(&all, coefficients[0], coefficients);
    }
}

static coffer_status average_scan_with(average_job *job, average_worker *workers, size_t count, uint8_t *buffers)
{
    for (size_t i = 0; i < count; i++) {
        workers[i].job = job;
        workers[i].first = buffers + 2 * i * (size_t)AVERAGE_PIECE_SIZE;
        workers[i].other = workers[i].first + AVERAGE_PIECE_SIZE;
    }
    return coffer__crew_run(&job->crew, workers, count, sizeof *workers);
}

/* The user is asked while it lasts; what is told is the writing. */
coffer_status coffer__average_scan(coffer__average *average, const coffer_read_options *options, coffer_error *err)
{
    const coffer_allocator *allocator = &average->allocator;
    uint64_t pieces = 0;
    for (size_t i = 0; i < average->tensor_count; i++) {
        pieces += average_pieces_of(average, i);
    }
    uint64_t threads = options->threads != 0 ? options->threads : coffer__os_processors();
    threads = threads < AVERAGE_MOST_THREADS ? threads : AVERAGE_MOST_THREADS;
    const size_t count = pieces == 0 ? 1 : (size_t)(threads < pieces ? threads : pieces);
    const size_t buffers_size = count * 2 * (size_t)AVERAGE_PIECE_SIZE;
    average_job job = { .average = average };
    job.crew = (coffer__crew){
        .work = average_work, .progress = options->progress, .progress_ctx = options->progress_ctx, .err = err
    };
    job.sums = coffer__alloc_array(allocator, (size_t)pieces, sizeof *job.sums, err);
    average_worker *workers = coffer__alloc_array(allocator, count, sizeof *workers, err);
    uint8_t *buffers = coffer__alloc_array(allocator, buffers_size, 1, err);
    coffer_status status = job.sums != NULL && workers != NULL && buffers != NULL
                               ? average_scan_with(&job, workers, count, buffers)
                               : COFFER_ERR_MEMORY;
    if (status == COFFER_OK && average->slerp) {
        average_find_coefficients(average, job.sums);
    }
    coffer__free_array(allocator, job.sums, (size_t)pieces, sizeof *job.sums);
    coffer__free_array(allocator, workers, count, sizeof *workers);
    coffer__free_array(allocator, buffers, buffers_size, 1);
    return status;
}
