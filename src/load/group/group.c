/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process keeps of each cell is a byte, under the mutex:
 *
 *   GROUP_NOTHING ◄── pass ── GROUP_ASKED ◄── ask ── GROUP_WANTED
 *
 * The cursor is the first cell that is not GROUP_NOTHING. A cell that turns out to be wanted by no other rank becomes
 * GROUP_NOTHING when the cursor comes to it or it is asked for: its bytes take no part in this.
 */
#include "group.h"

#include "error.h"

#include <string.h>

enum { GROUP_NOTHING = 0, GROUP_WANTED = 1, GROUP_ASKED = 2 };

/* The longest wait in one go, and how often it is looked who lives, in milliseconds. */
#define GROUP_MOMENT 20
#define GROUP_LOOK 20
/* How long this rank waits for its own threads. */
#define GROUP_OWN_PATIENCE 300

void coffer__group_step(const coffer__group *group, const char *what)
{
    if (group->step != NULL) {
        group->step(group->step_ctx, what);
    }
}

/* ---- what this rank wants ---------------------------------------------------------------------------------------- */

/* Under the mutex. Whether a cell is this rank's own is only asked when the cursor comes to it, as the answer is
   "no" until the group is complete; that keeps the work proportional to the cells. */
static bool group_is_passed(coffer__group *group, uint32_t cell)
{
    if (group->cells[cell] == GROUP_WANTED && coffer__group_is_own(&group->table, group->me, cell)) {
        group->cells[cell] = GROUP_NOTHING;
    }
    return group->cells[cell] == GROUP_NOTHING;
}

/* Under the mutex. What was passed is not touched any more when the cursor says so. The store is sequentially
   consistent, and every copy from a buffer was finished before its cell was passed, so a rank that sees the new
   cursor may fill those buffers. The beat rises even if the cursor does not: something was done.

   Others only wait for the lowest of all cursors, and waking them costs more than taking a cell. So they are woken by
   the rank that was the last to pass the cell. Of several that pass it at the same moment, each stores its cursor before
   it looks at the others', so that one at least finds that all have passed. */
static void group_advance(coffer__group *group)
{
    coffer__group_rank *rank = &group->table.rank[group->me];
    const uint32_t before = group->cursor;
    while (group->cursor < group->cell_count && group_is_passed(group, group->cursor)) {
        group->cursor++;
    }
    atomic_fetch_add(&rank->beat, 1);
    if (group->cursor != before) {
        uint32_t whose = 0;
        atomic_store(&rank->cursor, group->cursor);
        if (coffer__group_floor(&group->table, &whose) > before) {
            coffer__group_signal(&group->table);
        }
    }
}

/* Whatever is wanted is said before this rank is IN. The cursor is found here without asking who else wants a cell,
   as the group is not complete before. The blocks of a cell are written before the bit that says that this rank
   wants it. Both are merged into words that other ranks write at the same time. Going downwards leaves the cursor
   at the lowest cell that is wanted. */
void coffer__group_want(coffer__group *group, const uint32_t *wanted)
{
    const coffer__group_table *table = &group->table;
    group->cursor = (uint32_t)group->cell_count;
    for (uint32_t cell = (uint32_t)group->cell_count; cell-- > 0;) {
        if (wanted[cell] != 0) {
            group->cells[cell] = GROUP_WANTED;
            atomic_fetch_or(&table->blocks[cell], wanted[cell]);
            atomic_fetch_or(&table->wanted[cell], UINT32_C(1) << group->me);
            group->cursor = cell;
        }
    }
    atomic_store(&table->rank[group->me].cursor, group->cursor);
}

/* Asking decides once and for all how this rank gets the cell. One that it alone wants is read alone, unless
   somebody has begun to read it for all, before that was known: then it is nearly there. What was asked before, or
   passed, is not asked again, so that two chunks of one cell never both wait for it: the first to be released would
   pass it for both. */
bool coffer__group_ask(coffer__group *group, uint32_t cell)
{
    const coffer__group_table *table = &group->table;
    coffer__os_mutex_lock(&group->mutex);
    bool shared = cell < group->cell_count && group->cells[cell] == GROUP_WANTED;
    if (shared) {
        const bool own = coffer__group_is_own(table, group->me, cell) && !coffer__group_is_begun(table, cell);
        shared = !own && coffer__group_state_of(table, group->me) == COFFER__GROUP_IN &&
                 atomic_load(&table->head->dissolved) == 0;
        group->cells[cell] = shared ? GROUP_ASKED : GROUP_NOTHING;
        group_advance(group);
    }
    coffer__os_mutex_unlock(&group->mutex);
    coffer__group_step(group, "ask");
    return shared;
}

/*
 * A cell may be so far ahead that this rank's own cursor is in its way. Usually another thread is at work on the cell
 * of the cursor, or about to ask for it; but where cells are asked for out of order the cursor's cell may be one that
 * comes later, and waiting for it would be waiting for ever. So a cell that this rank itself keeps from being read, for
 * longer than threads need, and by a cell that nobody has asked for, is read alone. So is one that was asked for before
 * it was known that no other rank wants it.
 */
coffer__group_view_of coffer__group_find(coffer__group *group, uint32_t cell, uint32_t blocks, uint32_t *buffer,
                                         uint32_t *blamed)
{
    coffer__os_mutex_lock(&group->mutex);
    coffer__group_view_of view =
        coffer__group_look(&group->table, group->me, cell, blocks, group->marks, buffer, blamed);
    if (view == COFFER__GROUP_COMING) {
        const bool deferred = *blamed == group->me && group->patience[group->me].still >= GROUP_OWN_PATIENCE &&
                              group->cursor < cell && cell - group->cursor >= group->table.is.slots &&
                              group->cells[group->cursor] == GROUP_WANTED;
        const bool own =
            coffer__group_is_own(&group->table, group->me, cell) && !coffer__group_is_begun(&group->table, cell);
        view = deferred || own ? COFFER__GROUP_GONE : view;
    }
    coffer__os_mutex_unlock(&group->mutex);
    coffer__group_step(group, "find");
    return view;
}

/* The buffer is let go before the cursor may rise. In the other order another rank could find the mark of this one
   on a buffer that it is free to fill, and would waste a spare one. */
void coffer__group_pass(coffer__group *group, uint32_t cell, uint32_t buffer)
{
    coffer__os_mutex_lock(&group->mutex);
    if (buffer != COFFER__GROUP_NOBODY) {
        coffer__group_release(&group->table, group->me, group->marks, buffer);
        coffer__group_step(group, "let go");
    }
    if (cell < group->cell_count) {
        group->cells[cell] = GROUP_NOTHING;
    }
    group_advance(group);
    coffer__os_mutex_unlock(&group->mutex);
    coffer__group_step(group, "pass");
}

/* ---- reading for all --------------------------------------------------------------------------------------------- */

/* An abandoned buffer's memory is given back to the system: nobody reads it any more, and a rank that still writes
   to it only makes some of its pages come again. */
bool coffer__group_claim_next(coffer__group *group, coffer__group_claim *claim)
{
    if (!coffer__group_claim_any(&group->table, group->me, claim)) {
        return false;
    }
    if (claim->abandoned != COFFER__GROUP_NOBODY) {
        coffer__os_shared_discard(group->fd, group->table.bytes_from + claim->abandoned * COFFER__CELL, COFFER__CELL);
    }
    coffer__group_beat(group);
    coffer__group_step(group, "claim");
    return true;
}

/* It does not matter here whether this rank was struck off meanwhile: then the exchange fails, others take the cell
   over, and this rank finds out when it looks for its own cells. */
void coffer__group_bring(coffer__group *group, const coffer__group_claim *claim)
{
    coffer__group_step(group, "bring");
    (void)coffer__group_finish(&group->table, group->me, claim);
    coffer__group_beat(group);
    coffer__group_step(group, "brought");
}

void coffer__group_release_claim(coffer__group *group, const coffer__group_claim *claim)
{
    coffer__group_give_up(&group->table, group->me, claim);
    coffer__group_step(group, "drop");
}

void coffer__group_beat(coffer__group *group)
{
    atomic_fetch_add(&group->table.rank[group->me].beat, 1);
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

/* When all have entered, or have been struck off, nobody is left to call, and the system is not asked any more. Whoever
   cannot be let in now is tried again the next time. */
void coffer__group_tend(coffer__group *group)
{
    if (group->listener >= 0 && !coffer__group_is_complete(&group->table)) {
        uint32_t given = 0;
        (void)coffer__os_answer_all(group->listener, group->fd, &given);
    }
}

/* That the system lets go of a byte is certain when a process ends in whatever way, so no rank has to say goodbye.
   Where a byte belongs to a process, ranks of this one hold theirs together: they cannot be told apart by them, and
   live. */
static bool group_lives(const coffer__group *group, uint32_t rank)
{
    const bool together = group->holder < 0 && atomic_load(&group->table.rank[rank].process) == group->process;
    return together || coffer__os_byte_is_held(group->fd, rank);
}

/* Strikes off the dead, and, when nobody can enter any more, those who have not. A rank that is EMPTY holds no
   byte, so whether its process lives is not known; it is struck off here only when it could not enter any more, and
   otherwise when somebody has waited for it too long. */
static void group_look_around(coffer__group *group)
{
    const bool closed = coffer__group_is_closed(&group->table);
    for (uint32_t i = 0; i < group->table.is.ranks; i++) {
        const coffer__group_state state = coffer__group_state_of(&group->table, i);
        const bool dead =
            (state == COFFER__GROUP_ENTERING || state == COFFER__GROUP_IN) && i != group->me && !group_lives(group, i);
        if (dead || (state == COFFER__GROUP_EMPTY && closed)) {
            (void)coffer__group_strike(&group->table, i);
        }
    }
}

/*
 * Whether this rank has waited for another one for too long. `still` counts from when anything of the other one last
 * changed. One that does go on, but so slowly that this rank has waited for it half of the time, and for long, is a
 * hindrance, too. A wait counts as a moment at most: what a stopped process slept through is not the others' fault.
 *
 * The patience for one that has not entered is another than for one that works: processes may be started some time
 * apart. Under the mutex, as all threads of this process that wait add to the same account.
 */
static bool group_is_too_slow(coffer__group *group, uint32_t rank, uint64_t waited)
{
    coffer__group_patience *patience = &group->patience[rank];
    const coffer__group_rank *other = &group->table.rank[rank];
    const uint32_t cursor = atomic_load(&other->cursor);
    const uint32_t beat = atomic_load(&other->beat);
    const bool entered = coffer__group_state_of(&group->table, rank) == COFFER__GROUP_IN;
    const bool same = cursor == patience->cursor && beat == patience->beat;
    const uint64_t slow = 4 * (uint64_t)group->stall_ms;
    *patience = (coffer__group_patience){ cursor, beat, same ? patience->still + waited : 0, patience->all + waited };
    return patience->still >= (entered ? group->stall_ms : group->enter_ms) ||
           (patience->all >= slow && patience->all > (coffer__os_milliseconds() - group->began) / 2);
}

/* What has not entered while this rank waited for `blamed` has been away as long, so it is struck off with it: else a
   load would wait for each of those who never come, one after the other. */
static void group_strike_absent(const coffer__group *group)
{
    for (uint32_t i = 0; i < group->table.is.ranks; i++) {
        if (coffer__group_state_of(&group->table, i) == COFFER__GROUP_EMPTY) {
            (void)coffer__group_strike(&group->table, i);
        }
    }
}

uint32_t coffer__group_seen(const coffer__group *group)
{
    return atomic_load(&group->table.head->event);
}

/* The threads that wait are counted before the event is compared, as coffer__group_signal wants it. The mutex is
   not held while it waits: the other threads of this process may pass cells, which may be what is waited for. How
   long this rank waits for itself is counted, too, since coffer__group_find asks for it, but it never strikes
   itself off. */
void coffer__group_wait(coffer__group *group, uint32_t seen, uint32_t blamed)
{
    coffer__group_head *head = group->table.head;
    const uint64_t began = coffer__os_milliseconds();
    atomic_fetch_add(&head->waiters, 1);
    coffer__os_word_await(&head->event, seen, GROUP_MOMENT);
    atomic_fetch_sub(&head->waiters, 1);
    coffer__group_tend(group);

    coffer__os_mutex_lock(&group->mutex);
    const uint64_t now = coffer__os_milliseconds();
    const uint64_t waited = now - began < GROUP_MOMENT ? now - began : GROUP_MOMENT;
    if (now - group->looked >= GROUP_LOOK) {
        group->looked = now;
        group_look_around(group);
    }
    if (blamed < group->table.is.ranks && group_is_too_slow(group, blamed, waited) && blamed != group->me) {
        if (coffer__group_state_of(&group->table, blamed) == COFFER__GROUP_EMPTY) {
            group_strike_absent(group);
        }
        (void)coffer__group_strike(&group->table, blamed);
    }
    coffer__os_mutex_unlock(&group->mutex);
    coffer__group_step(group, "wait");
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* Only the message crosses, without path and position, which have no space of their own in the memory. */
void coffer__group_fail(coffer__group *group, const coffer_error *error)
{
    coffer__group_tell(&group->table, group->me, error->message);
    coffer__group_step(group, "fail");
}

/* The text was made by the same library in another process, so it is fit to be shown; what cannot be in such a text
   is replaced all the same. This rank's own failure is reported by its own thread, with all that is known of it, so
   it is none here. */
coffer_status coffer__group_check(const coffer__group *group, coffer_error *err)
{
    char text[COFFER__GROUP_TEXT];
    uint32_t whose = 0;
    if (!coffer__group_reported(&group->table, &whose, text) || whose == group->me) {
        return COFFER_OK;
    }
    for (char *at = text; *at != '\0'; at++) {
        *at = (unsigned char)*at < ' ' || *at == 0x7F ? '?' : *at;
    }
    return coffer__fail(err, COFFER_ERR_PEER, "rank %u of this load failed: %s", (uint64_t)whose, text);
}
