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

/* Eight bytes in the machine's own order: for hashing and comparing. */
static inline uint64_t coffer__load_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Read at once and turned round where need be: not every compiler makes one load of eight that are put together. */
static inline uint64_t coffer__load_u64le(const uint8_t *bytes)
{
    const uint64_t value = coffer__load_u64(bytes);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(value);
#else
    return value;
#endif
}

static inline void coffer__store_u64le(uint8_t *bytes, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

/* Whether two texts of 1 to 16 bytes are equal: what memcmp does, without the call. Eight bytes of both are looked at when
   they are shorter. */
static inline bool coffer__short_equal(const uint8_t *a, const uint8_t *b, size_t size)
{
    if (size < 8) {
        return (coffer__load_u64le(a) ^ coffer__load_u64le(b)) << (64 - 8 * size) == 0;
    }
    return coffer__load_u64(a) == coffer__load_u64(b) &&
           coffer__load_u64(a + size - 8) == coffer__load_u64(b + size - 8);
}

/* Copies a text as memcpy does, without the call; up to 15 bytes behind it are read, and overwritten, too. */
static inline void coffer__short_copy(uint8_t *to, const uint8_t *from, size_t size)
{
    for (size_t at = 0; at < size; at += 16) {
        memcpy(to + at, from + at, 16);
    }
}

/* The value of eight decimal digits, each 0 to 9 in its byte, the first one lowest: they are paired, then the pairs, then
   those. */
static inline uint64_t coffer__eight_digits(uint64_t digits)
{
    const uint64_t pairs = digits * 10 + (digits >> 8);
    const uint64_t mask = UINT64_C(0x000000FF000000FF);
    const uint64_t even = (pairs & mask) * UINT64_C(0x000F424000000064);
    const uint64_t odd = (pairs >> 16 & mask) * UINT64_C(0x0000271000000001);
    return (even + odd) >> 32;
}

/* How many of eight bytes are decimal digits before the first that is none, and the number that they write (0 for none). */
static inline size_t coffer__leading_digits(const uint8_t *bytes, uint64_t *value)
{
    const uint64_t word = coffer__load_u64le(bytes) ^ UINT64_C(0x3030303030303030);
    /* The high bit of every byte that is above 9. A carry comes only from such a byte and changes only what follows it. */
    const uint64_t others = (word | (word + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080);
    if (others == 0) {
        *value = coffer__eight_digits(word);
        return 8;
    }
    const unsigned count = (unsigned)__builtin_ctzll(others) / 8;
    /* Shifted up, the digits have zeros before them and nothing behind. In two steps, as one by 64 is undefined. */
    *value = coffer__eight_digits(word << 8 << (56 - 8 * count));
    return count;
}

#endif
