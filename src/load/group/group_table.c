/* SPDX-License-Identifier: Apache-2.0 */
#include "group_table.h"

#include "os.h"

#include <string.h>

/* The version of all of this is part of it. */
#define GROUP_MAGIC UINT32_C(0x43534801)
#define GROUP_RANKS_AT 1024
#define GROUP_WORDS_AT 4096

/* ---- the layout -------------------------------------------------------------------------------------------------- */

/* A slot that was given up costs a buffer. Each rank is struck off once, with the few slots that it had at that moment.
   */
#define GROUP_BUFFERS_PER_SLOT 4

/* At most half of the cells have a slot at a time. So no rank that wants the last ones has done before all have
   entered, and those who come late find the others still there, however small the model is. The lower bounds win
   over the memory that was asked for: four slots, so that one can be read while others are taken, and enough for
   the laps to fit into the 16 bits that a word has for them. Whether the result still fits is asked at the end,
   once for all bounds. */
bool coffer__group_shape_for(coffer__group_shape *shape, uint64_t memory)
{
    const uint64_t most = memory / COFFER__CELL;
    const uint64_t wanted = most < shape->cells / 2 ? most : shape->cells / 2;
    uint32_t slots = wanted < COFFER__GROUP_MAX_SLOTS ? (uint32_t)wanted : COFFER__GROUP_MAX_SLOTS;
    const uint32_t least = shape->cells / COFFER__GROUP_MAX_LAPS + 1;
    slots = slots < COFFER__GROUP_MIN_SLOTS ? COFFER__GROUP_MIN_SLOTS : slots;
    shape->slots = slots < least ? least : slots;
    shape->buffers = GROUP_BUFFERS_PER_SLOT * shape->slots;
    return shape->ranks <= COFFER__GROUP_RANKS && shape->slots <= COFFER__GROUP_MAX_SLOTS;
}

/* Where the bytes begin: at a huge page, after all words. Cells are fewer than 2^23, so nothing here overflows. A
   buffer is then aligned to a cell, so reading past the page cache goes right into it, and a huge page serves each. */
static uint64_t group_bytes_at(const coffer__group_shape *shape)
{
    const uint64_t words = (uint64_t)shape->slots + 2 * (uint64_t)shape->buffers + 2 * (uint64_t)shape->cells;
    const uint64_t end = GROUP_WORDS_AT + words * sizeof(uint32_t);
    return (end + COFFER__CELL - 1) / COFFER__CELL * COFFER__CELL;
}

uint64_t coffer__group_size(const coffer__group_shape *shape)
{
    return group_bytes_at(shape) + shape->buffers * COFFER__CELL;
}

/* The order of the words is part of what GROUP_MAGIC stands for: processes with different versions of the library
   must not take one thing for another. */
void coffer__group_view(coffer__group_table *table, const coffer__group_shape *shape, void *base)
{
    uint8_t *bytes = base;
    void *head = bytes;
    void *ranks = bytes + GROUP_RANKS_AT;
    void *words = bytes + GROUP_WORDS_AT;
    _Static_assert(sizeof(coffer__group_head) <= GROUP_RANKS_AT, "the head's room");
    _Static_assert(GROUP_RANKS_AT + COFFER__GROUP_RANKS * sizeof(coffer__group_rank) <= GROUP_WORDS_AT,
                   "the ranks' room");
    *table = (coffer__group_table){ .is = *shape, .head = head, .rank = ranks, .words = words };
    table->have = table->words + shape->slots;
    table->holders = table->have + shape->buffers;
    table->wanted = table->holders + shape->buffers;
    table->blocks = table->wanted + shape->cells;
    table->bytes_from = group_bytes_at(shape);
    table->bytes = bytes + table->bytes_from;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

typedef enum group_slot_state { GROUP_FREE = 0, GROUP_READING = 1, GROUP_READY = 2 } group_slot_state;

/* The layout of the word is in group_table.h. The lap is in the highest bits, which leaves it 16; that no cell has
   a higher one is checked where the shape is. */
static uint32_t group_word(uint32_t lap, uint32_t buffer, uint32_t rank, group_slot_state state)
{
    return lap << 16 | buffer << 7 | rank << 2 | (uint32_t)state;
}

static uint32_t group_lap(uint32_t word)
{
    return word >> 16;
}

static uint32_t group_buffer_of(uint32_t word)
{
    return word >> 7 & (COFFER__GROUP_MAX_BUFFERS - 1);
}

/* Whatever a peer has written there, the result is below COFFER__GROUP_RANKS, which the array of ranks has space for
   even where the group has fewer. */
static uint32_t group_reader(uint32_t word)
{
    return word >> 2 & (COFFER__GROUP_RANKS - 1);
}

static group_slot_state group_state(uint32_t word)
{
    return (group_slot_state)(word & 3);
}

/* All exchanges are sequentially consistent. The arguments of this file, of marks that are set before a word is
   looked at and the other way round, need one order of all of these steps that every process agrees on. */
static bool group_exchange(_Atomic(uint32_t) *word, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(word, &from, to);
}

static uint32_t group_bit(uint32_t rank)
{
    return UINT32_C(1) << rank;
}

/* No other process has the memory yet: it is passed only after this. So plain writes do for the constants, and each
   slot gets the buffer of its own number; those beyond are spare. */
void coffer__group_begin(const coffer__group_table *table, uint32_t maker)
{
    const coffer__group_shape *is = &table->is;
    coffer__group_head *head = table->head;
    for (uint32_t i = 0; i < is->slots; i++) {
        atomic_store(&table->words[i], group_word(0, i, 0, GROUP_FREE));
    }
    memcpy(head->identity, is->identity, sizeof head->identity);
    head->ranks = is->ranks;
    head->slots = is->slots;
    head->buffers = is->buffers;
    head->cells = is->cells;
    head->maker = maker;
    atomic_store(&head->spare, is->slots);
    head->magic = GROUP_MAGIC;
}

/* The other process may write to the memory still, so what was checked is what is kept. The head is copied once,
   and only the copy is checked and used. The bounds are those that the arithmetic of the layout relies on, and they
   keep a lap within its 16 bits and a buffer within its nine; the exact size then makes every index that is below
   them one within the map. */
bool coffer__group_recognise(coffer__group_shape *shape, const void *base, uint64_t size)
{
    coffer__group_head head;
    if (size < GROUP_WORDS_AT) {
        return false;
    }
    memcpy(&head, base, sizeof head);
    shape->slots = head.slots;
    shape->buffers = head.buffers;
    const bool same = head.magic == GROUP_MAGIC && head.ranks == shape->ranks && head.cells == shape->cells &&
                      memcmp(head.identity, shape->identity, sizeof head.identity) == 0;
    const bool fits = head.slots >= COFFER__GROUP_MIN_SLOTS && head.slots <= COFFER__GROUP_MAX_SLOTS &&
                      head.buffers >= head.slots && head.buffers <= COFFER__GROUP_MAX_BUFFERS &&
                      head.cells / head.slots < COFFER__GROUP_MAX_LAPS;
    return same && fits && coffer__group_size(shape) == size;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

coffer__group_state coffer__group_state_of(const coffer__group_table *table, uint32_t rank)
{
    return (coffer__group_state)atomic_load(&table->rank[rank].state);
}

/* Only one of several that try the same step has done it. */
bool coffer__group_move(const coffer__group_table *table, uint32_t rank, coffer__group_state from,
                        coffer__group_state to)
{
    return group_exchange(&table->rank[rank].state, (uint32_t)from, (uint32_t)to);
}

/* A rank that was about to tell of its failure has told nothing, and must not keep others from it. Its state may
   move on between two of these attempts, from entering to being in; then the later attempts fail, nothing is struck
   off, and whoever wanted that will want it again after another wait. */
bool coffer__group_strike(const coffer__group_table *table, uint32_t rank)
{
    const bool struck = coffer__group_move(table, rank, COFFER__GROUP_IN, COFFER__GROUP_OUT) ||
                        coffer__group_move(table, rank, COFFER__GROUP_ENTERING, COFFER__GROUP_OUT) ||
                        coffer__group_move(table, rank, COFFER__GROUP_EMPTY, COFFER__GROUP_OUT);
    if (struck) {
        (void)group_exchange(&table->head->failed, rank + 1, 0);
        atomic_fetch_add(&table->head->counts.strikes, 1);
        coffer__group_signal(table);
    }
    return struck;
}

/* Once true it stays so, as no rank comes back from either state. */
static bool group_has_left(const coffer__group_table *table, uint32_t rank)
{
    const coffer__group_state state = coffer__group_state_of(table, rank);
    return state == COFFER__GROUP_OUT || state == COFFER__GROUP_DONE;
}

/* A maker that is no rank of this group was written by somebody else; then nobody is expected to answer, either. */
bool coffer__group_is_closed(const coffer__group_table *table)
{
    const uint32_t maker = table->head->maker;
    return maker >= table->is.ranks || group_has_left(table, maker);
}

/* No rank goes back to one of these two states, so it does not matter that the ranks are looked at one after the
   other. */
bool coffer__group_is_complete(const coffer__group_table *table)
{
    for (uint32_t i = 0; i < table->is.ranks; i++) {
        const coffer__group_state state = coffer__group_state_of(table, i);
        if (state == COFFER__GROUP_EMPTY || state == COFFER__GROUP_ENTERING) {
            return false;
        }
    }
    return true;
}

/* Ranks write what they want before they are IN, so once the group is complete no rank that counts adds anything to
   these words. One that was struck off while it entered may still do so; then a cell is read for all that one rank
   alone wants, which is harmless. */
bool coffer__group_is_own(const coffer__group_table *table, uint32_t me, uint32_t cell)
{
    return coffer__group_is_complete(table) && atomic_load(&table->wanted[cell]) == group_bit(me);
}

/* Only the cell's own lap counts. A slot with a later one had the cell before, and does not have it now. */
bool coffer__group_is_begun(const coffer__group_table *table, uint32_t cell)
{
    const uint32_t word = atomic_load(&table->words[cell % table->is.slots]);
    return group_lap(word) == cell / table->is.slots && group_state(word) != GROUP_FREE;
}

/* A rank writes its cursor before it is IN, so the state is read first. A rank that is not IN yet counts as 0,
   because it may want anything. COFFER__GROUP_NOBODY is above every cell, so one that has left never has the lowest
   cursor. */
static uint32_t group_cursor(const coffer__group_table *table, uint32_t rank)
{
    const coffer__group_state state = coffer__group_state_of(table, rank);
    if (state == COFFER__GROUP_OUT || state == COFFER__GROUP_DONE) {
        return COFFER__GROUP_NOBODY;
    }
    return state == COFFER__GROUP_IN ? atomic_load(&table->rank[rank].cursor) : 0;
}

/* The ranks are looked at one after the other, so the result may be too low by the time that it is used, but never
   too high: cursors only rise. Too low only means that a cell is claimed a little later. */
uint32_t coffer__group_floor(const coffer__group_table *table, uint32_t *whose)
{
    uint32_t floor = table->is.cells;
    *whose = COFFER__GROUP_NOBODY;
    for (uint32_t i = 0; i < table->is.ranks; i++) {
        const uint32_t cursor = group_cursor(table, i);
        if (cursor < floor) {
            floor = cursor;
            *whose = i;
        }
    }
    return floor;
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

/* Whether a rank still has to take the cell. Ranks that have not entered yet have not said so. Its cursor may pass
   the cell right after this was asked; then the cell is read for nobody, which costs time and nothing else. */
static bool group_is_awaited(const coffer__group_table *table, uint32_t cell, uint32_t wanted)
{
    for (uint32_t i = 0; i < table->is.ranks; i++) {
        if ((wanted & group_bit(i)) != 0 && coffer__group_state_of(table, i) == COFFER__GROUP_IN &&
            atomic_load(&table->rank[i].cursor) <= cell) {
            return true;
        }
    }
    return false;
}

/* What is read of a cell: nothing, where one rank alone wants it, since that one reads it right to its destination.
   Before all have said what they want it is all of the cell. That a rank still has to take the cell is asked,
   because a cell that all have passed would be read for nobody. */
static uint32_t group_blocks_to_read(const coffer__group_table *table, uint32_t cell, bool complete)
{
    const uint32_t wanted = atomic_load(&table->wanted[cell]);
    const bool sharded = (wanted & (wanted - 1)) != 0;
    if (wanted == 0 || (complete && !sharded) || !group_is_awaited(table, cell, wanted)) {
        return 0;
    }
    return complete ? atomic_load(&table->blocks[cell]) : COFFER__GROUP_ALL_BLOCKS;
}

/* Puts a fresh buffer into a slot that this rank has claimed. Buffers are only ever counted up, never given back:
   which of the old ones somebody still writes to cannot be known. That the counter goes beyond the number of
   buffers is harmless, since everybody compares it. The last exchange fails when this rank was struck off and its
   claim taken over, and then the fresh buffer is lost, which is what the spare ones are for. */
static bool group_renew(const coffer__group_table *table, uint32_t me, uint32_t lap, _Atomic(uint32_t) *word,
                        uint32_t *buffer)
{
    const uint32_t fresh = atomic_fetch_add(&table->head->spare, 1);
    if (fresh >= table->is.buffers) {
        atomic_store(&table->head->dissolved, 1);
        coffer__group_signal(table);
        return false;
    }
    const uint32_t old = *buffer;
    *buffer = fresh;
    return group_exchange(word, group_word(lap, old, me, GROUP_READING), group_word(lap, fresh, me, GROUP_READING));
}

/*
 * Claims one cell, whose turn it is. The claim comes first and the fresh buffer second, where one is needed: of several
 * ranks that would take over the same claim only one takes a buffer. A rank that dies in between has claimed a slot
 * with a buffer that it has not written to; that is taken over like any other.
 *
 * The marks are looked at after the exchange. A rank that marks the buffer later finds that the word is another one,
 * and lets go; one that has marked it before is seen here. That is why a buffer with a mark is not filled again: the
 * rank that was struck off may still be copying from it. Its bytes must stay then, so it is not given to be discarded
 * either; a buffer of a claim that was taken over has none that anybody reads.
 */
static bool group_claim(const coffer__group_table *table, uint32_t me, coffer__group_claim *claim)
{
    const uint32_t lap = claim->cell / table->is.slots;
    _Atomic(uint32_t) *word = &table->words[claim->cell % table->is.slots];
    const uint32_t was = atomic_load(word);
    const bool reading = group_state(was) == GROUP_READING;
    const bool taken = group_lap(was) > lap || (group_lap(was) == lap && group_state(was) == GROUP_READY);
    claim->buffer = group_buffer_of(was);
    if (taken || (reading && !group_has_left(table, group_reader(was))) || claim->buffer >= table->is.buffers) {
        return false;
    }
    if (!group_exchange(word, was, group_word(lap, claim->buffer, me, GROUP_READING))) {
        return false;
    }
    const bool held = atomic_load(&table->holders[claim->buffer]) != 0;
    if (!reading && !held) {
        return true;
    }
    claim->abandoned = held ? COFFER__GROUP_NOBODY : claim->buffer;
    if (reading) {
        atomic_fetch_add(&table->head->counts.takeovers, 1);
    }
    return group_renew(table, me, lap, word, &claim->buffer);
}

/* Only cells from the floor to a lap above it are considered, which is the rule that a slot is used again when
   nobody needs what it has: the cell that had the slot before is a lap lower, and so below every cursor. `complete`
   is read before the cells are looked at, so that one rank alone wants a cell is not concluded before all have said
   what they want. This rank's own state comes late, as one that was struck off must not begin anything. */
bool coffer__group_claim_any(const coffer__group_table *table, uint32_t me, coffer__group_claim *claim)
{
    const bool complete = coffer__group_is_complete(table);
    uint32_t whose = 0;
    const uint32_t floor = coffer__group_floor(table, &whose);
    const uint32_t left = table->is.cells - floor;
    const uint32_t end = floor + (left < table->is.slots ? left : table->is.slots);
    if (coffer__group_state_of(table, me) != COFFER__GROUP_IN || atomic_load(&table->head->dissolved) != 0) {
        return false;
    }
    for (uint32_t cell = floor; cell < end; cell++) {
        *claim = (coffer__group_claim){ .cell = cell, .abandoned = COFFER__GROUP_NOBODY };
        claim->blocks = group_blocks_to_read(table, cell, complete);
        if (claim->blocks != 0 && group_claim(table, me, claim)) {
            return true;
        }
    }
    return false;
}

uint8_t *coffer__group_buffer(const coffer__group_table *table, uint32_t buffer)
{
    return table->bytes + (size_t)buffer * COFFER__CELL;
}

/* Each step clears the lowest bit that is set. */
static uint32_t group_blocks_in(uint32_t blocks)
{
    uint32_t count = 0;
    for (; blocks != 0; blocks &= blocks - 1) {
        count++;
    }
    return count;
}

/* From the claim's word to another: only this rank does that, unless it was struck off. What the buffer has is of
   the buffer, not of the slot, so a rank that comes too late changes nothing that others look at. The whole word is
   compared, so an end that comes too late, after the cell was taken over with another buffer, changes nothing. */
static bool group_end_claim(const coffer__group_table *table, uint32_t me, const coffer__group_claim *claim,
                            group_slot_state state)
{
    const uint32_t lap = claim->cell / table->is.slots;
    const bool ended =
        group_exchange(&table->words[claim->cell % table->is.slots], group_word(lap, claim->buffer, me, GROUP_READING),
                       group_word(lap, claim->buffer, me, state));
    if (ended) {
        coffer__group_signal(table);
    }
    return ended;
}

/* What the buffer has is stored before the word says READY, and who reads it looks at the word first. If the claim
   was taken over meanwhile, the buffer is one that is never used again, so the store is seen by nobody. */
bool coffer__group_finish(const coffer__group_table *table, uint32_t me, const coffer__group_claim *claim)
{
    atomic_store(&table->have[claim->buffer], claim->blocks);
    atomic_fetch_add(&table->head->counts.reads, 1);
    atomic_fetch_add(&table->head->counts.blocks, group_blocks_in(claim->blocks));
    return group_end_claim(table, me, claim, GROUP_READY);
}

/* The buffer stays with the slot: whoever claims the cell next fills the same one. */
void coffer__group_give_up(const coffer__group_table *table, uint32_t me, const coffer__group_claim *claim)
{
    (void)group_end_claim(table, me, claim, GROUP_FREE);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* Who is in the way of a cell whose slot has `word`: the rank that reads there, or the one that keeps the floor
   low. When the floor is high enough nobody is to blame: the cell may be claimed at any moment, by this rank as
   well. */
static uint32_t group_blame(const coffer__group_table *table, uint32_t cell, uint32_t word)
{
    uint32_t whose = COFFER__GROUP_NOBODY;
    if (group_state(word) == GROUP_READING) {
        whose = group_reader(word);
        return whose < table->is.ranks ? whose : COFFER__GROUP_NOBODY;
    }
    return cell - coffer__group_floor(table, &whose) >= table->is.slots ? whose : COFFER__GROUP_NOBODY;
}

/* The mark is set before the look at the word and at the own state that counts. `marks` counts for each buffer how
   many threads of this process hold it, because the shared word has only one bit for all of them; the caller has
   the mutex, so the count and the bit change together. If the word has changed, the buffer may have been given to
   another cell after the caller looked; if this rank is no longer IN, others may have looked for its mark before it
   was set. */
static bool group_hold(const coffer__group_table *table, uint32_t me, uint32_t cell, uint32_t word, uint32_t *marks)
{
    const uint32_t buffer = group_buffer_of(word);
    marks[buffer]++;
    atomic_fetch_or(&table->holders[buffer], group_bit(me));
    if (atomic_load(&table->words[cell % table->is.slots]) == word &&
        coffer__group_state_of(table, me) == COFFER__GROUP_IN) {
        return true;
    }
    coffer__group_release(table, me, marks, buffer);
    return false;
}

/* The last thread of this process that holds the buffer clears the mark for all of them. */
void coffer__group_release(const coffer__group_table *table, uint32_t me, uint32_t *marks, uint32_t buffer)
{
    marks[buffer]--;
    if (marks[buffer] == 0) {
        atomic_fetch_and(&table->holders[buffer], ~group_bit(me));
    }
}

/* A lap that is higher than the cell's means that the others went on without this rank, which happens only when it
   was struck off or has passed the cell. The blocks are compared although a claim has all that is wanted: the words
   come from other processes, and a rank that finds too few there reads the cell by itself. */
coffer__group_view_of coffer__group_look(const coffer__group_table *table, uint32_t me, uint32_t cell, uint32_t blocks,
                                         uint32_t *marks, uint32_t *buffer, uint32_t *blamed)
{
    const uint32_t lap = cell / table->is.slots;
    const uint32_t word = atomic_load(&table->words[cell % table->is.slots]);
    const bool alone = coffer__group_state_of(table, me) != COFFER__GROUP_IN ||
                       atomic_load(&table->head->dissolved) != 0 || group_buffer_of(word) >= table->is.buffers;
    *blamed = COFFER__GROUP_NOBODY;
    if (alone || group_lap(word) > lap) {
        return COFFER__GROUP_GONE;
    }
    if (group_lap(word) < lap || group_state(word) != GROUP_READY) {
        *blamed = group_blame(table, cell, word);
        return COFFER__GROUP_COMING;
    }
    *buffer = group_buffer_of(word);
    if (!group_hold(table, me, cell, word, marks)) {
        return COFFER__GROUP_GONE;
    }
    if ((blocks & ~atomic_load(&table->have[*buffer])) != 0) {
        coffer__group_release(table, me, marks, *buffer);
        return COFFER__GROUP_GONE;
    }
    return COFFER__GROUP_HERE;
}

/* ---- everybody --------------------------------------------------------------------------------------------------- */

/* Waking costs a system call, so it is left out while nobody waits. Whoever waits has counted itself before it
   compares the event with what it saw, so one of the two sees the other. */
void coffer__group_signal(const coffer__group_table *table)
{
    atomic_fetch_add(&table->head->event, 1);
    if (atomic_load(&table->head->waiters) != 0) {
        coffer__os_word_wake(&table->head->event);
    }
}

/* The text lies there before the word says so. The first exchange decides whose failure it is, and makes this rank
   the only one that writes the text. If it is struck off in between, its number is taken out again and the second
   exchange fails, so a text that is half written is never shown as told. */
void coffer__group_tell(const coffer__group_table *table, uint32_t me, const char *text)
{
    coffer__group_head *head = table->head;
    if (!group_exchange(&head->failed, 0, me + 1)) {
        return;
    }
    const size_t length = strlen(text);
    const size_t served = length < COFFER__GROUP_TEXT - 1 ? length : COFFER__GROUP_TEXT - 1;
    memcpy(head->text, text, served);
    head->text[served] = '\0';
    (void)group_exchange(&head->failed, me + 1, (me + 1) | COFFER__GROUP_REPORTED);
    coffer__group_signal(table);
}

/* The text is copied before it is used, and ended in the copy, since another process could still write to it. */
bool coffer__group_reported(const coffer__group_table *table, uint32_t *whose, char text[COFFER__GROUP_TEXT])
{
    const uint32_t failed = atomic_load(&table->head->failed);
    if ((failed & COFFER__GROUP_REPORTED) == 0) {
        return false;
    }
    *whose = (failed & (COFFER__GROUP_REPORTED - 1)) - 1;
    memcpy(text, table->head->text, COFFER__GROUP_TEXT);
    text[COFFER__GROUP_TEXT - 1] = '\0';
    return true;
}
