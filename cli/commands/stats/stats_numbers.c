/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moments: each block's mean is taken first and then the squares of the distances from it, so that
 * no digits cancel; blocks are merged by the formula of Chan, Golub and LeVeque. Sums run in four
 * lanes, always the same ones, so that the processor has something to do and the result does not
 * depend on the compiler's mood.
 */
#include "stats_numbers.h"

#include <math.h>

#define LANES 4

/* Moves the finite numbers to the front and counts the others; returns how many are finite. Every
   number is stored, and the place moves on only after a finite one, so the loop has no branches. */
static size_t keep_finite(stats_numbers *stats, double *values, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = values[i];
        stats->nan += isnan(value) != 0;
        stats->infinite += isinf(value) != 0;
        values[kept] = value;
        kept += isfinite(value) != 0;
    }
    return kept;
}

static double add_lanes(const double lanes[LANES])
{
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

static double sum_of(const double *values, size_t count)
{
    double lanes[LANES] = { 0 };
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lanes[k] += values[i + k];
        }
    }
    for (; i < count; i++) {
        lanes[0] += values[i];
    }
    return add_lanes(lanes);
}

static double squares_of(const double *values, size_t count, double mean)
{
    double lanes[LANES] = { 0 };
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            const double distance = values[i + k] - mean;
            lanes[k] += distance * distance;
        }
    }
    for (; i < count; i++) {
        lanes[0] += (values[i] - mean) * (values[i] - mean);
    }
    return add_lanes(lanes);
}

static void find_ends(stats_numbers *stats, const double *values, size_t count)
{
    double low = values[0];
    double high = values[0];
    for (size_t i = 1; i < count; i++) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
    }
    stats->min = low;
    stats->max = high;
}

/* Zeros are below the least normal number too, so they are taken off. A dtype without subnormal
   numbers has 0 for it. */
static void count_small(stats_numbers *stats, const double *values, size_t count, double least_normal)
{
    uint64_t zeros = 0;
    uint64_t below = 0;
    for (size_t i = 0; i < count; i++) {
        zeros += values[i] == 0;
        below += fabs(values[i]) < least_normal;
    }
    stats->zeros = zeros;
    stats->subnormal = least_normal > 0 ? below - zeros : 0;
}

void stats_add(stats_numbers *stats, double *values, size_t count, double least_normal)
{
    stats_numbers block = { .count = count };
    block.finite = keep_finite(&block, values, count);
    if (block.finite > 0) {
        const size_t finite = (size_t)block.finite;
        find_ends(&block, values, finite);
        count_small(&block, values, finite, least_normal);
        block.mean = sum_of(values, finite) / (double)finite;
        block.squares = squares_of(values, finite, block.mean);
    }
    stats_merge(stats, &block);
}

/* The minimum, maximum and mean say nothing until there is a finite number: then they are those of the
   other block. */
void stats_merge(stats_numbers *stats, const stats_numbers *other)
{
    const double here = (double)stats->finite;
    const double there = (double)other->finite;
    stats->count += other->count;
    stats->nan += other->nan;
    stats->infinite += other->infinite;
    stats->zeros += other->zeros;
    stats->subnormal += other->subnormal;
    if (other->finite == 0) {
        return;
    }
    if (stats->finite == 0) {
        stats->min = other->min;
        stats->max = other->max;
        stats->mean = other->mean;
        stats->squares = other->squares;
    } else {
        const double distance = other->mean - stats->mean;
        stats->min = other->min < stats->min ? other->min : stats->min;
        stats->max = other->max > stats->max ? other->max : stats->max;
        stats->mean += distance * (there / (here + there));
        stats->squares += other->squares + distance * distance * (here * (there / (here + there)));
    }
    stats->finite += other->finite;
}

double stats_deviation(const stats_numbers *stats)
{
    return stats->finite > 0 ? sqrt(stats->squares / (double)stats->finite) : (double)NAN;
}

/* Every finite number gets a bin: rounding may put one at the ends just outside the range, and a range
   of one number has no width. */
void stats_count(stats_histogram *histogram, const double *values, size_t count)
{
    /* Halves, so that the widest range there is does not overflow. */
    const double low = histogram->low / 2;
    const double width = histogram->high / 2 - low;
    const double scale = width > 0 ? STATS_BINS / width : 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            continue;
        }
        const double at = (values[i] / 2 - low) * scale;
        const size_t bin = at >= 0 && at < STATS_BINS ? (size_t)at : at > 0 ? STATS_BINS - 1 : 0;
        histogram->bins[bin]++;
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

/* A mean of both ends, because their difference may be beyond the largest double. */
double stats_bin_start(const stats_histogram *histogram, size_t i)
{
    const double share = (double)i / STATS_BINS;
    return histogram->low * (1 - share) + histogram->high * share;
}
