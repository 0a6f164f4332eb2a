/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A count for each code of a dtype of at most 16 bits. Numbers of other dtypes are decoded, and counted by the upper bits of
 * the double: its sign, its exponent, and ten bits of its mantissa. Both are codes that ascend, or that have a sign and a
 * magnitude that does, so one walk goes through either in order of the values.
 */
#include "numbers.h"

#define DISTRIBUTION_MAX_CODE_BITS 16
#define DISTRIBUTION_RANGE_BITS 22
#define DISTRIBUTION_RANGE_SHIFT (64 - DISTRIBUTION_RANGE_BITS)

static bool distribution_has_codes(coffer_dtype dtype)
{
    return coffer__dtype_info_of(dtype)->bits <= DISTRIBUTION_MAX_CODE_BITS;
}

size_t coffer_distribution_slots(coffer_dtype dtype)
{
    const size_t bits = coffer__dtype_info_of(dtype)->bits;
    return bits == 0 ? 0 : (size_t)1 << (distribution_has_codes(dtype) ? bits : DISTRIBUTION_RANGE_BITS);
}

/* ---- Counting ---------------------------------------------------------------------------------------------------- */

/* Codes of any size: bits come in at the top, and go out at the bottom. */
static void distribution_count_codes(uint64_t *counts, unsigned bits, const uint8_t *data, size_t count)
{
    unsigned bits_there = 0;
    uint32_t there = 0;
    for (size_t i = 0; i < count; i++) {
        for (; bits_there < bits; bits_there += 8) {
            there |= (uint32_t)*data++ << bits_there;
        }
        counts[there & ((1u << bits) - 1)]++;
        there >>= bits;
        bits_there -= bits;
    }
}

static void distribution_count_16(uint64_t *counts, const uint8_t *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        counts[data[2 * i] | (unsigned)data[2 * i + 1] << 8]++;
    }
}

static void distribution_count_ranges(coffer_distribution *distribution, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double value = values[i];
        const uint64_t bits = coffer__double_bits(value);
        if ((bits & COFFER__DOUBLE_INFINITY) == COFFER__DOUBLE_INFINITY) {
            continue;
        }
        if (value == 0) {
            distribution->zeros++;
        } else {
            distribution->counts[bits >> DISTRIBUTION_RANGE_SHIFT]++;
        }
        const bool first = distribution->finite++ == 0;
        distribution->min = first || value < distribution->min ? value : distribution->min;
        distribution->max = first || value > distribution->max ? value : distribution->max;
    }
}

coffer_status coffer_distribution_add(coffer_distribution *distribution, const void *data, size_t count)
{
    double values[2 * COFFER__NUMBERS_STEP];
    if (distribution == NULL || distribution->counts == NULL ||
        !coffer__numbers_readable(distribution->dtype, data, count)) {
        return COFFER_ERR_ARGUMENT;
    }
    const coffer_dtype dtype = distribution->dtype;
    const unsigned bits = coffer__dtype_info_of(dtype)->bits;
    if (bits == 16) {
        distribution_count_16(distribution->counts, data, count);
        return COFFER_OK;
    }
    if (distribution_has_codes(dtype)) {
        distribution_count_codes(distribution->counts, bits, data, count);
        return COFFER_OK;
    }
    for (size_t done = 0; done < count; done += COFFER__NUMBERS_STEP) {
        const size_t left = count - done;
        const size_t step = left < COFFER__NUMBERS_STEP ? left : COFFER__NUMBERS_STEP;
        (void)coffer_decode(dtype, coffer__numbers_at(dtype, data, done), 0, step, values);
        distribution_count_ranges(distribution, values, step * coffer__numbers_parts(dtype));
    }
    return COFFER_OK;
}

/* ---- In order of the values -------------------------------------------------------------------------------------- */

/* Codes with a sign: from the largest magnitude below zero to the largest above it. */
static size_t distribution_signed_code(size_t position, size_t slots)
{
    const size_t half = slots / 2;
    return position < half ? slots - 1 - position : position - half;
}

static double distribution_value(coffer_dtype dtype, size_t code)
{
    const uint8_t bytes[2] = { (uint8_t)code, (uint8_t)(code >> 8) };
    double value = 0;
    (void)coffer_decode(dtype, bytes, 0, 1, &value);
    return value;
}

static size_t distribution_code(coffer_dtype dtype, size_t position, size_t slots)
{
    const coffer__dtype_info *info = coffer__dtype_info_of(dtype);
    if (info->kind == COFFER_KIND_SIGNED) {
        return position ^ slots / 2;
    }
    const bool has_sign = info->kind == COFFER_KIND_FLOAT && info->special != COFFER__SPECIAL_SCALE;
    return has_sign ? distribution_signed_code(position, slots) : position;
}

/* Several codes are zero, and of BOOL all but one are 1: those that follow each other are one value. */
static bool distribution_next_value(const coffer_distribution *distribution, size_t *position, coffer_range *range)
{
    const coffer_dtype dtype = distribution->dtype;
    const size_t slots = coffer_distribution_slots(dtype);
    range->count = 0;
    for (; *position < slots; ++*position) {
        const size_t code = distribution_code(dtype, *position, slots);
        const uint64_t count = distribution->counts[code];
        if (count == 0) {
            continue;
        }
        const double value = distribution_value(dtype, code);
        if ((coffer__double_bits(value) & COFFER__DOUBLE_INFINITY) == COFFER__DOUBLE_INFINITY) {
            continue;
        }
        if (range->count > 0 && value != range->low) {
            break;
        }
        /* -0 comes before 0, and is the same value. */
        range->low = range->high = value == 0 ? 0 : value;
        range->count += count;
    }
    return range->count > 0;
}

/* So many numbers of one value. */
static coffer_statistics distribution_of_value(coffer_dtype dtype, double value, uint64_t count)
{
    coffer_statistics same = { .count = count, .dtype = dtype };
    const double magnitude = coffer__double_magnitude(value);
    const uint64_t bits = coffer__double_bits(magnitude);
    if (bits >= COFFER__DOUBLE_INFINITY) {
        same.infinite = bits == COFFER__DOUBLE_INFINITY ? count : 0;
        same.nan = count - same.infinite;
        return same;
    }
    same.finite = count;
    same.zeros = value == 0 ? count : 0;
    same.subnormal = value != 0 && magnitude < coffer__dtype_least_normal(dtype) ? count : 0;
    same.min = same.max = same.mean = value;
    return same;
}

coffer_status coffer_distribution_statistics(const coffer_distribution *distribution, coffer_statistics *statistics)
{
    if (distribution == NULL || statistics == NULL || distribution->counts == NULL ||
        distribution->dtype == COFFER_UNKNOWN_DTYPE || !distribution_has_codes(distribution->dtype)) {
        return COFFER_ERR_ARGUMENT;
    }
    const coffer_dtype dtype = distribution->dtype;
    const size_t slots = coffer_distribution_slots(dtype);
    for (size_t position = 0; position < slots; position++) {
        const size_t code = distribution_code(dtype, position, slots);
        if (distribution->counts[code] > 0) {
            const coffer_statistics same =
                distribution_of_value(dtype, distribution_value(dtype, code), distribution->counts[code]);
            coffer_statistics_merge(statistics, &same);
        }
    }
    return COFFER_OK;
}

/* The range of doubles with these upper bits, as far as numbers reach. */
static void distribution_put_range(const coffer_distribution *distribution, size_t code, coffer_range *range)
{
    const uint64_t first = (uint64_t)code << DISTRIBUTION_RANGE_SHIFT;
    const double inner = coffer__double_of_bits(first);
    const double outer = coffer__double_of_bits(first | (((uint64_t)1 << DISTRIBUTION_RANGE_SHIFT) - 1));
    range->low = inner < outer ? inner : outer;
    range->high = inner < outer ? outer : inner;
    range->low = range->low < distribution->min ? distribution->min : range->low;
    range->high = range->high > distribution->max ? distribution->max : range->high;
    range->count = distribution->counts[code];
}

/* Zeros, which lie between the ranges below and above them, take a position of their own. */
static bool distribution_next_range(const coffer_distribution *distribution, size_t *position, coffer_range *range)
{
    const size_t slots = coffer_distribution_slots(distribution->dtype);
    while (*position <= slots) {
        const size_t at = (*position)++;
        if (at == slots / 2) {
            if (distribution->zeros > 0) {
                *range = (coffer_range){ .count = distribution->zeros };
                return true;
            }
            continue;
        }
        const size_t code = distribution_signed_code(at < slots / 2 ? at : at - 1, slots);
        if (distribution->counts[code] > 0) {
            distribution_put_range(distribution, code, range);
            return true;
        }
    }
    return false;
}

bool coffer_distribution_next(const coffer_distribution *distribution, size_t *position, coffer_range *range)
{
    return distribution_has_codes(distribution->dtype) ? distribution_next_value(distribution, position, range)
                                                       : distribution_next_range(distribution, position, range);
}
