/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NaN and infinity are what has all bits of its exponent set. Whether a block has any is found out by a loop without branches,
 * which compilers make vectors of; only the blocks that have some are decoded and counted.
 *
 * The bytes are those of a file, little-endian. A mask is made of such bytes too, so the answer is the same on every
 * machine: both sides are turned or neither is.
 */
#include "doctor_numbers.h"

#include "floats.h"

#include <string.h>

#define BLOCK 4096 /* elements that are decoded at a time: as doubles they stay in the cache */

/* A dtype as eight bytes of it: the bits of the exponents, and of each element all bits but one, as the machine has them. */
typedef struct exponents {
    coffer_dtype dtype;
    unsigned char mask[8];
    uint64_t low;
} exponents;

#define LOW_16 UINT64_C(0x7FFF7FFF7FFF7FFF)
#define LOW_32 UINT64_C(0x7FFFFFFF7FFFFFFF)
#define LOW_64 UINT64_C(0x7FFFFFFFFFFFFFFF)

static const exponents EXPONENTS[] = {
    { COFFER_F16, { 0, 0x7C, 0, 0x7C, 0, 0x7C, 0, 0x7C }, LOW_16 },
    { COFFER_BF16, { 0x80, 0x7F, 0x80, 0x7F, 0x80, 0x7F, 0x80, 0x7F }, LOW_16 },
    { COFFER_F32, { 0, 0, 0x80, 0x7F, 0, 0, 0x80, 0x7F }, LOW_32 },
    { COFFER_C64, { 0, 0, 0x80, 0x7F, 0, 0, 0x80, 0x7F }, LOW_32 },
    { COFFER_F64, { 0, 0, 0, 0, 0, 0, 0xF0, 0x7F }, LOW_64 },
};

/* Of each element, whether a bit of its exponent is not set: the answer is its highest bit. Adding cannot carry into the next
   element, whatever the order of the bytes makes of the mask. */
static uint64_t is_finite(uint64_t elements, uint64_t mask, uint64_t low)
{
    const uint64_t unset = ~elements & mask;
    return ((unset & low) + low) | unset;
}

/* What is left of the last eight bytes is filled with zeros, which are finite. */
static bool any_odd(const exponents *dtype, const unsigned char *bytes, size_t size)
{
    uint64_t mask = 0;
    uint64_t elements = 0;
    uint64_t finite = UINT64_MAX;
    const size_t whole = size / sizeof elements * sizeof elements;
    memcpy(&mask, dtype->mask, sizeof mask);
    for (size_t at = 0; at < whole; at += sizeof elements) {
        memcpy(&elements, bytes + at, sizeof elements);
        finite &= is_finite(elements, mask, dtype->low);
    }
    elements = 0;
    memcpy(&elements, bytes + whole, size - whole);
    finite &= is_finite(elements, mask, dtype->low);
    return (finite | dtype->low) != UINT64_MAX;
}

/* Whether a block may have a number that is not finite; of the small dtypes, whether they know any. */
static bool may_be_odd(coffer_dtype dtype, const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof EXPONENTS / sizeof EXPONENTS[0]; i++) {
        if (EXPONENTS[i].dtype == dtype) {
            return any_odd(&EXPONENTS[i], bytes, size);
        }
    }
    return coffer_dtype_kind(dtype) == COFFER_KIND_FLOAT && coffer_dtype_bits(dtype) == 8;
}

static void count_odd(coffer__doctor_numbers *numbers, coffer_dtype dtype, const void *bytes, size_t count)
{
    double values[2 * BLOCK];
    const size_t parts = coffer_dtype_kind(dtype) == COFFER_KIND_COMPLEX ? 2 : 1;
    if (coffer_decode(dtype, bytes, 0, count, values) != COFFER_OK) {
        return;
    }
    for (size_t i = 0; i < count * parts; i++) {
        const uint64_t size = coffer__double_bits(coffer__double_magnitude(values[i]));
        numbers->nan += size > COFFER__DOUBLE_INFINITY;
        numbers->infinite += size == COFFER__DOUBLE_INFINITY;
    }
}

static bool any_byte(const unsigned char *bytes, size_t size)
{
    return size > 0 && (bytes[0] != 0 || memcmp(bytes, bytes + 1, size - 1) != 0);
}

void coffer__doctor_numbers_add(coffer__doctor_numbers *numbers, coffer_dtype dtype, const void *bytes, size_t count)
{
    const unsigned char *next = bytes;
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t left = count - done;
        const size_t block = left < BLOCK ? left : BLOCK;
        const size_t size = block / 8 * coffer_dtype_bits(dtype) + block % 8 * coffer_dtype_bits(dtype) / 8;
        numbers->filled = numbers->filled || any_byte(next, size);
        if (may_be_odd(dtype, next, size)) {
            count_odd(numbers, dtype, next, block);
        }
        next += size;
    }
}
