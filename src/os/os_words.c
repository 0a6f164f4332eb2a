/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: words for its errors, the same on all systems. They finish a sentence that begins with
 * "cannot open the file: ", so they have no capital and no full stop.
 */
#include "os.h"

static const struct os_words_row {
    int os_error;
    const char *words;
} os_words_rows[] = {
    { EACCES, "permission denied" },
    { EBADF, "the descriptor is not open for that" },
    { EBUSY, "it is in use by the system, like a mount point" },
    { EDQUOT, "the disk quota is used up" },
    { EEXIST, "the name is taken" },
    { EFBIG, "the file would be larger than allowed" },
    { EINVAL, "the system does not accept the request" },
    { EIO, "input/output error of the device" },
    { EISDIR, "it is a directory" },
    { ELOOP, "too many symbolic links" },
    { EMFILE, "this process has too many open files" },
    { ENAMETOOLONG, "the name is too long" },
    { ENFILE, "the system has too many open files" },
    { ENODEV, "the device cannot do that" },
    { ENOENT, "no such file or directory" },
    { ENOLCK, "the file system has no locks available" },
    { ENOMEM, "out of memory" },
    { ENOSPC, "no space left on the device" },
    { ENOSYS, "the system cannot do that" },
    { ENOTDIR, "a part of the path is not a directory" },
    { ENXIO, "no such device" },
    { EOPNOTSUPP, "the file system cannot do that" },
    { EOVERFLOW, "beyond the largest offset of a file" },
    { EPERM, "not permitted" },
    { EPIPE, "the other end was closed" },
    { EROFS, "the file system is read-only" },
    { ESTALE, "the file no longer exists on its server" },
    { ETIMEDOUT, "timed out" },
    { ETXTBSY, "it is a running program" },
    { EWOULDBLOCK, "another process holds it" },
    { EXDEV, "it is on another file system" },
};

const char *coffer__os_words(int os_error)
{
    for (size_t i = 0; i < sizeof os_words_rows / sizeof os_words_rows[0]; i++) {
        if (os_words_rows[i].os_error == os_error) {
            return os_words_rows[i].words;
        }
    }
    return "the system refused";
}
