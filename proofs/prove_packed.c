/* SPDX-License-Identifier: Apache-2.0 */
/* Packed tensors: every head of every dtype; every index of up to two tables and two records. */
#include "packed.h"
#include "prove.h"

static void prove_head(coffer_dtype dtype)
{
    coffer_error err;
    coffer__packed_head head;
    const uint8_t *bytes = prove_bytes(COFFER__PACKED_HEAD_SIZE);
    if (coffer__packed_read_head(bytes, dtype, prove_u64(), prove_u64(), prove_u64(), &head, &err) == COFFER_OK) {
        coffer__packed_chunk_elements(&head, prove_size(0, UINT32_MAX));
        coffer__packed_index_size(&head);
    }
}

static void prove_index(uint32_t tables, uint64_t elements)
{
    coffer_error err;
    const coffer__packed_head head = { .layout = { 2, 1, false },
                                       .tables = tables,
                                       .chunks = (uint32_t)coffer__packed_chunk_count(elements),
                                       .elements = elements,
                                       .used = prove_u64() };
    const size_t size = (size_t)coffer__packed_index_size(&head);
    const uint8_t *index = size > 0 ? prove_bytes(size) : (const uint8_t *)"";
    coffer__packed_check_index(&head, prove_bytes(COFFER__PACKED_HEAD_SIZE), index, &err);
    coffer__packed_check_zeros(&head, prove_bytes(20), prove_size(0, 20), &err);
}

int main(void)
{
    //@ loop unroll 40;
    for (int dtype = 0; dtype <= COFFER_DTYPE_COUNT; dtype++) {
        prove_head((coffer_dtype)dtype);
    }
    //@ loop unroll 3;
    for (uint32_t tables = 0; tables < 3; tables++) {
        prove_index(tables, 0);
        prove_index(tables, 5);
        prove_index(tables, COFFER__PACKED_CHUNK + 1);
    }
    return 0;
}
