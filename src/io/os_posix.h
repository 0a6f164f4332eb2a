/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the operating system share: POSIX, and of Linux what makes saving atomic and fast (unnamed files, space set aside,
 * copies in the kernel, clones, huge pages). Where a system lacks such a call, the function says EOPNOTSUPP and its caller does
 * without. It comes first in each of them, since it says what the system's headers are to declare.
 */
#ifndef COFFER_IO_OS_POSIX_H
#define COFFER_IO_OS_POSIX_H

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64
#include "os.h"

#include <errno.h>
#include <sys/types.h>

/* os_threads.c: starts main(arg) as coffer__os_thread_start does, and leaves it to the caller to join or detach it. The attributes may
   be NULL. */
int coffer__os_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *arg);
/* os_files.c: opens with O_CLOEXEC, again where a signal came between. */
int coffer__os_open_with(const char *path, int flags, mode_t mode, int *fd);
/* Whether the system's offsets reach to the end of that range. */
bool coffer__os_offset_fits(uint64_t offset, uint64_t size);

#endif
