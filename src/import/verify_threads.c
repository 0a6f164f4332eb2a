/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cursor of a task is a row and a place in it. A worker takes a stretch under the mutex, and then works without it:
 * both sides are brought into its own two blocks, or the expected one is there already, and memcmp says the rest.
 *
 * When several tensors differ, the first of the task is named: stretches are taken in order, and the lowest that
 * failed counts.
 */
#include "verify_threads.h"

#include "error.h"
#include "model.h"
#include "pages.h"
#include "thread_pool.h"
#include "verify_walk.h"

#include <string.h>

/* Two of these fit in the cache of one processor, and calls of the system cost little beside what they copy. */
#define VERIFY_BLOCK_NEAR ((size_t)512 << 10)
/* What is worth a round trip. */
#define VERIFY_BLOCK_FAR ((size_t)1 << 20)
/* However little there is: a page. */
#define VERIFY_BLOCK_MIN ((size_t)4 << 10)
#define VERIFY_MAX_WORKERS 8u
#define VERIFY_FAR_WORKERS 4u
/* What is worth a thread. */
#define VERIFY_PER_WORKER ((uint64_t)2 << 20)

/* What the workers of one comparison share. The cursor (row, at, taken) changes under the thread pool's mutex only. */
typedef struct compare_job {
    coffer__thread_pool thread_pool;
    const coffer__verify_threads *how;
    const coffer__verify_task *task;
    size_t row;
    uint64_t at;
    uint64_t taken;
} compare_job;

typedef struct verify_worker {
    coffer__thread_pool_worker base; /* must be first */
    compare_job *job;
    uint8_t *read;     /* a block of the output */
    uint8_t *expected; /* what should be in the block of the output */
} verify_worker;

/* A stretch of a row: at most a block, or a hole. */
typedef struct verify_stretch {
    const coffer__verify_row *row;
    uint64_t at;
    uint64_t size;
    uint64_t taken; /* how many stretches were taken before it */
} verify_stretch;

/* The name comes from the output, where the user will look for it. */
coffer_status coffer__verify_differs(const char *name, size_t name_len, const char *what, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_NOT_EQUAL, "tensor %q was written, but %s", name, name_len, what);
    return coffer__fail_tensor(err, COFFER_ERR_NOT_EQUAL, name, name_len);
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

/* One past the last byte of a row that is to be compared. */
static uint64_t verify_end(const compare_job *job, size_t row)
{
    const uint64_t size = job->task->rows[row].tensor->size;
    return size < job->task->to ? size : job->task->to;
}

/* How much of a row is compared at once: of a view whole rows of its last dimension, if they fit, since these are
   gathered together. A block is a number of whole items, whose sizes are powers of two. Where a line does not fit the
   block is used as it is: it is a power of two, and so a number of items. */
static uint64_t verify_block(const compare_job *job, const coffer__verify_row *row)
{
    const uint64_t block = job->how->block;
    if (job->task->storage == NULL || row->row->rank == 0) {
        return block;
    }
    const uint64_t line = row->dimensions[row->row->rank - 1].count * row->row->item_size;
    return line <= block ? block - block % line : block;
}

/* Moves the cursor past rows that are done, or have nothing to compare. With the mutex held. Every row begins at
   `from` again, as the comparison of several rows goes by the same range of each. */
static bool verify_next(compare_job *job)
{
    while (job->row < job->task->count && job->at >= verify_end(job, job->row)) {
        job->row++;
        job->at = job->task->from;
    }
    return job->row < job->task->count;
}

/* Takes the next stretch; false when there is none, or when the thread pool has failed. Stretches are taken in order, so
   that a source that can be read only once, with its one worker, is read from its first byte to its last. */
static bool verify_take(compare_job *job, verify_stretch *stretch)
{
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    const bool taken = job->thread_pool.status == COFFER_OK && verify_next(job);
    if (taken) {
        stretch->row = &job->task->rows[job->row];
        stretch->at = job->at;
        const uint64_t left = verify_end(job, job->row) - job->at;
        const uint64_t block = verify_block(job, stretch->row);
        stretch->size = left < block ? left : block;
        stretch->taken = job->taken++;
        job->at += stretch->size;
    }
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return taken;
}

/* A stretch is a hole, which goes on to byte `end` of its row: what nobody has taken of it is passed over. Returns
   how much that is. Others may have taken stretches of the hole meanwhile, or the whole row: these compare what they
   have, and only what is left is counted here, so that no byte counts twice. */
static uint64_t verify_pass(compare_job *job, const verify_stretch *stretch, uint64_t end)
{
    uint64_t passed = 0;
    coffer__os_mutex_lock(&job->thread_pool.mutex);
    if (job->row < job->task->count && stretch->row == &job->task->rows[job->row] && job->at < end) {
        passed = end - job->at;
        job->at = end;
    }
    coffer__os_mutex_unlock(&job->thread_pool.mutex);
    return passed;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* How many bytes from the stretch on are a hole on both sides, and so zeros on both: they need not be read. A
   checkpoint that is mostly a hole, of terabytes, would take hours otherwise. The descriptors are borrowed one after
   the other and given back at once, since a pool may have only one. A system that knows nothing of holes says that
   data begin at once. */
static coffer_status verify_hole(const verify_worker *worker, const verify_stretch *stretch, uint64_t *size,
                                 coffer_error *err)
{
    const coffer__verify_row *row = stretch->row;
    const coffer__byte_source *sources[] = { row->source,
                                             &coffer__model_shard(worker->job->how->written, row->tensor)->source };
    const uint64_t places[] = { row->at + row->row->offset + stretch->at, row->tensor->offset + stretch->at };
    uint64_t hole = row->tensor->size - stretch->at;
    *size = 0;
    for (size_t i = 0; i < 2; i++) {
        uint64_t base = 0;
        int fd = -1;
        const coffer_status status = sources[i]->ops->borrow(sources[i], &fd, &base, err);
        if (status != COFFER_OK) {
            return status;
        }
        const uint64_t data = coffer__os_next_data(fd, base + places[i]) - (base + places[i]);
        sources[i]->ops->give_back(sources[i]);
        hole = data < hole ? data : hole;
    }
    *size = hole;
    return COFFER_OK;
}

/* Brings what should be there into `*expected`. What was gathered is changed in place: each byte of it is in one
   stretch only, so no other worker has it. The other ways bring it into the worker's own block first; the one for the
   output is free until then. */
static coffer_status verify_expect(const verify_worker *worker, const verify_stretch *stretch, uint8_t **expected,
                                   coffer_error *err)
{
    const coffer__verify_task *task = worker->job->task;
    const coffer__verify_row *row = stretch->row;
    *expected = worker->expected;
    if (task->gathered != NULL) {
        *expected = task->gathered + (size_t)(stretch->at - task->from);
    } else if (row->array != NULL) {
        const coffer_status status = coffer__verify_assemble(row->array, stretch->at, (size_t)stretch->size,
                                                             worker->read, *expected, &worker->base.watch, err);
        if (status != COFFER_OK) {
            return status;
        }
    } else if (task->storage != NULL) {
        coffer__verify_gather(row->row, row->dimensions, task->storage, stretch->at, *expected, stretch->size);
    } else {
        const coffer_status status =
            coffer__source_read_watched(row->source, row->at + row->row->offset + stretch->at, *expected,
                                        (size_t)stretch->size, &worker->base.watch, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    coffer__verify_change(row->row, *expected, stretch->size);
    return COFFER_OK;
}

/* Compares a stretch. The output is read by the public function, with all that it checks. It reads with one thread,
   as the thread pool is what is parallel. Both failures get the tensor's name here. */
static coffer_status verify_compare(const verify_worker *worker, const verify_stretch *stretch, coffer_error *err)
{
    coffer_read_options alone = COFFER_READ_OPTIONS_INIT;
    uint8_t *expected = NULL;
    const coffer_tensor *tensor = stretch->row->tensor;
    alone.threads = 1;
    coffer_status status = verify_expect(worker, stretch, &expected, err);
    if (status == COFFER_OK) {
        status =
            coffer_read_part(worker->job->how->written, tensor, stretch->at, worker->read, stretch->size, &alone, err);
    }
    if (status != COFFER_OK) {
        return coffer__fail_tensor(err, status, tensor->name, tensor->name_len);
    }
    return memcmp(worker->read, expected, (size_t)stretch->size) == 0
               ? COFFER_OK
               : coffer__verify_differs(tensor->name, tensor->name_len, "other bytes are there than in the input", err);
}

/* One stretch; `*done` becomes the bytes that it and a hole that begins there have. Holes are looked for only where
   the bytes come straight from the source: what was gathered is in memory and costs nothing more. A hole shorter than
   the stretch is not worth a second way, and is compared as bytes. */
static coffer_status verify_one(const verify_worker *worker, const verify_stretch *stretch, uint64_t *done,
                                coffer_error *err)
{
    uint64_t hole = 0;
    const coffer__verify_task *task = worker->job->task;
    coffer_status status = COFFER_OK;
    *done = stretch->size;
    if (stretch->row->sparse && task->gathered == NULL && task->storage == NULL) {
        status = verify_hole(worker, stretch, &hole, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (hole < stretch->size) {
        return verify_compare(worker, stretch, err);
    }
    *done += verify_pass(worker->job, stretch, stretch->at + hole);
    return COFFER_OK;
}

/* A stretch that failed is counted as well, as nobody is told any more. The first failure ends the work of all, as
   the output will be thrown away. */
static void verify_work(void *arg)
{
    const verify_worker *worker = arg;
    compare_job *job = worker->job;
    verify_stretch stretch;
    bool stop = false;
    while (!stop && verify_take(job, &stretch)) {
        coffer_error error;
        uint64_t done = 0;
        coffer__error_clear(&error);
        const coffer_status status = verify_one(worker, &stretch, &done, &error);
        if (status != COFFER_OK) {
            coffer__thread_pool_fail_at(&job->thread_pool, stretch.taken, status, &error, COFFER__THREAD_POOL_NO_ROW);
        }
        stop = coffer__thread_pool_advance(&worker->base, done);
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* A model that was opened to verify allocates when it is read, by an allocator that need not be safe in threads. Such
   a model is read by one worker only. */
coffer_status coffer__verify_threads_open(coffer__verify_threads *thread_pool, bool far, coffer_error *err)
{
    const uint32_t wanted = thread_pool->options->threads != 0 ? thread_pool->options->threads
                            : far                              ? VERIFY_FAR_WORKERS
                                                               : coffer__os_processors();
    const uint32_t most = far ? VERIFY_FAR_WORKERS : VERIFY_MAX_WORKERS;
    const bool allocates = thread_pool->written->shard_count > 0 && thread_pool->written->shards[0].trusted != NULL;
    thread_pool->workers = allocates ? 1 : wanted < most ? wanted : most;
    thread_pool->block = far ? VERIFY_BLOCK_FAR : VERIFY_BLOCK_NEAR;
    while (thread_pool->block / 2 >= thread_pool->total && thread_pool->block > VERIFY_BLOCK_MIN) {
        thread_pool->block /= 2;
    }
    thread_pool->memory = coffer__alloc_pages(thread_pool->allocator, thread_pool->workers * 2 * thread_pool->block);
    return thread_pool->memory != NULL ? COFFER_OK
                                       : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to verify what was written");
}

/* Also after a failure to open: freeing NULL does nothing. */
void coffer__verify_threads_close(coffer__verify_threads *thread_pool)
{
    coffer__free_pages(thread_pool->allocator, thread_pool->memory, thread_pool->workers * 2 * thread_pool->block);
    thread_pool->memory = NULL;
}

/* How many workers are worth starting for a task. Order needs one worker: two would ask for their stretches in any
   order. */
static size_t verify_workers(const compare_job *job)
{
    uint64_t size = 0;
    for (size_t i = 0; i < job->task->count; i++) {
        const uint64_t end = verify_end(job, i);
        size += end > job->task->from ? end - job->task->from : 0;
    }
    const uint64_t useful = size / VERIFY_PER_WORKER + 1;
    return job->task->in_order ? 1 : useful < job->how->workers ? (size_t)useful : job->how->workers;
}

/* The count of what is done goes on from one comparison to the next, so that the user sees one that only rises. The
   workers are on this stack, which outlives them: the thread pool has ended when coffer__thread_pool_run returns. */
coffer_status coffer__verify_threads_run(coffer__verify_threads *thread_pool, const coffer__verify_task *task,
                                         coffer_error *err)
{
    verify_worker workers[VERIFY_MAX_WORKERS];
    compare_job job = { .how = thread_pool, .task = task, .at = task->from };
    job.thread_pool = (coffer__thread_pool){ .work = verify_work,
                                             .progress = thread_pool->options->progress,
                                             .progress_ctx = thread_pool->options->progress_ctx,
                                             .total = thread_pool->total,
                                             .done = thread_pool->done,
                                             .err = err };
    const size_t count = verify_workers(&job);
    for (size_t i = 0; i < count; i++) {
        uint8_t *memory = thread_pool->memory + i * 2 * thread_pool->block;
        workers[i] = (verify_worker){ .job = &job, .read = memory, .expected = memory + thread_pool->block };
    }
    const coffer_status status = coffer__thread_pool_run(&job.thread_pool, workers, count, sizeof *workers);
    thread_pool->done = job.thread_pool.done;
    return status;
}
