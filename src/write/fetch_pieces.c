/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloads all files at once. There is one queue of what is missing, over all files and in their order, and a thread pool
 * of workers that take from it, each with a connection of its own. A worker takes a run of consecutive pieces of
 * one file. It asks for the run once and writes the bytes as they come, so memory does not grow with the number of
 * connections. It records each piece when its last byte is written, so a kill costs no more than the pieces in
 * progress.
 *
 * Files whose SHA-256 the server states are hashed at the same time, from their first byte on and as far as they
 * have come, by workers that do nothing else: reading them again afterwards would take longer than many a download.
 *
 * How much a worker takes depends on what is left: half of an even share. So at the beginning requests are few and
 * long, and at the end nobody waits for a worker that took too much.
 *
 * The thread pool's mutex guards the queue and the `done` bytes of every part. A hashing worker reads a piece only after
 * it has seen its `done` byte under that mutex, which is set after the piece was written.
 */
#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "fetch.h"
#include "thread_pool.h"

#include <string.h>

#define PIECES_MIN ((uint64_t)2 << 20)    /* bytes of a request, unless the file ends: well worth a round trip */
#define PIECES_MAX ((uint64_t)64 << 20)   /* bytes of a request: what one slow connection can delay */
#define PIECES_GAP ((uint64_t)128 << 10)  /* gaps in the source up to this are read and dropped */
#define PIECES_BUFFER ((size_t)256 << 10) /* what is written at a time */
/* Many servers and routes limit the rate of a connection, and a model of forty files should come as fast as over
   forty connections. A connection takes three descriptors, and half of those that the process may have are left to
   it. */
#define PIECES_CONNECTIONS 64u
#define PIECES_DESCRIPTORS 6u
#define PIECES_NEAR_THREADS 8u
#define PIECES_AWAIT_MS 2u

/* It lives on the stack of coffer__fetch_pieces. Workers see it through a pointer, all of them at
   once. */
typedef struct pieces_job {
    coffer__download *fetch;
    coffer__thread_pool thread_pool; /* its mutex guards everything below */
    size_t file;                     /* of the next piece to take */
    uint64_t piece;
    uint64_t left; /* bytes that nobody has taken */
    size_t hashed; /* the next file that is to be hashed */
    size_t workers;
} pieces_job;

/* A worker. It has two positions: `at` in the file and `from` in the source, which advance together within a move
   and differ in the gaps between moves. Errors of writing are kept apart from those of the source, because the
   source only learns that its taker has refused. */
typedef struct pieces_worker {
    coffer__thread_pool_worker base;
    pieces_job *job;
    bool hashes; /* it hashes what others download, and downloads nothing */
    coffer__taker taker;
    coffer__fetch_file *file;
    uint64_t at;          /* the file's next byte that is to be written */
    uint64_t end;         /* one past the bytes that were taken */
    size_t held;          /* bytes before `at` that are in the buffer */
    size_t move;          /* the move that has byte `at` */
    uint64_t from;        /* the source's next byte that comes */
    coffer_status status; /* of writing; then `error` says why */
    coffer_error error;
    uint8_t *buffer;
} pieces_worker;

static uint64_t pieces_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- the queue --------------------------------------------------------------------------------------------------- */

/* How many bytes the next worker may take. A sequential source is read from its first byte in one
   go, as it cannot be asked for its middle. In bytes, and called with the mutex held. `left` counts
   what nobody has taken, so shares shrink as the queue does. */
static uint64_t pieces_share(const pieces_job *job, const coffer__fetch_file *file)
{
    if (file->source->is.sequential) {
        return UINT64_MAX;
    }
    /* Half of an even share: the last half is divided again among those who are done first. */
    const uint64_t share = job->left / (2 * (uint64_t)job->workers);
    return share < PIECES_MIN ? PIECES_MIN : pieces_min(share, PIECES_MAX);
}

/* Goes to the next missing piece; false when there is none. With the mutex held. The position only
   moves forward: it has passed every piece that was taken, so no piece is given out twice. */
static bool pieces_find(pieces_job *job)
{
    const coffer__download *fetch = job->fetch;
    for (; job->file < fetch->file_count; job->file++, job->piece = 0) {
        const coffer__part *part = &fetch->files[job->file].part;
        while (job->piece < part->piece_count && part->done[job->piece] == 1) {
            job->piece++;
        }
        if (job->piece < part->piece_count) {
            return true;
        }
    }
    return false;
}

/* Gives a run of missing pieces to the worker: consecutive, of one file, and about as much as
   its share. With the mutex held. It returns false after a failure, too, so that all workers
   end soon. */
static bool pieces_next(pieces_job *job, pieces_worker *worker)
{
    if (job->thread_pool.status != COFFER_OK || !pieces_find(job)) {
        return false;
    }
    coffer__fetch_file *file = &job->fetch->files[job->file];
    const uint64_t most = pieces_share(job, file);
    uint64_t size = 0;
    worker->file = file;
    worker->at = job->piece * COFFER__PART_PIECE;
    while (job->piece < file->part.piece_count && file->part.done[job->piece] != 1 && size < most) {
        size += coffer__part_piece_size(&file->part, job->piece++);
    }
    worker->end = worker->at + size;
    job->left -= size;
    return true;
}

/* The mutex is held for the search alone; no request is made under it. */
static bool pieces_take(pieces_worker *worker)
{
    pieces_job *job = worker->job;
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    const bool taken = pieces_next(job, worker);
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return taken;
}

/* ---- what comes -------------------------------------------------------------------------------------------------- */

/* Writes what the buffer holds, and records the pieces that end within it. Only whole pieces are
   marked, in the file first and then in memory, where hashing workers wait for them. The three
   steps must keep their order: the bytes are written, then the mark in the file, then the `done`
   byte in memory. A kill between the first two costs a piece that is there but not recorded, and is
   fetched again; in the other order a piece could be recorded that is not there. If the bytes
   cannot be written, no piece becomes `done`. */
static bool pieces_flush(pieces_worker *worker)
{
    coffer__part *part = &worker->file->part;
    /* Runs begin at a piece, so every piece that ends in the buffer was begun by this worker, and all of it is
       written now. */
    const uint64_t begin = worker->at - worker->held;
    const uint64_t first = begin / COFFER__PART_PIECE;
    uint64_t piece = first;
    if (worker->held == 0) {
        return true;
    }
    worker->status = coffer__part_write(part, begin, worker->buffer, worker->held, &worker->error);
    for (; worker->status == COFFER_OK && piece < part->piece_count; piece++) {
        if (piece * COFFER__PART_PIECE + coffer__part_piece_size(part, piece) > worker->at) {
            break;
        }
        worker->status = coffer__part_mark(part, piece, &worker->error);
    }
    coffer__thread_pool *thread_pool = &worker->job->thread_pool;
    coffer__os_mutex_lock(&thread_pool->mutex);
    thread_pool->done += worker->held;
    /* Only after the bytes are in the file: a hashing worker may read them from now on. */
    memset(part->done + (size_t)first, 1, (size_t)(piece - first));
    coffer__os_mutex_unlock(&thread_pool->mutex);
    worker->held = 0;
    return worker->status == COFFER_OK;
}

/* Takes the file's next bytes. The buffer is flushed when it is full and at the end of what the
   worker has taken. False after an error of writing, which is then in worker->error. Buffering
   makes the size of a write independent of the packets in which the bytes come. */
static bool pieces_put(pieces_worker *worker, const uint8_t *bytes, uint64_t size)
{
    while (size > 0) {
        const uint64_t step = pieces_min(size, PIECES_BUFFER - worker->held);
        memcpy(worker->buffer + worker->held, bytes, (size_t)step);
        worker->held += (size_t)step;
        worker->at += step;
        bytes += (size_t)step;
        size -= step;
        if ((worker->held == PIECES_BUFFER || worker->at == worker->end) && !pieces_flush(worker)) {
            return false;
        }
    }
    return true;
}

/* Takes the source's next bytes. Those in a gap between two moves are dropped. `size` never reaches
   past the last move, since no more was asked for (pieces_reach). Called by the source, on the
   worker's own thread, with as many bytes as it happens to have; a call may span the end of a move
   and the gap after it. False tells the source to stop. */
static bool pieces_receive(void *ctx, const uint8_t *bytes, size_t size)
{
    pieces_worker *worker = ctx;
    while (size > 0) {
        const coffer__fetch_move *move = &worker->file->moves[worker->move];
        const uint64_t next = move->from + (worker->at - move->to);
        /* In a gap, bytes of the source are dropped until the move continues. */
        const bool gap = worker->from < next;
        const uint64_t left = gap ? next - worker->from : pieces_min(move->to + move->size, worker->end) - worker->at;
        const uint64_t step = pieces_min(size, left);
        if (!gap && !pieces_put(worker, bytes, step)) {
            return false;
        }
        worker->from += step;
        bytes += (size_t)step;
        size -= (size_t)step;
        worker->move += worker->at == move->to + move->size;
    }
    return true;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* The move that has byte `at` of the file: binary search, as moves ascend without gaps. `at` is not
   within the head. The first move begins where the head ends. */
static size_t pieces_move_of(const coffer__fetch_file *file, uint64_t at)
{
    size_t low = 0;
    for (size_t high = file->move_count; high - low > 1;) {
        const size_t middle = low + (high - low) / 2;
        if (file->moves[middle].to <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Where the bytes of the source end that are asked for at once. Moves that follow each other
   closely come with one request: reading through a small gap costs less than another round trip.
   Only moves that ascend in the source are joined, as bytes come in that order. A sequential source
   is read through any gap, since it would begin at byte 0 again for a second request. */
static uint64_t pieces_reach(const pieces_worker *worker)
{
    const coffer__fetch_file *file = worker->file;
    const coffer__fetch_move *move = &file->moves[worker->move];
    const coffer__fetch_move *last = file->moves + file->move_count - 1;
    const uint64_t gap = file->source->is.sequential ? UINT64_MAX : PIECES_GAP;
    /* Each step adds a move that begins within what was taken and follows closely in the source. */
    while (move < last && move[1].to < worker->end && move[1].from >= move->from + move->size &&
           move[1].from - (move->from + move->size) <= gap) {
        move++;
    }
    return move->from + (pieces_min(move->to + move->size, worker->end) - move->to);
}

/* Reads from a source that does not stream. The second half of the worker's buffer receives what is
   read; the first half collects what is written. The status after a refusal to take bytes only ends
   the loop: pieces_bring reports what writing said. */
static coffer_status pieces_copy(pieces_worker *worker, uint64_t size, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (uint64_t left = size; left > 0 && status == COFFER_OK;) {
        const uint64_t step = pieces_min(left, PIECES_BUFFER);
        uint8_t *read = worker->buffer + PIECES_BUFFER;
        status = coffer__source_read(worker->file->source, worker->from, read, (size_t)step, err);
        if (status == COFFER_OK && coffer__thread_pool_stop(&worker->base, 0)) {
            status = coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
        }
        if (status == COFFER_OK && !pieces_receive(worker, read, (size_t)step)) {
            status = COFFER_ERR_CANCELLED;
        }
        left -= step;
    }
    return status;
}

/* Brings one range of the source, from the file's next byte on. If writing failed, that is the
   cause, whatever the source reports. Failures of the source get the path of what is read; those of
   writing carry the path of the part already. */
static coffer_status pieces_bring(pieces_worker *worker, coffer_error *err)
{
    const coffer__fetch_file *file = worker->file;
    worker->move = pieces_move_of(file, worker->at);
    worker->from = file->moves[worker->move].from + (worker->at - file->moves[worker->move].to);
    const uint64_t size = pieces_reach(worker) - worker->from;
    const coffer_status status =
        file->source->is.streams
            ? file->source->ops->stream(file->source, worker->from, size, &worker->taker, &worker->base.watch, err)
            : pieces_copy(worker, size, err);
    if (worker->status != COFFER_OK) {
        *err = worker->error;
        return worker->status;
    }
    return status == COFFER_OK ? status : coffer__fail_path(err, status, file->path);
}

/* Brings everything that was taken: first what is in the head, which needs no request, and then
   range by range. A failure leaves everything up to the last flush in the part. The rest of the run
   is lost for this call: nobody takes it again, because a failure ends the thread pool. */
static coffer_status pieces_carry_out(pieces_worker *worker, coffer_error *err)
{
    const coffer__fetch_file *file = worker->file;
    worker->held = 0;
    worker->status = COFFER_OK;
    if (worker->at < file->head_size) {
        const uint64_t size = pieces_min(file->head_size, worker->end) - worker->at;
        if (!pieces_put(worker, file->head + (size_t)worker->at, size)) {
            *err = worker->error;
            return worker->status;
        }
    }
    coffer_status status = COFFER_OK;
    while (status == COFFER_OK && worker->at < worker->end) {
        status = pieces_bring(worker, err);
    }
    return status;
}

/* ---- digests on the way ------------------------------------------------------------------------------------------ */

/* The next file with a digest to compare; NULL when there is none. A file is given out once, so its
   hasher belongs to one worker. */
static coffer__fetch_file *pieces_take_digest(pieces_job *job)
{
    coffer__fetch_file *file = NULL;
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    while (file == NULL && job->hashed < job->fetch->file_count) {
        file = &job->fetch->files[job->hashed++];
        file = file->hasher == NULL ? NULL : file;
    }
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return file;
}

/* Waits for a piece; false when a worker has failed and it may never come. It polls: a piece takes
   far longer to come than PIECES_AWAIT_MS. Seeing the `done` byte under the mutex orders the write
   of the piece before the read of it. It does not ask the user: that is for the calling thread,
   which is the first worker and never hashes here. */
static bool pieces_await(const pieces_worker *worker, const coffer__part *part, uint64_t piece)
{
    coffer__thread_pool *thread_pool = worker->base.thread_pool;
    for (;;) {
        coffer__os_mutex_lock(&thread_pool->mutex);
        const bool failed = thread_pool->status != COFFER_OK;
        const bool there = part->done[piece] == 1;
        coffer__os_mutex_unlock(&thread_pool->mutex);
        if (failed || there) {
            return !failed;
        }
        coffer__os_sleep(PIECES_AWAIT_MS);
    }
}

/* Hashes a piece that is there, read back from the file, mostly from the system's cache. A short
   read means that a program has cut the part, and is reported with no errno. */
static coffer_status pieces_hash_piece(const pieces_worker *worker, const coffer__fetch_file *file, uint64_t piece,
                                       coffer_error *err)
{
    coffer_status status = COFFER_OK;
    const uint64_t begin = piece * COFFER__PART_PIECE;
    const uint64_t size = coffer__part_piece_size(&file->part, piece);
    for (uint64_t at = 0; at < size && status == COFFER_OK; at += PIECES_BUFFER) {
        const size_t step = (size_t)pieces_min(size - at, PIECES_BUFFER);
        size_t got = 0;
        const int os_error = coffer__os_read_at(file->part.fd, begin + at, worker->buffer, step, &got);
        if (os_error != 0 || got != step) {
            return coffer__errno_status(err, "read what was fetched", file->part.name.text, os_error);
        }
        status = coffer_hasher_update(file->hasher, worker->buffer, step, err);
    }
    return status;
}

/* Hashes a file from its first piece to its last. If another worker has failed it ends silently:
   that failure is the thread pool's answer already. `found` and `hashed` are written by this worker only,
   and read by the calling thread when all have been joined. */
static coffer_status pieces_hash_file(const pieces_worker *worker, coffer__fetch_file *file, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (uint64_t piece = 0; piece < file->part.piece_count && status == COFFER_OK; piece++) {
        if (!pieces_await(worker, &file->part, piece)) {
            return COFFER_OK; /* another worker has failed */
        }
        status = pieces_hash_piece(worker, file, piece, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer_hasher_finish(file->hasher, file->found, sizeof file->found, err);
    file->hashed = status == COFFER_OK;
    return status;
}

/* What a hashing worker does: file by file, in the order in which their pieces come. After a
   failure it takes one more file and ends without touching it. The download continues until its
   workers see that the thread pool has failed. */
static void pieces_hash(const pieces_worker *worker)
{
    coffer_error error;
    coffer_status status = COFFER_OK;
    coffer__fetch_file *file = pieces_take_digest(worker->job);
    while (file != NULL && status == COFFER_OK) {
        coffer__error_clear(&error);
        status = pieces_hash_file(worker, file, &error);
        if (status != COFFER_OK) {
            coffer__thread_pool_fail(&worker->job->thread_pool, status, &error, COFFER__THREAD_POOL_NO_ROW);
        }
        file = pieces_take_digest(worker->job);
    }
}

/* Makes the hashers of files that come whole. If SHA-256 is not available here, nothing is
   compared. Returns how many workers may hash. More hashing workers than processors would only take
   turns. A server may have to be asked for its digest, so this is done by one thread, before the
   thread pool starts. A file with a head is one of some tensors, about which no server states anything.
   The hashers are released by fetch_free. */
static size_t pieces_hashers(const coffer__download *fetch)
{
    size_t count = 0;
    for (size_t i = 0; i < fetch->file_count; i++) {
        coffer__fetch_file *file = &fetch->files[i];
        const bool stated = file->head_size == 0 && coffer__source_stated_sha256(file->source, file->stated);
        count += stated && coffer_hasher_new(&file->hasher, COFFER_SHA256, fetch->allocator, NULL) == COFFER_OK;
    }
    return (size_t)pieces_min(count, coffer__os_processors());
}

/* ---- the workers ------------------------------------------------------------------------------------------------- */

/* What a worker does until there is nothing left to take. The calling thread runs it, too, and is
   the one on which coffer__thread_pool_tell asks the user. */
static void pieces_work(void *arg)
{
    pieces_worker *worker = arg;
    if (worker->hashes) {
        pieces_hash(worker);
        return;
    }
    while (pieces_take(worker)) {
        coffer_error error;
        coffer__error_clear(&error);
        const coffer_status status = pieces_carry_out(worker, &error);
        if (status != COFFER_OK) {
            coffer__thread_pool_fail(&worker->job->thread_pool, status, &error, COFFER__THREAD_POOL_NO_ROW);
        } else {
            coffer__thread_pool_tell(&worker->base, 0); /* a cancelled thread pool gives nothing more to take */
        }
    }
}

/* As many workers as there are runs to take, within limits: processors for local sources,
   connections and descriptors for remote ones. A run is taken to be PIECES_MIN bytes, the
   shortest that pieces_share gives. A resumed call that has little left needs few workers. There is
   always one, so that a thread pool with nothing to do still reports its end. */
static size_t pieces_workers(const coffer__download *fetch, uint64_t left)
{
    uint64_t takes = 0;
    bool far = false;
    for (size_t i = 0; i < fetch->file_count; i++) {
        takes += fetch->files[i].size / PIECES_MIN + 1;
        far = far || fetch->files[i].source->is.far;
    }
    takes = pieces_min(takes, left / PIECES_MIN + fetch->file_count);
    /* The limits in turn: processors or connections, what the caller wants, descriptors, runs to
       take. */
    const size_t connections = coffer__os_descriptors() / PIECES_DESCRIPTORS;
    uint64_t most = far ? PIECES_CONNECTIONS : pieces_min(coffer__os_processors(), PIECES_NEAR_THREADS);
    most = fetch->options->threads != 0 ? pieces_min(fetch->options->threads, PIECES_CONNECTIONS) : most;
    most = far && connections < most ? connections : most;
    most = pieces_min(most, takes);
    return most == 0 ? 1 : (size_t)most;
}

/* One block has all workers and then their buffers. Hashing workers come last: if a thread cannot
   be started they are missed, and coffer__fetch_publish hashes what is left. All parts are open and
   locked by this process. When it returns, no thread of it is left; after COFFER_OK every piece of
   every part is recorded. Nothing is synced here: see fetch_publish.c. The first half of each
   buffer collects what is written, the second what a source that does not stream is read into. */
coffer_status coffer__fetch_pieces(coffer__download *job, coffer_error *err)
{
    pieces_job queue = { .fetch = job, .left = job->total - job->done };
    queue.thread_pool = (coffer__thread_pool){
        .work = pieces_work,
        .progress = job->options->progress,
        .progress_ctx = job->options->progress_ctx,
        .total = job->total,
        .err = err,
        .done = job->done,
    };
    /* The shares divide by the downloading workers alone: hashing ones take nothing from the
       queue. */
    queue.workers = pieces_workers(job, queue.left);
    const size_t count = queue.workers + pieces_hashers(job);
    const size_t block_size = count * (sizeof(pieces_worker) + 2 * PIECES_BUFFER);
    pieces_worker *workers = coffer__alloc(job->allocator, block_size);
    if (workers == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to fetch the model");
    }
    uint8_t *buffers = (uint8_t *)(workers + count);
    for (size_t i = 0; i < count; i++) {
        workers[i].job = &queue;
        workers[i].hashes = i >= queue.workers;
        workers[i].taker = (coffer__taker){ pieces_receive, &workers[i] };
        workers[i].buffer = buffers + i * 2 * PIECES_BUFFER;
    }
    const coffer_status status = coffer__thread_pool_run(&queue.thread_pool, workers, count, sizeof *workers);
    coffer__free(job->allocator, workers, block_size);
    return status;
}
