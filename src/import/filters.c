/* SPDX-License-Identifier: Apache-2.0 */
#include "filters.h"

#include <string.h>

#define FILTERS_RATIO 1032 /* what deflate makes of one byte at most */

unsigned coffer__filter_at(uint32_t filters, unsigned i)
{
    return filters >> (2 * i) & 3;
}

/* Without deflate the sizes say each other exactly; with it they bound each other. */
bool coffer__filters_fit(const coffer__import_plan_piece *piece)
{
    bool deflated = false;
    uint64_t more = 0;
    if (piece->size > COFFER__FILTERS_CHUNK || piece->stored_size > COFFER__FILTERS_CHUNK ||
        piece->as.chunk.unit == 0 || piece->as.chunk.filters >> (2 * COFFER__FILTERS_MAX) != 0) {
        return false;
    }
    for (unsigned i = 0; i < COFFER__FILTERS_MAX; i++) {
        const unsigned filter = coffer__filter_at(piece->as.chunk.filters, i);
        deflated = deflated || filter == COFFER__FILTER_DEFLATE;
        more += filter == COFFER__FILTER_FLETCHER32 ? 4 : 0;
    }
    return deflated ? piece->size / FILTERS_RATIO <= piece->stored_size : piece->stored_size == piece->size + more;
}

void coffer__unshuffle(uint8_t *to, const uint8_t *from, size_t size, size_t unit)
{
    const size_t count = size / unit;
    for (size_t byte = 0; byte < unit; byte++) {
        const uint8_t *plane = from + byte * count;
        for (size_t i = 0; i < count; i++) {
            to[i * unit + byte] = plane[i];
        }
    }
    memcpy(to + count * unit, from + count * unit, size - count * unit);
}

/* Words of two bytes, the first one higher; both sums modulo 2^16 - 1. They are brought down every 360 words, before they
   could wrap; the result of a sum that is a multiple of the modulus is the modulus, as HDF5 has it. */
uint32_t coffer__fletcher32(const uint8_t *bytes, size_t size)
{
    uint32_t first = 0;
    uint32_t second = 0;
    size_t words = size / 2;
    for (size_t at = 0; words > 0;) {
        const size_t some = words < 360 ? words : 360;
        words -= some;
        for (size_t i = 0; i < some; i++, at += 2) {
            first += (uint32_t)bytes[at] << 8 | bytes[at + 1];
            second += first;
        }
        first = (first & 0xffff) + (first >> 16);
        second = (second & 0xffff) + (second >> 16);
    }
    if (size % 2 == 1) {
        first += (uint32_t)bytes[size - 1] << 8;
        second += first;
        first = (first & 0xffff) + (first >> 16);
        second = (second & 0xffff) + (second >> 16);
    }
    first = (first & 0xffff) + (first >> 16);
    second = (second & 0xffff) + (second >> 16);
    return second << 16 | first;
}

/* Both sums modulo 65521, brought down before they could wrap: 5552 bytes at most. */
uint32_t coffer__adler32(const uint8_t *bytes, size_t size)
{
    uint32_t first = 1;
    uint32_t second = 0;
    for (size_t at = 0; at < size;) {
        const size_t end = size - at < 5552 ? size : at + 5552;
        for (; at < end; at++) {
            first += bytes[at];
            second += first;
        }
        first %= 65521;
        second %= 65521;
    }
    return second << 16 | first;
}
