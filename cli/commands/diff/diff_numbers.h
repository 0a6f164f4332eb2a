/* SPDX-License-Identifier: Apache-2.0 */
/* How far the numbers of two tensors are apart: counts, the largest and mean distance, and norms. */
#ifndef COFFER_DIFF_NUMBERS_H
#define COFFER_DIFF_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begin with a struct of zeros. What has no finite distance counts in `nan` or `infinite` alone. */
typedef struct diff_apart {
    bool bytes_differ;
    uint64_t differing; /* numbers that are not equal; two NaN are */
    uint64_t nan;       /* of them, those that are NaN in one file only */
    uint64_t infinite;  /* of them, those that are infinitely far apart */
    double most;        /* of the others */
    double sum;
    /* sums over the numbers that are finite in both files */
    double squares_a;
    double squares_b;
    double squares_apart;
    double products;
    uint64_t not_finite; /* numbers that are NaN or infinite in either file */
} diff_apart;

/* Compares `count` numbers and adds what comes out. `a` and `b` may be the same memory. */
void diff_add_numbers(diff_apart *apart, const double *a, const double *b, size_t count);
/* Adds what was found out about other numbers. */
void diff_merge(diff_apart *apart, const diff_apart *other);

/* The norm of B - A, divided by that of A: 0 if nothing differs, infinite if A is all zeros and B is not, NaN if a square is
   beyond the doubles. */
double diff_relative_norm(const diff_apart *apart);
/* The cosine of the angle between A and B, from -1 to 1; NaN if one of them is all zeros or a square is beyond the doubles. */
double diff_cosine(const diff_apart *apart);

#endif
