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

/* Whether two short texts are equal: what memcmp does, without the call. */
static inline bool coffer__short_equal(const char *a, const char *b, size_t size)
{
    size_t at = 0;
    for (; 8 <= size - at; at += 8) {
        if (coffer__load_u64((const uint8_t *)a + at) != coffer__load_u64((const uint8_t *)b + at)) {
            return false;
        }
    }
    while (at < size && a[at] == b[at]) {
        at++;
    }
    return at == size;
}

/* The value of eight decimal digits; false when one of them is none. The digits are paired, then the pairs, then those. */
static inline bool coffer__eight_digits(const uint8_t *digits, uint64_t *value)
{
    const uint64_t word = coffer__load_u64le(digits);
    const uint64_t high = UINT64_C(0xF0F0F0F0F0F0F0F0);
    const uint64_t zeros = UINT64_C(0x3030303030303030);
    /* Adding 6 carries out of the low half of a byte that is above 9. */
    if (((word & high) | ((word + UINT64_C(0x0606060606060606)) & high) >> 4) != (zeros | zeros >> 4)) {
        return false;
    }
    const uint64_t units = word - zeros;
    const uint64_t pairs = units * 10 + (units >> 8);
    const uint64_t mask = UINT64_C(0x000000FF000000FF);
    const uint64_t even = (pairs & mask) * UINT64_C(0x000F424000000064);
    const uint64_t odd = (pairs >> 16 & mask) * UINT64_C(0x0000271000000001);
    *value = (even + odd) >> 32;
    return true;
}

/* The same for four. */
static inline bool coffer__four_digits(const uint8_t *digits, uint64_t *value)
{
    const uint32_t word =
        (uint32_t)digits[0] | (uint32_t)digits[1] << 8 | (uint32_t)digits[2] << 16 | (uint32_t)digits[3] << 24;
    const uint32_t high = UINT32_C(0xF0F0F0F0);
    const uint32_t zeros = UINT32_C(0x30303030);
    if (((word & high) | ((word + UINT32_C(0x06060606)) & high) >> 4) != (zeros | zeros >> 4)) {
        return false;
    }
    const uint32_t units = word - zeros;
    const uint32_t pairs = units * 10 + (units >> 8);
    *value = (pairs & 0xFF) * 100 + (pairs >> 16 & 0xFF);
    return true;
}

#endif
