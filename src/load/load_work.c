/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each worker does, until nothing is left: it fills its chunk source with chunks of the schedule, waits for one to come,
 * and delivers it. Host memory has its bytes at once. What goes to a device is queued there, and the chunk is held
 * until it has arrived.
 */
#include "alloc.h"
#include "deliver.h"
#include "engine.h"
#include "error.h"
#include "load_digest.h"
#include "loading.h"
#include "model.h"

#include <string.h>

#define WORK_MAX_THREADS 64u
#define WORK_SENT UINT64_MAX /* bytes went to that device, and there is no ticket for them yet */

/* A chunk with what the worker remembers of it. It begins with the chunk source's view of it, so a chunk that the chunk source
   gives back is cast to this. */
typedef struct work_chunk {
    coffer__chunk base;
    struct work_chunk *next; /* of those that are spare, or held */
    struct work_chunk *made; /* the one that was made before it */
    uint64_t taken;          /* bytes of rows in it */
    bool at_hand;            /* it was begun while others were waited for */
    size_t hashed;           /* parts that were looked at for hashing in the slot */
    uint32_t *due;           /* items to be hashed or verified now that it is there; space for its parts */
    size_t due_capacity;
    uint64_t tickets[COFFER__SPACES]; /* of the worker's device queues; 0: nothing went there */
} work_chunk;

/* All of it belongs to the worker's thread, but for `load`. So the lists of chunks need no lock; what others may
   see is in the load. */
struct coffer__load_worker {
    coffer__thread_pool_worker base;
    coffer_load *load;
    coffer__watch watch;
    coffer__chunk_source *chunk_source;
    work_chunk *made;
    work_chunk *spare;
    work_chunk *pending;    /* the chunk source had no space for it */
    size_t under_way;       /* in the chunk source */
    bool mixed;             /* the last chunk was of a file that is partly in the page cache */
    bool at_hand;           /* a chunk is in the chunk source that was begun while others are waited for */
    uint64_t waited;        /* nanoseconds for the chunk source, not counted yet */
    uint64_t waited_device; /* nanoseconds for devices, not counted yet */
    coffer__device_queue *device_queues[COFFER__SPACES]; /* to the devices; NULL: nothing went there yet */
    work_chunk *held; /* a list, the oldest first, of chunks that came and still need their slots */
};

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

/* The lists of its spans, parts and due items stay with it. */
static void work_spare(coffer__load_worker *worker, work_chunk *chunk)
{
    chunk->next = worker->spare;
    worker->spare = chunk;
}

/* Whether a row may be read right to its place: where it is contiguous in host memory, or on a device that files can
   be read to. What is hashed in its slot, or has to wait for a stream of the caller's, comes through host memory all
   the same. */
static bool work_reads_to_place(const coffer_load *load, const coffer__load_row *row)
{
    const coffer__load_item *item = &load->plan->items[row->item];
    if (row->nest.rank != 0 || item->device == NULL) {
        return row->nest.rank == 0;
    }
    return !item->placed && load->states[row->item].verify != COFFER__VERIFY_IN_SLOT &&
           coffer__file_readers_reach(load->file_readers, item->shard, item->device);
}

/* Under the lock. The address of an item does not change after it was admitted, so it can be read without the lock
   later; here the lock is needed since another worker may be admitting items, and gives out memory for several at
   once. The part's bytes are those of the row from the place's beginning on, so their distance in the file is their
   distance in memory. */
static void work_set_places(const coffer_load *load, coffer__chunk *chunk)
{
    for (size_t i = 0; i < chunk->part_count; i++) {
        coffer__chunk_part *part = &chunk->parts[i];
        const coffer__load_row *row = &load->plan->rows[part->row];
        if (work_reads_to_place(load, row)) {
            const uint64_t address = load->states[row->item].spot.address + row->nest.to;
            /* NOLINTNEXTLINE(performance-no-int-to-ptr): it was a pointer */
            part->to = (uint8_t *)(uintptr_t)(address + (part->within.begin - row->nest.reach.begin));
            part->device = load->plan->items[row->item].device;
        }
    }
}

/* The next chunk of the schedule, which is in progress from now on; NULL: there is none now. Under the lock. It counts
   as in progress under the same lock under which the schedule moved on. So a caller that sees that nothing is in
   progress, and that the schedule waits for a budget, knows that only it can make space. Callers are woken when that
   becomes so, as no item is going to become ready that would wake them. That an item was refused while others gave a
   chunk does not count: what was taken in may have more chunks to come, also at a moment when none of them is in
   progress. */
static coffer_status work_advance(coffer__load_worker *worker, work_chunk **chunk, work_begun *begun, coffer_error *err)
{
    coffer_load *load = worker->load;
    work_chunk *next = work_new_chunk(worker, err);
    bool over = false;
    *chunk = NULL;
    if (next == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = coffer__schedule_next(&load->schedule, &next->base, &over, err);
    load->starved = status == COFFER_NEED_MORE;
    if (status == COFFER_OK && !over) {
        load->under_way++;
        work_set_places(load, &next->base);
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

/* Where the bytes of a chunk are, if it may be put off. Items in the order of the plan are wanted in that order, and the
   ranks of a group keep to that of the files. A chunk that is hashed in its slot keeps the slot until those before it
   were hashed, so that they must not be left behind. */
static coffer__residency work_residency(const coffer_load *load, const coffer__chunk *chunk)
{
    if (chunk->alone || load->options.order != COFFER_ORDER_FILE || load->window->options.ranks > 1) {
        return COFFER__ANYWHERE;
    }
    for (size_t i = 0; i < chunk->part_count; i++) {
        if (load->states[load->plan->rows[chunk->parts[i].row].item].verify == COFFER__VERIFY_IN_SLOT) {
            return COFFER__ANYWHERE;
        }
    }
    return coffer__file_readers_residency(load->file_readers, chunk);
}

/* Goes on in the schedule to a chunk whose bytes are where this worker wants them, and puts off the others on the way.
   Where there are too many of those, a worker that waits for nothing takes what comes. */
static coffer_status work_look_ahead(coffer__load_worker *worker, coffer__residency wanted, work_chunk **chunk,
                                     work_begun *begun, coffer_error *err)
{
    coffer_load *load = worker->load;
    coffer_status status = COFFER_OK;
    while (status == COFFER_OK && *chunk == NULL && *begun == WORK_BEGUN) {
        work_chunk *next = NULL;
        if (wanted == COFFER__AT_HAND && coffer__ahead_is_full(&load->ahead)) {
            *begun = WORK_FULL;
            return COFFER_OK;
        }
        status = work_advance(worker, &next, begun, err);
        if (next != NULL) {
            const coffer__residency where = work_residency(load, &next->base);
            const bool other = where != wanted && where != COFFER__ANYWHERE;
            worker->mixed = where != COFFER__ANYWHERE;
            *chunk = other && coffer__ahead_put(&load->ahead, where, &next->base) ? NULL : next;
        }
    }
    return status;
}

/* A chunk that is to be read now, of those that were put off or of the schedule. What is away comes first, so that the
   disk is never idle; when there is nothing more of that, what is at hand is all that is left. So nothing is left behind:
   a worker is told that all is over, or that a budget is full, only when nothing is put off. */
static coffer_status work_schedule(coffer__load_worker *worker, coffer__residency wanted, work_chunk **chunk,
                                   work_begun *begun, coffer_error *err)
{
    coffer_load *load = worker->load;
    *begun = WORK_BEGUN;
    coffer__os_mutex_lock(&load->mutex);
    *chunk = (work_chunk *)coffer__ahead_take(&load->ahead, wanted);
    const coffer_status status = work_look_ahead(worker, wanted, chunk, begun, err);
    if (status == COFFER_OK && *chunk == NULL && wanted == COFFER__AWAY) {
        *chunk = (work_chunk *)coffer__ahead_take(&load->ahead, COFFER__AT_HAND);
        *begun = *chunk != NULL ? WORK_BEGUN : *begun;
    }
    coffer__os_mutex_unlock(&load->mutex);
    return status;
}

/* A chunk that was taken from the schedule cannot be put back there, as the sweep has moved on. So one that the
   chunk source refuses after all stays with this worker, which submits it again before it takes another. That a chunk source has
   space is asked first, so this is rare: only the chunk itself can tell whether a chunk source that has claimed memory for
   others can take it. What is at hand is no work for the disk, so that the space of the chunk source does not matter: one such
   chunk at a time is begun beside the others. */
static coffer_status work_begin(coffer__load_worker *worker, coffer__residency wanted, work_begun *begun,
                                coffer_error *err)
{
    work_chunk *chunk = worker->pending;
    *begun = WORK_FULL;
    if (wanted == COFFER__AT_HAND ? chunk != NULL : !worker->chunk_source->ops->has_capacity(worker->chunk_source)) {
        return COFFER_OK;
    }
    if (chunk == NULL) {
        const coffer_status status = work_schedule(worker, wanted, &chunk, begun, err);
        if (status != COFFER_OK || chunk == NULL) {
            return status;
        }
        chunk->at_hand = wanted == COFFER__AT_HAND;
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
    worker->at_hand = worker->at_hand || chunk->at_hand;
    return status;
}

/* ---- delivering -------------------------------------------------------------------------------------------------- */

/* Copies what the chunk source did not read to its place already. `there` is one stretch within the part, and empty at the
   part's beginning where nothing was read to its place. So what is left is always two pieces, either of which may
   be empty, and no case has to be told apart. */
static void work_copy_rest(const coffer__chunk *chunk, const coffer__chunk_part *part)
{
    const uint8_t *from = chunk->bytes + (size_t)(part->within.begin - chunk->cell.begin);
    const size_t before = (size_t)(part->there.begin - part->within.begin);
    const size_t until = (size_t)(part->there.end - part->within.begin);
    const size_t size = (size_t)(part->within.end - part->within.begin);
    memcpy(part->to, from, before);
    memcpy(part->to + until, from + until, size - until);
}

/* Copies what a row takes, line by line. Returns its bytes. The place has gaps or another order than the file, so
   the bytes are never read there directly; what is copied is counted, as gaps in the file are no part of the item. */
static uint64_t work_copy_lines(const coffer_load *load, const coffer__chunk *chunk, const coffer__chunk_part *part)
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

/* The worker's device queue to the device of an item; it is made when the first bytes go there. What is queued on the
   stream of a given place comes before them. The memory that the copies read, the window's and the group's, is
   registered before the first copy is queued, since devices copy by themselves only from memory that they know.
   Each worker has a device queue of its own, so no lock is held while a device is given work. */
static coffer_status work_device_queue(coffer__load_worker *worker, uint32_t number,
                                       coffer__device_queue **device_queue, coffer_error *err)
{
    coffer_load *load = worker->load;
    const coffer__load_item *item = &load->plan->items[number];
    coffer__device_queue **own = &worker->device_queues[load->states[number].space];
    coffer_status status = COFFER_OK;
    if (*own == NULL) {
        status = coffer__window_pin(load->window, item->device, err);
        if (status == COFFER_OK) {
            status = coffer__load_pin_group(load, item->device, err);
        }
        if (status == COFFER_OK) {
            status = coffer__device_queue_open(own, item->device, &load->allocator, err);
        }
    }
    if (status == COFFER_OK && item->placed) {
        status = coffer__device_queue_after(*own, item->stream, err);
    }
    *device_queue = *own;
    return status;
}

/* Queues what a row takes, line by line. `taken` is counted here and not computed from `within`, since what lies
   between the lines of a nest is no part of the item. */
static coffer_status work_send_lines(coffer__load_worker *worker, const coffer__chunk *chunk, coffer__chunk_part *part,
                                     coffer_error *err)
{
    coffer__lines lines;
    coffer__line line;
    coffer__device_queue *device_queue = NULL;
    const coffer_load *load = worker->load;
    const coffer__load_row *row = &load->plan->rows[part->row];
    coffer_status status = work_device_queue(worker, row->item, &device_queue, err);
    part->taken = 0;
    coffer__lines_begin(&lines, &row->nest, load->states[row->item].spot.address, part->within);
    while (status == COFFER_OK && coffer__lines_next(&lines, &line)) {
        const uint8_t *bytes = chunk->bytes + (size_t)(line.from - chunk->cell.begin);
        status = coffer__device_queue_send(device_queue, &line, bytes, err);
        part->taken += line.width * line.runs;
    }
    return status;
}

/* What a part takes of an item is known only after this: all of `within` for contiguous bytes, and what the lines
   come to for others. Bytes that cuFile has read are on the device already, all of them, so nothing is queued and
   no ticket is needed. A device is marked as WORK_SENT once for all parts that go there. After a failure in the
   middle no ticket is taken: the load ends then, and closing the device queue waits for what was queued. */
static coffer_status work_deliver_part(coffer__load_worker *worker, work_chunk *chunk, coffer__chunk_part *part,
                                       coffer_error *err)
{
    const coffer_load *load = worker->load;
    const uint32_t item = load->plan->rows[part->row].item;
    part->taken = part->within.end - part->within.begin;
    if (part->device != NULL && part->there.end > part->there.begin) {
        return COFFER_OK;
    }
    if (load->plan->items[item].device != NULL) {
        chunk->tickets[load->states[item].space] = WORK_SENT;
        return work_send_lines(worker, &chunk->base, part, err);
    }
    if (part->to != NULL) {
        work_copy_rest(&chunk->base, part);
    } else {
        part->taken = work_copy_lines(load, &chunk->base, part);
    }
    return COFFER_OK;
}

/* Delivers a chunk. *held: bytes of it are still on their way to a device. One ticket for each device covers all
   parts of the chunk, as it is taken after the last of them was queued: marks are scarce, and the slot can only be
   released as a whole. */
static coffer_status work_deliver(coffer__load_worker *worker, work_chunk *chunk, bool *held, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    chunk->taken = 0;
    *held = false;
    memset(chunk->tickets, 0, sizeof chunk->tickets);
    for (size_t i = 0; i < chunk->base.part_count && status == COFFER_OK; i++) {
        status = work_deliver_part(worker, chunk, &chunk->base.parts[i], err);
        chunk->taken += chunk->base.parts[i].taken;
    }
    for (size_t i = 0; i < COFFER__SPACES && status == COFFER_OK; i++) {
        if (chunk->tickets[i] == WORK_SENT) {
            status = coffer__device_queue_ticket(worker->device_queues[i], &chunk->tickets[i], err);
            *held = true;
        }
    }
    return status;
}

/* Hashes what is to be hashed in the slot, part by part. COFFER_NEED_MORE when that has to wait for chunks before
   this one. `hashed` is how far it came, so when the chunk is tried again no part is hashed twice. The lock is not
   held while it hashes. */
static coffer_status work_hash_slot(const coffer__load_worker *worker, work_chunk *chunk, coffer_error *err)
{
    coffer_load *load = worker->load;
    for (; chunk->hashed < chunk->base.part_count; chunk->hashed++) {
        const coffer__chunk_part *part = &chunk->base.parts[chunk->hashed];
        const uint32_t item = load->plan->rows[part->row].item;
        if (load->states[item].verify == COFFER__VERIFY_IN_SLOT) {
            const uint8_t *bytes = chunk->base.bytes + (size_t)(part->within.begin - chunk->base.cell.begin);
            const coffer_status status = coffer__load_digest_slot(load, item, part->within, bytes, err);
            if (status != COFFER_OK) {
                return status;
            }
        }
    }
    return COFFER_OK;
}

/* ---- what arrived ------------------------------------------------------------------------------------------------ */

/* Whether a file still is the one whose header was read. What was read before this is asked is then what the header
   speaks of. A file that is not the system's own, or whose source lends no descriptor, cannot be asked, and is not:
   its source has its own way to notice. The descriptor is asked and not the path, since it is the open file from
   which the bytes came, wherever the path leads by now. */
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
        "the file, or its name, links or rights, were changed after it was opened: open it again when the program that "
        "does so has finished");
    return shard->path == NULL ? COFFER_ERR_CHANGED : coffer__fail_path(err, COFFER_ERR_CHANGED, shard->path);
}

/* Under the lock, once for each chunk, so the sums belong together whenever they are read. */
static void work_count(coffer_load_stats *stats, const work_chunk *chunk)
{
    stats->done += chunk->taken;
    stats->read += chunk->base.read;
    stats->cached += chunk->base.cached;
    stats->direct += chunk->base.direct;
    stats->requests += chunk->base.requests;
    stats->engines |= chunk->base.engines;
}

/* What requests turned out to cost changes what the next chunks read. Not in a group: the ranks have told each other what
   they want, and each has to keep to that. Under the lock. */
static void work_learn(coffer_load *load, const coffer__chunk *chunk)
{
    if (chunk->gap != 0 && load->window->options.ranks < 2) {
        load->schedule.gap[coffer__source_is_dear(&load->plan->model->shards[chunk->shard].source)] = chunk->gap;
    }
}

/* A part is in place. An item that lacks nothing more is ready, unless it is verified first: then it is *due, when
   this thread has to do that. Under the lock. `left` reaches 0 once, under the lock, whichever worker brings the
   last part, so exactly one thread calls the item ready or verifies it. */
static coffer_status work_part_arrived(coffer_load *load, const coffer__chunk_part *part, bool *due, coffer_error *err)
{
    const uint32_t item = load->plan->rows[part->row].item;
    coffer__load_state *state = &load->states[item];
    *due = false;
    state->left -= part->taken;
    if (state->verify == COFFER__VERIFY_IN_PLACE) {
        return coffer__load_digest_arrived(load, item, part->within.begin, due, err);
    }
    if (state->left == 0 && state->verify == COFFER__VERIFY_APART) {
        *due = true;
    } else if (state->left == 0) {
        coffer__load_ready(load, item);
    }
    return COFFER_OK;
}

/* All parts of a chunk are in place. Returns how many items are due. Under the lock. What is due is only listed
   here, because verifying takes long and must not hold up the other workers, who need the lock for each of their
   chunks. */
static coffer_status work_parts_arrived(coffer_load *load, work_chunk *chunk, size_t *due_count, coffer_error *err)
{
    *due_count = 0;
    for (size_t i = 0; i < chunk->base.part_count; i++) {
        bool due = false;
        coffer_status status = work_part_arrived(load, &chunk->base.parts[i], &due, err);
        uint32_t *list = chunk->due;
        if (status == COFFER_OK && due) {
            list =
                coffer__grow_array(&load->allocator, chunk->due, *due_count, &chunk->due_capacity, sizeof *list, err);
            status = list == NULL ? COFFER_ERR_MEMORY : COFFER_OK;
        }
        if (status != COFFER_OK) {
            return status;
        }
        if (due) {
            chunk->due = list;
            list[(*due_count)++] = load->plan->rows[chunk->base.parts[i].row].item;
        }
    }
    return COFFER_OK;
}

/* Without the lock. The first item that is damaged ends it, and with it the load. */
static coffer_status work_verify(coffer_load *load, const work_chunk *chunk, size_t due_count, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < due_count && status == COFFER_OK; i++) {
        const uint32_t item = chunk->due[i];
        status = load->states[item].verify == COFFER__VERIFY_IN_PLACE ? coffer__load_digest_run(load, item, err)
                                                                      : coffer__load_verify_apart(load, item, err);
    }
    return status;
}

/* The bytes of a chunk are in place, and its slot is released. The order matters. The file is asked before anything
   is called ready, so no caller ever gets bytes of a file that was replaced in the meantime. The slot was released
   before, since hashing in place and verifying apart need only what is in the item's memory, and the slot can be
   filled meanwhile. And a chunk with items that are due counts as in progress until they are verified, so that a
   caller is not told that the load waits for a budget while items are about to become ready. Callers are woken once
   for all items of the chunk, when the lock is free: else each would wake only to wait for the lock. */
static coffer_status work_arrived(coffer__load_worker *worker, work_chunk *chunk, coffer_error *err)
{
    coffer_load *load = worker->load;
    size_t due_count = 0;
    bool news = false;
    coffer_status status = work_still(load, chunk->base.shard, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__os_mutex_lock(&load->mutex);
    work_count(&load->stats, chunk);
    work_learn(load, &chunk->base);
    load->stats.waited_source += worker->waited;
    load->stats.waited_device += worker->waited_device;
    worker->waited = 0;
    worker->waited_device = 0;
    const size_t open = load->open;
    status = work_parts_arrived(load, chunk, &due_count, err);
    load->under_way -= due_count == 0 ? 1 : 0;
    news = load->open != open || load->starved;
    coffer__os_mutex_unlock(&load->mutex);
    if (news) {
        coffer__os_condition_wake_all(&load->changed);
    }
    if (status == COFFER_OK && due_count > 0) {
        status = work_verify(load, chunk, due_count, err);
        coffer__os_mutex_lock(&load->mutex);
        load->under_way--;
        coffer__os_condition_wake_all(&load->changed);
        coffer__os_mutex_unlock(&load->mutex);
    }
    (void)coffer__thread_pool_advance(&worker->base, chunk->taken);
    work_spare(worker, chunk);
    return status;
}

/* ---- what comes -------------------------------------------------------------------------------------------------- */

/* Whether a chunk needs its slot no more: it was hashed, and all of its bytes are on their devices.
   COFFER_NEED_MORE: it does. With `wait` devices are waited for. Hashing comes first, because it needs the bytes in
   the slot and nothing of the device: while it runs, the copies do. The clock is only asked when the device is
   waited for, so that what is counted is waiting. */
static coffer_status work_is_there(coffer__load_worker *worker, work_chunk *chunk, bool wait, coffer_error *err)
{
    coffer_status status = work_hash_slot(worker, chunk, err);
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
    work_chunk **link = &worker->held;
    *some = false;
    while (*link != NULL) {
        work_chunk *chunk = *link;
        coffer_status status = work_is_there(worker, chunk, wait && !*some, err);
        if (status == COFFER_NEED_MORE) {
            link = &chunk->next;
            continue;
        }
        if (status == COFFER_OK) {
            *link = chunk->next;
            *some = true;
            worker->chunk_source->ops->release(worker->chunk_source, &chunk->base);
            status = work_arrived(worker, chunk, err);
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

/* Waits for a chunk of the chunk source; *come NULL: there was something else to do. Of a file that is partly in the page cache it
   uses that time for what is there, if nothing came yet. */
static coffer_status work_await(coffer__load_worker *worker, coffer__chunk **come, coffer_error *err)
{
    *come = NULL;
    if (worker->held != NULL && worker->load->window->options.ranks > 1) {
        return work_await_in_group(worker, come, err);
    }
    if (worker->mixed && !worker->at_hand) {
        work_begun begun = WORK_BEGUN;
        coffer_status status = work_next(worker, false, come, err);
        if (status == COFFER_OK && *come == NULL) {
            status = work_begin(worker, COFFER__AT_HAND, &begun, err);
        }
        if (status != COFFER_OK || *come != NULL) {
            return status;
        }
    }
    return work_next(worker, true, come, err);
}

/* Waits for a chunk of the chunk source, and delivers it. What needs its slot a while longer is held, after those that came
   before it. Appending keeps the list in the order in which chunks came, so the oldest copies are asked for first.
   A chunk that is held keeps its slot, and so the chunk source may run out of space; that is bounded, as the worker collects
   what is held before it begins anything. */
static coffer_status work_come(coffer__load_worker *worker, coffer_error *err)
{
    coffer__chunk *come = NULL;
    coffer_status status = work_await(worker, &come, err);
    if (status != COFFER_OK || come == NULL) {
        return status;
    }
    work_chunk *chunk = (work_chunk *)come;
    bool held = false;
    worker->under_way--;
    worker->at_hand = worker->at_hand && !chunk->at_hand;
    status = work_deliver(worker, chunk, &held, err);
    if (status != COFFER_OK) {
        return status;
    }
    chunk->hashed = 0;
    status = work_hash_slot(worker, chunk, err);
    if (held || status == COFFER_NEED_MORE) {
        work_chunk **link = &worker->held;
        while (*link != NULL) {
            link = &(*link)->next;
        }
        chunk->next = NULL;
        *link = chunk;
        return status == COFFER_NEED_MORE ? COFFER_OK : status;
    }
    worker->chunk_source->ops->release(worker->chunk_source, come);
    return status == COFFER_OK ? work_arrived(worker, chunk, err) : status;
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

/* One round: as many chunks as the chunk source has space for are begun, and one that came is delivered. A device is only
   waited for when there is nothing else to do, so its copies run while the next bytes are read. It collects first,
   since each slot that becomes free lets another chunk begin. It is over only when nothing is in the chunk source and
   nothing is held: then every chunk that this worker took from the schedule has arrived. */
static coffer_status work_round(coffer__load_worker *worker, bool *over, coffer_error *err)
{
    work_begun begun = WORK_BEGUN;
    bool some = false;
    coffer_status status = work_collect(worker, false, &some, err);
    while (status == COFFER_OK && begun == WORK_BEGUN) {
        status = work_begin(worker, COFFER__AWAY, &begun, err);
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

/* A chunk source is made, used and closed by the worker's thread. The window is entered first and left last: the chunk source's
   slots are in it, and no other load may have it before they are out of use. The group is left after the chunk source was
   closed, for its memory is unmapped with the last member. Leaving is called after a failure to enter as well,
   because the other workers have to be counted down all the same. */
static coffer_status work_rounds(coffer__load_worker *worker, coffer_error *err)
{
    bool over = false;
    coffer_load *load = worker->load;
    const size_t number = (size_t)(worker - load->workers);
    coffer_status status = coffer__window_enter(load->window, load, load->slots, &worker->watch, err);
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
    coffer__window_leave(load->window);
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
    const uint32_t ranks = load->window->options.ranks;
    const uint32_t mine = coffer__os_processors() / (ranks > 1 ? ranks : 1);
    return mine > 0 ? mine : 1;
}

/* As many as the engine wants, or as the window's options say; never more than there are cells, or slots. A worker
   without a cell to read would be a thread for nothing, and one without a slot could never begin a chunk: each chunk source
   has at least one slot of its own. The ranks of a group read for each other, so that there is no more reading to do
   than for one of them, and each needs no more threads than its processors can run. */
static coffer_status work_threads(const coffer_load *load, size_t *count, coffer_error *err)
{
    uint32_t threads = 0;
    const size_t slots = coffer__window_most(load->window);
    const uint32_t asked = load->window->options.threads;
    const coffer_status status = coffer__file_readers_try(load->file_readers, &threads, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (load->window->options.ranks > 1 && work_processors(load) < threads) {
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

/* By now the thread has ended and its chunk source is closed, so no engine and no device knows these chunks any more. */
static void work_free_chunks(coffer__load_worker *worker, const coffer_allocator *allocator)
{
    while (worker->made != NULL) {
        work_chunk *chunk = worker->made;
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
