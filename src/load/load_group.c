/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The group of processes that a load may be in (group.h). The first worker that comes enters it, on its own thread, as
 * that may take a while; the others wait for it. The last one that ends leaves it.
 *
 * What makes a group are the files, as they were when they were opened: which they are, how long, and when they were
 * changed. A model of which that is not known, one that a model cache server has, and a load that reads in the order of
 * its plan have none.
 */
#include "alloc.h"
#include "chunk_source_shared.h"
#include "error.h"
#include "file_readers.h"
#include "fnv.h"
#include "group.h"
#include "loading.h"
#include "model.h"

#include <string.h>

/* The inode's time of change is part of it, which no program can set back: a file that was written to in place with
   its time restored is still another one. */
static bool group_add(uint64_t *number, const coffer__byte_source *source)
{
    char text[COFFER__SOURCE_IDENTITY];
    const coffer__os_info *seen = coffer__source_seen(source);
    *number = coffer__fnv(*number, &source->size, sizeof source->size);
    if (seen != NULL) {
        const uint64_t all[] = { seen->device, seen->inode, (uint64_t)seen->modified, (uint64_t)seen->touched };
        *number = coffer__fnv(*number, all, sizeof all);
        return true;
    }
    if (!coffer__source_identity(source, text)) {
        return false;
    }
    *number = coffer__fnv(*number, text, strlen(text));
    return true;
}

/* Which versions of which files these are, as a number; false: that is not known of all. Processes that come to
   different numbers do not find each other; that is what keeps one that has opened a newer version of the files out
   of the group. */
static bool group_identity(const coffer *model, uint64_t *number)
{
    *number = COFFER__FNV_START;
    for (size_t i = 0; i < model->shard_count; i++) {
        if (!group_add(number, &model->shards[i].source)) {
            return false;
        }
    }
    return true;
}

/* Goes over the chunks that the plan has in the order of the files. What the load makes of it may differ, where budgets
   hold it up; then it reads by itself what it comes back for. The same code as the load's own makes these chunks, so
   nothing else can differ. */
static coffer_status group_wants(const coffer_load *load, uint32_t *wanted, const uint32_t *first, coffer_error *err)
{
    coffer__schedule schedule;
    coffer__chunk chunk = { .shard = 0 };
    bool over = false;
    coffer_status status = coffer__schedule_begin(&schedule, load->plan, COFFER_ORDER_FILE, &load->allocator, err);
    while (status == COFFER_OK && !over) {
        status = coffer__schedule_next(&schedule, &chunk, &over, err);
        if (status == COFFER_OK && !over) {
            wanted[coffer__shared_cell(&chunk, first)] |= coffer__shared_blocks(&chunk);
        }
    }
    coffer__chunk_end(&chunk, &load->allocator);
    coffer__schedule_end(&schedule);
    return status;
}

/* What all ranks may have in flight together. A slot is free again when all have taken from it, so the more ranks
   run at once, the more slots keep them from waiting for each other. Beyond that they cost: each rank has to map every
   page of them, which takes longer than copying from it, and bytes are gone from the processor's caches before the last
   rank takes them. So there is a staging buffer for every two processors, and one for each rank at most. */
static uint64_t group_memory(const coffer_staging_options *how)
{
    const uint64_t most = COFFER__GROUP_MAX_SLOTS * COFFER__CELL;
    const uint32_t at_once = coffer__os_processors() / 2;
    const uint32_t buffers = at_once == 0 ? 1 : at_once < how->ranks ? at_once : how->ranks;
    return how->memory < most / buffers ? how->memory * buffers : most;
}

/* A model that a model cache server has is in memory already, and the protocol needs all ranks to take cells upwards,
   which the order of a plan does not promise. Both lists serve only while the group is entered. */
static coffer_status group_enter(coffer_load *load, const coffer__watch *watch, coffer_error *err)
{
    const coffer *model = load->plan->model;
    const coffer_staging_options *how = &load->staging->options;
    coffer__group_options options = { .allocator = &load->allocator,
                                      .group = how->group,
                                      .ranks = how->ranks,
                                      .rank = how->rank,
                                      .enter_ms = load->staging->patience_ms,
                                      .stall_ms = load->staging->patience_ms };
    options.cells = coffer__shared_cells(model, NULL);
    if (how->ranks < 2 || load->served != NULL || load->options.order != COFFER_ORDER_FILE || options.cells == 0 ||
        !group_identity(model, &options.identity)) {
        return COFFER_OK;
    }
    options.memory = group_memory(how);
    uint32_t *first = coffer__alloc_array(&load->allocator, model->shard_count + 1, sizeof *first, err);
    uint32_t *wanted = coffer__alloc_array(&load->allocator, options.cells, sizeof *wanted, err);
    coffer_status status = first == NULL || wanted == NULL ? COFFER_ERR_MEMORY : COFFER_OK;
    if (status == COFFER_OK) {
        (void)coffer__shared_cells(model, first);
        status = group_wants(load, wanted, first, err);
    }
    if (status == COFFER_OK) {
        options.wanted = wanted;
        status = coffer__group_enter(&load->chunk_sources.group, &options, watch, err);
    }
    coffer__free_array(&load->allocator, wanted, options.cells, sizeof *wanted);
    coffer__free_array(&load->allocator, first, model->shard_count + 1, sizeof *first);
    return status;
}

/* A worker that comes after all others have ended finds that the group was left, and reads by itself. The lock is
   not held while the group is entered, since that may wait for other processes; the state ENTERS keeps the other
   workers here meanwhile. `members` is counted for each that gets here, whatever came of entering, because each of
   them leaves. */
coffer_status coffer__load_enter_group(coffer_load *load, const coffer__watch *watch, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    coffer__os_mutex_lock(&load->mutex);
    while (load->group == COFFER__LOAD_ENTERS) {
        (void)coffer__os_condition_wait(&load->changed, &load->mutex, COFFER__WATCH_MS);
    }
    if (load->group == COFFER__LOAD_OUTSIDE) {
        load->group = COFFER__LOAD_ENTERS;
        coffer__os_mutex_unlock(&load->mutex);
        status = group_enter(load, watch, err);
        if (load->staging->options.ranks > 1 && load->chunk_sources.group == NULL) {
            coffer__file_readers_expect_others(load->file_readers);
        }
        coffer__os_mutex_lock(&load->mutex);
        load->group = COFFER__LOAD_INSIDE;
        coffer__os_condition_wake_all(&load->changed);
    }
    load->members++;
    coffer__os_mutex_unlock(&load->mutex);
    return status;
}

/* The failure is told before the count goes down, as the last member takes the memory away. One that another rank
   has told of is not passed on, nor is a cancellation. The pins go before the memory that they are for. */
void coffer__load_leave_group(coffer_load *load, coffer_status status, const coffer_error *error)
{
    coffer__os_mutex_lock(&load->mutex);
    coffer__group *group = load->chunk_sources.group;
    if (group != NULL && status != COFFER_OK && status != COFFER_ERR_CANCELLED && status != COFFER_ERR_PEER) {
        coffer__group_fail(group, error);
    }
    load->members--;
    if (load->members == 0) {
        load->chunk_sources.group = NULL;
        coffer__pins_end(&load->pins, &load->allocator);
        coffer__group_leave(group);
    }
    coffer__os_mutex_unlock(&load->mutex);
}

/* `group` is read without the lock: it was set before this worker came in, and stays as long as a member is left,
   which this worker is. */
coffer_status coffer__load_pin_group(coffer_load *load, coffer_device *device, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    const coffer__group *group = load->chunk_sources.group;
    if (group != NULL) {
        coffer__os_mutex_lock(&load->mutex);
        status = coffer__pins_add(&load->pins, device, group->map.base, group->map.size, &load->allocator, err);
        coffer__os_mutex_unlock(&load->mutex);
    }
    return status;
}

/* Each chunk source owns the one below it, and closes it when it cannot be made itself; so there is one chunk source to
   close here, or none. */
coffer_status coffer__load_chunk_source(coffer__chunk_source **chunk_source, coffer_load *load, size_t worker,
                                        const coffer__watch *watch, coffer_error *err)
{
    coffer__chunk_source *alone = NULL;
    coffer_status status = coffer__chunk_source_private(&alone, &load->chunk_sources, worker, watch, err);
    *chunk_source = alone;
    if (status == COFFER_OK && load->chunk_sources.group != NULL) {
        status = coffer__chunk_source_shared(chunk_source, &load->chunk_sources, alone, watch, err);
    }
    *chunk_source = status == COFFER_OK ? *chunk_source : NULL;
    return status;
}
