/* SPDX-License-Identifier: Apache-2.0 */
/* F16, BF16 and F32 as floats and back: any bytes, any float, for none, one, and as many numbers as a call may have. */
#include "floats.h"
#include "prove.h"

static void prove_dtype(coffer_dtype dtype, size_t count)
{
    const size_t width = dtype == COFFER_F32 ? 4 : 2;
    uint8_t *bytes = prove_bytes(count * width);
    uint32_t *bits = (uint32_t *)prove_bytes(count * sizeof(float));
    float *values = malloc(count * sizeof *values + 1);
    coffer__floats_losses losses = { 0, 0 };
    if (values == NULL) {
        exit(1);
    }
    coffer__floats_decode(dtype, bytes, count, values);
    memcpy(values, bits, count * sizeof *values);
    coffer__floats_encode(dtype, values, count, bytes, NULL);
    coffer__floats_encode(dtype, values, count, bytes, &losses);
    free(values);
    free(bits);
    free(bytes);
}

int main(void)
{
    static const coffer_dtype dtypes[] = { COFFER_F16, COFFER_BF16, COFFER_F32 };
    //@ loop unroll 3;
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (coffer__floats_have(dtypes[i])) {
            prove_dtype(dtypes[i], 0);
            prove_dtype(dtypes[i], 1);
            prove_dtype(dtypes[i], COFFER__FLOATS_MAX);
        }
    }
    coffer__floats_have(COFFER_U8);
    return 0;
}
