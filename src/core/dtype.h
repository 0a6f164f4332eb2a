/* SPDX-License-Identifier: Apache-2.0 */
/* What the core knows of each dtype. The table itself is dtype_table.h. */
#ifndef COFFER_CORE_DTYPE_H
#define COFFER_CORE_DTYPE_H

#include "checked.h"
#include "coffer.h"
#include "dtype_table.h"

/* How a float format spells infinities and NaNs. dtype_table.h names the standards. */
typedef enum coffer__special {
    COFFER__SPECIAL_NONE = 0,   /* no float */
    COFFER__SPECIAL_IEEE = 1,   /* highest exponent: infinities and NaNs */
    COFFER__SPECIAL_FN = 2,     /* all ones: NaN; no infinities */
    COFFER__SPECIAL_FNUZ = 3,   /* the sign bit alone: NaN; no infinities, no negative zero */
    COFFER__SPECIAL_FINITE = 4, /* neither */
    COFFER__SPECIAL_SCALE = 5   /* no sign, an exponent alone; all ones: NaN (OCP MX, E8M0) */
} coffer__special;

typedef struct coffer__dtype_info {
    char name[16]; /* zeros follow, so that words of it can be compared */
    uint8_t name_len;
    uint8_t rank;      /* its place in the writers' order, from the lowest; no two dtypes have one */
    uint8_t bits;      /* of one element */
    uint8_t alignment; /* in bytes */
    uint8_t kind;      /* coffer_kind */
    uint8_t exponent;  /* of a float: bits of its exponent, else 0 */
    uint8_t mantissa;  /* of a float: bits of its mantissa, without the hidden one */
    uint8_t special;   /* of a float: how infinities and NaNs are spelt, coffer__special */
    int16_t bias;      /* of a float: what is subtracted from its exponent */
} coffer__dtype_info;

/* Indexed by coffer_dtype. Row 0, that of COFFER_UNKNOWN_DTYPE, has an empty name and 0 bits. */
extern const coffer__dtype_info coffer__dtype_rows[COFFER_DTYPE_COUNT + 1];

/* The numbers of dtypes in bintensors, in their order: COFFER__TAG_F32. The table lists them in
   ascending order without a gap, which makes the enumerator after the last their count. */
#define COFFER__NO_TAG(...)
#define COFFER__TAG(tag, id, ...) COFFER__TAG_##id = (tag),
enum { COFFER__DTYPES(COFFER__NO_TAG, COFFER__TAG) COFFER__TAG_COUNT };
/* The coffer_dtype that each number stands for. */
extern const uint8_t coffer__dtype_tags[COFFER__TAG_COUNT];
/* The number of a dtype in bintensors; COFFER__TAG_COUNT when it has none. */
unsigned coffer__dtype_tag(coffer_dtype dtype);

/* The row of a dtype. Any int may be asked for, since callers of the library can pass any: numbers
   that are no dtype get row 0. */
static inline const coffer__dtype_info *coffer__dtype_info_of(coffer_dtype dtype)
{
    const bool known = (int)dtype > 0 && (int)dtype <= COFFER_DTYPE_COUNT;
    return &coffer__dtype_rows[known ? (int)dtype : 0];
}

/* The least positive number that is normal: what is nearer to zero is subnormal. Of C64, that of its parts; 0 for dtypes
   without subnormal numbers: integers, BOOL, F8_E8M0. */
double coffer__dtype_least_normal(coffer_dtype dtype);

/*
 * Bits of a tensor by the rule of the format (docs/format.md): the dimensions multiplied in order,
 * then by the element's bits, every step checked. So a dimension of 0 hides an overflow that would
 * come after it, but not one that came before; the reference decides alike. False on overflow. An
 * unknown dtype has 0 bits an element, so its result is 0.
 */
static inline bool coffer__tensor_bits(coffer_dtype dtype, const uint64_t *shape, size_t rank, uint64_t *bits)
{
    uint64_t product = 1;
    for (size_t i = 0; i < rank; i++) {
        if (!coffer__mul_u64(product, shape[i], &product)) {
            return false;
        }
    }
    return coffer__mul_u64(product, coffer__dtype_info_of(dtype)->bits, bits);
}

#endif
