/* SPDX-License-Identifier: Apache-2.0 */
#include "walk.h"

/* Splits k into an index for each dimension, innermost first. A box without dimensions has one run,
   which is a line of its own. */
void coffer__walk_begin(coffer__walk *walk, const coffer__box *box, uint64_t k)
{
    walk->box = box;
    walk->at = coffer__box_run(box, k);
    walk->line_left = 1;
    for (size_t i = box->rank; i > 0; i--) {
        walk->index[i - 1] = k % box->counts[i - 1];
        k /= box->counts[i - 1];
    }
    if (box->rank > 0) {
        walk->line_left = box->counts[box->rank - 1] - walk->index[box->rank - 1];
    }
}

/* 0 where there is one run only: then nobody moves by it. */
int64_t coffer__walk_stride(const coffer__walk *walk)
{
    return walk->box->rank > 0 ? walk->box->strides[walk->box->rank - 1] : 0;
}

/* Within a line only `at` moves. At its end the indices carry like digits: the dimension that is
   complete returns to 0, which takes its whole reach back from `at`, and the next outer one
   advances by one. Distances wrap around where a stride is negative, and sum up to the right place. */
void coffer__walk_on(coffer__walk *walk, uint64_t runs)
{
    const coffer__box *box = walk->box;
    if (box->rank == 0) {
        return;
    }
    walk->at += runs * (uint64_t)box->strides[box->rank - 1];
    walk->index[box->rank - 1] += runs;
    walk->line_left -= runs;
    if (walk->line_left > 0) {
        return;
    }
    for (size_t i = box->rank; i > 0 && walk->index[i - 1] == box->counts[i - 1]; i--) {
        walk->at -= box->counts[i - 1] * (uint64_t)box->strides[i - 1];
        walk->index[i - 1] = 0;
        if (i > 1) {
            walk->at += (uint64_t)box->strides[i - 2];
            walk->index[i - 2]++;
        }
    }
    walk->line_left = box->counts[box->rank - 1];
}

coffer__strided_copy coffer__walk_copy(const coffer__walk *walk, uint64_t runs, const uint8_t *to)
{
    return (coffer__strided_copy){ .from = walk->at,
                                   .from_step = coffer__walk_stride(walk),
                                   .to = (uintptr_t)to,
                                   .to_step = (int64_t)walk->box->run_size,
                                   .width = walk->box->run_size,
                                   .runs = runs };
}
