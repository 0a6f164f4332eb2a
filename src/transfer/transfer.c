/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor. The thread pool shares two cursors under one mutex: which digest is next, and where the next
 * chunk begins. A worker holds the mutex only to advance a cursor. A chunk has a few MiB, so that is
 * a few thousand times per second at most, and the mutex is hardly ever contended.
 *
 * Every worker first takes digests until there are none, then chunks. The digests are the longest
 * indivisible jobs, so they start first, and the chunks fill the time of the workers that finish early.
 *
 * The number of threads follows from where the bytes are. Near sources are limited by memory bandwidth
 * and processors. With far sources workers mostly wait for round trips, so there is a worker for each
 * chunk, up to a limit, whatever the number of processors.
 */
#include "transfer.h"

#include "alloc.h"
#include "checked.h"
#include "digest.h"
#include "error.h"
#include "fill.h"
#include "transfer_chunk.h"

#include <string.h>

#define TRANSFER_CHUNK_SIZE ((uint64_t)2 << 20)
#define TRANSFER_ALONE_SIZE ((uint64_t)2 << 20) /* below it starting a thread costs more than it brings */
#define TRANSFER_DEFAULT_THREADS 16u
#define TRANSFER_MAX_THREADS 64u
#define TRANSFER_TILES ((uint64_t)32 << 20) /* all tiles of all workers together */

/* What all workers of one call share. `ops` is constant. The cursors (streams.next, and op, run
   and skip of the queue) change only under the thread pool's mutex. */
typedef struct transfer_job {
    const coffer__transfer_op *ops;
    size_t op_count;
    coffer__thread_pool thread_pool; /* its mutex guards what follows */
    coffer__streams streams;
    coffer__queue queue;
} transfer_job;

/* One worker. `filler` must be the first member: the thread pool and the work function get the address of
   the worker and use it as a coffer__filler and as the coffer__thread_pool_worker at its beginning.
   Hashers are reused for all digests that a worker computes, so that hashing allocates nothing per
   op. */
typedef struct transfer_worker {
    coffer__filler filler;
    transfer_job *job;
    coffer__hashers hashers;
} transfer_worker;

/* How the one block of memory is divided. Tiles are large, so there may be fewer slots for them than
   workers; then workers share a slot and wait for its lock. */
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

/* Takes the next op with a digest; NULL when there is none left, or when the thread pool has failed: then
   starting another op would only delay the answer. */
static const coffer__transfer_op *transfer_take_stream(transfer_job *job)
{
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    const coffer__transfer_op *op = job->thread_pool.status == COFFER_OK ? coffer__streams_next(&job->streams) : NULL;
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return op;
}

/* Takes the next chunk and adds `done`, the bytes of the worker's previous chunk, to the thread pool's
   count. Doing both under one lock halves the number of times it is taken. Returns false when no
   chunk is left, or when a worker has failed; the bytes are counted in any case. */
static bool transfer_take(transfer_job *job, uint64_t done, coffer__transfer_chunk *chunk, coffer__tile *tile)
{
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    job->thread_pool.done += done;
    const bool taken = job->thread_pool.status == COFFER_OK && coffer__queue_next(&job->queue, chunk, tile);
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return taken;
}

/* The number of the op that a failure is about. A chunk of several ops was read in one window, so
   the error only has an offset in the source. The ops ascend by offset: the last one that begins
   at or before the error holds the byte. Without an offset the first op is as good as any. */
static size_t transfer_failed_op(const transfer_job *job, const coffer__transfer_chunk *chunk,
                                 const coffer_error *error)
{
    const coffer__transfer_op *op = chunk->op;
    for (size_t i = 1; i < chunk->ops && error->offset != COFFER_NO_OFFSET; i++) {
        op = chunk->op[i].offset <= error->offset ? &chunk->op[i] : op;
    }
    return (size_t)(op - job->ops);
}

/* Computes digests until none is left. There is no check between ops other than the one in
   transfer_take_stream; within a op coffer__digest_op asks the thread pool after each chunk. */
static void transfer_work_streams(const transfer_worker *worker)
{
    transfer_job *job = worker->job;
    const coffer__transfer_op *op = transfer_take_stream(job);
    while (op != NULL) {
        coffer_error error;
        coffer__error_clear(&error);
        const coffer_status status = coffer__digest_op(&worker->filler, &worker->hashers, op, &error);
        if (status != COFFER_OK) {
            coffer__thread_pool_fail(&job->thread_pool, status, &error, (size_t)(op - job->ops));
        }
        op = transfer_take_stream(job);
    }
}

/*
 * Moves chunks until none is left. The size of a chunk is reported when the next one is taken; that
 * of a chunk that failed is counted, too, but then nobody is told any more.
 *
 * A cancelled read is no fault of a op, so it is reported without one. After a chunk that
 * succeeded, the user is told; if the user cancels, the thread pool has failed and the next transfer_take
 * returns false.
 */
static void transfer_work_chunks(transfer_worker *worker)
{
    transfer_job *job = worker->job;
    coffer__transfer_chunk chunk;
    coffer__tile tile;
    uint64_t done = 0;
    while (transfer_take(job, done, &chunk, &tile)) {
        coffer_error error;
        coffer__error_clear(&error);
        const coffer_status status = coffer__fill(&worker->filler, &chunk, &tile, &error);
        done = chunk.size;
        if (status != COFFER_OK) {
            const bool cancelled = status == COFFER_ERR_CANCELLED;
            const size_t op = cancelled ? COFFER__THREAD_POOL_NO_ROW : transfer_failed_op(job, &chunk, &error);
            coffer__thread_pool_fail(&job->thread_pool, status, &error, op);
        } else {
            coffer__thread_pool_tell(&worker->filler.base, done);
        }
    }
}

/* What each thread runs. Digests come first: each keeps one worker busy to its end, and the chunks,
   which can be divided at will, fill the time of the others. */
static void transfer_work(void *arg)
{
    transfer_worker *worker = arg;
    if (worker->job->streams.count > 0) {
        transfer_work_streams(worker);
    }
    transfer_work_chunks(worker);
}

/* ---- threads and memory ------------------------------------------------------------------------------------------ */

/*
 * How many threads are worth starting for `total` bytes of chunks, the caller's included. `wanted`
 * is the user's number, 0 for none.
 *
 * Far chunks decide alone when there are any: each is a round trip, so each gets a thread, up to
 * the limit, even if the bytes are few. Otherwise a small transfer stays on the calling thread,
 * unless the user asked for more, and there are never more threads than chunks.
 */
static size_t transfer_chunk_threads(const transfer_job *job, uint64_t total, uint32_t wanted)
{
    const uint64_t most = wanted == 0 ? TRANSFER_DEFAULT_THREADS : transfer_min(wanted, TRANSFER_MAX_THREADS);
    const uint64_t far = coffer__queue_far_chunks(&job->queue, most);
    const uint64_t chunks = total / TRANSFER_CHUNK_SIZE + 1;
    if (far > 0) {
        return (size_t)far;
    }
    if (wanted == 0 && total < TRANSFER_ALONE_SIZE) {
        return 1;
    }
    return (size_t)transfer_min(wanted == 0 ? transfer_min(coffer__os_processors(), most) : most, chunks);
}

/* Whether the bytes of a op are decoded in order, so that several threads would only wait for each other, or have the same
   bytes decoded again. */
static bool transfer_is_in_order(const transfer_job *job)
{
    bool in_order = false;
    for (size_t i = 0; i < job->op_count && !in_order; i++) {
        in_order = job->ops[i].map == NULL && job->ops[i].source->is.in_order;
    }
    return in_order;
}

/* Plans the memory before anything is allocated. Streams and chunks are carried out by the same
   workers, so there are as many workers as the larger of the two needs, and each has scratch enough
   for either. At least one tile slot exists when any op needs one, even if a single tile exceeds
   TRANSFER_TILES. */
static transfer_memory transfer_measure(const transfer_job *job, uint32_t threads)
{
    const size_t streams = coffer__streams_threads(&job->streams, threads);
    const size_t chunks = transfer_chunk_threads(job, job->thread_pool.total - job->streams.total, threads);
    const size_t of_streams = coffer__streams_scratch(&job->streams);
    const size_t of_chunks = coffer__queue_scratch(&job->queue);
    transfer_memory memory = { .workers = streams > chunks ? streams : chunks, .slots = 0 };
    memory.scratch = of_streams > of_chunks ? of_streams : of_chunks;
    memory.slot = coffer__queue_largest_tile(&job->queue);
    if (memory.slot > 0) {
        const uint64_t slots = TRANSFER_TILES / memory.slot;
        memory.slots = (size_t)transfer_min(slots > 0 ? slots : 1, memory.workers);
    }
    return memory;
}

/* Whether the threads run nothing but this library's code. Only then is their stack use known, so
   that small stacks are safe. A foreign source runs a caller's function or libcurl, and a hasher
   may be OpenSSL's. A mapped op is copied and never calls its source. */
static bool transfer_is_own(const transfer_job *job)
{
    for (size_t i = 0; i < job->op_count; i++) {
        if (job->ops[i].map == NULL && job->ops[i].source->is.foreign) {
            return false;
        }
    }
    return job->streams.count == 0;
}

/*
 * Distributes the block of memory that begins at `workers`:
 *
 *     workers[workers] | slots[slots] | scratch of each worker | memory of each slot
 *
 * The first two are arrays of structures, which need alignment; the rest is bytes. The calling
 * thread, worker 0, has slot 0 to itself when there is more than one slot, because it must be free
 * to ask the progress callback and must not wait for a lock that a slow read holds. The other
 * workers divide the remaining slots.
 */
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

/* Makes the hashers on the calling thread, since the allocator may be called by that thread only,
   and then runs the thread pool. When making one fails, transfer_run frees those that were made. */
static coffer_status transfer_run_thread_pool(transfer_job *job, transfer_worker *workers, size_t count,
                                              const coffer_allocator *allocator, coffer_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const coffer_status status = coffer__hashers_make(&workers[i].hashers, &job->streams, allocator, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    job->thread_pool.own_code = transfer_is_own(job);
    return coffer__thread_pool_run(&job->thread_pool, workers, count, sizeof *workers);
}

/* Makes the locks of the tile slots, runs the thread pool, and destroys exactly the locks that were made. */
static coffer_status transfer_run_locked(transfer_job *job, transfer_worker *workers, const transfer_memory *memory,
                                         coffer__slot *slots, const coffer_allocator *allocator, coffer_error *err)
{
    size_t locks = 0;
    coffer_status status = COFFER_OK;
    while (locks < memory->slots && coffer__os_mutex_init(&slots[locks].lock) == 0) {
        locks++;
    }
    if (locks == memory->slots) {
        status = transfer_run_thread_pool(job, workers, memory->workers, allocator, err);
    } else {
        status = coffer__fail(err, COFFER_ERR_IO, "the system cannot make a mutex");
    }
    while (locks > 0) {
        coffer__os_mutex_close(&slots[--locks].lock);
    }
    return status;
}

void coffer__transfer_free(coffer__transfer_kept *kept, const coffer_allocator *allocator)
{
    coffer__free(allocator, kept->block, kept->size);
    *kept = (coffer__transfer_kept){ .block = NULL };
}

/* A block of `size` bytes: the one that was kept when it is large enough, or a new one that takes its place. */
static void *transfer_block(coffer__transfer_kept *kept, const coffer_allocator *allocator, size_t size)
{
    if (kept->size < size) {
        coffer__transfer_free(kept, allocator);
        kept->block = coffer__alloc(allocator, size);
        kept->size = kept->block == NULL ? 0 : size;
    }
    return kept->block;
}

/* Allocates everything in one block and runs. A single worker that needs nothing else, as in all small
   reads, is on the stack. The sizes cannot overflow: there are at most 64 workers, scratch is at most
   a window of transfer_chunk.c, and tiles have TRANSFER_TILES together, or there is one. The hashers are zero
   until they are made, so all of them can be freed whatever happened before. */
static coffer_status transfer_run(transfer_job *job, const coffer__transfer_options *options, coffer_error *err)
{
    const coffer_allocator *allocator = options->allocator;
    const transfer_memory memory = transfer_measure(job, transfer_is_in_order(job) ? 1 : options->threads);
    const size_t block_size = memory.workers * (sizeof(transfer_worker) + memory.scratch) +
                              memory.slots * (sizeof(coffer__slot) + memory.slot);
    transfer_worker alone;
    coffer__transfer_kept own = { .block = NULL };
    coffer__transfer_kept *kept = options->kept != NULL ? options->kept : &own;
    transfer_worker *workers = block_size == sizeof alone ? &alone : transfer_block(kept, allocator, block_size);
    if (workers == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z that %s needs", (uint64_t)block_size,
                            job->streams.count > 0 ? "hashing" : "reading");
    }
    coffer__slot *slots = (coffer__slot *)(workers + memory.workers);
    transfer_share(job, &memory, workers, slots);
    const coffer_status status = transfer_run_locked(job, workers, &memory, slots, allocator, err);
    for (size_t i = 0; i < memory.workers; i++) {
        coffer__hashers_free(&workers[i].hashers);
    }
    coffer__transfer_free(&own, allocator);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Finds the ops with digests, and adds up what there is to do. The total comes from the caller's
   ops, which may repeat bytes of a source, so its sum is checked. coffer__streams_free follows in
   any case. */
static coffer_status transfer_begin(transfer_job *job, const coffer_allocator *allocator, coffer_error *err)
{
    const coffer_status status = coffer__streams_begin(&job->streams, job->ops, job->op_count, allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    uint64_t chunks = 0;
    if (!coffer__queue_total(&job->queue, &chunks) ||
        !coffer__add_u64(chunks, job->streams.total, &job->thread_pool.total)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "more than 2^64-1 bytes cannot be moved at once");
    }
    return COFFER_OK;
}

coffer_status coffer__transfer(const coffer__transfer_op *ops, size_t count, const coffer__transfer_options *options,
                               coffer_error *err)
{
    /* Initialised in one go: clearing parts of it again would show in the time of a small read. */
    transfer_job job = {
        .ops = ops,
        .op_count = count,
        .thread_pool = { .work = transfer_work,
                         .progress = options->progress,
                         .progress_ctx = options->progress_ctx,
                         .err = err,
                         .failed = options->failed },
        .queue = { .ops = ops, .op_count = count, .tiles = options->tiles },
    };
    coffer_status status = transfer_begin(&job, options->allocator, err);
    if (status == COFFER_OK) {
        status = transfer_run(&job, options, err);
    }
    coffer__streams_free(&job.streams, options->allocator);
    return status;
}
