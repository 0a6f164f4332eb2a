/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor. What its crew shares is which digest comes next, and then where the next piece begins. A worker holds the mutex only
 * to take one, so at a few MiB each it is never in the way. From far away workers mostly wait, so there are as many as there are
 * pieces, whatever the number of processors.
 */
#include "transfer.h"

#include "alloc.h"
#include "checked.h"
#include "digest.h"
#include "error.h"
#include "fill.h"
#include "piece.h"

#include <string.h>

#define TRANSFER_PIECE_SIZE ((uint64_t)2 << 20)
#define TRANSFER_ALONE_SIZE ((uint64_t)2 << 20) /* below it starting a thread costs more than it brings */
#define TRANSFER_DEFAULT_THREADS 16u
#define TRANSFER_MOST_THREADS 64u
#define TRANSFER_TILES ((uint64_t)32 << 20) /* all tiles of all workers together */

typedef struct transfer_job {
    const coffer__row *rows;
    size_t row_count;
    coffer__crew crew; /* its mutex guards what follows */
    coffer__streams streams;
    coffer__queue queue;
} transfer_job;

typedef struct transfer_worker {
    coffer__filler filler;
    transfer_job *job;
    coffer__hashers hashers;
} transfer_worker;

/* What all workers have in memory. Tiles are large, so there are few: a worker waits until one is free. */
typedef struct transfer_memory {
    size_t workers;
    size_t scratch; /* bytes of each */
    size_t slots;   /* for tiles */
    size_t slot;    /* bytes of each */
} transfer_memory;

static uint64_t transfer_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static const coffer__row *transfer_take_stream(transfer_job *job)
{
    coffer__os_mutex_lock(&job->crew.mutex);
    const coffer__row *row = job->crew.status == COFFER_OK ? coffer__streams_next(&job->streams) : NULL;
    coffer__os_mutex_unlock(&job->crew.mutex);
    return row;
}

/* Takes the next piece and counts what the worker has done since; false when there is none, or when someone has failed. */
static bool transfer_take(transfer_job *job, uint64_t done, coffer__piece *piece, coffer__tile *tile)
{
    coffer__os_mutex_lock(&job->crew.mutex);
    job->crew.done += done;
    const bool taken = job->crew.status == COFFER_OK && coffer__queue_next(&job->queue, piece, tile);
    coffer__os_mutex_unlock(&job->crew.mutex);
    return taken;
}

/* The number of the row that a failure is about: of several, the one that has the byte where it was. */
static size_t transfer_failed_row(const transfer_job *job, const coffer__piece *piece, const coffer_error *error)
{
    const coffer__row *row = piece->row;
    for (size_t i = 1; i < piece->rows && error->offset != COFFER_NO_OFFSET; i++) {
        row = piece->row[i].offset <= error->offset ? &piece->row[i] : row;
    }
    return (size_t)(row - job->rows);
}

static void transfer_work_streams(const transfer_worker *worker)
{
    transfer_job *job = worker->job;
    const coffer__row *row = transfer_take_stream(job);
    while (row != NULL) {
        coffer_error error;
        coffer__error_clear(&error);
        const coffer_status status = coffer__digest_row(&worker->filler, &worker->hashers, row, &error);
        if (status != COFFER_OK) {
            coffer__crew_fail(&job->crew, status, &error, (size_t)(row - job->rows));
        }
        row = transfer_take_stream(job);
    }
}

static void transfer_work_pieces(transfer_worker *worker)
{
    transfer_job *job = worker->job;
    coffer__piece piece;
    coffer__tile tile;
    uint64_t done = 0;
    worker->filler.asked = coffer__os_milliseconds();
    while (transfer_take(job, done, &piece, &tile)) {
        coffer_error error;
        coffer__error_clear(&error);
        const coffer_status status = coffer__fill(&worker->filler, &piece, &tile, &error);
        done = piece.size;
        if (status != COFFER_OK) {
            const bool cancelled = status == COFFER_ERR_CANCELLED;
            const size_t row = cancelled ? COFFER__CREW_NO_ROW : transfer_failed_row(job, &piece, &error);
            coffer__crew_fail(&job->crew, status, &error, row);
        } else {
            (void)coffer__crew_stop(&worker->filler.base, done); /* which the next look for a piece finds out */
        }
    }
}

/* Digests first: each is one worker's affair, and what can be cut fills the time of the others. */
static void transfer_work(void *arg)
{
    transfer_work_streams(arg);
    transfer_work_pieces(arg);
}

/* ---- threads and memory ------------------------------------------------------------------------------------------ */

/* Threads that are worth while for what is cut, the caller's included. */
static size_t transfer_piece_threads(const transfer_job *job, uint64_t total, uint32_t wanted)
{
    const uint64_t most = wanted == 0 ? TRANSFER_DEFAULT_THREADS : transfer_min(wanted, TRANSFER_MOST_THREADS);
    const uint64_t far = coffer__queue_far_pieces(&job->queue, most);
    const uint64_t pieces = total / TRANSFER_PIECE_SIZE + 1;
    if (far > 0) {
        return (size_t)far;
    }
    if (wanted == 0 && total < TRANSFER_ALONE_SIZE) {
        return 1;
    }
    return (size_t)transfer_min(wanted == 0 ? transfer_min(coffer__os_processors(), most) : most, pieces);
}

static transfer_memory transfer_measure(const transfer_job *job, uint32_t threads)
{
    const size_t streams = coffer__streams_threads(&job->streams, threads);
    const size_t pieces = transfer_piece_threads(job, job->crew.total - job->streams.total, threads);
    const size_t of_streams = coffer__streams_scratch(&job->streams);
    const size_t of_pieces = coffer__queue_scratch(&job->queue);
    transfer_memory memory = { .workers = streams > pieces ? streams : pieces, .slots = 0 };
    memory.scratch = of_streams > of_pieces ? of_streams : of_pieces;
    memory.slot = coffer__queue_largest_tile(&job->queue);
    if (memory.slot > 0) {
        const uint64_t slots = TRANSFER_TILES / memory.slot;
        memory.slots = (size_t)transfer_min(slots > 0 ? slots : 1, memory.workers);
    }
    return memory;
}

/* Whether all of it is read by this library alone: from maps and files, by no caller's functions and no other library. */
static bool transfer_is_own(const transfer_job *job)
{
    for (size_t i = 0; i < job->row_count; i++) {
        if (job->rows[i].map == NULL && job->rows[i].source->is.foreign) {
            return false;
        }
    }
    return job->streams.count == 0; /* hashing may be another library's affair */
}

/* Gives out the memory behind the workers. The caller's thread shares its slot with nobody, as it has the user to ask. */
static void transfer_share(transfer_job *job, const transfer_memory *memory, transfer_worker *workers,
                           coffer__slot *slots)
{
    uint8_t *scratch = (uint8_t *)(slots + memory->slots);
    uint8_t *tiles = scratch + memory->workers * memory->scratch;
    for (size_t i = 0; i < memory->slots; i++) {
        slots[i].memory = tiles + i * memory->slot;
    }
    for (size_t i = 0; i < memory->workers; i++) {
        const size_t shared = i > 0 && memory->slots > 1 ? 1 + (i - 1) % (memory->slots - 1) : 0;
        workers[i] = (transfer_worker){ .job = job };
        workers[i].filler.scratch = memory->scratch == 0 ? NULL : scratch + i * memory->scratch;
        workers[i].filler.scratch_size = memory->scratch;
        workers[i].filler.slot = memory->slots == 0 ? NULL : &slots[shared];
    }
}

static coffer_status transfer_run_crew(transfer_job *job, transfer_worker *workers, size_t count,
                                       const coffer_allocator *allocator, coffer_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const coffer_status status = coffer__hashers_make(&workers[i].hashers, &job->streams, allocator, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    job->crew.own_code = transfer_is_own(job);
    return coffer__crew_run(&job->crew, workers, count, sizeof *workers);
}

/* Makes the locks of the slots meanwhile. */
static coffer_status transfer_run_locked(transfer_job *job, transfer_worker *workers, const transfer_memory *memory,
                                         coffer__slot *slots, const coffer_allocator *allocator, coffer_error *err)
{
    size_t locks = 0;
    coffer_status status = COFFER_OK;
    while (locks < memory->slots && coffer__os_mutex_init(&slots[locks].lock) == 0) {
        locks++;
    }
    if (locks == memory->slots) {
        status = transfer_run_crew(job, workers, memory->workers, allocator, err);
    } else {
        status = coffer__fail(err, COFFER_ERR_IO, "the system cannot make a mutex");
    }
    while (locks > 0) {
        coffer__os_mutex_deinit(&slots[--locks].lock);
    }
    return status;
}

static coffer_status transfer_run(transfer_job *job, const coffer__transfer_options *options, coffer_error *err)
{
    const coffer_allocator *allocator = options->allocator;
    const transfer_memory memory = transfer_measure(job, options->threads);
    const size_t block_size = memory.workers * (sizeof(transfer_worker) + memory.scratch) +
                              memory.slots * (sizeof(coffer__slot) + memory.slot);
    transfer_worker *workers = coffer__alloc(allocator, block_size);
    if (workers == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z that %s works with", (uint64_t)block_size,
                            job->streams.count > 0 ? "hashing" : "reading");
    }
    coffer__slot *slots = (coffer__slot *)(workers + memory.workers);
    transfer_share(job, &memory, workers, slots);
    const coffer_status status = transfer_run_locked(job, workers, &memory, slots, allocator, err);
    for (size_t i = 0; i < memory.workers; i++) {
        coffer__hashers_free(&workers[i].hashers);
    }
    coffer__free(allocator, workers, block_size);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status transfer_begin(transfer_job *job, const coffer__transfer_options *options, coffer_error *err)
{
    const coffer_status status =
        coffer__streams_begin(&job->streams, job->rows, job->row_count, options->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    job->queue = (coffer__queue){ .rows = job->rows, .row_count = job->row_count, .tiles = options->tiles };
    job->crew = (coffer__crew){ .work = transfer_work,
                                .progress = options->progress,
                                .progress_ctx = options->progress_ctx,
                                .err = err,
                                .failed = options->failed };
    uint64_t pieces = 0;
    if (!coffer__queue_total(&job->queue, &pieces) || !coffer__add_u64(pieces, job->streams.total, &job->crew.total)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "more than 2^64-1 bytes cannot be moved at once");
    }
    return COFFER_OK;
}

coffer_status coffer__transfer(const coffer__row *rows, size_t count, const coffer__transfer_options *options,
                               coffer_error *err)
{
    transfer_job job = { .rows = rows, .row_count = count };
    coffer_status status = transfer_begin(&job, options, err);
    if (status == COFFER_OK) {
        status = transfer_run(&job, options, err);
    }
    coffer__streams_end(&job.streams, options->allocator);
    return status;
}
