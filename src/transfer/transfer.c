/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor. Shared state is one struct under one mutex: where the next piece begins, what is done, and the first
 * failure. A worker holds the mutex only to take a piece, so at a few MiB each it is never in the way.
 *
 *   a long run (above a piece)    is cut into pieces and read straight into its place
 *   runs of 4 KiB and more        are read straight into their place, one read each
 *   short runs                    are read in windows: neighbours and the small gaps between them in one read, into
 *                                 scratch memory, and gathered from there. A gap of up to a page is read through,
 *                                 because that costs less than another read
 */
#include "transfer.h"

#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "gather.h"
#include "os.h"

#include <string.h>

#define TRANSFER_PIECE_SIZE ((uint64_t)2 << 20)
#define TRANSFER_HUGE_PAGE ((uintptr_t)2 << 20)
#define TRANSFER_PIECE_RUNS ((uint64_t)64 << 10) /* so that pieces of tiny runs end in good time, too */
#define TRANSFER_SHORT_RUN 4096u
#define TRANSFER_LONGEST_GAP 4096u /* a page */
#define TRANSFER_WINDOW_SIZE ((uint64_t)256 << 10)
#define TRANSFER_ALONE_SIZE ((uint64_t)2 << 20) /* below it starting a thread costs more than it brings */
#define TRANSFER_DEFAULT_THREADS 16u
#define TRANSFER_MOST_THREADS 64u

/* Runs of a row (or bytes of one run) that one worker moves at a stretch. */
typedef struct transfer_piece {
    const coffer__row *row;
    uint64_t run;   /* the first one */
    uint64_t count; /* of runs; 1 when it is a part of one */
    uint64_t skip;  /* bytes of the first run that belong to the piece before */
    uint64_t size;  /* of its bytes in the result */
} transfer_piece;

typedef struct transfer_job {
    const coffer__row *rows;
    size_t row_count;
    uint64_t total;
    coffer_error *err;
    size_t *failed;
    coffer__mutex mutex; /* guards everything below, *err and *failed */
    size_t row;          /* the next piece's */
    uint64_t run;
    uint64_t skip;
    uint64_t done;
    coffer_status status;
} transfer_job;

typedef struct transfer_worker {
    transfer_job *job;
    coffer__thread thread;
    uint8_t *scratch;
    size_t scratch_size;
} transfer_worker;

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static uint64_t transfer_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t transfer_run_size(const coffer__row *row)
{
    return row->box == NULL ? row->size : row->box->run_size;
}

static uint64_t transfer_run_count(const coffer__row *row)
{
    return row->box == NULL ? 1 : row->box->run_count;
}

/* The size of a piece of a long run whose bytes go to `at` of the result: it ends where a huge page begins, so that no two
   workers touch the same fresh one, which the system would then clear twice. */
static uint64_t transfer_long_piece(const coffer__row *row, uint64_t at)
{
    const uintptr_t place = (uintptr_t)row->to + (uintptr_t)at;
    return TRANSFER_PIECE_SIZE - (uint64_t)(place % TRANSFER_HUGE_PAGE);
}

/* Takes the next piece and counts what the caller has done since; false when there is none, or when someone has
   failed. */
static bool transfer_next(transfer_job *job, uint64_t done, transfer_piece *piece)
{
    while (job->row < job->row_count && job->rows[job->row].size == 0) {
        job->row++;
    }
    job->done += done;
    if (job->status != COFFER_OK || job->row == job->row_count) {
        return false;
    }
    const coffer__row *row = &job->rows[job->row];
    const uint64_t run_size = transfer_run_size(row);
    const uint64_t run_count = transfer_run_count(row);
    *piece = (transfer_piece){ .row = row, .run = job->run, .count = 1, .skip = job->skip };
    if (run_size > TRANSFER_PIECE_SIZE) {
        piece->size = transfer_min(run_size - job->skip, transfer_long_piece(row, job->run * run_size + job->skip));
        job->skip += piece->size;
        if (job->skip == run_size) {
            job->skip = 0;
            job->run++;
        }
    } else {
        const uint64_t most = transfer_min(TRANSFER_PIECE_SIZE / run_size, TRANSFER_PIECE_RUNS);
        piece->count = transfer_min(run_count - job->run, most);
        piece->size = piece->count * run_size;
        job->run += piece->count;
    }
    if (job->run == run_count) {
        job->run = 0;
        job->row++;
    }
    return true;
}

static bool transfer_take(transfer_job *job, uint64_t done, transfer_piece *piece)
{
    coffer__os_mutex_lock(&job->mutex);
    const bool taken = transfer_next(job, done, piece);
    coffer__os_mutex_unlock(&job->mutex);
    return taken;
}

/* Keeps the first failure, of the row or, when that is NULL, of the whole; the others have lost. */
static void transfer_fail(transfer_job *job, coffer_status status, const coffer_error *error, const coffer__row *row)
{
    coffer__os_mutex_lock(&job->mutex);
    if (job->status == COFFER_OK) {
        job->status = status;
        if (row != NULL && job->failed != NULL) {
            *job->failed = (size_t)(row - job->rows);
        }
        if (job->err != NULL) {
            *job->err = *error;
        }
    }
    coffer__os_mutex_unlock(&job->mutex);
}

/* ---- moving one piece -------------------------------------------------------------------------------------------- */

static uint8_t *transfer_place(const transfer_piece *piece)
{
    return (uint8_t *)piece->row->to + (size_t)(piece->run * transfer_run_size(piece->row) + piece->skip);
}

static coffer_status transfer_bytes(const coffer__row *row, uint64_t from, uint8_t *to, uint64_t size,
                                    coffer_error *err)
{
    if (row->map != NULL) {
        memcpy(to, row->map + (size_t)(row->offset + from), (size_t)size);
        return COFFER_OK;
    }
    return coffer__source_read(row->source, row->offset + from, to, (size_t)size, err);
}

/* Runs that are each worth a read of their own, or that are in memory. */
static coffer_status transfer_runs(const transfer_piece *piece, coffer_error *err)
{
    const coffer__row *row = piece->row;
    const uint64_t run_size = row->box->run_size;
    uint8_t *to = transfer_place(piece);
    coffer__walk walk;
    coffer__walk_begin(&walk, row->box, piece->run);
    for (uint64_t left = piece->count; left > 0;) {
        const uint64_t runs = row->map != NULL ? transfer_min(walk.line_left, left) : 1;
        if (row->map != NULL) {
            const uint8_t *from = row->map + (size_t)(row->offset + walk.at);
            coffer__gather(to, from, (size_t)run_size, coffer__walk_stride(&walk), runs);
        } else {
            const coffer_status status = transfer_bytes(row, walk.at, to, run_size, err);
            if (status != COFFER_OK) {
                return status;
            }
        }
        to += (size_t)(runs * run_size);
        left -= runs;
        coffer__walk_on(&walk, runs);
    }
    return COFFER_OK;
}

/* Bytes [low, high) of the box's frame, read at once, and the number of runs in them. */
typedef struct transfer_window {
    uint64_t low;
    uint64_t high;
    uint64_t runs;
} transfer_window;

/*
 * How many of the `most` next runs of the line at `walk` fit in the window: those that lie inside `size` bytes with
 * what is there already and leave no gap that is too long; in an empty window at least one. The window grows by them.
 */
static uint64_t transfer_window_extend(transfer_window *window, const coffer__walk *walk, uint64_t most, uint64_t size)
{
    const uint64_t run_size = walk->box->run_size;
    const uint64_t begin = walk->at;
    const uint64_t end = begin + run_size;
    if (window->runs == 0) {
        window->low = begin;
        window->high = end;
    }
    const uint64_t low = transfer_min(window->low, begin);
    const uint64_t high = window->high > end ? window->high : end;
    const bool gap = begin > window->high + TRANSFER_LONGEST_GAP || end + TRANSFER_LONGEST_GAP < window->low;
    if (window->runs > 0 && (gap || high - low > size)) {
        return 0;
    }
    const int64_t stride = coffer__walk_stride(walk);
    const uint64_t distance = stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
    uint64_t runs = 1;
    if (most > 1 && distance <= run_size + TRANSFER_LONGEST_GAP) {
        const uint64_t room = stride < 0 ? size - (high - begin) : size - (end - low);
        runs = transfer_min(most, 1 + room / distance);
    }
    const uint64_t reach = (runs - 1) * distance;
    window->low = stride < 0 ? transfer_min(low, begin - reach) : low;
    window->high = stride < 0 || end + reach < high ? high : end + reach;
    window->runs += runs;
    return runs;
}

/* Puts as many runs from `walk` on in one window as go well together, `most` at most. */
static transfer_window transfer_window_plan(coffer__walk walk, uint64_t most, uint64_t size)
{
    transfer_window window = { .runs = 0 };
    while (window.runs < most) {
        const uint64_t line = transfer_min(walk.line_left, most - window.runs);
        const uint64_t runs = transfer_window_extend(&window, &walk, line, size);
        if (runs == 0) {
            break;
        }
        coffer__walk_on(&walk, runs);
    }
    return window;
}

static coffer_status transfer_short_runs(const transfer_worker *worker, const transfer_piece *piece, coffer_error *err)
{
    const coffer__row *row = piece->row;
    const uint64_t run_size = row->box->run_size;
    uint8_t *to = transfer_place(piece);
    coffer__walk walk;
    coffer__walk_begin(&walk, row->box, piece->run);
    for (uint64_t left = piece->count; left > 0;) {
        const transfer_window window = transfer_window_plan(walk, left, worker->scratch_size);
        uint8_t *into = window.runs == 1 ? to : worker->scratch;
        const coffer_status status = transfer_bytes(row, window.low, into, window.high - window.low, err);
        if (status != COFFER_OK) {
            return status;
        }
        left -= window.runs;
        for (uint64_t inside = window.runs; inside > 0;) {
            const uint64_t runs = transfer_min(walk.line_left, inside);
            if (into != to) {
                const uint8_t *from = worker->scratch + (size_t)(walk.at - window.low);
                coffer__gather(to, from, (size_t)run_size, coffer__walk_stride(&walk), runs);
            }
            to += (size_t)(runs * run_size);
            inside -= runs;
            coffer__walk_on(&walk, runs);
        }
    }
    return COFFER_OK;
}

static coffer_status transfer_move(const transfer_worker *worker, const transfer_piece *piece, coffer_error *err)
{
    const coffer__row *row = piece->row;
    if (row->box == NULL) {
        return transfer_bytes(row, piece->skip, transfer_place(piece), piece->size, err);
    }
    const uint64_t run_size = row->box->run_size;
    if (run_size > TRANSFER_PIECE_SIZE) {
        const uint64_t from = coffer__box_run(row->box, piece->run) + piece->skip;
        return transfer_bytes(row, from, transfer_place(piece), piece->size, err);
    }
    if (row->map != NULL || run_size >= TRANSFER_SHORT_RUN) {
        return transfer_runs(piece, err);
    }
    return transfer_short_runs(worker, piece, err);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

/* Moves pieces until there are none. Only the calling thread has a `progress`. */
static void transfer_work(const transfer_worker *worker, const coffer__transfer_options *progress)
{
    transfer_job *job = worker->job;
    transfer_piece piece;
    uint64_t done = 0;
    while (transfer_take(job, done, &piece)) {
        coffer_error error;
        coffer__error_clear(&error);
        coffer_status status = transfer_move(worker, &piece, &error);
        const coffer__row *failed = status == COFFER_OK ? NULL : piece.row;
        done = piece.size;
        if (status == COFFER_OK && progress != NULL && progress->progress != NULL) {
            coffer__os_mutex_lock(&job->mutex);
            const uint64_t so_far = job->done + done;
            coffer__os_mutex_unlock(&job->mutex);
            /* The last word is spoken at the end, when everyone is done. */
            if (so_far < job->total && progress->progress(progress->progress_ctx, so_far, job->total) != 0) {
                status = coffer__fail(&error, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
            }
        }
        if (status != COFFER_OK) {
            transfer_fail(job, status, &error, failed);
        }
    }
}

static void transfer_thread(void *arg)
{
    transfer_work(arg, NULL);
}

/* Threads that are worth while, the caller's included. */
static size_t transfer_thread_count(const transfer_job *job, uint32_t wanted)
{
    const uint64_t pieces = job->total / TRANSFER_PIECE_SIZE + 1;
    if (wanted > 0) {
        return (size_t)transfer_min(transfer_min(wanted, TRANSFER_MOST_THREADS), pieces);
    }
    if (job->total < TRANSFER_ALONE_SIZE) {
        return 1;
    }
    return (size_t)transfer_min(transfer_min(coffer__os_processors(), TRANSFER_DEFAULT_THREADS), pieces);
}

/* Bytes from the first to the last that a box takes, or `most` when that is less. */
static uint64_t transfer_box_span(const coffer__box *box, uint64_t most)
{
    uint64_t span = box->run_size;
    for (size_t i = 0; i < box->rank; i++) {
        const int64_t stride = box->strides[i];
        span += (box->counts[i] - 1) * (stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride);
    }
    return transfer_min(span, most);
}

/* Scratch that a worker needs for the rows: 0 when all their runs go straight to their places. */
static size_t transfer_scratch_size(const coffer__row *rows, size_t count)
{
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        const coffer__row *row = &rows[i];
        if (row->map != NULL || row->box == NULL || row->box->run_count < 2 ||
            row->box->run_size >= TRANSFER_SHORT_RUN) {
            continue;
        }
        const uint64_t span = transfer_box_span(row->box, TRANSFER_WINDOW_SIZE);
        most = span > most ? span : most;
    }
    return (size_t)most;
}

/* Starts the other workers, works, and waits for them. A thread that cannot be started is one worker less. */
static void transfer_run_workers(transfer_worker *workers, size_t count, const coffer__transfer_options *options)
{
    size_t started = 1;
    while (started < count &&
           coffer__os_thread_start(&workers[started].thread, transfer_thread, &workers[started]) == 0) {
        started++;
    }
    transfer_work(&workers[0], options);
    for (size_t i = 1; i < started; i++) {
        coffer__os_thread_join(&workers[i].thread);
    }
}

static coffer_status transfer_run_job(transfer_job *job, const coffer__transfer_options *options, coffer_error *err)
{
    const size_t count = transfer_thread_count(job, options->threads);
    const size_t scratch_size = transfer_scratch_size(job->rows, job->row_count);
    const size_t block_size = count * (sizeof(transfer_worker) + scratch_size);
    transfer_worker *workers = coffer__alloc(options->allocator, block_size);
    if (workers == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %u bytes that reading works with",
                            (uint64_t)block_size);
    }
    uint8_t *scratch = (uint8_t *)(workers + count);
    for (size_t i = 0; i < count; i++) {
        workers[i].job = job;
        workers[i].scratch = scratch + i * scratch_size;
        workers[i].scratch_size = scratch_size;
    }
    transfer_run_workers(workers, count, options);
    coffer__free(options->allocator, workers, block_size);
    return job->status;
}

coffer_status coffer__transfer(const coffer__row *rows, size_t count, const coffer__transfer_options *options,
                               coffer_error *err)
{
    transfer_job job = { .rows = rows, .row_count = count, .err = err, .failed = options->failed };
    for (size_t i = 0; i < count; i++) {
        if (!coffer__add_u64(job.total, rows[i].size, &job.total)) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "more than 2^64-1 bytes cannot be moved at once");
        }
    }
    const int os_error = coffer__os_mutex_init(&job.mutex);
    if (os_error != 0) {
        coffer__fail(err, COFFER_ERR_IO, "the system gives no mutex");
        return coffer__fail_errno(err, COFFER_ERR_IO, os_error);
    }
    coffer_status status = transfer_run_job(&job, options, err);
    coffer__os_mutex_deinit(&job.mutex);
    if (status == COFFER_OK && options->progress != NULL &&
        options->progress(options->progress_ctx, job.total, job.total) != 0) {
        status = coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    }
    return status;
}
