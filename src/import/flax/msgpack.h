/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MessagePack's objects, by their first byte. Numbers are big-endian.
 *
 *   00-7f fixint    80-8f map     90-9f array   a0-bf text      e0-ff negative fixint
 *   c0 nil   c2 false   c3 true   c4-c6 bytes   c7-c9 extension   ca cb floats   cc-cf unsigned   d0-d3 signed
 *   d4-d8 extension of 1, 2, 4, 8 and 16 bytes  d9-db text        dc dd array    de df map        c1 is none
 *
 * Lengths are in the first byte, or in 1, 2 or 4 bytes after it; of an extension its type comes after that.
 */
#ifndef COFFER_FLAX_MSGPACK_H
#define COFFER_FLAX_MSGPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COFFER__MSGPACK_MAX_HEAD 9 /* bytes before the content of any object */

typedef enum coffer__msgpack_kind {
    COFFER__MSGPACK_NONE, /* the bytes are no object, or too few */
    COFFER__MSGPACK_NIL,
    COFFER__MSGPACK_BOOL,
    COFFER__MSGPACK_INT, /* below 0: `number` is its two's complement */
    COFFER__MSGPACK_FLOAT,
    COFFER__MSGPACK_TEXT,
    COFFER__MSGPACK_BYTES,
    COFFER__MSGPACK_ARRAY,
    COFFER__MSGPACK_MAP,
    COFFER__MSGPACK_EXTENSION
} coffer__msgpack_kind;

/* The head of an object. */
typedef struct coffer__msgpack {
    coffer__msgpack_kind kind;
    uint8_t size;    /* bytes of the head, after which the content comes */
    uint8_t type;    /* of an extension */
    bool negative;   /* of an integer */
    uint64_t length; /* bytes of texts, bytes and extensions; elements of arrays, pairs of maps */
    uint64_t number; /* of integers and bools */
} coffer__msgpack;

/* Reads the head that `bytes` begin with, of which `size` are there: all up to the end of the file, or at least
   COFFER__MSGPACK_MAX_HEAD. Pure. */
coffer__msgpack coffer__msgpack_read(const uint8_t *bytes, size_t size);

#endif
