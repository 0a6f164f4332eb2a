/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entering a group. Its name is made of the user, the files, the group and the number of ranks. The first rank that comes
 * answers by that name and makes the memory; the others call, and get its descriptor. Nothing is said beyond that: a
 * rank finds everything in the memory, and checks it, as the memory may be from anybody who answers by this name.
 *
 * The same ranks may load the same files again while one of them has not finished. Then a rank that comes back finds its
 * place taken, and goes on to the next session, which is a number in the name.
 *
 * Each rank holds the byte of the memory that has its number. The system lets go of it when the process ends, which is how
 * the others see that it has died.
 */
#include "group.h"

#include "alloc.h"
#include "error.h"
#include "fnv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SHARE_SESSIONS 8
/* Between two calls of a name, in milliseconds, and how long it is waited for an answer in one go. */
#define SHARE_PAUSE 2
#define SHARE_SLICE 20

typedef enum share_outcome {
    SHARE_ENTERED,
    SHARE_AGAIN,      /* whoever had the name has gone: call again */
    SHARE_NEXT,       /* this session is not for this rank */
    SHARE_NOT_AT_ALL, /* there is nothing to share here */
    SHARE_CANCELLED
} share_outcome;

typedef struct share_entry {
    const coffer__share_options *options;
    const coffer__watch *watch;
    coffer__share *share;
    coffer__share_shape shape;
    char name[COFFER__SHARE_NAME];
    uint64_t until;
} share_entry;

/* ---- making the memory, or taking it ------------------------------------------------------------------------------ */

/* Takes the place of this rank. The byte comes first: who is entering and does not hold it is dead. What this rank
   wants is written while it is ENTERING, when its cursor counts as 0, so nobody goes beyond the first lap before
   all of it is known. A place that is taken is one of an earlier load of the same files which has not ended, so the
   next session is tried; a rank that was struck off while it entered stays out of this group altogether. */
static share_outcome share_take_place(share_entry *entry)
{
    coffer__share *share = entry->share;
    const coffer__share_table *table = &share->table;
    const coffer__share_state state = coffer__share_state_of(table, share->me);
    if (state == COFFER__SHARE_OUT) {
        return SHARE_NOT_AT_ALL;
    }
    if (state != COFFER__SHARE_EMPTY || coffer__os_hold_byte(share->fd, share->me, &share->holder) != 0) {
        return SHARE_NEXT;
    }
    coffer__share_step(share, "hold");
    atomic_store(&table->rank[share->me].process, share->process);
    if (!coffer__share_move(table, share->me, COFFER__SHARE_EMPTY, COFFER__SHARE_ENTERING)) {
        return SHARE_NEXT;
    }
    coffer__share_step(share, "entering");
    coffer__share_want(share, entry->options->wanted);
    if (!coffer__share_move(table, share->me, COFFER__SHARE_ENTERING, COFFER__SHARE_IN)) {
        return SHARE_NOT_AT_ALL;
    }
    coffer__share_step(share, "in");
    coffer__share_signal(table);
    return SHARE_ENTERED;
}

/* Closing the descriptors lets go of the byte, as the system ties it to them; so it comes last, after the memory is
   out of use. */
static void share_lose(coffer__share *share)
{
    coffer__os_unmap(&share->map);
    share->map = (coffer__os_map){ NULL, 0 };
    if (share->holder >= 0) {
        (void)coffer__os_close(share->holder);
        share->holder = -1;
    }
    if (share->fd >= 0) {
        (void)coffer__os_close(share->fd);
        share->fd = -1;
    }
}

/* The memory is made when the name is this process's already: those who call meanwhile wait for it. It is sealed
   against further seals before anybody has it, so no peer can add one that keeps the others from writing. The buffers
   that the slots begin with are used over and over, so it pays to have them in huge pages. */
static share_outcome share_make(share_entry *entry)
{
    coffer__share *share = entry->share;
    const uint64_t size = coffer__share_size(&entry->shape);
    if (coffer__os_shared_new("coffer", size, &share->fd) != 0) {
        share->fd = -1;
        return SHARE_NOT_AT_ALL;
    }
    if (coffer__os_shared_seal(share->fd, false) != 0 || coffer__os_shared_map(share->fd, size, &share->map) != 0) {
        return SHARE_NOT_AT_ALL;
    }
    coffer__share_view(&share->table, &entry->shape, share->map.base);
    coffer__share_begin(&share->table, share->me);
    coffer__os_shared_huge(&share->map, share->table.bytes_from, entry->shape.slots * COFFER__CELL);
    coffer__share_step(share, "make");
    return share_take_place(entry);
}

/* Memory that came from another process. That its size can never change is checked before it is mapped: a peer that
   cut it would make the next access of the others a fault. From here on share_lose frees what there is, whatever
   the outcome. */
static share_outcome share_accept(share_entry *entry, int fd)
{
    coffer__share *share = entry->share;
    coffer__share_shape shape = entry->shape;
    uint64_t size = 0;
    share->fd = fd;
    if (coffer__os_shared_check(fd, false, &size) != 0 || coffer__os_shared_map(fd, size, &share->map) != 0) {
        return SHARE_NOT_AT_ALL;
    }
    if (!coffer__share_recognise(&shape, share->map.base, size)) {
        return SHARE_NOT_AT_ALL;
    }
    coffer__share_view(&share->table, &shape, share->map.base);
    return share_take_place(entry);
}

/* ---- calling ----------------------------------------------------------------------------------------------------- */

/* A load that runs without a watch cannot be cancelled while it enters. */
static bool share_is_cancelled(const share_entry *entry)
{
    return entry->watch != NULL && entry->watch->stop(entry->watch->ctx);
}

/* The rank that answers does so between two pieces of its own work. One that hangs up has left, or died, and made
   space for another. It waits in slices, so that a cancellation is noticed soon, and until the patience of entering
   is over. */
static share_outcome share_await(share_entry *entry, int caller)
{
    int fd = -1;
    int os_error = EAGAIN;
    while (os_error == EAGAIN && coffer__os_milliseconds() < entry->until) {
        if (share_is_cancelled(entry)) {
            return SHARE_CANCELLED;
        }
        os_error = coffer__os_await_passed(caller, SHARE_SLICE, &fd);
    }
    if (os_error == EAGAIN) {
        return SHARE_NOT_AT_ALL;
    }
    return os_error == 0 ? share_accept(entry, fd) : SHARE_AGAIN;
}

/* Another process has the name, or had it a moment ago. A refusal means that the one who answered has gone, or has
   too many callers just now, and either passes. Everything else means that names do not work here, and then nobody
   could be found. */
static share_outcome share_call(share_entry *entry)
{
    int caller = -1;
    const int os_error = coffer__os_call(entry->name, &caller);
    if (os_error == ECONNREFUSED || os_error == EAGAIN) {
        return SHARE_AGAIN;
    }
    if (os_error != 0) {
        return SHARE_NOT_AT_ALL;
    }
    const share_outcome outcome = share_await(entry, caller);
    (void)coffer__os_close(caller);
    return outcome;
}

/* Which of several processes answers is the system's decision, since only one of them gets the name; so there is no
   moment in which two make memory for the same session. */
static share_outcome share_answer_or_call(share_entry *entry)
{
    coffer__share *share = entry->share;
    const int os_error = coffer__os_answer(entry->name, &share->listener);
    if (os_error == EADDRINUSE) {
        return share_call(entry);
    }
    if (os_error != 0) {
        return SHARE_NOT_AT_ALL;
    }
    coffer__share_step(share, "answer");
    const share_outcome outcome = share_make(entry);
    if (outcome != SHARE_ENTERED) {
        (void)coffer__os_close(share->listener);
        share->listener = -1;
    }
    return outcome;
}

void coffer__share_name(char name[COFFER__SHARE_NAME], const coffer__share_shape *shape, unsigned session)
{
    const uint32_t *is = shape->identity;
    (void)snprintf(name, COFFER__SHARE_NAME, "coffer/share/%lu/%08lx%08lx/%08lx%08lx/%lu/%u",
                   (unsigned long)coffer__os_user(), (unsigned long)is[0], (unsigned long)is[1], (unsigned long)is[2],
                   (unsigned long)is[3], (unsigned long)shape->ranks, session);
}

/* One period of patience covers all sessions and all attempts, so entering never takes longer than the options say. */
static share_outcome share_session(share_entry *entry, unsigned session)
{
    coffer__share_name(entry->name, &entry->shape, session);
    share_outcome outcome = SHARE_AGAIN;
    while (outcome == SHARE_AGAIN && coffer__os_milliseconds() < entry->until) {
        outcome = share_answer_or_call(entry);
        if (outcome != SHARE_ENTERED) {
            share_lose(entry->share);
        }
        if (outcome == SHARE_AGAIN) {
            outcome = share_is_cancelled(entry) ? SHARE_CANCELLED : SHARE_AGAIN;
            coffer__os_sleep(SHARE_PAUSE);
        }
    }
    return outcome;
}

/* ---- the membership ---------------------------------------------------------------------------------------------- */

/* The allocator is copied first, as it lies in the block that is freed. */
static void share_free(coffer__share *share)
{
    coffer_allocator allocator = share->allocator;
    coffer__os_mutex_close(&share->mutex);
    coffer__free_array(&allocator, share->cells, share->cell_count, 1);
    coffer__free(&allocator, share, sizeof *share);
}

/* No descriptor is open yet, and 0 would be one, so they are set to -1. */
static coffer__share *share_new(const coffer__share_options *options)
{
    coffer_error ignored;
    coffer__share *share = coffer__alloc_zeroed(options->allocator, sizeof *share);
    if (share == NULL) {
        return NULL;
    }
    share->allocator = *options->allocator;
    share->fd = -1;
    share->holder = -1;
    share->listener = -1;
    share->me = options->rank;
    share->process = (uint32_t)coffer__os_process();
    share->enter_ms = options->enter_ms;
    share->stall_ms = options->stall_ms;
    share->began = coffer__os_milliseconds();
    share->step = options->step;
    share->step_ctx = options->step_ctx;
    share->cell_count = options->cells;
    share->cells = coffer__alloc_array(options->allocator, options->cells, 1, &ignored);
    if (share->cells == NULL || coffer__os_mutex_init(&share->mutex) != 0) {
        coffer__free_array(options->allocator, share->cells, options->cells, 1);
        coffer__free(options->allocator, share, sizeof *share);
        return NULL;
    }
    return share;
}

/* Two numbers of 64 bits as words, so that the memory has no word that a 32-bit system cannot write at once. */
bool coffer__share_shape_of(const coffer__share_options *options, coffer__share_shape *shape)
{
    const char *group = options->group != NULL ? options->group : "";
    const uint64_t named = coffer__fnv(COFFER__FNV_START, group, strlen(group) + (options->group != NULL));
    if (options->cells == 0 || options->cells > UINT32_MAX / 4 || options->rank >= options->ranks) {
        return false;
    }
    *shape = (coffer__share_shape){
        .identity = { (uint32_t)(options->identity >> 32), (uint32_t)options->identity, (uint32_t)(named >> 32),
                      (uint32_t)named },
        .ranks = options->ranks,
        .cells = (uint32_t)options->cells,
    };
    return coffer__share_shape_for(shape, options->memory);
}

/* That there is no memory for a membership is no failure either: this process then reads all of its bytes itself. */
coffer_status coffer__share_enter(coffer__share **share, const coffer__share_options *options,
                                  const coffer__watch *watch, coffer_error *err)
{
    share_entry entry = { .options = options, .watch = watch };
    share_outcome outcome = SHARE_NEXT;
    *share = NULL;
    if (!coffer__share_shape_of(options, &entry.shape)) {
        return COFFER_OK;
    }
    entry.share = share_new(options);
    if (entry.share == NULL) {
        return COFFER_OK;
    }
    entry.until = coffer__os_milliseconds() + options->enter_ms;
    for (unsigned session = 0; session < SHARE_SESSIONS && outcome == SHARE_NEXT; session++) {
        outcome = share_session(&entry, session);
    }
    if (outcome == SHARE_ENTERED) {
        *share = entry.share;
        return COFFER_OK;
    }
    share_free(entry.share);
    return outcome == SHARE_CANCELLED ? coffer__fail(err, COFFER_ERR_CANCELLED, "the load was cancelled") : COFFER_OK;
}

/* A mark that stays would cost the others a buffer. A worker that failed may have left chunks which it never
   released. */
static void share_clear_marks(coffer__share *share)
{
    for (uint32_t i = 0; i < share->table.is.buffers; i++) {
        while (share->marks[i] > 0) {
            coffer__share_release(&share->table, share->me, share->marks, i);
        }
    }
}

/* The name goes first: nobody should be let in by a rank that leaves. The state moves to DONE after the marks are
   gone: the others then count on this rank no more. A rank that was struck off stays OUT, since the move is from IN
   alone. */
void coffer__share_leave(coffer__share *share)
{
    if (share == NULL) {
        return;
    }
    if (share->listener >= 0) {
        (void)coffer__os_close(share->listener);
    }
    coffer__share_step(share, "close");
    share_clear_marks(share);
    (void)coffer__share_move(&share->table, share->me, COFFER__SHARE_IN, COFFER__SHARE_DONE);
    coffer__share_signal(&share->table);
    coffer__share_step(share, "leave");
    share_lose(share);
    share_free(share);
}
