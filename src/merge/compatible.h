/* SPDX-License-Identifier: Apache-2.0 */
/* What tensors of several models have to agree in, so that numbers can be made of theirs. */
#ifndef COFFER_MERGE_COMPATIBLE_H
#define COFFER_MERGE_COMPATIBLE_H

#include "coffer.h"

#include <string.h>

/* Whether the elements are numbers to compute with. Anything else is an integer, or quantised, and stands for numbers
   that are not there. */
static inline bool coffer__compatible_numbers(const coffer_tensor *tensor)
{
    return tensor->dtype == COFFER_F16 || tensor->dtype == COFFER_BF16 || tensor->dtype == COFFER_F32 ||
           tensor->dtype == COFFER_F64;
}

static inline bool coffer__compatible_shapes(const coffer_tensor *one, const coffer_tensor *other)
{
    return one->rank == other->rank &&
           (one->rank == 0 || memcmp(one->shape, other->shape, one->rank * sizeof *one->shape) == 0);
}

#endif
