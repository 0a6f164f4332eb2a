/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is compressed as a whole: see gzip.h.
 *
 *   gzip   1f 8b 8 | flags 1 | time 4 | 2 | [extra: bytes 2 | …] | [name, to its NUL] | [comment, likewise] | [checksum 2] |
 *          deflate | CRC-32 4 | bytes 4
 *   zlib   method and window 1 | flags 1 | deflate | Adler-32 4
 */
#include "gzip.h"

#include "alloc.h"
#include "bytes.h"
#include "inflate.h"

#include <string.h>

#define GZIP_MIN_SPACE ((size_t)64 * 1024)
#define GZIP_LONGEST ((size_t)65535)    /* bytes that deflate makes at once */
#define GZIP_MAX_RATIO ((uint64_t)1032) /* of what a byte stands for, at most */

enum { GZIP_CHECKED = 2, GZIP_EXTRA = 4, GZIP_NAME = 8, GZIP_COMMENT = 16, GZIP_DICTIONARY = 32 };

static bool gzip_is_gzip(const uint8_t *head, size_t size)
{
    return size >= 10 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8;
}

static bool gzip_is_zlib(const uint8_t *head, size_t size)
{
    return size >= 6 && head[0] == 0x78 && (head[0] * 256u + head[1]) % 31 == 0 && (head[1] & GZIP_DICTIONARY) == 0;
}

bool coffer__gzip_is(const uint8_t *head, size_t size)
{
    return gzip_is_gzip(head, size) || gzip_is_zlib(head, size);
}

/* Passes over a text and its NUL. */
static bool gzip_pass_text(coffer__cursor *in)
{
    const uint8_t *end = memchr(in->base + in->position, 0, coffer__left(in));
    in->position = end != NULL ? (size_t)(end - in->base) + 1 : in->length;
    return end != NULL;
}

/* Goes to the deflated bytes. */
static bool gzip_begin(coffer__cursor *in)
{
    if (!gzip_is_gzip(in->base, in->length)) {
        in->position = 2;
        return true;
    }
    const unsigned flags = in->base[3];
    in->position = 10;
    if ((flags & GZIP_EXTRA) != 0) {
        const size_t extra = coffer__left(in) >= 2 ? 2u + coffer__load_u16le(in->base + in->position) : SIZE_MAX;
        if (extra > coffer__left(in)) {
            return false;
        }
        in->position += extra;
    }
    if (((flags & GZIP_NAME) != 0 && !gzip_pass_text(in)) || ((flags & GZIP_COMMENT) != 0 && !gzip_pass_text(in))) {
        return false;
    }
    const size_t checksum = (flags & GZIP_CHECKED) != 0 ? 2 : 0;
    if (checksum > coffer__left(in)) {
        return false;
    }
    in->position += checksum;
    return true;
}

/* How large the whole is stands nowhere that can be believed: more space is tried until it is enough. *full says that it was
   not; what is damaged before that will not get better. */
static coffer_status gzip_try(const coffer_allocator *allocator, coffer__cursor *in, size_t capacity, uint8_t **out,
                              size_t *out_size, bool *full, coffer_error *err)
{
    size_t used = 0;
    *out_size = capacity;
    uint8_t *block = coffer__alloc_array(allocator, capacity, 1, err);
    if (block == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const bool done =
        coffer__inflate_stream(in->base + in->position, coffer__left(in), &used, block, out_size, NULL) == COFFER_OK;
    coffer_status status = COFFER_OK;
    *full = !done && capacity - *out_size <= GZIP_LONGEST;
    if (done) {
        *out = coffer__alloc_array(allocator, *out_size, 1, err);
        status = *out != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
        in->position += used;
    }
    if (*out != NULL) {
        memcpy(*out, block, *out_size);
    }
    coffer__free_array(allocator, block, capacity, 1);
    return status;
}

coffer_status coffer__gzip_unpack(const coffer_allocator *allocator, const uint8_t *bytes, size_t size, size_t most,
                                  uint8_t **out, size_t *out_size, bool *all, coffer_error *err)
{
    coffer__cursor in = { .base = bytes, .length = size };
    coffer_status status = COFFER_OK;
    *out = NULL;
    *out_size = 0;
    *all = false;
    if (!coffer__gzip_is(bytes, size) || !gzip_begin(&in) || most == 0) {
        return COFFER_OK;
    }
    const uint64_t possible = (uint64_t)size * GZIP_MAX_RATIO;
    const size_t limit = possible < most ? (size_t)possible : most;
    bool full = true;
    for (size_t capacity = GZIP_MIN_SPACE; status == COFFER_OK && full; capacity *= 8) {
        const bool last = capacity >= limit;
        status = gzip_try(allocator, &in, last ? limit : capacity, out, out_size, &full, err);
        full = full && !last;
    }
    *all = coffer__left(&in) == (gzip_is_gzip(bytes, size) ? 8 : 4);
    return status;
}
