/* SPDX-License-Identifier: Apache-2.0 */
#include "support_packed.h"

#include "pack.h"
#include "packed.h"

#include <stdlib.h>
#include <string.h>

static void *must_have(size_t size)
{
    void *block = calloc(1, size);
    if (block == NULL) {
        abort();
    }
    return block;
}

/* What is counted of a tensor, and the plan that follows. */
static coffer__pack_plan *support_plan(coffer__packer *packer, coffer_dtype dtype, const uint8_t *elements,
                                       uint64_t count)
{
    const size_t element_size = coffer__packed_layout_of(dtype).element_size;
    coffer__pack_counts *segments = must_have((COFFER__PACK_SEGMENTS + 1) * sizeof *segments);
    coffer__pack_plan *plan = must_have(sizeof *plan);
    const uint64_t each = coffer__pack_segment_chunks(count);
    for (uint64_t chunk = 0; chunk < coffer__packed_chunk_count(count); chunk++) {
        const uint64_t left = count - chunk * COFFER__PACKED_CHUNK;
        const size_t now = left < COFFER__PACKED_CHUNK ? (size_t)left : COFFER__PACKED_CHUNK;
        const uint8_t *from = elements + (size_t)chunk * COFFER__PACKED_CHUNK * element_size;
        coffer__pack_count(packer, dtype, from, now, &segments[chunk / each]);
    }
    coffer__pack_decide(dtype, count, segments, &segments[COFFER__PACK_SEGMENTS], plan);
    free(segments);
    return plan;
}

uint8_t *support_pack(coffer_dtype dtype, const uint8_t *elements, size_t tensor_size, size_t *size)
{
    const size_t element_size = coffer__packed_layout_of(dtype).element_size;
    const uint64_t count = tensor_size / element_size;
    const size_t chunks = (size_t)coffer__packed_chunk_count(count);
    coffer__packer *packer = must_have(sizeof *packer);
    coffer__pack_plan *plan = support_plan(packer, dtype, elements, count);
    size_t used = (size_t)coffer__pack_index_size(plan);
    uint8_t *packed = must_have(used + chunks * COFFER__PACK_CHUNK_MAX(element_size) + 128);
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        uint8_t *record = packed + coffer__pack_index_size(plan) - (chunks - chunk) * COFFER__PACKED_RECORD_SIZE;
        const uint8_t *from = elements + chunk * COFFER__PACKED_CHUNK * element_size;
        used += coffer__pack_chunk(packer, plan, chunk, from, packed + used, record);
    }
    coffer__pack_finish(plan, used, packed);
    *size = (size_t)coffer__pack_whole_size(used);
    memset(packed + used, 0, *size - used);
    free(plan);
    free(packer);
    return packed;
}

coffer_status support_unpack(coffer_dtype dtype, const uint8_t *packed, size_t size, uint8_t *elements,
                             size_t tensor_size, coffer_error *err)
{
    coffer__packed_head head;
    if (size < COFFER__PACKED_HEAD_SIZE) {
        return COFFER_ERR_PACK_HEAD;
    }
    coffer_status status = coffer__packed_read_head(packed, dtype, tensor_size, 0, size, &head, err);
    const uint8_t *index = packed + COFFER__PACKED_HEAD_SIZE;
    if (status == COFFER_OK) {
        status = coffer__packed_check_index(&head, packed, index, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer__unpacker *unpacker = must_have(sizeof *unpacker);
    coffer__unpacker_init(unpacker, &head, index);
    size_t at = COFFER__PACKED_HEAD_SIZE + (size_t)coffer__packed_index_size(&head);
    for (uint64_t chunk = 0; chunk < head.chunks && status == COFFER_OK; chunk++) {
        uint8_t *to = elements + (size_t)chunk * COFFER__PACKED_CHUNK * head.layout.element_size;
        status = coffer__unpack_chunk(unpacker, chunk, packed + at, to, err);
        at += coffer__packed_read_record(&head, index, chunk).size;
    }
    free(unpacker);
    return status == COFFER_OK ? coffer__packed_check_zeros(&head, packed + at, size - at, err) : status;
}
