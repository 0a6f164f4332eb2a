/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's membership in a group of processes that load the same files together, so that each cell is read once. It
 * says what this rank wants, looks for cells that others have read, claims cells to read for all, and passes what it
 * has taken. group_table.h has the protocol; here are this process's part of it, waiting, and who is struck off when.
 *
 *   group_enter.c   entering: the name under which the first rank answers, and the memory that it passes
 *   group.c         everything after that
 *
 * Any number of threads of the process may use it at once. Everything that can be wrong with a group, from no shared
 * memory to a peer that answers nonsense, means that there is no membership: then the process reads by itself.
 */
#ifndef COFFER_LOAD_GROUP_H
#define COFFER_LOAD_GROUP_H

#include "coffer.h"
#include "group_table.h"
#include "os.h"
#include "source.h"

typedef struct coffer__group_options {
    const coffer_allocator *allocator; /* any number of threads may use it at once */
    uint64_t identity;                 /* of the files: a number of which versions of which files they are */
    const char *group;                 /* NULL is a group, too */
    uint32_t ranks;                    /* at least 2 */
    uint32_t rank;
    uint64_t memory;        /* bytes in flight, of all ranks together */
    const uint32_t *wanted; /* of each cell, numbered through all files, which blocks this rank wants; for the call */
    size_t cells;
    uint32_t enter_ms;                         /* how long this rank waits for others that have not entered */
    uint32_t stall_ms;                         /* how long this rank waits for another of which nothing changes */
    void (*step)(void *ctx, const char *what); /* called after each step of the protocol, for tests; NULL: nobody */
    void *step_ctx;
} coffer__group_options;

typedef struct coffer__group coffer__group; /* of chunk_source.h, too */

/* What this rank has waited for another one. */
typedef struct coffer__group_patience {
    uint32_t cursor; /* of the other one when it was looked at last, … */
    uint32_t beat;   /* … and its beat */
    uint64_t still;  /* milliseconds since any of them changed */
    uint64_t all;    /* milliseconds in all */
} coffer__group_patience;

struct coffer__group {
    coffer_allocator allocator;
    coffer__group_table table;
    coffer__os_map map;
    int fd;       /* of the memory */
    int holder;   /* of this rank's byte; -1: see coffer__os_hold_byte */
    int listener; /* of the rank that made it; -1: none */
    uint32_t me;
    uint32_t process;
    uint32_t enter_ms;
    uint32_t stall_ms;
    uint64_t began; /* by coffer__os_milliseconds */
    void (*step)(void *ctx, const char *what);
    void *step_ctx;

    coffer__mutex mutex; /* guards what follows */
    uint8_t *cells;      /* of each cell what this rank has still to do with it; see group.c */
    size_t cell_count;
    uint32_t cursor;                           /* as it was published */
    uint64_t looked;                           /* when it was looked who lives */
    uint32_t marks[COFFER__GROUP_MAX_BUFFERS]; /* how many threads hold each buffer */
    coffer__group_patience patience[COFFER__GROUP_RANKS];
};

/* ---- group_enter.c ----------------------------------------------------------------------------------------------- */

/* Enters the group, or makes it. *share NULL: there is none for this process, and that is no failure. It may take as
   long as enter_ms; `watch` is asked meanwhile. The only failure is COFFER_ERR_CANCELLED. */
coffer_status coffer__group_enter(coffer__group **group, const coffer__group_options *options,
                                  const coffer__watch *watch, coffer_error *err);
/* What the options come to: the group's shape, and the name by which it is found. False: it cannot be shared. */
bool coffer__group_shape_of(const coffer__group_options *options, coffer__group_shape *shape);
#define COFFER__GROUP_NAME 100
void coffer__group_name(char name[COFFER__GROUP_NAME], const coffer__group_shape *shape, unsigned session);
/* Leaves it, without any claim. NULL is allowed. */
void coffer__group_leave(coffer__group *group);

/* ---- group.c ----------------------------------------------------------------------------------------------------- */

/* For group_enter.c: says what this rank wants, and where its cursor is. */
void coffer__group_want(coffer__group *group, const uint32_t *wanted);
void coffer__group_step(const coffer__group *group, const char *what);

/* Asks for a cell that this rank wants, once for each. False: this process has to read it by itself, and the others do
   not wait for it. */
bool coffer__group_ask(coffer__group *group, uint32_t cell);
/* Looks for a cell that was asked for; see coffer__group_look. After COFFER__GROUP_GONE, or when `bytes` are not needed
   any more, the cell is to be passed. */
coffer__group_view_of coffer__group_find(coffer__group *group, uint32_t cell, uint32_t blocks, uint32_t *buffer,
                                         uint32_t *blamed);
/* This rank has done with a cell that was asked for; `buffer` is what was found, COFFER__GROUP_NOBODY: nothing was. */
void coffer__group_pass(coffer__group *group, uint32_t cell, uint32_t buffer);
/* A cell that this rank is to read for all, or false. */
bool coffer__group_claim_next(coffer__group *group, coffer__group_claim *claim);
/* The bytes of a claim are in the buffer. */
void coffer__group_bring(coffer__group *group, const coffer__group_claim *claim);
void coffer__group_release_claim(coffer__group *group, const coffer__group_claim *claim);

/* What coffer__group_wait compares with; to be asked before looking. */
uint32_t coffer__group_seen(const coffer__group *group);
/* Waits a moment at most, or until something has changed since `seen`, and looks after the group meanwhile: lets ranks
   in, and strikes off those that are dead. `blamed` is the rank that is in the way: it is struck off when its time is
   over. */
void coffer__group_wait(coffer__group *group, uint32_t seen, uint32_t blamed);
/* The same without waiting: lets ranks in. To be called now and then by whoever does not wait. */
void coffer__group_tend(coffer__group *group);
/* This rank is at work with what it does not share. */
void coffer__group_beat(coffer__group *group);
/* Tells the others that this rank has failed. Not for one that was cancelled: that just leaves. */
void coffer__group_fail(coffer__group *group, const coffer_error *error);
/* COFFER_ERR_PEER when another rank has failed, else COFFER_OK. */
coffer_status coffer__group_check(const coffer__group *group, coffer_error *err);

#endif
