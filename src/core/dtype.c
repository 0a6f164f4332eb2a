/* SPDX-License-Identifier: Apache-2.0 */
/*
 * THE dtype table. Bit layouts: IEEE 754 (F16, F32, F64), bfloat16, OCP 8-bit Floating Point 1.0 (F8_E4M3, F8_E5M2), OCP
 * Microscaling Formats 1.0 (F8_E8M0, F6, F4), and the FNUZ forms as LLVM's APFloat names them. How wide elements are and in
 * which order they rank: the format's list of dtypes, safetensors 0.8. The numbers in bintensors: its list, 0.2.
 *
 * A number (coffer_dtype) is part of the ABI, so a new dtype takes the next one. Its rank is the reference's to choose, for files have
 * to have the same bytes: a dtype in the middle of the order moves the ranks of those after it, and no number.
 */
#include "dtype.h"

#include <string.h>

const coffer__dtype_info coffer__dtype_rows[COFFER_DTYPE_COUNT + 1] = {
    /* name, its length, rank, bits, alignment, kind; of floats: exponent, mantissa, special, bias */
    [COFFER_UNKNOWN_DTYPE] = { "", 0, 0, 0, 0, COFFER_KIND_NONE, 0, 0, 0, 0 },
    [COFFER_BOOL] = { "BOOL", 4, 1, 8, 1, COFFER_KIND_BOOL, 0, 0, 0, 0 },
    [COFFER_F4] = { "F4", 2, 2, 4, 1, COFFER_KIND_FLOAT, 2, 1, COFFER__SPECIAL_FINITE, 1 },
    [COFFER_F6_E2M3] = { "F6_E2M3", 7, 3, 6, 1, COFFER_KIND_FLOAT, 2, 3, COFFER__SPECIAL_FINITE, 1 },
    [COFFER_F6_E3M2] = { "F6_E3M2", 7, 4, 6, 1, COFFER_KIND_FLOAT, 3, 2, COFFER__SPECIAL_FINITE, 3 },
    [COFFER_U8] = { "U8", 2, 5, 8, 1, COFFER_KIND_UNSIGNED, 0, 0, 0, 0 },
    [COFFER_I8] = { "I8", 2, 6, 8, 1, COFFER_KIND_SIGNED, 0, 0, 0, 0 },
    [COFFER_F8_E5M2] = { "F8_E5M2", 7, 7, 8, 1, COFFER_KIND_FLOAT, 5, 2, COFFER__SPECIAL_IEEE, 15 },
    [COFFER_F8_E4M3] = { "F8_E4M3", 7, 8, 8, 1, COFFER_KIND_FLOAT, 4, 3, COFFER__SPECIAL_FN, 7 },
    [COFFER_F8_E8M0] = { "F8_E8M0", 7, 9, 8, 1, COFFER_KIND_FLOAT, 8, 0, COFFER__SPECIAL_SCALE, 127 },
    [COFFER_F8_E4M3FNUZ] = { "F8_E4M3FNUZ", 11, 10, 8, 1, COFFER_KIND_FLOAT, 4, 3, COFFER__SPECIAL_FNUZ, 8 },
    [COFFER_F8_E5M2FNUZ] = { "F8_E5M2FNUZ", 11, 11, 8, 1, COFFER_KIND_FLOAT, 5, 2, COFFER__SPECIAL_FNUZ, 16 },
    [COFFER_I16] = { "I16", 3, 12, 16, 2, COFFER_KIND_SIGNED, 0, 0, 0, 0 },
    [COFFER_U16] = { "U16", 3, 13, 16, 2, COFFER_KIND_UNSIGNED, 0, 0, 0, 0 },
    [COFFER_F16] = { "F16", 3, 14, 16, 2, COFFER_KIND_FLOAT, 5, 10, COFFER__SPECIAL_IEEE, 15 },
    [COFFER_BF16] = { "BF16", 4, 15, 16, 2, COFFER_KIND_FLOAT, 8, 7, COFFER__SPECIAL_IEEE, 127 },
    [COFFER_I32] = { "I32", 3, 16, 32, 4, COFFER_KIND_SIGNED, 0, 0, 0, 0 },
    [COFFER_U32] = { "U32", 3, 17, 32, 4, COFFER_KIND_UNSIGNED, 0, 0, 0, 0 },
    [COFFER_F32] = { "F32", 3, 18, 32, 4, COFFER_KIND_FLOAT, 8, 23, COFFER__SPECIAL_IEEE, 127 },
    [COFFER_C64] = { "C64", 3, 19, 64, 4, COFFER_KIND_COMPLEX, 8, 23, COFFER__SPECIAL_IEEE, 127 },
    [COFFER_F64] = { "F64", 3, 20, 64, 8, COFFER_KIND_FLOAT, 11, 52, COFFER__SPECIAL_IEEE, 1023 },
    [COFFER_I64] = { "I64", 3, 21, 64, 8, COFFER_KIND_SIGNED, 0, 0, 0, 0 },
    [COFFER_U64] = { "U64", 3, 22, 64, 8, COFFER_KIND_UNSIGNED, 0, 0, 0, 0 },
};

const uint8_t coffer__dtype_tags[COFFER__TAG_COUNT] = {
    COFFER_BOOL, COFFER_U8,  COFFER_I8,  COFFER_F8_E5M2, COFFER_F8_E4M3, COFFER_I16, COFFER_U16, COFFER_F16,
    COFFER_BF16, COFFER_I32, COFFER_U32, COFFER_F32,     COFFER_F64,     COFFER_I64, COFFER_U64,
};

unsigned coffer__dtype_tag(coffer_dtype dtype)
{
    unsigned tag = 0;
    while (tag < COFFER__TAG_COUNT && coffer__dtype_tags[tag] != dtype) {
        tag++;
    }
    return tag;
}

const char *coffer_dtype_name(coffer_dtype dtype)
{
    return coffer__dtype(dtype)->name;
}

coffer_dtype coffer_dtype_from_name(const char *name, size_t name_len)
{
    for (int dtype = 1; dtype <= COFFER_DTYPE_COUNT; dtype++) {
        if (coffer__dtype_rows[dtype].name_len == name_len &&
            memcmp(coffer__dtype_rows[dtype].name, name, name_len) == 0) {
            return (coffer_dtype)dtype;
        }
    }
    return COFFER_UNKNOWN_DTYPE;
}

uint32_t coffer_dtype_bits(coffer_dtype dtype)
{
    return coffer__dtype(dtype)->bits;
}

uint32_t coffer_dtype_alignment(coffer_dtype dtype)
{
    return coffer__dtype(dtype)->alignment;
}

coffer_kind coffer_dtype_kind(coffer_dtype dtype)
{
    return (coffer_kind)coffer__dtype(dtype)->kind;
}
