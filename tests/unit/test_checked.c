/* SPDX-License-Identifier: Apache-2.0 */
/* Why: whatever is added or multiplied of what a file says goes through here; the last number that fits must, the next must not. */
#include "support_cmocka.h"

#include "checked.h"

static void expect_sum(uint64_t a, uint64_t b, bool fits)
{
    uint64_t sum = 77;
    assert_int_equal(coffer__add_u64(a, b, &sum), fits);
    assert_true(sum == (fits ? a + b : 77));
    assert_int_equal(coffer__add_u64(b, a, &sum), fits);
}

static void test_sums(void **state)
{
    (void)state;
    expect_sum(0, 0, true);
    expect_sum(0, UINT64_MAX, true);
    expect_sum(1, UINT64_MAX, false);
    expect_sum(1, UINT64_MAX - 1, true);
    expect_sum(UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, true);
    expect_sum(UINT64_C(1) << 63, UINT64_C(1) << 63, false);
    expect_sum(UINT64_MAX, UINT64_MAX, false);
}

static void expect_product(uint64_t a, uint64_t b, bool fits)
{
    uint64_t product = 77;
    assert_int_equal(coffer__mul_u64(a, b, &product), fits);
    assert_true(product == (fits ? a * b : 77));
    product = 77;
    assert_int_equal(coffer__mul_u64(b, a, &product), fits);
    assert_true(product == (fits ? a * b : 77));
}

static void test_products(void **state)
{
    (void)state;
    expect_product(0, 0, true);
    expect_product(0, UINT64_MAX, true);
    expect_product(1, UINT64_MAX, true);
    expect_product(2, UINT64_MAX, false);
    expect_product(UINT32_MAX, UINT32_MAX, true);
    expect_product(UINT64_C(1) << 32, UINT32_MAX, true);
    expect_product(UINT64_C(1) << 32, UINT64_C(1) << 32, false);
    expect_product(UINT64_C(1) << 32, UINT64_C(1) << 31, true);
    expect_product(UINT64_C(1) << 62, 3, true);
    expect_product(UINT64_C(1) << 62, 4, false);
    expect_product(UINT64_C(6148914691236517205), 3, true); /* 3 * that is 2^64-1 */
    expect_product(UINT64_C(6148914691236517206), 3, false);
}

static void expect_rounded(uint64_t value, uint64_t alignment, bool fits, uint64_t expected)
{
    uint64_t rounded = 77;
    assert_int_equal(coffer__round_up_u64(value, alignment, &rounded), fits);
    assert_true(rounded == (fits ? expected : 77));
}

static void test_rounding_up(void **state)
{
    (void)state;
    expect_rounded(0, 8, true, 0);
    expect_rounded(1, 8, true, 8);
    expect_rounded(8, 8, true, 8);
    expect_rounded(9, 8, true, 16);
    expect_rounded(5, 1, true, 5);
    expect_rounded(UINT64_MAX, 1, true, UINT64_MAX);
    expect_rounded(UINT64_MAX - 7, 8, true, UINT64_MAX - 7);
    expect_rounded(UINT64_MAX - 6, 8, false, 0);
    expect_rounded(1, UINT64_C(1) << 63, true, UINT64_C(1) << 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_rounding_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
