/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that processes of one load share, and the protocol by which they do. This file knows no sockets, no files
 * and no time: it is the words in that memory, and who may change which of them from what to what.
 *
 *   head      constants, what happened, the first failure
 *   ranks     of each process a state and a cursor
 *   slots     a word each
 *   buffers   of each, which of its blocks have bytes and which ranks read it
 *   cells     of each, which ranks want it and which of its blocks
 *   bytes     COFFER__CELL for each buffer
 *
 * All cells of all files are numbered, file after file. Cell c passes through slot c % slots in lap c / slots, so a
 * slot needs no allocation, and its word alone says which cell it has. Every rank takes the cells that it wants in
 * ascending order; its cursor is the first that it has not finished.
 *
 *   slot word    lap (16 bits) | buffer (9) | rank (5) | state (2)
 *
 *      FREE ──claim──► READING by r ──finish──► READY ──claim, a later lap──► READING by s …
 *        ▲                │    │
 *        └───give up──────┘    └──claim by s, when r is OUT: the same lap, another buffer──► READING by s
 *
 *   claim     by any rank that is IN, for a cell that some rank wants. Lap 0 is claimed from FREE; a later lap only when
 *             the cursor of every rank that is not OUT or DONE is beyond the slot's cells of earlier laps, that is, above
 *             c - slots. Cursors only rise and ranks only leave, so what was true once stays true.
 *   finish    by r alone. If r was struck off meanwhile the word is not what r expects, and nothing happens.
 *   give up   by r alone: nobody will write to the buffer for it any more.
 *
 *   rank state   EMPTY ──► ENTERING ──► IN ──► DONE          each by the rank itself
 *                  └─────────┴──────────┴───► OUT            by any other rank, for ever
 *
 * Each step is one compare-exchange of one word, so a rank that dies or stops between two steps leaves a state that is
 * one of these, and this is what the others do:
 *
 *   EMPTY, ENTERING   its cursor counts as 0, so after one lap the others wait for it; then they strike it off. When the
 *                     maker of the memory has left nobody can enter any more, and they need not wait
 *   IN                the others wait when the floor, the lowest cursor, or a slot that it reads, is in their way. When it
 *                     is dead, or nothing of it changed for long enough, they strike it off
 *   OUT               its cursor counts no more, its claims may be taken over
 *   DONE              the same; it has no claims
 *
 * A rank that was struck off need not be dead. It may still write to the buffer that it claimed, or copy from one. So
 * the buffer of a claim that is taken over is never used again; and who copies marks the buffer first (hold), then
 * looks whether it is still IN, while who wants to fill a buffer looks at the marks after the rank was struck off: at
 * least one of them sees the other. A buffer with a mark of a rank that is OUT is not used again either. There are more
 * buffers than slots for this; what is never used takes no memory. When none is left the group is DISSOLVED, and
 * everybody reads alone.
 *
 * What a peer writes is believed as far as the bytes go, since it is a process of the same user, but no number from the
 * shared memory is used as an index before it was compared with what this process knows.
 */
#ifndef COFFER_LOAD_GROUP_TABLE_H
#define COFFER_LOAD_GROUP_TABLE_H

#include "chunk.h"
#include "coffer.h"

#include <stdatomic.h>

/* A cell's blocks, as many as a word has bits. */
#define COFFER__GROUP_BLOCK (COFFER__CELL / 32)
#define COFFER__GROUP_ALL_BLOCKS UINT32_MAX
/* A word has a bit for each rank. */
#define COFFER__GROUP_RANKS 32
#define COFFER__GROUP_MIN_SLOTS 4
#define COFFER__GROUP_MAX_SLOTS 128
#define COFFER__GROUP_MAX_LAPS 65536
#define COFFER__GROUP_MAX_BUFFERS 512
#define COFFER__GROUP_MAX_CELLS ((uint64_t)COFFER__GROUP_MAX_LAPS * COFFER__GROUP_MAX_SLOTS)
#define COFFER__GROUP_NOBODY UINT32_MAX
#define COFFER__GROUP_TEXT 512

typedef enum coffer__group_state {
    COFFER__GROUP_EMPTY = 0,
    COFFER__GROUP_ENTERING = 1,
    COFFER__GROUP_IN = 2,
    COFFER__GROUP_DONE = 3,
    COFFER__GROUP_OUT = 4
} coffer__group_state;

/* A line of the processor's cache each, since every rank writes to its own all the time. */
typedef struct coffer__group_rank {
    _Atomic(uint32_t) state;
    _Atomic(uint32_t) cursor;
    _Atomic(uint32_t) beat;    /* changes with whatever the rank does */
    _Atomic(uint32_t) process; /* a number of the process: ranks may be in the same one */
    uint32_t unused[12];
} coffer__group_rank;

/* What happened, for tests and statistics. They wrap. */
typedef struct coffer__group_counts {
    _Atomic(uint32_t) reads;     /* claims that were finished */
    _Atomic(uint32_t) blocks;    /* blocks that were read for them */
    _Atomic(uint32_t) strikes;   /* ranks that were struck off */
    _Atomic(uint32_t) takeovers; /* claims that were taken over */
} coffer__group_counts;

/* The constants are those of coffer__group_shape. */
typedef struct coffer__group_head {
    uint32_t magic;
    uint32_t identity[4]; /* which files and which group these are */
    uint32_t ranks;
    uint32_t slots;
    uint32_t buffers;
    uint32_t cells;
    _Atomic(uint32_t) event;     /* changes with whatever somebody may wait for */
    _Atomic(uint32_t) waiters;   /* threads that wait for it; too many, once one of them was killed */
    uint32_t maker;              /* the rank that answers those who want to enter */
    _Atomic(uint32_t) dissolved; /* there are no buffers left */
    _Atomic(uint32_t) spare;     /* buffers below it are or were in use */
    _Atomic(uint32_t) failed;    /* 0; a rank + 1 that writes `text`; the same + COFFER__GROUP_REPORTED when it has */
    char text[COFFER__GROUP_TEXT];
    coffer__group_counts counts;
} coffer__group_head;

#define COFFER__GROUP_REPORTED 256

/* The constants of a group, from which the layout follows. All ranks come to the same cells and ranks by themselves;
   slots and buffers are the first rank's choice. */
typedef struct coffer__group_shape {
    uint32_t identity[4];
    uint32_t ranks;
    uint32_t slots;
    uint32_t buffers;
    uint32_t cells;
} coffer__group_shape;

/* One process's view of the memory. The numbers are its own copies, which the others cannot change. */
typedef struct coffer__group_table {
    coffer__group_shape is;
    coffer__group_head *head;
    coffer__group_rank *rank;
    _Atomic(uint32_t) *words;   /* of slots */
    _Atomic(uint32_t) *have;    /* of buffers: blocks */
    _Atomic(uint32_t) *holders; /* of buffers: ranks */
    _Atomic(uint32_t) *wanted;  /* of cells: ranks */
    _Atomic(uint32_t) *blocks;  /* of cells: blocks that any of these ranks wants */
    uint8_t *bytes;
    uint64_t bytes_from; /* where the bytes begin in the memory */
} coffer__group_table;

/* A cell that is this rank's to read. */
typedef struct coffer__group_claim {
    uint32_t cell;
    uint32_t blocks; /* those that are to be read */
    uint32_t buffer;
    uint32_t abandoned; /* a buffer that nobody may use again, and whose bytes nobody reads; or COFFER__GROUP_NOBODY */
} coffer__group_claim;

/* ---- the layout -------------------------------------------------------------------------------------------------- */

/* Slots and buffers for so many bytes in flight. False when there are too many ranks or cells for the words above. */
bool coffer__group_shape_for(coffer__group_shape *shape, uint64_t memory);
/* All of the memory, in bytes. */
uint64_t coffer__group_size(const coffer__group_shape *shape);
/* A view of memory of that size that begins at `base`, a page's first byte. */
void coffer__group_view(coffer__group_table *table, const coffer__group_shape *shape, void *base);
/* Fills fresh memory, all zero, which `maker` has made. */
void coffer__group_begin(const coffer__group_table *table, uint32_t maker);
/* Takes the shape of memory of `size` bytes that another process has filled. False when it is not for the ranks, cells
   and identity in *shape, or is not such memory at all. */
bool coffer__group_recognise(coffer__group_shape *shape, const void *base, uint64_t size);

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

coffer__group_state coffer__group_state_of(const coffer__group_table *table, uint32_t rank);
/* From one state to another, if it still is in the first. */
bool coffer__group_move(const coffer__group_table *table, uint32_t rank, coffer__group_state from,
                        coffer__group_state to);
/* Strikes a rank off, whatever it does; false when it has left already. */
bool coffer__group_strike(const coffer__group_table *table, uint32_t rank);
/* Whether nobody can enter any more, since the maker has left. */
bool coffer__group_is_closed(const coffer__group_table *table);
/* Whether all ranks have said what they want, or left. Once true it stays so. */
bool coffer__group_is_complete(const coffer__group_table *table);
/* Whether this rank alone wants the cell. Only where the group is complete; then it is final. */
bool coffer__group_is_own(const coffer__group_table *table, uint32_t me, uint32_t cell);
/* Whether a slot has the cell, or somebody reads it there. */
bool coffer__group_is_begun(const coffer__group_table *table, uint32_t cell);
/* The lowest cursor of the ranks that count, and whose it is; COFFER__GROUP_NOBODY, and the number of cells, when none
   does. */
uint32_t coffer__group_floor(const coffer__group_table *table, uint32_t *whose);

/* ---- slots ------------------------------------------------------------------------------------------------------- */

/* Claims the first cell that nobody has and that is wanted by more than one rank, or may be. False: there is none now.
   */
bool coffer__group_claim_any(const coffer__group_table *table, uint32_t me, coffer__group_claim *claim);
uint8_t *coffer__group_buffer(const coffer__group_table *table, uint32_t buffer);
/* The bytes are in the buffer. False when this rank was struck off meanwhile. */
bool coffer__group_finish(const coffer__group_table *table, uint32_t me, const coffer__group_claim *claim);
/* They will not be, and nobody writes to the buffer any more. */
void coffer__group_give_up(const coffer__group_table *table, uint32_t me, const coffer__group_claim *claim);

typedef enum coffer__group_view_of {
    COFFER__GROUP_HERE,   /* *buffer has the bytes, and is held: coffer__group_release */
    COFFER__GROUP_COMING, /* nobody has read it yet */
    COFFER__GROUP_GONE    /* this rank has to read it by itself */
} coffer__group_view_of;
/* Looks for a cell that this rank wants and that is not below its cursor. *blamed becomes the rank that is in the way
   of one that is coming; COFFER__GROUP_NOBODY: none is. `marks`, one for each buffer, says how often this rank holds
   it, and is counted up here. */
coffer__group_view_of coffer__group_look(const coffer__group_table *table, uint32_t me, uint32_t cell, uint32_t blocks,
                                         uint32_t *marks, uint32_t *buffer, uint32_t *blamed);
void coffer__group_release(const coffer__group_table *table, uint32_t me, uint32_t *marks, uint32_t buffer);

/* ---- everybody --------------------------------------------------------------------------------------------------- */

/* Something changed that others may wait for. */
void coffer__group_signal(const coffer__group_table *table);
/* Tells the others of this rank's failure; the first one counts. */
void coffer__group_tell(const coffer__group_table *table, uint32_t me, const char *text);
/* The failure of another rank, and whose; false: none is told. `text` gets an end. */
bool coffer__group_reported(const coffer__group_table *table, uint32_t *whose, char text[COFFER__GROUP_TEXT]);

#endif
