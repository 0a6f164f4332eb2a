/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a string runs without anything special: printable ASCII other than the quote and the
 * backslash. Names and metadata are nearly always just that, and this is where a header's bytes are
 * looked at first, so it decides how fast a header is read. Whatever stops the scan is judged by a
 * slower reader: stopping early is harmless, running on is not.
 */
#ifndef COFFER_CORE_SCAN_H
#define COFFER_CORE_SCAN_H

#include "bytes.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* 0x7F, DEL, is not plain: it is a control character, which callers note in names. */
static inline bool coffer__is_plain(uint8_t byte)
{
    return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

/*
 * Number of plain bytes that `bytes` begins with, at most `size`. Eight bytes at a time, with plain
 * integers; the twin of coffer__scan_plain, for every machine. The word that has something special
 * is looked at again byte by byte.
 */
static inline size_t coffer__scan_plain_scalar(const uint8_t *bytes, size_t size)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t at = 0;
    for (; 8 <= size - at; at += 8) {
        const uint64_t word = coffer__load_u64(bytes + at);
        const uint64_t quote = word ^ (ones * '"');
        const uint64_t slash = word ^ (ones * '\\');
        /*
         * The high bit of a byte is set where it is, in turn: below 0x20, a quote, a backslash,
         * 0x7F, above 0x7F. A borrow or carry can reach a higher byte only from one that is special
         * itself, so "nothing is set" is exact, which is all that is asked here.
         */
        const uint64_t special = (word - ones * 0x20) | (quote - ones) | (slash - ones) | (word + ones) | word;
        if ((special & (ones * 0x80)) != 0) {
            break;
        }
    }
    while (at < size && coffer__is_plain(bytes[at])) {
        at++;
    }
    return at;
}

#if defined(__SSE2__)

static inline size_t coffer__scan_plain(const uint8_t *bytes, size_t size)
{
    /* 16 bytes at a time. Unaligned loads; the rest, below 16 bytes, goes to the scalar twin, so
       nothing after `size` is read. */
    const __m128i one = _mm_set1_epi8(1);
    const __m128i least = _mm_set1_epi8(0x21);
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i slash = _mm_set1_epi8('\\');
    size_t at = 0;
    for (; 16 <= size - at; at += 16) {
        const __m128i chunk = _mm_loadu_si128((const __m128i *)(const void *)(bytes + at));
        /*
         * SSE2 compares signed bytes only. One more than the byte turns 0x7F into the least number
         * and leaves all above it negative, so that one comparison finds both ends: below 0x20 and
         * from 0x7F on.
         */
        const __m128i outside = _mm_cmplt_epi8(_mm_add_epi8(chunk, one), least);
        const __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(chunk, quote), _mm_cmpeq_epi8(chunk, slash));
        const unsigned special = (unsigned)_mm_movemask_epi8(_mm_or_si128(outside, marks));
        if (special != 0) {
            return at + (size_t)__builtin_ctz(special);
        }
    }
    return at + coffer__scan_plain_scalar(bytes + at, size - at);
}

#else

static inline size_t coffer__scan_plain(const uint8_t *bytes, size_t size)
{
    return coffer__scan_plain_scalar(bytes, size);
}

#endif

#endif
