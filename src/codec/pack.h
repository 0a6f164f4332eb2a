/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing a tensor, as packed.h describes the result. It is gone over twice, chunk by chunk: first its bytes are counted, and a
 * plan says which planes gain from which codes; then each chunk is encoded by itself, so that several threads may do so, in
 * any order. The same tensor gives the same bytes, however many they are.
 *
 * Codes belong to segments, which are runs of chunks: one code serves the whole tensor, unless a segment is smaller by half a
 * per cent with one of its own.
 */
#ifndef COFFER_CODEC_PACK_H
#define COFFER_CODEC_PACK_H

#include "packed.h"

#define COFFER__PACK_SEGMENTS 64u
#define COFFER__PACK_SEGMENT_CHUNKS 4u /* at least */

/* How often each byte occurs in each plane of a segment, halves not being split. */
typedef struct coffer__pack_counts {
    uint64_t planes[COFFER__PLANES_MAX][COFFER__CODE_SYMBOLS];
} coffer__pack_counts;

/* What is decided before the first chunk is encoded. */
typedef struct coffer__pack_plan {
    coffer__packed_layout layout;
    uint64_t elements;
    uint64_t segment_chunks;
    uint32_t coded; /* a bit for each plane that may be coded */
    uint32_t tables;
    uint8_t segment_tables[COFFER__PACK_SEGMENTS][2]; /* of the top plane, and of the others */
    uint8_t lengths[COFFER__PACKED_TABLES][COFFER__CODE_SYMBOLS];
    uint64_t estimate; /* about how many bytes it will be */
} coffer__pack_plan;

/* Chunks of each segment but the last. */
uint64_t coffer__pack_segment_chunks(uint64_t elements);
/* Segments of so many elements; at most COFFER__PACK_SEGMENTS. */
size_t coffer__pack_segment_count(uint64_t elements);

/* A work area of one thread. About 0.5 MiB. */
typedef struct coffer__packer {
    uint8_t planes[COFFER__PLANES_MAX][COFFER__PACKED_CHUNK];
    uint32_t counts[4][COFFER__CODE_SYMBOLS];
    coffer__code_writer writer;
} coffer__packer;

/* Adds `count` elements (at most a chunk) to what was counted of a segment. */
void coffer__pack_count(coffer__packer *packer, coffer_dtype dtype, const uint8_t *elements, size_t count,
                        coffer__pack_counts *counts);
/* Decides, from what was counted in all segments. `total` is used for sums. */
void coffer__pack_decide(coffer_dtype dtype, uint64_t elements, const coffer__pack_counts *segments,
                         coffer__pack_counts *total, coffer__pack_plan *plan);

/* The most bytes that a chunk can take while it is encoded, by the size of an element. */
#define COFFER__PACK_CHUNK_MAX(element_size)                                                                           \
    ((size_t)(element_size) * ((size_t)COFFER__PACKED_CHUNK / 8 * COFFER__CODE_BITS + COFFER__PACKED_STREAM_HEAD +     \
                               COFFER__PACKED_STREAMS) +                                                               \
     COFFER__PACKED_CHUNK_ALIGNMENT + COFFER__CODE_SLACK)
/* Encodes a chunk into `out`, of COFFER__PACK_CHUNK_MAX bytes, and writes its record. Returns its bytes. */
size_t coffer__pack_chunk(coffer__packer *packer, const coffer__pack_plan *plan, uint64_t chunk,
                          const uint8_t *elements, uint8_t *out, uint8_t record[COFFER__PACKED_RECORD_SIZE]);

/* Bytes of head, tables and records of a plan. */
uint64_t coffer__pack_index_size(const coffer__pack_plan *plan);
/* Bytes of the packed tensor whose head, index and chunks have `used` bytes. */
uint64_t coffer__pack_whole_size(uint64_t used);
/* Writes head and tables into `bytes`, of coffer__pack_index_size bytes, in which the records stand already: each is at the end,
   in order of the chunks. `used` is what is used in all. */
void coffer__pack_finish(const coffer__pack_plan *plan, uint64_t used, uint8_t *bytes);

#endif
