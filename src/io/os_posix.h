/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files os_*.c share. They need POSIX, and use of Linux what makes saving atomic and fast: unnamed
 * files, reserved space, copies in the kernel, clones, huge pages. Where a system lacks such a call, the
 * function returns EOPNOTSUPP and its caller has a way without it.
 *
 * It must be included first, since these macros decide what the system's headers declare. _FILE_OFFSET_BITS
 * and _TIME_BITS give 32-bit systems offsets and times of 64 bits.
 */
#ifndef COFFER_IO_OS_POSIX_H
#define COFFER_IO_OS_POSIX_H

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64
#include "os.h"

#include <errno.h>
#include <sys/types.h>

/* os_threads.c: starts main(arg) with signals blocked, as coffer__os_thread_start does. The caller joins or
   detaches the thread. The attributes may be NULL. */
int coffer__os_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *arg);
/* os_files.c: opens with O_CLOEXEC, and repeats what a signal interrupted. */
int coffer__os_open_with(const char *path, int flags, mode_t mode, int *fd);
/* os_files.c: whether the end of the range is within the system's offsets. */
bool coffer__os_offset_fits(uint64_t offset, uint64_t size);
/* os_residency.c: one preadv2 with a flag of Linux, as pread otherwise; -1 with EOPNOTSUPP elsewhere. */
#define COFFER__OS_READ_NOWAIT 0x08    /* only what is cached */
#define COFFER__OS_READ_DONTCACHE 0x80 /* and leave nothing in the cache */
ssize_t coffer__os_read_flagged(int fd, uint64_t offset, void *buffer, size_t size, int flag);

#endif
