/* SPDX-License-Identifier: Apache-2.0 */
/* The slice planner: any tensor of up to RANK_MOST dimensions that a parser accepts, and any INDEX_MOST indices. */
#include "dtype.h"
#include "prove.h"
#include "slice.h"

#define RANK_MOST 1

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
    uint64_t shape[RANK_MOST + 1];
    coffer_index indices[RANK_MOST + 2];
    coffer_error err;
    coffer__box box;
    coffer_tensor tensor = { "t", shape, 100, 0, 1, (uint32_t)rank, COFFER_F4, 0 };
    tensor.dtype = prove_bool() ? COFFER_F4 : COFFER_F32;
    //@ loop unroll RANK_MOST;
    for (size_t i = 0; i < rank; i++) {
        shape[i] = prove_u64();
    }
    //@ loop unroll RANK_MOST + 1;
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

int main(void)
{
    prove_run(1);
    prove_run(COFFER__BOX_MAX_RANK);
    //@ loop unroll RANK_MOST + 1;
    for (size_t rank = 0; rank <= RANK_MOST; rank++) {
        //@ loop unroll RANK_MOST + 2;
        for (size_t count = 0; count <= rank + 1; count++) {
            prove_plan(rank, count);
        }
    }
    return 0;
}
