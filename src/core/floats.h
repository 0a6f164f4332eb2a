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
#define COFFER__FLOATS_MOST 1024

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

#endif
