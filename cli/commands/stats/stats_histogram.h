/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of as many bins as a terminal has space for, with its memory: it can be copied. */
#ifndef COFFER_STATS_HISTOGRAM_H
#define COFFER_STATS_HISTOGRAM_H

#include "coffer.h"

#define STATS_BINS 24

typedef struct stats_histogram {
    double low;
    double high;
    uint64_t bins[STATS_BINS];
} stats_histogram;

/* Counts the numbers of `count` elements. */
void stats_count(stats_histogram *histogram, coffer_dtype dtype, const void *data, size_t count);
/* Adds the bins of another one with the same ends. */
void stats_add_bins(stats_histogram *histogram, const stats_histogram *other);
/* The most in any bin. */
uint64_t stats_tallest(const stats_histogram *histogram);
/* Where bin `i` begins, and the last one ends. */
double stats_bin_start(const stats_histogram *histogram, size_t i);

#endif
