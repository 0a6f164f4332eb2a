/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw deflate (RFC 1951): blocks that are stored, or packed by Huffman codes that are fixed or come with the block.
 *
 *   block     1 bit: it is the last; 2 bits: 0 stored, 1 fixed codes, 2 codes of its own (3.2.3)
 *   stored    to the next whole byte; u16 length, u16 its complement; bytes (3.2.4)
 *   codes     5 bits literals - 257, 5 bits distances - 1, 4 bits lengths of codes - 4; the lengths of the codes for
 *             lengths, 3 bits each; by these codes the lengths of all others (3.2.7)
 *   packed    symbols: 0 to 255 a byte, 256 the end, 257 to 285 a length, which a distance follows (3.2.5)
 *
 * Bits are taken from the lowest of each byte on; codes have their highest bit first.
 *
 * Codes are canonical (3.2.2): of one length they count up, in order of their symbols, from twice what follows the
 * last code of the length before. So a table has how many codes each length has, and the symbols in order of their
 * codes; a code is read bit by bit until it is below the end of its length's. That is slower than tables of
 * prefixes, and small enough to be read through, which counts for more where the input is a stranger's.
 *
 * Nothing is trusted: bits are asked for one by one and may end anywhere, output is compared with its space before each
 * byte, distances with what was written.
 */
#include "inflate.h"

#include "error.h"

#include <string.h>

/* The limits of RFC 1951, which are also the sizes of the tables. */
#define INFLATE_LONGEST 15   /* bits of a code */
#define INFLATE_LITERALS 288 /* codes for bytes, the end, and lengths; the last two stand for nothing */
#define INFLATE_DISTANCES 30 /* codes for distances */
#define INFLATE_ORDER 19     /* codes for lengths of codes */
#define INFLATE_END 256      /* the code that ends a block */
#define INFLATE_LONGEST_COPY 258

typedef struct inflate_table {
    uint16_t counts[INFLATE_LONGEST + 1]; /* codes of each length */
    uint16_t symbols[INFLATE_LITERALS];
} inflate_table;

typedef struct inflate_state {
    const coffer__inflate_input *input;
    const uint8_t *bytes; /* of the input, at hand */
    size_t size;
    size_t position;
    uint32_t bits; /* read, and not used yet; the next is the lowest */
    unsigned bit_count;
    uint8_t *out;
    size_t out_size;
    size_t out_count;
    bool whole;
    bool done; /* all that is wanted is there */
    inflate_table literals;
    inflate_table distances;
    coffer_error *err;
} inflate_state;

/* What is damaged has no place of its own: the caller knows which member it is, and where that lies. */
static coffer_status inflate_fail(const inflate_state *in, const char *what)
{
    return coffer__fail(in->err, COFFER_ERR_DAMAGED, "compressed bytes are damaged: %s", what);
}

/* The next `count` bits, at most 16. A byte is only fetched when it is needed, so fewer than 8 bits are ever
   left over, and at the end of the stream no whole byte has been taken that is not part of it. */
static coffer_status inflate_bits(inflate_state *in, unsigned count, uint32_t *value)
{
    while (in->bit_count < count) {
        if (in->position == in->size) {
            const coffer_status status = in->input->next(in->input->ctx, &in->bytes, &in->size, in->err);
            in->position = 0;
            if (status != COFFER_OK) {
                return status;
            }
            if (in->size == 0) {
                return inflate_fail(in, "they end too early");
            }
        }
        in->bits |= (uint32_t)in->bytes[in->position++] << in->bit_count;
        in->bit_count += 8;
    }
    *value = in->bits & ((UINT32_C(1) << count) - 1);
    in->bits >>= count;
    in->bit_count -= count;
    return COFFER_OK;
}

/* ---- codes ---- */

/*
 * Makes a table of the codes' lengths, 0 for symbols without one. False: there are more codes than the lengths have
 * space for, or fewer. Only a single code may leave space, and no code at all be one for which nothing asks.
 */
static bool inflate_build(inflate_table *table, const uint8_t *lengths, size_t count)
{
    uint16_t next[INFLATE_LONGEST + 1] = { 0 };
    memset(table->counts, 0, sizeof table->counts);
    /* How many codes there are of each length; those of length 0 are symbols that never occur. */
    for (size_t i = 0; i < count; i++) {
        table->counts[lengths[i]]++;
    }
    const size_t used = count - table->counts[0];
    table->counts[0] = 0;
    /* How many codes of the length are free after those that are used: each free one of the length before
       makes two. It cannot grow beyond 2^15. */
    int32_t capacity = 1;
    for (size_t i = 1; i <= INFLATE_LONGEST; i++) {
        capacity = 2 * capacity - table->counts[i];
        if (capacity < 0) {
            return false;
        }
        next[i] = (uint16_t)(next[i - 1] + table->counts[i - 1]);
    }
    for (size_t i = 0; i < count; i++) {
        if (lengths[i] != 0) {
            table->symbols[next[lengths[i]]++] = (uint16_t)i;
        }
    }
    return capacity == 0 || used == 0 || (used == 1 && table->counts[1] == 1);
}

/* Both sides of the comparison are unsigned: `code` is never below `first`, since a code below it would have
   been one of the length before. */
static coffer_status inflate_symbol(inflate_state *in, const inflate_table *table, unsigned *symbol)
{
    uint32_t code = 0;  /* what has been read */
    uint32_t first = 0; /* the first code of this length */
    uint32_t index = 0; /* its place among the symbols */
    for (unsigned length = 1; length <= INFLATE_LONGEST; length++) {
        uint32_t bit = 0;
        const coffer_status status = inflate_bits(in, 1, &bit);
        if (status != COFFER_OK) {
            return status;
        }
        code |= bit;
        if (code - first < table->counts[length]) {
            *symbol = table->symbols[index + code - first];
            return COFFER_OK;
        }
        index += table->counts[length];
        first = (first + table->counts[length]) << 1;
        code <<= 1;
    }
    return inflate_fail(in, "a code stands for nothing");
}

/* The fixed codes of 3.2.6. There are 32 for distances, of which the last two stand for nothing but make the
   code complete. */
static bool inflate_build_fixed(inflate_state *in)
{
    uint8_t lengths[INFLATE_LITERALS];
    uint8_t distances[INFLATE_DISTANCES + 2];
    memset(lengths, 8, sizeof lengths);
    memset(lengths + 144, 9, 112);
    memset(lengths + 256, 7, 24);
    memset(distances, 5, sizeof distances);
    return inflate_build(&in->literals, lengths, sizeof lengths) &&
           inflate_build(&in->distances, distances, sizeof distances);
}

/*
 * The lengths of a block's codes, `count` of them, are themselves written by codes: 0 to 15 are lengths, 16 repeats the
 * last one 3 to 6 times, 17 and 18 stand for 3 to 10 and 11 to 138 zeros.
 */
static coffer_status inflate_read_lengths(inflate_state *in, uint8_t *lengths, size_t count)
{
    static const struct {
        uint8_t bits;
        uint8_t least;
    } repeats[] = { { 2, 3 }, { 3, 3 }, { 7, 11 } };
    for (size_t i = 0; i < count;) {
        unsigned symbol = 0;
        uint32_t extra = 0;
        coffer_status status = inflate_symbol(in, &in->distances, &symbol);
        if (status != COFFER_OK) {
            return status;
        }
        if (symbol < 16) {
            lengths[i++] = (uint8_t)symbol;
            continue;
        }
        status = inflate_bits(in, repeats[symbol - 16].bits, &extra);
        if (status != COFFER_OK) {
            return status;
        }
        const size_t times = repeats[symbol - 16].least + extra;
        if (times > count - i || (symbol == 16 && i == 0)) {
            return inflate_fail(in, "lengths of codes are repeated too often");
        }
        memset(lengths + i, symbol == 16 ? lengths[i - 1] : 0, times);
        i += times;
    }
    return COFFER_OK;
}

/* The codes for lengths of codes come first, in an order in which the last ones are seldom needed. */
static coffer_status inflate_read_order(inflate_state *in, size_t count)
{
    static const uint8_t order[INFLATE_ORDER] = { 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };
    uint8_t lengths[INFLATE_ORDER] = { 0 };
    for (size_t i = 0; i < count; i++) {
        uint32_t length = 0;
        const coffer_status status = inflate_bits(in, 3, &length);
        if (status != COFFER_OK) {
            return status;
        }
        lengths[order[i]] = (uint8_t)length;
    }
    return inflate_build(&in->distances, lengths, INFLATE_ORDER) ? COFFER_OK
                                                                 : inflate_fail(in, "codes have impossible lengths");
}

static coffer_status inflate_read_tables(inflate_state *in)
{
    uint32_t literals = 0;
    uint32_t distances = 0;
    uint32_t order = 0;
    /* Lengths of literals and distances come as one list, and a repetition may reach from the first into the
       second. */
    uint8_t lengths[INFLATE_LITERALS + INFLATE_DISTANCES + 2] = { 0 };
    coffer_status status = inflate_bits(in, 5, &literals);
    if (status == COFFER_OK) {
        status = inflate_bits(in, 5, &distances);
    }
    if (status == COFFER_OK) {
        status = inflate_bits(in, 4, &order);
    }
    if (status != COFFER_OK) {
        return status;
    }
    literals += 257;
    distances += 1;
    if (literals > INFLATE_LITERALS - 2 || distances > INFLATE_DISTANCES) {
        return inflate_fail(in, "there are too many codes");
    }
    status = inflate_read_order(in, order + 4);
    if (status != COFFER_OK) {
        return status;
    }
    status = inflate_read_lengths(in, lengths, literals + distances);
    if (status != COFFER_OK) {
        return status;
    }
    /* A block without a code for its end could never end. */
    return lengths[INFLATE_END] != 0 && inflate_build(&in->literals, lengths, literals) &&
                   inflate_build(&in->distances, lengths + literals, distances)
               ? COFFER_OK
               : inflate_fail(in, "codes have impossible lengths");
}

/* ---- bytes ---- */

/* Space for `size` more bytes; what is not wanted any more is left out, and `done` says that there is enough. */
static coffer_status inflate_capacity(inflate_state *in, size_t *size)
{
    if (*size <= in->out_size - in->out_count) {
        return COFFER_OK;
    }
    if (in->whole) {
        return inflate_fail(in, "they are more than the archive says");
    }
    *size = in->out_size - in->out_count;
    in->done = true;
    return COFFER_OK;
}

/* Repeats `size` bytes from `distance` before. They may overlap what they make: then it repeats itself,
   so they are copied one by one; memmove would not repeat. */
static coffer_status inflate_repeat(inflate_state *in, size_t size, size_t distance)
{
    if (distance > in->out_count) {
        return inflate_fail(in, "something is repeated from before the beginning");
    }
    const coffer_status status = inflate_capacity(in, &size);
    for (size_t i = 0; status == COFFER_OK && i < size; i++) {
        in->out[in->out_count] = in->out[in->out_count - distance];
        in->out_count++;
    }
    return status;
}

/* A number of a length or distance: a base for its symbol, and some bits that are added. */
static coffer_status inflate_number(inflate_state *in, unsigned base, unsigned bits, size_t *number)
{
    uint32_t extra = 0;
    const coffer_status status = bits == 0 ? COFFER_OK : inflate_bits(in, bits, &extra);
    *number = base + extra;
    return status;
}

/* A length and its distance, `symbol` being that of the length. */
static coffer_status inflate_copy(inflate_state *in, unsigned symbol)
{
    size_t size = INFLATE_LONGEST_COPY;
    size_t distance = 0;
    coffer_status status = COFFER_OK;
    symbol -= INFLATE_END + 1;
    if (symbol > 28) {
        return inflate_fail(in, "a code stands for nothing");
    }
    /* From the ninth on, each four lengths have one bit more; the last stands for the longest by itself. */
    if (symbol < 8) {
        size = 3 + symbol;
    } else if (symbol < 28) {
        const unsigned bits = symbol / 4 - 1;
        status = inflate_number(in, 3 + ((4 + symbol % 4) << bits), bits, &size);
    }
    if (status != COFFER_OK) {
        return status;
    }
    status = inflate_symbol(in, &in->distances, &symbol);
    if (status != COFFER_OK) {
        return status;
    }
    if (symbol >= INFLATE_DISTANCES) {
        return inflate_fail(in, "a code stands for nothing");
    }
    /* Of distances, each two from the fifth on. */
    const unsigned bits = symbol < 4 ? 0 : symbol / 2 - 1;
    status = inflate_number(in, symbol < 4 ? 1 + symbol : 1 + ((2 + symbol % 2) << bits), bits, &distance);
    return status == COFFER_OK ? inflate_repeat(in, size, distance) : status;
}

/* Symbols until the block's end, or until there is as much as was asked for. */
static coffer_status inflate_packed(inflate_state *in)
{
    while (!in->done) {
        unsigned symbol = 0;
        coffer_status status = inflate_symbol(in, &in->literals, &symbol);
        if (status != COFFER_OK) {
            return status;
        }
        if (symbol == INFLATE_END) {
            return COFFER_OK;
        }
        if (symbol > INFLATE_END) {
            status = inflate_copy(in, symbol);
        } else {
            size_t size = 1;
            status = inflate_capacity(in, &size);
            if (status == COFFER_OK && size == 1) {
                in->out[in->out_count++] = (uint8_t)symbol;
            }
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* A stored block begins at the next whole byte, with its length and the complement of that. */
static coffer_status inflate_stored(inflate_state *in)
{
    uint32_t length = 0;
    uint32_t complement = 0;
    in->bits >>= in->bit_count % 8;
    in->bit_count -= in->bit_count % 8;
    coffer_status status = inflate_bits(in, 16, &length);
    if (status == COFFER_OK) {
        status = inflate_bits(in, 16, &complement);
    }
    if (status != COFFER_OK) {
        return status;
    }
    if ((length ^ complement) != 0xFFFF) {
        return inflate_fail(in, "a block's length contradicts itself");
    }
    size_t size = length;
    status = inflate_capacity(in, &size);
    /* By inflate_bits, as all else: a byte may already be in the bits, and the input may end. Stored blocks
       are rare. */
    for (size_t i = 0; status == COFFER_OK && i < size; i++) {
        uint32_t byte = 0;
        status = inflate_bits(in, 8, &byte);
        if (status == COFFER_OK) {
            in->out[in->out_count++] = (uint8_t)byte;
        }
    }
    return status;
}

static coffer_status inflate_block(inflate_state *in, bool *last)
{
    uint32_t head = 0;
    coffer_status status = inflate_bits(in, 3, &head);
    if (status != COFFER_OK) {
        return status;
    }
    *last = (head & 1) != 0;
    switch (head >> 1) {
    case 0:
        return inflate_stored(in);
    case 1:
        /* The fixed lengths are complete codes, so this cannot fail. */
        (void)inflate_build_fixed(in);
        return inflate_packed(in);
    case 2:
        status = inflate_read_tables(in);
        return status == COFFER_OK ? inflate_packed(in) : status;
    default:
        return inflate_fail(in, "a block is of an unknown kind");
    }
}

/* The whole is there when as many bytes came as were said, and no more than a part of a byte is left of the input. */
static coffer_status inflate_finish(inflate_state *in)
{
    if (in->out_count != in->out_size) {
        return inflate_fail(in, "they are fewer than the archive says");
    }
    if (!in->whole) {
        return COFFER_OK;
    }
    const coffer_status status =
        in->position < in->size ? COFFER_OK : in->input->next(in->input->ctx, &in->bytes, &in->size, in->err);
    if (status != COFFER_OK) {
        return status;
    }
    return in->size > 0 ? inflate_fail(in, "something follows them") : COFFER_OK;
}

/* Each block takes three bits at least, so the input bounds the loop even if the blocks make no bytes. */
static coffer_status inflate_blocks(inflate_state *in)
{
    bool last = false;
    while (!last && !in->done) {
        const coffer_status status = inflate_block(in, &last);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

coffer_status coffer__inflate(const coffer__inflate_input *input, void *out, size_t out_size, bool whole,
                              coffer_error *err)
{
    inflate_state in = { .input = input, .out = out, .out_size = out_size, .whole = whole, .err = err };
    in.done = !whole && out_size == 0;
    const coffer_status status = inflate_blocks(&in);
    return status == COFFER_OK ? inflate_finish(&in) : status;
}

static coffer_status inflate_no_more(void *ctx, const uint8_t **bytes, size_t *size, coffer_error *err)
{
    (void)ctx;
    (void)err;
    *bytes = NULL;
    *size = 0;
    return COFFER_OK;
}

coffer_status coffer__inflate_stream(const uint8_t *bytes, size_t size, size_t *used, void *out, size_t *out_size,
                                     coffer_error *err)
{
    const coffer__inflate_input input = { NULL, inflate_no_more };
    inflate_state in = {
        .input = &input, .bytes = bytes, .size = size, .out = out, .out_size = *out_size, .whole = true, .err = err
    };
    const coffer_status status = inflate_blocks(&in);
    /* What was asked for beyond the end came as nothing. */
    *used = in.bytes == bytes ? in.position : size;
    *out_size = in.out_count;
    return status;
}
