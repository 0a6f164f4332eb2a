/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each worker does, until nothing is left: it fills its feed with chunks of the schedule, waits for one to come, and
 * delivers it. Host memory has its bytes at once. What goes to a device is queued there, and the chunk is held until it
 * has arrived.
 */
#include "alloc.h"
#include "error.h"
#include "loading.h"
#include "model.h"

#include <string.h>

#define WORK_THREADS 16u /* where nobody says how many */

/* A chunk with what the worker remembers of it. */
typedef struct work_chunk {
    coffer__chunk base;
    struct work_chunk *next;          /* of those that are spare, or held */
    struct work_chunk *made;          /* the one that was made before it */
    uint64_t taken;                   /* bytes of rows in it */
    uint64_t tickets[COFFER__SPACES]; /* of the outlets; 0: nothing went there */
} work_chunk;

struct coffer__load_worker {
    coffer__crew_worker base;
    coffer_load *load;
    coffer__watch watch;
    coffer__feed *feed;
    work_chunk *made;
    work_chunk *spare;
    work_chunk *pending; /* the feed had no room for it */
    size_t under_way;    /* in the feed */
    uint64_t waited;     /* nanoseconds for the feed, not counted yet */
};

/* What came of the attempt to begin a chunk. */
typedef enum work_begun {
    WORK_BEGUN,
    WORK_FULL,    /* the feed has no room */
    WORK_STARVED, /* the schedule waits for a budget */
    WORK_OVER     /* nothing is left */
} work_begun;

/* ---- failing ----------------------------------------------------------------------------------------------------- */

void coffer__load_fail(coffer_load *load, coffer_status status, const coffer_error *error)
{
    coffer__os_mutex_lock(&load->mutex);
    if (load->status == COFFER_OK) {
        load->status = status;
        load->error = *error;
        load->stats.nanoseconds = coffer__os_nanoseconds() - load->began;
    }
    atomic_store(&load->stopped, true);
    coffer__os_condition_wake_all(&load->changed);
    coffer__os_condition_wake_all(&load->room);
    coffer__os_mutex_unlock(&load->mutex);
}

/* Whether the worker should end. On the load's own thread this asks the user, who may cancel. */
static bool work_stop(void *ctx)
{
    coffer__load_worker *worker = ctx;
    coffer_error error;
    if (atomic_load(&worker->load->stopped)) {
        return true;
    }
    if (!coffer__crew_stop(&worker->base, 0)) {
        return false;
    }
    const coffer_status status = coffer__fail(&error, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    coffer__load_fail(worker->load, status, &error);
    return true;
}

/* ---- beginning chunks -------------------------------------------------------------------------------------------- */

static work_chunk *work_new_chunk(coffer__load_worker *worker, coffer_error *err)
{
    work_chunk *chunk = worker->spare;
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

static void work_spare(coffer__load_worker *worker, work_chunk *chunk)
{
    chunk->next = worker->spare;
    worker->spare = chunk;
}

/* Rows that are contiguous in host memory may be read right to their place. Under the lock. */
static void work_set_places(const coffer_load *load, coffer__chunk *chunk)
{
    for (size_t i = 0; i < chunk->part_count; i++) {
        coffer__part *part = &chunk->parts[i];
        const coffer__load_row *row = &load->plan->rows[part->row];
        if (row->nest.rank == 0 && load->plan->items[row->item].device == NULL) {
            const uint64_t address = load->states[row->item].spot.address + row->nest.to;
            part->to = (uint8_t *)(uintptr_t)(address + (part->within.begin - row->nest.reach.begin));
        }
    }
}

/* The next chunk of the schedule, which is under way from now on. */
static coffer_status work_schedule(coffer__load_worker *worker, work_chunk *chunk, work_begun *begun, coffer_error *err)
{
    coffer_load *load = worker->load;
    bool over = false;
    coffer__os_mutex_lock(&load->mutex);
    coffer_status status = coffer__schedule_next(&load->schedule, &chunk->base, &over, err);
    *begun = over ? WORK_OVER : WORK_BEGUN;
    if (status == COFFER_NEED_MORE) {
        *begun = WORK_STARVED;
        status = COFFER_OK;
        coffer__os_condition_wake_all(&load->changed);
    } else if (status == COFFER_OK && !over) {
        load->under_way++;
        work_set_places(load, &chunk->base);
    }
    coffer__os_mutex_unlock(&load->mutex);
    return status;
}

static coffer_status work_begin(coffer__load_worker *worker, work_begun *begun, coffer_error *err)
{
    work_chunk *chunk = worker->pending;
    *begun = WORK_BEGUN;
    if (!worker->feed->ops->has_room(worker->feed)) {
        *begun = WORK_FULL;
        return COFFER_OK;
    }
    if (chunk == NULL) {
        chunk = work_new_chunk(worker, err);
        coffer_status status = chunk == NULL ? COFFER_ERR_MEMORY : work_schedule(worker, chunk, begun, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (*begun != WORK_BEGUN) {
            work_spare(worker, chunk);
            return COFFER_OK;
        }
    }
    worker->pending = NULL;
    const coffer_status status = worker->feed->ops->submit(worker->feed, &chunk->base, err);
    if (status == COFFER_NEED_MORE) {
        worker->pending = chunk;
        *begun = WORK_FULL;
        return COFFER_OK;
    }
    worker->under_way += status == COFFER_OK ? 1 : 0;
    return status;
}

/* ---- delivering -------------------------------------------------------------------------------------------------- */

/* Copies what the feed did not read to its place already. */
static void work_copy_rest(const coffer__chunk *chunk, const coffer__part *part)
{
    const uint8_t *from = chunk->bytes + (size_t)(part->within.begin - chunk->cell.begin);
    const size_t before = (size_t)(part->there.begin - part->within.begin);
    const size_t until = (size_t)(part->there.end - part->within.begin);
    const size_t size = (size_t)(part->within.end - part->within.begin);
    memcpy(part->to, from, before);
    memcpy(part->to + until, from + until, size - until);
}

/* Copies what a row takes, line by line. Returns its bytes. */
static uint64_t work_copy_lines(const coffer_load *load, const coffer__chunk *chunk, const coffer__part *part)
{
    coffer__lines lines;
    coffer__line line;
    uint64_t taken = 0;
    const coffer__load_row *row = &load->plan->rows[part->row];
    coffer__lines_begin(&lines, &row->nest, load->states[row->item].spot.address, part->within);
    while (coffer__lines_next(&lines, &line)) {
        coffer__deliver_host(&line, chunk->bytes + (size_t)(line.from - chunk->cell.begin));
        taken += line.width * line.runs;
    }
    return taken;
}

static coffer_status work_deliver(coffer__load_worker *worker, work_chunk *chunk, coffer_error *err)
{
    (void)err;
    chunk->taken = 0;
    for (size_t i = 0; i < chunk->base.part_count; i++) {
        coffer__part *part = &chunk->base.parts[i];
        if (part->to != NULL) {
            work_copy_rest(&chunk->base, part);
            part->taken = part->within.end - part->within.begin;
        } else {
            part->taken = work_copy_lines(worker->load, &chunk->base, part);
        }
        chunk->taken += part->taken;
    }
    return COFFER_OK;
}

/* ---- what arrived ------------------------------------------------------------------------------------------------ */

/* Whether a file still is the one whose header was read. What was read before this is asked is then what the header speaks
   of. */
static coffer_status work_still(const coffer_load *load, size_t number, coffer_error *err)
{
    const coffer__shard *shard = &load->plan->model->shards[number];
    const coffer__os_info *seen = coffer__source_seen(&shard->source);
    coffer__os_info now;
    int fd = -1;
    uint64_t offset = 0;
    if (seen == NULL || !shard->source.is.lends ||
        shard->source.ops->borrow(&shard->source, &fd, &offset, NULL) != COFFER_OK) {
        return COFFER_OK;
    }
    const int os_error = coffer__os_inspect_fd(fd, &now);
    shard->source.ops->give_back(&shard->source);
    if (os_error == 0 && coffer__os_unchanged(seen, &now) && seen->touched == now.touched) {
        return COFFER_OK;
    }
    coffer__fail(
        err, COFFER_ERR_CHANGED,
        "the file was changed or replaced after it was opened: open it again when the program that writes it has "
        "finished");
    return shard->path == NULL ? COFFER_ERR_CHANGED : coffer__fail_path(err, COFFER_ERR_CHANGED, shard->path);
}

static void work_count(coffer_load_stats *stats, const work_chunk *chunk)
{
    stats->done += chunk->taken;
    stats->read += chunk->base.read;
    stats->cached += chunk->base.cached;
    stats->direct += chunk->base.direct;
    stats->requests += chunk->base.requests;
}

/* The bytes of a chunk are in place. Items that lack nothing more are ready. */
static coffer_status work_arrived(coffer__load_worker *worker, work_chunk *chunk, coffer_error *err)
{
    coffer_load *load = worker->load;
    const coffer_status status = work_still(load, chunk->base.shard, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__os_mutex_lock(&load->mutex);
    work_count(&load->stats, chunk);
    load->stats.waited_source += worker->waited;
    worker->waited = 0;
    load->under_way--;
    for (size_t i = 0; i < chunk->base.part_count; i++) {
        const coffer__part *part = &chunk->base.parts[i];
        const uint32_t item = load->plan->rows[part->row].item;
        load->states[item].left -= part->taken;
        if (load->states[item].left == 0) {
            coffer__load_ready(load, item);
        }
    }
    coffer__os_mutex_unlock(&load->mutex);
    (void)coffer__crew_advance(&worker->base, chunk->taken);
    work_spare(worker, chunk);
    return COFFER_OK;
}

/* Waits for a chunk of the feed, and delivers it. */
static coffer_status work_come(coffer__load_worker *worker, coffer_error *err)
{
    coffer__chunk *come = NULL;
    const uint64_t began = coffer__os_nanoseconds();
    coffer_status status = worker->feed->ops->next(worker->feed, true, &come, err);
    const uint64_t waited = coffer__os_nanoseconds() - began;
    if (status != COFFER_OK || come == NULL) {
        return status;
    }
    work_chunk *chunk = (work_chunk *)come;
    worker->under_way--;
    worker->waited += waited;
    status = work_deliver(worker, chunk, err);
    worker->feed->ops->release(worker->feed, come);
    return status == COFFER_OK ? work_arrived(worker, chunk, err) : status;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* Waits until a caller has made room in a budget. */
static void work_starve(coffer__load_worker *worker)
{
    coffer_load *load = worker->load;
    const uint64_t began = coffer__os_nanoseconds();
    while (!work_stop(worker)) {
        coffer__os_mutex_lock(&load->mutex);
        const bool starved = load->starved;
        if (starved) {
            (void)coffer__os_condition_wait(&load->room, &load->mutex, COFFER__WATCH_MS);
        }
        load->stats.waited_caller += starved ? 0 : coffer__os_nanoseconds() - began;
        coffer__os_mutex_unlock(&load->mutex);
        if (!starved) {
            return;
        }
    }
}

/* One round: as many chunks as the feed has room for are begun, and one that came is delivered. */
static coffer_status work_round(coffer__load_worker *worker, bool *over, coffer_error *err)
{
    work_begun begun = WORK_BEGUN;
    while (begun == WORK_BEGUN) {
        const coffer_status status = work_begin(worker, &begun, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    if (worker->under_way > 0) {
        return work_come(worker, err);
    }
    if (begun == WORK_STARVED) {
        work_starve(worker);
    }
    *over = begun == WORK_OVER;
    return COFFER_OK;
}

/* A feed is made, used and closed by the worker's thread. */
static coffer_status work_rounds(coffer__load_worker *worker, coffer_error *err)
{
    bool over = false;
    coffer_load *load = worker->load;
    const size_t number = (size_t)(worker - load->workers);
    coffer_status status = coffer__window_enter(load->window, load, load->worker_count, &worker->watch, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__load_enter_group(load, &worker->watch, err);
    if (status == COFFER_OK) {
        status = coffer__load_feed(&worker->feed, load, number, &worker->watch, err);
    }
    while (status == COFFER_OK && !over && !work_stop(worker)) {
        status = work_round(worker, &over, err);
    }
    if (worker->feed != NULL) {
        worker->feed->ops->close(worker->feed);
    }
    coffer__load_leave_group(load, status, err);
    coffer__window_leave(load->window);
    return status;
}

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

size_t coffer__load_worker_size(void)
{
    return sizeof(coffer__load_worker);
}

/* One for each processor, or more where a round trip is waited for; never more than there are cells. */
static size_t work_threads(const coffer_load *load)
{
    const coffer *model = load->plan->model;
    const uint32_t asked = load->window->options.threads;
    uint64_t cells = load->plan->size / COFFER__CELL + 1;
    bool far = false;
    for (size_t i = 0; i < model->shard_count; i++) {
        far = far || model->shards[i].source.is.far;
    }
    const uint32_t processors = coffer__os_processors();
    const uint64_t most = asked > 0 ? asked : far || processors > WORK_THREADS ? WORK_THREADS : processors;
    return (size_t)(cells < most ? cells : most);
}

coffer_status coffer__load_make_workers(coffer_load *load, coffer_error *err)
{
    const size_t slots = coffer__window_most(load->window);
    const size_t threads = work_threads(load);
    const size_t count = threads < slots ? threads : slots;
    load->workers = coffer__alloc_array(&load->allocator, count, sizeof *load->workers, err);
    if (load->workers == NULL) {
        return COFFER_ERR_MEMORY;
    }
    load->worker_count = count;
    load->feeds.workers = count;
    for (size_t i = 0; i < count; i++) {
        load->workers[i].load = load;
        load->workers[i].watch = (coffer__watch){ work_stop, &load->workers[i] };
    }
    return COFFER_OK;
}

static void work_free_chunks(coffer__load_worker *worker, const coffer_allocator *allocator)
{
    while (worker->made != NULL) {
        work_chunk *chunk = worker->made;
        worker->made = chunk->made;
        coffer__chunk_end(&chunk->base, allocator);
        coffer__free(allocator, chunk, sizeof *chunk);
    }
}

void coffer__load_free_workers(coffer_load *load)
{
    for (size_t i = 0; i < load->worker_count; i++) {
        work_free_chunks(&load->workers[i], &load->allocator);
    }
    coffer__free_array(&load->allocator, load->workers, load->worker_count, sizeof *load->workers);
    load->workers = NULL;
    load->worker_count = 0;
}
