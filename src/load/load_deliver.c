/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk that came. Its parts go to their destinations: host memory has them at once, to a device they are queued. When
 * all of it is there, and its slot was released, the bytes of its items count, and an item that lacks nothing is ready.
 */
#include "alloc.h"
#include "engine.h"
#include "error.h"
#include "load_digest.h"
#include "load_worker.h"
#include "model.h"

#include <string.h>

#define DELIVER_SENT UINT64_MAX /* bytes went to that device, and there is no ticket for them yet */

/* ---- delivering -------------------------------------------------------------------------------------------------- */

/* Copies what the chunk source did not read to its destination already. `there` is one stretch within the part, and
   empty at the part's beginning where nothing was read to its destination. So what is left is always two pieces, either
   of which may be empty, and no case has to be told apart. */
static void deliver_copy_rest(const coffer__chunk *chunk, const coffer__chunk_part *part)
{
    if (part->there.begin == part->within.begin && part->there.end == part->within.end) {
        return; /* and the chunk may have no slot */
    }
    const uint8_t *from = chunk->bytes + (size_t)(part->within.begin - chunk->cell.begin);
    const size_t before = (size_t)(part->there.begin - part->within.begin);
    const size_t until = (size_t)(part->there.end - part->within.begin);
    const size_t size = (size_t)(part->within.end - part->within.begin);
    memcpy(part->to, from, before);
    memcpy(part->to + until, from + until, size - until);
}

/* Copies what a copy op takes, one strided copy after the other. Returns its bytes. The destination has gaps or another
   order than the file, so the bytes are never read there directly; what is copied is counted, as gaps in the file are
   no part of the item. */
static uint64_t deliver_copy_region(const coffer_load *load, const coffer__chunk *chunk, const coffer__chunk_part *part)
{
    coffer__region_walk copies;
    coffer__strided_copy copy;
    uint64_t taken = 0;
    const coffer__copy_op *op = &load->plan->copy_ops[part->op];
    coffer__region_walk_begin(&copies, &op->region, load->states[op->item].allocation.address, part->within);
    while (coffer__region_walk_next(&copies, &copy)) {
        coffer__copy_strided(&copy, chunk->bytes + (size_t)(copy.from - chunk->cell.begin));
        taken += copy.width * copy.runs;
    }
    return taken;
}

/* The worker's device queue to the device of an item; it is made when the first bytes go there. What is queued on the
   stream of a given destination comes before them. The memory that the copies read, the staging buffer's and the
   group's, is registered before the first copy is queued, since devices copy by themselves only from memory that they
   know. Each worker has a device queue of its own, so no lock is held while a device is given work. */
static coffer_status deliver_device_queue(coffer__load_worker *worker, uint32_t number,
                                          coffer__device_queue **device_queue, coffer_error *err)
{
    coffer_load *load = worker->load;
    const coffer__load_item *item = &load->plan->items[number];
    coffer__device_queue **own = &worker->device_queues[load->states[number].space];
    coffer_status status = COFFER_OK;
    if (*own == NULL) {
        status = coffer__staging_pin(load->staging, item->device, err);
        if (status == COFFER_OK) {
            status = coffer__load_pin_group(load, item->device, err);
        }
        if (status == COFFER_OK) {
            status = coffer__device_queue_open(own, item->device, &load->allocator, err);
        }
    }
    if (status == COFFER_OK && item->given) {
        status = coffer__device_queue_after(*own, item->stream, err);
    }
    *device_queue = *own;
    return status;
}

/* Queues what a copy op takes, one strided copy after the other. `taken` is counted here and not computed from
   `within`, since what lies between the strided copies of a region is no part of the item. */
static coffer_status deliver_send_region(coffer__load_worker *worker, const coffer__chunk *chunk,
                                         coffer__chunk_part *part, coffer_error *err)
{
    coffer__region_walk copies;
    coffer__strided_copy copy;
    coffer__device_queue *device_queue = NULL;
    const coffer_load *load = worker->load;
    const coffer__copy_op *op = &load->plan->copy_ops[part->op];
    coffer_status status = deliver_device_queue(worker, op->item, &device_queue, err);
    part->taken = 0;
    coffer__region_walk_begin(&copies, &op->region, load->states[op->item].allocation.address, part->within);
    while (status == COFFER_OK && coffer__region_walk_next(&copies, &copy)) {
        const uint8_t *bytes = chunk->bytes + (size_t)(copy.from - chunk->cell.begin);
        status = coffer__device_queue_send(device_queue, &copy, bytes, err);
        part->taken += copy.width * copy.runs;
    }
    return status;
}

/* What a part takes of an item is known only after this: all of `within` for contiguous bytes, and what the strided
   copies come to for others. Bytes that cuFile has read are on the device already, all of them, so nothing is queued
   and no ticket is needed. A device is marked as DELIVER_SENT once for all parts that go there. After a failure in the
   middle no ticket is taken: the load ends then, and closing the device queue waits for what was queued. */
static coffer_status deliver_deliver_part(coffer__load_worker *worker, coffer__work_chunk *chunk,
                                          coffer__chunk_part *part, coffer_error *err)
{
    const coffer_load *load = worker->load;
    const uint32_t item = load->plan->copy_ops[part->op].item;
    part->taken = part->within.end - part->within.begin;
    if (part->device != NULL && part->there.end > part->there.begin) {
        return COFFER_OK;
    }
    if (load->plan->items[item].device != NULL) {
        chunk->tickets[load->states[item].space] = DELIVER_SENT;
        return deliver_send_region(worker, &chunk->base, part, err);
    }
    if (part->to != NULL) {
        deliver_copy_rest(&chunk->base, part);
    } else {
        part->taken = deliver_copy_region(load, &chunk->base, part);
    }
    return COFFER_OK;
}

/* Delivers a chunk. *held: bytes of it are still on their way to a device. One ticket for each device covers all
   parts of the chunk, as it is taken after the last of them was queued: marks are scarce, and the slot can only be
   released as a whole. */
coffer_status coffer__load_deliver(coffer__load_worker *worker, coffer__work_chunk *chunk, bool *held,
                                   coffer_error *err)
{
    coffer_status status = COFFER_OK;
    chunk->taken = 0;
    *held = false;
    memset(chunk->tickets, 0, sizeof chunk->tickets);
    for (size_t i = 0; i < chunk->base.part_count && status == COFFER_OK; i++) {
        status = deliver_deliver_part(worker, chunk, &chunk->base.parts[i], err);
        chunk->taken += chunk->base.parts[i].taken;
    }
    for (size_t i = 0; i < COFFER__SPACES && status == COFFER_OK; i++) {
        if (chunk->tickets[i] == DELIVER_SENT) {
            status = coffer__device_queue_ticket(worker->device_queues[i], &chunk->tickets[i], err);
            *held = true;
        }
    }
    return status;
}

/* Hashes what is to be hashed in the slot, part by part. COFFER_NEED_MORE when that has to wait for chunks before
   this one. `hashed` is how far it came, so when the chunk is tried again no part is hashed twice. The lock is not
   held while it hashes. */
coffer_status coffer__load_hash_slot(const coffer__load_worker *worker, coffer__work_chunk *chunk, coffer_error *err)
{
    coffer_load *load = worker->load;
    for (; chunk->hashed < chunk->base.part_count; chunk->hashed++) {
        const coffer__chunk_part *part = &chunk->base.parts[chunk->hashed];
        const uint32_t item = load->plan->copy_ops[part->op].item;
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
static coffer_status deliver_still(const coffer_load *load, size_t number, coffer_error *err)
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
static void deliver_count(coffer_load_stats *stats, const coffer__work_chunk *chunk)
{
    stats->done += chunk->taken;
    stats->read += chunk->base.counts.read;
    stats->cached += chunk->base.counts.cached;
    stats->direct += chunk->base.counts.direct;
    stats->requests += chunk->base.counts.requests;
    stats->engines |= chunk->base.counts.engines;
}

/* What requests turned out to cost changes what the next chunks read. Not in a group: the ranks have told each other
   what they want, and each has to keep to that. Under the lock. */
static void deliver_learn(coffer_load *load, const coffer__chunk *chunk)
{
    if (chunk->gap != 0 && load->staging->options.ranks < 2) {
        load->schedule.gap[coffer__source_is_dear(&load->plan->model->shards[chunk->shard].source)] = chunk->gap;
    }
}

/* A part is in place. An item that lacks nothing more is ready, unless it is verified first: then it is *due, when
   this thread has to do that. Under the lock. `left` reaches 0 once, under the lock, whichever worker brings the
   last part, so exactly one thread calls the item ready or verifies it. */
static coffer_status deliver_part_arrived(coffer_load *load, const coffer__chunk_part *part, bool *due,
                                          coffer_error *err)
{
    const uint32_t item = load->plan->copy_ops[part->op].item;
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
static coffer_status deliver_parts_arrived(coffer_load *load, coffer__work_chunk *chunk, size_t *due_count,
                                           coffer_error *err)
{
    *due_count = 0;
    for (size_t i = 0; i < chunk->base.part_count; i++) {
        bool due = false;
        coffer_status status = deliver_part_arrived(load, &chunk->base.parts[i], &due, err);
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
            list[(*due_count)++] = load->plan->copy_ops[chunk->base.parts[i].op].item;
        }
    }
    return COFFER_OK;
}

/* Without the lock. The first item that is damaged ends it, and with it the load. */
static coffer_status deliver_verify(coffer_load *load, const coffer__work_chunk *chunk, size_t due_count,
                                    coffer_error *err)
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
coffer_status coffer__load_arrived(coffer__load_worker *worker, coffer__work_chunk *chunk, coffer_error *err)
{
    coffer_load *load = worker->load;
    size_t due_count = 0;
    bool news = false;
    coffer_status status = deliver_still(load, chunk->base.shard, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__os_mutex_lock(&load->mutex);
    deliver_count(&load->stats, chunk);
    deliver_learn(load, &chunk->base);
    load->stats.waited_source += worker->waited;
    load->stats.waited_device += worker->waited_device;
    worker->waited = 0;
    worker->waited_device = 0;
    const size_t open = load->open;
    status = deliver_parts_arrived(load, chunk, &due_count, err);
    load->under_way -= due_count == 0 ? 1 : 0;
    news = load->open != open || load->starved;
    coffer__os_mutex_unlock(&load->mutex);
    if (news) {
        coffer__os_condition_wake_all(&load->changed);
    }
    if (status == COFFER_OK && due_count > 0) {
        status = deliver_verify(load, chunk, due_count, err);
        coffer__os_mutex_lock(&load->mutex);
        load->under_way--;
        coffer__os_condition_wake_all(&load->changed);
        coffer__os_mutex_unlock(&load->mutex);
    }
    (void)coffer__thread_pool_advance(&worker->base, chunk->taken);
    return status;
}
