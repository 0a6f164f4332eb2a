/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FNV-1a of 64 bits: a number that two different texts do not share by chance. It tells versions of something apart, and finds what a
 * crash left half written; it stands in nobody's way who wants it to be equal.
 */
#ifndef COFFER_CORE_FNV_H
#define COFFER_CORE_FNV_H

#include <stddef.h>
#include <stdint.h>

#define COFFER__FNV_START UINT64_C(0xCBF29CE484222325)

/* Goes on from `number`, which is COFFER__FNV_START at first, with some bytes. */
static inline uint64_t coffer__fnv(uint64_t number, const void *bytes, size_t size)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < size; i++) {
        number = (number ^ byte[i]) * UINT64_C(0x100000001B3);
    }
    return number;
}

#endif
