/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksum that follows each block of metadata of HDF5's second kind: Bob Jenkins' lookup3, its function of bytes
 * ("hashlittle"), from 0. It takes twelve bytes at a time; the last one to twelve are filled up with zeros, and are mixed
 * in another way.
 */
#include "hdf5_checksum.h"

#include "bytes.h"

#include <string.h>

static uint32_t lookup3_turn(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

/* Six rounds; the names of the three go around. */
static void lookup3_mix(coffer__lookup3 *state)
{
    static const uint8_t turns[] = { 4, 6, 8, 16, 19, 4 };
    for (size_t i = 0; i < sizeof turns; i++) {
        const coffer__lookup3 old = *state;
        state->a = old.b;
        state->b = old.c + old.b;
        state->c = (old.a - old.c) ^ lookup3_turn(old.c, turns[i]);
    }
}

void coffer__lookup3_begin(coffer__lookup3 *state, uint64_t size)
{
    state->a = state->b = state->c = UINT32_C(0xdeadbeef) + (uint32_t)size;
    state->left = size;
}

void coffer__lookup3_add(coffer__lookup3 *state, const uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at < size; at += COFFER__LOOKUP3_STEP) {
        uint8_t step[COFFER__LOOKUP3_STEP] = { 0 };
        memcpy(step, bytes + at, size - at < sizeof step ? size - at : sizeof step);
        state->a += coffer__load_u32le(step);
        state->b += coffer__load_u32le(step + 4);
        state->c += coffer__load_u32le(step + 8);
        if (state->left > sizeof step) {
            lookup3_mix(state);
            state->left -= sizeof step;
        }
    }
}

/* Seven rounds, likewise. Of no bytes at all there are none. */
uint32_t coffer__lookup3_end(coffer__lookup3 *state)
{
    static const uint8_t turns[] = { 14, 11, 25, 16, 4, 14, 24 };
    for (size_t i = 0; state->left > 0 && i < sizeof turns; i++) {
        const coffer__lookup3 old = *state;
        state->a = old.b;
        state->b = (old.c ^ old.b) - lookup3_turn(old.b, turns[i]);
        state->c = old.a;
    }
    return state->left > 0 ? state->b : state->c;
}
