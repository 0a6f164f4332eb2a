/* SPDX-License-Identifier: Apache-2.0 */
/* One row of a plan: which bytes of which source come down where. What carries rows out, and what cuts them, is above it. */
#ifndef COFFER_TRANSFER_ROW_H
#define COFFER_TRANSFER_ROW_H

#include "box.h"
#include "coffer.h"
#include "source.h"

typedef struct coffer__row {
    const coffer__source *source;
    const uint8_t *map;         /* the source's byte 0 in memory: copied from there instead of read; or NULL */
    uint64_t offset;            /* in the source, of the byte from which the box counts */
    const coffer__box *box;     /* NULL: `size` bytes, one after the other */
    uint64_t size;              /* of the result: the box's runs one after the other */
    void *to;                   /* `size` bytes; may be NULL with a digest: the bytes are only hashed */
    uint64_t at;                /* on a landing, which has places instead of addresses */
    coffer_algorithm algorithm; /* COFFER_NO_ALGORITHM: no digest; else there is no box */
    uint8_t *digest;            /* of the algorithm's size */
} coffer__row;

#endif
