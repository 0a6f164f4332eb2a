/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner of views with strides: any view of up to RANK_MAX dimensions, hostile ones too; and chosen views of which every run
 * is shown to lie within the bytes that they are of.
 */
#include "box.h"
#include "prove.h"

#define RANK_MAX 2

static void prove_any(size_t rank)
{
    uint64_t sizes[RANK_MAX];
    int64_t strides[RANK_MAX];
    coffer_error err;
    coffer__box box;
    //@ loop unroll RANK_MAX;
    for (size_t i = 0; i < rank; i++) {
        sizes[i] = prove_u64();
        strides[i] = prove_i64();
    }
    const coffer__strided view = { prove_u64(), prove_u64(), rank, sizes, strides };
    coffer__box_from_strides(&box, &view, prove_u64(), &err);
}

/* A view of 4 x 6 elements of 4 bytes, of 200 bytes. */
static void prove_view(uint64_t offset, int64_t slow, int64_t fast)
{
    const uint64_t sizes[] = { 4, 6 };
    const int64_t strides[] = { slow, fast };
    const coffer__strided view = { offset, 4, 2, sizes, strides };
    coffer_error err;
    coffer__box box;
    if (coffer__box_from_strides(&box, &view, 200, &err) == COFFER_OK) {
        //@ loop unroll 24;
        for (uint64_t k = 0; k < box.run_count; k++) {
            const uint64_t at = coffer__box_run(&box, k);
            //@ assert at <= 200 && box.run_size <= 200 - at;
        }
    }
}

int main(void)
{
    static const int64_t chosen[] = { 0, 4, 16, 24, 32, -4, -16, -24, -48, 1, INT64_MIN, INT64_MAX };
    static const uint64_t offsets[] = { 0, 1, 96, 196, 200, 201, UINT64_MAX };
    //@ loop unroll RANK_MAX + 1;
    for (size_t rank = 0; rank <= RANK_MAX; rank++) {
        prove_any(rank);
    }
    //@ loop unroll 7;
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        //@ loop unroll 144;
        for (size_t j = 0; j < 144; j++) {
            prove_view(offsets[i], chosen[j / 12], chosen[j % 12]);
        }
    }
    return 0;
}
