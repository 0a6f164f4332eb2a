/* SPDX-License-Identifier: Apache-2.0 */
/* What a doctor asks of numbers: whether any is NaN or infinite, and whether all are zero. The bits alone tell, so nothing is
   decoded until something is found. */
#ifndef COFFER_DOCTOR_NUMBERS_H
#define COFFER_DOCTOR_NUMBERS_H

#include "coffer.h"

/* Begin with a struct of zeros. */
typedef struct coffer__doctor_numbers {
    uint64_t nan;
    uint64_t infinite;
    bool filled; /* a byte is not zero */
} coffer__doctor_numbers;

/* Adds `count` elements of a dtype, little-endian as files have them; `bytes` need no alignment. */
void coffer__doctor_numbers_add(coffer__doctor_numbers *numbers, coffer_dtype dtype, const void *bytes, size_t count);

#endif
