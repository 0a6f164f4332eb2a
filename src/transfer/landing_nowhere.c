/* SPDX-License-Identifier: Apache-2.0 */
/* The landing where nothing stays: what comes down was looked at on the way. */
#include "landing.h"

static coffer_status landing_nowhere_landed(coffer__landing *landing, uint64_t at, const uint8_t *bytes, size_t size,
                                            coffer_error *err)
{
    (void)landing;
    (void)at;
    (void)bytes;
    (void)size;
    (void)err;
    return COFFER_OK;
}

coffer_status coffer__land_nowhere(const coffer__row *rows, size_t count, const coffer__transfer_options *options,
                                   coffer_error *err)
{
    static const coffer__landing_ops ops = { coffer__landing_memory, landing_nowhere_landed, NULL };
    coffer__landing landing = { .ops = &ops, .in_order = true, .shared = true, .allocator = options->allocator };
    const coffer_status status = coffer__land(&landing, rows, count, options, err);
    coffer__landing_end(&landing);
    return status;
}
