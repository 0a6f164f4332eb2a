/* SPDX-License-Identifier: Apache-2.0 */
/* Each loop looks at one number at a time by memcpy, because the bytes need not be aligned; compilers make vector code
   of it. */
#include "change.h"

#include <string.h>

size_t coffer__change_unit(const coffer__change *change)
{
    const size_t signs = change->flip == COFFER__FLIP_IMAGINARY ? 2u * change->width : change->width;
    const size_t unit = change->swap > signs ? change->swap : signs;
    return unit > 0 ? unit : 1;
}

/* One loop for each width: the width has to be known where the loop is compiled, or there is no vector code. */
#define CHANGE_SWAP(bytes_each, bits)                                                                                  \
    static void change_swap_##bytes_each(uint8_t *bytes, size_t size)                                                  \
    {                                                                                                                  \
        for (size_t at = 0; at < size; at += (bytes_each)) {                                                           \
            uint##bits##_t value = 0;                                                                                  \
            memcpy(&value, bytes + at, sizeof value);                                                                  \
            value = __builtin_bswap##bits(value);                                                                      \
            memcpy(bytes + at, &value, sizeof value);                                                                  \
        }                                                                                                              \
    }

CHANGE_SWAP(2, 16)
CHANGE_SWAP(4, 32)
CHANGE_SWAP(8, 64)

#undef CHANGE_SWAP

/* The sign of a little-endian float is the highest bit of its last byte. */
static void change_flip(uint8_t *bytes, size_t size, size_t first, size_t step)
{
    for (size_t at = first; at < size; at += step) {
        bytes[at] ^= 0x80;
    }
}

/* All bits inverted, and 1 added from the lowest byte on. */
static void change_negate(uint8_t *bytes, size_t size, size_t width)
{
    for (size_t at = 0; at < size; at += width) {
        unsigned carry = 1;
        for (size_t i = 0; i < width; i++) {
            carry += (unsigned)(uint8_t)~bytes[at + i];
            bytes[at + i] = (uint8_t)carry;
            carry >>= 8;
        }
    }
}

void coffer__change_bytes(const coffer__change *change, uint8_t *bytes, size_t size)
{
    const size_t width = change->width;
    if (change->swap == 2) {
        change_swap_2(bytes, size);
    } else if (change->swap == 4) {
        change_swap_4(bytes, size);
    } else if (change->swap == 8) {
        change_swap_8(bytes, size);
    }
    if (change->flip == COFFER__FLIP_FLOATS) {
        change_flip(bytes, size, width - 1, width);
    } else if (change->flip == COFFER__FLIP_IMAGINARY) {
        change_flip(bytes, size, 2 * width - 1, 2 * width);
    } else if (change->flip == COFFER__FLIP_INTEGERS) {
        change_negate(bytes, size, width);
    }
}
