/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's membership in a group of processes that load the same files together, so that each cell is read once. It
 * says what this rank wants, looks for cells that others have read, claims cells to read for all, and passes what it has
 * taken. share_table.h has the protocol; here are this process's part of it, waiting, and who is struck off when.
 *
 *   share_enter.c   entering: the name under which the first rank answers, and the memory that it passes
 *   share.c         everything after that
 *
 * Any number of threads of the process may use it at once. Everything that can be wrong with a group, from no shared
 * memory to a peer that answers nonsense, means that there is no membership: then the process reads by itself.
 */
#ifndef COFFER_LOAD_SHARE_H
#define COFFER_LOAD_SHARE_H

#include "coffer.h"
#include "os.h"
#include "share_table.h"
#include "source.h"

typedef struct coffer__share_options {
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
} coffer__share_options;

typedef struct coffer__share coffer__share; /* of chunk source.h, too */

/* What this rank has waited for another one. */
typedef struct coffer__share_patience {
    uint32_t cursor; /* of the other one when it was looked at last */
    uint32_t beat;   /* the beat of the other one when it was looked at last */
    uint64_t still;  /* milliseconds since any of them changed */
    uint64_t all;    /* milliseconds in all */
} coffer__share_patience;

struct coffer__share {
    coffer_allocator allocator;
    coffer__share_table table;
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
    uint8_t *cells;      /* of each cell what this rank has still to do with it; see share.c */
    size_t cell_count;
    uint32_t cursor;                           /* as it was published */
    uint64_t looked;                           /* when it was looked who lives */
    uint32_t marks[COFFER__SHARE_MAX_BUFFERS]; /* how many threads hold each buffer */
    coffer__share_patience patience[COFFER__SHARE_RANKS];
};

/* ---- share_enter.c ----------------------------------------------------------------------------------------------- */

/* Enters the group, or makes it. *share NULL: there is none for this process, and that is no failure. It may take as long
   as enter_ms; `watch` is asked meanwhile. The only failure is COFFER_ERR_CANCELLED. */
coffer_status coffer__share_enter(coffer__share **share, const coffer__share_options *options,
                                  const coffer__watch *watch, coffer_error *err);
/* What the options come to: the group's shape, and the name by which it is found. False: it cannot be shared. */
bool coffer__share_shape_of(const coffer__share_options *options, coffer__share_shape *shape);
#define COFFER__SHARE_NAME 100
void coffer__share_name(char name[COFFER__SHARE_NAME], const coffer__share_shape *shape, unsigned session);
/* Leaves it, without any claim. NULL is allowed. */
void coffer__share_leave(coffer__share *share);

/* ---- share.c ----------------------------------------------------------------------------------------------------- */

/* For share_enter.c: says what this rank wants, and where its cursor is. */
void coffer__share_want(coffer__share *share, const uint32_t *wanted);
void coffer__share_step(const coffer__share *share, const char *what);

/* Asks for a cell that this rank wants, once for each. False: this process has to read it by itself, and the others do
   not wait for it. */
bool coffer__share_ask(coffer__share *share, uint32_t cell);
/* Looks for a cell that was asked for; see coffer__share_look. After COFFER__SHARE_GONE, or when `bytes` are not needed
   any more, the cell is to be passed. */
coffer__share_view_of coffer__share_find(coffer__share *share, uint32_t cell, uint32_t blocks, uint32_t *buffer,
                                         uint32_t *blamed);
/* This rank has done with a cell that was asked for; `buffer` is what was found, COFFER__SHARE_NOBODY: nothing was. */
void coffer__share_pass(coffer__share *share, uint32_t cell, uint32_t buffer);
/* A cell that this rank is to read for all, or false. */
bool coffer__share_claim_next(coffer__share *share, coffer__share_claim *claim);
/* The bytes of a claim are in the buffer. */
void coffer__share_bring(coffer__share *share, const coffer__share_claim *claim);
void coffer__share_drop(coffer__share *share, const coffer__share_claim *claim);

/* What coffer__share_wait compares with; to be asked before looking. */
uint32_t coffer__share_seen(const coffer__share *share);
/* Waits a moment at most, or until something has changed since `seen`, and looks after the group meanwhile: lets ranks in,
   and strikes off those that are dead. `blamed` is the rank that is in the way: it is struck off when its time is over. */
void coffer__share_wait(coffer__share *share, uint32_t seen, uint32_t blamed);
/* The same without waiting: lets ranks in. To be called now and then by whoever does not wait. */
void coffer__share_tend(coffer__share *share);
/* This rank is at work with what it does not share. */
void coffer__share_beat(coffer__share *share);
/* Tells the others that this rank has failed. Not for one that was cancelled: that just leaves. */
void coffer__share_fail(coffer__share *share, const coffer_error *error);
/* COFFER_ERR_PEER when another rank has failed, else COFFER_OK. */
coffer_status coffer__share_check(const coffer__share *share, coffer_error *err);

#endif
