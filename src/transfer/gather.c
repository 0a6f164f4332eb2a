/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over a box's runs, and the copy of one line of them; see gather.h. */
#include "gather.h"

#include <string.h>

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

/* Inlined with a constant `run_size`, each memcpy is one load and one store. The last run is copied
   apart, without a step after it: a pointer beyond the object that `from` points into would be
   undefined behaviour. */
static inline void gather_line(uint8_t *to, const uint8_t *from, size_t run_size, ptrdiff_t stride, size_t runs)
{
    for (size_t i = 0; i + 1 < runs; i++) {
        memcpy(to, from, run_size);
        to += run_size;
        from += stride;
    }
    memcpy(to, from, run_size);
}

/* The sizes of the common dtypes have loops of their own: single elements of a slice or a
   transpose, which are by far the most numerous runs. Longer runs spend their time in memcpy. */
void coffer__gather(uint8_t *to, const uint8_t *from, size_t run_size, int64_t stride, uint64_t runs)
{
    const size_t count = (size_t)runs;
    const ptrdiff_t step = (ptrdiff_t)stride;
    switch (run_size) {
    case 1:
        gather_line(to, from, 1, step, count);
        break;
    case 2:
        gather_line(to, from, 2, step, count);
        break;
    case 4:
        gather_line(to, from, 4, step, count);
        break;
    case 8:
        gather_line(to, from, 8, step, count);
        break;
    default:
        gather_line(to, from, run_size, step, count);
        break;
    }
}
