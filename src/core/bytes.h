/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cursor over untrusted bytes, and little-endian integers.
 *
 * A cursor is base, length and position, with `position <= length` always. What is left is
 * `length - position`, so a bound is checked as `n > length - position`, which cannot overflow;
 * `position + n > length` could.
 *
 * Functions that look at whole words (8 or 16 bytes) say how many bytes must be readable. Their
 * callers check that once for several of them, instead of each function for itself.
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

/* Bytes that are left. Never wraps, by the invariant above. */
static inline size_t coffer__left(const coffer__cursor *in)
{
    return in->length - in->position;
}

/* Whether the next bytes are the `size` bytes of `text`. */
static inline bool coffer__next_is(const coffer__cursor *in, const char *text, size_t size)
{
    return size <= coffer__left(in) && memcmp(in->base + in->position, text, size) == 0;
}

/* Eight bytes in the machine's own order, for hashing and comparing, where the order does not
   matter. memcpy, because the bytes need not be aligned; compilers make one load of it. */
static inline uint64_t coffer__load_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Shorter ones, a byte after another: they are read of heads, where a load more costs nothing. */
static inline uint16_t coffer__load_u16le(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static inline uint32_t coffer__load_u32le(const uint8_t *bytes)
{
    return (uint32_t)coffer__load_u16le(bytes) | (uint32_t)coffer__load_u16le(bytes + 2) << 16;
}

/* One load and, on big-endian machines, a swap. Putting eight bytes together with shifts would need
   neither, but not every compiler makes one load of that. */
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

/*
 * Whether two texts of 1 to 16 bytes are equal: what memcmp does, without the call. When they are
 * shorter than 8, eight bytes of both must be readable: the shift drops those after the text. (A
 * size of 0 would shift by 64, which is undefined.) From 8 bytes on two loads cover the text and
 * overlap in the middle.
 */
static inline bool coffer__short_equal(const uint8_t *a, const uint8_t *b, size_t size)
{
    if (size < 8) {
        return (coffer__load_u64le(a) ^ coffer__load_u64le(b)) << (64 - 8 * size) == 0;
    }
    return coffer__load_u64(a) == coffer__load_u64(b) &&
           coffer__load_u64(a + size - 8) == coffer__load_u64(b + size - 8);
}

/*
 * Copies a text as memcpy does, without the call, for names that are mostly short. It copies in
 * blocks of 16: up to 15 bytes after the text are read, and up to 15 after the copy are
 * overwritten. Both must belong to the caller.
 */
static inline void coffer__short_copy(uint8_t *to, const uint8_t *from, size_t size)
{
    for (size_t at = 0; at < size; at += 16) {
        memcpy(to + at, from + at, 16);
    }
}

/*
 * The value of eight decimal digits, each 0 to 9 in its byte, the first digit in the lowest byte.
 *
 * Three multiplications replace eight: the first makes pairs (0 to 99) of neighbours, in bytes 0,
 * 2, 4 and 6; the bytes between hold pairs that nobody asks for, below 100 as well, so nothing
 * carries. Then pairs 0 and 2, and pairs 1 and 3, are weighed: the constants are 100 + (10^6 << 32)
 * and 1 + (10^4 << 32), and the upper half of the sum is the number. The lower half stays below
 * 2^32 and carries nothing into it.
 */
static inline uint64_t coffer__eight_digits(uint64_t digits)
{
    const uint64_t pairs = digits * 10 + (digits >> 8);
    const uint64_t mask = UINT64_C(0x000000FF000000FF);
    const uint64_t even = (pairs & mask) * UINT64_C(0x000F424000000064);
    const uint64_t odd = (pairs >> 16 & mask) * UINT64_C(0x0000271000000001);
    return (even + odd) >> 32;
}

/* How many of eight bytes are decimal digits before the first that is not, and the number that
   these digits write (0 for none). Eight bytes must be readable. */
static inline size_t coffer__leading_digits(const uint8_t *bytes, uint64_t *value)
{
    const uint64_t word = coffer__load_u64le(bytes) ^ UINT64_C(0x3030303030303030);
    /*
     * XOR with '0' has made 0 to 9 of the digits and more of every other byte. Adding 0x76 sets the
     * high bit of every byte above 9; the byte itself is ORed in for those from 0x80 on. A carry
     * comes only from a byte that is no digit itself and changes only the bytes after it, so the
     * first marked byte is exact.
     */
    const uint64_t others = (word | (word + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080);
    if (others == 0) {
        *value = coffer__eight_digits(word);
        return 8;
    }
    const unsigned count = (unsigned)__builtin_ctzll(others) / 8;
    /* Shifted up, the digits have zeros before them, which do not change the number, and nothing
       after. In two steps: with count 0 one shift by 64 would be undefined. */
    *value = coffer__eight_digits(word << 8 << (56 - 8 * count));
    return count;
}

#endif
