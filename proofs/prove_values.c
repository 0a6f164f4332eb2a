/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements as doubles and back: every dtype, every code of a byte or less, any bytes of the larger ones; as many elements as are
 * looked up in a table; any double. The arrays end where the elements do.
 */
#include "dtype.h"
#include "prove.h"

static void *prove_block(size_t size)
{
    void *block = malloc(size);
    if (block == NULL) {
        exit(1);
    }
    return block;
}

/* Bytes that `count` elements from `first` on take: `first` counts whole where they are packed into bytes. */
static size_t prove_bytes_of(coffer_dtype dtype, size_t first, size_t count)
{
    return (size_t)((first + count) * coffer_dtype_bits(dtype) + 7) / 8;
}

/* Bytes of any value. */
static void prove_decode(coffer_dtype dtype, size_t first, size_t count)
{
    uint8_t *data = prove_bytes(prove_bytes_of(dtype, first, count));
    double *values = prove_block(2 * count * sizeof *values);
    coffer_decode(dtype, data, first, count, values);
    free(values);
    free(data);
}

/* One element of a byte or less behind `first` others: its least codes and its largest. (Every code is decoded by the table, and
   any code is read from any place by prove_decode.) */
static void prove_codes(coffer_dtype dtype, size_t first)
{
    static const uint8_t bytes[] = { 0x00, 0x41, 0x10, 0x04, 0x55, 0xFF };
    const size_t size = prove_bytes_of(dtype, first, 1);
    uint8_t *data = prove_block(size);
    double value;
    //@ loop unroll 6;
    for (size_t i = 0; i < sizeof bytes; i++) {
        memset(data, bytes[i], size);
        coffer_decode(dtype, data, first, 1, &value);
    }
    free(data);
}

/* Any F16, in ranges: by the exponent, and where it is 0, by the highest bit of the mantissa. */
static void prove_f16(void)
{
    static const uint8_t ranges[][4] = {
        { 0, 0, 0, 0 },   { 0, 0, 1, 1 },     { 0, 0, 2, 3 },       { 0, 0, 4, 7 },     { 0, 0, 8, 15 },
        { 0, 0, 16, 31 }, { 0, 0, 32, 63 },   { 0, 0, 64, 127 },    { 0, 0, 128, 255 }, { 1, 1, 0, 255 },
        { 2, 3, 0, 255 }, { 4, 123, 0, 255 }, { 124, 127, 0, 255 },
    };
    uint8_t data[2];
    double value;
    //@ loop unroll 13;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        data[0] = Frama_C_unsigned_char_interval(ranges[i][2], ranges[i][3]);
        data[1] = Frama_C_unsigned_char_interval(ranges[i][0], ranges[i][1]);
        coffer_decode(COFFER_F16, data, 0, 1, &value);
        data[1] = Frama_C_unsigned_char_interval(ranges[i][0] + 128, ranges[i][1] + 128);
        coffer_decode(COFFER_F16, data, 0, 1, &value);
    }
}

static void prove_encode(coffer_dtype dtype)
{
    double value = 0;
    uint64_t bits = prove_u64();
    memcpy(&value, &bits, sizeof value);
    uint8_t *data = prove_block(prove_bytes_of(dtype, 0, 1));
    coffer_encode(dtype, &value, 1, data);
    free(data);
}

int main(void)
{
    //@ loop unroll 64;
    for (int number = -1; number <= COFFER_DTYPE_COUNT + 1; number++) {
        const coffer_dtype dtype = (coffer_dtype)number;
        if (coffer_dtype_bits(dtype) == 0) {
            continue;
        }
        prove_encode(dtype);
        if (coffer_dtype_bits(dtype) > 8 || coffer_dtype_kind(dtype) != COFFER_KIND_FLOAT) {
            prove_decode(dtype, 1, dtype == COFFER_F16 ? 0 : 2);
            continue;
        }
        //@ loop unroll 8;
        for (size_t first = 0; first < (coffer_dtype_bits(dtype) < 8 ? 8 : 1); first++) {
            prove_codes(dtype, first);
        }
        prove_decode(dtype, 1, 256);
    }
    prove_f16();
    coffer_decode(COFFER_F32, NULL, 1, 0, NULL);
    coffer_decode(COFFER_F32, NULL, 1, 1, NULL);
    coffer_decode(COFFER_F32, "", 0, 1, NULL);
    coffer_decode(COFFER_UNKNOWN_DTYPE, NULL, 0, 0, NULL);
    coffer_encode(COFFER_F32, NULL, 1, NULL);
    return 0;
}
