/* SPDX-License-Identifier: Apache-2.0 */
/*
 * F16, BF16 and F32 as floats, and back: what coffer_decode and coffer_encode do for any dtype, in loops without branches,
 * which compilers make vectors of. The bytes are the same.
 */
#ifndef COFFER_CORE_FLOATS_H
#define COFFER_CORE_FLOATS_H

#include "coffer.h"

#include <string.h>

/* The most numbers of a call. */
#define COFFER__FLOATS_MAX 1024

/* What became infinite, and what became zero. */
typedef struct coffer__floats_losses {
    uint64_t overflowed;
    uint64_t vanished;
} coffer__floats_losses;

/* The bits of a float, and back: by memcpy, since a cast of pointers would be undefined. */
static inline uint32_t coffer__float_bits(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float coffer__float_of_bits(uint32_t bits)
{
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The same of a double. */
static inline uint64_t coffer__double_bits(double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double coffer__double_of_bits(uint64_t bits)
{
    double value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Without its sign. */
static inline double coffer__double_magnitude(double value)
{
    return coffer__double_of_bits(coffer__double_bits(value) & (UINT64_MAX >> 1));
}

/* Without the sign, the bits of finite numbers are below these, and those of NaN above. */
#define COFFER__DOUBLE_INFINITY ((uint64_t)0x7FF << 52)

/* Whether the numbers of a dtype are floats, and it is one of the three. */
bool coffer__floats_have(coffer_dtype dtype);
/* F32 between memory and a file, to the bit. */
void coffer__floats_copy(const void *from, size_t count, void *to);
/* Decodes `count` numbers. */
void coffer__floats_decode(coffer_dtype dtype, const uint8_t *bytes, size_t count, float *values);
/* Encodes them, rounded to the nearest, of two that are as near to the even one, and adds to what was lost, if `losses` is
   not NULL. */
void coffer__floats_encode(coffer_dtype dtype, const float *values, size_t count, uint8_t *bytes,
                           coffer__floats_losses *losses);

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

/* Loops that become part of the function that calls them, and so are compiled for the processors that it is for. Outside of
   the core, which asks for none, that may be those with longer vectors. */
#define COFFER__FLOATS_LOOP static inline __attribute__((always_inline))

#define COFFER__FLOATS_INFINITY UINT32_C(0x7F800000)
#define COFFER__FLOATS_QUIET UINT32_C(0x00400000)
#define COFFER__FLOATS_HALF_INFINITY UINT32_C(0x7C00)
#define COFFER__FLOATS_HALF_REBASE UINT32_C(0x38000000) /* the difference of the biases, 112, as an exponent */
#define COFFER__FLOATS_HALF_NORMAL UINT32_C(0x38800000) /* 2^-14, the least normal F16 */
#define COFFER__FLOATS_ONE_HALF UINT32_C(0x3F000000)

/* All ones where it holds, else zero. */
COFFER__FLOATS_LOOP uint32_t coffer__floats_mask(bool holds)
{
    return (uint32_t)0 - (uint32_t)holds;
}

/* Files are little-endian, whatever the machine is. */
COFFER__FLOATS_LOOP void coffer__floats_store_16(const uint16_t *codes, size_t count, uint8_t *bytes)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(bytes, codes, count * sizeof *codes);
#else
    for (size_t i = 0; i < count; i++) {
        bytes[2 * i] = (uint8_t)codes[i];
        bytes[2 * i + 1] = (uint8_t)(codes[i] >> 8);
    }
#endif
}

/* A carry out of the mantissa makes the exponent one higher, at last that of infinity. */
COFFER__FLOATS_LOOP void coffer__floats_to_bf16(const float *values, size_t count, uint16_t *codes)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = coffer__float_bits(values[i]);
        const uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
        const uint32_t sign = bits & UINT32_C(0x80000000);
        const uint32_t nan = coffer__floats_mask((bits & ~UINT32_C(0x80000000)) > COFFER__FLOATS_INFINITY);
        codes[i] =
            (uint16_t)(((rounded & ~nan) | ((sign | COFFER__FLOATS_INFINITY | COFFER__FLOATS_QUIET) & nan)) >> 16);
    }
}

COFFER__FLOATS_LOOP void coffer__floats_to_f16(const float *values, size_t count, uint16_t *codes)
{
    const float one_half = coffer__float_of_bits(COFFER__FLOATS_ONE_HALF);
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = coffer__float_bits(values[i]);
        const uint32_t size = bits & ~UINT32_C(0x80000000);
        const uint32_t normal = (size - COFFER__FLOATS_HALF_REBASE + 0xFFF + (size >> 13 & 1)) >> 13;
        const float sum = coffer__float_of_bits(size) + one_half;
        const uint32_t subnormal = coffer__float_bits(sum) - COFFER__FLOATS_ONE_HALF;
        const uint32_t small = coffer__floats_mask(size < COFFER__FLOATS_HALF_NORMAL);
        const uint32_t large =
            coffer__floats_mask(size >= UINT32_C(0x47800000)); /* 65536 and more; what rounds to it is, too */
        const uint32_t nan = coffer__floats_mask(size > COFFER__FLOATS_INFINITY);
        uint32_t code = (normal & ~small) | (subnormal & small);
        code = (code & ~large) | (COFFER__FLOATS_HALF_INFINITY & large) | (UINT32_C(0x200) & nan);
        codes[i] = (uint16_t)(code | bits >> 31 << 15);
    }
}

#endif
