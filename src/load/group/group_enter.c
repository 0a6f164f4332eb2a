/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entering a group. Its name is made of the user, the files, the group and the number of ranks. The first rank that
 * comes answers by that name and makes the memory; the others call, and get its descriptor. Nothing is said beyond
 * that: a rank finds everything in the memory, and checks it, as the memory may be from anybody who answers by this
 * name.
 *
 * The same ranks may load the same files again while one of them has not finished. Then a rank that comes back finds
 * its place taken, and goes on to the next session, which is a number in the name.
 *
 * Each rank holds the byte of the memory that has its number. The system lets go of it when the process ends, which is
 * how the others see that it has died.
 */
#include "group.h"

#include "alloc.h"
#include "error.h"
#include "fnv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define GROUP_SESSIONS 8
/* Between two calls of a name, in milliseconds, and how long it is waited for an answer in one go. */
#define GROUP_PAUSE 2
#define GROUP_SLICE 20

typedef enum group_outcome {
    GROUP_ENTERED,
    GROUP_AGAIN,      /* whoever had the name has gone: call again */
    GROUP_NEXT,       /* this session is not for this rank */
    GROUP_NOT_AT_ALL, /* there is nothing to share here */
    GROUP_CANCELLED
} group_outcome;

typedef struct group_entry {
    const coffer__group_options *options;
    const coffer__watch *watch;
    coffer__group *group;
    coffer__group_shape shape;
    char name[COFFER__GROUP_NAME];
    uint64_t until;
} group_entry;

/* ---- making the memory, or taking it ----------------------------------------------------------------------------- */

/* Takes the place of this rank. The byte comes first: who is entering and does not hold it is dead. What this rank
   wants is written while it is ENTERING, when its cursor counts as 0, so nobody goes beyond the first lap before
   all of it is known. A place that is taken is one of an earlier load of the same files which has not ended, so the
   next session is tried; a rank that was struck off while it entered stays out of this group altogether. */
static group_outcome group_take_place(group_entry *entry)
{
    coffer__group *group = entry->group;
    const coffer__group_table *table = &group->table;
    const coffer__group_state state = coffer__group_state_of(table, group->me);
    if (state == COFFER__GROUP_OUT) {
        return GROUP_NOT_AT_ALL;
    }
    if (state != COFFER__GROUP_EMPTY || coffer__os_hold_byte(group->fd, group->me, &group->holder) != 0) {
        return GROUP_NEXT;
    }
    coffer__group_step(group, "hold");
    atomic_store(&table->rank[group->me].process, group->process);
    if (!coffer__group_move(table, group->me, COFFER__GROUP_EMPTY, COFFER__GROUP_ENTERING)) {
        return GROUP_NEXT;
    }
    coffer__group_step(group, "entering");
    coffer__group_want(group, entry->options->wanted);
    if (!coffer__group_move(table, group->me, COFFER__GROUP_ENTERING, COFFER__GROUP_IN)) {
        return GROUP_NOT_AT_ALL;
    }
    coffer__group_step(group, "in");
    coffer__group_signal(table);
    return GROUP_ENTERED;
}

/* Closing the descriptors lets go of the byte, as the system ties it to them; so it comes last, after the memory is
   out of use. */
static void group_lose(coffer__group *group)
{
    coffer__os_unmap(&group->map);
    group->map = (coffer__os_map){ NULL, 0 };
    if (group->holder >= 0) {
        (void)coffer__os_close(group->holder);
        group->holder = -1;
    }
    if (group->fd >= 0) {
        (void)coffer__os_close(group->fd);
        group->fd = -1;
    }
}

/* The memory is made when the name is this process's already: those who call meanwhile wait for it. It is sealed
   against further seals before anybody has it, so no peer can add one that keeps the others from writing. The buffers
   that the slots begin with are used over and over, so it pays to have them in huge pages. */
static group_outcome group_make(group_entry *entry)
{
    coffer__group *group = entry->group;
    const uint64_t size = coffer__group_size(&entry->shape);
    if (coffer__os_shared_new("coffer", size, &group->fd) != 0) {
        group->fd = -1;
        return GROUP_NOT_AT_ALL;
    }
    if (coffer__os_shared_seal(group->fd, false) != 0 || coffer__os_shared_map(group->fd, size, &group->map) != 0) {
        return GROUP_NOT_AT_ALL;
    }
    coffer__group_view(&group->table, &entry->shape, group->map.base);
    coffer__group_begin(&group->table, group->me);
    coffer__os_shared_huge(&group->map, group->table.bytes_from, entry->shape.slots * COFFER__CELL);
    coffer__group_step(group, "make");
    return group_take_place(entry);
}

/* Memory that came from another process. That its size can never change is checked before it is mapped: a peer that
   cut it would make the next access of the others a fault. From here on group_lose frees what there is, whatever
   the outcome. */
static group_outcome group_accept(group_entry *entry, int fd)
{
    coffer__group *group = entry->group;
    coffer__group_shape shape = entry->shape;
    uint64_t size = 0;
    group->fd = fd;
    if (coffer__os_shared_check(fd, false, &size) != 0 || coffer__os_shared_map(fd, size, &group->map) != 0) {
        return GROUP_NOT_AT_ALL;
    }
    if (!coffer__group_recognise(&shape, group->map.base, size)) {
        return GROUP_NOT_AT_ALL;
    }
    coffer__group_view(&group->table, &shape, group->map.base);
    return group_take_place(entry);
}

/* ---- calling ----------------------------------------------------------------------------------------------------- */

/* A load that runs without a watch cannot be cancelled while it enters. */
static bool group_is_cancelled(const group_entry *entry)
{
    return entry->watch != NULL && entry->watch->stop(entry->watch->ctx);
}

/* The rank that answers does so between two pieces of its own work. One that hangs up has left, or died, and made
   space for another. It waits in slices, so that a cancellation is noticed soon, and until the patience of entering
   is over. */
static group_outcome group_await(group_entry *entry, int caller)
{
    int fd = -1;
    int os_error = EAGAIN;
    while (os_error == EAGAIN && coffer__os_milliseconds() < entry->until) {
        if (group_is_cancelled(entry)) {
            return GROUP_CANCELLED;
        }
        os_error = coffer__os_await_passed(caller, GROUP_SLICE, &fd);
    }
    if (os_error == EAGAIN) {
        return GROUP_NOT_AT_ALL;
    }
    return os_error == 0 ? group_accept(entry, fd) : GROUP_AGAIN;
}

/* Another process has the name, or had it a moment ago. A refusal means that the one who answered has gone, or has
   too many callers just now, and either passes. Everything else means that names do not work here, and then nobody
   could be found. */
static group_outcome group_call(group_entry *entry)
{
    int caller = -1;
    const int os_error = coffer__os_call(entry->name, &caller);
    if (os_error == ECONNREFUSED || os_error == EAGAIN) {
        return GROUP_AGAIN;
    }
    if (os_error != 0) {
        return GROUP_NOT_AT_ALL;
    }
    const group_outcome outcome = group_await(entry, caller);
    (void)coffer__os_close(caller);
    return outcome;
}

/* Which of several processes answers is the system's decision, since only one of them gets the name; so there is no
   moment in which two make memory for the same session. */
static group_outcome group_answer_or_call(group_entry *entry)
{
    coffer__group *group = entry->group;
    const int os_error = coffer__os_answer(entry->name, &group->listener);
    if (os_error == EADDRINUSE) {
        return group_call(entry);
    }
    if (os_error != 0) {
        return GROUP_NOT_AT_ALL;
    }
    coffer__group_step(group, "answer");
    const group_outcome outcome = group_make(entry);
    if (outcome != GROUP_ENTERED) {
        (void)coffer__os_close(group->listener);
        group->listener = -1;
    }
    return outcome;
}

void coffer__group_name(char name[COFFER__GROUP_NAME], const coffer__group_shape *shape, unsigned session)
{
    const uint32_t *is = shape->identity;
    (void)snprintf(name, COFFER__GROUP_NAME, "coffer/share/%lu/%08lx%08lx/%08lx%08lx/%lu/%u",
                   (unsigned long)coffer__os_user(), (unsigned long)is[0], (unsigned long)is[1], (unsigned long)is[2],
                   (unsigned long)is[3], (unsigned long)shape->ranks, session);
}

/* One period of patience covers all sessions and all attempts, so entering never takes longer than the options say. */
static group_outcome group_session(group_entry *entry, unsigned session)
{
    coffer__group_name(entry->name, &entry->shape, session);
    group_outcome outcome = GROUP_AGAIN;
    while (outcome == GROUP_AGAIN && coffer__os_milliseconds() < entry->until) {
        outcome = group_answer_or_call(entry);
        if (outcome != GROUP_ENTERED) {
            group_lose(entry->group);
        }
        if (outcome == GROUP_AGAIN) {
            outcome = group_is_cancelled(entry) ? GROUP_CANCELLED : GROUP_AGAIN;
            coffer__os_sleep(GROUP_PAUSE);
        }
    }
    return outcome;
}

/* ---- the membership ---------------------------------------------------------------------------------------------- */

/* The allocator is copied first, as it lies in the block that is freed. */
static void group_free(coffer__group *group)
{
    coffer_allocator allocator = group->allocator;
    coffer__os_mutex_close(&group->mutex);
    coffer__free_array(&allocator, group->cells, group->cell_count, 1);
    coffer__free(&allocator, group, sizeof *group);
}

/* No descriptor is open yet, and 0 would be one, so they are set to -1. */
static coffer__group *group_new(const coffer__group_options *options)
{
    coffer_error ignored;
    coffer__group *group = coffer__alloc_zeroed(options->allocator, sizeof *group);
    if (group == NULL) {
        return NULL;
    }
    group->allocator = *options->allocator;
    group->fd = -1;
    group->holder = -1;
    group->listener = -1;
    group->me = options->rank;
    group->process = (uint32_t)coffer__os_process();
    group->enter_ms = options->enter_ms;
    group->stall_ms = options->stall_ms;
    group->began = coffer__os_milliseconds();
    group->step = options->step;
    group->step_ctx = options->step_ctx;
    group->cell_count = options->cells;
    group->cells = coffer__alloc_array(options->allocator, options->cells, 1, &ignored);
    if (group->cells == NULL || coffer__os_mutex_init(&group->mutex) != 0) {
        coffer__free_array(options->allocator, group->cells, options->cells, 1);
        coffer__free(options->allocator, group, sizeof *group);
        return NULL;
    }
    return group;
}

/* Two numbers of 64 bits as words, so that the memory has no word that a 32-bit system cannot write at once. */
bool coffer__group_shape_of(const coffer__group_options *options, coffer__group_shape *shape)
{
    const char *group = options->group != NULL ? options->group : "";
    const uint64_t named = coffer__fnv(COFFER__FNV_START, group, strlen(group) + (options->group != NULL));
    if (options->cells == 0 || options->cells > UINT32_MAX / 4 || options->rank >= options->ranks) {
        return false;
    }
    *shape = (coffer__group_shape){
        .identity = { (uint32_t)(options->identity >> 32), (uint32_t)options->identity, (uint32_t)(named >> 32),
                      (uint32_t)named },
        .ranks = options->ranks,
        .cells = (uint32_t)options->cells,
    };
    return coffer__group_shape_for(shape, options->memory);
}

/* That there is no memory for a membership is no failure either: this process then reads all of its bytes itself. */
coffer_status coffer__group_enter(coffer__group **group, const coffer__group_options *options,
                                  const coffer__watch *watch, coffer_error *err)
{
    group_entry entry = { .options = options, .watch = watch };
    group_outcome outcome = GROUP_NEXT;
    *group = NULL;
    if (!coffer__group_shape_of(options, &entry.shape)) {
        return COFFER_OK;
    }
    entry.group = group_new(options);
    if (entry.group == NULL) {
        return COFFER_OK;
    }
    entry.until = coffer__os_milliseconds() + options->enter_ms;
    for (unsigned session = 0; session < GROUP_SESSIONS && outcome == GROUP_NEXT; session++) {
        outcome = group_session(&entry, session);
    }
    if (outcome == GROUP_ENTERED) {
        *group = entry.group;
        return COFFER_OK;
    }
    group_free(entry.group);
    return outcome == GROUP_CANCELLED ? coffer__fail(err, COFFER_ERR_CANCELLED, "the load was cancelled") : COFFER_OK;
}

/* A mark that stays would cost the others a buffer. A worker that failed may have left chunks which it never
   released. */
static void group_clear_marks(coffer__group *group)
{
    for (uint32_t i = 0; i < group->table.is.buffers; i++) {
        while (group->marks[i] > 0) {
            coffer__group_release(&group->table, group->me, group->marks, i);
        }
    }
}

/* The name goes first: nobody should be let in by a rank that leaves. The state moves to DONE after the marks are
   gone: the others then count on this rank no more. A rank that was struck off stays OUT, since the move is from IN
   alone. */
void coffer__group_leave(coffer__group *group)
{
    if (group == NULL) {
        return;
    }
    if (group->listener >= 0) {
        (void)coffer__os_close(group->listener);
    }
    coffer__group_step(group, "close");
    group_clear_marks(group);
    (void)coffer__group_move(&group->table, group->me, COFFER__GROUP_IN, COFFER__GROUP_DONE);
    coffer__group_signal(&group->table);
    coffer__group_step(group, "leave");
    group_lose(group);
    group_free(group);
}
