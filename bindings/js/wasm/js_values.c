/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of tensors: which bytes a slice consists of, and which numbers bytes stand for. */
#include "js.h"
#include "slice.h"

#define MAX_INDICES 4096u

/* ---- slices ---- */

static coffer__box box;

static void slice_tell(const uint64_t *shape, size_t rank, uint64_t size)
{
    js_state.slice_size = size;
    js_state.slice_shape = (uint32_t)(size_t)shape;
    js_state.slice_rank = (uint32_t)rank;
    js_state.run_start = box.start;
    js_state.run_size = box.run_size;
    js_state.run_count = box.run_count;
    js_state.run_rank = (uint32_t)box.rank;
    js_state.run_counts = (uint32_t)(size_t)box.counts;
    js_state.run_strides = (uint32_t)(size_t)box.strides;
}

/* The slice that a text asks of a tensor: its shape, and the runs of bytes that it consists of. */
JS_EXPORT(coffer_js_slice)
coffer_status coffer_js_slice(unsigned dtype, const uint64_t *shape, size_t rank, uint64_t tensor_size,
                              const char *text, size_t text_len)
{
    const coffer_tensor tensor = {
        .name = "", .shape = shape, .size = tensor_size, .rank = (uint32_t)rank, .dtype = (coffer_dtype)dtype
    };
    size_t count = MAX_INDICES;
    coffer_index *indices = js_capacity(MAX_INDICES, sizeof *indices);
    uint64_t *result = js_capacity(rank, sizeof *result);
    if (indices == NULL || result == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = coffer_slice_parse(text, text_len, indices, &count, &js_state.error);
    if (status == COFFER_OK) {
        status = coffer__slice_plan(&tensor, indices, count, &box, &js_state.error);
    }
    if (status != COFFER_OK) {
        return status;
    }
    size_t result_rank = 0;
    uint64_t size = 0;
    status = coffer_slice_shape(&tensor, indices, count, result, &result_rank, &size, &js_state.error);
    slice_tell(result, result_rank, size);
    return status;
}

/* ---- values ---- */

JS_EXPORT(coffer_js_decode)
coffer_status coffer_js_decode(unsigned dtype, const void *data, uint64_t first, size_t count, double *values)
{
    return coffer_decode((coffer_dtype)dtype, data, first, count, values);
}
