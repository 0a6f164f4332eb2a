/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics, histograms, distributions and comparisons: elements of dtypes of every size and kind, of any value; few of them, and so
 * many that they are gone through in several blocks. The arrays end where the elements do, or the counts. NaN is allowed here.
 */
#include "decode.h"
#include "prove.h"

#include <float.h>

#define BINS 3
/* More than a block of any of them, and more than half of one of complex numbers. */
#define MANY 4099

static void *prove_zeros(size_t count, size_t size)
{
    //@ eva_allocate fresh_weak;
    void *block = calloc(count, size);
    if (block == NULL) {
        exit(1);
    }
    return block;
}

/* Bytes of any value. */
static uint8_t *prove_elements(coffer_dtype dtype, size_t count)
{
    const size_t size = (count * coffer_dtype_bits(dtype) + 7) / 8;
    uint8_t *data = prove_zeros(size, 1);
    for (size_t i = 0; i < size; i++) {
        data[i] = Frama_C_unsigned_char_interval(0, 255);
    }
    return data;
}

static void prove_statistics(coffer_dtype dtype, const uint8_t *data, size_t count)
{
    coffer_statistics statistics = { .count = 0 };
    coffer_statistics other = { .count = 0 };
    coffer_statistics_add(&statistics, dtype, data, count);
    coffer_statistics_add(&statistics, dtype, data, count);
    coffer_statistics_add(&other, COFFER_U8, data, 1);
    coffer_statistics_merge(&statistics, &other);
}

/* Of finite numbers, and of ranges whose bins do not come out as NaN: the analyser does not see that comparisons with NaN fail. A usual
   range, the widest, one of a single number, and a very narrow one. */
static void prove_histogram(coffer_dtype dtype, const uint8_t *data, size_t count)
{
    static const double ends[][2] = { { -1, 2 }, { -DBL_MAX, DBL_MAX }, { 5, 5 }, { 0, 1e-300 } };
    uint64_t bins[BINS] = { 0 };
    prove_decodes_finite = true;
    //@ loop unroll 4;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const coffer_histogram histogram = { ends[i][0], ends[i][1], bins, BINS };
        coffer_histogram_add(&histogram, dtype, data, count);
        coffer_histogram_edge(&histogram, prove_size(0, BINS));
    }
    prove_decodes_finite = false;
}

static void prove_distribution(coffer_dtype dtype, const uint8_t *data, size_t count)
{
    uint64_t *counts = prove_zeros(coffer_distribution_slots(dtype), sizeof *counts);
    coffer_distribution distribution = { .counts = counts, .dtype = dtype };
    coffer_statistics statistics = { .count = 0 };
    coffer_range range = { 0, 0, 0 };
    size_t position = 0;
    coffer_distribution_add(&distribution, data, count);
    coffer_distribution_statistics(&distribution, &statistics);
    while (coffer_distribution_next(&distribution, &position, &range)) {}
}

static void prove_comparison(coffer_dtype dtype, const uint8_t *data, size_t count)
{
    coffer_comparison comparison = { .norms = prove_bool() };
    coffer_comparison other = { .norms = comparison.norms };
    const coffer_dtype wide = coffer_dtype_kind(dtype) == COFFER_KIND_COMPLEX ? dtype : COFFER_F64;
    const uint8_t *same = prove_elements(dtype, count);
    coffer_comparison_add(&comparison, dtype, data, dtype, same, count);
    coffer_comparison_add(&other, dtype, data, wide, prove_elements(wide, count), count);
    coffer_comparison_merge(&comparison, &other);
}

static void prove_dtype(coffer_dtype dtype, size_t count)
{
    const uint8_t *data = prove_elements(dtype, count);
    prove_statistics(dtype, data, count);
    prove_histogram(dtype, data, count);
    prove_distribution(dtype, data, count);
    prove_comparison(dtype, data, count);
}

static void prove_root(uint64_t low, uint64_t high)
{
    const uint64_t bits = Frama_C_unsigned_long_interval(low, high);
    double value;
    memcpy(&value, &bits, sizeof value);
    const coffer_statistics statistics = { .squares = value, .finite = prove_each(0, 1) };
    const coffer_comparison comparison = { .squares_a = value, .squares_b = value, .squares_apart = value };
    coffer_statistics_deviation(&statistics);
    coffer_comparison_relative_norm(&comparison);
    coffer_comparison_cosine(&comparison);
}

/* Of 0, of subnormal numbers, by their highest bit, of normal ones, of infinity and NaN, and of what has a sign. */
static void prove_roots(void)
{
    const uint64_t infinity = UINT64_C(0x7FF) << 52;
    prove_root(0, 0);
    //@ loop unroll 52;
    for (unsigned top = 0; top < 52; top++) {
        prove_root(UINT64_C(1) << top, (UINT64_C(2) << top) - 1);
    }
    prove_root(UINT64_C(1) << 52, infinity - 1);
    prove_root(infinity, UINT64_MAX >> 1);
    prove_root(UINT64_C(1) << 63, UINT64_MAX);
}

static void prove_refused(void)
{
    const uint8_t data[8] = { 0 };
    uint64_t counts[4] = { 0 };
    coffer_statistics statistics = { .count = 0 };
    coffer_statistics_add(NULL, COFFER_U8, data, 1);
    coffer_statistics_add(&statistics, COFFER_UNKNOWN_DTYPE, data, 1);
    coffer_statistics_add(&statistics, COFFER_U8, NULL, 1);
    coffer_statistics_add(&statistics, COFFER_U8, NULL, 0);
    const coffer_histogram histogram = { 0, 1, counts, BINS };
    const coffer_histogram without_bins = { 0, 1, NULL, BINS };
    const coffer_histogram of_no_bins = { 0, 1, counts, 0 };
    coffer_histogram_add(NULL, COFFER_U8, data, 1);
    coffer_histogram_add(&without_bins, COFFER_U8, data, 1);
    coffer_histogram_add(&of_no_bins, COFFER_U8, data, 1);
    coffer_histogram_add(&histogram, COFFER_U8, NULL, 1);
    coffer_distribution distribution = { .dtype = COFFER_U8 };
    coffer_distribution unknown = { .counts = counts, .dtype = COFFER_UNKNOWN_DTYPE };
    coffer_distribution_add(NULL, data, 1);
    coffer_distribution_add(&distribution, data, 1);
    coffer_distribution_add(&unknown, data, 1);
    coffer_distribution_statistics(NULL, &statistics);
    coffer_distribution_statistics(&distribution, NULL);
    coffer_distribution_statistics(&distribution, &statistics);
    coffer_distribution_statistics(&unknown, &statistics);
    unknown.dtype = COFFER_F32;
    coffer_distribution_statistics(&unknown, &statistics);
    coffer_distribution_slots(COFFER_UNKNOWN_DTYPE);
    coffer_comparison comparison = { .norms = false };
    coffer_comparison_add(NULL, COFFER_U8, data, COFFER_U8, data, 1);
    coffer_comparison_add(&comparison, COFFER_U8, NULL, COFFER_U8, data, 1);
    coffer_comparison_add(&comparison, COFFER_U8, data, COFFER_U8, NULL, 1);
    coffer_comparison_add(&comparison, COFFER_U8, data, COFFER_C64, data, 1);
}

int main(void)
{
    static const coffer_dtype dtypes[] = { COFFER_BOOL, COFFER_F4,  COFFER_F6_E2M3, COFFER_F8_E4M3, COFFER_F8_E8M0,
                                           COFFER_I8,   COFFER_U16, COFFER_BF16,    COFFER_F32,     COFFER_F64,
                                           COFFER_I64,  COFFER_U64, COFFER_C64 };
    if (prove_is_mine(0)) {
        prove_dtype(COFFER_F32, MANY);
    }
    if (prove_is_mine(1)) {
        prove_dtype(COFFER_C64, MANY);
    }
    if (prove_is_mine(2)) {
        prove_refused();
        prove_roots();
    }
    //@ loop unroll 20;
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (prove_is_mine(i)) {
            prove_dtype(dtypes[i], 8);
        }
    }
    return 0;
}
