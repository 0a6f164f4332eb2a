/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer/numbers.h - bytes only: the numbers that tensors hold. Statistics, histograms, distributions and
 * comparisons. For everybody who has a tensor's bytes, from wherever; all of it is there since 0.2.
 *
 * A tensor is added chunk by chunk, so one of any size takes the memory of one chunk. A chunk is `count` elements of
 * a dtype, little-endian as files have them, at any address. Elements of 4 and 6 bits are packed from the low bits of
 * each byte up, and a chunk of them begins with a whole byte: every chunk but the last has a multiple of eight
 * elements.
 *
 * Every dtype has numbers: BOOL has 0 and 1, an element of C64 is two. Decoded to doubles, I64 and U64 beyond 2^53
 * are rounded. NaN and infinities are counted; ends, means and bins are those of the finite numbers.
 *
 * An object belongs to one thread at a time. To use several threads, give each chunk an object of its own, and merge
 * them in the order of the chunks: then the result does not depend on the threads. Nothing here reads a file, starts
 * a thread or takes memory.
 */
#ifndef COFFER_NUMBERS_H
#define COFFER_NUMBERS_H

#include "table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Statistics -------------------------------------------------------------------------------------------------- */

/* Begin with a struct of zeros: `coffer_statistics s = { 0 };`. */
typedef struct coffer_statistics {
    uint64_t count; /* of numbers */
    uint64_t finite;
    uint64_t nan;
    uint64_t infinite;
    uint64_t zeros;     /* of either sign */
    uint64_t subnormal; /* not zero, and nearer to it than the least normal number of the dtype */
    double min;         /* of the finite numbers, as all that follows; 0 while there are none */
    double max;
    double mean;
    double squares;     /* the sum of the squared distances from the mean */
    coffer_dtype dtype; /* of all numbers; COFFER_UNKNOWN_DTYPE: of several dtypes, or no numbers yet */
    uint32_t reserved;
    uint64_t min_bits; /* with the dtype I64 or U64: the ends exactly, as the bits of their elements; else 0 */
    uint64_t max_bits;
} coffer_statistics;

/* Adds the numbers of `count` elements. COFFER_ERR_ARGUMENT for COFFER_UNKNOWN_DTYPE; nothing is added then. */
COFFER_API coffer_status coffer_statistics_add(coffer_statistics *statistics, coffer_dtype dtype, const void *data,
                                               size_t count);
/* Adds the numbers of another one, which may be of another dtype. */
COFFER_API void coffer_statistics_merge(coffer_statistics *statistics, const coffer_statistics *other);
/* The standard deviation of the finite numbers, as a population; NaN when there are none, infinite when a square is
   beyond the doubles. */
COFFER_API double coffer_statistics_deviation(const coffer_statistics *statistics);

/* ---- Histograms -------------------------------------------------------------------------------------------------- */

/* How many finite numbers lie in each of `bin_count` bins of equal width from `low` to `high`, such as the ends that
   statistics found. The caller's memory; begin with bins of zeros. To merge two of the same ends, add their bins. */
typedef struct coffer_histogram {
    double low;
    double high;
    uint64_t *bins;
    size_t bin_count; /* at least 1 */
} coffer_histogram;

/* Counts the numbers of `count` elements. One that equals `high`, or is above it, is in the last bin, one below `low`
   in the first. COFFER_ERR_ARGUMENT for COFFER_UNKNOWN_DTYPE, and without bins. */
COFFER_API coffer_status coffer_histogram_add(const coffer_histogram *histogram, coffer_dtype dtype, const void *data,
                                              size_t count);
/* Where bin `i` begins; with `bin_count`, where the last one ends. */
COFFER_API double coffer_histogram_edge(const coffer_histogram *histogram, size_t i);

/* ---- Distributions ----------------------------------------------------------------------------------------------- */

/* How often which numbers occur, found in one walk, before the ends are known: for histograms of any ends, and
   quantiles. Of dtypes of at most 16 bits each value is counted; of others ranges that are narrower than a thousandth
   of their numbers, as long as these are not subnormal doubles. The caller's memory; begin with `{ .counts = …,
   .dtype = … }` and counts of zeros. */
typedef struct coffer_distribution {
    uint64_t *counts; /* as many as coffer_distribution_slots says */
    coffer_dtype dtype;
    uint32_t reserved;
    uint64_t zeros; /* these are the library's */
    uint64_t finite;
    double min;
    double max;
} coffer_distribution;

/* `count` finite numbers from `low` to `high`, both included; the same where it is one value. */
typedef struct coffer_range {
    double low;
    double high;
    uint64_t count;
} coffer_range;

/* How many counts a distribution of a dtype has: 2 to the power of its bits, of more than 16 bits 2^22 (32 MiB); 0
   for COFFER_UNKNOWN_DTYPE. */
COFFER_API size_t coffer_distribution_slots(coffer_dtype dtype);
/* Counts the numbers of `count` elements. COFFER_ERR_ARGUMENT for COFFER_UNKNOWN_DTYPE, and without counts. */
COFFER_API coffer_status coffer_distribution_add(coffer_distribution *distribution, const void *data, size_t count);
/* Adds the statistics of the numbers that were counted, for dtypes of at most 16 bits: quicker than
   coffer_statistics_add, since each value is looked at once. COFFER_ERR_ARGUMENT for other dtypes, and without
   counts. */
COFFER_API coffer_status coffer_distribution_statistics(const coffer_distribution *distribution,
                                                        coffer_statistics *statistics);
/* The first range with numbers in it from *position on, where a walk begins with 0; *position then is where it
   continues. Ranges ascend, and share at most an end. False after the last one. */
COFFER_API bool coffer_distribution_next(const coffer_distribution *distribution, size_t *position,
                                         coffer_range *range);

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

/* How far the numbers of two tensors, A and B, are apart. Begin with a struct of zeros. Two NaN are equal, and so are
   two infinities of one sign. What has no finite distance counts in `nan` or `infinite` alone. */
typedef struct coffer_comparison {
    bool
        norms; /* set it before numbers are added, to have the sums at the end: bytes that are equal are decoded, too */
    bool reserved[7];
    uint64_t differing_bytes; /* of one dtype: bytes that are not the same; of two dtypes 0 */
    uint64_t differing;       /* numbers that are not equal */
    uint64_t nan;             /* of them, those that are NaN in one tensor only */
    uint64_t infinite;        /* of them, those that are infinitely far apart */
    double max;               /* of the others, the largest distance */
    double sum;               /* and the sum of all distances */
    /* With `norms`: numbers that are NaN or infinite in either tensor, and over the others the sums of the squares of
       A, of B and of B - A, and of the products of A and B. */
    uint64_t not_finite;
    double squares_a;
    double squares_b;
    double squares_apart;
    double products;
} coffer_comparison;

/* Compares `count` elements of A with as many of B, in order, and adds what comes out. Both dtypes are complex, or
   neither, else COFFER_ERR_ARGUMENT, as for COFFER_UNKNOWN_DTYPE; nothing is added then. `a` and `b` may be the same
   memory. */
COFFER_API coffer_status coffer_comparison_add(coffer_comparison *comparison, coffer_dtype dtype_a, const void *a,
                                               coffer_dtype dtype_b, const void *b, size_t count);
/* Adds what another one found out about other numbers. */
COFFER_API void coffer_comparison_merge(coffer_comparison *comparison, const coffer_comparison *other);
/* With `norms`, the norm of B - A divided by that of A: 0 if nothing differs, infinite if A is all zeros and B is
   not, NaN if a square is beyond the doubles. */
COFFER_API double coffer_comparison_relative_norm(const coffer_comparison *comparison);
/* With `norms`, the cosine of the angle between A and B, from -1 to 1; NaN if one of them is all zeros or a square is
   beyond the doubles. */
COFFER_API double coffer_comparison_cosine(const coffer_comparison *comparison);

#ifdef __cplusplus
}
#endif

#endif
