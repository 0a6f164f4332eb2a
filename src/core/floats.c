/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers are taken apart as integers. An F16 that is subnormal is made by adding a half, the place of whose last
 * bit is the step of those numbers: so the addition rounds as it should. Choices are made by masks, since a branch would
 * keep a loop from becoming one of vectors.
 */
#include "floats.h"

#include <string.h>

bool coffer__floats_have(coffer_dtype dtype)
{
    return dtype == COFFER_F16 || dtype == COFFER_BF16 || dtype == COFFER_F32;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Files are little-endian, whatever the machine is. */
static void floats_load_16(const uint8_t *bytes, size_t count, uint16_t *codes)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(codes, bytes, count * sizeof *codes);
#else
    for (size_t i = 0; i < count; i++) {
        codes[i] = (uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
    }
#endif
}

/* There and back are the same. */
void coffer__floats_copy(const void *from, size_t count, void *to)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(to, from, count * 4);
#else
    const uint8_t *bytes = from;
    uint8_t *turned = to;
    for (size_t i = 0; i < 4 * count; i++) {
        turned[i] = bytes[(i & ~(size_t)3) + (3 - (i & 3))];
    }
#endif
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

static void floats_of_bf16(const uint16_t *codes, size_t count, float *values)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = coffer__float_of_bits((uint32_t)codes[i] << 16);
    }
}

/* Moved to its place, the exponent lacks the difference of the biases. A subnormal number is so many steps of 2^-24. */
static void floats_of_f16(const uint16_t *codes, size_t count, float *values)
{
    const float step = coffer__float_of_bits((UINT32_C(127) - 24) << 23);
    for (size_t i = 0; i < count; i++) {
        const uint32_t code = codes[i];
        const uint32_t exponent = code & COFFER__FLOATS_HALF_INFINITY;
        const uint32_t moved = (code & 0x7FFF) << 13;
        const uint32_t subnormal = coffer__float_bits((float)(int32_t)(code & 0x3FF) * step);
        const uint32_t special = coffer__floats_mask(exponent == COFFER__FLOATS_HALF_INFINITY);
        const uint32_t small = coffer__floats_mask(exponent == 0);
        const uint32_t large = (moved + COFFER__FLOATS_HALF_REBASE) | (COFFER__FLOATS_INFINITY & special);
        values[i] = coffer__float_of_bits((subnormal & small) | (large & ~small) | (code & 0x8000) << 16);
    }
}

void coffer__floats_decode(coffer_dtype dtype, const uint8_t *bytes, size_t count, float *values)
{
    uint16_t codes[COFFER__FLOATS_MAX];
    if (dtype == COFFER_F32) {
        coffer__floats_copy(bytes, count, values);
        return;
    }
    floats_load_16(bytes, count, codes);
    if (dtype == COFFER_BF16) {
        floats_of_bf16(codes, count, values);
    } else {
        floats_of_f16(codes, count, values);
    }
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

/* A NaN loses its payload, as in every other dtype. */
static void floats_put_f32(const float *values, size_t count, uint8_t *bytes)
{
    uint32_t codes[COFFER__FLOATS_MAX];
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = coffer__float_bits(values[i]);
        const uint32_t sign = bits & UINT32_C(0x80000000);
        const uint32_t nan = coffer__floats_mask((bits ^ sign) > COFFER__FLOATS_INFINITY);
        codes[i] = (bits & ~nan) | ((sign | COFFER__FLOATS_INFINITY | COFFER__FLOATS_QUIET) & nan);
    }
    coffer__floats_copy(codes, count, bytes);
}

/* Of codes whose exponent is all ones in `infinity`, and who have no other bits but the sign. */
static void floats_count_losses(const float *values, const uint16_t *codes, size_t count, uint32_t infinity,
                                coffer__floats_losses *losses)
{
    uint32_t overflowed = 0;
    uint32_t vanished = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t size = coffer__float_bits(values[i]) & ~UINT32_C(0x80000000);
        const uint32_t code = codes[i] & UINT32_C(0x7FFF);
        overflowed += coffer__floats_mask(code == infinity) & coffer__floats_mask(size < COFFER__FLOATS_INFINITY) & 1;
        vanished += coffer__floats_mask(code == 0) & coffer__floats_mask(size != 0) & 1;
    }
    losses->overflowed += overflowed;
    losses->vanished += vanished;
}

void coffer__floats_encode(coffer_dtype dtype, const float *values, size_t count, uint8_t *bytes,
                           coffer__floats_losses *losses)
{
    uint16_t codes[COFFER__FLOATS_MAX];
    if (dtype == COFFER_F32) {
        floats_put_f32(values, count, bytes);
        return;
    }
    if (dtype == COFFER_BF16) {
        coffer__floats_to_bf16(values, count, codes);
    } else {
        coffer__floats_to_f16(values, count, codes);
    }
    if (losses != NULL) {
        const uint32_t infinity = dtype == COFFER_BF16 ? UINT32_C(0x7F80) : COFFER__FLOATS_HALF_INFINITY;
        floats_count_losses(values, codes, count, infinity, losses);
    }
    coffer__floats_store_16(codes, count, bytes);
}
