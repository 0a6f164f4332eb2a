/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that were taken from the schedule before their turn. While the disk brings what the page cache does not have of
 * a file, processors can copy what it has. But either kind comes in stretches that are longer than what a worker has in
 * progress, and the schedule only goes upwards. So a worker that needs one kind puts off chunks of the other:
 *
 *     schedule ──► cached, cached, …, cold
 *                    │                  └──► read at once
 *                    └──► put off ──────────► copied while the disk is waited for
 *
 * Any worker may take what another has put off. Nothing here is locked: its user holds the load's lock.
 */
#ifndef COFFER_LOAD_AHEAD_H
#define COFFER_LOAD_AHEAD_H

#include "chunk.h"

/* All zero is one without chunks. */
typedef struct coffer__ahead {
    coffer__chunk *first[COFFER__ANYWHERE]; /* of each kind a list, in the order of the schedule */
    coffer__chunk *last[COFFER__ANYWHERE];
    size_t count;
} coffer__ahead;

/* Puts a chunk off. False when there are enough: what is put off has its memory already. */
bool coffer__ahead_put(coffer__ahead *ahead, coffer__residency kind, coffer__chunk *chunk);
bool coffer__ahead_is_full(const coffer__ahead *ahead);
/* The chunk of this kind that was put off first; NULL: there is none. */
coffer__chunk *coffer__ahead_take(coffer__ahead *ahead, coffer__residency kind);

#endif
