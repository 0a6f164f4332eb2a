/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of src/core/floats.c beside coffer_decode and coffer_encode: every code of 16 bits, and the numbers at
   and around every rounding. */
#include "support_cmocka.h"

#include "coffer.h"
#include "floats.h"

#include <math.h>
#include <string.h>

#define BLOCK COFFER__FLOATS_MAX

static const coffer_dtype dtypes[] = { COFFER_F16, COFFER_BF16, COFFER_F32 };

static uint32_t bits_of(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float of_bits(uint32_t bits)
{
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void test_which_dtypes(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < COFFER_DTYPE_COUNT; dtype++) {
        assert_int_equal(coffer__floats_have((coffer_dtype)dtype),
                         dtype == COFFER_F16 || dtype == COFFER_BF16 || dtype == COFFER_F32);
    }
}

static void test_every_code_is_decoded(void **state)
{
    uint8_t bytes[2 * BLOCK];
    float values[BLOCK];
    double wanted[BLOCK];
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        for (uint32_t code = 0; code < 65536; code += BLOCK) {
            for (uint32_t i = 0; i < BLOCK; i++) {
                bytes[2 * i] = (uint8_t)(code + i);
                bytes[2 * i + 1] = (uint8_t)((code + i) >> 8);
            }
            coffer__floats_decode(dtypes[d], bytes, BLOCK, values);
            assert_int_equal(coffer_decode(dtypes[d], bytes, 0, BLOCK, wanted), COFFER_OK);
            for (size_t i = 0; i < BLOCK; i++) {
                assert_true(isnan(wanted[i]) ? isnan(values[i]) : bits_of(values[i]) == bits_of((float)wanted[i]));
            }
        }
    }
}

/* Encodes a block both ways; NaN is NaN, whatever a conversion to a double makes of its sign and payload. */
static void check_block(coffer_dtype dtype, const float *values)
{
    uint8_t found[4 * BLOCK];
    uint8_t wanted[4 * BLOCK];
    double wide[BLOCK];
    double back[BLOCK];
    coffer__floats_losses losses = { 0, 0 };
    coffer__floats_losses lost = { 0, 0 };
    for (size_t i = 0; i < BLOCK; i++) {
        wide[i] = (double)values[i];
    }
    coffer__floats_encode(dtype, values, BLOCK, found, &losses);
    assert_int_equal(coffer_encode(dtype, wide, BLOCK, wanted), COFFER_OK);
    assert_int_equal(coffer_decode(dtype, wanted, 0, BLOCK, back), COFFER_OK);
    assert_memory_equal(found, wanted, BLOCK * coffer_dtype_bits(dtype) / 8);
    for (size_t i = 0; i < BLOCK; i++) {
        lost.overflowed += isinf(back[i]) && !isinf(wide[i]);
        lost.vanished += back[i] == 0 && wide[i] != 0;
    }
    assert_int_equal(losses.overflowed, lost.overflowed);
    assert_int_equal(losses.vanished, lost.vanished);
}

/* Every code of the upper half with lower halves at and around those of ties of either dtype, subnormal ones of F16
   included, whose ties are at any bit. */
static void test_every_rounding(void **state)
{
    static const uint16_t lower[] = { 0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x2000, 0x3000, 0x7FFF,
                                      0x8000, 0x8001, 0x9000, 0xB000, 0xC000, 0xD001, 0xF000, 0xFFFF };
    float values[BLOCK];
    size_t used = 0;
    (void)state;
    for (uint32_t upper = 0; upper < 65536; upper++) {
        for (size_t i = 0; i < sizeof lower / sizeof lower[0]; i++) {
            values[used++] = of_bits(upper << 16 | lower[i]);
        }
        if (used == BLOCK) {
            for (size_t d = 0; d < 3; d++) {
                check_block(dtypes[d], values);
            }
            used = 0;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_dtypes),
        cmocka_unit_test(test_every_code_is_decoded),
        cmocka_unit_test(test_every_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
