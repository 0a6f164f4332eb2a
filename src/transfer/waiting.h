/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that mostly wait for servers, while the thread that makes the call asks the user whether what they wait for is still
 * wanted. It alone calls `progress`; the others look at what was answered, in the watch of their questions.
 */
#ifndef COFFER_TRANSFER_WAITING_H
#define COFFER_TRANSFER_WAITING_H

#include "coffer.h"
#include "os.h"
#include "source.h"

typedef struct coffer__waiting {
    coffer_progress progress; /* NULL: nobody is asked */
    void *progress_ctx;
    uint64_t total;      /* of the things that are done, as the user is told */
    coffer__watch watch; /* for every question of the threads */
    bool alone;          /* there are no threads: the caller's asks in the watch, too. Set before it asks anything */
    coffer__mutex lock;  /* guards what follows, and what the threads share besides */
    coffer__condition changed; /* wakes the caller's thread */
    uint64_t done;
    size_t working; /* threads that have not ended */
    bool stopped;   /* the user wants no more */
} coffer__waiting;

/* False when the system has no lock for it. `waiting` stays where it is until it is ended. */
bool coffer__waiting_begin(coffer__waiting *waiting, coffer_progress progress, void *progress_ctx, uint64_t total);
void coffer__waiting_end(coffer__waiting *waiting);
/* Asks the user, on the caller's thread; true when no more is wanted, now or since before. */
bool coffer__waiting_ask(coffer__waiting *waiting);
/* The last thing that a thread does. */
void coffer__waiting_leave(coffer__waiting *waiting);
/* Waits, on the caller's thread, until all threads have left, and asks meanwhile. */
void coffer__waiting_wait(coffer__waiting *waiting);

#endif
