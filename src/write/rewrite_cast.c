/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Casting: the tensors that get another dtype are cut into pieces, which the workers of a thread pool take in order. A worker
 * reads its piece, decodes a block of it to doubles, encodes those with one correct rounding, and decodes the result
 * again, which tells what became infinite or zero; then the piece is written. Where a piece begins depends on the
 * tensor alone, and every number on itself alone, so the new bytes are the same with any number of threads. Memory: at
 * most 4 MiB for each worker.
 */
#include "alloc.h"
#include "error.h"
#include "floats.h"
#include "os.h"
#include "rewriting.h"
#include "thread_pool.h"

#include <math.h>
#include <string.h>

/* A piece is whole bytes of any dtype, and at most 2 MiB. */
#define REWRITE_PIECE_ELEMENTS COFFER__REWRITE_PIECE_ELEMENTS
/* The bytes of one number in a piece, at most. */
#define REWRITE_ELEMENT_SIZE 8
/* How many elements are decoded at a time: as doubles they fit in the processor's cache and on the stack. */
#define REWRITE_BLOCK_ELEMENTS COFFER__FLOATS_MAX
#define REWRITE_MAX_THREADS 64

/* The tensor, the first element of it and how many; the counts of lost numbers are this piece's own
   until rewrite_count_piece adds them. */
typedef struct rewrite_piece {
    size_t number; /* of the declaration */
    uint64_t first;
    size_t count; /* of elements */
    uint64_t overflowed;
    uint64_t vanished;
    uint64_t nans;
    uint64_t wrapped;
} rewrite_piece;

/* `next` is guarded by the thread pool's mutex, and so are the counts of what was lost. */
typedef struct rewrite_cast_job {
    coffer__thread_pool thread_pool;
    coffer_rewrite *rewrite;
    const coffer__rewrite_target *target;
    rewrite_piece next;
} rewrite_cast_job;

/* Each worker has its own buffers and its own error, so only `job` is shared. */
typedef struct rewrite_cast_worker {
    coffer__thread_pool_worker base;
    rewrite_cast_job *job;
    uint8_t *from;   /* space for a piece of any dtype */
    uint8_t *to;     /* space for the cast piece */
    uint8_t *memory; /* what computing needs */
    coffer_status status;
    coffer_error err;
} rewrite_cast_worker;

/* Bytes of that many elements, which must fill whole bytes. Written so that no product overflows.
   Pieces begin at multiples of REWRITE_PIECE_ELEMENTS, which is a multiple of 8, so that holds for
   dtypes of fewer bits than a byte as well. */
static uint64_t rewrite_elements_size(coffer_dtype dtype, uint64_t elements)
{
    const uint64_t bits = coffer_dtype_bits(dtype);
    return elements / 8 * bits + elements % 8 * bits / 8;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Whether a number may have become zero or infinite: it is zero, infinite or NaN. Without its sign,
   a double is ordered as its bits are as an integer, from 0 to infinity and NaN; less 1, zero is
   the largest. So one comparison decides, which counts because every number that is cast comes
   here. Whether the number that was read was such a value already is left to the caller. */
static bool rewrite_may_be_lost(double value)
{
    const uint64_t infinity = UINT64_C(0x7FF) << 53;
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return (bits << 1) - 1 >= infinity - 1;
}

/* Compares what was written, decoded again, with what was read. Numbers that cannot have been lost,
   which are nearly all, cost one comparison. Overflow means that a number became infinite which was
   not; vanishing, that it became zero which was not. NaN is neither. */
static void rewrite_count_losses(rewrite_piece *piece, const double *values, const double *back, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rewrite_may_be_lost(back[i])) {
            piece->overflowed += fabs(back[i]) == INFINITY && fabs(values[i]) != INFINITY;
            piece->vanished += back[i] == 0 && values[i] != 0;
        }
    }
}

/* F8_E4M3 has no infinity to tell an overflow by. Halfway between 448 and what would follow it is the last number that
   448 is the nearest of. */
static void rewrite_count_saturated(rewrite_piece *piece, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        piece->overflowed += fabs(values[i]) > 464;
    }
}

/* What computes the piece's numbers; NULL: it is only cast. */
static const coffer__computing *rewrite_computing(const coffer_rewrite *rewrite, const rewrite_piece *piece)
{
    return coffer__rewrite_change_of(rewrite, piece->number)->computed ? &rewrite->computing : NULL;
}

/* Casts one block, on the stack. Decoding and encoding cannot fail: the dtypes were checked when
   the plan was made. Decoding a float to a double is exact, so there is one rounding, when the block
   is encoded. */
static void rewrite_cast_block(const rewrite_cast_worker *worker, rewrite_piece *piece, size_t done, size_t count,
                               const coffer_dtype dtypes[2])
{
    double values[REWRITE_BLOCK_ELEMENTS];
    double back[REWRITE_BLOCK_ELEMENTS];
    const coffer_rewrite *rewrite = worker->job->rewrite;
    const coffer__computing *computing = rewrite_computing(rewrite, piece);
    uint8_t *into = worker->to + rewrite_elements_size(dtypes[1], done);
    (void)coffer_decode(dtypes[0], worker->from, done, count, values);
    if (computing != NULL) {
        computing->change(computing->ctx, worker->memory, rewrite->sources[piece->number], piece->first, done, count,
                          values);
    }
    (void)coffer_encode(dtypes[1], values, count, into);
    (void)coffer_decode(dtypes[1], into, 0, count, back);
    rewrite_count_losses(piece, values, back, count);
    if (dtypes[1] == COFFER_F8_E4M3) {
        rewrite_count_saturated(piece, values, count);
    }
}

/* The same for what is computed in F32. */
static void rewrite_compute_block(const rewrite_cast_worker *worker, rewrite_piece *piece, size_t done, size_t count,
                                  const coffer_dtype dtypes[2])
{
    float values[REWRITE_BLOCK_ELEMENTS];
    const coffer_rewrite *rewrite = worker->job->rewrite;
    const coffer__computing *computing = &rewrite->computing;
    coffer__floats_losses losses = { 0, 0 };
    coffer__floats_decode(dtypes[0], worker->from + rewrite_elements_size(dtypes[0], done), count, values);
    computing->change_floats(computing->ctx, worker->memory, rewrite->sources[piece->number], piece->first, done, count,
                             values);
    coffer__floats_encode(dtypes[1], values, count, worker->to + rewrite_elements_size(dtypes[1], done), &losses);
    piece->overflowed += losses.overflowed;
    piece->vanished += losses.vanished;
}

/* Block by block. */
static void rewrite_cast_elements(const rewrite_cast_worker *worker, rewrite_piece *piece, coffer_dtype from,
                                  coffer_dtype to)
{
    const coffer_dtype dtypes[] = { from, to };
    const coffer__computing *computing = rewrite_computing(worker->job->rewrite, piece);
    const bool in_floats =
        computing != NULL && computing->change_floats != NULL && coffer__floats_have(from) && coffer__floats_have(to);
    for (size_t done = 0; done < piece->count; done += REWRITE_BLOCK_ELEMENTS) {
        const size_t left = piece->count - done;
        const size_t count = left < REWRITE_BLOCK_ELEMENTS ? left : REWRITE_BLOCK_ELEMENTS;
        if (in_floats) {
            rewrite_compute_block(worker, piece, done, count, dtypes);
        } else {
            rewrite_cast_block(worker, piece, done, count, dtypes);
        }
    }
}

/* ---- one piece --------------------------------------------------------------------------------------------------- */

/* How many elements come together: what is made says so itself. */
static size_t rewrite_piece_count(const coffer_rewrite *rewrite, const rewrite_piece *piece, uint64_t left)
{
    const coffer__computing *computing = &rewrite->computing;
    if (coffer__rewrite_is_made(rewrite, coffer__rewrite_change_of(rewrite, piece->number))) {
        return (size_t)computing->pieces(computing->ctx, rewrite->sources[piece->number], piece->first);
    }
    return (size_t)(left < REWRITE_PIECE_ELEMENTS ? left : REWRITE_PIECE_ELEMENTS);
}

/* Takes the next piece; false when there is none, or when a worker has failed. Declarations that
   are not cast, and those without elements, are skipped. `next` stays at a tensor until all its
   pieces are taken. Pieces are given out in the order of the declarations, so that of several new
   files mostly one at a time is being filled. */
static bool rewrite_take(rewrite_cast_job *job, rewrite_piece *piece)
{
    const size_t count = coffer_header_count(job->rewrite->header);
    bool taken = false;
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    /* The number advances only in rounds that took nothing, so a tensor is left when it has no
       piece more. */
    for (; job->thread_pool.status == COFFER_OK && !taken && job->next.number < count; job->next.number += !taken) {
        const coffer_rewrite_change *change = coffer__rewrite_change_of(job->rewrite, job->next.number);
        const uint64_t elements = coffer__rewrite_is_cast(change) ? coffer_tensor_elements(change->to) : 0;
        if (job->next.first < elements) {
            *piece = job->next;
            piece->count = rewrite_piece_count(job->rewrite, piece, elements - piece->first);
            job->next.first += piece->count;
            taken = true;
        } else {
            job->next.first = 0;
        }
    }
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return taken;
}

/* Both writers take pieces in any order and from any thread. */
static coffer_status rewrite_put(const coffer__rewrite_target *target, size_t number, uint64_t offset,
                                 const void *bytes, uint64_t size, coffer_error *err)
{
    return target->file != NULL ? coffer_writer_write(target->file, number, offset, bytes, size, err)
                                : coffer_model_writer_write(target->files, number, offset, bytes, size, err);
}

/* Makes and writes one piece of a tensor that is made of others. */
static coffer_status rewrite_make_piece(rewrite_cast_worker *worker, rewrite_piece *piece)
{
    const coffer_rewrite *rewrite = worker->job->rewrite;
    const coffer__computing *computing = &rewrite->computing;
    const coffer_dtype to = coffer__rewrite_change_of(rewrite, piece->number)->to->dtype;
    coffer__rewrite_part part = { NULL, 0, 0, 0 };
    const coffer_status status = computing->make(computing->ctx, worker->memory, rewrite->sources[piece->number],
                                                 piece->first, &part, &worker->err);
    piece->overflowed = part.overflowed;
    piece->nans = part.nans;
    piece->wrapped = part.wrapped;
    return status == COFFER_OK
               ? rewrite_put(worker->job->target, piece->number, rewrite_elements_size(to, piece->first), part.bytes,
                             rewrite_elements_size(to, piece->count), &worker->err)
               : status;
}

/* Reads, casts and writes one piece. The read runs in this thread alone, as the other workers do
   the same at the same time. No lock is held while it reads, computes and writes. Memory for the
   read is the worker's own buffer, so a piece costs no allocation here. After a failure the error
   is in worker->err. */
static coffer_status rewrite_cast_piece(rewrite_cast_worker *worker, rewrite_piece *piece)
{
    const coffer_rewrite *rewrite = worker->job->rewrite;
    const coffer_rewrite_change *change = coffer__rewrite_change_of(rewrite, piece->number);
    const coffer_dtype from = change->from->dtype;
    const coffer_dtype to = change->to->dtype;
    coffer_read_options alone = COFFER_READ_OPTIONS_INIT;
    alone.threads = 1;
    coffer_status status =
        coffer_read_part(rewrite->model, change->from, rewrite_elements_size(from, piece->first), worker->from,
                         rewrite_elements_size(from, piece->count), &alone, &worker->err);
    if (status == COFFER_OK && change->computed && rewrite->computing.fetch != NULL) {
        status = rewrite->computing.fetch(rewrite->computing.ctx, worker->memory, rewrite->sources[piece->number],
                                          piece->first, piece->count, &worker->err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    rewrite_cast_elements(worker, piece, from, to);
    return rewrite_put(worker->job->target, piece->number, rewrite_elements_size(to, piece->first), worker->to,
                       rewrite_elements_size(to, piece->count), &worker->err);
}

/* Several workers may have pieces of one tensor, so the tensor's counts are added to under the
   mutex. */
static void rewrite_count_piece(rewrite_cast_job *job, const rewrite_piece *piece)
{
    coffer_rewrite_change *change = coffer__rewrite_change_of(job->rewrite, piece->number);
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    change->overflowed += piece->overflowed;
    change->vanished += piece->vanished;
    change->nans += piece->nans;
    change->wrapped += piece->wrapped;
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
}

/* A piece is counted only after it was written. What a failure leaves is the writer's to
   discard. */
static void rewrite_cast_work(void *ctx)
{
    rewrite_cast_worker *worker = ctx;
    rewrite_cast_job *job = worker->job;
    rewrite_piece piece;
    bool stop = false;
    while (!stop && rewrite_take(job, &piece)) {
        const coffer_dtype dtype = coffer__rewrite_change_of(job->rewrite, piece.number)->to->dtype;
        const bool made = coffer__rewrite_is_made(job->rewrite, coffer__rewrite_change_of(job->rewrite, piece.number));
        worker->status = made ? rewrite_make_piece(worker, &piece) : rewrite_cast_piece(worker, &piece);
        if (worker->status != COFFER_OK) {
            coffer__thread_pool_fail(&job->thread_pool, worker->status, &worker->err, COFFER__THREAD_POOL_NO_ROW);
            return;
        }
        rewrite_count_piece(job, &piece);
        stop = coffer__thread_pool_advance(&worker->base, rewrite_elements_size(dtype, piece.count));
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* After a writer has failed, it refuses the writes of other threads as wrong calls. The failure
   itself is what the caller must learn, so it is preferred to those refusals. All threads were
   joined, so the workers' fields can be read without the mutex. COFFER_ERR_ARGUMENT itself is
   returned only if no worker has another failure. */
static coffer_status rewrite_cause(const rewrite_cast_worker *workers, size_t count, coffer_status status,
                                   coffer_error *err)
{
    for (size_t i = 0; i < count && status == COFFER_ERR_ARGUMENT; i++) {
        if (workers[i].status == COFFER_OK || workers[i].status == COFFER_ERR_ARGUMENT) {
            continue;
        }
        status = workers[i].status;
        if (err != NULL) {
            *err = workers[i].err;
        }
    }
    return status;
}

/* Bytes of a worker's buffers. What computing needs is bounded by who asks for it, so nothing overflows. */
static size_t rewrite_worker_size(const coffer_rewrite *rewrite)
{
    return 2 * (size_t)REWRITE_PIECE_ELEMENTS * REWRITE_ELEMENT_SIZE + rewrite->computing.memory_size;
}

/* Gives each worker its buffers and runs them. From, to and the memory to compute with are neighbours in the same block
   for each worker. */
static coffer_status rewrite_cast_with(rewrite_cast_job *job, rewrite_cast_worker *workers, size_t count,
                                       uint8_t *buffers, coffer_error *err)
{
    const size_t size = (size_t)REWRITE_PIECE_ELEMENTS * REWRITE_ELEMENT_SIZE;
    for (size_t i = 0; i < count; i++) {
        workers[i].job = job;
        workers[i].from = buffers + i * rewrite_worker_size(job->rewrite);
        workers[i].to = workers[i].from + size;
        workers[i].memory = workers[i].to + size;
    }
    const coffer_status status = coffer__thread_pool_run(&job->thread_pool, workers, count, sizeof *workers);
    return rewrite_cause(workers, count, status, err);
}

/* How many threads are worth starting: at most one for each piece. `wanted` is the caller's number,
   0 for as many as there are processors. Counting stops early, since beyond the most threads it
   changes nothing. */
static size_t rewrite_thread_count(const coffer_rewrite *rewrite, uint32_t wanted)
{
    uint64_t pieces = 0;
    uint64_t count = wanted != 0 ? wanted : coffer__os_processors();
    const size_t declared = coffer_header_count(rewrite->header);
    for (size_t i = 0; i < declared && pieces < REWRITE_MAX_THREADS; i++) {
        const coffer_rewrite_change *change = coffer__rewrite_change_of(rewrite, i);
        const uint64_t elements = coffer__rewrite_is_cast(change) ? coffer_tensor_elements(change->to) : 0;
        pieces += elements / REWRITE_PIECE_ELEMENTS + (elements % REWRITE_PIECE_ELEMENTS != 0);
    }
    count = count < pieces ? count : pieces;
    return (size_t)(count == 0 ? 1 : count < REWRITE_MAX_THREADS ? count : REWRITE_MAX_THREADS);
}

/* All memory is taken before the first thread starts, so casting itself cannot run out of it in the
   middle of the work. No thread is left when it returns. */
coffer_status coffer__rewrite_cast(coffer_rewrite *rewrite, const coffer__rewrite_target *target,
                                   const coffer_read_options *options, coffer_error *err)
{
    const coffer_allocator *allocator = &rewrite->allocator;
    const size_t count = rewrite_thread_count(rewrite, options->threads);
    const size_t buffers_size = count * rewrite_worker_size(rewrite);
    rewrite_cast_job job = { .rewrite = rewrite, .target = target };
    job.thread_pool = (coffer__thread_pool){ .work = rewrite_cast_work,
                                             .progress = options->progress,
                                             .progress_ctx = options->progress_ctx,
                                             .total = rewrite->summary.cast,
                                             .err = err };
    rewrite_cast_worker *workers = coffer__alloc_array(allocator, count, sizeof *workers, err);
    uint8_t *buffers = coffer__alloc(allocator, buffers_size);
    const coffer_status status =
        workers != NULL && buffers != NULL
            ? rewrite_cast_with(&job, workers, count, buffers, err)
            : coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z that casting needs", (uint64_t)buffers_size);
    coffer__free(allocator, buffers, buffers_size);
    coffer__free_array(allocator, workers, count, sizeof *workers);
    return status;
}
