/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slice planner: any tensor of up to RANK_MAX dimensions that a parser accepts with any indices, one more than it has
 * dimensions; and chosen slices of a tensor with three, where paths would multiply.
 */
#include "dtype.h"
#include "prove.h"
#include "slice.h"

#include <string.h>

#define RANK_MAX 1

static const char *const prove_slices[] = {
    "[1]",
    "[:, 1:3]",
    "[::2, ::-1, ::3]",
    "[::-1, ::-1]",
    "[..., 0]",
    "[0:0]",
    "[:, :, :]",
    "[::2, 1, 2:6]",
    "[5]",
    "[-5]",
    "[::0]",
    "[1:3, ...]",
    "[..., 1:3]",
    "[..., ::2, :]",
    "[..., ::2]",
    "[..., 1::2, 0]",
    "[,,,,]",
    "[..., 2:4, ...]",
    "[0, 0, 0, 0]",
    "[..., 4:8]",
    "[0, 0, 2:4]",
    "[::-1, 2:4, 0]",
    "[:, ::2, :]",
};

static coffer_index prove_index(void)
{
    coffer_index index;
    index.kind = (coffer_index_kind)prove_each(0, 4);
    index.has_start = prove_bool();
    index.has_stop = prove_bool();
    index.start = prove_i64();
    index.stop = prove_i64();
    /* Apart, since an interval cannot leave 0 out. */
    const size_t sign = prove_each(0, 2);
    index.step = sign == 0 ? 0 : sign == 1 ? Frama_C_long_interval(1, INT64_MAX) : Frama_C_long_interval(INT64_MIN, -1);
    return index;
}

static void prove_plan(size_t rank, size_t count)
{
    uint64_t shape[RANK_MAX + 1];
    coffer_index indices[RANK_MAX + 2];
    coffer_error err;
    coffer__box box;
    coffer_tensor tensor = { "t", shape, 100, 0, 1, (uint32_t)rank, COFFER_F4, 0 };
    tensor.dtype = prove_bool() ? COFFER_F4 : COFFER_F32;
    //@ loop unroll RANK_MAX;
    for (size_t i = 0; i < rank; i++) {
        shape[i] = prove_u64();
    }
    //@ loop unroll RANK_MAX + 1;
    for (size_t i = 0; i < count; i++) {
        indices[i] = prove_index();
    }
    uint64_t bits = 0;
    if (!coffer__tensor_bits(tensor.dtype, shape, rank, &bits) || bits % 8 != 0) {
        return;
    }
    tensor.size = bits / 8;
    coffer__slice_plan(&tensor, indices, count, &box, &err);
}

static void prove_run(size_t rank)
{
    coffer__box box = { .start = prove_u64(), .run_size = 1, .run_count = 1, .rank = rank };
    //@ loop unroll COFFER__BOX_MAX_RANK;
    for (size_t i = 0; i < rank; i++) {
        box.counts[i] = prove_size(2, UINT64_MAX);
        box.strides[i] = prove_i64();
    }
    coffer__box_run(&box, prove_u64());
}

/* A slice in text, of a tensor of 4 x 6 x 8 elements: its plan, all of its runs, its shape. */
static void prove_chosen(const char *text, coffer_dtype dtype)
{
    static const uint64_t dimensions[] = { 4, 6, 8 };
    coffer_error err;
    coffer__box box;
    coffer_index indices[5];
    size_t count = 5;
    uint64_t shape[3];
    size_t rank;
    uint64_t size;
    coffer_tensor tensor = { "t", dimensions, 100, 192, 1, 3, dtype, 0 };
    uint64_t bits = 0;
    coffer__tensor_bits(dtype, dimensions, 3, &bits);
    tensor.size = dtype == COFFER_UNKNOWN_DTYPE ? 192 : bits / 8;
    if (coffer_slice_parse(text, strlen(text), indices, &count, &err) != COFFER_OK) {
        return;
    }
    if (coffer__slice_plan(&tensor, indices, count, &box, &err) == COFFER_OK) {
        //@ loop unroll 200;
        for (uint64_t k = 0; k < box.run_count; k++) {
            const uint64_t at = coffer__box_run(&box, k);
            //@ assert at <= tensor.size && box.run_size <= tensor.size - at;
        }
    }
    coffer_slice_shape(&tensor, indices, count, shape, &rank, &size, &err);
    coffer_slice_shape(&tensor, indices, count, NULL, NULL, NULL, &err);
}

static void prove_arguments(void)
{
    const coffer_tensor scalar = { "t", NULL, 100, 4, 1, 0, COFFER_F32, 0 };
    coffer_error err;
    size_t rank;
    coffer_slice_shape(NULL, NULL, 0, NULL, &rank, NULL, &err);
    coffer_slice_shape(&scalar, NULL, 1, NULL, &rank, NULL, &err);
    coffer_slice_shape(&scalar, NULL, 0, NULL, &rank, NULL, &err);
}

int main(void)
{
    static const coffer_dtype dtypes[] = { COFFER_F32, COFFER_F4, COFFER_F6_E2M3, COFFER_UNKNOWN_DTYPE };
    prove_run(1);
    prove_run(COFFER__BOX_MAX_RANK);
    //@ loop unroll RANK_MAX + 1;
    for (size_t rank = 0; rank <= RANK_MAX; rank++) {
        //@ loop unroll RANK_MAX + 2;
        for (size_t count = 0; count <= rank + 1; count++) {
            prove_plan(rank, count);
        }
    }
    prove_arguments();
    //@ loop unroll 100;
    for (size_t i = 0; i < sizeof prove_slices / sizeof prove_slices[0]; i++) {
        //@ loop unroll 4;
        for (size_t j = 0; j < sizeof dtypes / sizeof dtypes[0]; j++) {
            prove_chosen(prove_slices[i], dtypes[j]);
        }
    }
    return 0;
}
