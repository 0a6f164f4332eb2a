/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements → doubles. Integers and the two IEEE formats of C are read as they are; every smaller float is a sign, an
 * exponent and a mantissa whose widths, bias and special codes stand in the dtype's row, and becomes a double bit by
 * bit. All of them fit a double's normal range, subnormal ones too, so nothing is rounded.
 */
#include "bytes.h"
#include "coffer.h"
#include "dtype.h"

#define VALUES_DOUBLE_MANTISSA 52
#define VALUES_DOUBLE_BIAS 1023
#define VALUES_DOUBLE_INFINITY ((uint64_t)0x7FF << VALUES_DOUBLE_MANTISSA)
#define VALUES_DOUBLE_NAN (VALUES_DOUBLE_INFINITY | (uint64_t)1 << (VALUES_DOUBLE_MANTISSA - 1))

static double values_from_bits(uint64_t bits)
{
    double value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The bits of 1.mantissa * 2^exponent, of which `width` bits are in `mantissa`. */
static uint64_t values_normal(int exponent, uint64_t mantissa, unsigned width)
{
    return (uint64_t)(exponent + VALUES_DOUBLE_BIAS) << VALUES_DOUBLE_MANTISSA |
           mantissa << (VALUES_DOUBLE_MANTISSA - width);
}

/* The bits of 0.mantissa * 2^exponent; `mantissa` is not 0. */
static uint64_t values_subnormal(int exponent, uint64_t mantissa, unsigned width)
{
    unsigned top = width - 1;
    while ((mantissa >> top & 1) == 0) {
        top--;
    }
    return values_normal(exponent - (int)(width - top), mantissa & (((uint64_t)1 << top) - 1), top);
}

static double values_small_float(const coffer__dtype_info *info, uint64_t code)
{
    const uint64_t mantissa = code & (((uint64_t)1 << info->mantissa) - 1);
    const uint64_t ones = ((uint64_t)1 << info->exponent) - 1;
    const uint64_t exponent = code >> info->mantissa & ones;
    const uint64_t negative = code >> (info->mantissa + info->exponent) & 1;
    const uint64_t sign = negative << 63;
    const bool all_ones = exponent == ones && mantissa == ((uint64_t)1 << info->mantissa) - 1;
    if (info->special == COFFER__SPECIAL_IEEE && exponent == ones) {
        return values_from_bits(sign | (mantissa == 0 ? VALUES_DOUBLE_INFINITY : VALUES_DOUBLE_NAN));
    }
    if ((info->special == COFFER__SPECIAL_FN || info->special == COFFER__SPECIAL_SCALE) && all_ones) {
        return values_from_bits(sign | VALUES_DOUBLE_NAN);
    }
    if (info->special == COFFER__SPECIAL_FNUZ && negative != 0 && exponent == 0 && mantissa == 0) {
        return values_from_bits(VALUES_DOUBLE_NAN);
    }
    if (exponent > 0 || info->special == COFFER__SPECIAL_SCALE) {
        return values_from_bits(sign | values_normal((int)exponent - info->bias, mantissa, info->mantissa));
    }
    if (mantissa == 0) {
        return values_from_bits(sign);
    }
    return values_from_bits(sign | values_subnormal(1 - info->bias, mantissa, info->mantissa));
}

/* Bits of element `i`, which takes no more than 8 bytes. Elements smaller than a byte never span more than two. */
static uint64_t values_code(const uint8_t *data, unsigned bits, uint64_t i)
{
    if (bits < 8) {
        /* Eight elements fill `bits` bytes, which keeps the products small for any `i`. */
        const unsigned at = (unsigned)(i % 8) * bits;
        const uint8_t *from = data + (size_t)(i / 8) * bits + at / 8;
        unsigned code = (unsigned)from[0] >> (at % 8);
        if (at % 8 + bits > 8) {
            code |= (unsigned)from[1] << (8 - at % 8);
        }
        return code & ((1u << bits) - 1);
    }
    const unsigned size = bits / 8;
    const uint8_t *from = data + (size_t)i * size;
    uint64_t code = 0;
    for (unsigned k = 0; k < size; k++) {
        code |= (uint64_t)from[k] << (8 * k);
    }
    return code;
}

static double values_signed(uint64_t code, unsigned bits)
{
    const uint64_t top = (uint64_t)1 << (bits - 1);
    if ((code & top) == 0) {
        return (double)code;
    }
    /* The magnitude in two's complement; of the lowest value too, which has no positive twin. */
    return -(double)((~code + 1) & (top | (top - 1)));
}

static double values_float32(uint64_t code)
{
    const uint32_t bits = (uint32_t)code;
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double values_one(const coffer__dtype_info *info, uint64_t code)
{
    switch (info->kind) {
    case COFFER_KIND_BOOL:
        return code != 0 ? 1.0 : 0.0;
    case COFFER_KIND_UNSIGNED:
        return (double)code;
    case COFFER_KIND_SIGNED:
        return values_signed(code, info->bits);
    default:
        break;
    }
    if (info->bits == 64) {
        return values_from_bits(code);
    }
    return info->bits == 32 ? values_float32(code) : values_small_float(info, code);
}

coffer_status coffer_decode(coffer_dtype dtype, const void *data, uint64_t first, size_t count, double *values)
{
    const coffer__dtype_info *info = coffer__dtype(dtype);
    if (info->bits == 0 || (count > 0 && (data == NULL || values == NULL))) {
        return COFFER_ERR_ARGUMENT;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t code = values_code(data, info->bits, first + i);
        if (info->kind == COFFER_KIND_COMPLEX) {
            values[2 * i] = values_float32(code & UINT32_MAX);
            values[2 * i + 1] = values_float32(code >> 32);
        } else {
            values[i] = values_one(info, code);
        }
    }
    return COFFER_OK;
}
