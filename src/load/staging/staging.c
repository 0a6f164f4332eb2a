/* SPDX-License-Identifier: Apache-2.0 */
#include "staging.h"

#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "options.h"
#include "text.h"

#include <string.h>

#define STAGING_MEMORY ((uint64_t)64 << 20)
#define STAGING_PATIENCE_MS 10000

/* An engine is a number of the caller's, and may be one of a later version. */
static coffer_status staging_options(coffer_staging_options *known, const coffer_staging_options *given,
                                     coffer_error *err)
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
    known->memory = known->memory == 0 ? STAGING_MEMORY : known->memory;
    return COFFER_OK;
}

/* The name of the group is the staging buffer's own, since the caller's may be gone when the first load begins. The
   locks are made last, so a failure leaves none of them, and staging_release need not know of them. */
static coffer_status staging_set_up(coffer_staging *staging, coffer_error *err)
{
    const char *group = staging->options.group;
    if (group != NULL) {
        staging->group_size = coffer__text_len(group) + 1;
        staging->group = coffer__alloc(&staging->allocator, staging->group_size);
        if (staging->group == NULL) {
            return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a staging buffer");
        }
        memcpy(staging->group, group, staging->group_size);
    }
    staging->options.group = staging->group;
    staging->options.allocator = &staging->allocator;
    int os_error = coffer__os_mutex_init(&staging->mutex);
    if (os_error == 0) {
        os_error = coffer__os_condition_init(&staging->changed);
        if (os_error != 0) {
            coffer__os_mutex_close(&staging->mutex);
        }
    }
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "make a mutex", NULL, os_error);
}

/* The slots go, with what devices know of them. Devices forget the memory first: a registration of memory that is
   gone would stay in the driver. */
static void staging_free_slots(coffer_staging *staging)
{
    coffer__pins_release(&staging->pins, &staging->allocator);
    if (staging->slots != NULL) {
        coffer__os_pages_free(staging->slots, staging->slot_count * (size_t)COFFER__CELL);
    }
    staging->slots = NULL;
    staging->slot_count = 0;
}

static void staging_release(coffer_staging *staging)
{
    const coffer_allocator allocator = staging->allocator;
    staging_free_slots(staging);
    coffer__free(&allocator, staging->group, staging->group_size);
    coffer__free(&allocator, staging, sizeof *staging);
}

/* No memory for slots is taken here: a staging buffer that no load uses costs nothing. */
coffer_status coffer_staging_new(coffer_staging **staging, const coffer_staging_options *options, coffer_error *err)
{
    coffer_staging_options known;
    if (staging == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_staging_new was called with a NULL it does not allow");
    }
    *staging = NULL;
    coffer_status status = staging_options(&known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer_allocator *allocator = known.allocator == NULL ? coffer_libc_allocator() : known.allocator;
    coffer_staging *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a staging buffer");
    }
    made->allocator = *allocator;
    made->options = known;
    made->patience_ms = STAGING_PATIENCE_MS;
    made->node = -1;
    status = staging_set_up(made, err);
    if (status != COFFER_OK) {
        staging_release(made);
        return status;
    }
    *staging = made;
    return COFFER_OK;
}

void coffer_staging_free(coffer_staging *staging)
{
    if (staging != NULL) {
        coffer__os_condition_close(&staging->changed);
        coffer__os_mutex_close(&staging->mutex);
        staging_release(staging);
    }
}

/* One slot is the least with which anything can be read, however little memory was asked for. */
size_t coffer__staging_most(const coffer_staging *staging)
{
    const uint64_t most = staging->options.memory / COFFER__CELL;
    return most == 0 ? 1 : most < SIZE_MAX / COFFER__CELL ? (size_t)most : SIZE_MAX / (size_t)COFFER__CELL;
}

/* A staging buffer serves one load after the other, and mostly the same devices, so the last word counts. */
void coffer__staging_near(coffer_staging *staging, const coffer_device *device)
{
    if (device != NULL && device->node >= 0) {
        coffer__os_mutex_lock(&staging->mutex);
        staging->node = device->node;
        coffer__os_mutex_unlock(&staging->mutex);
    }
}

/* Pages that nothing was read into cost nothing, so a staging buffer that grows is made again rather than in pieces.
   Nobody uses its slots then: the first worker of a load comes before the others. */
static void staging_reserve_slots(coffer_staging *staging, size_t count)
{
    if (staging->slot_count < count) {
        staging_free_slots(staging);
        staging->slot_count = count;
    }
}

/* Under the mutex. Many loads need none, since all of their bytes are read to where they belong. A copy to a device takes a
   detour over the bus between two processors when its memory is at the other one. Without a device nothing is asked for:
   pages then come from next to the thread that reads into them first. */
static coffer_status staging_make_slots(coffer_staging *staging, coffer_error *err)
{
    const size_t size = staging->slot_count * (size_t)COFFER__CELL;
    if (staging->slots != NULL) {
        return COFFER_OK;
    }
    staging->slots = coffer__os_pages_new(size);
    if (staging->slots == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a staging buffer of %z", (uint64_t)size);
    }
    if (staging->node >= 0) {
        (void)coffer__os_pages_near(staging->slots, size, staging->node);
    }
    return COFFER_OK;
}

coffer_status coffer__staging_slots(coffer_staging *staging, uint8_t **slots, coffer_error *err)
{
    coffer__os_mutex_lock(&staging->mutex);
    const coffer_status status = staging_make_slots(staging, err);
    *slots = staging->slots;
    coffer__os_mutex_unlock(&staging->mutex);
    return status;
}

/* The watch is asked without the mutex, as it may call the user, who may do anything, free another load of this staging
   buffer for example. The slots are reserved by the first worker, while the staging buffer is held by nobody, and
   those that follow find them many enough. */
coffer_status coffer__staging_enter(coffer_staging *staging, const void *load, size_t wanted,
                                    const coffer__watch *watch, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    coffer__os_mutex_lock(&staging->mutex);
    while (status == COFFER_OK && staging->load != NULL && staging->load != load) {
        (void)coffer__os_condition_wait(&staging->changed, &staging->mutex, COFFER__WATCH_MS);
        coffer__os_mutex_unlock(&staging->mutex);
        if (watch->stop(watch->ctx)) {
            status = coffer__fail(err, COFFER_ERR_CANCELLED, "the load was cancelled");
        }
        coffer__os_mutex_lock(&staging->mutex);
    }
    if (status == COFFER_OK) {
        staging_reserve_slots(staging, wanted);
        staging->load = load;
        staging->users++;
    }
    coffer__os_mutex_unlock(&staging->mutex);
    return status;
}

/* It counts as a user, so the staging buffer stays this load's while the worker enters it and leaves it again. */
bool coffer__staging_claim(coffer_staging *staging, const void *load)
{
    coffer__os_mutex_lock(&staging->mutex);
    const bool free = staging->load == NULL;
    if (free) {
        staging->load = load;
        staging->users++;
    }
    coffer__os_mutex_unlock(&staging->mutex);
    return free;
}

/* All who wait are woken: the first of them takes the staging buffer, and its load's other workers may be among the
   rest. */
void coffer__staging_leave(coffer_staging *staging)
{
    coffer__os_mutex_lock(&staging->mutex);
    staging->users--;
    if (staging->users == 0) {
        staging->load = NULL;
        coffer__os_condition_wake_all(&staging->changed);
    }
    coffer__os_mutex_unlock(&staging->mutex);
}

/* Several workers come here for the same device at once; the first registers, and the others wait for it under the
   mutex, since they must not copy before. */
coffer_status coffer__staging_pin(coffer_staging *staging, coffer_device *device, coffer_error *err)
{
    coffer__os_mutex_lock(&staging->mutex);
    coffer_status status = staging_make_slots(staging, err);
    if (status == COFFER_OK) {
        status = coffer__pins_add(&staging->pins, device, staging->slots, staging->slot_count * (size_t)COFFER__CELL,
                                  &staging->allocator, err);
    }
    coffer__os_mutex_unlock(&staging->mutex);
    return status;
}
