/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickle machine's window over the stream. Every length is compared with what is left of the stream before
 * anything is read or reserved for it.
 *
 *   stream   0 ………… window_at ……… position ……… window_at + window_size ………… size
 *                         [ bytes that are in memory ]
 *
 * The position only moves forward. Skipped bytes are never read: the next take finds itself outside of the
 * window and fills it from the position on. So a pickle with gigabytes of bytes within it costs a few reads.
 */
#include "pickle_machine.h"

#include "bytes.h"
#include "error.h"

#include <string.h>

/* The position never passes the end, so this cannot wrap. */
static uint64_t stream_left(const coffer__pickle *p)
{
    return p->bytes.size - p->position;
}

static coffer_status stream_ends(const coffer__pickle *p)
{
    coffer__pickle_fail(p, "it ends in the middle of an opcode: it is damaged, or was cut; get the file again");
    return COFFER_ERR_PICKLE;
}

/* Bytes of the window from the position on, 0 when it is outside. */
static size_t window_left(const coffer__pickle *p)
{
    const bool inside = p->position >= p->window_at && p->position - p->window_at < p->window_size;
    return inside ? p->window_size - (size_t)(p->position - p->window_at) : 0;
}

static const uint8_t *window_here(const coffer__pickle *p)
{
    return p->window + (size_t)(p->position - p->window_at);
}

/* Reads as much of the stream as the window holds, from the position on. */
static coffer_status window_fill(coffer__pickle *p)
{
    const uint64_t left = stream_left(p);
    const size_t size = left < p->window_capacity ? (size_t)left : p->window_capacity;
    p->window_size = 0;
    const coffer_status status = p->bytes.read(p->bytes.ctx, p->position, p->window, size, p->err);
    if (status == COFFER_OK) {
        p->window_at = p->position;
        p->window_size = size;
    }
    return status;
}

/* A take is of 16 bytes at most, and the window is larger: after one fill the bytes lie together, unless the
   stream ends before, which was asked first. */
coffer_status coffer__pickle_take(coffer__pickle *p, size_t size, const uint8_t **bytes)
{
    if (size > stream_left(p)) {
        return stream_ends(p);
    }
    const coffer_status status = window_left(p) < size ? window_fill(p) : COFFER_OK;
    if (status != COFFER_OK) {
        return status;
    }
    *bytes = window_here(p);
    p->position += size;
    return COFFER_OK;
}

/* Shorter numbers are the low bytes of a longer one. */
coffer_status coffer__pickle_take_number(coffer__pickle *p, unsigned width, uint64_t *value)
{
    const uint8_t *bytes = NULL;
    const coffer_status status = coffer__pickle_take(p, width, &bytes);
    if (status != COFFER_OK) {
        return status;
    }
    uint8_t all[8] = { 0 };
    memcpy(all, bytes, width);
    *value = coffer__load_u64le(all);
    return COFFER_OK;
}

coffer_status coffer__pickle_skip(coffer__pickle *p, uint64_t size)
{
    if (size > stream_left(p)) {
        return stream_ends(p);
    }
    p->position += size;
    return COFFER_OK;
}

/* Puts `size` bytes, which the stream has, at the end of the texts. */
static coffer_status stream_keep(coffer__pickle *p, size_t size)
{
    /* One byte more than asked for, so that a NUL can follow without another reservation. */
    coffer_status status = coffer__pickle_reserve(p, &p->texts, 1, size + 1);
    while (status == COFFER_OK && size > 0) {
        status = window_left(p) == 0 ? window_fill(p) : COFFER_OK;
        if (status != COFFER_OK) {
            break;
        }
        const size_t part = window_left(p) < size ? window_left(p) : size;
        memcpy((char *)p->texts.items + p->texts.count, window_here(p), part);
        p->texts.count += part;
        p->position += part;
        size -= part;
    }
    return status;
}

/* The comparison with the limit comes first, so that a length of 2^64-1 goes to skip, which compares it as it
   is; what is left is small enough to be reserved. */
coffer_status coffer__pickle_take_payload(coffer__pickle *p, uint64_t size, coffer__node *node)
{
    node->as.bytes.at = p->position;
    node->as.bytes.size = size;
    node->as.bytes.kept = UINT32_MAX;
    if (size > COFFER__PICKLE_INLINE) {
        return coffer__pickle_skip(p, size);
    }
    if (size > stream_left(p)) {
        return stream_ends(p);
    }
    const size_t kept = p->texts.count;
    const coffer_status status = stream_keep(p, (size_t)size);
    if (status != COFFER_OK) {
        return status;
    }
    ((char *)p->texts.items)[p->texts.count++] = '\0';
    node->as.bytes.kept = (uint32_t)kept;
    node->as.bytes.kept_size = (unsigned)size & COFFER__PICKLE_KEPT_MASK;
    return COFFER_OK;
}

/* Bytes of the window from the position to its first line's end; all of them when it has none. */
static size_t window_line(const coffer__pickle *p, bool *ended)
{
    const uint8_t *bytes = window_here(p);
    const size_t left = window_left(p);
    size_t size = 0;
    while (size < left && bytes[size] != '\n') {
        size++;
    }
    *ended = size < left;
    return size;
}

/* A line may be longer than the window, and longer than what is kept: it is measured part by part. */
coffer_status coffer__pickle_take_line(coffer__pickle *p, uint64_t *size, uint32_t *kept)
{
    const size_t first = p->texts.count;
    bool ended = false;
    *size = 0;
    while (!ended) {
        if (stream_left(p) == 0) {
            return stream_ends(p);
        }
        coffer_status status = window_left(p) == 0 ? window_fill(p) : COFFER_OK;
        if (status != COFFER_OK) {
            return status;
        }
        /* Once a line is too long its rest is skipped, but still searched for its end. The sum cannot wrap: it
           is at most the stream's size. */
        const size_t part = window_line(p, &ended);
        *size += part;
        status = *size <= COFFER__PICKLE_INLINE ? stream_keep(p, part) : coffer__pickle_skip(p, part);
        if (status != COFFER_OK) {
            return status;
        }
        p->position += ended; /* the line's end, which the window has */
    }
    *kept = (uint32_t)first;
    if (*size > COFFER__PICKLE_INLINE) {
        p->texts.count = first;
        *kept = UINT32_MAX;
    }
    return COFFER_OK;
}

/* Whether zeros come before an integer, which Python does not read. 00 and 01 are how truth is written. */
static bool stream_has_zeros(const char *text, size_t len, bool is_long)
{
    const size_t sign = text[0] == '-' || text[0] == '+';
    const bool truth = !is_long && len == 2 && sign == 0 && (text[1] == '0' || text[1] == '1');
    return text[sign] == '0' && len - sign > 1 && !truth;
}

/* A line that is a decimal integer. */
coffer_status coffer__pickle_take_integer_line(coffer__pickle *p, bool is_long, int64_t *value, bool *fits)
{
    uint64_t size = 0;
    uint32_t kept = 0;
    const coffer_status status = coffer__pickle_take_line(p, &size, &kept);
    if (status != COFFER_OK) {
        return status;
    }
    /*
     * The line is only borrowed from the end of the texts and is dropped once it has been read. A line that
     * was too long to be kept is no integer that any program writes; its size alone must not be used to index
     * what is not there.
     */
    const char *text = (const char *)p->texts.items + (kept == UINT32_MAX ? 0 : kept);
    size -= is_long && size > 0 && kept != UINT32_MAX && text[size - 1] == 'L';
    const bool good = kept != UINT32_MAX && coffer__pickle_read_integer(text, (size_t)size, value, fits) &&
                      !stream_has_zeros(text, (size_t)size, is_long);
    p->texts.count = kept == UINT32_MAX ? p->texts.count : kept;
    return good ? COFFER_OK : coffer__pickle_fail(p, "an integer should be here, in decimal digits");
}
