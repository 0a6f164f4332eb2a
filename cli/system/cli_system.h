/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the systems lack of the POSIX that the command uses, or call differently. The build includes it before every file
 * of the command on those systems, and on them only, so that the files themselves name no system.
 */
#ifndef COFFER_CLI_SYSTEM_H
#define COFFER_CLI_SYSTEM_H

#ifdef _WIN32
#include "cli_windows.h"
#endif

#ifdef __APPLE__
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define st_mtim st_mtimespec
#define st_ctim st_ctimespec

/* Advice that nobody needs to follow, but for the one that forgets what is cached: that it was not followed is told. */
#define POSIX_FADV_SEQUENTIAL 2
#define POSIX_FADV_DONTNEED 4

static inline int posix_fadvise(int fd, off_t offset, off_t size, int advice)
{
    (void)fd;
    (void)offset;
    (void)size;
    return advice == POSIX_FADV_DONTNEED ? -1 : 0;
}

static inline int fdatasync(int fd)
{
    return fsync(fd);
}
#endif

#endif
