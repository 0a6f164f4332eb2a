/* SPDX-License-Identifier: Apache-2.0 */
#include "stats_histogram.h"

void stats_count(stats_histogram *histogram, coffer_dtype dtype, const void *data, size_t count)
{
    const coffer_histogram view = { histogram->low, histogram->high, histogram->bins, STATS_BINS };
    (void)coffer_histogram_add(&view, dtype, data, count);
}

void stats_add_bins(stats_histogram *histogram, const stats_histogram *other)
{
    for (size_t i = 0; i < STATS_BINS; i++) {
        histogram->bins[i] += other->bins[i];
    }
}

uint64_t stats_tallest(const stats_histogram *histogram)
{
    uint64_t most = 0;
    for (size_t i = 0; i < STATS_BINS; i++) {
        most = histogram->bins[i] > most ? histogram->bins[i] : most;
    }
    return most;
}

double stats_bin_start(const stats_histogram *histogram, size_t i)
{
    const coffer_histogram view = { .low = histogram->low, .high = histogram->high, .bin_count = STATS_BINS };
    return coffer_histogram_edge(&view, i);
}
