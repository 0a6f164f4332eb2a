/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: words for its errors, its environment, and its clocks. The words finish a sentence
 * that begins with "cannot open the file: ", so they have no capital and no full stop.
 */
#include "os_posix.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifndef _WIN32
#include <unistd.h>
#endif

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

const char *coffer__os_variable(const char *name)
{
    /* Safe as long as the program does not change its environment in another thread, which POSIX makes the
       program's duty. */
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
    return value != NULL && value[0] != '\0' ? value : NULL;
}

#ifndef _WIN32 /* for which see os_windows_system.c */

uint64_t coffer__os_milliseconds(void)
{
    struct timespec now = { 0, 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t coffer__os_nanoseconds(void)
{
    struct timespec now = { 0, 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t coffer__os_time(void)
{
    struct timespec now = { 0, 0 };
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec;
}

void coffer__os_sleep(uint64_t milliseconds)
{
    struct timespec left = { (time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000 };
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

uint64_t coffer__os_process(void)
{
    return (uint64_t)getpid();
}

uint32_t coffer__os_unlikely_number(void)
{
    struct timespec now = { 0, 0 };
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t mixed = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    mixed ^= coffer__os_process() << 40;
    mixed *= UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 32);
}

#endif
