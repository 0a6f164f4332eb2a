/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cursor over untrusted bytes, and little-endian integers. A cursor is base, length and position, with
 * `position <= length` always; what is left is `length - position`, so a comparison is `n > length - position` and cannot
 * overflow.
 */
#ifndef COFFER_CORE_BYTES_H
#define COFFER_CORE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct coffer__cursor {
    const uint8_t *base;
    size_t length;
    size_t position;
} coffer__cursor;

/* Bytes that are left. */
static inline size_t coffer__left(const coffer__cursor *in)
{
    return in->length - in->position;
}

/* Whether the next bytes are the `size` bytes of `text`. */
static inline bool coffer__next_is(const coffer__cursor *in, const char *text, size_t size)
{
    return size <= coffer__left(in) && memcmp(in->base + in->position, text, size) == 0;
}

static inline uint64_t coffer__load_u64le(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

static inline void coffer__store_u64le(uint8_t *bytes, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

/* Eight bytes in the machine's own order: for hashing and comparing only. */
static inline uint64_t coffer__load_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    memcpy(&value, bytes, sizeof value);
    return value;
}

#endif
