/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage that brings bytes: one piece of a row to its place in memory. What is read goes straight there, or into scratch memory
 * and is gathered from there; what is in a map is copied.
 */
#ifndef COFFER_TRANSFER_FILL_H
#define COFFER_TRANSFER_FILL_H

#include "crew.h"
#include "piece.h"

/* Memory for a tile, which one worker has at a time. */
typedef struct coffer__slot {
    coffer__mutex lock;
    uint8_t *memory;
} coffer__slot;

/* What a worker brings bytes with. */
typedef struct coffer__filler {
    coffer__crew_worker base;
    uint64_t asked; /* when the crew was asked last within a piece, in milliseconds */
    uint8_t *scratch;
    size_t scratch_size;
    coffer__slot *slot; /* for tiles; NULL: no row needs it */
} coffer__filler;

/* Brings a piece; `tile` is what it is, if it is one. */
coffer_status coffer__fill(coffer__filler *worker, const coffer__piece *piece, const coffer__tile *tile,
                           coffer_error *err);

#endif
