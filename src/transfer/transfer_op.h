/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One op of a plan: which bytes of which source go where. A op is plain data. The planner that makes
 * it has checked that the bytes lie within the source (or the map), and that `size` is the product of
 * the box's counts and its run size; nothing below compares them again.
 */
#ifndef COFFER_TRANSFER_TRANSFER_OP_H
#define COFFER_TRANSFER_TRANSFER_OP_H

#include "box.h"
#include "change.h"
#include "coffer.h"
#include "crc32.h"
#include "source.h"

/* A CRC-32 of what a op reads, while it is read: the bytes of its source, before they are changed. */
typedef struct coffer__checksum {
    const coffer__crc32 *crc32;
    uint32_t value; /* so far; 0 before the first byte */
} coffer__checksum;

typedef struct coffer__transfer_op {
    const coffer__byte_source *source;
    const uint8_t *map;     /* the source's byte 0 in memory: copied from there instead of read; or NULL */
    uint64_t offset;        /* in the source, of the byte from which the box counts */
    const coffer__box *box; /* NULL: `size` contiguous bytes from `offset` on */
    uint64_t size;          /* bytes of the result, which is dense: the box's runs without gaps */
    void *to;               /* `size` bytes; may be NULL with a digest: the bytes are only hashed */
    uint64_t at; /* the first byte's place on an output target; this and the next two are for coffer__land alone */
    coffer__change change;      /* of the elements; the bytes of a unit are in one run */
    coffer__checksum *checksum; /* NULL: none; otherwise `box` is NULL */
    coffer_algorithm algorithm; /* COFFER_NO_ALGORITHM: no digest; otherwise `box` is NULL */
    uint8_t *digest;            /* of the algorithm's size; written when all bytes were hashed */
} coffer__transfer_op;

#endif
