/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading streams of codes. One stream waits for a look-up before it knows where the next one begins; four in turn hide that.
 *
 * A round takes five look-ups of each stream from one load: up to 7 bits were used of the first byte before, and 5 * 11 bits
 * more fit into 64. It moves a stream by at most 7 bytes and 30 symbols, so how many rounds are safe is known before them, and
 * nothing is checked in between. What is left then, up to 30 symbols of each, is read with a check for each look-up, and
 * what was used is compared with what was there.
 */
#include "huffman.h"

#include "bytes.h"

#define HUFFMAN_INLINE inline __attribute__((always_inline))

#define HUFFMAN_ROUND_BYTES 7u
#define HUFFMAN_ROUND_SYMBOLS 30u

/* A stream while it is read: `bit` of its byte `at` is next. */
typedef struct huffman_lane {
    size_t at;
    unsigned bit;
    uint8_t *out;
} huffman_lane;

static HUFFMAN_INLINE void huffman_store(uint8_t *out, uint64_t symbols)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    symbols = __builtin_bswap64(symbols);
#endif
    memcpy(out, &symbols, sizeof symbols);
}

/* The next bits, with a one above them: as many zeros stand above that later as bits were shifted out. It takes the place of
   the highest bit, and only 55 are used. */
static HUFFMAN_INLINE uint64_t huffman_load(const uint8_t *bytes, const huffman_lane *lane)
{
    return coffer__load_u64le(bytes + lane->at) >> lane->bit | UINT64_C(1) << 63;
}

static HUFFMAN_INLINE uint64_t huffman_step(const uint64_t *entries, uint64_t bits, uint8_t **out)
{
    const uint64_t entry = entries[bits & (COFFER__CODE_ENTRIES - 1)];
    huffman_store(*out, entry >> 16);
    *out += entry >> 8 & 0xFF;
    return bits >> (entry & 63);
}

static HUFFMAN_INLINE void huffman_advance(huffman_lane *lane, uint64_t bits)
{
    const unsigned used = lane->bit + (unsigned)__builtin_clzll(bits);
    lane->at += used / 8;
    lane->bit = used % 8;
}

static void huffman_rounds(const uint64_t *entries, const uint8_t *bytes, huffman_lane *lanes, size_t rounds)
{
    huffman_lane a = lanes[0];
    huffman_lane b = lanes[1];
    huffman_lane c = lanes[2];
    huffman_lane d = lanes[3];
    for (; rounds > 0; rounds--) {
        uint64_t bits_a = huffman_load(bytes, &a);
        uint64_t bits_b = huffman_load(bytes, &b);
        uint64_t bits_c = huffman_load(bytes, &c);
        uint64_t bits_d = huffman_load(bytes, &d);
        for (unsigned step = 0; step < 5; step++) {
            bits_a = huffman_step(entries, bits_a, &a.out);
            bits_b = huffman_step(entries, bits_b, &b.out);
            bits_c = huffman_step(entries, bits_c, &c.out);
            bits_d = huffman_step(entries, bits_d, &d.out);
        }
        huffman_advance(&a, bits_a);
        huffman_advance(&b, bits_b);
        huffman_advance(&c, bits_c);
        huffman_advance(&d, bits_d);
    }
    lanes[0] = a;
    lanes[1] = b;
    lanes[2] = c;
    lanes[3] = d;
}

/* How many rounds of four streams neither leave a stream's bytes nor write more than its symbols. */
static size_t huffman_safe_rounds(const huffman_lane *lanes, const coffer__code_stream *streams)
{
    size_t rounds = SIZE_MAX;
    for (size_t i = 0; i < 4; i++) {
        const size_t left = streams[i].count - (size_t)(lanes[i].out - streams[i].out);
        const size_t by_symbols = left / HUFFMAN_ROUND_SYMBOLS;
        const size_t by_bytes = (streams[i].end - lanes[i].at) / HUFFMAN_ROUND_BYTES;
        const size_t safe = by_symbols < by_bytes ? by_symbols : by_bytes;
        rounds = safe < rounds ? safe : rounds;
    }
    return rounds;
}

/*
 * One look-up with every check, for a lane that has `left` symbols to come. An entry that goes on after the last of them counts
 * with its first symbol alone, and without any left nothing moves. What would be loaded from after the stream's end is loaded
 * from there, so that a damaged stream reads nothing else; its position is beyond its end for good then. There is no branch,
 * since it would be as often right as wrong.
 */
static HUFFMAN_INLINE size_t huffman_checked_step(const coffer__code_reader *reader, const uint8_t *bytes, size_t end,
                                                  huffman_lane *lane, size_t left)
{
    const size_t at = lane->at < end ? lane->at : end;
    const uint64_t bits = coffer__load_u64le(bytes + at) >> lane->bit;
    const uint64_t entry = reader->entries[bits & (COFFER__CODE_ENTRIES - 1)];
    const size_t all = entry >> 8 & 0xFF;
    const unsigned first_bits = reader->lengths[entry >> 16 & 0xFF];
    huffman_store(lane->out, entry >> 16);
    const bool whole = all <= left;
    const size_t one = left > 0;
    const size_t count = whole ? all : one;
    const unsigned used = whole ? (unsigned)(entry & 0xFF) : first_bits & (0u - (unsigned)one);
    lane->out += count;
    lane->at += (lane->bit + used) / 8;
    lane->bit = (lane->bit + used) % 8;
    return left - count;
}

/* What is left of four streams. */
static void huffman_read_rest(const coffer__code_reader *reader, const uint8_t *bytes, huffman_lane *lanes,
                              const coffer__code_stream *streams)
{
    size_t left[4];
    for (size_t i = 0; i < 4; i++) {
        left[i] = streams[i].count - (size_t)(lanes[i].out - streams[i].out);
    }
    while ((left[0] | left[1] | left[2] | left[3]) != 0) {
        for (size_t i = 0; i < 4; i++) {
            left[i] = huffman_checked_step(reader, bytes, streams[i].end, &lanes[i], left[i]);
        }
    }
}

/* Whether a stream ends with its last symbol: within its last byte, of which the rest is zero. */
static bool huffman_ends(const uint8_t *bytes, const huffman_lane *lane, size_t end)
{
    if (lane->bit == 0) {
        return lane->at == end;
    }
    return lane->at < end && end - lane->at == 1 && bytes[lane->at] >> lane->bit == 0;
}

size_t coffer__code_read(const coffer__code_reader *reader, const uint8_t *bytes, const coffer__code_stream *streams,
                         size_t stream_count)
{
    coffer__code_stream four[4];
    huffman_lane lanes[4];
    for (size_t i = 0; i < 4; i++) {
        four[i] = streams[i < stream_count ? i : 0];
        if (i >= stream_count) {
            /* In place of one that is not there, the first without symbols; what is stored for it goes after those. */
            four[i].out += four[i].count;
            four[i].count = 0;
        }
        lanes[i] = (huffman_lane){ four[i].at, 0, four[i].out };
    }
    for (size_t rounds = huffman_safe_rounds(lanes, four); rounds > 0; rounds = huffman_safe_rounds(lanes, four)) {
        huffman_rounds(reader->entries, bytes, lanes, rounds);
    }
    huffman_read_rest(reader, bytes, lanes, four);
    for (size_t i = 0; i < stream_count; i++) {
        if (!huffman_ends(bytes, &lanes[i], four[i].end)) {
            return i;
        }
    }
    return stream_count;
}
