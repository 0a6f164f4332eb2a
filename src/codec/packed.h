/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packed tensor: its elements without loss in fewer bytes, as docs/packed.md describes them. All numbers are little-endian.
 *
 *     head      64 bytes
 *     tables    128 bytes each: the lengths of a code for 256 symbols, half a byte each
 *     records   16 bytes for each chunk of 65,536 elements
 *     chunks    one after another, each a multiple of 16 bytes
 *     zeros     at least 16, up to a multiple of 64 bytes
 *
 *     head     0  8 "cofferPK"                     record  0  2 bytes of the chunk, divided by 16
 *              8  1 version, 1                             2  1 number of the top plane's table
 *              9  1 kind: 0 values                         3  1 number of the other planes' table
 *             10  1 bytes of an element                    4  4 modes of the planes, 4 bits each, the lowest plane first
 *             11  1 planes                                 8  8 XXH3-64 of the elements' bytes
 *             12  1 rotation: 0 or 1
 *             13  1 tables                         chunk   of each plane, the lowest first, by its mode:
 *             14  2 zero                                   RAW    its bytes
 *             16  4 chunks                                 CONST  one byte
 *             20  4 zero                                   HUFF   32 lengths of 2 bytes, and 32 streams of these lengths,
 *             24  8 elements                                      each of 2,048 symbols
 *             32  8 bytes used: all but the zeros          and zeros
 *             40 16 zero
 *             56  8 XXH3-64 of this head, with the XXH3-64 of tables and records in the place of these 8 bytes
 *
 * Nothing here is allocated: the caller lends work areas of fixed sizes. Offsets within a tensor are sums of lengths, so that
 * no overlap can be expressed, and one description is one arrangement of bytes: what is not used has to be zero.
 */
#ifndef COFFER_CODEC_PACKED_H
#define COFFER_CODEC_PACKED_H

#include "coffer.h"
#include "huffman.h"
#include "packed_planes.h"

#define COFFER__PACKED_CHUNK 65536u /* elements */
#define COFFER__PACKED_STREAM 2048u /* symbols */
#define COFFER__PACKED_STREAMS (COFFER__PACKED_CHUNK / COFFER__PACKED_STREAM)
#define COFFER__PACKED_STREAM_HEAD ((size_t)2 * COFFER__PACKED_STREAMS)
#define COFFER__PACKED_MAGIC "cofferPK"
#define COFFER__PACKED_HEAD_SIZE 64u
#define COFFER__PACKED_CHECKSUM_AT 56u
#define COFFER__PACKED_TABLE_SIZE 128u
#define COFFER__PACKED_RECORD_SIZE 16u
#define COFFER__PACKED_TABLES 255u
#define COFFER__PACKED_CHUNK_ALIGNMENT 16u
#define COFFER__PACKED_ALIGNMENT 64u
#define COFFER__PACKED_END_ZEROS 16u

/* How a chunk stores a plane. 3 to 6 are for residuals against another tensor, which no version has yet. */
typedef enum coffer__packed_mode {
    COFFER__PLANE_RAW = 0,
    COFFER__PLANE_CONST = 1,
    COFFER__PLANE_HUFF = 2,
    COFFER__PLANE_MODES = 3
} coffer__packed_mode;

/* What a head says, and where the packed tensor lies in its file, for messages. */
typedef struct coffer__packed_head {
    coffer__packed_layout layout;
    uint32_t tables;
    uint32_t chunks;
    uint64_t elements;
    uint64_t used;
    uint64_t offset;
} coffer__packed_head;

/* A record, read. */
typedef struct coffer__packed_record {
    size_t size;       /* of the chunk, in bytes */
    uint8_t tables[2]; /* of the top plane, and of the others */
    uint32_t modes;    /* 4 bits a plane */
    uint64_t checksum;
} coffer__packed_record;

/* How the elements of a dtype are cut: what is smaller than a byte, by bytes; complex numbers, as their two parts. */
coffer__packed_layout coffer__packed_layout_of(coffer_dtype dtype);
/* Chunks of so many elements. */
uint64_t coffer__packed_chunk_count(uint64_t elements);
/* Elements of a chunk: of the last one, what is left. */
size_t coffer__packed_chunk_elements(const coffer__packed_head *head, uint64_t chunk);
/* Bytes of tables and records, which follow the head. */
uint64_t coffer__packed_index_size(const coffer__packed_head *head);

/* ---- packed_head.c: reading ---------------------------------------------------------------------------------------- */

/*
 * Reads the head of a packed tensor of `size` bytes at `offset` of its file, which has to stand for `tensor_size` bytes of the
 * dtype. COFFER_ERR_PACK_HEAD. All sizes that it says are bounded by these two afterwards.
 */
coffer_status coffer__packed_read_head(const uint8_t bytes[COFFER__PACKED_HEAD_SIZE], coffer_dtype dtype,
                                       uint64_t tensor_size, uint64_t offset, uint64_t size, coffer__packed_head *head,
                                       coffer_error *err);
/* Checks tables and records: COFFER_ERR_PACK_TABLE, COFFER_ERR_PACK_CODE. `index` has coffer__packed_index_size bytes. */
coffer_status coffer__packed_check_index(const coffer__packed_head *head, const uint8_t bytes[COFFER__PACKED_HEAD_SIZE],
                                         const uint8_t *index, coffer_error *err);
coffer__packed_record coffer__packed_read_record(const coffer__packed_head *head, const uint8_t *index, uint64_t chunk);
/* The lengths of table `number`. */
void coffer__packed_read_table(const uint8_t *index, size_t number, uint8_t lengths[COFFER__CODE_SYMBOLS]);
/* The checksum of a head, which it does not matter whether it stands there already. */
uint64_t coffer__packed_head_checksum(const uint8_t bytes[COFFER__PACKED_HEAD_SIZE], const uint8_t *index,
                                      size_t index_size);
/* Whether the `size` bytes after the last chunk are zero: COFFER_ERR_PACK_STREAM. */
coffer_status coffer__packed_check_zeros(const coffer__packed_head *head, const uint8_t *bytes, size_t size,
                                         coffer_error *err);

/* ---- unpack.c: chunks to elements ------------------------------------------------------------------------------- */

/* The symbols of one stream of one plane, with space for what is written after them. */
#define COFFER__UNPACK_LANE (COFFER__PACKED_STREAM + 64)

/* A work area of one thread, and the tables that were used last. About 100 KiB. */
typedef struct coffer__unpacker {
    const coffer__packed_head *head;
    const uint8_t *index;
    unsigned loaded[2]; /* numbers of the tables in `readers`; COFFER__PACKED_TABLES: none */
    coffer__code_reader readers[2];
    uint32_t starts[COFFER__PLANES_MAX][COFFER__PACKED_STREAMS + 1]; /* of streams, or of the plane's bytes */
    uint8_t lanes[COFFER__PLANES_MAX][4][COFFER__UNPACK_LANE];
} coffer__unpacker;

/* For the tensor of a head and an index that were checked; both are borrowed. */
void coffer__unpacker_init(coffer__unpacker *unpacker, const coffer__packed_head *head, const uint8_t *index);
/*
 * Decodes `stream_count` streams of a chunk from `first_stream` on, that is 2048 elements each (of the last as many as there
 * are), to `elements`. `bytes` are the chunk's, and COFFER__CODE_SLACK more are readable. All of the chunk's lengths are
 * checked, and its checksum if `verify` is set and all streams are wanted. COFFER_ERR_PACK_STREAM,
 * COFFER_ERR_PACK_CHECKSUM.
 */
coffer_status coffer__unpack_streams(coffer__unpacker *unpacker, uint64_t chunk, const uint8_t *bytes,
                                     size_t first_stream, size_t stream_count, bool verify, uint8_t *elements,
                                     coffer_error *err);
/* All of a chunk, and verifies it. */
coffer_status coffer__unpack_chunk(coffer__unpacker *unpacker, uint64_t chunk, const uint8_t *bytes, uint8_t *elements,
                                   coffer_error *err);

#endif
