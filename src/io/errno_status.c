/* SPDX-License-Identifier: Apache-2.0 */
#include "errno_status.h"

#include "error.h"
#include "os.h"

#include <errno.h>

/* What the user can do about it, where that is the same whatever was being done. */
static const char *trouble_next_step(int os_error)
{
    switch (os_error) {
    case ENOSPC:
    case EDQUOT:
        return "; make room, or write elsewhere";
    case EROFS:
        return "; write elsewhere";
    case EFBIG:
        return "; write where files may be larger (see ulimit -f)";
    case EMFILE:
        return "; allow it more (see ulimit -n)";
    default:
        return "";
    }
}

/* What does not exist has a code of its own, because programs often expect that and go on. */
coffer_status coffer__errno_status(coffer_error *err, const char *task, const char *path, int os_error)
{
    const bool missing = os_error == ENOENT || os_error == ENOTDIR;
    const coffer_status code = missing ? COFFER_ERR_NOT_FOUND : COFFER_ERR_IO;
    coffer__fail(err, code, "cannot %s: %s (errno %d)%s", task, coffer__os_words(os_error), (int64_t)os_error,
                 trouble_next_step(os_error));
    if (path != NULL) {
        coffer__fail_path(err, code, path);
    }
    return coffer__fail_errno(err, code, os_error);
}

/* What the caller's function wrote into the error is more specific than anything that could be said
   here, so it stays. The code is set in any case: the two could disagree. */
coffer_status coffer__callback_status(coffer_error *err, coffer_status status, const char *task, uint64_t offset)
{
    if (err->code == COFFER_OK) {
        coffer__fail_at(err, status, offset, "the caller's own function could not %s: it returned %s (%d)", task,
                        coffer_status_name(status), (int64_t)status);
    }
    err->code = status;
    return status;
}

coffer_status coffer__kind_status(coffer_error *err, bool is_directory, const char *path)
{
    const coffer_status code = is_directory ? COFFER_ERR_DIRECTORY : COFFER_ERR_NOT_REGULAR;
    coffer__fail(err, code, "%s",
                 is_directory ? "this is a directory: name one of the .safetensors files in it"
                              : "this is a pipe, socket or device, not a file: it cannot be read at random; store its "
                                "bytes in a file first");
    return path != NULL ? coffer__fail_path(err, code, path) : code;
}

coffer_status coffer__target_kind_status(coffer_error *err, bool is_directory, const char *path)
{
    const coffer_status code = is_directory ? COFFER_ERR_DIRECTORY : COFFER_ERR_NOT_REGULAR;
    coffer__fail(err, code, "%s",
                 is_directory ? "this is a directory, which a file cannot replace: name a file in it"
                              : "this is a pipe, socket or device, which a new file cannot replace: name a file");
    return coffer__fail_path(err, code, path);
}
