/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks to elements. First all lengths of a chunk are checked and where each stream begins is noted, so that whatever follows
 * stays within it. Then four streams at a time: their symbols go to the work area, plane by plane, and the planes are merged
 * to elements there, while they are in the first-level cache.
 */
#include "packed.h"

#include "bytes.h"
#include "error.h"
#include "xxh3_64.h"

/* A chunk that is being decoded. */
typedef struct unpack_chunk {
    coffer__unpacker *unpacker;
    const uint8_t *bytes;
    coffer__packed_record record;
    uint64_t number;
    size_t elements;
    unsigned planes;
} unpack_chunk;

void coffer__unpacker_init(coffer__unpacker *unpacker, const coffer__packed_head *head, const uint8_t *index)
{
    unpacker->head = head;
    unpacker->index = index;
    unpacker->loaded[0] = COFFER__PACKED_TABLES;
    unpacker->loaded[1] = COFFER__PACKED_TABLES;
}

/* Where the trouble is cannot be told by one byte: the offset is the chunk's. */
static coffer_status unpack_fail(const unpack_chunk *chunk, coffer_status code, const char *what, coffer_error *err)
{
    const coffer__packed_head *head = chunk->unpacker->head;
    uint64_t offset = head->offset + COFFER__PACKED_HEAD_SIZE + coffer__packed_index_size(head);
    for (uint64_t i = 0; i < chunk->number; i++) {
        offset += coffer__packed_read_record(head, chunk->unpacker->index, i).size;
    }
    return coffer__fail_at(err, code, offset, "chunk %u of a packed tensor is damaged: %s; get the file again",
                           chunk->number, what);
}

static unsigned unpack_mode(const unpack_chunk *chunk, unsigned plane)
{
    return chunk->record.modes >> (4 * plane) & 15;
}

/* Symbols of a stream of the chunk; 0 for streams after its last element. */
static size_t unpack_stream_count(const unpack_chunk *chunk, size_t stream)
{
    const size_t before = stream * COFFER__PACKED_STREAM;
    if (before >= chunk->elements) {
        return 0;
    }
    const size_t left = chunk->elements - before;
    return left < COFFER__PACKED_STREAM ? left : COFFER__PACKED_STREAM;
}

/* Notes where the streams of a plane begin, from `at` on; *end is where they end. Whether they lie in the chunk. */
static bool unpack_find_streams(const unpack_chunk *chunk, unsigned plane, size_t at, size_t *end)
{
    uint32_t *starts = chunk->unpacker->starts[plane];
    if (COFFER__PACKED_STREAM_HEAD > chunk->record.size - at) {
        return false;
    }
    size_t position = at + COFFER__PACKED_STREAM_HEAD;
    for (size_t stream = 0; stream < COFFER__PACKED_STREAMS; stream++) {
        const size_t length = coffer__load_u16le(chunk->bytes + at + 2 * stream);
        if (length > chunk->record.size - position || (length > 0) != (unpack_stream_count(chunk, stream) > 0)) {
            return false;
        }
        starts[stream] = (uint32_t)position;
        position += length;
    }
    starts[COFFER__PACKED_STREAMS] = (uint32_t)position;
    *end = position;
    return true;
}

/* Finds every plane of the chunk, and sees that nothing else is in it but less than 16 zeros. */
static coffer_status unpack_find_planes(const unpack_chunk *chunk, coffer_error *err)
{
    const bool nibbles = chunk->unpacker->head->layout.nibbles;
    const size_t raw_size = nibbles ? COFFER__HALVES_SIZE(chunk->elements) : chunk->elements;
    size_t at = 0;
    for (unsigned plane = 0; plane < chunk->planes; plane++) {
        size_t end = at;
        chunk->unpacker->starts[plane][0] = (uint32_t)at;
        if (unpack_mode(chunk, plane) == COFFER__PLANE_HUFF) {
            if (!unpack_find_streams(chunk, plane, at, &end)) {
                return unpack_fail(chunk, COFFER_ERR_PACK_STREAM, "the lengths of its streams lead out of it", err);
            }
        } else {
            const size_t size = unpack_mode(chunk, plane) == COFFER__PLANE_RAW ? raw_size : 1;
            if (size > chunk->record.size - at) {
                return unpack_fail(chunk, COFFER_ERR_PACK_STREAM, "it is shorter than its planes", err);
            }
            end = at + size;
        }
        at = end;
    }
    if (chunk->record.size - at >= COFFER__PACKED_CHUNK_ALIGNMENT) {
        return unpack_fail(chunk, COFFER_ERR_PACK_STREAM, "it is longer than its planes", err);
    }
    for (; at < chunk->record.size; at++) {
        if (chunk->bytes[at] != 0) {
            return unpack_fail(chunk, COFFER_ERR_PACK_STREAM, "bytes after its planes are not zero", err);
        }
    }
    return COFFER_OK;
}

/* The table of a plane, made if another one was used last. */
static const coffer__code_reader *unpack_reader(const unpack_chunk *chunk, unsigned plane)
{
    coffer__unpacker *unpacker = chunk->unpacker;
    const unsigned which = plane + 1 == chunk->planes ? 0 : 1;
    const unsigned number = chunk->record.tables[which];
    if (unpacker->loaded[which] != number) {
        uint8_t lengths[COFFER__CODE_SYMBOLS];
        coffer__packed_read_table(unpacker->index, number, lengths);
        coffer__code_reader_init(&unpacker->readers[which], lengths);
        unpacker->loaded[which] = number;
    }
    return &unpacker->readers[which];
}

/* The symbols of `count` streams (at most 4) of a coded plane, into its lanes. */
static bool unpack_read_streams(const unpack_chunk *chunk, unsigned plane, size_t first, size_t count)
{
    const uint32_t *starts = chunk->unpacker->starts[plane];
    coffer__code_stream streams[4];
    for (size_t i = 0; i < count; i++) {
        streams[i] = (coffer__code_stream){ .at = starts[first + i],
                                            .end = starts[first + i + 1],
                                            .out = chunk->unpacker->lanes[plane][i],
                                            .count = unpack_stream_count(chunk, first + i) };
    }
    return coffer__code_read(unpack_reader(chunk, plane), chunk->bytes, streams, count) == count;
}

/* Whether no symbol has a bit of `bits`. */
static bool unpack_lacks(const uint8_t *symbols, size_t count, uint8_t bits)
{
    uint8_t all = 0;
    for (size_t i = 0; i < count; i++) {
        all |= symbols[i];
    }
    return (all & bits) == 0;
}

/* The bytes of a plane for one stream: where they lie, or lane `lane`, which they are brought to. NULL if they are halves that
   are above 15, or go on after the last. */
static const uint8_t *unpack_plane(const unpack_chunk *chunk, unsigned plane, size_t stream, size_t lane)
{
    const bool nibbles = chunk->unpacker->head->layout.nibbles;
    const unsigned mode = unpack_mode(chunk, plane);
    const size_t count = unpack_stream_count(chunk, stream);
    const uint8_t *bytes = chunk->bytes + chunk->unpacker->starts[plane][0];
    uint8_t *out = chunk->unpacker->lanes[plane][lane];
    if (mode == COFFER__PLANE_RAW && !nibbles) {
        return bytes + stream * COFFER__PACKED_STREAM;
    }
    if (mode == COFFER__PLANE_RAW) {
        coffer__halves_unpack(bytes + COFFER__HALVES_SIZE(stream * COFFER__PACKED_STREAM), count, out);
        return unpack_lacks(out + count, COFFER__HALVES_SIZE(count) * 2 - count, 0xFF) ? out : NULL;
    }
    if (mode == COFFER__PLANE_CONST) {
        memset(out, bytes[0], count);
    }
    return !nibbles || unpack_lacks(out, count, 0xF0) ? out : NULL;
}

/* `count` streams (at most 4) from `first` on, to `elements`. */
static coffer_status unpack_group(const unpack_chunk *chunk, size_t first, size_t count, uint8_t *elements,
                                  coffer_error *err)
{
    for (unsigned plane = 0; plane < chunk->planes; plane++) {
        if (unpack_mode(chunk, plane) == COFFER__PLANE_HUFF && !unpack_read_streams(chunk, plane, first, count)) {
            return unpack_fail(chunk, COFFER_ERR_PACK_STREAM, "a stream does not end with its symbols", err);
        }
    }
    const coffer__packed_layout *layout = &chunk->unpacker->head->layout;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *planes[COFFER__PLANES_MAX];
        for (unsigned plane = 0; plane < chunk->planes; plane++) {
            planes[plane] = unpack_plane(chunk, plane, first + i, i);
            if (planes[plane] == NULL) {
                return unpack_fail(chunk, COFFER_ERR_PACK_STREAM, "halves of bytes have bits that they cannot have",
                                   err);
            }
        }
        coffer__planes_merge(layout, planes, unpack_stream_count(chunk, first + i),
                             elements + i * COFFER__PACKED_STREAM * layout->element_size);
    }
    return COFFER_OK;
}

coffer_status coffer__unpack_streams(coffer__unpacker *unpacker, uint64_t chunk, const uint8_t *bytes,
                                     size_t first_stream, size_t stream_count, bool verify, uint8_t *elements,
                                     coffer_error *err)
{
    const coffer__packed_head *head = unpacker->head;
    const unpack_chunk this = { .unpacker = unpacker,
                                .bytes = bytes,
                                .record = coffer__packed_read_record(head, unpacker->index, chunk),
                                .number = chunk,
                                .elements = coffer__packed_chunk_elements(head, chunk),
                                .planes = coffer__packed_plane_count(&head->layout) };
    coffer_status status = unpack_find_planes(&this, err);
    for (size_t i = 0; i < stream_count && status == COFFER_OK; i += 4) {
        const size_t count = stream_count - i < 4 ? stream_count - i : 4;
        uint8_t *out = elements + i * COFFER__PACKED_STREAM * head->layout.element_size;
        status = unpack_group(&this, first_stream + i, count, out, err);
    }
    if (status == COFFER_OK && verify &&
        coffer__xxh3_64(elements, this.elements * head->layout.element_size) != this.record.checksum) {
        status = unpack_fail(&this, COFFER_ERR_PACK_CHECKSUM, "its elements do not match its checksum", err);
    }
    return status;
}

coffer_status coffer__unpack_chunk(coffer__unpacker *unpacker, uint64_t chunk, const uint8_t *bytes, uint8_t *elements,
                                   coffer_error *err)
{
    const size_t count = coffer__packed_chunk_elements(unpacker->head, chunk);
    const size_t streams = (count + COFFER__PACKED_STREAM - 1) / COFFER__PACKED_STREAM;
    return coffer__unpack_streams(unpacker, chunk, bytes, 0, streams, true, elements, err);
}
