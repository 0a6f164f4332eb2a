/* SPDX-License-Identifier: Apache-2.0 */
/* Planes. Each loop is one that compilers make vectors of, and says the same without. */
#include "packed_planes.h"

#include "bytes.h"

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define PLANES_LE16(value) __builtin_bswap16(value)
#define PLANES_LE32(value) __builtin_bswap32(value)
#define PLANES_LE64(value) __builtin_bswap64(value)
#else
#define PLANES_LE16(value) (value)
#define PLANES_LE32(value) (value)
#define PLANES_LE64(value) (value)
#endif

static void planes_split_1(const uint8_t *restrict elements, size_t count, unsigned rotate, uint8_t *restrict plane)
{
    for (size_t i = 0; i < count; i++) {
        plane[i] = (uint8_t)(elements[i] << rotate | elements[i] >> (8 - rotate));
    }
}

static void planes_split_2(const uint8_t *restrict elements, size_t count, unsigned rotate, uint8_t *restrict low,
                           uint8_t *restrict high)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t value = 0;
        memcpy(&value, elements + 2 * i, sizeof value);
        value = PLANES_LE16(value);
        value = (uint16_t)(value << rotate | value >> (16 - rotate));
        low[i] = (uint8_t)value;
        high[i] = (uint8_t)(value >> 8);
    }
}

static void planes_split_4(const uint8_t *restrict elements, size_t count, unsigned rotate, uint8_t *const planes[])
{
    uint8_t *restrict p0 = planes[0];
    uint8_t *restrict p1 = planes[1];
    uint8_t *restrict p2 = planes[2];
    uint8_t *restrict p3 = planes[3];
    for (size_t i = 0; i < count; i++) {
        uint32_t value = 0;
        memcpy(&value, elements + 4 * i, sizeof value);
        value = PLANES_LE32(value);
        value = value << rotate | value >> ((32 - rotate) & 31);
        p0[i] = (uint8_t)value;
        p1[i] = (uint8_t)(value >> 8);
        p2[i] = (uint8_t)(value >> 16);
        p3[i] = (uint8_t)(value >> 24);
    }
}

static void planes_split_8(const uint8_t *elements, size_t count, unsigned rotate, uint8_t *const planes[])
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = coffer__load_u64le(elements + 8 * i);
        value = value << rotate | value >> ((64 - rotate) & 63);
        for (unsigned plane = 0; plane < 8; plane++) {
            planes[plane][i] = (uint8_t)(value >> (8 * plane));
        }
    }
}

static void planes_split_halves(const uint8_t *restrict elements, size_t count, unsigned rotate, uint8_t *restrict low,
                                uint8_t *restrict high)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t value = (uint8_t)(elements[i] << rotate | elements[i] >> (8 - rotate));
        low[i] = value & 15;
        high[i] = value >> 4;
    }
}

void coffer__planes_split(const coffer__packed_layout *layout, const uint8_t *elements, size_t count,
                          uint8_t *const planes[COFFER__PLANES_MAX])
{
    if (layout->nibbles) {
        planes_split_halves(elements, count, layout->rotate, planes[0], planes[1]);
    } else if (layout->element_size == 1) {
        planes_split_1(elements, count, layout->rotate, planes[0]);
    } else if (layout->element_size == 2) {
        planes_split_2(elements, count, layout->rotate, planes[0], planes[1]);
    } else if (layout->element_size == 4) {
        planes_split_4(elements, count, layout->rotate, planes);
    } else {
        planes_split_8(elements, count, layout->rotate, planes);
    }
}

static void planes_merge_1(const uint8_t *restrict plane, size_t count, unsigned rotate, uint8_t *restrict elements)
{
    for (size_t i = 0; i < count; i++) {
        elements[i] = (uint8_t)(plane[i] >> rotate | plane[i] << (8 - rotate));
    }
}

static void planes_merge_2(const uint8_t *restrict low, const uint8_t *restrict high, size_t count, unsigned rotate,
                           uint8_t *restrict elements)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t value = (uint16_t)(low[i] | high[i] << 8);
        value = (uint16_t)(value >> rotate | value << (16 - rotate));
        value = PLANES_LE16(value);
        memcpy(elements + 2 * i, &value, sizeof value);
    }
}

static void planes_merge_4(const uint8_t *const planes[], size_t count, unsigned rotate, uint8_t *restrict elements)
{
    const uint8_t *restrict p0 = planes[0];
    const uint8_t *restrict p1 = planes[1];
    const uint8_t *restrict p2 = planes[2];
    const uint8_t *restrict p3 = planes[3];
    for (size_t i = 0; i < count; i++) {
        uint32_t value = (uint32_t)p0[i] | (uint32_t)p1[i] << 8 | (uint32_t)p2[i] << 16 | (uint32_t)p3[i] << 24;
        value = value >> rotate | value << ((32 - rotate) & 31);
        value = PLANES_LE32(value);
        memcpy(elements + 4 * i, &value, sizeof value);
    }
}

static void planes_merge_8(const uint8_t *const planes[], size_t count, unsigned rotate, uint8_t *elements)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        for (unsigned plane = 0; plane < 8; plane++) {
            value |= (uint64_t)planes[plane][i] << (8 * plane);
        }
        value = value >> rotate | value << ((64 - rotate) & 63);
        value = PLANES_LE64(value);
        memcpy(elements + 8 * i, &value, sizeof value);
    }
}

static void planes_merge_halves(const uint8_t *restrict low, const uint8_t *restrict high, size_t count,
                                unsigned rotate, uint8_t *restrict elements)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t value = (uint8_t)(low[i] | high[i] << 4);
        elements[i] = (uint8_t)(value >> rotate | value << (8 - rotate));
    }
}

void coffer__planes_merge(const coffer__packed_layout *layout, const uint8_t *const planes[COFFER__PLANES_MAX],
                          size_t count, uint8_t *elements)
{
    if (layout->nibbles) {
        planes_merge_halves(planes[0], planes[1], count, layout->rotate, elements);
    } else if (layout->element_size == 1) {
        planes_merge_1(planes[0], count, layout->rotate, elements);
    } else if (layout->element_size == 2) {
        planes_merge_2(planes[0], planes[1], count, layout->rotate, elements);
    } else if (layout->element_size == 4) {
        planes_merge_4(planes, count, layout->rotate, elements);
    } else {
        planes_merge_8(planes, count, layout->rotate, elements);
    }
}

/* 64 halves as 32 bytes. */
static void planes_pack_block(const uint8_t *restrict halves, uint8_t *restrict packed)
{
    for (size_t i = 0; i < 32; i++) {
        packed[i] = (uint8_t)(halves[i] | halves[i + 32] << 4);
    }
}

void coffer__halves_pack(const uint8_t *halves, size_t count, uint8_t *packed)
{
    size_t block = 0;
    for (; block < count / 64; block++) {
        planes_pack_block(halves + 64 * block, packed + 32 * block);
    }
    if (count % 64 != 0) {
        uint8_t last[64] = { 0 };
        memcpy(last, halves + 64 * block, count % 64);
        planes_pack_block(last, packed + 32 * block);
    }
}

/* 32 bytes as 64 halves. */
static void planes_unpack_block(const uint8_t *restrict packed, uint8_t *restrict halves)
{
    for (size_t i = 0; i < 32; i++) {
        halves[i] = packed[i] & 15;
        halves[i + 32] = packed[i] >> 4;
    }
}

void coffer__halves_unpack(const uint8_t *packed, size_t count, uint8_t *halves)
{
    for (size_t block = 0; block < COFFER__HALVES_SIZE(count) / 32; block++) {
        planes_unpack_block(packed + 32 * block, halves + 64 * block);
    }
}
