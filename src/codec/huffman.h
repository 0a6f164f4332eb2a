/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Canonical Huffman codes of at most 11 bits over bytes: the best lengths for given counts, codes of lengths, writing one
 * stream of bits, reading four at a time. docs/packed.md has the rules that a reader of another hand needs.
 *
 * Codes are numbered by length, then by symbol, and stand in the stream with their highest bit first; the stream's first bit
 * is the lowest of its first byte. So the next 11 bits of a stream, as a number, are an index into a table.
 */
#ifndef COFFER_CODEC_HUFFMAN_H
#define COFFER_CODEC_HUFFMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COFFER__CODE_BITS 11u
#define COFFER__CODE_SYMBOLS 256u
#define COFFER__CODE_ENTRIES (1u << COFFER__CODE_BITS)
/* Bytes that must be readable after a stream, and writable after the symbols or bits of one. */
#define COFFER__CODE_SLACK 8u

/*
 * The lengths for which the codes of `counts` need the fewest bits, by package-merge; 0 for symbols that do not occur. The same
 * counts give the same lengths everywhere. False, and all lengths 0, if fewer than two symbols occur. Counts below 2^50.
 */
bool coffer__code_lengths(const uint64_t counts[COFFER__CODE_SYMBOLS], uint8_t lengths[COFFER__CODE_SYMBOLS]);
/* Whether the lengths are those of a complete code: every sequence of bits is one of symbols. */
bool coffer__code_is_complete(const uint8_t lengths[COFFER__CODE_SYMBOLS]);
/* The bits that the symbols of `counts` need. Each that occurs has to have a length. */
uint64_t coffer__code_cost(const uint64_t counts[COFFER__CODE_SYMBOLS], const uint8_t lengths[COFFER__CODE_SYMBOLS]);

/* For writing: each symbol's code, its first bit lowest, and its length above 16 bits. */
typedef struct coffer__code_writer {
    uint32_t codes[COFFER__CODE_SYMBOLS];
} coffer__code_writer;
void coffer__code_writer_init(coffer__code_writer *writer, const uint8_t lengths[COFFER__CODE_SYMBOLS]);
/* Writes the codes of `count` symbols, and zeros up to a whole byte. Returns the bytes; up to COFFER__CODE_SLACK more are
   overwritten. */
size_t coffer__code_write(const coffer__code_writer *writer, const uint8_t *symbols, size_t count, uint8_t *out);

/*
 * For reading. An entry says what the 11 bits of its index begin with: bits 0 to 7 how many of the bits are used, 8 to 15 how
 * many symbols they are, then up to six symbols, the first lowest. So an entry's low byte is the shift to the next one.
 */
typedef struct coffer__code_reader {
    uint64_t entries[COFFER__CODE_ENTRIES];
    uint8_t lengths[COFFER__CODE_SYMBOLS];
} coffer__code_reader;
/* The lengths have to be those of a complete code. */
void coffer__code_reader_init(coffer__code_reader *reader, const uint8_t lengths[COFFER__CODE_SYMBOLS]);

/* A stream: bytes `at` to `end` of `bytes`, which hold exactly `count` symbols, and where these go. COFFER__CODE_SLACK bytes are
   readable after the end, and written after the symbols. */
typedef struct coffer__code_stream {
    size_t at;
    size_t end;
    uint8_t *out;
    size_t count;
} coffer__code_stream;
/*
 * Reads `stream_count` streams (at most 4) of `bytes`. Returns their number, or the number of the first that is damaged: its
 * symbols need more bytes than it has, or fewer, or the bits after the last are not zero. Bytes after a stream's end never
 * count as its own, though they may be loaded with it.
 */
size_t coffer__code_read(const coffer__code_reader *reader, const uint8_t *bytes, const coffer__code_stream *streams,
                         size_t stream_count);

#endif
