/* SPDX-License-Identifier: Apache-2.0 */
/* What statistics, distributions and comparisons share: chunks that are decoded block by block on the stack. */
#ifndef COFFER_CORE_NUMBERS_H
#define COFFER_CORE_NUMBERS_H

#include "dtype.h"
#include "floats.h"

/* Elements are decoded so many at a time: as doubles they stay in the processor's cache, and they fill whole bytes. */
#define COFFER__NUMBERS_STEP ((size_t)512)

/* Doubles that an element becomes. */
static inline size_t coffer__numbers_parts(coffer_dtype dtype)
{
    return coffer__dtype_info_of(dtype)->kind == COFFER_KIND_COMPLEX ? 2 : 1;
}

/* Whether a dtype is known and `count` elements of it can be read. */
static inline bool coffer__numbers_readable(coffer_dtype dtype, const void *data, size_t count)
{
    return coffer__dtype_info_of(dtype)->bits > 0 && (count == 0 || data != NULL);
}

/* Where element `first` lies, which is a multiple of eight. */
static inline const uint8_t *coffer__numbers_at(coffer_dtype dtype, const void *data, size_t first)
{
    return (const uint8_t *)data + first / 8 * coffer__dtype_info_of(dtype)->bits;
}

/* Bytes of `count` elements, the last of which may be shared with what follows. */
static inline size_t coffer__numbers_size(coffer_dtype dtype, size_t count)
{
    const size_t bits = coffer__dtype_info_of(dtype)->bits;
    return count / 8 * bits + (count % 8 * bits + 7) / 8;
}

static inline double coffer__double_nan(void)
{
    return coffer__double_of_bits(COFFER__DOUBLE_INFINITY | (uint64_t)1 << 51);
}

/* The square root, rounded to the nearest as IEEE 754 has it: this room has no libm. */
double coffer__square_root(double value);

#endif
