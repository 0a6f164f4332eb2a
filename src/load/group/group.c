/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process keeps of each cell is a byte, under the mutex:
 *
 *   SHARE_NOTHING ◄── pass ── SHARE_ASKED ◄── ask ── SHARE_WANTED
 *
 * The cursor is the first cell that is not SHARE_NOTHING. A cell that turns out to be wanted by no other rank becomes
 * SHARE_NOTHING when the cursor comes to it or it is asked for: its bytes take no part in this.
 */
#include "group.h"

#include "error.h"

#include <string.h>

enum { SHARE_NOTHING = 0, SHARE_WANTED = 1, SHARE_ASKED = 2 };

/* The longest wait in one go, and how often it is looked who lives, in milliseconds. */
#define SHARE_MOMENT 20
#define SHARE_LOOK 20
/* How long this rank waits for its own threads. */
#define SHARE_OWN_PATIENCE 300

void coffer__share_step(const coffer__share *share, const char *what)
{
    if (share->step != NULL) {
        share->step(share->step_ctx, what);
    }
}

/* ---- what this rank wants ---------------------------------------------------------------------------------------- */

/* Under the mutex. Whether a cell is this rank's own is only asked when the cursor comes to it, as the answer is
   "no" until the group is complete; that keeps the work proportional to the cells. */
static bool share_is_passed(coffer__share *share, uint32_t cell)
{
    if (share->cells[cell] == SHARE_WANTED && coffer__share_is_own(&share->table, share->me, cell)) {
        share->cells[cell] = SHARE_NOTHING;
    }
    return share->cells[cell] == SHARE_NOTHING;
}

/* Under the mutex. What was passed is not touched any more when the cursor says so. The store is sequentially
   consistent, and every copy from a buffer was finished before its cell was passed, so a rank that sees the new
   cursor may fill those buffers. The beat rises even if the cursor does not: something was done.

   Others only wait for the lowest of all cursors, and waking them costs more than taking a cell. So they are woken by
   the rank that was the last to pass the cell. Of several that pass it at the same moment, each stores its cursor before
   it looks at the others', so that one at least finds that all have passed. */
static void share_advance(coffer__share *share)
{
    coffer__share_rank *rank = &share->table.rank[share->me];
    const uint32_t before = share->cursor;
    while (share->cursor < share->cell_count && share_is_passed(share, share->cursor)) {
        share->cursor++;
    }
    atomic_fetch_add(&rank->beat, 1);
    if (share->cursor != before) {
        uint32_t whose = 0;
        atomic_store(&rank->cursor, share->cursor);
        if (coffer__share_floor(&share->table, &whose) > before) {
            coffer__share_signal(&share->table);
        }
    }
}

/* Whatever is wanted is said before this rank is IN. The cursor is found here without asking who else wants a cell,
   as the group is not complete before. The blocks of a cell are written before the bit that says that this rank
   wants it. Both are merged into words that other ranks write at the same time. Going downwards leaves the cursor
   at the lowest cell that is wanted. */
void coffer__share_want(coffer__share *share, const uint32_t *wanted)
{
    const coffer__share_table *table = &share->table;
    share->cursor = (uint32_t)share->cell_count;
    for (uint32_t cell = (uint32_t)share->cell_count; cell-- > 0;) {
        if (wanted[cell] != 0) {
            share->cells[cell] = SHARE_WANTED;
            atomic_fetch_or(&table->blocks[cell], wanted[cell]);
            atomic_fetch_or(&table->wanted[cell], UINT32_C(1) << share->me);
            share->cursor = cell;
        }
    }
    atomic_store(&table->rank[share->me].cursor, share->cursor);
}

/* Asking decides once and for all how this rank gets the cell. One that it alone wants is read alone, unless
   somebody has begun to read it for all, before that was known: then it is nearly there. What was asked before, or
   passed, is not asked again, so that two chunks of one cell never both wait for it: the first to be released would
   pass it for both. */
bool coffer__share_ask(coffer__share *share, uint32_t cell)
{
    const coffer__share_table *table = &share->table;
    coffer__os_mutex_lock(&share->mutex);
    bool shared = cell < share->cell_count && share->cells[cell] == SHARE_WANTED;
    if (shared) {
        const bool own = coffer__share_is_own(table, share->me, cell) && !coffer__share_is_begun(table, cell);
        shared = !own && coffer__share_state_of(table, share->me) == COFFER__SHARE_IN &&
                 atomic_load(&table->head->dissolved) == 0;
        share->cells[cell] = shared ? SHARE_ASKED : SHARE_NOTHING;
        share_advance(share);
    }
    coffer__os_mutex_unlock(&share->mutex);
    coffer__share_step(share, "ask");
    return shared;
}

/*
 * A cell may be so far ahead that this rank's own cursor is in its way. Usually another thread is at work on the cell of
 * the cursor, or about to ask for it; but where cells are asked for out of order the cursor's cell may be one that comes
 * later, and waiting for it would be waiting for ever. So a cell that this rank itself keeps from being read, for longer
 * than threads need, and by a cell that nobody has asked for, is read alone. So is one that was asked for before it was
 * known that no other rank wants it.
 */
coffer__share_view_of coffer__share_find(coffer__share *share, uint32_t cell, uint32_t blocks, uint32_t *buffer,
                                         uint32_t *blamed)
{
    coffer__os_mutex_lock(&share->mutex);
    coffer__share_view_of view =
        coffer__share_look(&share->table, share->me, cell, blocks, share->marks, buffer, blamed);
    if (view == COFFER__SHARE_COMING) {
        const bool ahead = *blamed == share->me && share->patience[share->me].still >= SHARE_OWN_PATIENCE &&
                           share->cursor < cell && cell - share->cursor >= share->table.is.slots &&
                           share->cells[share->cursor] == SHARE_WANTED;
        const bool own =
            coffer__share_is_own(&share->table, share->me, cell) && !coffer__share_is_begun(&share->table, cell);
        view = ahead || own ? COFFER__SHARE_GONE : view;
    }
    coffer__os_mutex_unlock(&share->mutex);
    coffer__share_step(share, "find");
    return view;
}

/* The buffer is let go before the cursor may rise. In the other order another rank could find the mark of this one
   on a buffer that it is free to fill, and would waste a spare one. */
void coffer__share_pass(coffer__share *share, uint32_t cell, uint32_t buffer)
{
    coffer__os_mutex_lock(&share->mutex);
    if (buffer != COFFER__SHARE_NOBODY) {
        coffer__share_release(&share->table, share->me, share->marks, buffer);
        coffer__share_step(share, "let go");
    }
    if (cell < share->cell_count) {
        share->cells[cell] = SHARE_NOTHING;
    }
    share_advance(share);
    coffer__os_mutex_unlock(&share->mutex);
    coffer__share_step(share, "pass");
}

/* ---- reading for all --------------------------------------------------------------------------------------------- */

/* An abandoned buffer's memory is given back to the system: nobody reads it any more, and a rank that still writes
   to it only makes some of its pages come again. */
bool coffer__share_claim_next(coffer__share *share, coffer__share_claim *claim)
{
    if (!coffer__share_claim_any(&share->table, share->me, claim)) {
        return false;
    }
    if (claim->abandoned != COFFER__SHARE_NOBODY) {
        coffer__os_shared_discard(share->fd, share->table.bytes_from + claim->abandoned * COFFER__CELL, COFFER__CELL);
    }
    coffer__share_beat(share);
    coffer__share_step(share, "claim");
    return true;
}

/* It does not matter here whether this rank was struck off meanwhile: then the exchange fails, others take the cell
   over, and this rank finds out when it looks for its own cells. */
void coffer__share_bring(coffer__share *share, const coffer__share_claim *claim)
{
    coffer__share_step(share, "bring");
    (void)coffer__share_finish(&share->table, share->me, claim);
    coffer__share_beat(share);
    coffer__share_step(share, "brought");
}

void coffer__share_release_claim(coffer__share *share, const coffer__share_claim *claim)
{
    coffer__share_give_up(&share->table, share->me, claim);
    coffer__share_step(share, "drop");
}

void coffer__share_beat(coffer__share *share)
{
    atomic_fetch_add(&share->table.rank[share->me].beat, 1);
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

/* When all have entered, or have been struck off, nobody is left to call, and the system is not asked any more. Whoever
   cannot be let in now is tried again the next time. */
void coffer__share_tend(coffer__share *share)
{
    if (share->listener >= 0 && !coffer__share_is_complete(&share->table)) {
        uint32_t given = 0;
        (void)coffer__os_answer_all(share->listener, share->fd, &given);
    }
}

/* That the system lets go of a byte is certain when a process ends in whatever way, so no rank has to say goodbye. Where
   a byte belongs to a process, ranks of this one hold theirs together: they cannot be told apart by them, and live. */
static bool share_lives(const coffer__share *share, uint32_t rank)
{
    const bool together = share->holder < 0 && atomic_load(&share->table.rank[rank].process) == share->process;
    return together || coffer__os_byte_is_held(share->fd, rank);
}

/* Strikes off the dead, and, when nobody can enter any more, those who have not. A rank that is EMPTY holds no
   byte, so whether its process lives is not known; it is struck off here only when it could not enter any more, and
   otherwise when somebody has waited for it too long. */
static void share_look_around(coffer__share *share)
{
    const bool closed = coffer__share_is_closed(&share->table);
    for (uint32_t i = 0; i < share->table.is.ranks; i++) {
        const coffer__share_state state = coffer__share_state_of(&share->table, i);
        const bool dead =
            (state == COFFER__SHARE_ENTERING || state == COFFER__SHARE_IN) && i != share->me && !share_lives(share, i);
        if (dead || (state == COFFER__SHARE_EMPTY && closed)) {
            (void)coffer__share_strike(&share->table, i);
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
static bool share_is_too_slow(coffer__share *share, uint32_t rank, uint64_t waited)
{
    coffer__share_patience *patience = &share->patience[rank];
    const coffer__share_rank *other = &share->table.rank[rank];
    const uint32_t cursor = atomic_load(&other->cursor);
    const uint32_t beat = atomic_load(&other->beat);
    const bool entered = coffer__share_state_of(&share->table, rank) == COFFER__SHARE_IN;
    const bool same = cursor == patience->cursor && beat == patience->beat;
    const uint64_t slow = 4 * (uint64_t)share->stall_ms;
    *patience = (coffer__share_patience){ cursor, beat, same ? patience->still + waited : 0, patience->all + waited };
    return patience->still >= (entered ? share->stall_ms : share->enter_ms) ||
           (patience->all >= slow && patience->all > (coffer__os_milliseconds() - share->began) / 2);
}

/* What has not entered while this rank waited for `blamed` has been away as long, so it is struck off with it: else a
   load would wait for each of those who never come, one after the other. */
static void share_strike_absent(const coffer__share *share)
{
    for (uint32_t i = 0; i < share->table.is.ranks; i++) {
        if (coffer__share_state_of(&share->table, i) == COFFER__SHARE_EMPTY) {
            (void)coffer__share_strike(&share->table, i);
        }
    }
}

uint32_t coffer__share_seen(const coffer__share *share)
{
    return atomic_load(&share->table.head->event);
}

/* The threads that wait are counted before the event is compared, as coffer__share_signal wants it. The mutex is
   not held while it waits: the other threads of this process may pass cells, which may be what is waited for. How
   long this rank waits for itself is counted, too, since coffer__share_find asks for it, but it never strikes
   itself off. */
void coffer__share_wait(coffer__share *share, uint32_t seen, uint32_t blamed)
{
    coffer__share_head *head = share->table.head;
    const uint64_t began = coffer__os_milliseconds();
    atomic_fetch_add(&head->waiters, 1);
    coffer__os_word_await(&head->event, seen, SHARE_MOMENT);
    atomic_fetch_sub(&head->waiters, 1);
    coffer__share_tend(share);

    coffer__os_mutex_lock(&share->mutex);
    const uint64_t now = coffer__os_milliseconds();
    const uint64_t waited = now - began < SHARE_MOMENT ? now - began : SHARE_MOMENT;
    if (now - share->looked >= SHARE_LOOK) {
        share->looked = now;
        share_look_around(share);
    }
    if (blamed < share->table.is.ranks && share_is_too_slow(share, blamed, waited) && blamed != share->me) {
        if (coffer__share_state_of(&share->table, blamed) == COFFER__SHARE_EMPTY) {
            share_strike_absent(share);
        }
        (void)coffer__share_strike(&share->table, blamed);
    }
    coffer__os_mutex_unlock(&share->mutex);
    coffer__share_step(share, "wait");
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* Only the message crosses, without path and position, which have no space of their own in the memory. */
void coffer__share_fail(coffer__share *share, const coffer_error *error)
{
    coffer__share_tell(&share->table, share->me, error->message);
    coffer__share_step(share, "fail");
}

/* The text was made by the same library in another process, so it is fit to be shown; what cannot be in such a text
   is replaced all the same. This rank's own failure is reported by its own thread, with all that is known of it, so
   it is none here. */
coffer_status coffer__share_check(const coffer__share *share, coffer_error *err)
{
    char text[COFFER__SHARE_TEXT];
    uint32_t whose = 0;
    if (!coffer__share_told(&share->table, &whose, text) || whose == share->me) {
        return COFFER_OK;
    }
    for (char *at = text; *at != '\0'; at++) {
        *at = (unsigned char)*at < ' ' || *at == 0x7F ? '?' : *at;
    }
    return coffer__fail(err, COFFER_ERR_PEER, "rank %u of this load failed: %s", (uint64_t)whose, text);
}
