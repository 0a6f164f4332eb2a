/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements as planes, and back: plane k has byte k of every element, the lowest byte first. Floats are rotated left by one bit
 * before, which brings the exponent together in the top byte and the sign to the bottom. Elements of one byte may also have
 * two planes of half a byte each: the low halves, then the high ones.
 */
#ifndef COFFER_CODEC_PACKED_PLANES_H
#define COFFER_CODEC_PACKED_PLANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COFFER__PLANES_MAX 8u

typedef struct coffer__packed_layout {
    uint8_t element_size; /* in bytes: 1, 2, 4 or 8 */
    uint8_t rotate;       /* bits by which each element is rotated left: 0 or 1 */
    bool nibbles;         /* two planes of half bytes, of an element of one byte */
} coffer__packed_layout;

static inline unsigned coffer__packed_plane_count(const coffer__packed_layout *layout)
{
    return layout->nibbles ? 2 : layout->element_size;
}

/* `count` elements become a byte in each plane. */
void coffer__planes_split(const coffer__packed_layout *layout, const uint8_t *elements, size_t count,
                          uint8_t *const planes[COFFER__PLANES_MAX]);
/* And back. Bytes of planes of halves are below 16. */
void coffer__planes_merge(const coffer__packed_layout *layout, const uint8_t *const planes[COFFER__PLANES_MAX],
                          size_t count, uint8_t *elements);

/* Halves, a byte each, as they are stored: of each 64, number i below number i + 32 in one byte; what is missing of the last 64
   is zero. COFFER__HALVES_SIZE(count) bytes. */
#define COFFER__HALVES_SIZE(count) (((count) + 63) / 64 * 32)
void coffer__halves_pack(const uint8_t *halves, size_t count, uint8_t *packed);
/* `halves` has space for `count` rounded up to 64. */
void coffer__halves_unpack(const uint8_t *packed, size_t count, uint8_t *halves);

#endif
