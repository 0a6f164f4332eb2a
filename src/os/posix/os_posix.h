/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of posix and linux share. They need POSIX, and use of Linux what makes saving atomic and fast: unnamed
 * files, reserved space, copies in the kernel, clones, huge pages. Where a system lacks such a call, the
 * function returns EOPNOTSUPP and its caller has a way without it.
 *
 * It must be included first, since these macros decide what the system's headers declare. _FILE_OFFSET_BITS
 * and _TIME_BITS give 32-bit systems offsets and times of 64 bits. They have the values that a compiler's option
 * -D gives them, so that a program may be compiled with that.
 */
#ifndef COFFER_OS_OS_POSIX_H
#define COFFER_OS_OS_POSIX_H

#define _GNU_SOURCE 1
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64
#include "os.h"

#include <errno.h>
#include <sys/types.h>

/*
 * What the systems call differently, and what their C libraries lack although the kernel has it. Whatever else a system
 * does not have is asked for where it is used, by the macro that comes with it.
 */
#ifdef __APPLE__
#define st_mtim st_mtimespec
#define st_ctim st_ctimespec
#endif

/* The number of a request, which glibc and the BSDs take as an unsigned long and the other C libraries of Linux as an int. */
#if defined __linux__ && !defined __GLIBC__
typedef int coffer__os_request;
#else
typedef unsigned long coffer__os_request;
#endif

#ifdef __linux__
/* The number that a user namespace shows in the place of every user that it has no number for (user_namespaces(7)). */
uint32_t coffer__os_overflow_user(void);
#endif

/* System calls for which the C library may have no function: glibc has those of copy_file_range and memfd_create since 2.27,
   that of renameat2 since 2.28, and musl has none for the last. A program that is built like that may run on a kernel that
   has them; one that has not answers ENOSYS. */
#ifdef __linux__
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2u
#endif
#ifdef __GLIBC__
#define COFFER__OS_GLIBC (__GLIBC__ * 100 + __GLIBC_MINOR__)
#else
#define COFFER__OS_GLIBC 0
#endif
#endif

#if defined SYS_renameat2 && COFFER__OS_GLIBC < 228
static inline int coffer__os_renameat2(int from_directory, const char *from, int to_directory, const char *to,
                                       unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
}
#define renameat2 coffer__os_renameat2
#endif

#if defined __GLIBC__ && COFFER__OS_GLIBC < 227
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#define MFD_ALLOW_SEALING 2u
#endif

static inline ssize_t copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset, size_t size,
                                      unsigned flags)
{
    return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, size, flags);
}

static inline int memfd_create(const char *label, unsigned flags)
{
    return (int)syscall(SYS_memfd_create, label, flags);
}
#endif

/* os_threads.c: starts main(arg) with signals blocked, as coffer__os_thread_start does. The caller joins or
   detaches the thread. The attributes may be NULL. */
int coffer__os_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *arg);
/* os_files.c: opens with O_CLOEXEC, and repeats what a signal interrupted. */
int coffer__os_open_with(const char *path, int flags, mode_t mode, int *fd);
/* os_files.c: opens the file of a descriptor once more, as a new open file of its own; *again is -1 after a failure.
   EOPNOTSUPP where there is no /proc, ESTALE where that leads elsewhere. Linux alone. */
int coffer__os_open_by_number(int fd, int flags, int *again);
/* os_files.c: whether the end of the range is within the system's offsets. */
bool coffer__os_offset_fits(uint64_t offset, uint64_t size);
/* os_memory.c: private memory that begins at a multiple of a huge page; NULL: there is none. */
void *coffer__os_pages_aligned(size_t size, int protection);
/* os_residency.c: one preadv2 with a flag of Linux, as pread otherwise; -1 with EOPNOTSUPP elsewhere. */
#define COFFER__OS_READ_NOWAIT 0x08    /* only what is cached */
#define COFFER__OS_READ_DONTCACHE 0x80 /* and leave nothing in the cache */
ssize_t coffer__os_read_flagged(int fd, uint64_t offset, void *buffer, size_t size, int flag);

#endif
