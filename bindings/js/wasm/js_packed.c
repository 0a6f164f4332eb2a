/* SPDX-License-Identifier: Apache-2.0 */
/* Packed tensors: what a job needs to know of one, and its chunks, decoded as the library does. */
#include "error.h"
#include "js.h"
#include "packed.h"

static coffer__packed_head packed_head;
static coffer__unpacker *unpacker;

/*
 * Reads and checks the head and the index of a packed tensor of `stored_size` bytes at `offset` of its file, which stands for
 * `size` bytes of the dtype. With no index the head alone is read, and the answer's slice_size is how long the index is.
 */
JS_EXPORT(coffer_js_packed)
coffer_status coffer_js_packed(const uint8_t *head, const uint8_t *index, unsigned dtype, uint64_t size,
                               uint64_t offset, uint64_t stored_size)
{
    coffer_status status =
        coffer__packed_read_head(head, (coffer_dtype)dtype, size, offset, stored_size, &packed_head, &js_state.error);
    if (status != COFFER_OK) {
        return status;
    }
    js_state.slice_size = coffer__packed_index_size(&packed_head);
    if (index == NULL) {
        return COFFER_OK;
    }
    status = coffer__packed_check_index(&packed_head, head, index, &js_state.error);
    unpacker = status == COFFER_OK ? js_capacity(1, sizeof *unpacker) : NULL;
    if (unpacker == NULL) {
        return status == COFFER_OK ? COFFER_ERR_MEMORY : status;
    }
    coffer__unpacker_init(unpacker, &packed_head, index);
    return COFFER_OK;
}

/* Decodes a chunk of the tensor, and verifies it. As many bytes as a code reads ahead are readable after the chunk's. */
JS_EXPORT(coffer_js_packed_chunk)
coffer_status coffer_js_packed_chunk(uint64_t chunk, const uint8_t *bytes, uint8_t *elements)
{
    return coffer__unpack_chunk(unpacker, chunk, bytes, elements, &js_state.error);
}

/* Whether the bytes after the last chunk are zero. */
JS_EXPORT(coffer_js_packed_zeros) coffer_status coffer_js_packed_zeros(const uint8_t *bytes, size_t size)
{
    return coffer__packed_check_zeros(&packed_head, bytes, size, &js_state.error);
}
