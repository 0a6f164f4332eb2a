/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of keys and values, as LevelDB has it and TensorFlow's checkpoints use it, without compression:
 *
 *   data blocks | … | the block of the index | its handle and another one's, filled up to 40 bytes | magic 8
 *   block:      entries | restarts 4 each | how many 4 | compression 1 (0: none) | masked CRC-32C 4, of all before it
 *   entry:      shared varint | new varint | bytes of the value varint | the new end of the key | value
 *   handle:     offset varint | size varint, without the five bytes at the end
 *
 * A key begins with as many bytes of the one before it as `shared` says; at a restart with none. The index has an entry for
 * each block, whose value is its handle. Keys come in order, each once, and blocks lie one after another.
 */
#ifndef COFFER_TENSORFLOW_TF_TABLE_H
#define COFFER_TENSORFLOW_TF_TABLE_H

#include "bytes.h"
#include "crc32.h"
#include "reader.h"

#define COFFER__TF_FOOTER 48u
#define COFFER__TF_MAX_KEY ((size_t)65536)
#define COFFER__TF_MAX_BLOCK ((uint64_t)64 << 20)

/* An entry. Borrowed until the next one. */
typedef struct coffer__tf_entry {
    const uint8_t *key;
    size_t key_len;
    coffer__cursor value;
    uint64_t at; /* of the value in the file */
} coffer__tf_entry;

/* What looks at each entry. */
typedef coffer_status coffer__tf_look(void *ctx, const coffer__tf_entry *entry, coffer_error *err);

/* Whether a file ends as a table does. */
bool coffer__tf_table_is(const uint8_t *tail, size_t tail_size);
/* Has all entries looked at, in order. COFFER_ERR_DAMAGED, COFFER_ERR_CHECKSUM, COFFER_ERR_UNSUPPORTED for compression. */
coffer_status coffer__tf_table_read(const coffer__input_files *input, const coffer_allocator *allocator,
                                    coffer__tf_look *look, void *ctx, coffer_error *err);
/* The next number of a message or a table: seven bits a byte, the lowest first; false when it is cut, or beyond 2^64-1. */
bool coffer__tf_varint(coffer__cursor *in, uint64_t *number);
/* From a CRC as it is stored, to the CRC. */
uint32_t coffer__tf_unmask(uint32_t masked);

#endif
