/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each worker does, until nothing is left: it fills its chunk source with chunks of the schedule, waits for one to
 * come, and has it delivered (load_deliver.c). What goes to a device is queued there, and the chunk is held until it has
 * arrived.
 */
#include "alloc.h"
#include "device_queue.h"
#include "error.h"
#include "load_worker.h"

#define WORK_MAX_THREADS 64u

/* What came of the attempt to begin a chunk. */
typedef enum work_begun {
    WORK_BEGUN,
    WORK_FULL,    /* the chunk source has no space */
    WORK_STARVED, /* the schedule waits for a budget */
    WORK_OVER     /* nothing is left */
} work_begun;

/* ---- failing ----------------------------------------------------------------------------------------------------- */

/* Only the first failure is kept: those of the other workers mostly follow from it, as they are stopped in the
   middle of what they do. `stopped` is set under the lock, so a thread that has looked at the status and is about
   to wait cannot miss the waking. A load that was done before it was cancelled keeps the time that it took. */
void coffer__load_fail(coffer_load *load, coffer_status status, const coffer_error *error)
{
    coffer__os_mutex_lock(&load->mutex);
    if (load->status == COFFER_OK) {
        load->status = status;
        load->error = *error;
        if (load->open > 0) {
            load->stats.nanoseconds = coffer__os_nanoseconds() - load->began;
        }
    }
    atomic_store(&load->stopped, true);
    coffer__os_condition_wake_all(&load->changed);
    coffer__os_condition_wake_all(&load->capacity);
    coffer__os_mutex_unlock(&load->mutex);
}

/* Whether the worker should end. On the load's own thread this asks the user, who may cancel. `stopped` is asked
   first: it is one atomic load, which is cheap enough to be asked between any two system calls, and it spares the
   user's callback a call when everything is over anyway. */
static bool work_stop(void *ctx)
{
    coffer__load_worker *worker = ctx;
    coffer_error error;
    if (atomic_load(&worker->load->stopped)) {
        return true;
    }
    if (!coffer__thread_pool_stop(&worker->base, 0)) {
        return false;
    }
    const coffer_status status = coffer__fail(&error, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    coffer__load_fail(worker->load, status, &error);
    return true;
}

/* ---- beginning chunks -------------------------------------------------------------------------------------------- */

/* Chunks are kept and used again with their lists, so a load allocates as many as it ever has in progress at once,
   and then none. All of them are in the list `made`, whatever else becomes of them: a failure may simply drop a
   chunk, and it is freed with its worker. */
static coffer__work_chunk *work_new_chunk(coffer__load_worker *worker, coffer_error *err)
{
    coffer__work_chunk *chunk = worker->spare;
    if (chunk != NULL) {
        worker->spare = chunk->next;
        return chunk;
    }
    chunk = coffer__alloc_zeroed(&worker->load->allocator, sizeof *chunk);
    if (chunk == NULL) {
        (void)coffer__fail(err, COFFER_ERR_MEMORY, "no memory for reading");
        return NULL;
    }
    chunk->made = worker->made;
    worker->made = chunk;
    return chunk;
}

/* The lists of its spans, parts and due items stay with it. */
static void work_spare(coffer__load_worker *worker, coffer__work_chunk *chunk)
{
    chunk->next = worker->spare;
    worker->spare = chunk;
}

/* Whether a copy op may be read right to its destination: where it is contiguous in host memory, or on a device that
   files can be read to. What is hashed in its slot, or has to wait for a stream of the caller's, comes through host
   memory all the same. */
static bool work_reads_to_destination(const coffer_load *load, const coffer__copy_op *op)
{
    const coffer__load_item *item = &load->plan->items[op->item];
    if (op->region.rank != 0 || item->device == NULL) {
        return op->region.rank == 0;
    }
    return !item->given && load->states[op->item].verify != COFFER__VERIFY_IN_SLOT &&
           coffer__file_readers_reach(load->file_readers, item->shard, item->device);
}

/* Under the lock. The address of an item does not change after it was admitted, so it can be read without the lock
   later; here the lock is needed since another worker may be admitting items, and gives out memory for several at once.
   The part's bytes are those of the copy op from the destination's beginning on, so their distance in the file is their
   distance in memory. */
static void work_set_destinations(const coffer_load *load, coffer__chunk *chunk)
{
    for (size_t i = 0; i < chunk->part_count; i++) {
        coffer__chunk_part *part = &chunk->parts[i];
        const coffer__copy_op *op = &load->plan->copy_ops[part->op];
        if (work_reads_to_destination(load, op)) {
            const uint64_t address = load->states[op->item].allocation.address + op->region.to;
            /* NOLINTNEXTLINE(performance-no-int-to-ptr): it was a pointer */
            part->to = (uint8_t *)(uintptr_t)(address + (part->within.begin - op->region.reach.begin));
            part->device = load->plan->items[op->item].device;
        }
    }
}

/* The next chunk of the schedule, which is in progress from now on; NULL: there is none now. Under the lock. It counts
   as in progress under the same lock under which the schedule moved on. So a caller that sees that nothing is in
   progress, and that the schedule waits for a budget, knows that only it can make space. Callers are woken when that
   becomes so, as no item is going to become ready that would wake them. That an item was refused while others gave a
   chunk does not count: what was taken in may have more chunks to come, also at a moment when none of them is in
   progress. */
static coffer_status work_advance(coffer__load_worker *worker, coffer__work_chunk **chunk, work_begun *begun,
                                  coffer_error *err)
{
    coffer_load *load = worker->load;
    coffer__work_chunk *next = work_new_chunk(worker, err);
    bool over = false;
    *chunk = NULL;
    if (next == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = coffer__schedule_next(&load->schedule, &next->base, &over, err);
    load->starved = status == COFFER_NEED_MORE;
    if (status == COFFER_OK && !over) {
        load->under_way++;
        work_set_destinations(load, &next->base);
        *chunk = next;
        return COFFER_OK;
    }
    work_spare(worker, next);
    *begun = over ? WORK_OVER : WORK_STARVED;
    if (status == COFFER_NEED_MORE) {
        coffer__os_condition_wake_all(&load->changed);
        return COFFER_OK;
    }
    return status;
}

/* Where the bytes of a chunk are, if it may be deferred. Items in the order of the plan are wanted in that order, and
   the ranks of a group keep to that of the files. A chunk that is hashed in its slot keeps the slot until those before
   it were hashed, so that they must not be left behind. */
static coffer__residency work_residency(const coffer_load *load, const coffer__chunk *chunk)
{
    if (chunk->alone || load->options.order != COFFER_ORDER_FILE || load->staging->options.ranks > 1) {
        return COFFER__RESIDENCY_UNKNOWN;
    }
    for (size_t i = 0; i < chunk->part_count; i++) {
        if (load->states[load->plan->copy_ops[chunk->parts[i].op].item].verify == COFFER__VERIFY_IN_SLOT) {
            return COFFER__RESIDENCY_UNKNOWN;
        }
    }
    return coffer__file_readers_residency(load->file_readers, chunk);
}

/* Goes on in the schedule to a chunk whose bytes are where this worker wants them, and defers the others on the way.
   Where there are too many of those, a worker that waits for nothing takes what comes. */
static coffer_status work_look_ahead(coffer__load_worker *worker, coffer__residency wanted, coffer__work_chunk **chunk,
                                     work_begun *begun, coffer_error *err)
{
    coffer_load *load = worker->load;
    coffer_status status = COFFER_OK;
    while (status == COFFER_OK && *chunk == NULL && *begun == WORK_BEGUN) {
        coffer__work_chunk *next = NULL;
        if (wanted == COFFER__CACHED && coffer__deferred_is_full(&load->deferred)) {
            *begun = WORK_FULL;
            return COFFER_OK;
        }
        status = work_advance(worker, &next, begun, err);
        if (next != NULL) {
            const coffer__residency where = work_residency(load, &next->base);
            const bool other = where != wanted && where != COFFER__RESIDENCY_UNKNOWN;
            worker->mixed = where != COFFER__RESIDENCY_UNKNOWN;
            *chunk = other && coffer__deferred_put(&load->deferred, where, &next->base) ? NULL : next;
        }
    }
    return status;
}

/* A chunk that is to be read now, of those that were deferred or of the schedule. What is on the disk comes first, so
   that the disk is never idle; when there is nothing more of that, what is cached is all that is left. So nothing is
   left behind: a worker is told that all is over, or that a budget is full, only when nothing is deferred. */
static coffer_status work_schedule(coffer__load_worker *worker, coffer__residency wanted, coffer__work_chunk **chunk,
                                   work_begun *begun, coffer_error *err)
{
    coffer_load *load = worker->load;
    *begun = WORK_BEGUN;
    coffer__os_mutex_lock(&load->mutex);
    *chunk = (coffer__work_chunk *)coffer__deferred_take(&load->deferred, wanted);
    const coffer_status status = work_look_ahead(worker, wanted, chunk, begun, err);
    if (status == COFFER_OK && *chunk == NULL && wanted == COFFER__ON_DISK) {
        *chunk = (coffer__work_chunk *)coffer__deferred_take(&load->deferred, COFFER__CACHED);
        *begun = *chunk != NULL ? WORK_BEGUN : *begun;
    }
    coffer__os_mutex_unlock(&load->mutex);
    return status;
}

/* A chunk that was taken from the schedule cannot be put back there, as the sweep has moved on. So one that the chunk
   source refuses after all stays with this worker, which submits it again before it takes another. That a chunk source
   has space is asked first, so this is rare: only the chunk itself can tell whether a chunk source that has claimed
   memory for others can take it. What is cached is no work for the disk, so that the space of the chunk source does not
   matter: one such chunk at a time is begun beside the others. */
static coffer_status work_begin(coffer__load_worker *worker, coffer__residency wanted, work_begun *begun,
                                coffer_error *err)
{
    coffer__work_chunk *chunk = worker->pending;
    *begun = WORK_FULL;
    if (wanted == COFFER__CACHED ? chunk != NULL : !worker->chunk_source->ops->has_capacity(worker->chunk_source)) {
        return COFFER_OK;
    }
    if (chunk == NULL) {
        const coffer_status status = work_schedule(worker, wanted, &chunk, begun, err);
        if (status != COFFER_OK || chunk == NULL) {
            return status;
        }
        chunk->from_cache = wanted == COFFER__CACHED;
    }
    *begun = WORK_BEGUN;
    worker->pending = NULL;
    const coffer_status status = worker->chunk_source->ops->submit(worker->chunk_source, &chunk->base, err);
    if (status == COFFER_NEED_MORE) {
        worker->pending = chunk;
        *begun = WORK_FULL;
        return COFFER_OK;
    }
    worker->under_way += status == COFFER_OK ? 1 : 0;
    worker->from_cache = worker->from_cache || chunk->from_cache;
    return status;
}

/* ---- what comes -------------------------------------------------------------------------------------------------- */

/* A chunk whose slot is released: what it brought counts from now on, and it can be used for another. */
static coffer_status work_finish(coffer__load_worker *worker, coffer__work_chunk *chunk, coffer_error *err)
{
    const coffer_status status = coffer__load_arrived(worker, chunk, err);
    work_spare(worker, chunk);
    return status;
}

/* Whether a chunk needs its slot no more: it was hashed, and all of its bytes are on their devices.
   COFFER_NEED_MORE: it does. With `wait` devices are waited for. Hashing comes first, because it needs the bytes in
   the slot and nothing of the device: while it runs, the copies do. The clock is only asked when the device is
   waited for, so that what is counted is waiting. */
static coffer_status work_is_there(coffer__load_worker *worker, coffer__work_chunk *chunk, bool wait, coffer_error *err)
{
    coffer_status status = coffer__load_hash_slot(worker, chunk, err);
    const uint64_t began = wait ? coffer__os_nanoseconds() : 0;
    for (size_t i = 0; i < COFFER__SPACES && status == COFFER_OK; i++) {
        if (chunk->tickets[i] != 0) {
            status = coffer__device_queue_reached(worker->device_queues[i], chunk->tickets[i], wait, err);
        }
    }
    worker->waited_device += wait ? coffer__os_nanoseconds() - began : 0;
    return status;
}

/* Ends the chunks that need their slots no more. With `wait` it waits for the device of the first that was hashed.
   *some becomes true when there was one. All that are held are tried and not only the oldest: they may be on their
   way to different devices, or have nothing to do with the tensor that the oldest waits for. Only the first is
   waited for, because the next round of reading can begin as soon as one slot is free. */
static coffer_status work_collect(coffer__load_worker *worker, bool wait, bool *some, coffer_error *err)
{
    coffer__work_chunk **link = &worker->held;
    *some = false;
    while (*link != NULL) {
        coffer__work_chunk *chunk = *link;
        coffer_status status = work_is_there(worker, chunk, wait && !*some, err);
        if (status == COFFER_NEED_MORE) {
            link = &chunk->next;
            continue;
        }
        if (status == COFFER_OK) {
            *link = chunk->next;
            *some = true;
            worker->chunk_source->ops->release(worker->chunk_source, &chunk->base);
            status = work_finish(worker, chunk, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* A chunk that came; NULL: none. The clock runs while the chunk source is asked, which is when this worker waits. */
static coffer_status work_next(coffer__load_worker *worker, bool wait, coffer__chunk **come, coffer_error *err)
{
    const uint64_t began = coffer__os_nanoseconds();
    const coffer_status status = worker->chunk_source->ops->next(worker->chunk_source, wait, come, err);
    worker->waited += coffer__os_nanoseconds() - began;
    return status;
}

/* What is held has to be hashed after what other workers have. They wake this one when they have hashed something,
   but it may have been just before, so the wait is short. */
static void work_wait_for_others(coffer__load_worker *worker)
{
    coffer__os_mutex_lock(&worker->load->mutex);
    (void)coffer__os_condition_wait(&worker->load->capacity, &worker->load->mutex, 1);
    coffer__os_mutex_unlock(&worker->load->mutex);
}

/* In a group what is held keeps slots that the other ranks wait for, and what this worker waits for may be theirs to
   bring. So it waits for what is held, and never for the chunk source before that was released. */
static coffer_status work_await_in_group(coffer__load_worker *worker, coffer__chunk **come, coffer_error *err)
{
    bool some = false;
    coffer_status status = work_next(worker, false, come, err);
    if (status == COFFER_OK && *come == NULL) {
        status = work_collect(worker, true, &some, err);
        if (status == COFFER_OK && !some) {
            work_wait_for_others(worker);
        }
    }
    return status;
}

/* Waits for a chunk of the chunk source; *come NULL: there was something else to do. Of a file that is partly in the
   page cache it uses that time for what is there, if nothing came yet. */
static coffer_status work_await(coffer__load_worker *worker, coffer__chunk **come, coffer_error *err)
{
    *come = NULL;
    if (worker->held != NULL && worker->load->staging->options.ranks > 1) {
        return work_await_in_group(worker, come, err);
    }
    if (worker->mixed && !worker->from_cache) {
        work_begun begun = WORK_BEGUN;
        coffer_status status = work_next(worker, false, come, err);
        if (status == COFFER_OK && *come == NULL) {
            status = work_begin(worker, COFFER__CACHED, &begun, err);
        }
        if (status != COFFER_OK || *come != NULL) {
            return status;
        }
    }
    return work_next(worker, true, come, err);
}

/* Waits for a chunk of the chunk source, and delivers it. What needs its slot a while longer is held, after those that
   came before it. Appending keeps the list in the order in which chunks came, so the oldest copies are asked for first.
   A chunk that is held keeps its slot, and so the chunk source may run out of space; that is bounded, as the worker
   collects what is held before it begins anything. */
static coffer_status work_come(coffer__load_worker *worker, coffer_error *err)
{
    coffer__chunk *come = NULL;
    coffer_status status = work_await(worker, &come, err);
    if (status != COFFER_OK || come == NULL) {
        return status;
    }
    coffer__work_chunk *chunk = (coffer__work_chunk *)come;
    bool held = false;
    worker->under_way--;
    worker->from_cache = worker->from_cache && !chunk->from_cache;
    status = coffer__load_deliver(worker, chunk, &held, err);
    if (status != COFFER_OK) {
        return status;
    }
    chunk->hashed = 0;
    status = coffer__load_hash_slot(worker, chunk, err);
    if (held || status == COFFER_NEED_MORE) {
        coffer__work_chunk **link = &worker->held;
        while (*link != NULL) {
            link = &(*link)->next;
        }
        chunk->next = NULL;
        *link = chunk;
        return status == COFFER_NEED_MORE ? COFFER_OK : status;
    }
    worker->chunk_source->ops->release(worker->chunk_source, come);
    return status == COFFER_OK ? work_finish(worker, chunk, err) : status;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* Waits until a caller has made space in a budget. The wait is cut into pieces so that a user who cancels by the
   progress callback is heard: one of these threads asks it. `starved` was set under the lock by the worker
   that was refused, and a caller clears it under the lock before it wakes the workers, so no wake is lost. */
static void work_starve(coffer__load_worker *worker)
{
    coffer_load *load = worker->load;
    const uint64_t began = coffer__os_nanoseconds();
    while (!work_stop(worker)) {
        coffer__os_mutex_lock(&load->mutex);
        const bool starved = load->starved;
        if (starved) {
            (void)coffer__os_condition_wait(&load->capacity, &load->mutex, COFFER__WATCH_MS);
        }
        load->stats.waited_caller += starved ? 0 : coffer__os_nanoseconds() - began;
        coffer__os_mutex_unlock(&load->mutex);
        if (!starved) {
            return;
        }
    }
}

/* One round: as many chunks as the chunk source has space for are begun, and one that came is delivered. A device is
   only waited for when there is nothing else to do, so its copies run while the next bytes are read. It collects first,
   since each slot that becomes free lets another chunk begin. It is over only when nothing is in the chunk source and
   nothing is held: then every chunk that this worker took from the schedule has arrived. */
static coffer_status work_round(coffer__load_worker *worker, bool *over, coffer_error *err)
{
    work_begun begun = WORK_BEGUN;
    bool some = false;
    coffer_status status = work_collect(worker, false, &some, err);
    while (status == COFFER_OK && begun == WORK_BEGUN) {
        status = work_begin(worker, COFFER__ON_DISK, &begun, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (worker->under_way > 0) {
        return work_come(worker, err);
    }
    if (worker->held != NULL) {
        status = work_collect(worker, true, &some, err);
        if (status == COFFER_OK && !some) {
            work_wait_for_others(worker);
        }
        return status;
    }
    if (begun == WORK_STARVED) {
        work_starve(worker);
    }
    *over = begun == WORK_OVER;
    return COFFER_OK;
}

/* Device queues wait for their copies, so they go before the slots that those read. This holds after a failure just as
   well, when copies may still be running. */
static void work_close(coffer__load_worker *worker)
{
    for (size_t i = 0; i < COFFER__SPACES; i++) {
        coffer__device_queue_close(worker->device_queues[i]);
        worker->device_queues[i] = NULL;
    }
    if (worker->chunk_source != NULL) {
        worker->chunk_source->ops->close(worker->chunk_source);
    }
}

/* A chunk source is made, used and closed by the worker's thread. The staging buffer is entered first and left last:
   the chunk source's slots are in it, and no other load may have it before they are out of use. The group is left after
   the chunk source was closed, for its memory is unmapped with the last member. Leaving is called after a failure to
   enter as well, because the other workers have to be counted down all the same. */
static coffer_status work_rounds(coffer__load_worker *worker, coffer_error *err)
{
    bool over = false;
    coffer_load *load = worker->load;
    const size_t number = (size_t)(worker - load->workers);
    coffer_status status = coffer__staging_enter(load->staging, load, load->slots, &worker->watch, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__load_enter_group(load, &worker->watch, err);
    if (status == COFFER_OK) {
        status = coffer__load_chunk_source(&worker->chunk_source, load, number, &worker->watch, err);
    }
    while (status == COFFER_OK && !over && !work_stop(worker)) {
        status = work_round(worker, &over, err);
    }
    work_close(worker);
    coffer__load_leave_group(load, status, err);
    coffer__staging_leave(load->staging);
    return status;
}

/* A worker that just stops, because another one failed or the load was cancelled, has no failure of its own to
   tell. */
void coffer__load_work(void *arg)
{
    coffer__load_worker *worker = arg;
    coffer_error error;
    coffer__error_clear(&error);
    const coffer_status status = work_rounds(worker, &error);
    if (status != COFFER_OK) {
        coffer__load_fail(worker->load, status, &error);
    }
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

/* The thread pool steps through an array whose type only this file knows. */
size_t coffer__load_worker_size(void)
{
    return sizeof(coffer__load_worker);
}

/* The processors that this process may count on, where several of this host load together. */
static uint32_t work_processors(const coffer_load *load)
{
    const uint32_t ranks = load->staging->options.ranks;
    const uint32_t mine = coffer__os_processors() / (ranks > 1 ? ranks : 1);
    return mine > 0 ? mine : 1;
}

/* As many as the engine wants, or as the staging buffer's options say; never more than there are cells, or slots. A
   worker without a cell to read would be a thread for nothing, and one without a slot could never begin a chunk: each
   chunk source has at least one slot of its own. The ranks of a group read for each other, so that there is no more
   reading to do than for one of them, and each needs no more threads than its processors can run. */
static coffer_status work_threads(const coffer_load *load, size_t *count, coffer_error *err)
{
    uint32_t threads = 0;
    const size_t slots = coffer__staging_most(load->staging);
    const uint32_t asked = load->staging->options.threads;
    const coffer_status status = coffer__file_readers_try(load->file_readers, &threads, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (load->staging->options.ranks > 1 && work_processors(load) < threads) {
        threads = work_processors(load);
    }
    threads = asked > 0 ? asked : threads > 0 ? threads : 1;
    threads = threads < WORK_MAX_THREADS ? threads : WORK_MAX_THREADS;
    *count = load->cells < threads ? (size_t)load->cells : threads;
    *count = slots < *count ? slots : *count;
    return COFFER_OK;
}

/* The array does not move afterwards: each watch points to its worker, and a worker's number is its distance from
   the first. */
coffer_status coffer__load_make_workers(coffer_load *load, coffer_error *err)
{
    size_t count = 0;
    const coffer_status status = work_threads(load, &count, err);
    if (status != COFFER_OK) {
        return status;
    }
    load->workers = coffer__alloc_array(&load->allocator, count, sizeof *load->workers, err);
    if (load->workers == NULL) {
        return COFFER_ERR_MEMORY;
    }
    load->worker_count = count;
    load->chunk_sources.workers = count;
    for (size_t i = 0; i < count; i++) {
        load->workers[i].load = load;
        load->workers[i].watch = (coffer__watch){ work_stop, &load->workers[i] };
    }
    return COFFER_OK;
}

/* By now the thread has ended and its chunk source is closed, so no engine and no device knows these chunks any more.
   */
static void work_free_chunks(coffer__load_worker *worker, const coffer_allocator *allocator)
{
    while (worker->made != NULL) {
        coffer__work_chunk *chunk = worker->made;
        worker->made = chunk->made;
        coffer__chunk_end(&chunk->base, allocator);
        coffer__free(allocator, chunk->due, chunk->due_capacity * sizeof *chunk->due);
        coffer__free(allocator, chunk, sizeof *chunk);
    }
}

/* It may be called when there are none, and leaves the load as one that never had any. */
void coffer__load_free_workers(coffer_load *load)
{
    for (size_t i = 0; i < load->worker_count; i++) {
        work_free_chunks(&load->workers[i], &load->allocator);
    }
    coffer__free_array(&load->allocator, load->workers, load->worker_count, sizeof *load->workers);
    load->workers = NULL;
    load->worker_count = 0;
}
