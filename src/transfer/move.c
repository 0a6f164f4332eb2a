/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mover goes over the moves once. What comes next is a piece of a long run, which the system copies, or a batch: runs, or
 * parts of them, that fill the buffer. Where the system could not copy once, nothing is asked of it again.
 */
#include "move.h"

#include "alloc.h"
#include "error.h"
#include "trouble.h"

#include <errno.h>

/* Below it a read into the buffer costs less than a call that copies. */
#define MOVE_LONG_RUN ((uint64_t)64 << 10)
/* What the system copies between two calls of the progress callback. */
#define MOVE_PIECE ((uint64_t)8 << 20)
/* From files, which are read quickly, so much that it stays in the processor's cache … */
#define MOVE_BUFFER_OF_FILES ((uint64_t)1 << 20)
/* … and from the caller's sources, which may be far away, enough for several threads. */
#define MOVE_BUFFER_OF_OTHERS ((uint64_t)16 << 20)
#define MOVE_BATCH_RUNS 4096

typedef struct move_job {
    coffer__sink *sink;
    const coffer__move *moves;
    size_t count;
    const coffer__transfer_options *options;
    size_t next;   /* the move that is under way */
    uint64_t skip; /* what is done of it */
    uint64_t done; /* of all moves, in bytes */
    uint64_t total;
    bool by_hand;    /* the system does not copy */
    bool only_files; /* every source is a file */
    bool far;        /* one of them is far away */
    uint8_t *buffer;
    size_t buffer_size;
    coffer__row *rows;
} move_job;

static void move_on(move_job *job, uint64_t size)
{
    job->skip += size;
    job->done += size;
    if (job->skip == job->moves[job->next].size) {
        job->skip = 0;
        job->next++;
    }
}

/* ---- by the system ----------------------------------------------------------------------------------------------- */

static bool move_is_copied(const move_job *job, const coffer__move *move)
{
    return !job->by_hand && move->size >= MOVE_LONG_RUN && move->source->is.lends && job->sink->ops->copy_at != NULL;
}

static coffer_status move_copy(move_job *job, coffer_error *err)
{
    const coffer__move *move = &job->moves[job->next];
    const uint64_t left = move->size - job->skip;
    const uint64_t piece = left < MOVE_PIECE ? left : MOVE_PIECE;
    uint64_t base = 0;
    uint64_t done = 0;
    int fd = -1;
    const coffer_status status = move->source->ops->borrow(move->source, &fd, &base, err);
    if (status != COFFER_OK) {
        if (job->options->failed != NULL) {
            *job->options->failed = job->next;
        }
        return status;
    }
    const int os_error =
        job->sink->ops->copy_at(job->sink, move->to + job->skip, fd, base + move->from + job->skip, piece, &done);
    move->source->ops->give_back(move->source);
    if (os_error != 0 && os_error != EOPNOTSUPP) {
        return coffer__trouble(err, "copy the file's data", NULL, os_error);
    }
    /* Some file systems end a copy early without a reason: reading tells whether the file really ends. */
    job->by_hand = done < piece;
    move_on(job, done);
    return COFFER_OK;
}

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

static coffer_status move_make_buffer(move_job *job, coffer_error *err)
{
    const uint64_t left = job->total - job->done;
    const uint64_t most = job->only_files ? MOVE_BUFFER_OF_FILES : MOVE_BUFFER_OF_OTHERS;
    if (job->buffer != NULL) {
        return COFFER_OK;
    }
    job->buffer_size = (size_t)(left < most ? left : most);
    job->buffer = coffer__alloc(job->options->allocator, job->buffer_size);
    job->rows = coffer__alloc(job->options->allocator, MOVE_BATCH_RUNS * sizeof *job->rows);
    return job->buffer != NULL && job->rows != NULL
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to copy the file's data");
}

/* Plans the reading of the runs that follow each other in the sink, as many as the buffer takes; returns their bytes. */
static uint64_t move_plan_batch(const move_job *job, size_t *row_count)
{
    uint64_t size = 0;
    uint64_t skip = job->skip;
    *row_count = 0;
    for (size_t i = job->next; i < job->count && *row_count < MOVE_BATCH_RUNS; i++, skip = 0) {
        const coffer__move *move = &job->moves[i];
        const bool follows = i == job->next || move->to == move[-1].to + move[-1].size;
        if (!follows || size == job->buffer_size || (i > job->next && move_is_copied(job, move))) {
            break;
        }
        const uint64_t left = move->size - skip;
        const uint64_t room = job->buffer_size - size;
        const uint64_t take = left < room ? left : room;
        job->rows[(*row_count)++] = (coffer__row){
            .source = move->source, .offset = move->from + skip, .size = take, .to = job->buffer + (size_t)size
        };
        size += take;
    }
    return size;
}

/* While a batch comes from far away the user is asked whether it is still wanted. */
static int move_watch(void *ctx, uint64_t done, uint64_t size)
{
    const move_job *job = ctx;
    return done == size ? 0 : job->options->progress(job->options->progress_ctx, job->done + done, job->total);
}

static coffer_status move_batch(move_job *job, coffer_error *err)
{
    coffer_status status = move_make_buffer(job, err);
    if (status != COFFER_OK) {
        return status;
    }
    size_t row_count = 0;
    const uint64_t size = move_plan_batch(job, &row_count);
    const uint64_t to = job->moves[job->next].to + job->skip;
    size_t failed = row_count;
    coffer__transfer_options reading = *job->options;
    reading.progress = job->far && job->options->progress != NULL ? move_watch : NULL;
    reading.progress_ctx = job;
    reading.failed = &failed;
    status = coffer__transfer(job->rows, row_count, &reading, err);
    if (status != COFFER_OK) {
        if (failed < row_count && job->options->failed != NULL) {
            *job->options->failed = job->next + failed;
        }
        return status;
    }
    for (size_t i = 0; i < row_count; i++) {
        move_on(job, job->rows[i].size);
    }
    return job->sink->ops->write_at(job->sink, to, job->buffer, (size_t)size, err);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status move_progress(const move_job *job, coffer_error *err)
{
    const coffer__transfer_options *options = job->options;
    const bool cancelled =
        options->progress != NULL && options->progress(options->progress_ctx, job->done, job->total) != 0;
    return cancelled ? coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback") : COFFER_OK;
}

static coffer_status move_run(move_job *job, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    uint64_t told = 0;
    while (job->next < job->count && status == COFFER_OK) {
        const coffer__move *move = &job->moves[job->next];
        if (move->size == 0) {
            job->next++;
            continue;
        }
        status = move_is_copied(job, move) ? move_copy(job, err) : move_batch(job, err);
        /* The last word is spoken at the end. */
        if (status == COFFER_OK && job->done > told && job->done < job->total) {
            told = job->done;
            status = move_progress(job, err);
        }
    }
    return status == COFFER_OK ? move_progress(job, err) : status;
}

coffer_status coffer__move_all(coffer__sink *sink, const coffer__move *moves, size_t count,
                               const coffer__transfer_options *options, coffer_error *err)
{
    move_job job = { .sink = sink, .moves = moves, .count = count, .options = options, .only_files = true };
    for (size_t i = 0; i < count; i++) {
        job.total += moves[i].size; /* places in one sink: their sum is no more than its size */
        job.only_files = job.only_files && moves[i].source->is.lends;
        job.far = job.far || moves[i].source->is.far;
    }
    const coffer_status status = move_run(&job, err);
    coffer__free(options->allocator, job.rows, MOVE_BATCH_RUNS * sizeof *job.rows);
    coffer__free(options->allocator, job.buffer, job.buffer_size);
    return status;
}
