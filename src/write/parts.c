/* SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

/* `total` is that of one part, which the user is not told. */
static int parts_tell(void *ctx, uint64_t done, uint64_t total)
{
    const coffer__parts *parts = ctx;
    (void)total;
    return parts->progress(parts->progress_ctx, parts->before + (parts->again ? 0 : done), parts->total);
}

void coffer__parts_begin(coffer__parts *parts, coffer_progress *progress, void **progress_ctx)
{
    parts->progress = *progress;
    parts->progress_ctx = *progress_ctx;
    if (*progress != NULL) {
        *progress = parts_tell;
        *progress_ctx = parts;
    }
}
