/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of several models that do not fit together: the caller is told of each, and the first is kept for the error. */
#ifndef COFFER_MERGE_MISMATCHES_H
#define COFFER_MERGE_MISMATCHES_H

#include "coffer.h"

/* Begins as zeros but for the callback, which may be NULL. */
typedef struct coffer__mismatches {
    void (*tell)(void *ctx, size_t model, const coffer_tensor *tensor, const char *why);
    void *ctx;
    size_t count;
    const coffer_tensor *first; /* NULL: all fit */
    size_t model;               /* of the first one */
    const char *why;            /* what is wrong with the first one */
} coffer__mismatches;

static inline void coffer__mismatches_add(coffer__mismatches *mismatches, size_t model, const coffer_tensor *tensor,
                                          const char *why)
{
    if (mismatches->count++ == 0) {
        mismatches->first = tensor;
        mismatches->model = model;
        mismatches->why = why;
    }
    if (mismatches->tell != NULL) {
        mismatches->tell(mismatches->ctx, model, tensor, why);
    }
}

#endif
