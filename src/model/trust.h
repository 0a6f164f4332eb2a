/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying on the way: what a model does that was opened with `verify`. A tensor is verified before or while its bytes are first
 * handed out, and then never again. Of two threads that want one tensor for the first time, each may verify it.
 */
#ifndef COFFER_MODEL_TRUST_H
#define COFFER_MODEL_TRUST_H

#include "coffer.h"
#include "model.h"

/* Reads what the file records, if that is wanted, and verifies its metadata. To be ended even when it fails. */
coffer_status coffer__trust_begin(coffer__shard *shard, coffer_verifying verify, const coffer_allocator *allocator,
                                  coffer_error *err);
void coffer__trust_end(coffer__shard *shard, const coffer_allocator *allocator);

/* Whether a tensor has yet to be verified. */
bool coffer__trust_is_due(const coffer__shard *shard, const coffer_tensor *tensor);
/* Holds a digest of the tensor's data, by the algorithm that the shard records, against the record. COFFER_ERR_TENSOR_DIGEST
   names tensor and path. */
coffer_status coffer__trust_judge(const coffer *model, const coffer_tensor *tensor, const uint8_t *data,
                                  coffer_error *err);
/* Reads tensors to their places, and verifies those that are due. */
coffer_status coffer__trust_read(const coffer *model, const coffer_read_target *targets, size_t count,
                                 const coffer_read_options *options, coffer_error *err);
/* Verifies a tensor if that is due, without handing out its bytes. The options may be NULL. */
coffer_status coffer__trust_tensor(const coffer *model, const coffer_tensor *tensor, const coffer_read_options *options,
                                   coffer_error *err);

#endif
