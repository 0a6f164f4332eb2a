/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NaN and infinity are what has all bits of its exponent set. Whether a block has any is found out by loops without branches,
 * which compilers make vectors of; only the blocks that have some are decoded and counted.
 *
 * The bytes are those of a file, little-endian. A mask is made of such bytes too, so the comparison is the same on every
 * machine: both sides are turned or neither is.
 */
#include "doctor_numbers.h"

#include "cli_pieces.h"

#include <math.h>
#include <string.h>

#define BLOCK CLI_BLOCK_ELEMENTS

static bool any_16(const unsigned char *bytes, size_t count, const unsigned char exponent[2])
{
    uint16_t mask = 0;
    uint16_t found = 0;
    memcpy(&mask, exponent, sizeof mask);
    for (size_t i = 0; i < count; i++) {
        uint16_t value = 0;
        memcpy(&value, bytes + 2 * i, sizeof value);
        found = (uint16_t)(found | ((value & mask) == mask));
    }
    return found != 0;
}

static bool any_32(const unsigned char *bytes, size_t count, const unsigned char exponent[4])
{
    uint32_t mask = 0;
    uint32_t found = 0;
    memcpy(&mask, exponent, sizeof mask);
    for (size_t i = 0; i < count; i++) {
        uint32_t value = 0;
        memcpy(&value, bytes + 4 * i, sizeof value);
        found |= (value & mask) == mask;
    }
    return found != 0;
}

static bool any_64(const unsigned char *bytes, size_t count, const unsigned char exponent[8])
{
    uint64_t mask = 0;
    uint64_t found = 0;
    memcpy(&mask, exponent, sizeof mask);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        memcpy(&value, bytes + 8 * i, sizeof value);
        found |= (value & mask) == mask;
    }
    return found != 0;
}

/* Whether a block may have a number that is not finite; of the small dtypes, whether they know any. */
static bool may_be_odd(coffer_dtype dtype, const unsigned char *bytes, size_t count)
{
    static const unsigned char f16[] = { 0x00, 0x7C };
    static const unsigned char bf16[] = { 0x80, 0x7F };
    static const unsigned char f32[] = { 0x00, 0x00, 0x80, 0x7F };
    static const unsigned char f64[] = { 0, 0, 0, 0, 0, 0, 0xF0, 0x7F };
    switch (dtype) {
    case COFFER_F16:
        return any_16(bytes, count, f16);
    case COFFER_BF16:
        return any_16(bytes, count, bf16);
    case COFFER_F32:
        return any_32(bytes, count, f32);
    case COFFER_C64:
        return any_32(bytes, 2 * count, f32);
    case COFFER_F64:
        return any_64(bytes, count, f64);
    default:
        return coffer_dtype_kind(dtype) == COFFER_KIND_FLOAT && coffer_dtype_bits(dtype) == 8;
    }
}

static void count_odd(doctor_numbers *numbers, coffer_dtype dtype, const void *bytes, size_t count)
{
    double values[2 * BLOCK];
    const size_t parts = coffer_dtype_kind(dtype) == COFFER_KIND_COMPLEX ? 2 : 1;
    if (coffer_decode(dtype, bytes, 0, count, values) != COFFER_OK) {
        return;
    }
    for (size_t i = 0; i < count * parts; i++) {
        numbers->nan += isnan(values[i]) != 0;
        numbers->infinite += isinf(values[i]) != 0;
    }
}

static bool any_byte(const unsigned char *bytes, size_t size)
{
    return size > 0 && (bytes[0] != 0 || memcmp(bytes, bytes + 1, size - 1) != 0);
}

void doctor_numbers_add(doctor_numbers *numbers, coffer_dtype dtype, const void *bytes, size_t count)
{
    const unsigned char *next = bytes;
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t left = count - done;
        const size_t block = left < BLOCK ? left : BLOCK;
        const size_t size = (size_t)cli_elements_size(dtype, block);
        numbers->filled = numbers->filled || any_byte(next, size);
        if (may_be_odd(dtype, next, block)) {
            count_odd(numbers, dtype, next, block);
        }
        next += size;
    }
}
