/* SPDX-License-Identifier: Apache-2.0 */
/* Why: one table says what a dtype is; its rows are compared with the format's list, written down here a second time. */
#include "support_cmocka.h"

#include "dtype.h"

#include <string.h>

static const struct {
    const char *name;
    uint32_t bits;
    uint32_t alignment;
    coffer_kind kind;
} expected[] = {
    { "BOOL", 8, 1, COFFER_KIND_BOOL },         { "F4", 4, 1, COFFER_KIND_FLOAT },
    { "F6_E2M3", 6, 1, COFFER_KIND_FLOAT },     { "F6_E3M2", 6, 1, COFFER_KIND_FLOAT },
    { "U8", 8, 1, COFFER_KIND_UNSIGNED },       { "I8", 8, 1, COFFER_KIND_SIGNED },
    { "F8_E5M2", 8, 1, COFFER_KIND_FLOAT },     { "F8_E4M3", 8, 1, COFFER_KIND_FLOAT },
    { "F8_E8M0", 8, 1, COFFER_KIND_FLOAT },     { "F8_E4M3FNUZ", 8, 1, COFFER_KIND_FLOAT },
    { "F8_E5M2FNUZ", 8, 1, COFFER_KIND_FLOAT }, { "I16", 16, 2, COFFER_KIND_SIGNED },
    { "U16", 16, 2, COFFER_KIND_UNSIGNED },     { "F16", 16, 2, COFFER_KIND_FLOAT },
    { "BF16", 16, 2, COFFER_KIND_FLOAT },       { "I32", 32, 4, COFFER_KIND_SIGNED },
    { "U32", 32, 4, COFFER_KIND_UNSIGNED },     { "F32", 32, 4, COFFER_KIND_FLOAT },
    { "C64", 64, 4, COFFER_KIND_COMPLEX },      { "F64", 64, 8, COFFER_KIND_FLOAT },
    { "I64", 64, 8, COFFER_KIND_SIGNED },       { "U64", 64, 8, COFFER_KIND_UNSIGNED },
};

static void test_the_table(void **state)
{
    (void)state;
    assert_int_equal(sizeof expected / sizeof expected[0], COFFER_DTYPE_COUNT);
    for (int i = 0; i < COFFER_DTYPE_COUNT; i++) {
        const coffer_dtype dtype = (coffer_dtype)(i + 1);
        assert_string_equal(coffer_dtype_name(dtype), expected[i].name);
        assert_int_equal(coffer_dtype_bits(dtype), expected[i].bits);
        assert_int_equal(coffer_dtype_alignment(dtype), expected[i].alignment);
        assert_int_equal(coffer_dtype_kind(dtype), expected[i].kind);
        assert_int_equal(coffer_dtype_from_name(expected[i].name, strlen(expected[i].name)), dtype);
        assert_int_equal(coffer__dtype_info_of(dtype)->name_len, strlen(expected[i].name));
        assert_int_equal(coffer__dtype_info_of(dtype)->rank, i + 1); /* the format's list is in the writers' order */
    }
}

/* The bits of floats, from the papers that define them. A row of any other dtype has zeros there. */
static void test_the_layout_of_floats(void **state)
{
    (void)state;
    static const struct {
        uint8_t exponent;
        uint8_t mantissa;
        coffer__special special;
        int16_t bias;
    } layouts[COFFER_DTYPE_COUNT + 1] = {
        [COFFER_F4] = { 2, 1, COFFER__SPECIAL_FINITE, 1 },
        [COFFER_F6_E2M3] = { 2, 3, COFFER__SPECIAL_FINITE, 1 },
        [COFFER_F6_E3M2] = { 3, 2, COFFER__SPECIAL_FINITE, 3 },
        [COFFER_F8_E5M2] = { 5, 2, COFFER__SPECIAL_IEEE, 15 },
        [COFFER_F8_E4M3] = { 4, 3, COFFER__SPECIAL_FN, 7 },
        [COFFER_F8_E8M0] = { 8, 0, COFFER__SPECIAL_SCALE, 127 },
        [COFFER_F8_E4M3FNUZ] = { 4, 3, COFFER__SPECIAL_FNUZ, 8 },
        [COFFER_F8_E5M2FNUZ] = { 5, 2, COFFER__SPECIAL_FNUZ, 16 },
        [COFFER_F16] = { 5, 10, COFFER__SPECIAL_IEEE, 15 },
        [COFFER_BF16] = { 8, 7, COFFER__SPECIAL_IEEE, 127 },
        [COFFER_F32] = { 8, 23, COFFER__SPECIAL_IEEE, 127 },
        [COFFER_C64] = { 8, 23, COFFER__SPECIAL_IEEE, 127 },
        [COFFER_F64] = { 11, 52, COFFER__SPECIAL_IEEE, 1023 },
    };
    for (int dtype = 0; dtype <= COFFER_DTYPE_COUNT; dtype++) {
        const coffer__dtype_info *info = coffer__dtype_info_of((coffer_dtype)dtype);
        assert_int_equal(info->exponent, layouts[dtype].exponent);
        assert_int_equal(info->mantissa, layouts[dtype].mantissa);
        assert_int_equal(info->special, layouts[dtype].special);
        assert_int_equal(info->bias, layouts[dtype].bias);
    }
}

static void test_what_is_no_dtype(void **state)
{
    (void)state;
    static const int numbers[] = { 0, -1, COFFER_DTYPE_COUNT + 1, 1000000 };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_string_equal(coffer_dtype_name((coffer_dtype)numbers[i]), "");
        assert_int_equal(coffer_dtype_bits((coffer_dtype)numbers[i]), 0);
        assert_int_equal(coffer_dtype_alignment((coffer_dtype)numbers[i]), 0);
        assert_int_equal(coffer_dtype_kind((coffer_dtype)numbers[i]), COFFER_KIND_NONE);
        assert_int_equal(coffer__dtype_info_of((coffer_dtype)numbers[i])->name_len, 0);
    }
    static const char *const names[] = { "", "f32", "F3", "F322", "F8", "F8_E4M3FN", "I128" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(coffer_dtype_from_name(names[i], strlen(names[i])), COFFER_UNKNOWN_DTYPE);
    }
}

static void test_bits_multiply_in_order(void **state)
{
    (void)state;
    uint64_t bits = 0;
    assert_true(coffer__tensor_bits(COFFER_F32, NULL, 0, &bits));
    assert_int_equal(bits, 32);
    const uint64_t hidden[] = { 0, UINT64_MAX, UINT64_MAX };
    assert_true(coffer__tensor_bits(COFFER_F32, hidden, 3, &bits));
    assert_int_equal(bits, 0);
    const uint64_t seen[] = { UINT64_MAX, 2, 0 };
    assert_false(coffer__tensor_bits(COFFER_U8, seen, 3, &bits));
    const uint64_t by_bits[] = { UINT64_C(1) << 58 };
    assert_false(coffer__tensor_bits(COFFER_U64, by_bits, 1, &bits));
    assert_true(coffer__tensor_bits(COFFER_F32, by_bits, 1, &bits));
    assert_true(bits == UINT64_C(1) << 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table),
        cmocka_unit_test(test_the_layout_of_floats),
        cmocka_unit_test(test_what_is_no_dtype),
        cmocka_unit_test(test_bits_multiply_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
