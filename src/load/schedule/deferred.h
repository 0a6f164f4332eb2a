/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that were taken from the schedule before their turn. While the disk brings what the page cache does not have
 * of a file, processors can copy what it has. But either kind comes in stretches that are longer than what a worker has
 * in progress, and the schedule only goes upwards. So a worker that needs one kind defers chunks of the other:
 *
 *     schedule ──► cached, cached, …, cold
 *                    │                  └──► read at once
 *                    └──► deferred ──────────► copied while the disk is waited for
 *
 * Any worker may take what another has deferred. Nothing here is locked: its user holds the load's lock.
 */
#ifndef COFFER_LOAD_DEFERRED_H
#define COFFER_LOAD_DEFERRED_H

#include "chunk.h"

/* All zero is one without chunks. */
typedef struct coffer__deferred {
    coffer__chunk *first[COFFER__RESIDENCY_UNKNOWN]; /* of each kind a list, in the order of the schedule */
    coffer__chunk *last[COFFER__RESIDENCY_UNKNOWN];
    size_t count;
} coffer__deferred;

/* Puts a chunk off. False when there are enough: what is deferred has its memory already. */
bool coffer__deferred_put(coffer__deferred *deferred, coffer__residency kind, coffer__chunk *chunk);
bool coffer__deferred_is_full(const coffer__deferred *deferred);
/* The chunk of this kind that was deferred first; NULL: there is none. */
coffer__chunk *coffer__deferred_take(coffer__deferred *deferred, coffer__residency kind);

#endif
