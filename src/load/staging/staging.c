/* SPDX-License-Identifier: Apache-2.0 */
#include "staging.h"

#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "options.h"
#include "text.h"

#include <string.h>

#define WINDOW_MEMORY ((uint64_t)64 << 20)
#define WINDOW_PATIENCE_MS 10000

/* An engine is a number of the caller's, and may be one of a later version. */
static coffer_status window_options(coffer_window_options *known, const coffer_window_options *given, coffer_error *err)
{
    const coffer_status status = coffer__options_copy(known, sizeof *known, given, err);
    if (status != COFFER_OK) {
        return status;
    }
    if ((unsigned)known->engine > COFFER_ENGINE_MAPPED) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "no engine has the number %u", (uint64_t)known->engine);
    }
    if (known->ranks > 1 && known->rank >= known->ranks) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "rank %u of %u does not exist", (uint64_t)known->rank,
                            (uint64_t)known->ranks);
    }
    known->memory = known->memory == 0 ? WINDOW_MEMORY : known->memory;
    return COFFER_OK;
}

/* The name of the group is the window's own, since the caller's may be gone when the first load begins. The locks
   are made last, so a failure leaves none of them, and window_release need not know of them. */
static coffer_status window_set_up(coffer_window *window, coffer_error *err)
{
    const char *group = window->options.group;
    if (group != NULL) {
        window->group_size = coffer__text_len(group) + 1;
        window->group = coffer__alloc(&window->allocator, window->group_size);
        if (window->group == NULL) {
            return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a window");
        }
        memcpy(window->group, group, window->group_size);
    }
    window->options.group = window->group;
    window->options.allocator = &window->allocator;
    int os_error = coffer__os_mutex_init(&window->mutex);
    if (os_error == 0) {
        os_error = coffer__os_condition_init(&window->changed);
        if (os_error != 0) {
            coffer__os_mutex_close(&window->mutex);
        }
    }
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "make a mutex", NULL, os_error);
}

/* The slots go, with what devices know of them. Devices forget the memory first: a registration of memory that is
   gone would stay in the driver. */
static void window_free_slots(coffer_window *window)
{
    coffer__pins_release(&window->pins, &window->allocator);
    if (window->slots != NULL) {
        coffer__os_pages_free(window->slots, window->slot_count * (size_t)COFFER__CELL);
    }
    window->slots = NULL;
    window->slot_count = 0;
}

static void window_release(coffer_window *window)
{
    const coffer_allocator allocator = window->allocator;
    window_free_slots(window);
    coffer__free(&allocator, window->group, window->group_size);
    coffer__free(&allocator, window, sizeof *window);
}

/* No memory for slots is taken here: a window that no load uses costs nothing. */
coffer_status coffer_window_new(coffer_window **window, const coffer_window_options *options, coffer_error *err)
{
    coffer_window_options known;
    if (window == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_window_new was called with a NULL it does not allow");
    }
    *window = NULL;
    coffer_status status = window_options(&known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer_allocator *allocator = known.allocator == NULL ? coffer_libc_allocator() : known.allocator;
    coffer_window *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a window");
    }
    made->allocator = *allocator;
    made->options = known;
    made->patience_ms = WINDOW_PATIENCE_MS;
    made->node = -1;
    status = window_set_up(made, err);
    if (status != COFFER_OK) {
        window_release(made);
        return status;
    }
    *window = made;
    return COFFER_OK;
}

void coffer_window_free(coffer_window *window)
{
    if (window != NULL) {
        coffer__os_condition_close(&window->changed);
        coffer__os_mutex_close(&window->mutex);
        window_release(window);
    }
}

/* One slot is the least with which anything can be read, however little memory was asked for. */
size_t coffer__window_most(const coffer_window *window)
{
    const uint64_t most = window->options.memory / COFFER__CELL;
    return most == 0 ? 1 : most < SIZE_MAX / COFFER__CELL ? (size_t)most : SIZE_MAX / (size_t)COFFER__CELL;
}

/* A window serves one load after the other, and mostly the same devices, so the last word counts. */
void coffer__window_near(coffer_window *window, const coffer_device *device)
{
    if (device != NULL && device->node >= 0) {
        coffer__os_mutex_lock(&window->mutex);
        window->node = device->node;
        coffer__os_mutex_unlock(&window->mutex);
    }
}

/* Pages that nothing was read into cost nothing, so a window that grows is made again rather than in pieces. Nobody
   uses its slots then: the first worker of a load comes before the others. */
static coffer_status window_make_slots(coffer_window *window, size_t count, coffer_error *err)
{
    if (window->slot_count >= count) {
        return COFFER_OK;
    }
    window_free_slots(window);
    window->slots = coffer__os_pages_new(count * (size_t)COFFER__CELL);
    if (window->slots == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a window of %z", (uint64_t)count * COFFER__CELL);
    }
    window->slot_count = count;
    /* A copy to a device takes a detour over the bus between two processors when its memory is at the other one.
       Without a device nothing is asked for: pages then come from next to the thread that reads into them first. */
    if (window->node >= 0) {
        (void)coffer__os_pages_near(window->slots, count * (size_t)COFFER__CELL, window->node);
    }
    return COFFER_OK;
}

/* The watch is asked without the mutex, as it may call the user, who may do anything, free another load of this
   window for example. The slots are made by the first worker, while the window is held by nobody, and those that
   follow find them large enough. */
coffer_status coffer__window_enter(coffer_window *window, const void *load, size_t wanted, const coffer__watch *watch,
                                   coffer_error *err)
{
    coffer_status status = COFFER_OK;
    coffer__os_mutex_lock(&window->mutex);
    while (status == COFFER_OK && window->load != NULL && window->load != load) {
        (void)coffer__os_condition_wait(&window->changed, &window->mutex, COFFER__WATCH_MS);
        coffer__os_mutex_unlock(&window->mutex);
        if (watch->stop(watch->ctx)) {
            status = coffer__fail(err, COFFER_ERR_CANCELLED, "the load was cancelled");
        }
        coffer__os_mutex_lock(&window->mutex);
    }
    if (status == COFFER_OK) {
        status = window_make_slots(window, wanted, err);
    }
    if (status == COFFER_OK) {
        window->load = load;
        window->users++;
    }
    coffer__os_mutex_unlock(&window->mutex);
    return status;
}

/* It counts as a user, so the window stays this load's while the worker enters it and leaves it again. */
bool coffer__window_claim(coffer_window *window, const void *load)
{
    coffer__os_mutex_lock(&window->mutex);
    const bool free = window->load == NULL;
    if (free) {
        window->load = load;
        window->users++;
    }
    coffer__os_mutex_unlock(&window->mutex);
    return free;
}

/* All who wait are woken: the first of them takes the window, and its load's other workers may be among the rest. */
void coffer__window_leave(coffer_window *window)
{
    coffer__os_mutex_lock(&window->mutex);
    window->users--;
    if (window->users == 0) {
        window->load = NULL;
        coffer__os_condition_wake_all(&window->changed);
    }
    coffer__os_mutex_unlock(&window->mutex);
}

/* Several workers come here for the same device at once; the first registers, and the others wait for it under the
   mutex, since they must not copy before. */
coffer_status coffer__window_pin(coffer_window *window, coffer_device *device, coffer_error *err)
{
    coffer__os_mutex_lock(&window->mutex);
    const coffer_status status = coffer__pins_add(&window->pins, device, window->slots,
                                                  window->slot_count * (size_t)COFFER__CELL, &window->allocator, err);
    coffer__os_mutex_unlock(&window->mutex);
    return status;
}
