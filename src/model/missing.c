/* SPDX-License-Identifier: Apache-2.0 */
#include "missing.h"

#include "error.h"
#include "os.h"

#include <string.h>

/* A name that does not fit a path counts as missing, which it is as far as this program is
   concerned. */
void coffer__missing_look(coffer__missing *missing, const char *beside, coffer__name name)
{
    coffer__path path;
    coffer__path plain = { "" };
    if (coffer__path_append(&plain, name.text, name.len) && coffer__path_sibling(&path, beside, plain.text) &&
        coffer__os_exists(path.text)) {
        return;
    }
    if (missing->count < COFFER__MISSING_NAMED) {
        (void)coffer__text_append(missing->names[missing->count], sizeof missing->names[0], name.text, name.len);
    }
    missing->count++;
}

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
