/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding elements to doubles, and encoding doubles. A float format is easy to get almost right, so every code of the 4-,
 * 6-, 8- and 16-bit ones is compared with a value worked out another way (ldexp on its fields), and the landmarks of each
 * format with the numbers that its specification prints. Rounding is easy to get almost right too: every code of the 16-bit
 * formats has to come back, and between every two of them the middle, and what is next to it on both sides, is tried.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double decode_code(coffer_dtype dtype, uint32_t code)
{
    const uint8_t bytes[4] = { (uint8_t)code, (uint8_t)(code >> 8), (uint8_t)(code >> 16), (uint8_t)(code >> 24) };
    double value = -12345.0;
    assert_int_equal(coffer_decode(dtype, bytes, 0, 1, &value), COFFER_OK);
    return value;
}

/* ---- against the formats' definitions ---------------------------------------------------------------------------- */

typedef enum special { IEEE, LAST_IS_NAN, MINUS_ZERO_IS_NAN, FINITE } special;

typedef struct format {
    coffer_dtype dtype;
    int exponent_bits;
    int mantissa_bits;
    int bias;
    special special;
} format;

static const format formats[] = {
    { COFFER_F4, 2, 1, 1, FINITE },
    { COFFER_F6_E2M3, 2, 3, 1, FINITE },
    { COFFER_F6_E3M2, 3, 2, 3, FINITE },
    { COFFER_F8_E5M2, 5, 2, 15, IEEE },
    { COFFER_F8_E4M3, 4, 3, 7, LAST_IS_NAN },
    { COFFER_F8_E4M3FNUZ, 4, 3, 8, MINUS_ZERO_IS_NAN },
    { COFFER_F8_E5M2FNUZ, 5, 2, 16, MINUS_ZERO_IS_NAN },
    { COFFER_F16, 5, 10, 15, IEEE },
    { COFFER_BF16, 8, 7, 127, IEEE },
};

static double expected_value(const format *f, int code)
{
    const int mantissas = 1 << f->mantissa_bits;
    const int mantissa = code % mantissas;
    const int exponents = 1 << f->exponent_bits;
    const int exponent = code / mantissas % exponents;
    const double sign = code / mantissas / exponents != 0 ? -1.0 : 1.0;
    if (f->special == IEEE && exponent == exponents - 1) {
        return mantissa == 0 ? sign * INFINITY : NAN;
    }
    if (f->special == LAST_IS_NAN && exponent == exponents - 1 && mantissa == mantissas - 1) {
        return NAN;
    }
    if (f->special == MINUS_ZERO_IS_NAN && code == mantissas * exponents) {
        return NAN;
    }
    if (exponent == 0) {
        return sign * ldexp(mantissa, 1 - f->bias - f->mantissa_bits);
    }
    return sign * ldexp(mantissas + mantissa, exponent - f->bias - f->mantissa_bits);
}

static void assert_same(double got, double wanted, coffer_dtype dtype, int code)
{
    const bool same = isnan(wanted) ? isnan(got) : got == wanted && signbit(got) == signbit(wanted);
    if (!same) {
        fail_msg("%s code 0x%x: %a, not %a", coffer_dtype_name(dtype), (unsigned)code, got, wanted);
    }
}

static void every_code_of_the_small_floats(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const format *f = &formats[i];
        const int codes = 1 << (1 + f->exponent_bits + f->mantissa_bits);
        for (int code = 0; code < codes; code++) {
            assert_same(decode_code(f->dtype, (uint32_t)code), expected_value(f, code), f->dtype, code);
        }
    }
}

/* A NaN is the quiet one that machines make, with its sign where the format has one. */
static void every_nan_is_quiet(void **state)
{
    (void)state;
    static const struct {
        coffer_dtype dtype;
        uint32_t code;
        uint64_t bits;
    } nans[] = {
        { COFFER_F8_E4M3, 0x7F, UINT64_C(0x7FF8000000000000) },
        { COFFER_F8_E4M3, 0xFF, UINT64_C(0xFFF8000000000000) },
        { COFFER_F8_E5M2, 0x7D, UINT64_C(0x7FF8000000000000) },
        { COFFER_F8_E5M2, 0xFE, UINT64_C(0xFFF8000000000000) },
        { COFFER_F8_E4M3FNUZ, 0x80, UINT64_C(0x7FF8000000000000) },
        { COFFER_F8_E5M2FNUZ, 0x80, UINT64_C(0x7FF8000000000000) },
        { COFFER_F8_E8M0, 0xFF, UINT64_C(0x7FF8000000000000) },
        { COFFER_F16, 0x7E00, UINT64_C(0x7FF8000000000000) },
        { COFFER_F16, 0xFC01, UINT64_C(0xFFF8000000000000) },
    };
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        const double value = decode_code(nans[i].dtype, nans[i].code);
        uint64_t bits = 0;
        memcpy(&bits, &value, sizeof bits);
        assert_true(bits == nans[i].bits);
    }
}

static void every_code_of_the_scale(void **state)
{
    (void)state;
    for (int code = 0; code < 255; code++) {
        assert_same(decode_code(COFFER_F8_E8M0, (uint32_t)code), ldexp(1.0, code - 127), COFFER_F8_E8M0, code);
    }
    assert_true(isnan(decode_code(COFFER_F8_E8M0, 255)));
}

static void the_numbers_that_the_specifications_print(void **state)
{
    (void)state;
    static const struct {
        coffer_dtype dtype;
        uint32_t code;
        double value;
    } landmarks[] = {
        /* OCP 8-bit Floating Point: largest, least normal, largest subnormal, least subnormal */
        { COFFER_F8_E4M3, 0x7E, 448.0 },
        { COFFER_F8_E4M3, 0x08, 0.015625 },
        { COFFER_F8_E4M3, 0x07, 0.013671875 },
        { COFFER_F8_E4M3, 0x01, 0.001953125 },
        { COFFER_F8_E4M3, 0x80, -0.0 },
        { COFFER_F8_E4M3, 0x7F, NAN },
        { COFFER_F8_E4M3, 0xFF, NAN },
        { COFFER_F8_E5M2, 0x7B, 57344.0 },
        { COFFER_F8_E5M2, 0x04, 6.103515625e-05 },
        { COFFER_F8_E5M2, 0x03, 4.57763671875e-05 },
        { COFFER_F8_E5M2, 0x01, 1.52587890625e-05 },
        { COFFER_F8_E5M2, 0x7C, INFINITY },
        { COFFER_F8_E5M2, 0xFC, -INFINITY },
        { COFFER_F8_E5M2, 0x7D, NAN },
        /* FNUZ: one bias more, and the codes of infinity are numbers */
        { COFFER_F8_E4M3FNUZ, 0x7F, 240.0 },
        { COFFER_F8_E4M3FNUZ, 0x01, 0.0009765625 },
        { COFFER_F8_E4M3FNUZ, 0x00, 0.0 },
        { COFFER_F8_E4M3FNUZ, 0x80, NAN },
        { COFFER_F8_E5M2FNUZ, 0x7F, 57344.0 },
        { COFFER_F8_E5M2FNUZ, 0x01, 7.62939453125e-06 },
        { COFFER_F8_E5M2FNUZ, 0x80, NAN },
        /* OCP Microscaling */
        { COFFER_F6_E2M3, 0x1F, 7.5 },
        { COFFER_F6_E2M3, 0x08, 1.0 },
        { COFFER_F6_E2M3, 0x01, 0.125 },
        { COFFER_F6_E2M3, 0x3F, -7.5 },
        { COFFER_F6_E3M2, 0x1F, 28.0 },
        { COFFER_F6_E3M2, 0x04, 0.25 },
        { COFFER_F6_E3M2, 0x01, 0.0625 },
        { COFFER_F4, 0x7, 6.0 },
        { COFFER_F4, 0x1, 0.5 },
        { COFFER_F4, 0xF, -6.0 },
        { COFFER_F8_E8M0, 0x00, 5.877471754111438e-39 },
        { COFFER_F8_E8M0, 0x7F, 1.0 },
        { COFFER_F8_E8M0, 0xFE, 1.7014118346046923e38 },
        /* IEEE half, bfloat16, single */
        { COFFER_F16, 0x7BFF, 65504.0 },
        { COFFER_F16, 0x0001, 5.9604644775390625e-08 },
        { COFFER_F16, 0x3555, 0.333251953125 },
        { COFFER_BF16, 0x4049, 3.140625 },
        { COFFER_BF16, 0x0001, 9.183549615799121e-41 },
        { COFFER_F32, 0x3F800000, 1.0 },
        { COFFER_F32, 0x00000001, 1.401298464324817e-45 },
        { COFFER_F32, 0xFF800000, -INFINITY },
        { COFFER_F32, 0x7FC00000, NAN },
    };
    for (size_t i = 0; i < sizeof landmarks / sizeof landmarks[0]; i++) {
        const double got = decode_code(landmarks[i].dtype, landmarks[i].code);
        assert_same(got, landmarks[i].value, landmarks[i].dtype, (int)landmarks[i].code);
    }
}

static void the_least_normal_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const double wanted = ldexp(1.0, 1 - formats[i].bias);
        assert_true(coffer__dtype_least_normal(formats[i].dtype) == wanted);
    }
    assert_true(coffer__dtype_least_normal(COFFER_F32) == 0x1p-126);
    assert_true(coffer__dtype_least_normal(COFFER_C64) == 0x1p-126);
    assert_true(coffer__dtype_least_normal(COFFER_F64) == 0x1p-1022);
    static const coffer_dtype without[] = { COFFER_UNKNOWN_DTYPE, COFFER_BOOL, COFFER_U8, COFFER_I64, COFFER_F8_E8M0 };
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        assert_true(coffer__dtype_least_normal(without[i]) == 0.0);
    }
}

static void all_of_four_bits(void **state)
{
    (void)state;
    static const double table[16] = { 0.0,  0.5,  1.0,  1.5,  2.0,  3.0,  4.0,  6.0,
                                      -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0 };
    for (int code = 0; code < 16; code++) {
        assert_same(decode_code(COFFER_F4, (uint32_t)code), table[code], COFFER_F4, code);
    }
}

/* ---- integers, wide floats --------------------------------------------------------------------------------------- */

static void integers_and_bools(void **state)
{
    (void)state;
    static const struct {
        coffer_dtype dtype;
        uint8_t bytes[8];
        double value;
    } cases[] = {
        { COFFER_BOOL, { 0 }, 0.0 },
        { COFFER_BOOL, { 1 }, 1.0 },
        { COFFER_BOOL, { 2 }, 1.0 },
        { COFFER_BOOL, { 255 }, 1.0 },
        { COFFER_U8, { 255 }, 255.0 },
        { COFFER_I8, { 0x80 }, -128.0 },
        { COFFER_I8, { 0xFF }, -1.0 },
        { COFFER_I8, { 0x7F }, 127.0 },
        { COFFER_I16, { 0x00, 0x80 }, -32768.0 },
        { COFFER_I16, { 0x34, 0x12 }, 4660.0 },
        { COFFER_U16, { 0xFF, 0xFF }, 65535.0 },
        { COFFER_I32, { 0, 0, 0, 0x80 }, -2147483648.0 },
        { COFFER_I32, { 0xFE, 0xFF, 0xFF, 0xFF }, -2.0 },
        { COFFER_U32, { 0xFF, 0xFF, 0xFF, 0xFF }, 4294967295.0 },
        { COFFER_I64, { 0, 0, 0, 0, 0, 0, 0, 0x80 }, -9223372036854775808.0 },
        { COFFER_I64, { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF }, -1.0 },
        { COFFER_I64, { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0 }, 9007199254740991.0 },
        { COFFER_U64, { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF }, 18446744073709551616.0 },
        { COFFER_F64, { 0, 0, 0, 0, 0, 0, 0xF0, 0xBF }, -1.0 },
        { COFFER_F64, { 1, 0, 0, 0, 0, 0, 0, 0 }, 4.9406564584124654e-324 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double value = 0.5;
        assert_int_equal(coffer_decode(cases[i].dtype, cases[i].bytes, 0, 1, &value), COFFER_OK);
        assert_same(value, cases[i].value, cases[i].dtype, (int)i);
    }
}

static void every_kind_of_single(void **state)
{
    (void)state;
    /* A stride through all codes that is odd, so that low mantissa bits vary, too. */
    for (uint64_t code = 0; code <= UINT32_MAX; code += 65537 * 3) {
        const format single = { COFFER_F32, 8, 23, 127, IEEE };
        const uint32_t mantissa = (uint32_t)code & 0x7FFFFF;
        const int exponent = (int)(code >> 23 & 0xFF);
        double wanted = exponent == 0 ? ldexp(mantissa, -149) : ldexp(0x800000 + mantissa, exponent - 150);
        if (exponent == 255) {
            wanted = mantissa == 0 ? INFINITY : NAN;
        }
        wanted = code >> 31 != 0 ? -wanted : wanted;
        assert_same(decode_code(single.dtype, (uint32_t)code), wanted, single.dtype, (int)exponent);
    }
}

static void complex_gives_two_values(void **state)
{
    (void)state;
    /* 1.5-2i, then 0+inf i */
    static const uint8_t bytes[] = { 0, 0, 0xC0, 0x3F, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0x80, 0x7F };
    double values[4] = { 9, 9, 9, 9 };
    assert_int_equal(coffer_decode(COFFER_C64, bytes, 0, 2, values), COFFER_OK);
    assert_true(values[0] == 1.5 && values[1] == -2.0 && values[2] == 0.0 && isinf(values[3]));
    assert_int_equal(coffer_decode(COFFER_C64, bytes, 1, 1, values), COFFER_OK);
    assert_true(values[0] == 0.0 && isinf(values[1]) && values[2] == 0.0);
    static const uint8_t least[] = { 1, 0, 0, 0, 1, 0, 0, 0x80 };
    assert_int_equal(coffer_decode(COFFER_C64, least, 0, 1, values), COFFER_OK);
    assert_true(values[0] == 0x1p-149 && values[1] == -0x1p-149);
}

static void many_at_once_are_as_one_by_one(void **state)
{
    (void)state;
    enum { COUNT = 2000, FIRST = 5 };
    uint64_t random = 11;
    for (int number = 1; number <= COFFER_DTYPE_COUNT; number++) {
        const coffer_dtype dtype = (coffer_dtype)number;
        /* Exactly as large as it must be, so that a byte too many read is seen. */
        const size_t size = ((FIRST + COUNT) * coffer_dtype_bits(dtype) + 7) / 8;
        uint8_t *data = malloc(size);
        double *values = malloc(2 * COUNT * sizeof *values);
        assert_true(data != NULL && values != NULL);
        for (size_t i = 0; i < size; i++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            data[i] = (uint8_t)(random >> 56);
        }
        assert_int_equal(coffer_decode(dtype, data, FIRST, COUNT, values), COFFER_OK);
        const size_t parts = coffer_dtype_kind(dtype) == COFFER_KIND_COMPLEX ? 2 : 1;
        for (size_t i = 0; i < COUNT; i++) {
            double one[2];
            assert_int_equal(coffer_decode(dtype, data, FIRST + i, 1, one), COFFER_OK);
            assert_same(values[parts * i], one[0], dtype, (int)i);
            assert_same(values[parts * (i + 1) - 1], one[parts - 1], dtype, (int)i);
        }
        free(values);
        free(data);
    }
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

static uint64_t encode_value(coffer_dtype dtype, double value)
{
    uint8_t bytes[9];
    memset(bytes, 0xA5, sizeof bytes);
    assert_int_equal(coffer_encode(dtype, &value, 1, bytes), COFFER_OK);
    const size_t size = coffer_dtype_bits(dtype) / 8;
    assert_int_equal(bytes[size], 0xA5);
    uint64_t code = 0;
    for (size_t i = 0; i < size; i++) {
        code |= (uint64_t)bytes[i] << (8 * i);
    }
    return code;
}

static void assert_encoded(coffer_dtype dtype, double value, uint64_t wanted)
{
    const uint64_t got = encode_value(dtype, value);
    if (got != wanted) {
        fail_msg("%s of %a: code 0x%llx, not 0x%llx", coffer_dtype_name(dtype), value, (unsigned long long)got,
                 (unsigned long long)wanted);
    }
}

/* A number and its negative twin. */
static void assert_encoded_both(coffer_dtype dtype, double value, uint64_t wanted)
{
    assert_encoded(dtype, value, wanted);
    assert_encoded(dtype, -value, wanted | (uint64_t)1 << (coffer_dtype_bits(dtype) - 1));
}

/* The formats with infinities that are smaller than a double. */
static const format encodable[] = {
    { COFFER_F8_E5M2, 5, 2, 15, IEEE },
    { COFFER_F16, 5, 10, 15, IEEE },
    { COFFER_BF16, 8, 7, 127, IEEE },
    { COFFER_F32, 8, 23, 127, IEEE },
};

/* From one magnitude to the next one: both come back, and what lies between goes to the nearer, or the even one. */
static void check_step(const format *f, uint32_t code)
{
    const double low = expected_value(f, (int)code);
    /* The step beyond the largest number is as wide as the one before it, and infinity lies behind that. */
    const uint32_t infinity = (uint32_t)((1 << f->exponent_bits) - 1) << f->mantissa_bits;
    const double high =
        code + 1 < infinity ? expected_value(f, (int)code + 1) : ldexp(1.0, (1 << f->exponent_bits) - 1 - f->bias);
    const double middle = low + (high - low) / 2;
    assert_encoded_both(f->dtype, low, code);
    assert_encoded_both(f->dtype, nextafter(middle, 0.0), code);
    assert_encoded_both(f->dtype, middle, code + (code & 1));
    assert_encoded_both(f->dtype, nextafter(middle, INFINITY), code + 1);
    assert_encoded_both(f->dtype, nextafter(high, 0.0), code + 1);
}

static void every_step_is_rounded_to_the_nearest(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof encodable / sizeof encodable[0]; i++) {
        const format *f = &encodable[i];
        const uint32_t infinity = (uint32_t)((1 << f->exponent_bits) - 1) << f->mantissa_bits;
        /* All of them, but of F32 some thousand with the last before infinity. */
        const uint32_t stride = f->dtype == COFFER_F32 ? 99991 : 1;
        for (uint32_t code = 0; code < infinity; code += stride) {
            check_step(f, code);
        }
        check_step(f, infinity - 1);
    }
}

static void every_code_comes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const format *f = &encodable[i];
        const uint32_t infinity = (uint32_t)((1 << f->exponent_bits) - 1) << f->mantissa_bits;
        const uint32_t sign = infinity + ((uint32_t)1 << f->mantissa_bits);
        const uint32_t quiet = infinity | (uint32_t)1 << (f->mantissa_bits - 1);
        for (uint32_t code = 0; code < 2 * sign; code++) {
            const bool nan = (code & (sign - 1)) > infinity;
            assert_encoded(f->dtype, decode_code(f->dtype, code), nan ? (code & sign) | quiet : code);
        }
    }
}

static void numbers_beyond_both_ends(void **state)
{
    (void)state;
    static const struct {
        coffer_dtype dtype;
        double value;
        uint64_t code;
    } cases[] = {
        { COFFER_F16, 65504.0, 0x7BFF },
        { COFFER_F16, 65519.999, 0x7BFF },
        { COFFER_F16, 65520.0, 0x7C00 },
        { COFFER_F16, 1e300, 0x7C00 },
        { COFFER_F16, INFINITY, 0x7C00 },
        { COFFER_F16, 0x1p-24, 0x0001 },
        { COFFER_F16, 0x1p-25, 0x0000 },
        { COFFER_F16, 0x1.0000001p-25, 0x0001 },
        { COFFER_F16, 0x1p-1074, 0x0000 },
        { COFFER_BF16, 3.4e38, 0x7F80 },
        { COFFER_BF16, 0x1p-133, 0x0001 },
        { COFFER_BF16, 0x1p-134, 0x0000 },
        { COFFER_BF16, 3.140625, 0x4049 },
        { COFFER_F32, 0x1.fffffefp127, 0x7F7FFFFF },
        { COFFER_F32, 0x1.ffffffp127, 0x7F800000 },
        { COFFER_F32, 0x1p-149, 1 },
        { COFFER_F32, 0x1p-150, 0 },
        { COFFER_F32, 0.0, 0 },
        { COFFER_F64, 0.0, 0 },
        { COFFER_F64, 0x1p-1074, 1 },
        { COFFER_F64, 0x1.fffffffffffffp1023, UINT64_C(0x7FEFFFFFFFFFFFFF) },
        { COFFER_F64, INFINITY, UINT64_C(0x7FF0000000000000) },
        { COFFER_F64, 0.1, UINT64_C(0x3FB999999999999A) },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_encoded_both(cases[i].dtype, cases[i].value, cases[i].code);
    }
    /* A NaN with nothing but its lowest bit set, which the smaller formats do not have, is a NaN there. */
    const uint64_t faint = UINT64_C(0xFFF0000000000001);
    double nan = 0;
    memcpy(&nan, &faint, sizeof nan);
    const uint64_t quiet = encode_value(COFFER_BF16, nan);
    assert_true(quiet == 0xFFC0 || quiet == 0x7FC0);
    assert_int_equal(encode_value(COFFER_F16, -NAN) & 0x7FFF, 0x7E00);
}

/* As torch 2.13 casts to float8_e4m3fn: the largest number stands for all that is beyond it. */
static void saturated(void **state)
{
    static const struct {
        double value;
        uint64_t code;
    } cases[] = { { 448, 0x7E },    { 464, 0x7E },       { 465, 0x7E },        { 1e300, 0x7E }, { INFINITY, 0x7E },
                  { -465, 0xFE },   { -INFINITY, 0xFE }, { 432.01, 0x7E },     { 431.9, 0x7D }, { 1.0625, 0x38 },
                  { 1.1875, 0x3A }, { 0x1p-10, 0x00 },   { 0x1.01p-10, 0x01 }, { -0.0, 0x80 } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(encode_value(COFFER_F8_E4M3, cases[i].value), cases[i].code);
    }
    assert_int_equal(encode_value(COFFER_F8_E4M3, NAN) & 0x7F, 0x7F);
}

/* Every power of two, down to the least double: far below a format's least number nothing is left, however far. */
static void powers_of_two(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const format *f = &formats[i];
        const int least = 1 - f->bias - f->mantissa_bits; /* the exponent of the least number */
        if (coffer_encode(f->dtype, NULL, 0, NULL) != COFFER_OK) {
            continue; /* it is only decoded */
        }
        for (int exponent = -1074; exponent <= least; exponent++) {
            for (int sign = -1; sign <= 1; sign += 2) {
                const double value = sign * ldexp(1, exponent);
                const uint64_t code = encode_value(f->dtype, value);
                assert_true(decode_code(f->dtype, (uint32_t)code) == (exponent == least ? value : 0));
            }
        }
    }
}

static void what_cannot_be_encoded(void **state)
{
    (void)state;
    const double values[2] = { 1.0, 2.0 };
    uint8_t bytes[5] = { 0, 0, 0, 0, 7 };
    for (int dtype = -1; dtype <= COFFER_DTYPE_COUNT + 1; dtype++) {
        const bool can = dtype == COFFER_F16 || dtype == COFFER_BF16 || dtype == COFFER_F32 || dtype == COFFER_F64 ||
                         dtype == COFFER_F8_E5M2 || dtype == COFFER_F8_E4M3;
        assert_int_equal(coffer_encode((coffer_dtype)dtype, values, 0, bytes), can ? COFFER_OK : COFFER_ERR_ARGUMENT);
    }
    assert_int_equal(coffer_encode(COFFER_F16, values, 2, bytes), COFFER_OK);
    assert_memory_equal(bytes, "\x00\x3C\x00\x40\x07", 5);
    assert_int_equal(coffer_encode(COFFER_F16, NULL, 1, bytes), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_encode(COFFER_F16, values, 1, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_encode(COFFER_F16, NULL, 0, NULL), COFFER_OK);
}

/* ---- packing, places, arguments ---------------------------------------------------------------------------------- */

/* Packs codes bit by bit, low bits first, and decodes them from every start. */
static void check_packing(coffer_dtype dtype, unsigned bits)
{
    enum { COUNT = 64 };
    uint8_t packed[COUNT] = { 0 };
    for (unsigned i = 0; i < COUNT; i++) {
        const unsigned code = i * 37 & ((1u << bits) - 1);
        for (unsigned b = 0; b < bits; b++) {
            const unsigned at = i * bits + b;
            packed[at / 8] = (uint8_t)(packed[at / 8] | (code >> b & 1) << at % 8);
        }
    }
    /* Exactly as large as it must be, so that a byte too many read is seen. */
    uint8_t *exact = malloc(COUNT * bits / 8);
    assert_non_null(exact);
    memcpy(exact, packed, COUNT * bits / 8);
    for (unsigned first = 0; first < COUNT; first++) {
        double values[COUNT];
        assert_int_equal(coffer_decode(dtype, exact, first, COUNT - first, values), COFFER_OK);
        for (unsigned i = first; i < COUNT; i++) {
            const unsigned code = i * 37 & ((1u << bits) - 1);
            assert_same(values[i - first], decode_code(dtype, code), dtype, (int)code);
        }
    }
    free(exact);
}

static void elements_below_a_byte_are_packed_low_bits_first(void **state)
{
    (void)state;
    check_packing(COFFER_F4, 4);
    check_packing(COFFER_F6_E2M3, 6);
    check_packing(COFFER_F6_E3M2, 6);
    static const uint8_t nibbles[] = { 0x72 };
    double values[2];
    assert_int_equal(coffer_decode(COFFER_F4, nibbles, 0, 2, values), COFFER_OK);
    assert_true(values[0] == 1.0 && values[1] == 6.0);
}

static void data_needs_no_alignment(void **state)
{
    (void)state;
    static const uint8_t bytes[] = { 9, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 8, 0x40 };
    double values[2];
    assert_int_equal(coffer_decode(COFFER_F64, bytes + 1, 0, 2, values), COFFER_OK);
    assert_true(values[0] == 2.0 && values[1] == 3.0);
}

/* Of few elements and of as many as a table is made for. */
static void nothing_behind_the_values_is_written(void **state)
{
    (void)state;
    static const size_t counts[] = { 1, 3, 255, 256, 300 };
    static const uint8_t data[8 * 300];
    static double values[2 * 300 + 1];
    for (int dtype = 1; dtype <= COFFER_DTYPE_COUNT; dtype++) {
        const size_t each = coffer_dtype_kind((coffer_dtype)dtype) == COFFER_KIND_COMPLEX ? 2 : 1;
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            values[each * counts[i]] = -12345.0;
            assert_int_equal(coffer_decode((coffer_dtype)dtype, data, 0, counts[i], values), COFFER_OK);
            assert_true(values[each * counts[i]] == -12345.0);
        }
    }
}

static void elements_far_behind_the_start(void **state)
{
    (void)state;
    /* Only the end of the data exists: the element's number and the address must agree beyond 32 bits. */
    const uint64_t first = UINT64_C(3000000000) * 8;
    const uint8_t end[] = { 0x21, 0x43 };
    double values[3];
    const uintptr_t start = (uintptr_t)end - (uintptr_t)(first / 2);
    assert_int_equal(coffer_decode(COFFER_F4, (const void *)start, first + 1, 3, values), COFFER_OK);
    assert_true(values[0] == 1.0 && values[1] == 1.5 && values[2] == 2.0);
}

static void wrong_calls(void **state)
{
    (void)state;
    const uint8_t bytes[8] = { 0 };
    double value = 7.0;
    assert_int_equal(coffer_decode(COFFER_UNKNOWN_DTYPE, bytes, 0, 1, &value), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_decode((coffer_dtype)23, bytes, 0, 1, &value), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_decode((coffer_dtype)-1, bytes, 0, 1, &value), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_decode(COFFER_U8, NULL, 0, 1, &value), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_decode(COFFER_U8, bytes, 0, 1, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_decode(COFFER_U8, NULL, 0, 0, NULL), COFFER_OK);
    assert_int_equal(coffer_decode(COFFER_F32, NULL, 5, 0, NULL), COFFER_OK);
    assert_true(value == 7.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_of_the_small_floats),
        cmocka_unit_test(every_nan_is_quiet),
        cmocka_unit_test(every_code_of_the_scale),
        cmocka_unit_test(the_numbers_that_the_specifications_print),
        cmocka_unit_test(the_least_normal_numbers),
        cmocka_unit_test(all_of_four_bits),
        cmocka_unit_test(integers_and_bools),
        cmocka_unit_test(every_kind_of_single),
        cmocka_unit_test(complex_gives_two_values),
        cmocka_unit_test(many_at_once_are_as_one_by_one),
        cmocka_unit_test(every_step_is_rounded_to_the_nearest),
        cmocka_unit_test(every_code_comes_back),
        cmocka_unit_test(numbers_beyond_both_ends),
        cmocka_unit_test(saturated),
        cmocka_unit_test(powers_of_two),
        cmocka_unit_test(what_cannot_be_encoded),
        cmocka_unit_test(elements_below_a_byte_are_packed_low_bits_first),
        cmocka_unit_test(data_needs_no_alignment),
        cmocka_unit_test(nothing_behind_the_values_is_written),
        cmocka_unit_test(elements_far_behind_the_start),
        cmocka_unit_test(wrong_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
