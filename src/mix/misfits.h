/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of several models that do not fit together: the caller is told of each, and the first is kept for the error. */
#ifndef COFFER_MIX_MISFITS_H
#define COFFER_MIX_MISFITS_H

#include "coffer.h"

/* Begins as zeros but for the callback, which may be NULL. */
typedef struct coffer__misfits {
    void (*tell)(void *ctx, size_t model, const coffer_tensor *tensor, const char *why);
    void *ctx;
    size_t count;
    const coffer_tensor *first; /* NULL: all fit */
    size_t model;               /* of the first one, … */
    const char *why;            /* … and what is wrong with it */
} coffer__misfits;

static inline void coffer__misfits_add(coffer__misfits *misfits, size_t model, const coffer_tensor *tensor,
                                       const char *why)
{
    if (misfits->count++ == 0) {
        misfits->first = tensor;
        misfits->model = model;
        misfits->why = why;
    }
    if (misfits->tell != NULL) {
        misfits->tell(misfits->ctx, model, tensor, why);
    }
}

#endif
