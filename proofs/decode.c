/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of values.c, for the driver of what is computed from numbers: elements become doubles of any value, NaN too, or any that is
 * finite. Their bytes are read, all of them. How they are decoded is proved apart (prove_values.c).
 */
#include "decode.h"
#include "dtype.h"

#include "__fc_builtin.h"
#include <float.h>

bool prove_decodes_finite;

coffer_status coffer_decode(coffer_dtype dtype, const void *data, uint64_t first, size_t count, double *values)
{
    const coffer__dtype_info *info = coffer__dtype_info_of(dtype);
    const size_t numbers = count * (info->kind == COFFER_KIND_COMPLEX ? 2 : 1);
    const size_t size = (size_t)((first % 8 + count) * info->bits + 7) / 8;
    const unsigned char *bytes = (const unsigned char *)data + first / 8 * info->bits;
    for (size_t i = 0; i < size; i++) {
        (void)*(const volatile unsigned char *)&bytes[i];
    }
    if (!prove_decodes_finite) {
        Frama_C_make_unknown((char *)values, numbers * sizeof *values);
        return COFFER_OK;
    }
    //@ loop unroll 1024;
    for (size_t i = 0; i < numbers; i++) {
        values[i] = Frama_C_double_interval(-DBL_MAX, DBL_MAX);
    }
    return COFFER_OK;
}

double coffer__dtype_least_normal(coffer_dtype dtype)
{
    return coffer__dtype_info_of(dtype)->exponent > 0 ? Frama_C_double_interval(0, 1) : 0;
}
