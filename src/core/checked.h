/* SPDX-License-Identifier: Apache-2.0 */
/* Overflow-checked arithmetic. Every product and sum of values from outside goes through here: a
   length that wraps to a small number passes every later check and reads beyond its buffer. */
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

/*
 * *product = a * b; false, and *product untouched, when that is beyond 2^64-1. Two factors below
 * 2^32 cannot overflow; only when one is larger is the division done, which costs more than all the
 * rest.
 */
static inline bool coffer__mul_u64(uint64_t a, uint64_t b, uint64_t *product)
{
    if (((a | b) >> 32) != 0 && a != 0 && b > UINT64_MAX / a) {
        return false;
    }
    *product = a * b;
    return true;
}

/* *rounded = the least multiple of `alignment` (a power of two) that is not below `value`; false,
   and *rounded untouched, when there is none below 2^64. */
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
