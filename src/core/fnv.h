/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FNV-1a of 64 bits: a number that two different texts do not share by chance. It tells versions of
 * something apart, and finds what a crash left half written. It is no protection: whoever wants two
 * texts with the same number can make them.
 */
#ifndef COFFER_CORE_FNV_H
#define COFFER_CORE_FNV_H

#include <stddef.h>
#include <stdint.h>

#define COFFER__FNV_START UINT64_C(0xCBF29CE484222325)

/* Continues `number`, which is COFFER__FNV_START at first, with some more bytes. The prime is that
   of FNV for 64 bits. */
static inline uint64_t coffer__fnv(uint64_t number, const void *bytes, size_t size)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < size; i++) {
        number = (number ^ byte[i]) * UINT64_C(0x100000001B3);
    }
    return number;
}

#endif
