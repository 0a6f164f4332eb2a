/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics, histograms, distributions and comparisons: what does not depend on how a tensor is cut into chunks, for every
 * dtype, and the values that make arithmetic lie. tests/python/test_numbers.py compares the results with numpy's.
 */
#include "bytes.h"
#include "numbers.h"
#include "support_cmocka.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENTS 9000 /* more than two blocks */
#define CHUNK 4096
#define BINS 7

static uint64_t noise_state = 1;

static uint64_t noise(void)
{
    noise_state = noise_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return noise_state >> 33;
}

static void fill(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)noise();
    }
}

static void add_statistics(coffer_statistics *statistics, coffer_dtype dtype, const void *data, size_t count)
{
    assert_int_equal(coffer_statistics_add(statistics, dtype, data, count), COFFER_OK);
}

/* ---- Statistics -------------------------------------------------------------------------------------------------- */

static void test_square_roots(void **state)
{
    (void)state;
    static const double values[] = { 0.0, -0.0, 1, 2, 4, 0.5, DBL_MIN, DBL_MAX, DBL_TRUE_MIN, DBL_EPSILON, 1e-310 };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_true(coffer__square_root(values[i]) == sqrt(values[i]));
    }
    for (size_t i = 0; i < 100000; i++) {
        const double value = coffer__double_of_bits((noise() << 33 ^ noise()) % COFFER__DOUBLE_INFINITY);
        assert_true(coffer__square_root(value) == sqrt(value));
    }
    assert_true(isinf(coffer__square_root((double)INFINITY)));
    assert_true(isnan(coffer__square_root(-1.0)));
    assert_true(isnan(coffer__square_root((double)NAN)));
}

/* The counts and ends of the whole are those of its chunks; merged in their order, all of it is the same to the bit. */
static void test_chunks(void **state)
{
    (void)state;
    uint8_t bytes[8 * ELEMENTS];
    fill(bytes, sizeof bytes);
    for (int d = 1; d <= COFFER_DTYPE_COUNT; d++) {
        const coffer_dtype dtype = (coffer_dtype)d;
        coffer_statistics whole = { 0 };
        coffer_statistics merged = { 0 };
        add_statistics(&whole, dtype, bytes, ELEMENTS);
        for (size_t done = 0; done < ELEMENTS; done += CHUNK) {
            coffer_statistics chunk = { 0 };
            add_statistics(&chunk, dtype, coffer__numbers_at(dtype, bytes, done),
                           ELEMENTS - done < CHUNK ? ELEMENTS - done : CHUNK);
            coffer_statistics_merge(&merged, &chunk);
        }
        assert_memory_equal(&whole.count, &merged.count, 6 * sizeof whole.count);
        assert_true(whole.min == merged.min && whole.max == merged.max);
        assert_int_equal(whole.count, ELEMENTS * coffer__numbers_parts(dtype));
        assert_int_equal(whole.count, whole.finite + whole.nan + whole.infinite);
        assert_int_equal(whole.dtype, dtype);
        /* A block of C64 has half as many elements. */
        assert_true(dtype == COFFER_C64 || whole.mean == merged.mean || isnan(whole.mean));
    }
}

static void test_integers_of_64_bits_keep_their_ends(void **state)
{
    (void)state;
    static const int64_t signed_numbers[] = { 5, INT64_MIN, INT64_MAX, -((int64_t)1 << 53) - 1, 0 };
    static const uint64_t unsigned_numbers[] = { UINT64_MAX, ((uint64_t)1 << 53) + 1 };
    uint8_t bytes[5 * 8];
    coffer_statistics statistics = { 0 };
    for (size_t i = 0; i < 5; i++) {
        coffer__store_u64le(bytes, (uint64_t)signed_numbers[i]);
        add_statistics(&statistics, COFFER_I64, bytes, 1);
    }
    assert_true(statistics.min_bits == (uint64_t)INT64_MIN && statistics.max_bits == (uint64_t)INT64_MAX);
    assert_int_equal(statistics.zeros, 1);
    memset(&statistics, 0, sizeof statistics);
    coffer__store_u64le(bytes, unsigned_numbers[0]);
    coffer__store_u64le(bytes + 8, unsigned_numbers[1]);
    add_statistics(&statistics, COFFER_U64, bytes, 2);
    assert_true(statistics.min_bits == unsigned_numbers[1] && statistics.max_bits == unsigned_numbers[0]);
    /* With another dtype there are no such bits. */
    add_statistics(&statistics, COFFER_U8, bytes, 1);
    assert_int_equal(statistics.dtype, COFFER_UNKNOWN_DTYPE);
    assert_true(statistics.min_bits == 0 && statistics.max_bits == 0);
    assert_true(statistics.max == 0x1p64);
}

static void test_what_is_not_finite(void **state)
{
    (void)state;
    static const double values[] = { (double)NAN, (double)INFINITY, -(double)INFINITY, -0.0, 0.0, 1.0, DBL_TRUE_MIN };
    uint8_t bytes[sizeof values];
    coffer_statistics statistics = { 0 };
    assert_true(isnan(coffer_statistics_deviation(&statistics)));
    assert_int_equal(coffer_encode(COFFER_F64, values, 7, bytes), COFFER_OK);
    add_statistics(&statistics, COFFER_F64, bytes, 3);
    assert_int_equal(statistics.finite, 0);
    add_statistics(&statistics, COFFER_F64, bytes + 24, 4);
    assert_true(statistics.nan == 1 && statistics.infinite == 2 && statistics.zeros == 2 && statistics.subnormal == 1);
    assert_true(statistics.min == 0 && statistics.max == 1 && statistics.mean == 0.25);
}

static void test_wrong_calls(void **state)
{
    (void)state;
    coffer_statistics statistics = { 0 };
    coffer_comparison comparison = { 0 };
    uint64_t bins[BINS] = { 0 };
    const coffer_histogram no_bins = { 0, 1, bins, 0 };
    const coffer_histogram histogram = { 0, 1, bins, BINS };
    coffer_distribution distribution = { .dtype = COFFER_U8 };
    const uint8_t byte = 1;
    assert_int_equal(coffer_statistics_add(&statistics, COFFER_UNKNOWN_DTYPE, &byte, 1), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_statistics_add(&statistics, COFFER_U8, NULL, 1), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_statistics_add(&statistics, COFFER_U8, NULL, 0), COFFER_OK);
    assert_int_equal(statistics.count, 0);
    assert_int_equal(coffer_histogram_add(&no_bins, COFFER_U8, &byte, 1), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_histogram_add(&histogram, COFFER_UNKNOWN_DTYPE, &byte, 1), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_distribution_add(&distribution, &byte, 1), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_comparison_add(&comparison, COFFER_C64, bins, COFFER_F64, bins, 1), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_comparison_add(&comparison, COFFER_U8, &byte, COFFER_U8, NULL, 1), COFFER_ERR_ARGUMENT);
    assert_int_equal(comparison.differing, 0);
    assert_int_equal(coffer_distribution_slots(COFFER_UNKNOWN_DTYPE), 0);
}

/* ---- Histograms and distributions -------------------------------------------------------------------------------- */

static void test_histograms(void **state)
{
    (void)state;
    static const double values[] = { -DBL_MAX, 0, DBL_MAX, (double)NAN, (double)INFINITY };
    uint8_t bytes[sizeof values];
    uint64_t bins[3] = { 0 };
    const coffer_histogram widest = { -DBL_MAX, DBL_MAX, bins, 3 };
    assert_int_equal(coffer_encode(COFFER_F64, values, 5, bytes), COFFER_OK);
    assert_int_equal(coffer_histogram_add(&widest, COFFER_F64, bytes, 5), COFFER_OK);
    assert_true(bins[0] == 1 && bins[1] == 1 && bins[2] == 1);
    assert_true(coffer_histogram_edge(&widest, 0) == -DBL_MAX && coffer_histogram_edge(&widest, 3) == DBL_MAX);
    /* A range of one number has no width. */
    const coffer_histogram narrow = { 0, 0, bins, 3 };
    assert_int_equal(coffer_histogram_add(&narrow, COFFER_F64, bytes + 8, 1), COFFER_OK);
    assert_int_equal(bins[0], 2);
}

/* What the counts of values say is what the numbers say one by one, but for how means are rounded. */
static void check_counted(const coffer_distribution *distribution, const coffer_statistics *expected)
{
    coffer_statistics found = { 0 };
    const coffer_status status = coffer_distribution_statistics(distribution, &found);
    if (coffer_dtype_bits(distribution->dtype) > 16) {
        assert_int_equal(status, COFFER_ERR_ARGUMENT);
        return;
    }
    const double deviation = coffer_statistics_deviation(expected);
    assert_int_equal(status, COFFER_OK);
    assert_memory_equal(&found.count, &expected->count, 6 * sizeof found.count);
    assert_true(found.min == expected->min && found.max == expected->max && found.dtype == expected->dtype);
    assert_true(fabs(found.mean - expected->mean) <= 1e-12 * deviation);
    assert_true(fabs(coffer_statistics_deviation(&found) - deviation) <= 1e-12 * deviation);
}

/* All finite numbers are in ranges that ascend, and within the ends that statistics find. */
static void test_distributions(void **state)
{
    (void)state;
    uint8_t bytes[8 * ELEMENTS];
    fill(bytes, sizeof bytes);
    memset(bytes, 0, 32);
    for (int d = 1; d <= COFFER_DTYPE_COUNT; d++) {
        const coffer_dtype dtype = (coffer_dtype)d;
        coffer_distribution distribution = { .dtype = dtype };
        coffer_statistics statistics = { 0 };
        coffer_range range = { 0, 0, 0 };
        double last = -(double)INFINITY;
        uint64_t count = 0;
        uint64_t zeros = 0;
        size_t position = 0;
        distribution.counts = calloc(coffer_distribution_slots(dtype), sizeof *distribution.counts);
        assert_non_null(distribution.counts);
        assert_int_equal(coffer_distribution_add(&distribution, bytes, CHUNK), COFFER_OK);
        assert_int_equal(
            coffer_distribution_add(&distribution, coffer__numbers_at(dtype, bytes, CHUNK), ELEMENTS - CHUNK),
            COFFER_OK);
        add_statistics(&statistics, dtype, bytes, ELEMENTS);
        check_counted(&distribution, &statistics);
        while (coffer_distribution_next(&distribution, &position, &range)) {
            assert_true(range.low <= range.high && last <= range.low && range.count > 0);
            assert_true(last < range.low || last != range.high);
            assert_true(range.low >= statistics.min && range.high <= statistics.max);
            assert_true(range.low * range.high >= 0);
            zeros += range.low == 0 && range.high == 0 ? range.count : 0;
            count += range.count;
            last = range.high;
        }
        free(distribution.counts);
        assert_int_equal(count, statistics.finite);
        assert_int_equal(zeros, statistics.zeros);
    }
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

static coffer_comparison compared(coffer_dtype a, const void *x, coffer_dtype b, const void *y, size_t count,
                                  bool norms)
{
    coffer_comparison comparison = { .norms = norms };
    assert_int_equal(coffer_comparison_add(&comparison, a, x, b, y, count), COFFER_OK);
    return comparison;
}

static void test_distances(void **state)
{
    (void)state;
    static const double values[2][7] = { { 1, (double)NAN, (double)NAN, (double)INFINITY, (double)INFINITY, 3,
                                           DBL_MAX },
                                         { 1, (double)NAN, 5, (double)INFINITY, 4, 7, -DBL_MAX } };
    uint8_t bytes[2][sizeof values[0]];
    for (size_t side = 0; side < 2; side++) {
        assert_int_equal(coffer_encode(COFFER_F64, values[side], 7, bytes[side]), COFFER_OK);
    }
    const coffer_comparison found = compared(COFFER_F64, bytes[0], COFFER_F64, bytes[1], 7, true);
    assert_true(found.differing == 4 && found.nan == 1 && found.infinite == 2 && found.not_finite == 4);
    assert_true(found.max == 4 && found.sum == 4 && found.differing_bytes > 0);
    assert_true(isnan(coffer_comparison_relative_norm(&found)));
    const coffer_comparison finite = compared(COFFER_F64, bytes[0] + 40, COFFER_F64, bytes[1] + 40, 1, true);
    assert_true(fabs(coffer_comparison_relative_norm(&finite) - 4.0 / 3.0) < 1e-15);
    assert_true(coffer_comparison_cosine(&finite) == 1);
    const coffer_comparison none = compared(COFFER_F64, bytes[0], COFFER_F64, bytes[0], 1, false);
    assert_true(coffer_comparison_relative_norm(&none) == 0 && isnan(coffer_comparison_cosine(&none)));
}

/* The same bytes differ nowhere; as two dtypes, or with one byte changed, they differ there alone. */
static void test_every_dtype(void **state)
{
    (void)state;
    uint8_t bytes[8 * ELEMENTS];
    uint8_t others[8 * ELEMENTS];
    fill(bytes, sizeof bytes);
    for (int d = 1; d <= COFFER_DTYPE_COUNT; d++) {
        const coffer_dtype dtype = (coffer_dtype)d;
        const size_t last = coffer__numbers_size(dtype, ELEMENTS) - 1;
        memcpy(others, bytes, sizeof bytes);
        for (int norms = 0; norms < 2; norms++) {
            const coffer_comparison same = compared(dtype, bytes, dtype, others, ELEMENTS, norms != 0);
            assert_true(same.differing == 0 && same.differing_bytes == 0 && same.max == 0 && same.sum == 0);
            assert_true((same.squares_a != 0) == (norms != 0));
        }
        others[last] ^= 0x10;
        const coffer_comparison one = compared(dtype, bytes, dtype, others, ELEMENTS, false);
        coffer_comparison merged = compared(dtype, bytes, dtype, others, CHUNK, false);
        const coffer_comparison rest = compared(dtype, coffer__numbers_at(dtype, bytes, CHUNK), dtype,
                                                coffer__numbers_at(dtype, others, CHUNK), ELEMENTS - CHUNK, false);
        coffer_comparison_merge(&merged, &rest);
        assert_int_equal(one.differing_bytes, 1);
        assert_int_equal(one.differing, merged.differing);
        assert_true(one.differing <= 1 && one.max == merged.max && one.sum == merged.sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_square_roots),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_integers_of_64_bits_keep_their_ends),
        cmocka_unit_test(test_what_is_not_finite),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_histograms),
        cmocka_unit_test(test_distributions),
        cmocka_unit_test(test_distances),
        cmocka_unit_test(test_every_dtype),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
