/* SPDX-License-Identifier: Apache-2.0 */
/*
 * F16, BF16 and F32 as floats, and back: what coffer_decode and coffer_encode do for any dtype, in loops without branches,
 * which compilers make vectors of. The bytes are the same.
 */
#ifndef COFFER_WRITE_REWRITE_FLOATS_H
#define COFFER_WRITE_REWRITE_FLOATS_H

#include "coffer.h"

/* The most numbers of a call. */
#define COFFER__REWRITE_MOST_FLOATS 1024

/* What became infinite, and what became zero. */
typedef struct coffer__rewrite_losses {
    uint64_t overflowed;
    uint64_t vanished;
} coffer__rewrite_losses;

/* Whether the numbers of a dtype are floats, and it is one of the three. */
bool coffer__rewrite_has_floats(coffer_dtype dtype);
/* Decodes `count` numbers. */
void coffer__rewrite_get_floats(coffer_dtype dtype, const uint8_t *bytes, size_t count, float *values);
/* Encodes them, rounded to the nearest, of two that are as near to the even one, and adds to what was lost. */
void coffer__rewrite_put_floats(coffer_dtype dtype, const float *values, size_t count, uint8_t *bytes,
                                coffer__rewrite_losses *losses);

#endif
