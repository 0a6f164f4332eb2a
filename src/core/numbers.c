/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics: each block's mean is taken first and then the squares of the distances from it, so that no digits cancel; blocks
 * are merged by the formula of Chan, Golub and LeVeque. Sums run in four lanes, always the same ones, so that the compiler can
 * use vectors and the result does not depend on it.
 */
#include "numbers.h"

#include "bytes.h"

#define NUMBERS_BLOCK ((size_t)4096) /* numbers that are merged at a time */
#define NUMBERS_LANES 4

/* ---- One block --------------------------------------------------------------------------------------------------- */

/* Moves the finite numbers to the front and counts the others; returns how many are finite. Every number is stored, and the
   place moves on only after a finite one, so the loop has no branches. */
static size_t numbers_keep_finite(coffer_statistics *block, double *values, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = values[i];
        const uint64_t magnitude = coffer__double_bits(value) & (UINT64_MAX >> 1);
        block->nan += magnitude > COFFER__DOUBLE_INFINITY;
        block->infinite += magnitude == COFFER__DOUBLE_INFINITY;
        values[kept] = value;
        kept += magnitude < COFFER__DOUBLE_INFINITY;
    }
    return kept;
}

static double numbers_add_lanes(const double lanes[NUMBERS_LANES])
{
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

static double numbers_sum(const double *values, size_t count)
{
    double lanes[NUMBERS_LANES] = { 0 };
    size_t i = 0;
    for (; i + NUMBERS_LANES <= count; i += NUMBERS_LANES) {
        for (size_t k = 0; k < NUMBERS_LANES; k++) {
            lanes[k] += values[i + k];
        }
    }
    for (; i < count; i++) {
        lanes[0] += values[i];
    }
    return numbers_add_lanes(lanes);
}

static double numbers_squares(const double *values, size_t count, double mean)
{
    double lanes[NUMBERS_LANES] = { 0 };
    size_t i = 0;
    for (; i + NUMBERS_LANES <= count; i += NUMBERS_LANES) {
        for (size_t k = 0; k < NUMBERS_LANES; k++) {
            const double distance = values[i + k] - mean;
            lanes[k] += distance * distance;
        }
    }
    for (; i < count; i++) {
        lanes[0] += (values[i] - mean) * (values[i] - mean);
    }
    return numbers_add_lanes(lanes);
}

static void numbers_find_ends(coffer_statistics *block, const double *values, size_t count)
{
    double low = values[0];
    double high = values[0];
    for (size_t i = 1; i < count; i++) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
    }
    block->min = low;
    block->max = high;
}

/* Zeros are below the least normal number too, so they are taken off. A dtype without subnormal numbers has 0 for it. */
static void numbers_count_small(coffer_statistics *block, const double *values, size_t count, double least_normal)
{
    uint64_t zeros = 0;
    uint64_t below = 0;
    for (size_t i = 0; i < count; i++) {
        zeros += values[i] == 0;
        below += coffer__double_magnitude(values[i]) < least_normal;
    }
    block->zeros = zeros;
    block->subnormal = least_normal > 0 ? below - zeros : 0;
}

/* Signed integers in the order of unsigned ones, and back. */
static uint64_t numbers_key(coffer_dtype dtype, uint64_t bits)
{
    return dtype == COFFER_I64 ? bits ^ (uint64_t)1 << 63 : bits;
}

static bool numbers_are_wide(coffer_dtype dtype)
{
    return dtype == COFFER_I64 || dtype == COFFER_U64;
}

static void numbers_find_wide_ends(coffer_statistics *block, const uint8_t *data, size_t count)
{
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t key = numbers_key(block->dtype, coffer__load_u64le(data + 8 * i));
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    block->min_bits = numbers_key(block->dtype, low);
    block->max_bits = numbers_key(block->dtype, high);
}

static void numbers_add_block(coffer_statistics *statistics, coffer_dtype dtype, const uint8_t *data, size_t count)
{
    double values[NUMBERS_BLOCK];
    coffer_statistics block = { .count = count * coffer__numbers_parts(dtype), .dtype = dtype };
    (void)coffer_decode(dtype, data, 0, count, values);
    const size_t finite = numbers_keep_finite(&block, values, (size_t)block.count);
    block.finite = finite;
    if (finite > 0) {
        numbers_find_ends(&block, values, finite);
        numbers_count_small(&block, values, finite, coffer__dtype_least_normal(dtype));
        block.mean = numbers_sum(values, finite) / (double)finite;
        block.squares = numbers_squares(values, finite, block.mean);
    }
    if (numbers_are_wide(dtype)) {
        numbers_find_wide_ends(&block, data, count);
    }
    coffer_statistics_merge(statistics, &block);
}

/* ---- Many ---------------------------------------------------------------------------------------------------------- */

coffer_status coffer_statistics_add(coffer_statistics *statistics, coffer_dtype dtype, const void *data, size_t count)
{
    if (statistics == NULL || !coffer__numbers_readable(dtype, data, count)) {
        return COFFER_ERR_ARGUMENT;
    }
    const size_t step = NUMBERS_BLOCK / coffer__numbers_parts(dtype);
    for (size_t done = 0; done < count; done += step) {
        const size_t left = count - done;
        numbers_add_block(statistics, dtype, coffer__numbers_at(dtype, data, done), left < step ? left : step);
    }
    return COFFER_OK;
}

/* Of integers every number is finite, so there are ends wherever there are numbers. */
static void numbers_merge_wide_ends(coffer_statistics *statistics, const coffer_statistics *other)
{
    if (statistics->count == 0) {
        statistics->dtype = other->dtype;
        statistics->min_bits = other->min_bits;
        statistics->max_bits = other->max_bits;
        return;
    }
    if (statistics->dtype != other->dtype) {
        statistics->dtype = COFFER_UNKNOWN_DTYPE;
        statistics->min_bits = statistics->max_bits = 0;
        return;
    }
    const coffer_dtype dtype = statistics->dtype;
    if (numbers_key(dtype, other->min_bits) < numbers_key(dtype, statistics->min_bits)) {
        statistics->min_bits = other->min_bits;
    }
    if (numbers_key(dtype, other->max_bits) > numbers_key(dtype, statistics->max_bits)) {
        statistics->max_bits = other->max_bits;
    }
}

/* The minimum, maximum and mean say nothing until there is a finite number: then they are those of the other one. */
static void numbers_merge_finite(coffer_statistics *statistics, const coffer_statistics *other)
{
    if (other->finite == 0) {
        return;
    }
    if (statistics->finite == 0) {
        statistics->min = other->min;
        statistics->max = other->max;
        statistics->mean = other->mean;
        statistics->squares = other->squares;
        statistics->finite = other->finite;
        return;
    }
    const double here = (double)statistics->finite;
    const double there = (double)other->finite;
    const double distance = other->mean - statistics->mean;
    statistics->min = other->min < statistics->min ? other->min : statistics->min;
    statistics->max = other->max > statistics->max ? other->max : statistics->max;
    statistics->mean += distance * (there / (here + there));
    statistics->squares += other->squares + distance * distance * (here * (there / (here + there)));
    statistics->finite += other->finite;
}

void coffer_statistics_merge(coffer_statistics *statistics, const coffer_statistics *other)
{
    if (other->count == 0) {
        return;
    }
    numbers_merge_wide_ends(statistics, other);
    numbers_merge_finite(statistics, other);
    statistics->count += other->count;
    statistics->nan += other->nan;
    statistics->infinite += other->infinite;
    statistics->zeros += other->zeros;
    statistics->subnormal += other->subnormal;
}

/*
 * Digit by digit: `root` is the root so far, and `left` what its square lacks of the mantissa, both shifted as far as the next
 * digit is. The last of 54 digits decides how the 53 of a double are rounded; there is no tie, for a root of 54 digits has a
 * square of more digits than a double.
 */
double coffer__square_root(double value)
{
    const uint64_t bits = coffer__double_bits(value);
    if (bits << 1 == 0 || bits >= COFFER__DOUBLE_INFINITY) {
        return bits << 1 == 0 || bits == COFFER__DOUBLE_INFINITY ? value : coffer__double_nan();
    }
    int exponent = (int)(bits >> 52);
    uint64_t left = bits & (((uint64_t)1 << 52) - 1);
    exponent += exponent == 0;
    left |= bits >> 52 != 0 ? (uint64_t)1 << 52 : 0;
    for (; left >> 52 == 0; exponent--) {
        left <<= 1;
    }
    /* The exponent is halved, so it has to be even; 2000 keeps it positive. */
    exponent += 2000 - 1023;
    left <<= 1 + (exponent & 1);
    uint64_t root = 0;
    uint64_t twice = 0;
    for (uint64_t digit = (uint64_t)1 << 53; digit != 0; digit >>= 1, left <<= 1) {
        if (twice + digit <= left) {
            left -= twice + digit;
            twice += 2 * digit;
            root += digit;
        }
    }
    root += left != 0 ? root & 1 : 0;
    return coffer__double_of_bits((root >> 1) + ((uint64_t)(exponent / 2 - 1000 + 1022) << 52));
}

double coffer_statistics_deviation(const coffer_statistics *statistics)
{
    return statistics->finite > 0 ? coffer__square_root(statistics->squares / (double)statistics->finite)
                                  : coffer__double_nan();
}

/* ---- Histograms -------------------------------------------------------------------------------------------------- */

/* Every finite number gets a bin: rounding may put one at the ends just outside the range, and a range of one number has no
   width. */
static void numbers_count_bins(const coffer_histogram *histogram, const double *values, size_t count)
{
    /* Halves, so that the widest range there is does not overflow. */
    const double low = histogram->low / 2;
    const double width = histogram->high / 2 - low;
    const double bins = (double)histogram->bin_count;
    const double scale = width > 0 ? bins / width : 0;
    for (size_t i = 0; i < count; i++) {
        if ((coffer__double_bits(values[i]) & COFFER__DOUBLE_INFINITY) == COFFER__DOUBLE_INFINITY) {
            continue;
        }
        const double at = (values[i] / 2 - low) * scale;
        const size_t bin = at >= 0 && at < bins ? (size_t)at : at > 0 ? histogram->bin_count - 1 : 0;
        histogram->bins[bin]++;
    }
}

coffer_status coffer_histogram_add(const coffer_histogram *histogram, coffer_dtype dtype, const void *data,
                                   size_t count)
{
    double values[2 * COFFER__NUMBERS_STEP];
    if (histogram == NULL || histogram->bins == NULL || histogram->bin_count == 0 ||
        !coffer__numbers_readable(dtype, data, count)) {
        return COFFER_ERR_ARGUMENT;
    }
    for (size_t done = 0; done < count; done += COFFER__NUMBERS_STEP) {
        const size_t left = count - done;
        const size_t step = left < COFFER__NUMBERS_STEP ? left : COFFER__NUMBERS_STEP;
        (void)coffer_decode(dtype, coffer__numbers_at(dtype, data, done), 0, step, values);
        numbers_count_bins(histogram, values, step * coffer__numbers_parts(dtype));
    }
    return COFFER_OK;
}

/* A mean of both ends, because their difference may be beyond the largest double. */
double coffer_histogram_edge(const coffer_histogram *histogram, size_t i)
{
    const double share = (double)i / (double)histogram->bin_count;
    return histogram->low * (1 - share) + histogram->high * share;
}
