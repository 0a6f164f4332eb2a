/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksum that follows each block of metadata of HDF5's second kind: Bob Jenkins' lookup3, its function of bytes
 * ("hashlittle"), from 0. It takes twelve bytes at a time; the last one to twelve are filled up with zeros, and are mixed
 * in another way.
 */
#include "hdf5.h"

#include <string.h>

#define CHECKSUM_STEP ((size_t)12)
#define CHECKSUM_READ (CHECKSUM_STEP * 64)

typedef struct checksum_state {
    uint32_t a;
    uint32_t b;
    uint32_t c;
} checksum_state;

static uint32_t checksum_turn(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

static void checksum_add(checksum_state *s, const uint8_t *bytes)
{
    s->a += coffer__load_u32le(bytes);
    s->b += coffer__load_u32le(bytes + 4);
    s->c += coffer__load_u32le(bytes + 8);
}

/* Six rounds; the names of the three go around. */
static void checksum_mix(checksum_state *s)
{
    static const uint8_t turns[] = { 4, 6, 8, 16, 19, 4 };
    for (size_t i = 0; i < sizeof turns; i++) {
        const checksum_state old = *s;
        const uint32_t changed = (old.a - old.c) ^ checksum_turn(old.c, turns[i]);
        *s = (checksum_state){ .a = old.b, .b = old.c + old.b, .c = changed };
    }
}

/* Seven rounds, likewise; the last is of c. */
static uint32_t checksum_end(checksum_state *s)
{
    static const uint8_t turns[] = { 14, 11, 25, 16, 4, 14, 24 };
    for (size_t i = 0; i < sizeof turns; i++) {
        const checksum_state old = *s;
        const uint32_t changed = (old.c ^ old.b) - checksum_turn(old.b, turns[i]);
        *s = (checksum_state){ .a = old.b, .b = changed, .c = old.a };
    }
    return s->b;
}

coffer_status coffer__hdf5_verify(coffer__hdf5 *h, uint64_t at, uint64_t size, coffer_error *err)
{
    uint8_t bytes[CHECKSUM_READ + CHECKSUM_STEP];
    uint8_t stored[4];
    checksum_state state;
    if (at > h->size || size > h->size - at || sizeof stored > h->size - at - size) {
        return coffer__hdf5_fail(h, at, "a block reaches beyond its end", err);
    }
    state.a = state.b = state.c = UINT32_C(0xdeadbeef) + (uint32_t)size;
    uint64_t done = 0;
    while (done < size) {
        const size_t take = size - done < CHECKSUM_READ ? (size_t)(size - done) : CHECKSUM_READ;
        memset(bytes + take, 0, CHECKSUM_STEP);
        const coffer_status status = coffer__hdf5_read(h, at + done, bytes, take, err);
        if (status != COFFER_OK) {
            return status;
        }
        done += take;
        for (size_t i = 0; i < take; i += CHECKSUM_STEP) {
            checksum_add(&state, bytes + i);
            if (done < size || take - i > CHECKSUM_STEP) {
                checksum_mix(&state);
            }
        }
    }
    const uint32_t computed = size > 0 ? checksum_end(&state) : state.c;
    const coffer_status status = coffer__hdf5_read(h, at + size, stored, sizeof stored, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint32_t recorded = coffer__load_u32le(stored);
    return recorded == computed ? COFFER_OK
                                : coffer__hdf5_fail(h, at, "the checksum of the block there does not match", err);
}
