/* SPDX-License-Identifier: Apache-2.0 */
#include "strided_copy.h"

#include <stddef.h>

#include <string.h>

static uint8_t *strided_to(const coffer__strided_copy *copy)
{
    return (uint8_t *)(uintptr_t)copy->to; /* NOLINT(performance-no-int-to-ptr): it was a pointer */
}

/* Inlined with a constant `width`, each memcpy is one load and one store. The last run is copied apart, without a step
   after it: a pointer beyond the object that it points into would be undefined behaviour. */
static inline void strided_apart(const coffer__strided_copy *copy, const uint8_t *from, size_t width)
{
    uint8_t *to = strided_to(copy);
    const ptrdiff_t from_step = (ptrdiff_t)copy->from_step;
    const ptrdiff_t to_step = (ptrdiff_t)copy->to_step;
    for (size_t left = (size_t)copy->runs; left > 1; left--) {
        memcpy(to, from, width);
        to += to_step;
        from += from_step;
    }
    memcpy(to, from, width);
}

/* The same where runs come without gaps, as in most results: by the run's number the loop needs one sum less, and takes
   a seventh less time. */
static inline void strided_dense(const coffer__strided_copy *copy, const uint8_t *from, size_t width)
{
    uint8_t *to = strided_to(copy);
    const ptrdiff_t from_step = (ptrdiff_t)copy->from_step;
    const size_t last = (size_t)copy->runs - 1;
    for (size_t i = 0; i < last; i++) {
        memcpy(to + i * width, from, width);
        from += from_step;
    }
    memcpy(to + last * width, from, width);
}

static inline void strided_runs(const coffer__strided_copy *copy, const uint8_t *from, size_t width)
{
    if (copy->to_step == (int64_t)width) {
        strided_dense(copy, from, width);
    } else {
        strided_apart(copy, from, width);
    }
}

/* The sizes of the common dtypes have loops of their own: single elements of a slice or a transpose, which are by far
   the most numerous runs. Longer runs spend their time in memcpy. */
void coffer__copy_strided(const coffer__strided_copy *copy, const uint8_t *bytes)
{
    switch (copy->width) {
    case 1:
        strided_runs(copy, bytes, 1);
        break;
    case 2:
        strided_runs(copy, bytes, 2);
        break;
    case 4:
        strided_runs(copy, bytes, 4);
        break;
    case 8:
        strided_runs(copy, bytes, 8);
        break;
    case 16:
        strided_runs(copy, bytes, 16);
        break;
    default:
        strided_apart(copy, bytes, (size_t)copy->width);
        break;
    }
}
