/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums run in four lanes, always the same ones, so that the compiler can use vectors and the result does not depend on it.
 * A block is first summed as if all its numbers were finite. One that is not makes the sum of squares NaN or infinite; then
 * the block is gone through once more, number by number.
 */
#include "diff_numbers.h"

#include <math.h>

#define LANES 4

typedef struct sums {
    double apart[LANES]; /* absolute distances */
    double squares_a[LANES];
    double squares_b[LANES];
    double squares_apart[LANES];
    double products[LANES];
    double most[LANES];
    uint64_t differing[LANES];
} sums;

static void add_pair(sums *sum, size_t lane, double a, double b)
{
    const double difference = b - a;
    const double distance = fabs(difference);
    sum->apart[lane] += distance;
    sum->squares_a[lane] += a * a;
    sum->squares_b[lane] += b * b;
    sum->squares_apart[lane] += difference * difference;
    sum->products[lane] += a * b;
    sum->most[lane] = distance > sum->most[lane] ? distance : sum->most[lane];
    sum->differing[lane] += a != b;
}

static double add_lanes(const double lanes[LANES])
{
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

static void gather(diff_apart *apart, const sums *sum)
{
    apart->sum += add_lanes(sum->apart);
    apart->squares_a += add_lanes(sum->squares_a);
    apart->squares_b += add_lanes(sum->squares_b);
    apart->squares_apart += add_lanes(sum->squares_apart);
    apart->products += add_lanes(sum->products);
    for (size_t lane = 0; lane < LANES; lane++) {
        apart->most = sum->most[lane] > apart->most ? sum->most[lane] : apart->most;
        apart->differing += sum->differing[lane];
    }
}

/* NaN and infinities have no distance that could be summed up. Finite numbers may be infinitely far apart, too. */
static void add_odd_pair(diff_apart *apart, sums *sum, double a, double b)
{
    const bool finite = isfinite(a) && isfinite(b);
    apart->not_finite += !finite;
    if (finite && isfinite(b - a)) {
        add_pair(sum, 0, a, b);
        return;
    }
    if (a == b || (isnan(a) && isnan(b))) {
        return;
    }
    apart->differing++;
    if (isnan(a) || isnan(b)) {
        apart->nan++;
    } else {
        apart->infinite++;
    }
    if (finite) {
        sum->squares_a[0] += a * a;
        sum->squares_b[0] += b * b;
        sum->squares_apart[0] = INFINITY;
        sum->products[0] += a * b;
    }
}

static void add_all_finite(sums *sum, const double *a, const double *b, size_t count)
{
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            add_pair(sum, lane, a[i + lane], b[i + lane]);
        }
    }
    for (; i < count; i++) {
        add_pair(sum, 0, a[i], b[i]);
    }
}

void diff_add_numbers(diff_apart *apart, const double *a, const double *b, size_t count)
{
    sums sum = { 0 };
    add_all_finite(&sum, a, b, count);
    if (!isfinite(add_lanes(sum.squares_a)) || !isfinite(add_lanes(sum.squares_b))) {
        sum = (sums){ 0 };
        for (size_t i = 0; i < count; i++) {
            add_odd_pair(apart, &sum, a[i], b[i]);
        }
    }
    gather(apart, &sum);
}

void diff_merge(diff_apart *apart, const diff_apart *other)
{
    apart->bytes_differ = apart->bytes_differ || other->bytes_differ;
    apart->differing += other->differing;
    apart->nan += other->nan;
    apart->infinite += other->infinite;
    apart->most = other->most > apart->most ? other->most : apart->most;
    apart->sum += other->sum;
    apart->squares_a += other->squares_a;
    apart->squares_b += other->squares_b;
    apart->squares_apart += other->squares_apart;
    apart->products += other->products;
    apart->not_finite += other->not_finite;
}

double diff_relative_norm(const diff_apart *apart)
{
    if (apart->squares_apart == 0) {
        return 0;
    }
    if (!isfinite(apart->squares_apart) || !isfinite(apart->squares_a)) {
        return (double)NAN;
    }
    return sqrt(apart->squares_apart) / sqrt(apart->squares_a);
}

/* Rounding may lead a little past 1. */
double diff_cosine(const diff_apart *apart)
{
    const double cosine = apart->products / (sqrt(apart->squares_a) * sqrt(apart->squares_b));
    return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}
