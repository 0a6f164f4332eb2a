/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the C library that fail when a test wants them to: a program that includes this header defines them itself,
 * so that the static library linked to it calls these. They pass everything on, except for what `faults` says. Include it
 * in one file of a program, after _GNU_SOURCE. `faults` belongs to one thread, but for the counting of calls. On Windows the
 * functions that fail are those of os.h.
 */
#ifndef COFFER_TESTS_FAULTY_CALLS_H
#define COFFER_TESTS_FAULTY_CALLS_H

#include "support_file.h"

#ifndef _WIN32
#include <dlfcn.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#endif
#ifdef __linux__
#include <sys/vfs.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum fault {
    FAULT_OPEN,
    FAULT_UNNAMED, /* open of a file without a name */
    FAULT_READ,
    FAULT_WRITE,
    FAULT_RESERVE,
    FAULT_TRUNCATE,
    FAULT_SYNC,       /* fdatasync: of a file */
    FAULT_SYNC_NAMES, /* fsync: of a directory */
    FAULT_LINK,
    FAULT_RENAME,
    FAULT_EXCHANGE, /* fails where FAULT_RENAME always does, too */
    FAULT_UNLINK,
    FAULT_MODE,
    FAULT_OWNER,
    FAULT_LOCK,
    FAULT_CLONE,
    FAULT_COPY,
    FAULT_INSPECT,
    FAULT_CLOSE, /* the descriptor is closed all the same */
    FAULT_COUNT
} fault;

static struct {
    int always[FAULT_COUNT]; /* the errno with which every call of a kind fails; 0: none does */
    unsigned fail_at; /* the number of the call, from 1 and of all kinds, that fails with `error`; 0: none does */
    int error;
    atomic_uint calls;    /* so far, of all kinds */
    bool spare_clean_up;  /* unlink and close never fail: they are what a failed call tidies up with */
    unsigned interrupted; /* every read and write fails that often with EINTR first … */
    size_t most;          /* … and moves that many bytes at most; 0: as many as it can */
    unsigned interruptions;
    void (*before[FAULT_COUNT])(void); /* called before a call of the kind is made; NULL: nothing is */
    time_t clock;         /* every file was changed at that second, whatever happens to it; 0: when it was */
    ino_t stranger;       /* the file of this inode is somebody else's; 0: none is */
    uint32_t file_system; /* where all files seem to be, also after faults_clear; 0: where they are */
} faults;

/* What file systems call themselves: one whose server copies, and one whose files share blocks. */
#define FAULTY_NFS UINT32_C(0x6969)
#define FAULTY_BTRFS UINT32_C(0x9123683E)

static void faults_clear(void)
{
    const uint32_t file_system = faults.file_system;
    memset(&faults, 0, sizeof faults);
    faults.file_system = file_system;
}

/* For cmocka: what runs before a test and after it, where the test has a directory of its own. */
static inline int faults_set_up(void **state)
{
    faults_clear();
    return work_dir_set_up(state);
}

static inline int faults_tear_down(void **state)
{
    faults_clear();
    return work_dir_tear_down(state);
}

static bool faulty(fault kind)
{
    const bool clean_up = kind == FAULT_UNLINK || kind == FAULT_CLOSE;
    if (faults.before[kind] != NULL) {
        faults.before[kind]();
    }
    if (faults.always[kind] != 0) {
        errno = faults.always[kind];
        return true;
    }
    if (clean_up && faults.spare_clean_up) {
        return false;
    }
    if (atomic_fetch_add(&faults.calls, 1) + 1 == faults.fail_at) {
        errno = faults.error;
        return true;
    }
    return false;
}

#ifdef _WIN32
#include "faulty_os.h"
#else

/* Whether a transfer is interrupted before it began; else *size is what it moves at most. */
static bool faulty_transfer(size_t *size)
{
    if (faults.interrupted != 0 && faults.interruptions < faults.interrupted) {
        faults.interruptions++;
        errno = EINTR;
        return true;
    }
    if (faults.interrupted != 0) {
        faults.interruptions = 0;
    }
    if (faults.most != 0 && *size > faults.most) {
        *size = faults.most;
    }
    return false;
}

/* What a look at a file finds. */
static int faulty_look(int result, struct stat *found)
{
    if (result == 0 && faults.clock != 0) {
        found->st_mtim = (struct timespec){ faults.clock, 0 };
        found->st_ctim = found->st_mtim;
    }
    if (result == 0 && faults.stranger != 0 && found->st_ino == faults.stranger) {
        found->st_uid ^= 4711;
    }
    return result;
}

/* Stores the C library's function in *function. */
static void faulty_find(void *function, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

/* What the C library calls its functions of 64-bit offsets and times, which the library and the tests use everywhere. The
   definitions below go by those names without being told to: the C library's headers see to it. */
#ifdef __GLIBC__
#define FAULTY_OFFSETS(name) name "64"
#else
#define FAULTY_OFFSETS(name) name
#endif
#if defined __GLIBC__ && __TIMESIZE == 32
#define FAULTY_TIMES(name) "__" name "_time64"
#else
#define FAULTY_TIMES(name) name
#endif

int open(const char *path, int flags, ...)
{
    int (*next)(const char *path, int flags, ...);
    va_list arguments;
    va_start(arguments, flags);
    const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    const mode_t mode = creates ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    faulty_find(&next, FAULTY_OFFSETS("open"));
    return faulty((flags & O_TMPFILE) == O_TMPFILE ? FAULT_UNNAMED : FAULT_OPEN) ? -1 : next(path, flags, mode);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
    ssize_t (*next)(int fd, void *buffer, size_t size, off_t offset);
    faulty_find(&next, FAULTY_OFFSETS("pread"));
    return faulty_transfer(&size) || faulty(FAULT_READ) ? -1 : next(fd, buffer, size, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    ssize_t (*next)(int fd, const void *bytes, size_t size, off_t offset);
    faulty_find(&next, FAULTY_OFFSETS("pwrite"));
    return faulty_transfer(&size) || faulty(FAULT_WRITE) ? -1 : next(fd, bytes, size, offset);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    ssize_t (*next)(int fd, const void *bytes, size_t size);
    faulty_find(&next, "write");
    return faulty_transfer(&size) || faulty(FAULT_WRITE) ? -1 : next(fd, bytes, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    int (*next)(int fd, int mode, off_t offset, off_t size);
    faulty_find(&next, FAULTY_OFFSETS("fallocate"));
    return faulty(FAULT_RESERVE) ? -1 : next(fd, mode, offset, size);
}

int ftruncate(int fd, off_t size)
{
    int (*next)(int fd, off_t size);
    faulty_find(&next, FAULTY_OFFSETS("ftruncate"));
    return faulty(FAULT_TRUNCATE) ? -1 : next(fd, size);
}

int fstat(int fd, struct stat *found)
{
    int (*next)(int fd, struct stat *found);
    faulty_find(&next, FAULTY_TIMES(FAULTY_OFFSETS("fstat")));
    return faulty(FAULT_INSPECT) ? -1 : faulty_look(next(fd, found), found);
}

int fstatat(int directory, const char *path, struct stat *found, int flags)
{
    int (*next)(int directory, const char *path, struct stat *found, int flags);
    faulty_find(&next, FAULTY_TIMES(FAULTY_OFFSETS("fstatat")));
    return faulty(FAULT_INSPECT) ? -1 : faulty_look(next(directory, path, found, flags), found);
}

int fdatasync(int fd)
{
    int (*next)(int fd);
    faulty_find(&next, "fdatasync");
    return faulty(FAULT_SYNC) ? -1 : next(fd);
}

int fsync(int fd)
{
    int (*next)(int fd);
    faulty_find(&next, "fsync");
    return faulty(FAULT_SYNC_NAMES) ? -1 : next(fd);
}

int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags)
{
    int (*next)(int from_directory, const char *from, int to_directory, const char *to, int flags);
    faulty_find(&next, "linkat");
    return faulty(FAULT_LINK) ? -1 : next(from_directory, from, to_directory, to, flags);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to)
{
    int (*next)(int from_directory, const char *from, int to_directory, const char *to);
    faulty_find(&next, "renameat");
    return faulty(FAULT_RENAME) ? -1 : next(from_directory, from, to_directory, to);
}

#ifdef RENAME_EXCHANGE
int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags)
{
    int (*next)(int from_directory, const char *from, int to_directory, const char *to, unsigned flags);
    faulty_find(&next, "renameat2");
    errno = faults.always[FAULT_RENAME];
    return errno != 0 || faulty(FAULT_EXCHANGE) ? -1 : next(from_directory, from, to_directory, to, flags);
}
#endif

int unlinkat(int directory, const char *path, int flags)
{
    int (*next)(int directory, const char *path, int flags);
    faulty_find(&next, "unlinkat");
    return faulty(FAULT_UNLINK) ? -1 : next(directory, path, flags);
}

int fchmod(int fd, mode_t mode)
{
    int (*next)(int fd, mode_t mode);
    faulty_find(&next, "fchmod");
    return faulty(FAULT_MODE) ? -1 : next(fd, mode);
}

int fchown(int fd, uid_t owner, gid_t group)
{
    int (*next)(int fd, uid_t owner, gid_t group);
    faulty_find(&next, "fchown");
    return faulty(FAULT_OWNER) ? -1 : next(fd, owner, group);
}

int flock(int fd, int operation)
{
    int (*next)(int fd, int operation);
    faulty_find(&next, "flock");
    return faulty(FAULT_LOCK) ? -1 : next(fd, operation);
}

int ioctl(int fd, ioctl_request request, ...)
{
    int (*next)(int fd, ioctl_request request, ...);
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    faulty_find(&next, FAULTY_TIMES("ioctl"));
    return faulty(FAULT_CLONE) ? -1 : next(fd, request, argument);
}

ssize_t copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset, size_t size, unsigned flags)
{
    ssize_t (*next)(int from, off_t *from_offset, int to, off_t *to_offset, size_t size, unsigned flags);
    faulty_find(&next, "copy_file_range");
    return faulty(FAULT_COPY) ? -1 : next(from, from_offset, to, to_offset, size, flags);
}

#ifdef __linux__
int fstatfs(int fd, struct statfs *found)
{
    int (*next)(int fd, struct statfs *found);
    faulty_find(&next, FAULTY_OFFSETS("fstatfs"));
    const int result = next(fd, found);
    if (result == 0 && faults.file_system != 0) {
        found->f_type = (__typeof__(found->f_type))faults.file_system;
    }
    return result;
}
#endif

int close(int fd)
{
    int (*next)(int fd);
    faulty_find(&next, "close");
    const int result = next(fd);
    return faulty(FAULT_CLOSE) ? -1 : result;
}

#endif

#endif
