/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF's types, and the values of their blocks. In what follows d, m and dmin are F16, q a quantised element, s a scale, i an
 * element's number in its block; "split" means that of n elements the first half is in the low nibbles of n/2 bytes and the
 * second half in the high ones.
 *
 *   Q4_0   32 in  18   d, 16 split                          d (q - 8)
 *   Q4_1   32 in  20   d, m, 16 split                       d q + m
 *   Q5_0   32 in  22   d, fifth bits u32, 16 split          d (q - 16)
 *   Q5_1   32 in  24   d, m, fifth bits u32, 16 split       d q + m
 *   Q8_0   32 in  34   d, 32 i8                             d q
 *   Q2_K   256 in 84   16 scales, 64 planes, d, dmin        d s q - dmin m
 *   Q3_K   256 in 110  32 third bits, 64 planes, 12, d      d s (q - 4)
 *   Q4_K   256 in 144  d, dmin, 12 scales, 128              d s q - dmin m
 *   Q5_K   256 in 176  d, dmin, 12 scales, 32 bits, 128     the same
 *   Q6_K   256 in 210  128 low, 64 planes, 16 i8, d         d s (q - 32)
 *   IQ4_NL 32 in  18   d, 16 split                          d K[q]
 *   IQ4_XS 256 in 136  d, u16 and 4 of scales, 128 split    d (s - 32) K[q]
 *   TQ1_0  256 in 54   48 and 4 of five trits, d            d (t - 1)
 *   TQ2_0  256 in 66   64 planes, d                         d (q - 1)
 *   MXFP4  32 in  17   exponent, 16 split                   2^(e-128) M[q]
 *   NVFP4  64 in  36   4 scales, 4 times 8 split            s/2 M[q]
 *   Q1_0   128 in 18   d, 16 of bits                        d or -d
 *   Q2_0   64 in  18   d, 16 of two bits                    d (q - 1)
 *   IQ1_*, IQ2_*, IQ3_*: indices into the grids of gguf_grids.c, with scales and signs
 *
 * "Planes" are two bits an element: those of element i = 128 h + r are in byte 32 h + r % 32, shifted by 2 (r / 32).
 *
 * A value is the same on every machine: d has 11 bits, a scale at most 6 and an element at most 8, so each product is exact
 * in F32, and only the one sum rounds. A compiler that fuses it with a product changes nothing.
 */
#include "gguf_blocks.h"

#include "bytes.h"
#include "floats.h"
#include "gguf_grids.h"

#include <string.h>

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

/* F16 at a place. A subnormal is its mantissa in units of 2^-24. A normal number keeps its mantissa and has its
   exponent moved from a bias of 15 to one of 127; infinities and NaNs keep their payload. All of F16 fits in F32
   exactly. */
static float gguf_half(const uint8_t *bytes)
{
    const uint32_t half = coffer__load_u16le(bytes);
    const uint32_t sign = (half & 0x8000u) << 16;
    const uint32_t exponent = half >> 10 & 31;
    const uint32_t mantissa = half & 0x3ff;
    if (exponent == 0) {
        const float magnitude = (float)mantissa * coffer__float_of_bits(0x33800000u);
        return sign != 0 ? -magnitude : magnitude;
    }
    return coffer__float_of_bits(sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | mantissa << 13);
}

/* 2^(e - 128): below the normal numbers for 0 and 1. It is made of its bits, since a function of the mathematical
   library would be one more dependency, and no faster. */
static float gguf_power(unsigned e)
{
    return coffer__float_of_bits(e >= 2 ? (uint32_t)(e - 1) << 23 : 0x00200000u << e);
}

/* A scale without a sign, four bits of exponent and three of mantissa; 0x7f, which would be NaN, counts as 0. */
static float gguf_small_scale(unsigned u)
{
    const unsigned exponent = u >> 3 & 15;
    if (u == 0x7f) {
        return 0;
    }
    if (exponent == 0) {
        return (float)(u & 7) * coffer__float_of_bits(0x3b000000u);
    }
    return coffer__float_of_bits((exponent + 120) << 23 | (uint32_t)(u & 7) << 20);
}

/* The even one is the low half of its byte. */
static unsigned gguf_nibble(const uint8_t *bytes, size_t k)
{
    return (unsigned)bytes[k / 2] >> (4 * (k % 2)) & 15u;
}

/* Where the planes of elements 16 k to 16 k + 15 are, which are in 16 bytes at one shift: for loops without conditions. */
static const uint8_t *gguf_planes(const uint8_t *bytes, size_t k, unsigned *shift)
{
    *shift = 2 * (unsigned)(k % 8 / 2);
    return bytes + 32 * (k / 8) + 16 * (k % 2);
}

/* ---- Blocks of 32 ------------------------------------------------------------------------------------------------ */

/* Every function of this kind writes all of a block's elements and reads all of its bytes, with bounds that the
   compiler knows: so it can use vector instructions, for which the pointers are also promised not to overlap. */
static void gguf_q4_0(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    for (size_t j = 0; j < 16; j++) {
        values[j] = d * (float)((block[2 + j] & 15) - 8);
        values[j + 16] = d * (float)((block[2 + j] >> 4) - 8);
    }
}

static void gguf_q4_1(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    const float m = gguf_half(block + 2);
    for (size_t j = 0; j < 16; j++) {
        values[j] = d * (float)(block[4 + j] & 15) + m;
        values[j + 16] = d * (float)(block[4 + j] >> 4) + m;
    }
}

/* The fifth bits of all 32 elements, that of the first the lowest, each at its place in a byte of its own. They are found
   by masks: shifts by as many different counts would keep the loop from becoming one of vectors. */
static void gguf_fifth_bits(const uint8_t *restrict bytes, uint8_t *restrict fifths)
{
    static const uint8_t masks[8] = { 1, 2, 4, 8, 16, 32, 64, 128 };
    for (size_t k = 0; k < 4; k++) {
        for (size_t i = 0; i < 8; i++) {
            fifths[8 * k + i] = (bytes[k] & masks[i]) != 0 ? 16 : 0;
        }
    }
}

static void gguf_q5_0(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    uint8_t fifths[32];
    gguf_fifth_bits(block + 2, fifths);
    for (size_t j = 0; j < 16; j++) {
        values[j] = d * (float)(((block[6 + j] & 15) | fifths[j]) - 16);
        values[j + 16] = d * (float)((block[6 + j] >> 4 | fifths[j + 16]) - 16);
    }
}

static void gguf_q5_1(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    const float m = gguf_half(block + 2);
    uint8_t fifths[32];
    gguf_fifth_bits(block + 4, fifths);
    for (size_t j = 0; j < 16; j++) {
        values[j] = d * (float)((block[8 + j] & 15) | fifths[j]) + m;
        values[j + 16] = d * (float)(block[8 + j] >> 4 | fifths[j + 16]) + m;
    }
}

static void gguf_q8_0(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    for (size_t j = 0; j < 32; j++) {
        values[j] = d * (float)(int8_t)block[2 + j];
    }
}

/* The values of IQ4's nibbles. */
static const int8_t GGUF_IQ4[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };

static void gguf_iq4_nl(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    for (size_t j = 0; j < 16; j++) {
        values[j] = d * (float)GGUF_IQ4[block[2 + j] & 15];
        values[j + 16] = d * (float)GGUF_IQ4[block[2 + j] >> 4];
    }
}

/* Twice the values of F4 (E2M1). Twice, so that they are whole numbers and a table of bytes has them; the scale is
   half of what it is elsewhere. The sign is the highest bit, and minus zero is zero here. */
static const int8_t GGUF_FP4[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

/* Since the table has twice the values, the exponent is one less than in the format's own definition, 2^(e-127). */
static void gguf_mxfp4(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_power(block[0]);
    for (size_t j = 0; j < 16; j++) {
        values[j] = d * (float)GGUF_FP4[block[1 + j] & 15];
        values[j + 16] = d * (float)GGUF_FP4[block[1 + j] >> 4];
    }
}

/* Here each 16 elements are split by themselves, and not the block as a whole. */
static void gguf_nvfp4(const uint8_t *restrict block, float *restrict values)
{
    for (size_t part = 0; part < 4; part++) {
        const float d = 0.5f * gguf_small_scale(block[part]);
        const uint8_t *bytes = block + 4 + 8 * part;
        for (size_t j = 0; j < 8; j++) {
            values[16 * part + j] = d * (float)GGUF_FP4[bytes[j] & 15];
            values[16 * part + j + 8] = d * (float)GGUF_FP4[bytes[j] >> 4];
        }
    }
}

static void gguf_q1_0(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    for (size_t i = 0; i < 128; i++) {
        values[i] = (block[2 + i / 8] >> (i % 8) & 1) != 0 ? d : -d;
    }
}

static void gguf_q2_0(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    for (size_t i = 0; i < 64; i++) {
        values[i] = d * (float)((block[2 + i / 4] >> (2 * (i % 4)) & 3) - 1);
    }
}

/* ---- Blocks of 256 ----------------------------------------------------------------------------------------------- */

/* Each 16 elements have a scale and a minimum, four bits each in one byte. */
static void gguf_q2_k(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block + 80);
    const float dmin = gguf_half(block + 82);
    for (size_t k = 0; k < 16; k++) {
        const float scale = d * (float)(block[k] & 15);
        const float least = dmin * (float)(block[k] >> 4);
        unsigned shift = 0;
        const uint8_t *planes = gguf_planes(block + 16, k, &shift);
        for (size_t j = 0; j < 16; j++) {
            values[16 * k + j] = scale * (float)(planes[j] >> shift & 3) - least;
        }
    }
}

/* Six bits: four in the nibbles of the first eight bytes, two in the last four. */
static int gguf_q3_scale(const uint8_t *scales, size_t k)
{
    const unsigned low = (unsigned)scales[k % 8] >> (4 * (k / 8)) & 15u;
    const unsigned high = (unsigned)scales[8 + k % 4] >> (2 * (k / 4)) & 3u;
    return (int)(low | high << 4) - 32;
}

/* The third bit of an element adds 4, so that without it the two lower bits count from -4. */
static void gguf_q3_k(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block + 108);
    for (size_t k = 0; k < 16; k++) {
        const float scale = d * (float)gguf_q3_scale(block + 96, k);
        unsigned shift = 0;
        const uint8_t *planes = gguf_planes(block + 32, k, &shift);
        const uint8_t *thirds = block + 16 * (k % 2);
        for (size_t j = 0; j < 16; j++) {
            const int third = thirds[j] >> (k / 2) & 1;
            values[16 * k + j] = scale * (float)((planes[j] >> shift & 3) + 4 * third - 4);
        }
    }
}

/* The eight scales and minima of Q4_K and Q5_K, six bits each, times d and dmin. The first four of each are in the low six
   bits of eight bytes. Of the last four the low bits share the nibbles of four more bytes, and the high two are what the
   first eight bytes have left. */
static void gguf_q4_scales(const uint8_t *restrict block, float *restrict scales, float *restrict leasts)
{
    const float d = gguf_half(block);
    const float dmin = gguf_half(block + 2);
    const uint8_t *first = block + 4;
    const uint8_t *second = block + 8;
    const uint8_t *rest = block + 12;
    for (size_t k = 0; k < 4; k++) {
        scales[k] = d * (float)(first[k] & 63);
        leasts[k] = dmin * (float)(second[k] & 63);
        scales[k + 4] = d * (float)((rest[k] & 15) | first[k] >> 6 << 4);
        leasts[k + 4] = dmin * (float)(rest[k] >> 4 | second[k] >> 6 << 4);
    }
}

/* Two groups of 32 share 32 bytes, one in each nibble. */
static void gguf_q4_k(const uint8_t *restrict block, float *restrict values)
{
    float scales[8];
    float leasts[8];
    gguf_q4_scales(block, scales, leasts);
    for (size_t k = 0; k < 8; k++) {
        const uint8_t *bytes = block + 16 + 32 * (k / 2);
        const unsigned shift = 4 * (k % 2);
        for (size_t j = 0; j < 32; j++) {
            values[32 * k + j] = scales[k] * (float)(bytes[j] >> shift & 15) - leasts[k];
        }
    }
}

/* The fifth bits of group k are bit k of the same 32 bytes. */
static void gguf_q5_k(const uint8_t *restrict block, float *restrict values)
{
    float scales[8];
    float leasts[8];
    gguf_q4_scales(block, scales, leasts);
    for (size_t k = 0; k < 8; k++) {
        const uint8_t *bytes = block + 48 + 32 * (k / 2);
        const unsigned shift = 4 * (k % 2);
        for (size_t j = 0; j < 32; j++) {
            const unsigned fifth = block[16 + j] >> k & 1u;
            values[32 * k + j] = scales[k] * (float)((bytes[j] >> shift & 15u) | fifth << 4) - leasts[k];
        }
    }
}

/* The four low bits are in nibbles, 64 bytes for each 128 elements: the first 64 of these in the low ones. The two
   high bits are in planes like those of Q2_K. */
static void gguf_q6_k(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block + 208);
    for (size_t k = 0; k < 16; k++) {
        const float scale = d * (float)(int8_t)block[192 + k];
        unsigned shift = 0;
        const uint8_t *planes = gguf_planes(block + 128, k, &shift);
        const uint8_t *low = block + 64 * (k / 8) + 16 * (k % 4);
        const unsigned low_shift = 4 * (unsigned)(k % 8 / 4);
        for (size_t j = 0; j < 16; j++) {
            values[16 * k + j] = scale * (float)((low[j] >> low_shift & 15) + ((planes[j] >> shift & 3) << 4) - 32);
        }
    }
}

/* Scales have six bits in two places, and 32 is taken away, so that they have signs. */
static void gguf_iq4_xs(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    const unsigned high = coffer__load_u16le(block + 2);
    for (size_t k = 0; k < 8; k++) {
        const unsigned s = gguf_nibble(block + 4, k) | (high >> (2 * k) & 3u) << 4;
        const float scale = d * (float)((int)s - 32);
        const uint8_t *bytes = block + 8 + 16 * k;
        for (size_t j = 0; j < 16; j++) {
            values[32 * k + j] = scale * (float)GGUF_IQ4[bytes[j] & 15];
            values[32 * k + j + 16] = scale * (float)GGUF_IQ4[bytes[j] >> 4];
        }
    }
}

/* A byte is a fraction in base 3: times 3^n without what is above it, the next digit comes up. The product is cut to
   a byte, which takes the digits away that have come up before. */
static float gguf_trit(uint8_t byte, unsigned power)
{
    const unsigned rest = byte * power & 255u;
    return (float)((int)(rest * 3 >> 8) - 1);
}

/* Five digits fit in a byte, as 3^5 is 243. The elements of one power follow each other through all bytes of their
   part, so that one power serves a run of bytes. */
static void gguf_tq1_0(const uint8_t *restrict block, float *restrict values)
{
    static const unsigned powers[5] = { 1, 3, 9, 27, 81 };
    const float d = gguf_half(block + 52);
    for (size_t i = 0; i < 160; i++) {
        values[i] = d * gguf_trit(block[i % 32], powers[i / 32]);
    }
    for (size_t i = 0; i < 80; i++) {
        values[160 + i] = d * gguf_trit(block[32 + i % 16], powers[i / 16]);
    }
    for (size_t i = 0; i < 16; i++) {
        values[240 + i] = d * gguf_trit(block[48 + i % 4], powers[i / 4]);
    }
}

static void gguf_tq2_0(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block + 64);
    for (size_t k = 0; k < 16; k++) {
        unsigned shift = 0;
        const uint8_t *planes = gguf_planes(block, k, &shift);
        for (size_t j = 0; j < 16; j++) {
            values[16 * k + j] = d * (float)((planes[j] >> shift & 3) - 1);
        }
    }
}

/* ---- Grids ------------------------------------------------------------------------------------------------------- */

static const uint8_t GGUF_IQ2[4] = { 8, 25, 43, 0 };
static const uint8_t GGUF_IQ3_XXS[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
static const uint8_t GGUF_IQ3_S[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };

/* Seven bits of signs, of which the eighth makes an even number of minus signs. The encoder sees to it that the
   number of minus signs is even, and so one bit is saved in eight. */
static unsigned gguf_signs(unsigned seven)
{
    return seven | (unsigned)(__builtin_popcount(seven) & 1) << 7;
}

/* Eight elements of IQ2. */
static void gguf_iq2_eight(float scale, unsigned digits, unsigned signs, float *values)
{
    for (unsigned j = 0; j < 8; j++) {
        const float value = scale * (float)GGUF_IQ2[digits >> (2 * j) & 3];
        values[j] = (signs >> j & 1) != 0 ? -value : value;
    }
}

/* Four elements of IQ3. */
static void gguf_iq3_four(float scale, unsigned digits, const uint8_t *magnitudes, unsigned signs, float *values)
{
    for (unsigned j = 0; j < 4; j++) {
        const float value = scale * (float)magnitudes[digits >> (3 * j) & 7];
        values[j] = (signs >> j & 1) != 0 ? -value : value;
    }
}

/* Eight bytes hold 32 elements: four indices of a byte, four times seven signs, and a scale in the last four bits. */
static void gguf_iq2_xxs(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    for (size_t k = 0; k < 8; k++) {
        const uint8_t *group = block + 2 + 8 * k;
        const uint32_t word = coffer__load_u32le(group + 4);
        const float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;
        for (size_t l = 0; l < 4; l++) {
            gguf_iq2_eight(scale, coffer__gguf_grid_iq2_xxs[group[l]], gguf_signs(word >> (7 * l) & 127),
                           values + 32 * k + 8 * l);
        }
    }
}

/* An index of nine bits and seven signs are one number of 16 bits; two of these groups share a scale. */
static void gguf_iq2_xs(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    for (size_t g = 0; g < 32; g++) {
        const unsigned q = coffer__load_u16le(block + 2 + 2 * g);
        const float scale = d * (0.5f + (float)gguf_nibble(block + 66, g / 2)) * 0.25f;
        gguf_iq2_eight(scale, coffer__gguf_grid_iq2_xs[q & 511], gguf_signs(q >> 9), values + 8 * g);
    }
}

/* The indices have ten bits, of which the high two are kept apart, and each element has its own bit of sign. */
static void gguf_iq2_s(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    for (size_t g = 0; g < 32; g++) {
        const unsigned high = (unsigned)block[66 + g / 4] >> (2 * (g % 4)) & 3u;
        const float scale = d * (0.5f + (float)gguf_nibble(block + 74, g / 2)) * 0.25f;
        gguf_iq2_eight(scale, coffer__gguf_grid_iq2_s[block[2 + g] | high << 8], block[34 + g], values + 8 * g);
    }
}

/* Two groups of four share seven signs, so the second takes the upper half of the eight. */
static void gguf_iq3_xxs(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    for (size_t g = 0; g < 64; g++) {
        const uint32_t word = coffer__load_u32le(block + 66 + 4 * (g / 8));
        const float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
        const unsigned signs = gguf_signs(word >> (7 * (g % 8 / 2)) & 127) >> (4 * (g % 2));
        gguf_iq3_four(scale, coffer__gguf_grid_iq3_xxs[block[2 + g]], GGUF_IQ3_XXS, signs, values + 4 * g);
    }
}

/* The ninth bit of each index is kept apart; 32 elements share a scale, which is odd. */
static void gguf_iq3_s(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    for (size_t g = 0; g < 64; g++) {
        const unsigned high = (unsigned)block[66 + g / 8] >> (g % 8) & 1u;
        const float scale = d * (float)(1 + 2 * gguf_nibble(block + 106, g / 8));
        gguf_iq3_four(scale, coffer__gguf_grid_iq3_s[block[2 + g] | high << 8], GGUF_IQ3_S,
                      (unsigned)block[74 + g / 2] >> (4 * (g % 2)), values + 4 * g);
    }
}

/* Eight elements of IQ1: -1, 0 or 1, moved by an eighth up or down. */
static void gguf_iq1_eight(float scale, unsigned digits, float delta, float *values)
{
    for (unsigned j = 0; j < 8; j++) {
        values[j] = scale * ((float)((int)(digits >> (2 * j) & 3) - 1) + delta);
    }
}

/* One number of 16 bits has, for 32 elements, the high bits of four indices, the scale and the sign of delta. */
static void gguf_iq1_s(const uint8_t *restrict block, float *restrict values)
{
    const float d = gguf_half(block);
    for (size_t g = 0; g < 32; g++) {
        const unsigned high = coffer__load_u16le(block + 34 + 2 * (g / 4));
        const float scale = d * (float)(2 * (high >> 12 & 7) + 1);
        const unsigned index = block[2 + g] | (high >> (3 * (g % 4)) & 7) << 8;
        gguf_iq1_eight(scale, coffer__gguf_grid_iq1_s[index], (high >> 15) != 0 ? -0.125f : 0.125f, values + 8 * g);
    }
}

/* The factor of the whole block is not stored by itself: its four nibbles are the highest ones of the four numbers
   that hold the scales. */
static void gguf_iq1_m(const uint8_t *restrict block, float *restrict values)
{
    unsigned scales[4];
    unsigned half = 0;
    for (size_t k = 0; k < 4; k++) {
        scales[k] = coffer__load_u16le(block + 48 + 2 * k);
        half |= (scales[k] >> 12) << (4 * k);
    }
    const uint8_t bytes[2] = { (uint8_t)half, (uint8_t)(half >> 8) };
    const float d = gguf_half(bytes);
    for (size_t g = 0; g < 32; g++) {
        const size_t k = g / 2;
        const unsigned high = gguf_nibble(block + 32, g);
        const float scale = d * (float)(2 * (scales[k / 4] >> (3 * (k % 4)) & 7) + 1);
        gguf_iq1_eight(scale, coffer__gguf_grid_iq1_s[block[g] | (high & 7) << 8], high > 7 ? -0.125f : 0.125f,
                       values + 8 * g);
    }
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

/* By number. 4, 5, 31 to 33 and 36 to 38 were removed from the format; 9 and 15 exist only while a program runs.
   Name, function of the values, number, elements and bytes of a block, and the dtype of types that are no blocks, for
   which a block is one element. */
static const coffer__gguf_type GGUF_TYPES[] = {
    { "F32", NULL, 0, 1, 4, COFFER_F32 },
    { "F16", NULL, 1, 1, 2, COFFER_F16 },
    { "Q4_0", gguf_q4_0, 2, 32, 18, COFFER_UNKNOWN_DTYPE },
    { "Q4_1", gguf_q4_1, 3, 32, 20, COFFER_UNKNOWN_DTYPE },
    { "Q5_0", gguf_q5_0, 6, 32, 22, COFFER_UNKNOWN_DTYPE },
    { "Q5_1", gguf_q5_1, 7, 32, 24, COFFER_UNKNOWN_DTYPE },
    { "Q8_0", gguf_q8_0, 8, 32, 34, COFFER_UNKNOWN_DTYPE },
    { "Q2_K", gguf_q2_k, 10, 256, 84, COFFER_UNKNOWN_DTYPE },
    { "Q3_K", gguf_q3_k, 11, 256, 110, COFFER_UNKNOWN_DTYPE },
    { "Q4_K", gguf_q4_k, 12, 256, 144, COFFER_UNKNOWN_DTYPE },
    { "Q5_K", gguf_q5_k, 13, 256, 176, COFFER_UNKNOWN_DTYPE },
    { "Q6_K", gguf_q6_k, 14, 256, 210, COFFER_UNKNOWN_DTYPE },
    { "IQ2_XXS", gguf_iq2_xxs, 16, 256, 66, COFFER_UNKNOWN_DTYPE },
    { "IQ2_XS", gguf_iq2_xs, 17, 256, 74, COFFER_UNKNOWN_DTYPE },
    { "IQ3_XXS", gguf_iq3_xxs, 18, 256, 98, COFFER_UNKNOWN_DTYPE },
    { "IQ1_S", gguf_iq1_s, 19, 256, 50, COFFER_UNKNOWN_DTYPE },
    { "IQ4_NL", gguf_iq4_nl, 20, 32, 18, COFFER_UNKNOWN_DTYPE },
    { "IQ3_S", gguf_iq3_s, 21, 256, 110, COFFER_UNKNOWN_DTYPE },
    { "IQ2_S", gguf_iq2_s, 22, 256, 82, COFFER_UNKNOWN_DTYPE },
    { "IQ4_XS", gguf_iq4_xs, 23, 256, 136, COFFER_UNKNOWN_DTYPE },
    { "I8", NULL, 24, 1, 1, COFFER_I8 },
    { "I16", NULL, 25, 1, 2, COFFER_I16 },
    { "I32", NULL, 26, 1, 4, COFFER_I32 },
    { "I64", NULL, 27, 1, 8, COFFER_I64 },
    { "F64", NULL, 28, 1, 8, COFFER_F64 },
    { "IQ1_M", gguf_iq1_m, 29, 256, 56, COFFER_UNKNOWN_DTYPE },
    { "BF16", NULL, 30, 1, 2, COFFER_BF16 },
    { "TQ1_0", gguf_tq1_0, 34, 256, 54, COFFER_UNKNOWN_DTYPE },
    { "TQ2_0", gguf_tq2_0, 35, 256, 66, COFFER_UNKNOWN_DTYPE },
    { "MXFP4", gguf_mxfp4, 39, 32, 17, COFFER_UNKNOWN_DTYPE },
    { "NVFP4", gguf_nvfp4, 40, 64, 36, COFFER_UNKNOWN_DTYPE },
    { "Q1_0", gguf_q1_0, 41, 128, 18, COFFER_UNKNOWN_DTYPE },
    { "Q2_0", gguf_q2_0, 42, 64, 18, COFFER_UNKNOWN_DTYPE },
};

/* A walk over the table, which has holes in its numbers: it is done once for each tensor. */
const coffer__gguf_type *coffer__gguf_type_of(uint32_t number)
{
    for (size_t i = 0; i < sizeof GGUF_TYPES / sizeof GGUF_TYPES[0]; i++) {
        if (GGUF_TYPES[i].number == number) {
            return &GGUF_TYPES[i];
        }
    }
    return NULL;
}

/* ---- What is written --------------------------------------------------------------------------------------------- */

typedef void gguf_round_function(coffer_dtype dtype, const float *values, size_t count, uint8_t *to);

/* Rounds at most COFFER__FLOATS_MAX values to F16 or BF16. */
COFFER__FLOATS_LOOP void gguf_round(coffer_dtype dtype, const float *values, size_t count, uint8_t *to)
{
    uint16_t codes[COFFER__FLOATS_MAX];
    if (dtype == COFFER_BF16) {
        coffer__floats_to_bf16(values, count, codes);
    } else {
        coffer__floats_to_f16(values, count, codes);
    }
    coffer__floats_store_16(codes, count, to);
}

static void gguf_round_anywhere(coffer_dtype dtype, const float *values, size_t count, uint8_t *to)
{
    gguf_round(dtype, values, count, to);
}

/* The same with vectors of eight, and the same results. Not on Windows, where gcc does not align the stack for them. */
#if defined(__x86_64__) && !defined(_WIN32)
__attribute__((target("avx2"))) static void gguf_round_by_eights(coffer_dtype dtype, const float *values, size_t count,
                                                                 uint8_t *to)
{
    gguf_round(dtype, values, count, to);
}
#endif

static gguf_round_function *gguf_round_here(void)
{
#if defined(__x86_64__) && !defined(_WIN32)
    return __builtin_cpu_supports("avx2") ? gguf_round_by_eights : gguf_round_anywhere;
#else
    return gguf_round_anywhere;
#endif
}

/* Blocks go through F32 in memory that stays in the cache, as many as are rounded at once: small ones by themselves would cost
   more for the calls than for the numbers. As F32 the numbers are written to the bit, NaNs too. Nearly all tensors have no
   scale of their own, so one loop more is run only for those that have. */
void coffer__gguf_decode(const coffer__gguf_type *type, const uint8_t *blocks, size_t count, float scale,
                         coffer_dtype dtype, uint8_t *to)
{
    const bool scaled = coffer__float_bits(scale) != coffer__float_bits(1);
    const size_t size = type->elements * (dtype == COFFER_F32 ? sizeof(float) : sizeof(uint16_t));
    float values[COFFER__FLOATS_MAX];
    for (size_t done = 0; done < count;) {
        const size_t capacity = COFFER__FLOATS_MAX / type->elements;
        const size_t some = count - done < capacity ? count - done : capacity;
        for (size_t b = 0; b < some; b++) {
            type->decode(blocks + (done + b) * type->size, values + b * type->elements);
        }
        for (size_t i = 0; scaled && i < some * type->elements; i++) {
            values[i] *= scale;
        }
        if (dtype == COFFER_F32) {
            coffer__floats_copy(values, some * type->elements, to + done * size);
        } else {
            gguf_round_here()(dtype, values, some * type->elements, to + done * size);
        }
        done += some;
    }
}
