/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums run in four lanes, always the same ones, so that the compiler can use vectors and the result does not depend on it.
 * A block is first summed as if all its numbers were finite. One that is not makes the sum of squares NaN or infinite; then
 * the block is decoded once more, and gone through number by number.
 */
#include "numbers.h"

#define COMPARISON_BLOCK ((size_t)4096) /* elements whose sums are added to the others at a time */
#define COMPARISON_LANES 4

typedef struct comparison_sums {
    double apart[COMPARISON_LANES]; /* absolute distances */
    double squares_a[COMPARISON_LANES];
    double squares_b[COMPARISON_LANES];
    double squares_apart[COMPARISON_LANES];
    double products[COMPARISON_LANES];
    double max[COMPARISON_LANES];
    uint64_t differing[COMPARISON_LANES];
} comparison_sums;

/* Where the elements of both sides are. */
typedef struct comparison_sides {
    coffer_dtype dtypes[2];
    const void *data[2];
    size_t count;
    bool same; /* the bytes of both are */
} comparison_sides;

static bool comparison_is_nan(double value)
{
    return (coffer__double_bits(value) & (UINT64_MAX >> 1)) > COFFER__DOUBLE_INFINITY;
}

static bool comparison_is_finite(double value)
{
    return (coffer__double_bits(value) & COFFER__DOUBLE_INFINITY) != COFFER__DOUBLE_INFINITY;
}

static inline void comparison_add_pair(comparison_sums *sums, size_t lane, double a, double b)
{
    const double difference = b - a;
    const double distance = coffer__double_magnitude(difference);
    sums->apart[lane] += distance;
    sums->squares_a[lane] += a * a;
    sums->squares_b[lane] += b * b;
    sums->squares_apart[lane] += difference * difference;
    sums->products[lane] += a * b;
    sums->max[lane] = distance > sums->max[lane] ? distance : sums->max[lane];
    sums->differing[lane] += a != b;
}

/* Finite numbers may be infinitely far apart, too. */
static void comparison_add_odd_pair(coffer_comparison *comparison, comparison_sums *sums, double a, double b)
{
    const bool finite = comparison_is_finite(a) && comparison_is_finite(b);
    comparison->not_finite += !finite;
    if (finite && comparison_is_finite(b - a)) {
        comparison_add_pair(sums, 0, a, b);
        return;
    }
    if (a == b || (comparison_is_nan(a) && comparison_is_nan(b))) {
        return;
    }
    comparison->differing++;
    if (comparison_is_nan(a) || comparison_is_nan(b)) {
        comparison->nan++;
    } else {
        comparison->infinite++;
    }
    if (finite) {
        sums->squares_a[0] += a * a;
        sums->squares_b[0] += b * b;
        sums->squares_apart[0] = coffer__double_of_bits(COFFER__DOUBLE_INFINITY);
        sums->products[0] += a * b;
    }
}

static void comparison_add_all(comparison_sums *sums, const double *a, const double *b, size_t count)
{
    size_t i = 0;
    for (; i + COMPARISON_LANES <= count; i += COMPARISON_LANES) {
        for (size_t lane = 0; lane < COMPARISON_LANES; lane++) {
            comparison_add_pair(sums, lane, a[i + lane], b[i + lane]);
        }
    }
    for (; i < count; i++) {
        comparison_add_pair(sums, 0, a[i], b[i]);
    }
}

static double comparison_add_lanes(const double lanes[COMPARISON_LANES])
{
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

static void comparison_gather(coffer_comparison *comparison, const comparison_sums *sums)
{
    comparison->sum += comparison_add_lanes(sums->apart);
    comparison->squares_a += comparison_add_lanes(sums->squares_a);
    comparison->squares_b += comparison_add_lanes(sums->squares_b);
    comparison->squares_apart += comparison_add_lanes(sums->squares_apart);
    comparison->products += comparison_add_lanes(sums->products);
    for (size_t lane = 0; lane < COMPARISON_LANES; lane++) {
        comparison->max = sums->max[lane] > comparison->max ? sums->max[lane] : comparison->max;
        comparison->differing += sums->differing[lane];
    }
}

/* Sums up a block, step by step; one by one when not all of its numbers are finite. */
static void comparison_sum(coffer_comparison *comparison, const comparison_sides *block, bool one_by_one,
                           comparison_sums *sums)
{
    double values[2][2 * COFFER__NUMBERS_STEP];
    const size_t sides = block->same ? 1 : 2;
    for (size_t done = 0; done < block->count; done += COFFER__NUMBERS_STEP) {
        const size_t left = block->count - done;
        const size_t step = left < COFFER__NUMBERS_STEP ? left : COFFER__NUMBERS_STEP;
        const size_t numbers = step * coffer__numbers_parts(block->dtypes[0]);
        for (size_t side = 0; side < sides; side++) {
            const uint8_t *from = coffer__numbers_at(block->dtypes[side], block->data[side], done);
            (void)coffer_decode(block->dtypes[side], from, 0, step, values[side]);
        }
        const double *others = values[sides - 1];
        if (!one_by_one) {
            comparison_add_all(sums, values[0], others, numbers);
            continue;
        }
        for (size_t i = 0; i < numbers; i++) {
            comparison_add_odd_pair(comparison, sums, values[0][i], others[i]);
        }
    }
}

static uint64_t comparison_differing_bytes(const uint8_t *a, const uint8_t *b, size_t size)
{
    uint64_t count = 0;
    for (size_t i = 0; i < size; i++) {
        count += a[i] != b[i];
    }
    return count;
}

/* Equal bytes of one dtype need no look at their numbers, unless norms are asked for. */
static void comparison_add_block(coffer_comparison *comparison, comparison_sides *block)
{
    comparison_sums sums = { .differing = { 0 } };
    const size_t size = coffer__numbers_size(block->dtypes[0], block->count);
    if (block->dtypes[0] == block->dtypes[1]) {
        block->same = memcmp(block->data[0], block->data[1], size) == 0;
        if (block->same && !comparison->norms) {
            return;
        }
        comparison->differing_bytes +=
            comparison_differing_bytes(block->data[0], block->data[1], block->same ? 0 : size);
    }
    comparison_sum(comparison, block, false, &sums);
    if (!comparison_is_finite(comparison_add_lanes(sums.squares_a)) ||
        !comparison_is_finite(comparison_add_lanes(sums.squares_b))) {
        sums = (comparison_sums){ .differing = { 0 } };
        comparison_sum(comparison, block, true, &sums);
    }
    comparison_gather(comparison, &sums);
}

coffer_status coffer_comparison_add(coffer_comparison *comparison, coffer_dtype dtype_a, const void *a,
                                    coffer_dtype dtype_b, const void *b, size_t count)
{
    if (comparison == NULL || !coffer__numbers_readable(dtype_a, a, count) ||
        !coffer__numbers_readable(dtype_b, b, count) ||
        coffer__numbers_parts(dtype_a) != coffer__numbers_parts(dtype_b)) {
        return COFFER_ERR_ARGUMENT;
    }
    for (size_t done = 0; done < count; done += COMPARISON_BLOCK) {
        const size_t left = count - done;
        comparison_sides block = { { dtype_a, dtype_b },
                                   { coffer__numbers_at(dtype_a, a, done), coffer__numbers_at(dtype_b, b, done) },
                                   left < COMPARISON_BLOCK ? left : COMPARISON_BLOCK,
                                   false };
        comparison_add_block(comparison, &block);
    }
    return COFFER_OK;
}

void coffer_comparison_merge(coffer_comparison *comparison, const coffer_comparison *other)
{
    comparison->differing_bytes += other->differing_bytes;
    comparison->differing += other->differing;
    comparison->nan += other->nan;
    comparison->infinite += other->infinite;
    comparison->max = other->max > comparison->max ? other->max : comparison->max;
    comparison->sum += other->sum;
    comparison->not_finite += other->not_finite;
    comparison->squares_a += other->squares_a;
    comparison->squares_b += other->squares_b;
    comparison->squares_apart += other->squares_apart;
    comparison->products += other->products;
}

double coffer_comparison_relative_norm(const coffer_comparison *comparison)
{
    if (comparison->squares_apart == 0) {
        return 0;
    }
    if (!comparison_is_finite(comparison->squares_apart) || !comparison_is_finite(comparison->squares_a)) {
        return coffer__double_nan();
    }
    return coffer__square_root(comparison->squares_apart) / coffer__square_root(comparison->squares_a);
}

/* Rounding may lead a little past 1. */
double coffer_comparison_cosine(const coffer_comparison *comparison)
{
    const double norms = coffer__square_root(comparison->squares_a) * coffer__square_root(comparison->squares_b);
    const double cosine = comparison->products / norms;
    return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}
