/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of packed tensors that somebody has damaged on purpose. The head and the index are as they are after they were checked
 * (prove_packed.c); lengths of streams are chosen, and bytes are chosen or may be any. Blocks end where the reader was told.
 */
#include "packed.h"
#include "prove.h"

static void *prove_block(size_t size)
{
    void *block = malloc(size);
    if (block == NULL) {
        exit(1);
    }
    return block;
}

static coffer__packed_head prove_head_of(uint8_t element_size, bool nibbles, uint64_t elements, uint32_t tables)
{
    return (coffer__packed_head){ .layout = { element_size, 1, nibbles },
                                  .tables = tables,
                                  .chunks = (uint32_t)coffer__packed_chunk_count(elements),
                                  .elements = elements,
                                  .used = 0 };
}

/* Bytes at the index's end: the record of the only chunk. */
static void prove_put_record(uint8_t *record, size_t size, uint32_t modes)
{
    memset(record, 0, COFFER__PACKED_RECORD_SIZE);
    record[0] = (uint8_t)(size / COFFER__PACKED_CHUNK_ALIGNMENT);
    //@ loop unroll 4;
    for (size_t i = 0; i < 4; i++) {
        record[4 + i] = (uint8_t)(modes >> (8 * i));
    }
}

/* A code of four symbols: 0 in one bit, 1 in two, 2 and 3 in three. */
static void prove_put_table(uint8_t *table)
{
    memset(table, 0, COFFER__PACKED_TABLE_SIZE);
    table[0] = 1 | 2 << 4;
    table[1] = 3 | 3 << 4;
}

/* With a work area of its own. */
static void prove_chunk(const coffer__packed_head *head, const uint8_t *record, const uint8_t *bytes)
{
    coffer_error err;
    coffer__unpacker *unpacker = prove_block(sizeof *unpacker);
    uint8_t *elements = prove_block((size_t)head->elements * head->layout.element_size);
    coffer__unpacker_init(unpacker, head, record);
    coffer__unpack_chunk(unpacker, 0, bytes, elements, &err);
    free(elements);
    free(unpacker);
}

/* Planes that are not coded, of any bytes, in chunks of every size that they could have. */
static void prove_plain(uint8_t element_size, bool nibbles, uint64_t count)
{
    const coffer__packed_head head = prove_head_of(element_size, nibbles, count, 0);
    const uint32_t constant = nibbles ? 0x11 : element_size == 8 ? 0x11111111 : (1u << (4 * element_size)) / 15;
    const uint32_t modes[] = { 0, constant, 1 };
    uint8_t record[COFFER__PACKED_RECORD_SIZE];
    //@ loop unroll 12;
    for (size_t size = 0; size <= 160; size += COFFER__PACKED_CHUNK_ALIGNMENT) {
        const uint8_t *bytes = prove_bytes(size + COFFER__CODE_SLACK);
        //@ loop unroll 3;
        for (size_t i = 0; i < 3; i++) {
            prove_put_record(record, size, modes[i]);
            prove_chunk(&head, record, bytes);
        }
    }
}

/*
 * A coded plane. The first of its streams says that it has `length` bytes, the second `second`. The bytes after these lengths are `pattern`
 * again and again, and so it is in what may be loaded after the chunk; but the first is one of sixteen.
 */
typedef struct prove_stream {
    uint64_t elements;
    size_t length;
    uint8_t second;
    uint8_t pattern;
    size_t size; /* of the chunk */
} prove_stream;

static const prove_stream prove_streams[] = {
    { 3, 1, 0, 0, 80 },     { 3, 2, 0, 0, 80 },         { 3, 0, 0, 0, 80 },     { 3, 16, 0, 0xFF, 80 },
    { 3, 17, 0, 0xFF, 80 }, { 3, 0xFFFF, 0, 0xFF, 80 }, { 3, 1, 1, 0, 80 },     { 3, 1, 0, 0, 48 },
    { 3, 1, 0, 0, 96 },     { 30, 8, 0, 0x55, 80 },     { 70, 9, 0, 0x2A, 80 },
};

static uint8_t *prove_coded_bytes(const prove_stream *stream)
{
    const size_t head_size = stream->size < COFFER__PACKED_STREAM_HEAD ? stream->size : COFFER__PACKED_STREAM_HEAD;
    uint8_t *bytes = prove_block(stream->size + COFFER__CODE_SLACK);
    memset(bytes, stream->pattern, stream->size + COFFER__CODE_SLACK);
    memset(bytes, 0, head_size);
    bytes[0] = (uint8_t)stream->length;
    bytes[1] = (uint8_t)(stream->length >> 8);
    bytes[2] = stream->second;
    bytes[head_size] = (uint8_t)(17 * prove_each(0, 15));
    return bytes;
}

/* A work area that has read the table, with a chunk that is right, while there is no byte that may be any. */
static coffer__unpacker *prove_reader(void)
{
    static const uint8_t right[80 + COFFER__CODE_SLACK] = { 1 };
    coffer_error err;
    uint8_t elements[3];
    uint8_t index[COFFER__PACKED_TABLE_SIZE + COFFER__PACKED_RECORD_SIZE];
    const coffer__packed_head head = prove_head_of(1, false, sizeof elements, 1);
    coffer__unpacker *unpacker = prove_block(sizeof *unpacker);
    prove_put_table(index);
    prove_put_record(index + COFFER__PACKED_TABLE_SIZE, 80, COFFER__PLANE_HUFF);
    coffer__unpacker_init(unpacker, &head, index);
    coffer__unpack_chunk(unpacker, 0, right, elements, &err);
    return unpacker;
}

/* With a copy of it, so that nothing of this chunk stays. */
static void prove_coded(const coffer__unpacker *reader, const prove_stream *stream)
{
    coffer_error err;
    uint8_t index[COFFER__PACKED_TABLE_SIZE + COFFER__PACKED_RECORD_SIZE];
    const coffer__packed_head head = prove_head_of(1, false, stream->elements, 1);
    coffer__unpacker *unpacker = prove_block(sizeof *unpacker);
    uint8_t *elements = prove_block((size_t)stream->elements);
    memcpy(unpacker, reader, sizeof *unpacker);
    unpacker->head = &head;
    unpacker->index = index;
    prove_put_table(index);
    prove_put_record(index + COFFER__PACKED_TABLE_SIZE, stream->size, COFFER__PLANE_HUFF);
    uint8_t *bytes = prove_coded_bytes(stream);
    coffer__unpack_chunk(unpacker, 0, bytes, elements, &err);
    free(bytes);
    free(elements);
    free(unpacker);
}

int main(void)
{
    if (prove_is_mine(0)) {
        prove_plain(1, true, 65);
        prove_plain(1, false, 3);
        prove_plain(2, false, 17);
        prove_plain(4, false, 5);
        prove_plain(8, false, 2);
    }
    if (prove_is_mine(1)) {
        const coffer__unpacker *reader = prove_reader();
        //@ loop unroll 20;
        for (size_t i = 0; i < sizeof prove_streams / sizeof prove_streams[0]; i++) {
            prove_coded(reader, &prove_streams[i]);
        }
    }
    return 0;
}
