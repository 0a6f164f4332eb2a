/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What coffer doctor --data counts: its loop over eight bytes at a time against numbers that are decoded one by one, for
 * every bit pattern of 16 bits, and for each place in blocks of every length.
 */
#include "cli_pieces.h"
#include "doctor_numbers.h"
#include "support_cmocka.h"

#include <math.h>
#include <string.h>

#define MAX 19 /* elements: some words of each dtype, and what is left of one */

static const coffer_dtype DTYPES[] = { COFFER_F16, COFFER_BF16, COFFER_F32, COFFER_F64, COFFER_C64 };

/* The same, number by number. */
static coffer__doctor_numbers one_by_one(coffer_dtype dtype, const unsigned char *bytes, size_t count)
{
    coffer__doctor_numbers numbers = { .nan = 0 };
    const size_t parts = coffer_dtype_kind(dtype) == COFFER_KIND_COMPLEX ? 2 : 1;
    double values[2 * MAX];
    assert_int_equal(coffer_decode(dtype, bytes, 0, count, values), COFFER_OK);
    for (size_t i = 0; i < count * parts; i++) {
        numbers.nan += isnan(values[i]) != 0;
        numbers.infinite += isinf(values[i]) != 0;
    }
    for (size_t i = 0; i < cli_elements_size(dtype, count); i++) {
        numbers.filled = numbers.filled || bytes[i] != 0;
    }
    return numbers;
}

static void compare(coffer_dtype dtype, const unsigned char *bytes, size_t count)
{
    coffer__doctor_numbers found = { .nan = 0 };
    const coffer__doctor_numbers expected = one_by_one(dtype, bytes, count);
    coffer__doctor_numbers_add(&found, dtype, bytes, count);
    assert_int_equal(found.nan, expected.nan);
    assert_int_equal(found.infinite, expected.infinite);
    assert_int_equal(found.filled, expected.filled);
}

/* Alone, and beside neighbours that have every bit but one of an exponent. */
static void test_every_pattern_of_16_bits(void **state)
{
    (void)state;
    unsigned char bytes[2 * MAX];
    for (size_t d = 0; d < 2; d++) {
        for (unsigned pattern = 0; pattern < 65536; pattern++) {
            for (unsigned i = 0; i < 4; i++) {
                bytes[2 * i] = 0x7F;
                bytes[2 * i + 1] = d == 0 ? 0x7B : 0x7F;
            }
            bytes[2] = (unsigned char)pattern;
            bytes[3] = (unsigned char)(pattern >> 8);
            compare(DTYPES[d], bytes, 4);
            compare(DTYPES[d], bytes + 2, 1);
        }
    }
}

/* The last byte of the exponent alone makes a finite number odd: all its bits, and all but one. */
static void test_every_place(void **state)
{
    (void)state;
    static const unsigned char ends[] = { 0x7C, 0x7F, 0xFF, 0x7E, 0xFB };
    unsigned char bytes[8 * MAX + 1];
    for (size_t d = 0; d < sizeof DTYPES / sizeof DTYPES[0]; d++) {
        for (size_t count = 0; count <= MAX; count++) {
            const size_t size = (size_t)cli_elements_size(DTYPES[d], count);
            for (size_t at = 0; at + 1 < size; at++) {
                for (size_t e = 0; e < sizeof ends; e++) {
                    /* From an odd address, too. */
                    unsigned char *block = bytes + (count & 1);
                    memset(block, 0, size);
                    block[at] = 0xF0;
                    block[at + 1] = ends[e];
                    compare(DTYPES[d], block, count);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pattern_of_16_bits),
        cmocka_unit_test(test_every_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
