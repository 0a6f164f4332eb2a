/* SPDX-License-Identifier: Apache-2.0 */
/*
 * THE table of dtypes: a row for each, in the order of their numbers (coffer_dtype). All else that is
 * said of dtypes is made from it: what the core knows of them (dtype.c), and what DLPack, the buffer
 * protocol, numpy, torch and the like call them (py_dtypes.c).
 *
 * Bit layouts: IEEE 754 (F16, F32, F64), bfloat16, OCP 8-bit Floating Point 1.0 (F8_E4M3, F8_E5M2), OCP
 * Microscaling Formats 1.0 (F8_E8M0, F6, F4), and the FNUZ forms as LLVM's APFloat names them. How wide
 * elements are and in which order they rank: the format's list of dtypes, safetensors 0.8. The numbers
 * in bintensors: its list, 0.2.
 *
 * A number is part of the ABI, so a new dtype gets the next one, and its row comes last. Its rank is
 * the reference's to choose, because both have to write the same bytes: a dtype in the middle of the
 * order moves the ranks of those after it, and no number.
 *
 *   PLAIN(name, rank, bits, alignment, kind, exponent, mantissa, special, bias)
 *   TAGGED(number in bintensors, and the same); in the order of these numbers
 *
 *   name       in files, and of the enumerator: COFFER_ before it
 *   rank       its place in the writers' order, from the lowest; no two dtypes have the same
 *   bits       of one element; its alignment is in bytes, its kind a coffer_kind
 *   exponent   bits of a float's exponent, and of its mantissa without the hidden one
 *   special    how infinities and NaNs are spelt, coffer__special
 *   bias       what is subtracted from the exponent
 */
#ifndef COFFER_CORE_DTYPE_TABLE_H
#define COFFER_CORE_DTYPE_TABLE_H

/* clang-format off */
#define COFFER__DTYPES(PLAIN, TAGGED)                                  \
    TAGGED( 0, BOOL,         1,  8, 1, BOOL,      0,  0, NONE,      0) \
    PLAIN(     F4,           2,  4, 1, FLOAT,     2,  1, FINITE,    1) \
    PLAIN(     F6_E2M3,      3,  6, 1, FLOAT,     2,  3, FINITE,    1) \
    PLAIN(     F6_E3M2,      4,  6, 1, FLOAT,     3,  2, FINITE,    3) \
    TAGGED( 1, U8,           5,  8, 1, UNSIGNED,  0,  0, NONE,      0) \
    TAGGED( 2, I8,           6,  8, 1, SIGNED,    0,  0, NONE,      0) \
    TAGGED( 3, F8_E5M2,      7,  8, 1, FLOAT,     5,  2, IEEE,     15) \
    TAGGED( 4, F8_E4M3,      8,  8, 1, FLOAT,     4,  3, FN,        7) \
    PLAIN(     F8_E8M0,      9,  8, 1, FLOAT,     8,  0, SCALE,   127) \
    PLAIN(     F8_E4M3FNUZ, 10,  8, 1, FLOAT,     4,  3, FNUZ,      8) \
    PLAIN(     F8_E5M2FNUZ, 11,  8, 1, FLOAT,     5,  2, FNUZ,     16) \
    TAGGED( 5, I16,         12, 16, 2, SIGNED,    0,  0, NONE,      0) \
    TAGGED( 6, U16,         13, 16, 2, UNSIGNED,  0,  0, NONE,      0) \
    TAGGED( 7, F16,         14, 16, 2, FLOAT,     5, 10, IEEE,     15) \
    TAGGED( 8, BF16,        15, 16, 2, FLOAT,     8,  7, IEEE,    127) \
    TAGGED( 9, I32,         16, 32, 4, SIGNED,    0,  0, NONE,      0) \
    TAGGED(10, U32,         17, 32, 4, UNSIGNED,  0,  0, NONE,      0) \
    TAGGED(11, F32,         18, 32, 4, FLOAT,     8, 23, IEEE,    127) \
    PLAIN(     C64,         19, 64, 4, COMPLEX,   8, 23, IEEE,    127) \
    TAGGED(12, F64,         20, 64, 8, FLOAT,    11, 52, IEEE,   1023) \
    TAGGED(13, I64,         21, 64, 8, SIGNED,    0,  0, NONE,      0) \
    TAGGED(14, U64,         22, 64, 8, UNSIGNED,  0,  0, NONE,      0)
/* clang-format on */

#endif
