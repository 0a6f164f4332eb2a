/* SPDX-License-Identifier: Apache-2.0 */
/* Overflow-checked arithmetic. Every product and sum of values from outside goes through here. */
#ifndef COFFER_CORE_CHECKED_H
#define COFFER_CORE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* *sum = a + b; false, and *sum untouched, when that is beyond 2^64-1. */
static inline bool coffer__add_u64(uint64_t a, uint64_t b, uint64_t *sum)
{
    if (b > UINT64_MAX - a) {
        return false;
    }
    *sum = a + b;
    return true;
}

/* *product = a * b; false, and *product untouched, when that is beyond 2^64-1. The division is done only when an operand
   needs more than 32 bits. */
static inline bool coffer__mul_u64(uint64_t a, uint64_t b, uint64_t *product)
{
    if (((a | b) >> 32) != 0 && a != 0 && b > UINT64_MAX / a) {
        return false;
    }
    *product = a * b;
    return true;
}

/* *rounded = the least multiple of `alignment` (a power of two) that is not below `value`; false when there is none. */
static inline bool coffer__round_up_u64(uint64_t value, uint64_t alignment, uint64_t *rounded)
{
    uint64_t sum = 0;
    if (!coffer__add_u64(value, alignment - 1, &sum)) {
        return false;
    }
    *rounded = sum & ~(alignment - 1);
    return true;
}

#endif
