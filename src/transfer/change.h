/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage that changes elements where they lie, after they were gathered: the bytes of each unit are reversed, then
 * signs are changed. What comes out is little-endian, on every machine. Pure.
 */
#ifndef COFFER_TRANSFER_CHANGE_H
#define COFFER_TRANSFER_CHANGE_H

#include "coffer.h"

typedef enum coffer__flip {
    COFFER__FLIP_NOTHING = 0,
    COFFER__FLIP_FLOATS = 1,    /* the sign bit of every float of `width` bytes */
    COFFER__FLIP_IMAGINARY = 2, /* that of every second one */
    COFFER__FLIP_INTEGERS = 3   /* two's complement of every integer of `width` bytes */
} coffer__flip;

typedef struct coffer__change {
    uint8_t swap;  /* bytes of a unit whose order is reversed: 2, 4 or 8; 0: none */
    uint8_t width; /* bytes of a number whose sign is changed, 1, 2, 4 or 8; 0: none */
    coffer__flip flip;
} coffer__change;

/* Bytes that have to be changed together; 1 when nothing is changed. A power of two. */
size_t coffer__change_unit(const coffer__change *change);
/* Changes `size` bytes, a number of whole units. */
void coffer__change_bytes(const coffer__change *change, uint8_t *bytes, size_t size);

#endif
