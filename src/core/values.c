/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements → doubles, and floats from doubles. Integers and the two IEEE formats of C are read as they
 * are; every smaller float is a sign, an exponent and a mantissa whose widths, bias and special codes
 * stand in the dtype's row, and becomes a double bit by bit. All of them, subnormal ones too, are within
 * a double's normal range, so nothing is rounded. Only integers beyond 2^53 are.
 *
 * The way back goes bit by bit too, with one rounding, to nearest, ties to even, whatever the
 * processor's rounding mode is and whatever types it has: the result is the same on every machine.
 */
#include "bytes.h"
#include "coffer.h"
#include "dtype.h"
#include "floats.h"

#define VALUES_DOUBLE_MANTISSA 52
#define VALUES_DOUBLE_BIAS 1023
#define VALUES_DOUBLE_NAN (COFFER__DOUBLE_INFINITY | (uint64_t)1 << (VALUES_DOUBLE_MANTISSA - 1))

/* The bits of the double 1.mantissa * 2^exponent, of which `width` bits are in `mantissa`. The
   exponent is in a double's normal range. */
static uint64_t values_normal(int exponent, uint64_t mantissa, unsigned width)
{
    return (uint64_t)(exponent + VALUES_DOUBLE_BIAS) << VALUES_DOUBLE_MANTISSA |
           mantissa << (VALUES_DOUBLE_MANTISSA - width);
}

/*
 * The bits of the double 0.mantissa * 2^exponent; `mantissa` is not 0, or the loop would not end.
 * Its highest bit becomes the hidden one, and the exponent drops by as many places as that bit
 * moves.
 */
static uint64_t values_subnormal(int exponent, uint64_t mantissa, unsigned width)
{
    unsigned top = width - 1;
    while ((mantissa >> top & 1) == 0) {
        top--;
    }
    return values_normal(exponent - (int)(width - top), mantissa & (((uint64_t)1 << top) - 1), top);
}

/*
 * Decodes any float that is smaller than a double. Special codes come first, as the dtype spells
 * them (coffer__special). Then normal numbers; a format that is an exponent alone (E8M0) has
 * nothing else, and its exponent 0 is 2^-127. What is left is zero or subnormal, with the exponent
 * of the least normal number.
 */
static double values_small_float(const coffer__dtype_info *info, uint64_t code)
{
    const uint64_t mantissa = code & (((uint64_t)1 << info->mantissa) - 1);
    const uint64_t ones = ((uint64_t)1 << info->exponent) - 1;
    const uint64_t exponent = code >> info->mantissa & ones;
    const uint64_t negative = code >> (info->mantissa + info->exponent) & 1;
    const uint64_t sign = negative << 63;
    const bool all_ones = exponent == ones && mantissa == ((uint64_t)1 << info->mantissa) - 1;
    if (info->special == COFFER__SPECIAL_IEEE && exponent == ones) {
        return coffer__double_of_bits(sign | (mantissa == 0 ? COFFER__DOUBLE_INFINITY : VALUES_DOUBLE_NAN));
    }
    if ((info->special == COFFER__SPECIAL_FN || info->special == COFFER__SPECIAL_SCALE) && all_ones) {
        return coffer__double_of_bits(sign | VALUES_DOUBLE_NAN);
    }
    if (info->special == COFFER__SPECIAL_FNUZ && negative != 0 && exponent == 0 && mantissa == 0) {
        return coffer__double_of_bits(VALUES_DOUBLE_NAN);
    }
    if (exponent > 0 || info->special == COFFER__SPECIAL_SCALE) {
        return coffer__double_of_bits(sign | values_normal((int)exponent - info->bias, mantissa, info->mantissa));
    }
    if (mantissa == 0) {
        return coffer__double_of_bits(sign);
    }
    return coffer__double_of_bits(sign | values_subnormal(1 - info->bias, mantissa, info->mantissa));
}

/*
 * Bits of element `i`, which takes no more than 8 bytes. Elements smaller than a byte are packed
 * from the lowest bit up, and never span more than two bytes: 4 bits divide a byte, and 6 bits
 * begin at 0, 2, 4 or 6. The second byte is read only when the element reaches into it.
 */
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
    /* What is missing to 64 bits is filled with the sign bit: flipping it and subtracting it again
       does that without a branch. */
    const uint64_t top = (uint64_t)1 << (bits - 1);
    const uint64_t extended = (code ^ top) - top;
    int64_t value = 0;
    memcpy(&value, &extended, sizeof value);
    return (double)value;
}

static double values_float32(uint64_t code)
{
    return (double)coffer__float_of_bits((uint32_t)code);
}

/* Decodes one code, except of complex numbers, which are two, and of F32, which has a loop of its own. */
static double values_one(const coffer__dtype_info *info, uint64_t code)
{
    switch (info->kind) {
    case COFFER_KIND_BOOL:
        return code != 0 ? 1.0 : 0.0;
    case COFFER_KIND_UNSIGNED:
        return (double)code;
    case COFFER_KIND_SIGNED:
        return values_signed(code, info->bits);
    default: /* F32 has a loop of its own. */
        return info->bits == 64 ? coffer__double_of_bits(code) : values_small_float(info, code);
    }
}

/* 0.0 for what has no subnormal numbers: integers, and E8M0. */
double coffer__dtype_least_normal(coffer_dtype dtype)
{
    const coffer__dtype_info *info = coffer__dtype_info_of(dtype);
    const bool has_subnormals = info->exponent > 0 && info->special != COFFER__SPECIAL_SCALE;
    return has_subnormals ? coffer__double_of_bits(values_normal(1 - info->bias, 0, 0)) : 0.0;
}

/* ---- many at once ------------------------------------------------------------------------------------------------ */

/* As many entries as a byte has codes. From so many elements on, looking codes up costs less than
   decoding each. */
#define VALUES_TABLE_SIZE 256

/* Decodes every code once, then looks elements up. `first` counts for packed elements, which cannot
   be pointed to; for others `data` is the first of them. */
static void values_by_table(const coffer__dtype_info *info, const uint8_t *data, uint64_t first, size_t count,
                            double *values)
{
    double table[VALUES_TABLE_SIZE];
    const unsigned codes = 1u << info->bits;
    for (unsigned code = 0; code < codes; code++) {
        table[code] = values_one(info, code);
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = table[info->bits == 8 ? data[i] : values_code(data, info->bits, first + i)];
    }
}

static void values_of_f32(const uint8_t *data, size_t count, double *values)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = values_float32(values_code(data + 4 * i, 32, 0));
    }
}

/* BF16 is the upper half of an F32. */
static void values_of_bf16(const uint8_t *data, size_t count, double *values)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = values_float32(values_code(data + 2 * i, 16, 0) << 16);
    }
}

/*
 * Normal numbers, which nearly all are, only need another bias: the mantissa is shifted to its
 * place, and the difference of the biases (15 is that of F16) is added to the exponent. `exponent -
 * 1 < 30` picks 1 to 30, since 0 wraps around.
 */
static void values_of_f16(const coffer__dtype_info *info, const uint8_t *data, size_t count, double *values)
{
    const uint64_t rebase = (uint64_t)(VALUES_DOUBLE_BIAS - 15) << VALUES_DOUBLE_MANTISSA;
    for (size_t i = 0; i < count; i++) {
        const uint64_t code = values_code(data + 2 * i, 16, 0);
        const uint64_t exponent = code >> 10 & 31;
        const uint64_t bits = (code >> 15 << 63) | (((code & 0x7FFF) << (VALUES_DOUBLE_MANTISSA - 10)) + rebase);
        values[i] = exponent - 1 < 30 ? coffer__double_of_bits(bits) : values_small_float(info, code);
    }
}

/* Elements of whole bytes. The compiler makes a loop of its own for each size that it is called
   with, so that values_code is one load in each. A complex number gives two doubles. */
static inline void values_of_any(const coffer__dtype_info *info, const uint8_t *data, unsigned size, size_t count,
                                 double *values)
{
    const bool complex = info->kind == COFFER_KIND_COMPLEX;
    for (size_t i = 0; i < count; i++) {
        const uint64_t code = values_code(data + size * i, 8 * size, 0);
        if (complex) {
            values[2 * i] = values_float32(code & UINT32_MAX);
            values[2 * i + 1] = values_float32(code >> 32);
        } else {
            values[i] = values_one(info, code);
        }
    }
}

static void values_of_whole_bytes(const coffer__dtype_info *info, const uint8_t *data, size_t count, double *values)
{
    switch (info->bits) {
    case 8:
        values_of_any(info, data, 1, count, values);
        break;
    case 16:
        values_of_any(info, data, 2, count, values);
        break;
    case 32:
        values_of_any(info, data, 4, count, values);
        break;
    default:
        values_of_any(info, data, 8, count, values);
        break;
    }
}

static void values_of_packed(const coffer__dtype_info *info, const uint8_t *data, uint64_t first, size_t count,
                             double *values)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = values_small_float(info, values_code(data, info->bits, first + i));
    }
}

/*
 * `count` doubles, or twice as many for complex numbers, go to `values`; the caller's data hold at
 * least first + count elements. Fails only for an unknown dtype and for NULL: every code of every
 * dtype has a value.
 */
coffer_status coffer_decode(coffer_dtype dtype, const void *data, uint64_t first, size_t count, double *values)
{
    const coffer__dtype_info *info = coffer__dtype_info_of(dtype);
    if (info->bits == 0 || (count > 0 && (data == NULL || values == NULL))) {
        return COFFER_ERR_ARGUMENT;
    }
    if (count == 0) {
        return COFFER_OK; /* Without data there is no place in them either. */
    }
    const uint8_t *from = (const uint8_t *)data + (info->bits < 8 ? 0 : (size_t)first * (info->bits / 8));
    if (info->bits <= 8 && count >= VALUES_TABLE_SIZE) {
        values_by_table(info, from, first, count, values);
    } else if (info->bits < 8) {
        values_of_packed(info, from, first, count, values);
    } else if (dtype == COFFER_F32) {
        values_of_f32(from, count, values);
    } else if (dtype == COFFER_BF16) {
        values_of_bf16(from, count, values);
    } else if (dtype == COFFER_F16) {
        values_of_f16(info, from, count, values);
    } else {
        values_of_whole_bytes(info, from, count, values);
    }
    return COFFER_OK;
}

/* ---- and back ---------------------------------------------------------------------------------------------------- */

/* value / 2^drop, rounded to the nearest, ties to even; `drop` is at least 1. Adding just below a
   half, and the last bit that stays, carries exactly when rounding up is right. */
static uint64_t values_drop_bits(uint64_t value, unsigned drop)
{
    const uint64_t below_half = ((uint64_t)1 << (drop - 1)) - 1;
    return (value + below_half + (value >> drop & 1)) >> drop;
}

/*
 * The code of a magnitude, given by a double's bits without the sign, in a format smaller than a
 * double. For what is beyond the largest number, and for infinity, the result is the code of
 * infinity or one above it, and the caller cuts it. Exponent and mantissa are rounded as one
 * number, since codes of a float are in the order of their values.
 */
static uint64_t values_nearest(const coffer__dtype_info *info, uint64_t magnitude)
{
    const unsigned drop = VALUES_DOUBLE_MANTISSA - info->mantissa;
    const uint64_t rebase = (uint64_t)(VALUES_DOUBLE_BIAS - info->bias);
    const uint64_t exponent = magnitude >> VALUES_DOUBLE_MANTISSA;
    if (exponent > rebase) {
        /* A carry out of the mantissa makes the exponent one higher, as it should. */
        return values_drop_bits(magnitude - (rebase << VALUES_DOUBLE_MANTISSA), drop);
    }
    /*
     * Subnormal, or zero: the hidden bit becomes a visible one, and each step below the least
     * exponent drops one more bit. Where all are dropped, subnormal doubles included, the result is
     * 0.
     */
    const uint64_t hidden = (uint64_t)1 << VALUES_DOUBLE_MANTISSA;
    const uint64_t dropped = drop + rebase + 1 - exponent;
    return dropped > 63 ? 0 : values_drop_bits(hidden | (magnitude & (hidden - 1)), (unsigned)dropped);
}

/*
 * A NaN keeps its sign and becomes the quiet NaN of the format; its payload does not fit and is
 * dropped. What rounds beyond the largest number becomes infinity, as IEEE 754 has it for this
 * rounding; in F8_E4M3, which has none, the largest number, and its only NaN has all bits set.
 */
static uint64_t values_encode(const coffer__dtype_info *info, double value)
{
    const uint64_t bits = coffer__double_bits(value);
    const bool has_infinity = info->special == COFFER__SPECIAL_IEEE;
    const uint64_t codes = (uint64_t)1 << (info->exponent + info->mantissa);
    const uint64_t infinity = has_infinity ? codes - ((uint64_t)1 << info->mantissa) : codes - 2;
    const uint64_t sign = bits >> 63 << (info->exponent + info->mantissa);
    const uint64_t magnitude = bits & (UINT64_MAX >> 1);
    if (magnitude > COFFER__DOUBLE_INFINITY) {
        return sign | (has_infinity ? infinity | (uint64_t)1 << (info->mantissa - 1) : codes - 1);
    }
    const uint64_t nearest = info->bits == 64 ? magnitude : values_nearest(info, magnitude);
    return sign | (nearest < infinity ? nearest : infinity);
}

/* Only dtypes with infinities and NaNs, and F8_E4M3, for which every program saturates: for others there would be a
   choice what an overflow becomes, which the caller has to make. Elements are written little-endian, as files have them. */
coffer_status coffer_encode(coffer_dtype dtype, const double *values, size_t count, void *data)
{
    /* A copy: what is written through `to` cannot change it, as far as the compiler knows, so it
       stays in registers. */
    const coffer__dtype_info info = *coffer__dtype_info_of(dtype);
    const bool has_infinities = info.kind == COFFER_KIND_FLOAT && info.special == COFFER__SPECIAL_IEEE;
    if (!(has_infinities || dtype == COFFER_F8_E4M3) || (count > 0 && (data == NULL || values == NULL))) {
        return COFFER_ERR_ARGUMENT;
    }
    const unsigned size = info.bits / 8;
    uint8_t *to = data;
    for (size_t i = 0; i < count; i++, to += size) {
        const uint64_t code = values_encode(&info, values[i]);
        for (unsigned k = 0; k < size; k++) {
            to[k] = (uint8_t)(code >> (8 * k));
        }
    }
    return COFFER_OK;
}
