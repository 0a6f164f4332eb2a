/* SPDX-License-Identifier: Apache-2.0 */
/* Codes: their lengths, writing, and the table for reading. The loop that reads is huffman_read.c. */
#include "huffman.h"

#include "bytes.h"

/* Items of a list of package-merge: every symbol, and packages of two items of the list before. */
#define HUFFMAN_ITEMS (2 * COFFER__CODE_SYMBOLS)

/* The symbols that occur, the rarest first, those of one count in their order. */
static size_t huffman_sorted(const uint64_t *counts, uint8_t *symbols)
{
    size_t used = 0;
    for (size_t symbol = 0; symbol < COFFER__CODE_SYMBOLS; symbol++) {
        if (counts[symbol] == 0) {
            continue;
        }
        size_t at = used++;
        for (; at > 0 && counts[symbols[at - 1]] > counts[symbol]; at--) {
            symbols[at] = symbols[at - 1];
        }
        symbols[at] = (uint8_t)symbol;
    }
    return used;
}

/* A list of package-merge: weights, and of the first i items how many are symbols. */
typedef struct huffman_list {
    uint64_t weights[HUFFMAN_ITEMS];
    size_t count;
} huffman_list;

/* The next list: the symbols, and the packages of two that the list before makes, by weight; of one weight symbols first. */
static void huffman_merge(const huffman_list *before, const uint64_t *counts, const uint8_t *symbols, size_t used,
                          huffman_list *next, uint16_t *symbols_before)
{
    const size_t packages = before->count / 2;
    size_t symbol = 0;
    size_t package = 0;
    next->count = used + packages;
    for (size_t i = 0; i < next->count; i++) {
        symbols_before[i] = (uint16_t)symbol;
        const uint64_t weight =
            package < packages ? before->weights[2 * package] + before->weights[2 * package + 1] : 0;
        if (package == packages || (symbol < used && counts[symbols[symbol]] <= weight)) {
            next->weights[i] = counts[symbols[symbol++]];
        } else {
            next->weights[i] = weight;
            package++;
        }
    }
    symbols_before[next->count] = (uint16_t)symbol;
}

bool coffer__code_lengths(const uint64_t counts[COFFER__CODE_SYMBOLS], uint8_t lengths[COFFER__CODE_SYMBOLS])
{
    uint8_t symbols[COFFER__CODE_SYMBOLS];
    uint16_t symbols_before[COFFER__CODE_BITS][HUFFMAN_ITEMS + 1];
    huffman_list lists[2];
    memset(lengths, 0, COFFER__CODE_SYMBOLS);
    const size_t used = huffman_sorted(counts, symbols);
    if (used < 2) {
        return false;
    }
    lists[1].count = 0;
    for (size_t level = 0; level < COFFER__CODE_BITS; level++) {
        huffman_merge(&lists[(level + 1) & 1], counts, symbols, used, &lists[level & 1], symbols_before[level]);
    }
    /* The first 2n - 2 items of the last list are chosen, with all that the packages among them consist of. A symbol is as long
       as the lists in which it was chosen. */
    size_t chosen = 2 * used - 2;
    for (size_t level = COFFER__CODE_BITS; level-- > 0;) {
        const size_t alone = symbols_before[level][chosen];
        for (size_t i = 0; i < alone; i++) {
            lengths[symbols[i]]++;
        }
        chosen = 2 * (chosen - alone);
    }
    return true;
}

bool coffer__code_is_complete(const uint8_t lengths[COFFER__CODE_SYMBOLS])
{
    uint32_t taken = 0;
    for (size_t symbol = 0; symbol < COFFER__CODE_SYMBOLS; symbol++) {
        if (lengths[symbol] > COFFER__CODE_BITS) {
            return false;
        }
        taken += lengths[symbol] > 0 ? COFFER__CODE_ENTRIES >> lengths[symbol] : 0;
    }
    return taken == COFFER__CODE_ENTRIES;
}

uint64_t coffer__code_cost(const uint64_t counts[COFFER__CODE_SYMBOLS], const uint8_t lengths[COFFER__CODE_SYMBOLS])
{
    uint64_t bits = 0;
    for (size_t symbol = 0; symbol < COFFER__CODE_SYMBOLS; symbol++) {
        bits += counts[symbol] * lengths[symbol];
    }
    return bits;
}

static uint32_t huffman_reversed(uint32_t code, unsigned length)
{
    uint32_t reversed = 0;
    for (unsigned i = 0; i < length; i++) {
        reversed |= (code >> i & 1) << (length - 1 - i);
    }
    return reversed;
}

void coffer__code_writer_init(coffer__code_writer *writer, const uint8_t lengths[COFFER__CODE_SYMBOLS])
{
    memset(writer->codes, 0, sizeof writer->codes);
    uint32_t code = 0;
    for (unsigned length = 1; length <= COFFER__CODE_BITS; length++) {
        for (size_t symbol = 0; symbol < COFFER__CODE_SYMBOLS; symbol++) {
            if (lengths[symbol] == length) {
                writer->codes[symbol] = huffman_reversed(code++, length) | length << 16;
            }
        }
        code <<= 1;
    }
}

size_t coffer__code_write(const coffer__code_writer *writer, const uint8_t *symbols, size_t count, uint8_t *out)
{
    uint64_t word = 0;
    unsigned bits = 0;
    size_t size = 0;
    size_t i = 0;
    /* Less than a byte is left from before, so that five codes fit. */
    for (; count - i >= 5; i += 5) {
        for (size_t k = 0; k < 5; k++) {
            const uint32_t code = writer->codes[symbols[i + k]];
            word |= (uint64_t)(code & 0xFFFF) << bits;
            bits += code >> 16;
        }
        coffer__store_u64le(out + size, word);
        size += bits / 8;
        word >>= bits & ~7u;
        bits &= 7;
    }
    for (; i < count; i++) {
        const uint32_t code = writer->codes[symbols[i]];
        word |= (uint64_t)(code & 0xFFFF) << bits;
        bits += code >> 16;
    }
    coffer__store_u64le(out + size, word);
    return size + (bits + 7) / 8;
}

void coffer__code_reader_init(coffer__code_reader *reader, const uint8_t lengths[COFFER__CODE_SYMBOLS])
{
    coffer__code_writer codes;
    coffer__code_writer_init(&codes, lengths);
    memcpy(reader->lengths, lengths, sizeof reader->lengths);
    /* First what each index begins with, by itself: the symbol, and its length above it. */
    uint16_t single[COFFER__CODE_ENTRIES];
    for (unsigned symbol = 0; symbol < COFFER__CODE_SYMBOLS; symbol++) {
        const unsigned length = lengths[symbol];
        if (length == 0) {
            continue;
        }
        for (uint32_t index = codes.codes[symbol] & 0xFFFF; index < COFFER__CODE_ENTRIES; index += 1u << length) {
            single[index] = (uint16_t)(symbol | length << 8);
        }
    }
    for (uint32_t index = 0; index < COFFER__CODE_ENTRIES; index++) {
        uint64_t symbols = 0;
        unsigned used = 0;
        unsigned count = 0;
        while (count < 6) {
            const unsigned next = single[index >> used];
            if (next >> 8 > COFFER__CODE_BITS - used) {
                break;
            }
            symbols |= (uint64_t)(next & 0xFF) << (8 * count++);
            used += next >> 8;
        }
        reader->entries[index] = symbols << 16 | count << 8 | used;
    }
}
