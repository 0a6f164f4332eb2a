/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packed file (docs/packed.md) as the file that was packed: a source whose bytes are those of the original, decoded as they
 * are read, and the original's table. Whatever reads a shard needs to know nothing of packing.
 *
 * Only whole chunks are decoded, and each is verified, so that a byte is handed out as it was or not at all. What is known of a
 * packed tensor, 24 bytes a chunk, is read when the tensor is first wanted and kept until the source is closed. A read takes a
 * work area of at most 2 MiB, which later reads use again.
 */
#ifndef COFFER_MODEL_PACKED_FILE_H
#define COFFER_MODEL_PACKED_FILE_H

#include "coffer.h"
#include "source.h"

/* The keys of a packed file's metadata. */
#define COFFER__PACKED_KEY "coffer.packed"
#define COFFER__PACKED_HEADER_KEY "coffer.header"

/* Whether the table is that of a packed file. */
bool coffer__packed_file_is(const coffer_table *table);
/* Fails with COFFER_ERR_PACKED if it is one: for what changes a file and cannot keep it packed. */
coffer_status coffer__packed_file_refuse(const coffer_table *table, coffer_error *err);

/*
 * Replaces the source of a packed file by one of the original file's bytes, which owns it, and the table by the original's.
 * `parse` is how the file's own header was read; `unpacked_limit`, as in coffer_open_options. After a failure both are as before.
 */
coffer_status coffer__packed_file_open(coffer__byte_source *source, coffer_table **table,
                                       const coffer_parse_options *parse, uint64_t unpacked_limit,
                                       const coffer_allocator *allocator, coffer_error *err);
/* Gives back the source of the packed file itself, if it is one of the original's bytes. */
void coffer__packed_file_close(coffer__byte_source *source);
/* Bytes of the packed file, and those of a tensor in it (0: it is not packed); `offset` is the tensor's in the original. */
uint64_t coffer__packed_file_size(const coffer__byte_source *source);
uint64_t coffer__packed_file_tensor_size(const coffer__byte_source *source, uint64_t offset, uint64_t size);
/* The SHA-256 of the original, as it is recorded (NULL: not wanted); false if the source is of no packed file. */
bool coffer__packed_file_sha256(const coffer__byte_source *source, uint8_t digest[32]);
/* Fails with COFFER_ERR_NOT_PACKED, for a file that is plain. */
coffer_status coffer__packed_file_plain(const coffer *model, size_t shard, coffer_error *err);
/* The SHA-256 of a shard's file: of a packed one, of the original, all of which is decoded. */
coffer_status coffer__shard_sha256(const coffer *model, size_t shard, const coffer_digest_options *options,
                                   uint8_t digest[32], coffer_error *err);

#endif
