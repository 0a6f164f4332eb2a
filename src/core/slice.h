/* SPDX-License-Identifier: Apache-2.0 */
/* Index expression → byte runs: a slice becomes a box (box.h). Pure: no I/O, no allocation, and the
   result is as small for a tensor of any rank. */
#ifndef COFFER_CORE_SLICE_H
#define COFFER_CORE_SLICE_H

#include "box.h"

/*
 * Plans a slice of `tensor`, whose size is known to fit its shape, as every parsed tensor's does:
 * the products of dimensions are not checked again. The indices are the caller's and are checked.
 */
coffer_status coffer__slice_plan(const coffer_tensor *tensor, const coffer_index *indices, size_t count,
                                 coffer__box *box, coffer_error *err);

#endif
