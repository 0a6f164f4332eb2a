/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deflate stream: see report_deflate.h for the contract. The bytes are cut into tokens, each a literal or a match of up to 258
 * bytes within the last 32 KiB, found by chains of positions with the same three bytes; a match waits for the next position,
 * which may have a longer one. Each block of tokens has Huffman codes of its own.
 */
#include "report_deflate.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 32768u
#define HASH_SIZE 32768u
#define MATCH_MIN 3u
#define MATCH_MAX 258u
#define MATCH_GOOD 128u /* long enough to look no further */
#define CHAIN_MAX 96
#define BLOCK_TOKENS 32768u
#define NO_POSITION SIZE_MAX

#define LITERALS 286u
#define DISTANCES 30u
#define CODE_LENGTHS 19u
#define END_OF_BLOCK 256u
#define CODE_BITS 15u
#define LENGTH_BITS 7u

/* A literal has distance 0, and its byte as its length. */
typedef struct deflate_token {
    uint16_t length;
    uint16_t distance;
} deflate_token;

typedef struct deflate_code {
    uint8_t lengths[LITERALS];
    uint16_t codes[LITERALS];
} deflate_code;

typedef struct deflater {
    const uint8_t *bytes;
    size_t size;
    size_t head[HASH_SIZE]; /* the last position of each hash */
    size_t previous[WINDOW];
    deflate_token tokens[BLOCK_TOKENS];
    size_t token_count;
    uint32_t literal_counts[LITERALS];
    uint32_t distance_counts[DISTANCES];
    uint8_t *out;
    size_t used;
    size_t capacity;
    uint64_t bits; /* that are not written yet */
    unsigned bit_count;
    bool failed;
} deflater;

/* ---- bits -------------------------------------------------------------------------------------------------------- */

static void put_byte(deflater *d, uint8_t byte)
{
    if (d->used == d->capacity) {
        const size_t capacity = 2 * d->capacity + 65536;
        uint8_t *out = capacity > d->capacity ? realloc(d->out, capacity) : NULL;
        if (out == NULL) {
            d->failed = true;
            return;
        }
        d->out = out;
        d->capacity = capacity;
    }
    d->out[d->used++] = byte;
}

/* The lowest bit first; up to 32 of them. */
static void put_bits(deflater *d, uint32_t value, unsigned count)
{
    d->bits |= (uint64_t)value << d->bit_count;
    d->bit_count += count;
    for (; d->bit_count >= 8 && !d->failed; d->bit_count -= 8) {
        put_byte(d, (uint8_t)d->bits);
        d->bits >>= 8;
    }
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */

/* A length or a distance is a symbol and some bits: from `first` on, each step of symbols has a bit more than the one before.
   A step has four lengths or two distances. */
static unsigned symbol_of(unsigned value, unsigned per_step, unsigned *extra_bits, unsigned *extra)
{
    unsigned bits = 0;
    unsigned symbol = value;
    const unsigned step_bits = per_step == 4 ? 2 : 1;
    while (symbol >= 2 * per_step) {
        symbol >>= 1;
        bits++;
    }
    *extra_bits = bits;
    *extra = value & ((1u << bits) - 1);
    return (bits << step_bits) + symbol;
}

static unsigned length_symbol(unsigned length, unsigned *extra_bits, unsigned *extra)
{
    if (length == MATCH_MAX) { /* has a symbol of its own */
        *extra_bits = 0;
        *extra = 0;
        return 285;
    }
    return 257 + symbol_of(length - MATCH_MIN, 4, extra_bits, extra);
}

static unsigned distance_symbol(unsigned distance, unsigned *extra_bits, unsigned *extra)
{
    return symbol_of(distance - 1, 2, extra_bits, extra);
}

/* ---- Huffman codes ----------------------------------------------------------------------------------------------- */

/* The lightest node without a parent; SIZE_MAX: there is none. */
static size_t lightest(const uint32_t *weights, const uint16_t *parents, size_t count)
{
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (weights[i] > 0 && parents[i] == 0 && (found == SIZE_MAX || weights[i] < weights[found])) {
            found = i;
        }
    }
    return found;
}

/* The depths of the symbols in a tree by their counts, and the largest depth. */
static unsigned build_tree(const uint32_t *counts, size_t count, uint8_t *lengths)
{
    uint32_t weights[2 * LITERALS] = { 0 };
    uint16_t parents[2 * LITERALS] = { 0 }; /* no symbol is a parent, so 0: none */
    size_t nodes = count;
    unsigned deepest = 0;
    memcpy(weights, counts, count * sizeof *weights);
    for (;;) {
        const size_t a = lightest(weights, parents, nodes);
        if (a == SIZE_MAX) {
            break;
        }
        parents[a] = (uint16_t)nodes;
        const size_t b = lightest(weights, parents, nodes);
        if (b == SIZE_MAX) { /* the root */
            parents[a] = 0;
            break;
        }
        parents[b] = (uint16_t)nodes;
        weights[nodes++] = weights[a] + weights[b];
    }
    for (size_t i = 0; i < count; i++) {
        unsigned depth = 0;
        for (size_t at = i; parents[at] != 0; at = parents[at]) {
            depth++;
        }
        lengths[i] = (uint8_t)(counts[i] > 0 && depth == 0 ? 1 : depth); /* a symbol that is alone has a bit */
        deepest = lengths[i] > deepest ? lengths[i] : deepest;
    }
    return deepest;
}

/* Counts that differ less make a tree that is less deep. */
static void build_lengths(const uint32_t *counts, size_t count, unsigned limit, uint8_t *lengths)
{
    uint32_t flat[LITERALS];
    memcpy(flat, counts, count * sizeof *flat);
    while (build_tree(flat, count, lengths) > limit) {
        for (size_t i = 0; i < count; i++) {
            flat[i] = (flat[i] + 1) / 2;
        }
    }
}

static uint16_t reversed(unsigned code, unsigned bits)
{
    unsigned out = 0;
    for (unsigned i = 0; i < bits; i++) {
        out = out << 1 | (code >> i & 1);
    }
    return (uint16_t)out;
}

/* Codes in the order of their lengths, then of their symbols; the first bit is the highest. */
static void make_code(deflate_code *code, const uint32_t *counts, size_t count, unsigned limit)
{
    unsigned next = 0;
    build_lengths(counts, count, limit, code->lengths);
    for (unsigned bits = 1; bits <= limit; bits++) {
        for (size_t i = 0; i < count; i++) {
            if (code->lengths[i] == bits) {
                code->codes[i] = reversed(next++, bits);
            }
        }
        next <<= 1;
    }
}

static void put_symbol(deflater *d, const deflate_code *code, size_t symbol)
{
    put_bits(d, code->codes[symbol], code->lengths[symbol]);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Both codes, by the lengths of their symbols, which have a code of their own. */
static void put_codes(deflater *d, const deflate_code *literals, const deflate_code *distances)
{
    static const uint8_t order[CODE_LENGTHS] = { 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };
    uint32_t counts[CODE_LENGTHS] = { 0 };
    deflate_code lengths = { { 0 }, { 0 } };
    for (size_t i = 0; i < LITERALS; i++) {
        counts[literals->lengths[i]]++;
    }
    for (size_t i = 0; i < DISTANCES; i++) {
        counts[distances->lengths[i]]++;
    }
    make_code(&lengths, counts, CODE_LENGTHS, LENGTH_BITS);
    put_bits(d, LITERALS - 257, 5);
    put_bits(d, DISTANCES - 1, 5);
    put_bits(d, CODE_LENGTHS - 4, 4);
    for (size_t i = 0; i < CODE_LENGTHS; i++) {
        put_bits(d, lengths.lengths[order[i]], 3);
    }
    for (size_t i = 0; i < LITERALS; i++) {
        put_symbol(d, &lengths, literals->lengths[i]);
    }
    for (size_t i = 0; i < DISTANCES; i++) {
        put_symbol(d, &lengths, distances->lengths[i]);
    }
}

static void put_token(deflater *d, const deflate_code *literals, const deflate_code *distances,
                      const deflate_token *token)
{
    unsigned bits = 0;
    unsigned extra = 0;
    if (token->distance == 0) {
        put_symbol(d, literals, token->length);
        return;
    }
    put_symbol(d, literals, length_symbol(token->length, &bits, &extra));
    put_bits(d, extra, bits);
    put_symbol(d, distances, distance_symbol(token->distance, &bits, &extra));
    put_bits(d, extra, bits);
}

static void put_block(deflater *d, bool last)
{
    deflate_code literals = { { 0 }, { 0 } };
    deflate_code distances = { { 0 }, { 0 } };
    d->literal_counts[END_OF_BLOCK]++;
    make_code(&literals, d->literal_counts, LITERALS, CODE_BITS);
    make_code(&distances, d->distance_counts, DISTANCES, CODE_BITS);
    put_bits(d, last, 1);
    put_bits(d, 2, 2); /* codes of its own */
    put_codes(d, &literals, &distances);
    for (size_t i = 0; i < d->token_count; i++) {
        put_token(d, &literals, &distances, &d->tokens[i]);
    }
    put_symbol(d, &literals, END_OF_BLOCK);
    d->token_count = 0;
    memset(d->literal_counts, 0, sizeof d->literal_counts);
    memset(d->distance_counts, 0, sizeof d->distance_counts);
}

static void add_token(deflater *d, unsigned length, unsigned distance)
{
    unsigned bits = 0;
    unsigned extra = 0;
    if (d->token_count == BLOCK_TOKENS) {
        put_block(d, false);
    }
    d->tokens[d->token_count++] = (deflate_token){ (uint16_t)length, (uint16_t)distance };
    d->literal_counts[distance == 0 ? length : length_symbol(length, &bits, &extra)]++;
    if (distance != 0) {
        d->distance_counts[distance_symbol(distance, &bits, &extra)]++;
    }
}

/* ---- matches ----------------------------------------------------------------------------------------------------- */

static size_t hash_at(const deflater *d, size_t at)
{
    const uint32_t three = d->bytes[at] | (uint32_t)d->bytes[at + 1] << 8 | (uint32_t)d->bytes[at + 2] << 16;
    return three * 0x9E3779B1u >> 17;
}

static void remember(deflater *d, size_t at)
{
    if (d->size - at >= MATCH_MIN) {
        const size_t hash = hash_at(d, at);
        d->previous[at % WINDOW] = d->head[hash];
        d->head[hash] = at;
    }
}

static unsigned same_bytes(const deflater *d, size_t from, size_t at)
{
    const size_t most = d->size - at < MATCH_MAX ? d->size - at : MATCH_MAX;
    unsigned length = 0;
    while (length < most && d->bytes[from + length] == d->bytes[at + length]) {
        length++;
    }
    return length;
}

/* The longest match at a position that is not remembered yet; 0: there is none. A distance of the whole window would not fit
   its 16 bits as 0 does, so it is one less. */
static unsigned find_match(const deflater *d, size_t at, unsigned *distance)
{
    unsigned best = 0;
    size_t from = d->size - at >= MATCH_MIN ? d->head[hash_at(d, at)] : NO_POSITION;
    for (int i = 0; i < CHAIN_MAX && from != NO_POSITION && at - from < WINDOW && best < MATCH_GOOD; i++) {
        const unsigned length = same_bytes(d, from, at);
        if (length >= MATCH_MIN && length > best) {
            best = length;
            *distance = (unsigned)(at - from);
        }
        const size_t next = d->previous[from % WINDOW];
        from = next != NO_POSITION && next < from ? next : NO_POSITION;
    }
    return best;
}

static void deflate_all(deflater *d)
{
    unsigned distance = 0;
    unsigned length = d->size > 0 ? find_match(d, 0, &distance) : 0;
    for (size_t at = 0; at < d->size && !d->failed;) {
        unsigned next_distance = 0;
        remember(d, at);
        unsigned next = at + 1 < d->size && length < MATCH_GOOD ? find_match(d, at + 1, &next_distance) : 0;
        if (length == 0 || next > length) {
            add_token(d, d->bytes[at++], 0);
        } else {
            add_token(d, length, distance);
            for (unsigned i = 1; i < length; i++) {
                remember(d, at + i);
            }
            at += length;
            next = at < d->size ? find_match(d, at, &next_distance) : 0;
        }
        length = next;
        distance = next_distance;
    }
    put_block(d, true);
    put_bits(d, 0, 7); /* what is left of the last byte */
}

bool report_deflate(const uint8_t *bytes, size_t size, uint8_t **stream, size_t *stream_size)
{
    deflater *d = calloc(1, sizeof *d);
    *stream = NULL;
    if (d == NULL) {
        return false;
    }
    d->bytes = bytes;
    d->size = size;
    for (size_t i = 0; i < HASH_SIZE; i++) {
        d->head[i] = NO_POSITION;
    }
    deflate_all(d);
    const bool made = !d->failed;
    if (made) {
        *stream = d->out;
        *stream_size = d->used;
    } else {
        free(d->out);
    }
    free(d);
    return made;
}
