/* SPDX-License-Identifier: Apache-2.0 */
/* The crew shares which row is next. A worker holds its mutex when it takes a row, and once for each piece of a long one. */
#include "digest.h"

#include "alloc.h"
#include "checked.h"
#include "crew.h"
#include "error.h"
#include "os.h"
#include "sort.h"

#include <string.h>

/* What is hashed right after it was read is still in the processor's cache, and what is in a map costs no copy. */
#define DIGEST_READ_PIECE ((uint64_t)256 << 10)
#define DIGEST_MAP_PIECE ((uint64_t)4 << 20)
/* Of what is far away: a journey is worth more, and several are made side by side. */
#define DIGEST_FAR_PIECE ((uint64_t)2 << 20)
#define DIGEST_ALONE_SIZE ((uint64_t)1 << 20) /* below it starting a thread costs more than it brings */
#define DIGEST_DEFAULT_THREADS 16u
#define DIGEST_MOST_THREADS 64u
#define DIGEST_ALGORITHMS (COFFER_XXH3_128 + 1)

typedef struct digest_job {
    const coffer__digest_row *rows;
    size_t count;
    const uint32_t *order; /* the longest first */
    coffer__crew crew;     /* its mutex guards what is below */
    size_t next;           /* in the order */
} digest_job;

typedef struct digest_worker {
    coffer__crew_worker base;
    digest_job *job;
    coffer_hasher *hashers[DIGEST_ALGORITHMS]; /* of those that rows ask for */
    uint8_t *buffer;                           /* for a piece that is read; NULL: no row needs it */
} digest_worker;

/* ---- what the workers share -------------------------------------------------------------------------------------- */

static const coffer__digest_row *digest_take(digest_job *job)
{
    coffer__os_mutex_lock(&job->crew.mutex);
    const bool more = job->crew.status == COFFER_OK && job->next < job->count;
    const coffer__digest_row *row = more ? &job->rows[job->order[job->next++]] : NULL;
    coffer__os_mutex_unlock(&job->crew.mutex);
    return row;
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

/* The bytes of a piece in memory: in the map, or read to where they are wanted or into the buffer. */
static coffer_status digest_fetch(const digest_worker *worker, const coffer__digest_row *row, uint64_t at,
                                  uint64_t size, const uint8_t **bytes, coffer_error *err)
{
    uint8_t *to = row->to != NULL ? row->to + (size_t)at : worker->buffer;
    if (row->map == NULL) {
        *bytes = to;
        return coffer__source_read_watched(row->source, row->offset + at, to, (size_t)size, &worker->base.watch, err);
    }
    *bytes = row->map + (size_t)(row->offset + at);
    if (row->to != NULL) {
        memcpy(to, *bytes, (size_t)size);
        *bytes = to;
    }
    return COFFER_OK;
}

static bool digest_is_far(const coffer__digest_row *row)
{
    return row->map == NULL && row->source->is.far;
}

/* Bytes that are read, or looked at in the map, at a stretch. */
static uint64_t digest_piece(const coffer__digest_row *row)
{
    if (row->map != NULL && row->to == NULL) {
        return DIGEST_MAP_PIECE;
    }
    return digest_is_far(row) ? DIGEST_FAR_PIECE : DIGEST_READ_PIECE;
}

static coffer_status digest_row(const digest_worker *worker, const coffer__digest_row *row, coffer_error *err)
{
    const uint64_t most = digest_piece(row);
    coffer_hasher *hasher = worker->hashers[row->algorithm];
    for (uint64_t at = 0; at < row->size;) {
        const uint64_t size = row->size - at < most ? row->size - at : most;
        const uint8_t *bytes = NULL;
        coffer_status status = digest_fetch(worker, row, at, size, &bytes, err);
        if (status == COFFER_OK && hasher != NULL) {
            status = coffer_hasher_update(hasher, bytes, (size_t)size, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        at += size;
        if (coffer__crew_advance(&worker->base, size)) {
            return COFFER_OK; /* somebody failed, and said so */
        }
    }
    return hasher == NULL
               ? COFFER_OK
               : coffer_hasher_finish(hasher, row->digest, coffer_algorithm_digest_size(row->algorithm), err);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static void digest_work(void *arg)
{
    const digest_worker *worker = arg;
    digest_job *job = worker->job;
    const coffer__digest_row *row = digest_take(job);
    while (row != NULL) {
        coffer_error error;
        coffer__error_clear(&error);
        const coffer_status status = digest_row(worker, row, &error);
        if (status != COFFER_OK) {
            coffer__crew_fail(&job->crew, status, &error, (size_t)(row - job->rows));
        }
        row = digest_take(job);
    }
}

/* Threads that are worth while, the caller's included. */
static size_t digest_thread_count(const digest_job *job, uint32_t wanted)
{
    uint64_t count = wanted;
    bool far = false;
    for (size_t i = 0; i < job->count && !far; i++) {
        far = digest_is_far(&job->rows[i]);
    }
    if (wanted == 0 && far) {
        count = DIGEST_DEFAULT_THREADS; /* which mostly wait */
    } else if (wanted == 0) {
        const unsigned processors = coffer__os_processors();
        count = processors < DIGEST_DEFAULT_THREADS ? processors : DIGEST_DEFAULT_THREADS;
    }
    count = count < DIGEST_MOST_THREADS ? count : DIGEST_MOST_THREADS;
    const uint64_t worth = job->crew.total / DIGEST_ALONE_SIZE + 1;
    count = count < worth ? count : worth;
    return (size_t)(job->count > 0 && count > job->count ? job->count : count);
}

/* Bytes of the buffer that a worker needs for the rows; 0 when all of them go elsewhere. */
static size_t digest_buffer_size(const digest_job *job)
{
    uint64_t most = 0;
    for (size_t i = 0; i < job->count; i++) {
        const coffer__digest_row *row = &job->rows[i];
        const uint64_t piece = digest_piece(row);
        const bool needed = row->map == NULL && row->to == NULL && row->size > 0;
        most = needed && piece > most ? piece : most;
    }
    return (size_t)most;
}

/* Gives a worker a hasher of each algorithm that rows ask for. */
static coffer_status digest_make_hashers(digest_worker *worker, const coffer_allocator *allocator, coffer_error *err)
{
    const digest_job *job = worker->job;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < job->count && status == COFFER_OK; i++) {
        const coffer_algorithm algorithm = job->rows[i].algorithm;
        if (worker->hashers[algorithm] == NULL && algorithm != COFFER_NO_ALGORITHM) {
            status = coffer_hasher_new(&worker->hashers[algorithm], algorithm, allocator, err);
        }
    }
    return status;
}

static void digest_free_hashers(digest_worker *worker)
{
    for (size_t i = 0; i < DIGEST_ALGORITHMS; i++) {
        coffer_hasher_free(worker->hashers[i]);
    }
}

static coffer_status digest_run(digest_job *job, const coffer__transfer_options *options, coffer_error *err)
{
    const coffer_allocator *allocator = options->allocator;
    const size_t count = digest_thread_count(job, options->threads);
    const size_t buffer_size = digest_buffer_size(job);
    const size_t block_size = count * (sizeof(digest_worker) + buffer_size);
    digest_worker *workers = coffer__alloc(allocator, block_size);
    if (workers == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z that hashing works with",
                            (uint64_t)block_size);
    }
    uint8_t *buffers = (uint8_t *)(workers + count);
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < count; i++) {
        workers[i] = (digest_worker){ .job = job };
        workers[i].buffer = buffer_size > 0 ? buffers + i * buffer_size : NULL;
        status = status == COFFER_OK ? digest_make_hashers(&workers[i], allocator, err) : status;
    }
    if (status == COFFER_OK) {
        status = coffer__crew_run(&job->crew, workers, count, sizeof *workers);
    }
    for (size_t i = 0; i < count; i++) {
        digest_free_hashers(&workers[i]);
    }
    coffer__free(allocator, workers, block_size);
    return status;
}

static bool digest_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__digest_row *rows = ctx;
    return rows[a].size != rows[b].size ? rows[a].size > rows[b].size : a < b;
}

static void digest_sort(digest_job *job, uint32_t *order)
{
    for (size_t i = 0; i < job->count; i++) {
        order[i] = (uint32_t)i;
    }
    coffer__sort(order, job->count, digest_before, job->rows);
    job->order = order;
}

coffer_status coffer__digest(const coffer__digest_row *rows, size_t count, const coffer__transfer_options *options,
                             coffer_error *err)
{
    digest_job job = { .rows = rows, .count = count };
    job.crew = coffer__transfer_crew(options, err);
    job.crew.work = digest_work;
    for (size_t i = 0; i < count; i++) {
        if (!coffer__add_u64(job.crew.total, rows[i].size, &job.crew.total)) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "more than 2^64-1 bytes cannot be hashed at once");
        }
    }
    const size_t order_size = (count + 1) * sizeof(uint32_t);
    uint32_t *order = count < UINT32_MAX / sizeof *order ? coffer__alloc(options->allocator, order_size) : NULL;
    if (order == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to order %u tensors", (uint64_t)count);
    }
    digest_sort(&job, order);
    const coffer_status status = digest_run(&job, options, err);
    coffer__free(options->allocator, order, order_size);
    return status;
}
