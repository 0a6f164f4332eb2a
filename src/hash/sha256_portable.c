/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 (FIPS 180-4) in C, for where the system has no library for it: a command without shared libraries, a browser. A
 * message is taken in blocks of 64 bytes; after the last byte come 0x80, zeros, and the number of bits in eight bytes, the
 * highest first. Instructions for it are not used, so it takes several times as long as those libraries do.
 */
#include "sha256_portable.h"

#include "alloc.h"
#include "error.h"

#include <string.h>

#define PORTABLE_BLOCK 64u
#define PORTABLE_LENGTH 8u

typedef struct portable_sum {
    uint32_t words[8];
    uint64_t size; /* of the message so far, in bytes */
    uint8_t block[PORTABLE_BLOCK];
} portable_sum;

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t portable_rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t portable_turn(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

/* The 64 words that a block becomes. */
static void portable_expand(uint32_t w[64], const uint8_t *block)
{
    for (size_t i = 0; i < 16; i++) {
        const uint8_t *at = block + 4 * i;
        w[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    }
    for (size_t i = 16; i < 64; i++) {
        const uint32_t a = portable_turn(w[i - 15], 7) ^ portable_turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        const uint32_t b = portable_turn(w[i - 2], 17) ^ portable_turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
}

static void portable_mix(uint32_t words[8], const uint8_t *block)
{
    uint32_t w[64];
    portable_expand(w, block);
    uint32_t a = words[0], b = words[1], c = words[2], d = words[3];
    uint32_t e = words[4], f = words[5], g = words[6], h = words[7];
#ifdef __clang__
#pragma clang loop unroll_count(8)
#endif
    for (size_t i = 0; i < 64; i++) {
        const uint32_t high = portable_turn(e, 6) ^ portable_turn(e, 11) ^ portable_turn(e, 25);
        const uint32_t low = portable_turn(a, 2) ^ portable_turn(a, 13) ^ portable_turn(a, 22);
        const uint32_t first = h + high + ((e & f) ^ (~e & g)) + portable_rounds[i] + w[i];
        const uint32_t second = low + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    const uint32_t mixed[8] = { a, b, c, d, e, f, g, h };
    for (size_t i = 0; i < 8; i++) {
        words[i] += mixed[i];
    }
}

static coffer_status portable_open(coffer_hasher *hasher, coffer_error *err)
{
    hasher->state = coffer__alloc(&hasher->allocator, sizeof(portable_sum));
    return hasher->state != NULL ? COFFER_OK : coffer__fail(err, COFFER_ERR_MEMORY, "no memory for SHA-256");
}

static void portable_close(coffer_hasher *hasher)
{
    coffer__free(&hasher->allocator, hasher->state, sizeof(portable_sum));
}

/* The first 32 bits of the fractions of the square roots of the first eight primes. */
static bool portable_begin(coffer_hasher *hasher)
{
    static const portable_sum begun = {
        .words = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 },
    };
    memcpy(hasher->state, &begun, sizeof begun);
    return true;
}

/* What does not fill a block waits in it; whole blocks are mixed where they lie. */
static bool portable_update(coffer_hasher *hasher, const void *bytes, size_t size)
{
    portable_sum *sum = hasher->state;
    const uint8_t *from = bytes;
    const size_t used = sum->size % PORTABLE_BLOCK;
    sum->size += size;
    if (used > 0) {
        const size_t taken = size < PORTABLE_BLOCK - used ? size : PORTABLE_BLOCK - used;
        memcpy(sum->block + used, from, taken);
        from += taken;
        size -= taken;
        if (used + taken < PORTABLE_BLOCK) {
            return true;
        }
        portable_mix(sum->words, sum->block);
    }
    for (; size >= PORTABLE_BLOCK; from += PORTABLE_BLOCK, size -= PORTABLE_BLOCK) {
        portable_mix(sum->words, from);
    }
    memcpy(sum->block, from, size);
    return true;
}

/* Ends the message: one more block, or two where the length does not fit into the first. */
static void portable_pad(portable_sum *sum)
{
    const size_t used = sum->size % PORTABLE_BLOCK;
    sum->block[used] = 0x80;
    memset(sum->block + used + 1, 0, PORTABLE_BLOCK - used - 1);
    if (used + 1 > PORTABLE_BLOCK - PORTABLE_LENGTH) {
        portable_mix(sum->words, sum->block);
        memset(sum->block, 0, PORTABLE_BLOCK);
    }
    for (size_t i = 0; i < PORTABLE_LENGTH; i++) {
        sum->block[PORTABLE_BLOCK - 1 - i] = (uint8_t)(sum->size * 8 >> 8 * i);
    }
    portable_mix(sum->words, sum->block);
}

static bool portable_finish(coffer_hasher *hasher, uint8_t *digest)
{
    portable_sum *sum = hasher->state;
    portable_pad(sum);
    for (size_t i = 0; i < 32; i++) {
        digest[i] = (uint8_t)(sum->words[i / 4] >> (24 - 8 * (i % 4)));
    }
    return true;
}

const coffer__hash_ops coffer__hash_sha256_portable = { portable_open, portable_close, portable_begin, portable_update,
                                                        portable_finish };
