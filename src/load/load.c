/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a load, ending it, and what it says of itself. */
#include "alloc.h"
#include "destinations.h"
#include "errno_status.h"
#include "error.h"
#include "libc_allocator.h"
#include "load_digest.h"
#include "loading.h"
#include "model.h"
#include "options.h"
#include "served.h"

#include <string.h>

#define LOAD_AT_ONCE                                                                                                   \
    ((uint64_t)2 << 20) /* what has fewer bytes is read by the caller's thread: starting one takes longer */

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* Either all three are there afterwards or none, since load_new frees the load without asking which. */
static coffer_status load_locks(coffer_load *load, coffer_error *err)
{
    int os_error = coffer__os_mutex_init(&load->mutex);
    if (os_error != 0) {
        return coffer__errno_status(err, "make a mutex", NULL, os_error);
    }
    os_error = coffer__os_condition_init(&load->changed);
    if (os_error == 0) {
        os_error = coffer__os_condition_init(&load->capacity);
        if (os_error == 0) {
            return COFFER_OK;
        }
        coffer__os_condition_close(&load->changed);
    }
    coffer__os_mutex_close(&load->mutex);
    return coffer__errno_status(err, "make a mutex", NULL, os_error);
}

/* A load with its locks and its allocator, and nothing else. The load's own allocator takes turns, as its workers
   allocate at the same time and the caller's need not allow that. The load itself comes from the plan's, since it
   has to be freed after the one that takes turns has ended. Every field that coffer_load_free looks at is zero or
   set from here on. */
static coffer_status load_new(coffer_load **load, const coffer_plan *plan, const coffer_load_options *options,
                              coffer_error *err)
{
    coffer_load *made = coffer__alloc_zeroed(&plan->allocator, sizeof *made);
    if (made == NULL) {
        (void)coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a load");
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = load_locks(made, err);
    if (status == COFFER_OK && !coffer__locked_allocator_open(&made->turns, &plan->allocator, &made->allocator)) {
        status = coffer__fail(err, COFFER_ERR_IO, "the system cannot make a mutex");
        coffer__os_condition_close(&made->capacity);
        coffer__os_condition_close(&made->changed);
        coffer__os_mutex_close(&made->mutex);
    }
    if (status != COFFER_OK) {
        coffer__free(&plan->allocator, made, sizeof *made);
        return status;
    }
    made->plan = plan;
    made->options = *options;
    made->first_ready = COFFER__NO_ITEM;
    made->last_ready = COFFER__NO_ITEM;
    made->open = plan->item_count;
    made->not_taken = plan->item_count;
    made->began = coffer__os_nanoseconds();
    made->stats.wanted = plan->size;
    *load = made;
    return COFFER_OK;
}

/* What has no bytes is ready at once. Its address is one that its device would give. No worker exists yet, so no lock
   is needed. They have no copy ops, so the schedule leaves them out, and nothing else would ever make them ready. */
static coffer_status load_empty_items(coffer_load *load, coffer_error *err)
{
    for (uint32_t i = 0; i < load->plan->item_count; i++) {
        coffer__load_state *state = &load->states[i];
        if (load->plan->items[i].size > 0) {
            continue;
        }
        if (!load->plan->items[i].given) {
            const coffer_status status =
                coffer__store_row(&load->spaces[state->space].store, load->plan, &i, 1, NULL, &state->allocation, err);
            if (status != COFFER_OK) {
                return status;
            }
        }
        coffer__load_ready(load, i);
    }
    return COFFER_OK;
}

/* Everything that can be refused before a byte is read. The destinations come first: that they are apart is what lets
   any number of workers write without a lock. Spaces come before digests, as how an item is verified depends on nothing
   of its memory, and both come before empty items, which need their space's store. */
static coffer_status load_prepare(coffer_load *load, coffer_error *err)
{
    const coffer_plan *plan = load->plan;
    coffer_status status = coffer__destinations_apart(plan, &load->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    load->states = coffer__alloc_array(&load->allocator, plan->item_count, sizeof *load->states, err);
    if (load->states == NULL) {
        return COFFER_ERR_MEMORY;
    }
    status = coffer__load_spaces(load, err);
    if (status == COFFER_OK) {
        status = coffer__load_digests_begin(load, err);
    }
    if (status == COFFER_OK) {
        status = coffer__schedule_begin(&load->schedule, plan, load->options.order, &load->allocator, err);
    }
    if (status == COFFER_OK) {
        load->schedule.admit = coffer__load_admit;
        load->schedule.ctx = load;
        status = load_empty_items(load, err);
    }
    return status;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Whether no budget can make it wait for its caller. All of the plan is compared with each budget, which refuses
   some loads that would fit; they are read by threads then, which is right in any case. */
static bool load_fits_budgets(const coffer_load *load)
{
    for (size_t i = 0; i < load->space_count; i++) {
        if (load->plan->size > load->spaces[i].budget) {
            return false;
        }
    }
    return true;
}

/* Whether all of it should be read before coffer_load_start returns: little, from near, and by code of the library
   alone. A source of the caller's own is not called by coffer_load_start, which could be a surprise, and one on the
   network would make it wait. With a group it would wait for other processes, and a progress callback is
   called by a thread of the load's own. */
static bool load_is_small(const coffer_load *load)
{
    for (size_t i = 0; i < load->plan->model->shard_count; i++) {
        const coffer__byte_source *source = &load->plan->model->shards[i].source;
        if (source->is.far || source->is.foreign) {
            return false;
        }
    }
    return load->staging->options.ranks < 2 && load->plan->size < LOAD_AT_ONCE && load->options.progress == NULL;
}

/* Waits for the threads, whether there are any or not. The threads end first. Chunks of the workers, then the file
   readers, then a model cache server's memory: each was in use by what goes before it. The staging buffer is the last,
   as the slots in it are, and goes only if this load made it. */
static void load_stop_work(coffer_load *load)
{
    if (load->in_background) {
        (void)coffer__thread_pool_finish(&load->thread_pool);
        load->in_background = false;
    }
    if (load->workers != NULL) {
        coffer__load_free_workers(load);
    }
    coffer__file_readers_free(load->file_readers);
    load->file_readers = NULL;
    coffer__served_close(load->served);
    load->served = NULL;
    if (load->own_staging) {
        coffer_staging_free(load->staging);
        load->own_staging = false;
    }
}

/* The chunk sources are described even if the file readers fail, and what is missing in them is NULL: coffer_load_free
   takes a load in any of these states. Who names an engine wants the files to be read by it, so that no model cache
   server is asked. */
static coffer_status load_set_staging(coffer_load *load, coffer_staging *staging, coffer_error *err)
{
    coffer_staging_options options = COFFER_STAGING_OPTIONS_INIT;
    options.allocator = &load->allocator;
    if (staging == NULL) {
        const coffer_status status = coffer_staging_new(&staging, &options, err);
        if (status != COFFER_OK) {
            return status;
        }
        load->own_staging = true;
    }
    load->staging = staging;
    for (size_t i = 0; i < load->space_count; i++) {
        coffer__staging_near(staging, load->spaces[i].store.device);
    }
    coffer_status status = COFFER_OK;
    if (staging->options.engine == COFFER_ENGINE_AUTO) {
        status = coffer__served_find(&load->served, load->plan->model, &load->allocator, err);
    }
    const coffer__file_readers_options file_readers = { .allocator = &load->allocator,
                                                        .engine = staging->options.engine,
                                                        .uncached = load->options.uncached,
                                                        .unverified = load->options.unverified,
                                                        .group = staging->options.ranks > 1,
                                                        .served = load->served };
    if (status == COFFER_OK) {
        status = coffer__file_readers_new(&load->file_readers, load->plan, &file_readers, err);
    }
    load->chunk_sources = (coffer__chunk_sources){ .model = load->plan->model,
                                                   .staging = staging,
                                                   .allocator = &load->allocator,
                                                   .file_readers = load->file_readers };
    return status;
}

/* Does all of it by the caller's thread. Not where that would wait for what the caller is to do: take items of this
   load, or of another that has the staging buffer. False: nothing was done. The staging buffer is claimed without
   waiting, before the worker enters it: the worker then finds that it is its own load's already. The workers are ended
   right after, so a load that is done holds no descriptors and no staging buffer while its items are taken. A failure
   after all items were ready is none of the caller's concern. */
static bool load_run_here(coffer_load *load)
{
    if (!load_fits_budgets(load) || !coffer__staging_claim(load->staging, load)) {
        return false;
    }
    load->slots = load->worker_count;
    load->stats.threads = 1;
    const coffer_status status =
        coffer__thread_pool_run(&load->thread_pool, load->workers, 1, coffer__load_worker_size());
    coffer__staging_leave(load->staging);
    load_stop_work(load);
    if (status != COFFER_OK && load->open > 0) {
        coffer__load_fail(load, status, &load->thread_pool_error);
    }
    return true;
}

/* Where no thread can be started the caller's does the work, if that is possible without waiting for itself; a
   failure to start threads is reported only where it is not. */
static coffer_status load_run(coffer_load *load, coffer_staging *staging, coffer_error *err)
{
    coffer_status status = load_set_staging(load, staging, err);
    if (status == COFFER_OK) {
        status = coffer__load_make_workers(load, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    load->thread_pool = (coffer__thread_pool){ .work = coffer__load_work,
                                               .progress = load->options.progress,
                                               .progress_ctx = load->options.progress_ctx,
                                               .total = load->plan->size,
                                               .err = &load->thread_pool_error };
    if (load_is_small(load) && load_run_here(load)) {
        return COFFER_OK;
    }
    load->slots = coffer__staging_most(load->staging);
    load->stats.threads = (uint32_t)load->worker_count;
    status =
        coffer__thread_pool_begin(&load->thread_pool, load->workers, load->worker_count, coffer__load_worker_size());
    load->in_background = status == COFFER_OK;
    if (status != COFFER_OK && load_run_here(load)) {
        return COFFER_OK; /* the system gave no thread */
    }
    if (status != COFFER_OK && err != NULL) {
        *err = load->thread_pool_error;
    }
    return status;
}

/* A plan of nothing but empty items is done before anything is opened, so it needs no staging buffer, no threads and no
   file. After any failure the load is freed by the same function as one that ran. The caller's staging buffer may be in
   use by another load just then; the workers wait for it, and this function does not. */
coffer_status coffer_load_start(coffer_load **load, const coffer_plan *plan, coffer_staging *staging,
                                const coffer_load_options *options, coffer_error *err)
{
    coffer_load_options known;
    if (load == NULL || plan == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_load_start was called with a NULL it does not allow");
    }
    *load = NULL;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    if ((unsigned)known.order > COFFER_ORDER_PLAN) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "no order has the number %u", (uint64_t)known.order);
    }
    coffer_load *made = NULL;
    status = load_new(&made, plan, &known, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = load_prepare(made, err);
    if (status == COFFER_OK && made->open > 0) {
        status = load_run(made, staging, err);
    }
    if (status != COFFER_OK) {
        coffer_load_free(made);
        return status;
    }
    *load = made;
    return COFFER_OK;
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

/* A cancellation is a failure like any other, so there is one way by which threads are stopped and callers are
   woken. It comes too late where the load has failed already: the first failure stays. */
void coffer_load_cancel(coffer_load *load)
{
    coffer_error error;
    if (load != NULL) {
        const coffer_status status = coffer__fail(&error, COFFER_ERR_CANCELLED, "the load was cancelled");
        coffer__load_fail(load, status, &error);
    }
}

/* Memory that was not handed out. Items that were never admitted have none. A load may end at any moment, so an
   item may have memory that is being filled, or is ready, or nothing yet; the threads have ended before this, so
   nobody writes there any more. What was taken belongs to the caller. */
static void load_release_items(coffer_load *load)
{
    for (size_t i = 0; load->states != NULL && i < load->plan->item_count; i++) {
        if (load->states[i].phase != COFFER__LOAD_TAKEN) {
            coffer_memory_free(load->states[i].allocation.memory);
        }
    }
    for (size_t i = 0; i < load->space_count; i++) {
        coffer__store_release(&load->spaces[i].store);
    }
}

/* The order is that of use: the threads first, then what they filled, then what told them what to do, and the locks
   at the end. It begins with a cancellation because the workers may wait for a budget, or for a device, and look
   only at that. */
void coffer_load_free(coffer_load *load)
{
    if (load == NULL) {
        return;
    }
    atomic_store(&load->stopped, true);
    coffer_load_cancel(load);
    load_stop_work(load);
    load_release_items(load);
    coffer__load_digests_free(load);
    coffer__schedule_free(&load->schedule);
    coffer__free_array(&load->allocator, load->states, load->plan->item_count, sizeof *load->states);
    coffer__locked_allocator_close(&load->turns);
    coffer__os_condition_close(&load->capacity);
    coffer__os_condition_close(&load->changed);
    coffer__os_mutex_close(&load->mutex);
    coffer__free(&load->plan->allocator, load, sizeof *load);
}

/* ---- what it says of itself -------------------------------------------------------------------------------------- */

/* The numbers are copied under the lock, so they belong to one moment. The caller's struct may be of an older
   version, and shorter; its size was read before that is overwritten. */
void coffer_load_stats_of(coffer_load *load, coffer_load_stats *stats)
{
    if (load == NULL || stats == NULL) {
        return;
    }
    const size_t size = stats->struct_size;
    coffer__os_mutex_lock(&load->mutex);
    coffer_load_stats now = load->stats;
    if (now.nanoseconds == 0 && load->open > 0) {
        now.nanoseconds = coffer__os_nanoseconds() - load->began;
    }
    coffer__os_mutex_unlock(&load->mutex);
    now.struct_size = size < sizeof now ? size : sizeof now;
    memcpy(stats, &now, now.struct_size);
}
