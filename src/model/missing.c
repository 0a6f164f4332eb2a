/* SPDX-License-Identifier: Apache-2.0 */
#include "missing.h"

#include "error.h"

#include <string.h>

/* The sizes in the error are numbers of files: how many the model has, and how many of
   them exist. */
coffer_status coffer__missing_fail(const coffer__missing *missing, size_t total, const char *why, coffer_error *err)
{
    /* If one file is missing the error has its path anyway. A format may leave out the last
       arguments. */
    static const char *const formats[] = {
        "%u of the model's %u files do not exist: %s",
        "%u of the model's %u files do not exist: %s: %q",
        "%u of the model's %u files do not exist: %s: %q and %q",
        "%u of the model's %u files do not exist: %s: %q, %q and %q",
        "%u of the model's %u files do not exist: %s: %q, %q, %q and %u more",
    };
    const size_t last = sizeof formats / sizeof formats[0] - 1;
    const char *first = missing->names[0];
    const char *second = missing->names[1];
    const char *third = missing->names[2];
    coffer__fail(err, COFFER_ERR_SHARD_MISSING, formats[missing->count < last ? missing->count : last],
                 (uint64_t)missing->count, (uint64_t)total, why, first, strlen(first), second, strlen(second), third,
                 strlen(third), (uint64_t)(missing->count - COFFER__MISSING_NAMED));
    return coffer__fail_sizes(err, COFFER_ERR_SHARD_MISSING, total, total - missing->count);
}
