/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes packed tensors. Its first byte chooses what the rest is.
 *
 *   even   a packed tensor, of whatever its head says that it is of; the checksum of its head is made right, so that what is
 *          behind it is reached. Whatever it is, it is decoded or refused, and streams alone are the same as all of them.
 *   odd    elements, of a dtype that the second byte chooses. They are packed, and have to come back.
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "bytes.h"
#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "pack.h"
#include "packed.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static coffer__unpacker unpacker;
static uint8_t whole[COFFER__PACKED_CHUNK * COFFER__PLANES_MAX];
static uint8_t part[COFFER__PACKED_CHUNK * COFFER__PLANES_MAX];

/* Decodes chunk by chunk, to the end or the first that is damaged. */
static coffer_status decode(const coffer__packed_head *head, const uint8_t *packed, uint8_t *elements)
{
    const uint8_t *index = packed + COFFER__PACKED_HEAD_SIZE;
    const uint8_t *chunk_bytes = index + coffer__packed_index_size(head);
    coffer__unpacker_init(&unpacker, head, index);
    for (uint64_t chunk = 0; chunk < head->chunks; chunk++) {
        const size_t count = coffer__packed_chunk_elements(head, chunk);
        const size_t streams = (count + COFFER__PACKED_STREAM - 1) / COFFER__PACKED_STREAM;
        uint8_t *to = elements == NULL ? whole : elements + chunk * COFFER__PACKED_CHUNK * head->layout.element_size;
        const coffer_status status =
            coffer__unpack_streams(&unpacker, chunk, chunk_bytes, 0, streams, elements != NULL, to, NULL);
        if (status != COFFER_OK) {
            return status;
        }
        const size_t last = (streams - 1) * COFFER__PACKED_STREAM;
        expect(coffer__unpack_streams(&unpacker, chunk, chunk_bytes, streams - 1, 1, false, part, NULL) == COFFER_OK,
               "a stream of a chunk that is whole can be decoded alone");
        expect(memcmp(part, to + last * head->layout.element_size, (count - last) * head->layout.element_size) == 0,
               "and is the same");
        chunk_bytes += coffer__packed_read_record(head, index, chunk).size;
    }
    return COFFER_OK;
}

static void try_packed(const uint8_t *bytes, size_t size)
{
    if (size < COFFER__PACKED_HEAD_SIZE || size > 65536 || size % COFFER__PACKED_ALIGNMENT != 0) {
        return;
    }
    static uint8_t packed[65536];
    memcpy(packed, bytes, size);
    const coffer_dtype dtypes[] = { COFFER_I8, COFFER_BF16, COFFER_F32, COFFER_I64 };
    const coffer_dtype dtype = dtypes[packed[10] < 2 ? 0 : packed[10] < 4 ? 1 : packed[10] < 8 ? 2 : 3];
    const uint64_t elements = coffer__load_u64le(packed + 24);
    const unsigned element = coffer__packed_layout_of(dtype).element_size;
    if (elements > UINT64_MAX / element) {
        return;
    }
    coffer__packed_head head;
    coffer_error err;
    if (coffer__packed_read_head(packed, dtype, elements * element, 0, size, &head, &err) != COFFER_OK) {
        expect(err.code == COFFER_ERR_PACK_HEAD, "a head is refused as one");
        return;
    }
    const size_t index_size = (size_t)coffer__packed_index_size(&head);
    const uint8_t *index = packed + COFFER__PACKED_HEAD_SIZE;
    coffer__store_u64le(packed + COFFER__PACKED_CHECKSUM_AT, coffer__packed_head_checksum(packed, index, index_size));
    const uint8_t *edge = guarded_copy(packed, size);
    if (coffer__packed_check_index(&head, edge, edge + COFFER__PACKED_HEAD_SIZE, &err) == COFFER_OK) {
        (void)decode(&head, edge, NULL);
    }
}

static size_t pack(coffer_dtype dtype, const uint8_t *elements, size_t size, uint8_t *packed)
{
    static coffer__packer packer;
    static coffer__pack_plan plan;
    static coffer__pack_counts counts[2];
    static uint8_t encoded[COFFER__PACK_CHUNK_MAX(COFFER__PLANES_MAX)];
    const size_t count = size / coffer__packed_layout_of(dtype).element_size;
    memset(&counts[0], 0, sizeof counts[0]);
    if (count > 0) {
        coffer__pack_count(&packer, dtype, elements, count, &counts[0]);
    }
    coffer__pack_decide(dtype, count, &counts[0], &counts[1], &plan);
    size_t used = (size_t)coffer__pack_index_size(&plan);
    if (count > 0) {
        uint8_t *record = packed + used - COFFER__PACKED_RECORD_SIZE;
        const size_t chunk_size = coffer__pack_chunk(&packer, &plan, 0, elements, encoded, record);
        memcpy(packed + used, encoded, chunk_size);
        used += chunk_size;
    }
    coffer__pack_finish(&plan, used, packed);
    const size_t packed_size = (size_t)coffer__pack_whole_size(used);
    memset(packed + used, 0, packed_size - used);
    return packed_size;
}

static void try_elements(const uint8_t *bytes, size_t size)
{
    static uint8_t packed[1 << 20];
    const coffer_dtype dtypes[] = { COFFER_BF16, COFFER_F32, COFFER_F8_E4M3, COFFER_I64, COFFER_U8 };
    if (size < 1 || size > 65536) {
        return;
    }
    const coffer_dtype dtype = dtypes[bytes[0] % 5];
    const size_t element = coffer__packed_layout_of(dtype).element_size;
    const size_t tensor_size = (size - 1) / element * element;
    const size_t packed_size = pack(dtype, bytes + 1, tensor_size, packed);
    coffer__packed_head head;
    static uint8_t back[65536];
    const uint8_t *edge = guarded_copy(packed, packed_size);
    expect(coffer__packed_read_head(edge, dtype, tensor_size, 0, packed_size, &head, NULL) == COFFER_OK &&
               coffer__packed_check_index(&head, edge, edge + COFFER__PACKED_HEAD_SIZE, NULL) == COFFER_OK &&
               decode(&head, edge, back) == COFFER_OK,
           "what was packed can be unpacked");
    expect(memcmp(back, bytes + 1, tensor_size) == 0, "and comes back");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size > 0 && bytes[0] % 2 == 0) {
        try_packed(bytes + 1, size - 1);
    } else if (size > 0) {
        try_elements(bytes + 1, size - 1);
    }
    return 0;
}
