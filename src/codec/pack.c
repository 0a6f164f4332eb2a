/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks, encoded by a plan, and the head that describes them. */
#include "pack.h"

#include "bytes.h"
#include "xxh3_64.h"

/* A plane's bytes are all equal. */
static bool pack_is_constant(const uint8_t *plane, size_t count)
{
    return count > 0 && memcmp(plane, plane + 1, count - 1) == 0;
}

/* Writes the streams of a plane; returns their bytes. */
static size_t pack_streams(const coffer__code_writer *writer, const uint8_t *plane, size_t count, uint8_t *out)
{
    size_t size = COFFER__PACKED_STREAM_HEAD;
    memset(out, 0, size);
    for (size_t stream = 0; stream * COFFER__PACKED_STREAM < count; stream++) {
        const size_t at = stream * COFFER__PACKED_STREAM;
        const size_t symbols = count - at < COFFER__PACKED_STREAM ? count - at : COFFER__PACKED_STREAM;
        const size_t length = coffer__code_write(writer, plane + at, symbols, out + size);
        out[2 * stream] = (uint8_t)length;
        out[2 * stream + 1] = (uint8_t)(length >> 8);
        size += length;
    }
    return size;
}

static size_t pack_raw(bool nibbles, const uint8_t *plane, size_t count, uint8_t *out)
{
    if (nibbles) {
        coffer__halves_pack(plane, count, out);
        return COFFER__HALVES_SIZE(count);
    }
    memcpy(out, plane, count);
    return count;
}

/* Encodes a plane as what takes the least, coded only where that saves a fiftieth. Returns its bytes. */
static size_t pack_plane(coffer__packer *packer, const coffer__pack_plan *plan, unsigned plane, size_t count,
                         const uint8_t *lengths, uint8_t *out, coffer__packed_mode *mode)
{
    const uint8_t *bytes = packer->planes[plane];
    const size_t raw_size = plan->layout.nibbles ? COFFER__HALVES_SIZE(count) : count;
    if (pack_is_constant(bytes, count)) {
        *mode = COFFER__PLANE_CONST;
        out[0] = bytes[0];
        return 1;
    }
    if (lengths != NULL) {
        coffer__code_writer_init(&packer->writer, lengths);
        const size_t size = pack_streams(&packer->writer, bytes, count, out);
        if (size < raw_size - raw_size / 50) {
            *mode = COFFER__PLANE_HUFF;
            return size;
        }
    }
    *mode = COFFER__PLANE_RAW;
    return pack_raw(plan->layout.nibbles, bytes, count, out);
}

size_t coffer__pack_chunk(coffer__packer *packer, const coffer__pack_plan *plan, uint64_t chunk,
                          const uint8_t *elements, uint8_t *out, uint8_t record[COFFER__PACKED_RECORD_SIZE])
{
    const uint64_t left = plan->elements - chunk * COFFER__PACKED_CHUNK;
    const size_t count = left < COFFER__PACKED_CHUNK ? (size_t)left : COFFER__PACKED_CHUNK;
    const unsigned planes = coffer__packed_plane_count(&plan->layout);
    uint8_t *split[COFFER__PLANES_MAX];
    for (unsigned plane = 0; plane < COFFER__PLANES_MAX; plane++) {
        split[plane] = packer->planes[plane];
    }
    coffer__planes_split(&plan->layout, elements, count, split);
    memset(record, 0, COFFER__PACKED_RECORD_SIZE);
    size_t size = 0;
    for (unsigned plane = 0; plane < planes; plane++) {
        const unsigned which = plane + 1 == planes ? 0 : 1;
        const uint8_t table = plan->segment_tables[chunk / plan->segment_chunks][which];
        coffer__packed_mode mode = COFFER__PLANE_RAW;
        size += pack_plane(packer, plan, plane, count, (plan->coded >> plane & 1) != 0 ? plan->lengths[table] : NULL,
                           out + size, &mode);
        if (mode == COFFER__PLANE_HUFF) {
            record[2 + which] = table;
        }
        record[4 + plane / 2] |= (uint8_t)((unsigned)mode << (plane % 2 * 4));
    }
    for (; size % COFFER__PACKED_CHUNK_ALIGNMENT != 0; size++) {
        out[size] = 0;
    }
    const size_t sixteenths = size / COFFER__PACKED_CHUNK_ALIGNMENT;
    record[0] = (uint8_t)sixteenths;
    record[1] = (uint8_t)(sixteenths >> 8);
    coffer__store_u64le(record + 8, coffer__xxh3_64(elements, count * plan->layout.element_size));
    return size;
}

uint64_t coffer__pack_index_size(const coffer__pack_plan *plan)
{
    return COFFER__PACKED_HEAD_SIZE + (uint64_t)plan->tables * COFFER__PACKED_TABLE_SIZE +
           coffer__packed_chunk_count(plan->elements) * COFFER__PACKED_RECORD_SIZE;
}

uint64_t coffer__pack_whole_size(uint64_t used)
{
    const uint64_t least = used + COFFER__PACKED_END_ZEROS + COFFER__PACKED_ALIGNMENT - 1;
    return least - least % COFFER__PACKED_ALIGNMENT;
}

static void pack_store(uint8_t *bytes, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

void coffer__pack_finish(const coffer__pack_plan *plan, uint64_t used, uint8_t *bytes)
{
    memset(bytes, 0, COFFER__PACKED_HEAD_SIZE);
    memcpy(bytes, COFFER__PACKED_MAGIC, 8);
    bytes[8] = 1;
    bytes[10] = plan->layout.element_size;
    bytes[11] = (uint8_t)coffer__packed_plane_count(&plan->layout);
    bytes[12] = plan->layout.rotate;
    bytes[13] = (uint8_t)plan->tables;
    pack_store(bytes + 16, coffer__packed_chunk_count(plan->elements), 4);
    pack_store(bytes + 24, plan->elements, 8);
    pack_store(bytes + 32, used, 8);
    uint8_t *tables = bytes + COFFER__PACKED_HEAD_SIZE;
    for (size_t i = 0; i < (size_t)plan->tables * COFFER__PACKED_TABLE_SIZE; i++) {
        const uint8_t *lengths = plan->lengths[i / COFFER__PACKED_TABLE_SIZE];
        const size_t symbol = i % COFFER__PACKED_TABLE_SIZE * 2;
        tables[i] = (uint8_t)(lengths[symbol] | lengths[symbol + 1] << 4);
    }
    const size_t index_size = (size_t)coffer__pack_index_size(plan) - COFFER__PACKED_HEAD_SIZE;
    pack_store(bytes + COFFER__PACKED_CHECKSUM_AT, coffer__packed_head_checksum(bytes, tables, index_size), 8);
}
