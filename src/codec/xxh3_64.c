/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3-64 by its specification (xxHash's doc/xxhash_spec.md): up to 16 bytes one mixing step, up to 240 bytes pairs of words
 * that are multiplied, else eight accumulators over stripes of 64 bytes, which are scrambled after every 16 stripes.
 */
#include "xxh3_64.h"

#include "bytes.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define XXH3_PRIME32_1 UINT64_C(0x9E3779B1)
#define XXH3_PRIME32_2 UINT64_C(0x85EBCA77)
#define XXH3_PRIME32_3 UINT64_C(0xC2B2AE3D)
#define XXH3_PRIME64_1 UINT64_C(0x9E3779B185EBCA87)
#define XXH3_PRIME64_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define XXH3_PRIME64_3 UINT64_C(0x165667B19E3779F9)
#define XXH3_PRIME64_4 UINT64_C(0x85EBCA77C2B2AE63)
#define XXH3_PRIME64_5 UINT64_C(0x27D4EB2F165667C5)
#define XXH3_MIX_1 UINT64_C(0x165667919E3779F9)
#define XXH3_MIX_2 UINT64_C(0x9FB21C651E98DF25)

#define XXH3_STRIPE 64u
#define XXH3_BLOCK_STRIPES 16u
#define XXH3_BLOCK ((size_t)XXH3_STRIPE * XXH3_BLOCK_STRIPES)
#define XXH3_SECRET_SIZE 192u

/* The default secret of the specification. */
static const uint8_t xxh3_secret[XXH3_SECRET_SIZE] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4,
    0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e,
    0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43,
    0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
    0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19,
    0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7,
    0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78,
    0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16,
    0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static uint64_t xxh3_secret_u64(size_t at)
{
    return coffer__load_u64le(xxh3_secret + at);
}

static uint64_t xxh3_rotate(uint64_t value, unsigned by)
{
    return value << by | value >> (64 - by);
}

/* Both halves of the product of 128 bits, one XOR the other. */
static uint64_t xxh3_fold(uint64_t a, uint64_t b)
{
    const uint64_t low = (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF);
    const uint64_t cross_a = (a >> 32) * (b & 0xFFFFFFFF);
    const uint64_t cross_b = (a & 0xFFFFFFFF) * (b >> 32);
    const uint64_t high = (a >> 32) * (b >> 32);
    const uint64_t middle = (low >> 32) + (cross_a & 0xFFFFFFFF) + cross_b;
    return (middle << 32 | (low & 0xFFFFFFFF)) ^ (high + (cross_a >> 32) + (middle >> 32));
}

static uint64_t xxh3_finish_mix(uint64_t hash)
{
    hash ^= hash >> 37;
    hash *= XXH3_MIX_1;
    return hash ^ hash >> 32;
}

static uint64_t xxh3_finish_short(uint64_t hash)
{
    hash ^= hash >> 33;
    hash *= XXH3_PRIME64_2;
    hash ^= hash >> 29;
    hash *= XXH3_PRIME64_3;
    return hash ^ hash >> 32;
}

static uint64_t xxh3_up_to_3(const uint8_t *bytes, size_t size)
{
    if (size == 0) {
        return xxh3_finish_short(xxh3_secret_u64(56) ^ xxh3_secret_u64(64));
    }
    const uint32_t word =
        (uint32_t)bytes[0] << 16 | (uint32_t)bytes[size >> 1] << 24 | bytes[size - 1] | (uint32_t)size << 8;
    return xxh3_finish_short(word ^ (coffer__load_u32le(xxh3_secret) ^ coffer__load_u32le(xxh3_secret + 4)));
}

static uint64_t xxh3_up_to_8(const uint8_t *bytes, size_t size)
{
    const uint64_t word = coffer__load_u32le(bytes + size - 4) + ((uint64_t)coffer__load_u32le(bytes) << 32);
    uint64_t hash = word ^ (xxh3_secret_u64(8) ^ xxh3_secret_u64(16));
    hash ^= xxh3_rotate(hash, 49) ^ xxh3_rotate(hash, 24);
    hash *= XXH3_MIX_2;
    hash ^= (hash >> 35) + size;
    hash *= XXH3_MIX_2;
    return hash ^ hash >> 28;
}

static uint64_t xxh3_swapped(uint64_t value)
{
    uint64_t swapped = 0;
    for (unsigned i = 0; i < 64; i += 8) {
        swapped = swapped << 8 | (value >> i & 0xFF);
    }
    return swapped;
}

static uint64_t xxh3_up_to_16(const uint8_t *bytes, size_t size)
{
    const uint64_t low = coffer__load_u64le(bytes) ^ (xxh3_secret_u64(24) ^ xxh3_secret_u64(32));
    const uint64_t high = coffer__load_u64le(bytes + size - 8) ^ (xxh3_secret_u64(40) ^ xxh3_secret_u64(48));
    return xxh3_finish_mix(size + xxh3_swapped(low) + high + xxh3_fold(low, high));
}

static uint64_t xxh3_mix_16(const uint8_t *bytes, size_t secret)
{
    return xxh3_fold(coffer__load_u64le(bytes) ^ xxh3_secret_u64(secret),
                     coffer__load_u64le(bytes + 8) ^ xxh3_secret_u64(secret + 8));
}

/* From both ends towards the middle, 16 bytes at a time. */
static uint64_t xxh3_up_to_128(const uint8_t *bytes, size_t size)
{
    uint64_t hash = size * XXH3_PRIME64_1;
    for (size_t i = (size - 1) / 32 + 1; i-- > 0;) {
        hash += xxh3_mix_16(bytes + 16 * i, 32 * i);
        hash += xxh3_mix_16(bytes + size - 16 * (i + 1), 32 * i + 16);
    }
    return xxh3_finish_mix(hash);
}

static uint64_t xxh3_up_to_240(const uint8_t *bytes, size_t size)
{
    uint64_t hash = size * XXH3_PRIME64_1;
    for (size_t i = 0; i < 8; i++) {
        hash += xxh3_mix_16(bytes + 16 * i, 16 * i);
    }
    hash = xxh3_finish_mix(hash);
    for (size_t i = 8; i < size / 16; i++) {
        hash += xxh3_mix_16(bytes + 16 * i, 16 * (i - 8) + 3);
    }
    return xxh3_finish_mix(hash + xxh3_mix_16(bytes + size - 16, 136 - 17));
}

/* The accumulators take `count` stripes; the key of each lies 8 bytes after that of the one before. */
#if defined(__SSE2__)
static void xxh3_stripes(uint64_t *sums, const uint8_t *bytes, size_t count, size_t secret)
{
    __m128i sum[4];
    memcpy(sum, sums, sizeof sum);
    for (size_t stripe = 0; stripe < count; stripe++) {
        for (size_t i = 0; i < 4; i++) {
            const __m128i data = _mm_loadu_si128((const void *)(bytes + stripe * XXH3_STRIPE + 16 * i));
            const __m128i key = _mm_loadu_si128((const void *)(xxh3_secret + secret + 8 * stripe + 16 * i));
            const __m128i mixed = _mm_xor_si128(data, key);
            const __m128i product = _mm_mul_epu32(mixed, _mm_srli_epi64(mixed, 32));
            const __m128i crossed = _mm_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2));
            sum[i] = _mm_add_epi64(sum[i], _mm_add_epi64(product, crossed));
        }
    }
    memcpy(sums, sum, sizeof sum);
}
#else
static void xxh3_stripes(uint64_t *sums, const uint8_t *bytes, size_t count, size_t secret)
{
    for (size_t stripe = 0; stripe < count; stripe++) {
        for (size_t i = 0; i < 8; i++) {
            const uint64_t data = coffer__load_u64le(bytes + stripe * XXH3_STRIPE + 8 * i);
            const uint64_t mixed = data ^ xxh3_secret_u64(secret + 8 * stripe + 8 * i);
            sums[i ^ 1] += data;
            sums[i] += (mixed & 0xFFFFFFFF) * (mixed >> 32);
        }
    }
}
#endif

static uint64_t xxh3_long(const uint8_t *bytes, size_t size)
{
    uint64_t sums[8] = { XXH3_PRIME32_3, XXH3_PRIME64_1, XXH3_PRIME64_2, XXH3_PRIME64_3,
                         XXH3_PRIME64_4, XXH3_PRIME32_2, XXH3_PRIME64_5, XXH3_PRIME32_1 };
    size_t at = 0;
    for (; size - at > XXH3_BLOCK; at += XXH3_BLOCK) {
        xxh3_stripes(sums, bytes + at, XXH3_BLOCK_STRIPES, 0);
        for (size_t i = 0; i < 8; i++) {
            const uint64_t key = xxh3_secret_u64(XXH3_SECRET_SIZE - XXH3_STRIPE + 8 * i);
            sums[i] = (sums[i] ^ sums[i] >> 47 ^ key) * XXH3_PRIME32_1;
        }
    }
    xxh3_stripes(sums, bytes + at, (size - at - 1) / XXH3_STRIPE, 0);
    xxh3_stripes(sums, bytes + size - XXH3_STRIPE, 1, XXH3_SECRET_SIZE - XXH3_STRIPE - 7);
    uint64_t hash = size * XXH3_PRIME64_1;
    for (size_t i = 0; i < 8; i += 2) {
        hash += xxh3_fold(sums[i] ^ xxh3_secret_u64(11 + 8 * i), sums[i + 1] ^ xxh3_secret_u64(19 + 8 * i));
    }
    return xxh3_finish_mix(hash);
}

uint64_t coffer__xxh3_64(const uint8_t *bytes, size_t size)
{
    if (size <= 3) {
        return xxh3_up_to_3(bytes, size);
    }
    if (size <= 8) {
        return xxh3_up_to_8(bytes, size);
    }
    if (size <= 16) {
        return xxh3_up_to_16(bytes, size);
    }
    if (size <= 128) {
        return xxh3_up_to_128(bytes, size);
    }
    return size <= 240 ? xxh3_up_to_240(bytes, size) : xxh3_long(bytes, size);
}
