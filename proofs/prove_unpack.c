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

static void prove_unpack(const coffer__packed_head *head, uint32_t modes, const uint8_t *bytes, size_t size)
{
    coffer_error err;
    uint8_t *index = prove_block((size_t)coffer__packed_index_size(head));
    coffer__unpacker *unpacker = prove_block(sizeof *unpacker);
    uint8_t *elements = prove_block((size_t)head->elements * head->layout.element_size);
    if (head->tables > 0) {
        prove_put_table(index);
    }
    prove_put_record(index + head->tables * COFFER__PACKED_TABLE_SIZE, size, modes);
    coffer__unpacker_init(unpacker, head, index);
    coffer__unpack_chunk(unpacker, 0, bytes, elements, &err);
    free(elements);
    free(unpacker);
    free(index);
}

/* Planes that are not coded, of any bytes, in chunks of every size that they could have. */
static void prove_plain(uint8_t element_size, bool nibbles, uint64_t elements)
{
    const coffer__packed_head head = prove_head_of(element_size, nibbles, elements, 0);
    const uint32_t constant = nibbles ? 0x11 : element_size == 8 ? 0x11111111 : (1u << (4 * element_size)) / 15;
    //@ loop unroll 12;
    for (size_t size = 0; size <= 160; size += COFFER__PACKED_CHUNK_ALIGNMENT) {
        const uint8_t *bytes = prove_bytes(size + COFFER__CODE_SLACK);
        prove_unpack(&head, 0, bytes, size);
        prove_unpack(&head, constant, bytes, size);
        prove_unpack(&head, 1, bytes, size);
    }
}

/*
 * One coded plane of so many elements, whose first stream says that it has `length` bytes, the second `second`. Its bytes are `pattern`
 * again and again, but for the first, which may be any.
 */
static void prove_coded(uint64_t elements, size_t length, size_t second, uint8_t pattern, size_t size)
{
    const coffer__packed_head head = prove_head_of(1, false, elements, 1);
    uint8_t *bytes = prove_block(size + COFFER__CODE_SLACK);
    memset(bytes, 0, size < COFFER__PACKED_STREAM_HEAD ? size : COFFER__PACKED_STREAM_HEAD);
    if (size > COFFER__PACKED_STREAM_HEAD) {
        memset(bytes + COFFER__PACKED_STREAM_HEAD, pattern, size - COFFER__PACKED_STREAM_HEAD);
        bytes[COFFER__PACKED_STREAM_HEAD] = (uint8_t)prove_each(0, 255);
    }
    memset(bytes + size, 0xFF, COFFER__CODE_SLACK);
    if (size > 3) {
        bytes[0] = (uint8_t)length;
        bytes[1] = (uint8_t)(length >> 8);
        bytes[2] = (uint8_t)second;
    }
    prove_unpack(&head, COFFER__PLANE_HUFF, bytes, size);
    free(bytes);
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
        prove_coded(3, 1, 0, 0, 80);
        prove_coded(3, 2, 0, 0, 80);
        prove_coded(3, 0, 0, 0, 80);
        prove_coded(3, 16, 0, 0xFF, 80);
        prove_coded(3, 17, 0, 0xFF, 80);
        prove_coded(3, 0xFFFF, 0, 0xFF, 80);
        prove_coded(3, 1, 1, 0, 80);
        prove_coded(3, 1, 0, 0, 48);
        prove_coded(3, 1, 0, 0, 96);
        prove_coded(30, 8, 0, 0x55, 80);
    }
    return 0;
}
