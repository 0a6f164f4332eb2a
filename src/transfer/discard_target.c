/* SPDX-License-Identifier: Apache-2.0 */
/* The output target where nothing stays: what comes down was looked at on the way. */
#include "output_target.h"

static coffer_status discard_target_landed(coffer__output_target *output_target, uint64_t at, const uint8_t *bytes,
                                           size_t size, coffer_error *err)
{
    (void)output_target;
    (void)at;
    (void)bytes;
    (void)size;
    (void)err;
    return COFFER_OK;
}

coffer_status coffer__discard(const coffer__transfer_op *ops, size_t count, const coffer__transfer_options *options,
                              coffer_error *err)
{
    static const coffer__output_target_ops discard = { coffer__output_target_memory, discard_target_landed, NULL };
    coffer__output_target output_target = {
        .ops = &discard, .in_order = true, .shared = true, .allocator = options->allocator
    };
    const coffer_status status = coffer__land(&output_target, ops, count, options, err);
    coffer__output_target_free(&output_target);
    return status;
}
