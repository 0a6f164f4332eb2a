/* SPDX-License-Identifier: Apache-2.0 */
/* Items that are complete, and handing them out. */
#include "error.h"
#include "loading.h"
#include "options.h"

/* Items become ready at most once, so each is in the list at most once, and the links lie in the states themselves:
   nothing is allocated, and nothing can fail here. */
void coffer__load_ready(coffer_load *load, uint32_t item)
{
    coffer__load_state *state = &load->states[item];
    state->phase = COFFER__LOAD_READY;
    if (load->last_ready == COFFER__NO_ITEM) {
        load->first_ready = item;
    } else {
        load->states[load->last_ready].next = item;
    }
    load->last_ready = item;
    load->open--;
    if (load->stats.first == 0) {
        load->stats.first = coffer__os_nanoseconds() - load->began;
    }
    if (load->open == 0) {
        load->stats.nanoseconds = coffer__os_nanoseconds() - load->began;
    }
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Until when a caller waits: milliseconds of the clock. A point in time and not a duration, because a caller may be
   woken many times before its item is ready. The sum does not wrap for those who wait for ever. */
static uint64_t ready_until(uint64_t milliseconds)
{
    const uint64_t now = coffer__os_milliseconds();
    return milliseconds > UINT64_MAX - now ? UINT64_MAX : now + milliseconds;
}

/* Waits for something to change. COFFER_NEED_MORE when the time is over. The lock is released while it waits. A
   wait of more than a minute is several: everything is looked at again after each, which costs nothing. */
static coffer_status ready_wait(coffer_load *load, uint64_t until)
{
    const uint64_t now = coffer__os_milliseconds();
    const uint64_t left = until > now ? until - now : 0;
    if (left == 0) {
        return COFFER_NEED_MORE;
    }
    (void)coffer__os_condition_wait(&load->changed, &load->mutex, left < 60000 ? left : 60000);
    return COFFER_OK;
}

/* The error is copied under the lock, so every caller gets all of the first failure. */
static coffer_status ready_failed(const coffer_load *load, coffer_error *err)
{
    if (err != NULL) {
        *err = load->error;
    }
    return load->status;
}

/* Nothing is in progress, and what comes next waits for a budget: only the caller can make space. Without this test
   the caller would wait for workers that wait for the caller. */
static bool ready_is_stuck(const coffer_load *load)
{
    return load->starved && load->under_way == 0;
}

static coffer_status ready_stuck(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_BUDGET,
                        "the budget is used up by items that were not taken: take them, or give the load a larger one");
}

/* ---- handing out ------------------------------------------------------------------------------------------------- */

/* The memory is the caller's now, and no longer counts. The budget has space again, so the schedule is asked again, by
   workers that are woken here. What has a destination of the caller's never counted. The mutex is held, so no item is
   handed out twice. */
static void ready_hand_out(coffer_load *load, uint32_t item, coffer_loaded *loaded)
{
    coffer__load_state *state = &load->states[item];
    const coffer__load_item *of = &load->plan->items[item];
    *loaded = (coffer_loaded){ .item = item,
                               .tensor = of->tensor,
                               .device = of->device,
                               .address = state->allocation.address,
                               .size = of->size,
                               .memory = state->allocation.memory,
                               .verified = state->verified };
    state->phase = COFFER__LOAD_TAKEN;
    load->not_taken--;
    if (!of->given) {
        load->spaces[state->space].used -= of->size;
        load->starved = false;
        coffer__os_condition_wake_all(&load->capacity);
    }
}

/* The first that is ready and was not taken by its number. An item that was taken by its number stays in the list
   until the list comes to it, which makes taking it one step, however long the list is. An emptied list forgets its
   end, too, or the next item would be linked to one that is no longer reached. */
static uint32_t ready_first(coffer_load *load)
{
    while (load->first_ready != COFFER__NO_ITEM && load->states[load->first_ready].phase == COFFER__LOAD_TAKEN) {
        load->first_ready = load->states[load->first_ready].next;
    }
    if (load->first_ready == COFFER__NO_ITEM) {
        load->last_ready = COFFER__NO_ITEM;
    }
    return load->first_ready;
}

/* A failure comes first, even if items are ready: what is returned then does not depend on which thread was faster.
   That the budget is used up needs no test here, since the items that use it are ready, and are handed out by this. */
static coffer_status ready_next(coffer_load *load, uint64_t until, coffer_loaded *loaded, coffer_error *err)
{
    for (;;) {
        if (load->status != COFFER_OK) {
            return ready_failed(load, err);
        }
        const uint32_t item = ready_first(load);
        if (item != COFFER__NO_ITEM) {
            ready_hand_out(load, item, loaded);
            return COFFER_OK;
        }
        if (load->not_taken == 0) {
            *loaded = (coffer_loaded){ .item = SIZE_MAX };
            return COFFER_OK;
        }
        if (ready_wait(load, until) != COFFER_OK) {
            return COFFER_NEED_MORE;
        }
    }
}

coffer_status coffer_load_next(coffer_load *load, uint64_t milliseconds, coffer_loaded *loaded, coffer_error *err)
{
    if (load == NULL || loaded == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_load_next was called with a NULL it does not allow");
    }
    const uint64_t until = ready_until(milliseconds);
    coffer__os_mutex_lock(&load->mutex);
    const coffer_status status = ready_next(load, until, loaded, err);
    coffer__os_mutex_unlock(&load->mutex);
    return status;
}

/* Wanting an item before waiting moves it to the front. The states are looked at again after each wait: another
   thread may have taken the item meanwhile. */
static coffer_status ready_take(coffer_load *load, uint32_t item, uint64_t until, coffer_loaded *loaded,
                                coffer_error *err)
{
    const coffer__load_state *state = &load->states[item];
    if (state->phase == COFFER__LOAD_WAITING) {
        coffer__schedule_want(&load->schedule, item);
        load->starved = false; /* the item may fit where the next one did not */
        coffer__os_condition_wake_all(&load->capacity);
    }
    for (;;) {
        if (load->status != COFFER_OK) {
            return ready_failed(load, err);
        }
        if (state->phase == COFFER__LOAD_TAKEN) {
            const coffer_tensor *tensor = load->plan->items[item].tensor;
            coffer__fail(err, COFFER_ERR_TAKEN, "item %u was handed out before", (uint64_t)item);
            return coffer__fail_tensor(err, COFFER_ERR_TAKEN, tensor->name, tensor->name_len);
        }
        if (state->phase == COFFER__LOAD_READY) {
            ready_hand_out(load, item, loaded);
            return COFFER_OK;
        }
        if (ready_is_stuck(load)) {
            return ready_stuck(err);
        }
        if (ready_wait(load, until) != COFFER_OK) {
            return COFFER_NEED_MORE;
        }
    }
}

coffer_status coffer_load_take(coffer_load *load, size_t item, uint64_t milliseconds, coffer_loaded *loaded,
                               coffer_error *err)
{
    if (load == NULL || loaded == NULL || item >= load->plan->item_count) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "coffer_load_take was called for an item that the plan does not "
                            "have, or with a NULL that it does not allow");
    }
    const uint64_t until = ready_until(milliseconds);
    coffer__os_mutex_lock(&load->mutex);
    const coffer_status status = ready_take(load, (uint32_t)item, until, loaded, err);
    coffer__os_mutex_unlock(&load->mutex);
    return status;
}

/* Waiting takes nothing, so where the items do not fit into their budgets together this cannot end, and says so. */
static coffer_status ready_all(coffer_load *load, uint64_t until, coffer_error *err)
{
    for (;;) {
        if (load->status != COFFER_OK) {
            return ready_failed(load, err);
        }
        if (load->open == 0) {
            return COFFER_OK;
        }
        if (ready_is_stuck(load)) {
            return ready_stuck(err);
        }
        if (ready_wait(load, until) != COFFER_OK) {
            return COFFER_NEED_MORE;
        }
    }
}

coffer_status coffer_load_wait(coffer_load *load, uint64_t milliseconds, coffer_error *err)
{
    if (load == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_load_wait was called without a load");
    }
    const uint64_t until = ready_until(milliseconds);
    coffer__os_mutex_lock(&load->mutex);
    const coffer_status status = ready_all(load, until, err);
    coffer__os_mutex_unlock(&load->mutex);
    return status;
}
