/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of Protocol Buffers' messages, as they lie in a file:
 *
 *   varint: number of the field << 3 | kind       then, by the kind
 *     0  a varint: seven bits in a byte, the lowest first; the highest bit says that another byte follows; at most 10
 *     1  eight bytes          5  four bytes          2  a varint, and so many bytes: a message, a text, packed numbers
 *
 * The other kinds are of groups, which nobody writes.
 */
#ifndef COFFER_IMPORT_WIRE_H
#define COFFER_IMPORT_WIRE_H

#include "file_window.h"

#define COFFER__WIRE_MAX_VARINT 10
#define COFFER__WIRE_MAX_HEAD 15 /* bytes of a tag and a varint */

typedef enum coffer__wire_kind {
    COFFER__WIRE_VARINT = 0,
    COFFER__WIRE_EIGHT = 1,
    COFFER__WIRE_BYTES = 2,
    COFFER__WIRE_FOUR = 5
} coffer__wire_kind;

typedef struct coffer__wire_field {
    uint32_t number;
    coffer__wire_kind kind;
    uint64_t value; /* of a varint */
    uint64_t at;    /* of its first byte */
    uint64_t begin; /* of its content: the bytes of a text, those of a number */
    uint64_t size;  /* of its content; the next field begins after it */
} coffer__wire_field;

/* A varint that `bytes` begin with; the number of its bytes, or 0 when it does not end, or is beyond 2^64-1. Pure. */
size_t coffer__wire_varint(const uint8_t *bytes, size_t size, uint64_t *value);
/* The field that `bytes` begin with, `size` of them up to the end of the message or COFFER__WIRE_MAX_HEAD, whichever is
   less; `at` is their place. False for what is none. What it has may reach beyond the message. Pure. */
bool coffer__wire_read(const uint8_t *bytes, size_t size, uint64_t at, coffer__wire_field *field);
/* The field at `at` of a message that ends at `end`: COFFER_ERR_DAMAGED when it does not lie within it. */
coffer_status coffer__wire_next(coffer__file_window *window, uint64_t at, uint64_t end, coffer__wire_field *field,
                                coffer_error *err);

#endif
