/* SPDX-License-Identifier: Apache-2.0 */
/* An element as text: see cli_values.h for what is written. */
#include "cli_values.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t little_endian(const unsigned char *bytes, size_t size)
{
    uint64_t value = 0;
    for (size_t i = size; i > 0; i--) {
        value = value << 8 | bytes[i - 1];
    }
    return value;
}

/* Whether `decimal` is nearer to `value` than to its neighbours among numbers with that many bits of fraction. */
static bool is_nearest(double value, double decimal, int fraction_bits, int lowest_exponent)
{
    int exponent = 0;
    const double mantissa = frexp(fabs(value), &exponent);
    exponent -= 1;
    const int scale = exponent > lowest_exponent ? exponent : lowest_exponent;
    const double half_step = ldexp(0.5, scale - fraction_bits);
    const double distance = fabs(decimal) - fabs(value);
    /* Below a power of two the steps are half as wide. */
    const bool narrow = mantissa == 0.5 && exponent > lowest_exponent;
    return distance < half_step && -distance < (narrow ? half_step / 2 : half_step);
}

static bool reads_back(coffer_dtype dtype, double value, double decimal)
{
    switch (dtype) {
    case COFFER_F16:
        return is_nearest(value, decimal, 10, -14);
    case COFFER_BF16:
        return is_nearest(value, decimal, 7, -126);
    case COFFER_F32:
    case COFFER_C64:
        return (float)decimal == (float)value;
    default:
        return decimal == value;
    }
}

/* How many digits to try first: numbers of so few survive the dtype, so that an element near one needs no more.
   Denormal numbers have fewer bits, so that for them the search begins at one digit. */
static int fewest_digits(coffer_dtype dtype, double value)
{
    switch (dtype) {
    case COFFER_F64:
        return fabs(value) < DBL_MIN ? 1 : DBL_DIG;
    case COFFER_F32:
    case COFFER_C64:
        return fabs(value) < (double)FLT_MIN ? 1 : FLT_DIG;
    default:
        return 1;
    }
}

static size_t float_text(char *text, size_t size, coffer_dtype dtype, double value)
{
    if (value == 0 || isnan(value) || isinf(value)) {
        const char *sign = !isnan(value) && signbit(value) ? "-" : "";
        return (size_t)snprintf(text, size, "%s%s", sign, isnan(value) ? "nan" : isinf(value) ? "inf" : "0");
    }
    /* Whole numbers of this size are short enough as they are; the shortest form would end in wrong zeros. */
    if (fabs(value) < 1e7 && value == (double)(long)value) {
        return (size_t)snprintf(text, size, "%.0f", value);
    }
    size_t len = 0;
    for (int digits = fewest_digits(dtype, value); digits <= 17; digits++) {
        len = (size_t)snprintf(text, size, "%.*g", digits, value);
        if (reads_back(dtype, value, strtod(text, NULL))) {
            break;
        }
    }
    return len;
}

static size_t json_float_text(char *text, size_t size, coffer_dtype dtype, double value)
{
    if (isnan(value)) {
        return (size_t)snprintf(text, size, "\"NaN\"");
    }
    if (isinf(value)) {
        return (size_t)snprintf(text, size, "\"%sInfinity\"", value < 0 ? "-" : "");
    }
    return float_text(text, size, dtype, value);
}

static size_t complex_text(char text[CLI_VALUE_SIZE], const double parts[2], bool json)
{
    char real[CLI_VALUE_SIZE / 2 - 4];
    char imaginary[CLI_VALUE_SIZE / 2 - 4];
    if (json) {
        json_float_text(real, sizeof real, COFFER_C64, parts[0]);
        json_float_text(imaginary, sizeof imaginary, COFFER_C64, parts[1]);
        return (size_t)snprintf(text, CLI_VALUE_SIZE, "[%s, %s]", real, imaginary);
    }
    float_text(real, sizeof real, COFFER_C64, parts[0]);
    float_text(imaginary, sizeof imaginary, COFFER_C64, parts[1]);
    return (size_t)snprintf(text, CLI_VALUE_SIZE, "%s%s%sj", real, imaginary[0] == '-' ? "" : "+", imaginary);
}

static size_t integer_text(char text[CLI_VALUE_SIZE], coffer_kind kind, const unsigned char *bytes, size_t size)
{
    const uint64_t bits = little_endian(bytes, size);
    if (kind == COFFER_KIND_BOOL) {
        return (size_t)snprintf(text, CLI_VALUE_SIZE, "%s", bits != 0 ? "true" : "false");
    }
    const bool negative = kind == COFFER_KIND_SIGNED && (bits >> (size * 8 - 1)) != 0;
    if (!negative) {
        return (size_t)snprintf(text, CLI_VALUE_SIZE, "%" PRIu64, bits);
    }
    /* The sign's bits fill up what is missing to 64; then the amount is the two's complement. */
    const uint64_t extended = size == 8 ? bits : bits | UINT64_MAX << (size * 8);
    return (size_t)snprintf(text, CLI_VALUE_SIZE, "-%" PRIu64, UINT64_MAX - extended + 1);
}

size_t cli_value_text(char text[CLI_VALUE_SIZE], coffer_dtype dtype, const void *data, uint64_t index, bool json)
{
    const coffer_kind kind = coffer_dtype_kind(dtype);
    if (kind != COFFER_KIND_FLOAT && kind != COFFER_KIND_COMPLEX) {
        const size_t size = coffer_dtype_bits(dtype) / 8;
        return integer_text(text, kind, (const unsigned char *)data + index * size, size);
    }
    double values[2] = { 0, 0 };
    if (coffer_decode(dtype, data, index, 1, values) != COFFER_OK) {
        return (size_t)snprintf(text, CLI_VALUE_SIZE, json ? "null" : "?");
    }
    if (kind == COFFER_KIND_COMPLEX) {
        return complex_text(text, values, json);
    }
    return json ? json_float_text(text, CLI_VALUE_SIZE, dtype, values[0])
                : float_text(text, CLI_VALUE_SIZE, dtype, values[0]);
}
