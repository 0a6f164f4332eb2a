/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CRC is the remainder of the bytes, seen as a polynomial over the two numbers 0 and 1, divided by the polynomial
 * of degree 32. Reflected: the highest bit of a value is the coefficient of x^0.
 *
 * Sixteen tables advance the value by sixteen bytes at once: table k has, for each byte, what it adds to the
 * remainder when k more bytes follow it. So the sixteen lookups do not wait for one another.
 */
#include "crc32.h"

#include "bytes.h"

#define CRC32_POLYNOMIAL 0xEDB88320u
#define CRC32C_POLYNOMIAL 0x82F63B78u
/* Long enough that joining three costs little, short enough that most pieces have three. */
#define CRC32C_STRETCH ((size_t)8 << 10)

/* ---- polynomials ------------------------------------------------------------------------------------------------- */

/* The product of two polynomials, modulo the one of degree 32. */
static uint32_t crc32_multiply(uint32_t polynomial, uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (unsigned bit = 0; bit < 32; bit++) {
        product ^= b & (0u - (a >> 31));
        a <<= 1;
        b = (b >> 1) ^ (polynomial & (0u - (b & 1)));
    }
    return product;
}

/*
 * A byte of zeros multiplies the remainder by x^8. So `size` of them multiply it by x^(8 * size), which is put together
 * from the squares x^8, x^16, x^32, … for the bits of the size.
 */
static uint32_t crc32_power(uint32_t polynomial, uint64_t size)
{
    uint32_t power = UINT32_C(1) << 31;  /* x^0 */
    uint32_t square = UINT32_C(1) << 23; /* x^8 */
    for (uint64_t left = size; left > 0; left >>= 1) {
        if ((left & 1) != 0) {
            power = crc32_multiply(polynomial, power, square);
        }
        square = crc32_multiply(polynomial, square, square);
    }
    return power;
}

/* ---- without a library ------------------------------------------------------------------------------------------- */

/* The remainder of one byte, and then of that byte with more and more zeros after it. */
static void crc32_fill(coffer__crc32 *crc32)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (unsigned bit = 0; bit < 8; bit++) {
            value = (value >> 1) ^ (crc32->polynomial & (0u - (value & 1)));
        }
        crc32->tables[0][byte] = value;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (unsigned k = 1; k < COFFER__CRC32_TABLES; k++) {
            const uint32_t before = crc32->tables[k - 1][byte];
            crc32->tables[k][byte] = (before >> 8) ^ crc32->tables[0][before & 0xFF];
        }
    }
}

static uint32_t crc32_by_tables(const coffer__crc32 *crc32, uint32_t crc, const uint8_t *bytes, size_t size)
{
    uint32_t value = ~crc;
    size_t at = 0;
    for (; size - at >= 16; at += 16) {
        const uint64_t low = coffer__load_u64le(bytes + at) ^ value;
        const uint64_t high = coffer__load_u64le(bytes + at + 8);
        value = 0;
        for (unsigned k = 0; k < 8; k++) {
            value ^= crc32->tables[15 - k][low >> (8 * k) & 0xFF] ^ crc32->tables[7 - k][high >> (8 * k) & 0xFF];
        }
    }
    for (; at < size; at++) {
        value = (value >> 8) ^ crc32->tables[0][(value ^ bytes[at]) & 0xFF];
    }
    return ~value;
}

/* ---- by an instruction ------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* An instruction takes three steps of the clock, and one can begin in each: so three stretches are computed at once, whose
   remainders are then joined, each moved up by the length of a stretch. */
__attribute__((target("sse4.2,crc32"))) static uint64_t crc32c_of_three(const coffer__crc32 *crc32, uint64_t value,
                                                                        const uint8_t *from)
{
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t at = 0; at < CRC32C_STRETCH; at += 8) {
        value = __builtin_ia32_crc32di(value, coffer__load_u64(from + at));
        second = __builtin_ia32_crc32di(second, coffer__load_u64(from + CRC32C_STRETCH + at));
        third = __builtin_ia32_crc32di(third, coffer__load_u64(from + 2 * CRC32C_STRETCH + at));
    }
    const uint32_t two = crc32_multiply(CRC32C_POLYNOMIAL, (uint32_t)value, crc32->stretch) ^ (uint32_t)second;
    return crc32_multiply(CRC32C_POLYNOMIAL, two, crc32->stretch) ^ (uint32_t)third;
}

__attribute__((target("sse4.2,crc32"))) static uint32_t crc32c_by_instruction(const coffer__crc32 *crc32, uint32_t crc,
                                                                              const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    uint64_t value = ~crc;
    size_t at = 0;
    for (; size - at >= 3 * CRC32C_STRETCH; at += 3 * CRC32C_STRETCH) {
        value = crc32c_of_three(crc32, value, from + at);
    }
    for (; size - at >= 8; at += 8) {
        value = __builtin_ia32_crc32di(value, coffer__load_u64(from + at));
    }
    for (; at < size; at++) {
        value = __builtin_ia32_crc32qi((uint32_t)value, from[at]);
    }
    return ~(uint32_t)value;
}
#endif

/* The function, where this processor has the instruction; or NULL. */
static coffer__crc32_function *crc32c_instruction(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("sse4.2") ? crc32c_by_instruction : NULL;
#else
    return NULL;
#endif
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

void coffer__crc32_open(coffer__crc32 *crc32, bool alone)
{
    crc32->by_libdeflate = NULL;
    crc32->by_zlib = NULL;
    crc32->by_instruction = NULL;
    crc32->stretch = 0;
    crc32->polynomial = CRC32_POLYNOMIAL;
    if (!alone && coffer__os_library_open(&crc32->library, "libdeflate.so.0")) {
        if (coffer__os_library_find(&crc32->library, "libdeflate_crc32", &crc32->by_libdeflate)) {
            return;
        }
        crc32->by_libdeflate = NULL;
        coffer__os_library_close(&crc32->library);
    }
    if (!alone && coffer__os_library_open(&crc32->library, "libz.so.1")) {
        /* Versions from 1.2.9 on have the function that takes sizes of any width. */
        if (coffer__os_library_find(&crc32->library, "crc32_z", &crc32->by_zlib)) {
            return;
        }
        crc32->by_zlib = NULL;
        coffer__os_library_close(&crc32->library);
    }
    crc32_fill(crc32);
}

/* No library is opened, so none is to be closed. */
void coffer__crc32c_open(coffer__crc32 *crc32, bool alone)
{
    crc32->by_libdeflate = NULL;
    crc32->by_zlib = NULL;
    crc32->by_instruction = alone ? NULL : crc32c_instruction();
    crc32->polynomial = CRC32C_POLYNOMIAL;
    crc32->stretch = crc32_power(CRC32C_POLYNOMIAL, CRC32C_STRETCH);
    if (crc32->by_instruction == NULL) {
        crc32_fill(crc32);
    }
}

void coffer__crc32_close(coffer__crc32 *crc32)
{
    if (crc32->by_libdeflate != NULL || crc32->by_zlib != NULL) {
        coffer__os_library_close(&crc32->library);
    }
}

uint32_t coffer__crc32_update(const coffer__crc32 *crc32, uint32_t crc, const void *bytes, size_t size)
{
    /* zlib takes NULL for a wish to begin. */
    if (size == 0) {
        return crc;
    }
    if (crc32->by_libdeflate != NULL) {
        return crc32->by_libdeflate(crc, bytes, size);
    }
    if (crc32->by_zlib != NULL) {
        return (uint32_t)crc32->by_zlib(crc, bytes, size);
    }
    if (crc32->by_instruction != NULL) {
        return crc32->by_instruction(crc32, crc, bytes, size);
    }
    return crc32_by_tables(crc32, crc, bytes, size);
}

/* The value is kept inverted, as it is while bytes come. */
uint32_t coffer__crc32_zeros(const coffer__crc32 *crc32, uint32_t crc, uint64_t size)
{
    return ~crc32_multiply(crc32->polynomial, ~crc, crc32_power(crc32->polynomial, size));
}

/*
 * The remainder of a whole is the sum of those of its pieces, each multiplied by x for every bit that follows it. The
 * inversions at both ends make a constant of the length alone, which the CRC of as many zeros has too, so it cancels.
 */
uint32_t coffer__crc32_share(const coffer__crc32 *crc32, uint32_t crc, uint64_t after)
{
    return coffer__crc32_zeros(crc32, crc, after) ^ coffer__crc32_zeros(crc32, 0, after);
}
