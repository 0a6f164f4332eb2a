/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying on the way: what a model does that was opened with `verify`. A tensor is verified
 * before or while its bytes are first handed out, and then never again. If two threads want a
 * tensor for the first time, both may verify it.
 *
 * An unstable source (a URL, the caller's functions) may answer differently the next time it is asked.
 * So having been verified once proves nothing there: a tensor that is read whole is hashed
 * every time, and parts and slices are cut from a copy in memory that was verified as a whole. The
 * last of these copies stays with the model for the next slice.
 */
#ifndef COFFER_MODEL_LAZY_VERIFY_H
#define COFFER_MODEL_LAZY_VERIFY_H

#include "coffer.h"
#include "lazy_verify_marks.h"
#include "model.h"

/* Compares a digest of the tensor's data, by the algorithm that the shard records, with the record.
   COFFER_ERR_TENSOR_DIGEST names tensor and path. */
coffer_status coffer__lazy_verify_judge(const coffer *model, const coffer_tensor *tensor, const uint8_t *data,
                                        coffer_error *err);
/* Reads tensors to their places, and verifies those that are due. */
coffer_status coffer__lazy_verify_read(const coffer *model, const coffer_read_target *targets, size_t count,
                                       const coffer_read_options *options, coffer_error *err);
/* Verifies a tensor before a part of it, of `size` bytes, is read. If the source is unstable, *held
   becomes the verified copy to read from, which the caller releases with coffer__lazy_verify_release.
   Otherwise it is NULL, and the source may be read. `progress` is called while this lasts, so that
   the user can cancel. */
coffer_status coffer__lazy_verify_acquire(const coffer *model, const coffer_tensor *tensor,
                                          const coffer_read_options *options, uint64_t size, coffer__verified **held,
                                          coffer_error *err);
/* NULL is allowed. The copy must not be used afterwards. */
void coffer__lazy_verify_release(const coffer *model, coffer__verified *held);
/* Verifies a tensor if that is due, without handing out its bytes. The options may be NULL. */
coffer_status coffer__lazy_verify_tensor(const coffer *model, const coffer_tensor *tensor,
                                         const coffer_read_options *options, coffer_error *err);

#endif
