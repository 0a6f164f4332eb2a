/* SPDX-License-Identifier: Apache-2.0 */
/* What stats finds out about numbers: moments that can be merged without losing digits, and counts in bins. */
#ifndef COFFER_STATS_NUMBERS_H
#define COFFER_STATS_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* Begin with a struct of zeros. Minimum, maximum, mean and squares are of the finite numbers. */
typedef struct stats_numbers {
    uint64_t count;
    uint64_t finite;
    uint64_t nan;
    uint64_t infinite;
    uint64_t zeros;
    uint64_t subnormal;
    double min;
    double max;
    double mean;
    double squares; /* the sum of the squared distances from the mean */
} stats_numbers;

/* Adds numbers of a dtype whose least normal number is given; their order is changed. */
void stats_add(stats_numbers *stats, double *values, size_t count, double least_normal);
/* Adds what was found out about other numbers. */
void stats_merge(stats_numbers *stats, const stats_numbers *other);
/* The standard deviation of all of them as a population; NaN when there are none. */
double stats_deviation(const stats_numbers *stats);

#define STATS_BINS 24

/* How many numbers lie in each of the bins of equal width from `low` to `high`. */
typedef struct stats_histogram {
    double low;
    double high;
    uint64_t bins[STATS_BINS];
} stats_histogram;

/* Counts the finite ones. */
void stats_count(stats_histogram *histogram, const double *values, size_t count);
/* The most in any bin. */
uint64_t stats_tallest(const stats_histogram *histogram);
/* Where bin `i` begins, and the last one ends. */
double stats_bin_start(const stats_histogram *histogram, size_t i);

#endif
