/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: POSIX, and of Linux what makes saving atomic and fast (unnamed files, space set aside, copies in the
 * kernel, clones, huge pages). Where a system lacks such a call, the function says EOPNOTSUPP and its caller does without.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#define _TIME_BITS 64
#include "os.h"

#include "coffer.h"

#ifndef COFFER_NO_DLOPEN
#include <dlfcn.h>
#ifdef __GLIBC__
#include <link.h>
#endif
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/fs.h>
#include <stdio.h>
#endif

/* The most that one call is asked to move: every system takes that much, and it is a multiple of every page. */
#define OS_PIECE ((uint64_t)1 << 30)
/* From this size on a buffer begins where a huge page can. */
#define OS_HUGE_PAGE ((size_t)2 << 20)
#define OS_PERMISSIONS 07777u
/* How often space is asked for that a signal kept from being set aside. */
#define OS_RESERVE_TRIES 8
/* Giving up a file of less takes no longer than starting a thread does. */
#define OS_LARGE_FILE ((uint64_t)32 << 20)
#define OS_SMALL_STACK ((size_t)256 << 10)

/* ---- threads --------------------------------------------------------------------------------------------------------- */

int coffer__os_mutex_init(coffer__mutex *mutex)
{
    return pthread_mutex_init(&mutex->posix, NULL);
}

void coffer__os_mutex_deinit(coffer__mutex *mutex)
{
    (void)pthread_mutex_destroy(&mutex->posix);
}

void coffer__os_mutex_lock(coffer__mutex *mutex)
{
    (void)pthread_mutex_lock(&mutex->posix);
}

void coffer__os_mutex_unlock(coffer__mutex *mutex)
{
    (void)pthread_mutex_unlock(&mutex->posix);
}

int coffer__os_condition_init(coffer__condition *condition)
{
    pthread_condattr_t attributes;
    int os_error = pthread_condattr_init(&attributes);
    if (os_error != 0) {
        return os_error;
    }
    /* The calendar's clock may be set while somebody waits. */
    os_error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    os_error = os_error != 0 ? os_error : pthread_cond_init(&condition->posix, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return os_error;
}

void coffer__os_condition_deinit(coffer__condition *condition)
{
    (void)pthread_cond_destroy(&condition->posix);
}

bool coffer__os_condition_wait(coffer__condition *condition, coffer__mutex *mutex, uint64_t milliseconds)
{
    struct timespec until = { 0, 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    const uint64_t nanoseconds = (uint64_t)until.tv_nsec + milliseconds % 1000 * 1000000;
    until.tv_sec += (time_t)(milliseconds / 1000 + nanoseconds / 1000000000);
    until.tv_nsec = (long)(nanoseconds % 1000000000);
    return pthread_cond_timedwait(&condition->posix, &mutex->posix, &until) != ETIMEDOUT;
}

void coffer__os_condition_wake(coffer__condition *condition)
{
    (void)pthread_cond_signal(&condition->posix);
}

static void *os_thread_main(void *arg)
{
    const coffer__thread *thread = arg;
    thread->run(thread->arg);
    return NULL;
}

/* With those signals blocked that any thread of the program can take. Those that an instruction of the thread itself causes are left:
   blocked, they end the process instead of running the program's handler, which may be what lets it read maps of files that
   become shorter. */
static int os_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *arg)
{
    static const int own[] = { SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP };
    sigset_t others;
    sigset_t before;
    (void)sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        (void)sigdelset(&others, own[i]);
    }
    (void)pthread_sigmask(SIG_SETMASK, &others, &before);
    const int os_error = pthread_create(thread, attributes, main, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return os_error;
}

static int os_thread_create_small(coffer__thread *thread)
{
    pthread_attr_t attributes;
    int os_error = pthread_attr_init(&attributes);
    if (os_error != 0) {
        return os_error;
    }
    os_error = pthread_attr_setstacksize(&attributes, OS_SMALL_STACK);
    os_error = os_error != 0 ? os_error : os_thread_create(&thread->posix, &attributes, os_thread_main, thread);
    (void)pthread_attr_destroy(&attributes);
    return os_error;
}

int coffer__os_thread_start(coffer__thread *thread, void (*run)(void *arg), void *arg, bool small)
{
    thread->run = run;
    thread->arg = arg;
    /* A program with many thread-local variables, which lie on the stack, may have no room for them on a small one. */
    if (small && os_thread_create_small(thread) == 0) {
        return 0;
    }
    return os_thread_create(&thread->posix, NULL, os_thread_main, thread);
}

void coffer__os_thread_join(coffer__thread *thread)
{
    (void)pthread_join(thread->posix, NULL);
}

size_t coffer__os_descriptors(void)
{
    struct rlimit limit = { .rlim_cur = 0 };
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur < SIZE_MAX ? (size_t)limit.rlim_cur : SIZE_MAX;
}

unsigned coffer__os_processors(void)
{
#ifdef __linux__
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable) == 0) {
        return (unsigned)CPU_COUNT(&usable);
    }
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (unsigned)online;
}

/* ---- what lies under a name ------------------------------------------------------------------------------------------ */

static coffer__os_kind os_kind(mode_t mode)
{
    return S_ISREG(mode)   ? COFFER__OS_REGULAR
           : S_ISDIR(mode) ? COFFER__OS_DIRECTORY
           : S_ISBLK(mode) ? COFFER__OS_BLOCK
           : S_ISLNK(mode) ? COFFER__OS_LINK
                           : COFFER__OS_OTHER;
}

/* What a failed inspection leaves: a compiler that sees caller and callee cannot know that errno is not 0 then. */
static const coffer__os_info OS_NO_INFO = { .kind = COFFER__OS_OTHER };

static int64_t os_nanoseconds(const struct timespec *time)
{
    return (int64_t)((uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec);
}

/* The clock that files get their times from: Linux's goes on by a tick at a time. */
static int64_t os_file_clock(void)
{
    struct timespec now = { 0, 0 };
#ifdef CLOCK_REALTIME_COARSE
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
#else
    (void)clock_gettime(CLOCK_REALTIME, &now);
#endif
    return os_nanoseconds(&now);
}

/* Whether a change after `before` could leave the time `touched` as it is. Times of whole seconds are of a file system that
   knows no finer ones, two seconds at worst; a time in the future beyond that is of another clock. */
static bool os_is_recent(int64_t touched, int64_t before)
{
    const int64_t coarsest = INT64_C(2000000000);
    const bool whole_seconds = touched % INT64_C(1000000000) == 0;
    return touched >= before - (whole_seconds ? coarsest : 0) && touched <= before + coarsest;
}

/* `before`: the time of files before this one was looked at. */
static void os_info_of(const struct stat *found, int64_t before, coffer__os_info *info)
{
    info->kind = os_kind(found->st_mode);
    info->mode = (uint32_t)found->st_mode & OS_PERMISSIONS;
    info->owner = (uint32_t)found->st_uid;
    info->group = (uint32_t)found->st_gid;
    info->size = info->kind == COFFER__OS_REGULAR ? (uint64_t)found->st_size : 0;
    info->links = (uint64_t)found->st_nlink;
    info->device = (uint64_t)found->st_dev;
    info->inode = (uint64_t)found->st_ino;
    info->modified = os_nanoseconds(&found->st_mtim);
    info->touched = os_nanoseconds(&found->st_ctim);
    info->recent = os_is_recent(info->touched, before);
}

int coffer__os_inspect(const char *path, bool follow, coffer__os_info *info)
{
    struct stat found;
    const int64_t before = os_file_clock();
    *info = OS_NO_INFO;
    if (fstatat(AT_FDCWD, path, &found, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
        return errno;
    }
    os_info_of(&found, before, info);
    return 0;
}

int coffer__os_inspect_fd(int fd, coffer__os_info *info)
{
    struct stat found;
    const int64_t before = os_file_clock();
    *info = OS_NO_INFO;
    if (fstat(fd, &found) != 0) {
        return errno;
    }
    os_info_of(&found, before, info);
#ifdef BLKGETSIZE64
    if (info->kind == COFFER__OS_BLOCK && ioctl(fd, BLKGETSIZE64, &info->size) != 0) {
        return errno;
    }
#endif
    return 0;
}

bool coffer__os_unchanged(const coffer__os_info *then, const coffer__os_info *now)
{
    return then->device == now->device && then->inode == now->inode && then->size == now->size &&
           then->modified == now->modified;
}

bool coffer__os_is_mine(const coffer__os_info *info)
{
    return info->owner == (uint32_t)geteuid();
}

bool coffer__os_exists(const char *path)
{
    return faccessat(AT_FDCWD, path, F_OK, 0) == 0;
}

int coffer__os_list(const char *folder, bool (*see)(void *ctx, const char *name), void *ctx)
{
    DIR *stream = opendir(folder);
    if (stream == NULL) {
        return errno;
    }
    bool more = true;
    while (more) {
        errno = 0;
        /* No other thread has this stream. */
        /* cppcheck-suppress readdirCalled */
        const struct dirent *entry = readdir(stream); /* NOLINT(concurrency-mt-unsafe) */
        const char *name = entry == NULL ? NULL : entry->d_name;
        more = name != NULL && (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || see(ctx, name));
    }
    const int os_error = errno;
    (void)closedir(stream);
    return os_error;
}

int coffer__os_real_path(const char *path, char *out, size_t size)
{
    char *real = realpath(path, NULL);
    if (real == NULL) {
        return errno;
    }
    const size_t length = strlen(real);
    const bool fits = length < size;
    if (fits) {
        memcpy(out, real, length + 1);
    }
    free(real);
    return fits ? 0 : ENAMETOOLONG;
}

/* ---- opening and closing --------------------------------------------------------------------------------------------- */

static int os_open_with(const char *path, int flags, mode_t mode, int *fd)
{
    int opened = -1;
    do {
        opened = open(path, flags | O_CLOEXEC | O_NOCTTY, mode);
    } while (opened < 0 && errno == EINTR);
    if (opened < 0) {
        return errno;
    }
    *fd = opened;
    return 0;
}

int coffer__os_open(const char *path, coffer__os_use use, bool follow, int *fd)
{
    const int access = use == COFFER__OS_READ ? O_RDONLY : use == COFFER__OS_WRITE ? O_WRONLY : O_RDWR;
    return os_open_with(path, access | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW), 0, fd);
}

static mode_t os_new_mode(bool secret)
{
    return secret ? 0600 : 0666;
}

int coffer__os_create(const char *path, bool secret, int *fd)
{
    return os_open_with(path, O_RDWR | O_CREAT | O_EXCL, os_new_mode(secret), fd);
}

#ifdef O_TMPFILE
#define OS_FD_NAME_SIZE 32
static void os_fd_name(int fd, char name[OS_FD_NAME_SIZE])
{
    (void)snprintf(name, OS_FD_NAME_SIZE, "/proc/self/fd/%d", fd);
}
#endif

int coffer__os_name(int fd, const char *path)
{
#ifdef O_TMPFILE
    char name[OS_FD_NAME_SIZE];
    os_fd_name(fd, name);
    return linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
#else
    (void)fd;
    (void)path;
    return EOPNOTSUPP;
#endif
}

int coffer__os_create_unnamed(const char *directory, bool secret, int *fd)
{
#ifdef O_TMPFILE
    const int os_error = os_open_with(directory, O_RDWR | O_TMPFILE, os_new_mode(secret), fd);
    if (os_error != 0) {
        return os_error;
    }
    /* The name comes by way of /proc, which a container or chroot may lack, and links may be forbidden there. The directory's own
       name is taken: nothing else may be wrong with it. */
    if (coffer__os_name(*fd, directory) != EEXIST) {
        (void)close(*fd);
        return EOPNOTSUPP;
    }
    return 0;
#else
    (void)directory;
    (void)secret;
    (void)fd;
    return EOPNOTSUPP;
#endif
}

int coffer__os_duplicate(int fd, int *copy)
{
    const int made = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (made < 0) {
        return errno;
    }
    *copy = made;
    return 0;
}

int coffer__os_close(int fd)
{
    return close(fd) == 0 || errno == EINTR ? 0 : errno;
}

/* ---- bytes ----------------------------------------------------------------------------------------------------------- */

static bool os_offset_fits(uint64_t offset, uint64_t size)
{
    return offset <= INT64_MAX && size <= INT64_MAX - offset;
}

static size_t os_piece(size_t size)
{
    return (uint64_t)size < OS_PIECE ? size : (size_t)OS_PIECE;
}

int coffer__os_read_at(int fd, uint64_t offset, void *buffer, size_t size, size_t *done)
{
    *done = 0;
    if (!os_offset_fits(offset, size)) {
        return EOVERFLOW;
    }
    while (*done < size) {
        const ssize_t got = pread(fd, (char *)buffer + *done, os_piece(size - *done), (off_t)(offset + *done));
        if (got == 0) {
            return 0;
        }
        if (got > 0) {
            *done += (size_t)got;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int coffer__os_write_at(int fd, uint64_t offset, const void *bytes, size_t size)
{
    if (!os_offset_fits(offset, size)) {
        return EFBIG;
    }
    size_t done = 0;
    while (done < size) {
        const ssize_t put = pwrite(fd, (const char *)bytes + done, os_piece(size - done), (off_t)(offset + done));
        if (put == 0) {
            return EIO;
        }
        if (put > 0) {
            done += (size_t)put;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* Waits until a non-blocking descriptor takes bytes again, or has an error to report. */
/* 0 also when a signal came first. */
static int os_wait_writable(int fd)
{
    struct pollfd waiting = { .fd = fd, .events = POLLOUT };
    return poll(&waiting, 1, -1) >= 0 || errno == EINTR ? 0 : errno;
}

int coffer__os_write_next(int fd, const void *bytes, size_t size, size_t *done)
{
    *done = 0;
    if (size == 0) {
        return 0;
    }
    const ssize_t put = write(fd, bytes, os_piece(size));
    if (put > 0) {
        *done = (size_t)put;
        return 0;
    }
    if (put == 0) {
        return EIO;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return os_wait_writable(fd);
    }
    return errno == EINTR ? 0 : errno;
}

#ifdef __linux__
/* Whether copy_file_range is of no use between two files, though reading and writing may be. */
static bool os_cannot_copy(int os_error)
{
    return os_error == EXDEV || os_error == EINVAL || os_error == ENOSYS || os_error == EOPNOTSUPP ||
           os_error == EPERM || os_error == EBADF || os_error == ETXTBSY;
}
#endif

int coffer__os_copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size, uint64_t *done)
{
    *done = 0;
#ifdef __linux__
    if (!os_offset_fits(from_offset, size) || !os_offset_fits(to_offset, size)) {
        return EOVERFLOW;
    }
    while (*done < size) {
        off_t in = (off_t)(from_offset + *done);
        off_t out = (off_t)(to_offset + *done);
        const uint64_t left = size - *done;
        const ssize_t got = copy_file_range(from, &in, to, &out, (size_t)(left < OS_PIECE ? left : OS_PIECE), 0);
        if (got == 0) {
            return 0;
        }
        if (got > 0) {
            *done += (uint64_t)got;
        } else if (errno != EINTR) {
            return os_cannot_copy(errno) ? EOPNOTSUPP : errno;
        }
    }
    return 0;
#else
    (void)from;
    (void)from_offset;
    (void)to;
    (void)to_offset;
    return size == 0 ? 0 : EOPNOTSUPP;
#endif
}

int coffer__os_clone(int from, int to)
{
#ifdef FICLONE
    return ioctl(to, FICLONE, from) == 0 ? 0 : errno;
#else
    (void)from;
    (void)to;
    return EOPNOTSUPP;
#endif
}

int coffer__os_clone_range(int from, uint64_t from_offset, int to, uint64_t to_offset)
{
#ifdef FICLONERANGE
    struct file_clone_range range = {
        .src_fd = from, .src_offset = from_offset, .src_length = 0, .dest_offset = to_offset
    };
    return ioctl(to, FICLONERANGE, &range) == 0 ? 0 : errno;
#else
    (void)from;
    (void)from_offset;
    (void)to;
    (void)to_offset;
    return EOPNOTSUPP;
#endif
}

int coffer__os_insert(int fd, uint64_t offset, uint64_t size)
{
    if (!os_offset_fits(offset, size)) {
        return EFBIG;
    }
#ifdef FALLOC_FL_INSERT_RANGE
    return fallocate(fd, FALLOC_FL_INSERT_RANGE, (off_t)offset, (off_t)size) == 0 ? 0 : errno;
#else
    (void)fd;
    return EOPNOTSUPP;
#endif
}

int coffer__os_claim(int fd)
{
#if defined F_SETLEASE && defined F_SETSIG
    /* Whoever wants the file meanwhile makes the system send a signal, whose usual one would end the process; this one is ignored
       unless the program has a use for it. */
    if (fcntl(fd, F_SETSIG, SIGURG) != 0) {
        return EOPNOTSUPP;
    }
    if (fcntl(fd, F_SETLEASE, F_WRLCK) == 0) {
        return 0;
    }
    return errno == EAGAIN ? EAGAIN : EOPNOTSUPP;
#else
    (void)fd;
    return EOPNOTSUPP;
#endif
}

void coffer__os_let_go(int fd)
{
#if defined F_SETLEASE && defined F_SETSIG
    (void)fcntl(fd, F_SETLEASE, F_UNLCK);
#else
    (void)fd;
#endif
}

int coffer__os_reserve(int fd, uint64_t offset, uint64_t size)
{
    if (!os_offset_fits(offset, size)) {
        return EFBIG;
    }
    if (size == 0) {
        return 0;
    }
#ifdef FALLOC_FL_KEEP_SIZE
    /* A signal makes it begin anew on some file systems: where signals come faster than it is done, it never would be. */
    int result = -1;
    for (int i = 0; i < OS_RESERVE_TRIES && result != 0 && (i == 0 || errno == EINTR); i++) {
        result = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
    }
    const bool of_no_use =
        result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL || errno == ENODEV || errno == EINTR);
    return result == 0 || of_no_use ? 0 : errno;
#else
    (void)fd;
    return 0;
#endif
}

#ifdef SEEK_DATA
/* lseek that leaves the position where it was: whoever gave the descriptor may go by it. */
static off_t os_look(int fd, uint64_t offset, int whence)
{
    const off_t before = lseek(fd, 0, SEEK_CUR);
    const off_t found = os_offset_fits(offset, 0) ? lseek(fd, (off_t)offset, whence) : -1;
    const int os_error = errno;
    if (before >= 0) {
        (void)lseek(fd, before, SEEK_SET);
    }
    errno = os_error;
    return found;
}
#endif

uint64_t coffer__os_next_data(int fd, uint64_t offset)
{
#ifdef SEEK_DATA
    off_t found = os_look(fd, offset, SEEK_DATA);
    if (found < 0 && errno == ENXIO) {
        found = os_look(fd, 0, SEEK_END);
    }
    return found >= 0 && (uint64_t)found > offset ? (uint64_t)found : offset;
#else
    (void)fd;
    return offset;
#endif
}

uint64_t coffer__os_next_hole(int fd, uint64_t offset)
{
#ifdef SEEK_DATA
    struct stat info;
    /* A file that has all its blocks has no holes. To look for them may take a walk over all its pages. */
    if (fstat(fd, &info) != 0 || (uint64_t)info.st_blocks * 512 >= (uint64_t)info.st_size) {
        return UINT64_MAX;
    }
    /* Every file has a hole at its end, which is none here. */
    const off_t found = os_look(fd, offset, SEEK_HOLE);
    const off_t end = found >= 0 ? os_look(fd, 0, SEEK_END) : found;
    return found >= 0 && found < end ? (uint64_t)found : UINT64_MAX;
#else
    (void)fd;
    (void)offset;
    return UINT64_MAX;
#endif
}

int coffer__os_truncate(int fd, uint64_t size)
{
    if (!os_offset_fits(size, 0)) {
        return EFBIG;
    }
    int result = 0;
    do {
        result = ftruncate(fd, (off_t)size);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

int coffer__os_position(int fd, uint64_t *position)
{
    const off_t at = lseek(fd, 0, SEEK_CUR);
    if (at < 0) {
        return errno;
    }
    *position = (uint64_t)at;
    return 0;
}

int coffer__os_set_position(int fd, uint64_t position)
{
    return lseek(fd, (off_t)position, SEEK_SET) < 0 ? errno : 0;
}

bool coffer__os_appends(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_APPEND) != 0;
}

/* ---- what survives --------------------------------------------------------------------------------------------------- */

int coffer__os_sync(int fd)
{
    int result = 0;
    do {
        result = fdatasync(fd);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

void coffer__os_sync_begin(int fd)
{
#ifdef SYNC_FILE_RANGE_WRITE
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
#else
    (void)fd;
#endif
}

void coffer__os_sync_stretch(int fd, uint64_t offset, uint64_t size)
{
#ifdef SYNC_FILE_RANGE_WRITE
    (void)sync_file_range(fd, (off_t)offset, (off_t)size,
                          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
#else
    (void)fd;
    (void)offset;
    (void)size;
#endif
}

int coffer__os_sync_names(int directory)
{
    int result = 0;
    do {
        result = fsync(directory);
    } while (result != 0 && errno == EINTR);
    return result == 0 || errno == EINVAL || errno == EOPNOTSUPP ? 0 : errno;
}

int coffer__os_open_directory(const char *path, int *directory)
{
    return os_open_with(path, O_RDONLY | O_DIRECTORY, 0, directory);
}

int coffer__os_sync_directory(const char *path)
{
    int directory = -1;
    int os_error = coffer__os_open_directory(path, &directory);
    if (os_error == 0) {
        os_error = coffer__os_sync_names(directory);
        (void)coffer__os_close(directory);
    }
    return os_error;
}

int coffer__os_rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to) == 0 ? 0 : errno;
}

int coffer__os_exchange(const char *one, const char *other)
{
#if defined __GLIBC__ && defined RENAME_EXCHANGE
    return renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0 ? 0 : errno;
#else
    (void)one;
    (void)other;
    return EOPNOTSUPP;
#endif
}

#ifdef MADV_DONTFORK

/* Whether to replace the file takes long, and there is room for another one before its place is free. */
static bool os_is_large(int fd)
{
    struct stat info;
    struct statvfs device;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 1 || fstatvfs(fd, &device) != 0) {
        return false;
    }
    const uint64_t size = (uint64_t)info.st_blocks * 512;
    /* A file system in user space may say that its blocks have no size. */
    return size >= OS_LARGE_FILE && device.f_frsize > 0 && size / device.f_frsize < device.f_bavail;
}

/* Maps a byte of the file, which nobody looks at: until it is unmapped, the file exists. A descriptor would do that too, but a
   child process that is forked meanwhile would have it as well, and keep the file for as long as it lives. */
static void *os_hold(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return NULL;
    }
    void *page = os_is_large(fd) ? mmap(NULL, 1, PROT_NONE, MAP_SHARED, fd, 0) : MAP_FAILED;
    (void)close(fd);
    if (page == MAP_FAILED) {
        return NULL;
    }
    if (madvise(page, 1, MADV_DONTFORK) != 0) {
        (void)munmap(page, 1);
        return NULL;
    }
    return page;
}

/* Sees to it that this code is there for as long as the process is, though it may be part of a library that the program unloads when
   the call has returned. False where that cannot be had. */
static bool os_stays_loaded(void)
{
#if defined(__GLIBC__) && !defined(COFFER_NO_DLOPEN)
    static const char here = 0;
    Dl_info info;
    void *found = NULL;
    if (dladdr1(&here, &info, &found, RTLD_DL_LINKMAP) == 0) {
        return false;
    }
    const struct link_map *object = found;
    if (object->l_name[0] == '\0') {
        return true; /* the program itself */
    }
    void *handle = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (handle == NULL) {
        return false;
    }
    (void)dlclose(handle);
    return true;
#else
    return false;
#endif
}

static void *os_let_go_main(void *page)
{
    (void)munmap(page, 1);
    return NULL;
}

static void os_let_go(void *page)
{
    pthread_t thread;
    if (os_stays_loaded() && os_thread_create(&thread, NULL, os_let_go_main, page) == 0) {
        (void)pthread_detach(thread);
    } else {
        (void)munmap(page, 1);
    }
}

int coffer__os_rename_without_wait(const char *from, const char *to)
{
    void *replaced = os_hold(to);
    const int os_error = coffer__os_rename(from, to);
    if (replaced != NULL) {
        os_let_go(replaced);
    }
    return os_error;
}

int coffer__os_unlink_without_wait(const char *path)
{
    void *removed = os_hold(path);
    const int os_error = coffer__os_unlink(path);
    if (removed != NULL) {
        os_let_go(removed);
    }
    return os_error;
}

#else

int coffer__os_rename_without_wait(const char *from, const char *to)
{
    return coffer__os_rename(from, to);
}

int coffer__os_unlink_without_wait(const char *path)
{
    return coffer__os_unlink(path);
}

#endif

int coffer__os_unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0) == 0 ? 0 : errno;
}

int coffer__os_lock(int fd)
{
    int result = 0;
    do {
        result = flock(fd, LOCK_EX | LOCK_NB);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

static size_t os_page_size(void)
{
    const long size = sysconf(_SC_PAGESIZE);
    return size < 1 ? 4096 : (size_t)size;
}

/* Reads the pages of a private map in without making copies of them, which MAP_POPULATE would. */
static void os_populate_private(void *base, size_t size)
{
#ifdef MADV_POPULATE_READ
    if (madvise(base, size, MADV_POPULATE_READ) == 0) {
        return;
    }
#endif
    (void)posix_madvise(base, size, POSIX_MADV_WILLNEED);
}

/* Linux would refuse a private map larger than all memory, as if every page of it were to be changed. */
#ifdef MAP_NORESERVE
#define OS_NO_RESERVE MAP_NORESERVE
#else
#define OS_NO_RESERVE 0
#endif

static int os_map_flags(bool writable_copy, bool populate)
{
#ifdef MAP_POPULATE
    if (populate && !writable_copy) {
        return MAP_SHARED | MAP_POPULATE;
    }
#else
    (void)populate;
#endif
    return writable_copy ? MAP_PRIVATE | OS_NO_RESERVE : MAP_SHARED;
}

int coffer__os_map_range(int fd, uint64_t offset, uint64_t size, bool writable_copy, bool populate, coffer__os_map *map,
                         void **address)
{
    const uint64_t before = offset % os_page_size();
    if (!os_offset_fits(offset, size) || size > SIZE_MAX - before) {
        return EFBIG;
    }
    const size_t whole = (size_t)(before + size);
    const int protection = writable_copy ? PROT_READ | PROT_WRITE : PROT_READ;
    void *base = mmap(NULL, whole, protection, os_map_flags(writable_copy, populate), fd, (off_t)(offset - before));
    if (base == MAP_FAILED) {
        return errno;
    }
    if (populate && writable_copy) {
        os_populate_private(base, whole);
    }
    map->base = base;
    map->size = whole;
    *address = (char *)base + before;
    return 0;
}

void coffer__os_unmap(const coffer__os_map *map)
{
    if (map->base != NULL) {
        (void)munmap(map->base, map->size);
    }
}

/* Bytes of the pages that a buffer takes; 0 when there can be no such buffer. An empty one takes a page, too. */
static size_t os_buffer_size(size_t size)
{
    const size_t page = os_page_size();
    return size > SIZE_MAX - page - OS_HUGE_PAGE ? 0 : size == 0 ? page : (size + page - 1) / page * page;
}

static void *os_pages(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* Maps more than is wanted, gives back what lies before a huge page's start and behind the end. */
static void *os_huge_pages(size_t size)
{
    char *pages = os_pages(size + OS_HUGE_PAGE);
    if (pages == NULL) {
        return NULL;
    }
    const size_t before = (OS_HUGE_PAGE - (size_t)((uintptr_t)pages % OS_HUGE_PAGE)) % OS_HUGE_PAGE;
    if (before > 0) {
        (void)munmap(pages, before);
    }
    if (before < OS_HUGE_PAGE) {
        (void)munmap(pages + before + size, OS_HUGE_PAGE - before);
    }
#ifdef MADV_HUGEPAGE
    (void)madvise(pages + before, size, MADV_HUGEPAGE);
#endif
    return pages + before;
}

void *coffer_buffer_new(size_t size)
{
    const size_t whole = os_buffer_size(size);
    if (whole == 0) {
        return NULL;
    }
    return whole < OS_HUGE_PAGE ? os_pages(whole) : os_huge_pages(whole);
}

void coffer_buffer_free(void *buffer, size_t size)
{
    if (buffer != NULL) {
        (void)munmap(buffer, os_buffer_size(size));
    }
}

/*
 * Asks for huge pages below a large block, which is then written for the first time at several times the speed. The advice goes
 * to whole pages, outwards, and so to all of a block's own mapping: in two parts, libc could not move it by remapping.
 */
static void *os_large_block(void *block, size_t size)
{
#ifdef MADV_HUGEPAGE
    if (block != NULL && size >= 2 * OS_HUGE_PAGE) {
        const size_t before = (size_t)((uintptr_t)block % os_page_size());
        (void)madvise((char *)block - before, before + size, MADV_HUGEPAGE);
    }
#endif
    return block;
}

static void *os_libc_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return os_large_block(malloc(size), size);
}

static void *os_libc_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    (void)ctx;
    (void)old_size;
    return os_large_block(realloc(block, new_size), new_size);
}

static void os_libc_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)size;
    free(block);
}

const coffer_allocator *coffer_libc_allocator(void)
{
    static const coffer_allocator libc = { os_libc_alloc, os_libc_realloc, os_libc_free, NULL };
    return &libc;
}

/* ---- other libraries ------------------------------------------------------------------------------------------------- */

#ifndef COFFER_NO_DLOPEN

bool coffer__os_can_load(void)
{
    return true;
}

bool coffer__os_library_open(coffer__os_library *library, const char *name)
{
    library->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return library->handle != NULL;
}

bool coffer__os_library_holding(coffer__os_library *library, void (*function)(void))
{
    Dl_info info;
    const void *address = NULL;
    memcpy(&address, &function, sizeof address);
    library->handle = NULL;
    if (dladdr(address, &info) != 0 && info.dli_fname != NULL) {
        library->handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    }
    return library->handle != NULL;
}

bool coffer__os_library_find(const coffer__os_library *library, const char *name, void *function)
{
    /* C has no conversion between the two kinds of pointers; POSIX says that they have one representation. */
    void *address = dlsym(library->handle, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

void coffer__os_library_close(coffer__os_library *library)
{
    (void)dlclose(library->handle);
    library->handle = NULL;
}

#else

bool coffer__os_can_load(void)
{
    return false;
}

bool coffer__os_library_open(coffer__os_library *library, const char *name)
{
    (void)name;
    library->handle = NULL;
    return false;
}

bool coffer__os_library_holding(coffer__os_library *library, void (*function)(void))
{
    (void)function;
    library->handle = NULL;
    return false;
}

bool coffer__os_library_find(const coffer__os_library *library, const char *name, void *function)
{
    (void)library;
    (void)name;
    (void)function;
    return false;
}

void coffer__os_library_close(coffer__os_library *library)
{
    (void)library;
}

#endif

/* ---- the rest -------------------------------------------------------------------------------------------------------- */

static const struct os_words_row {
    int os_error;
    const char *words;
} os_words_rows[] = {
    { EACCES, "permission denied" },
    { EBADF, "the descriptor is not open for that" },
    { EBUSY, "it is in use by the system, as a mount point is" },
    { EDQUOT, "the disk quota is used up" },
    { EEXIST, "the name is taken" },
    { EFBIG, "the file would be larger than is allowed" },
    { EINVAL, "the system does not accept the request" },
    { EIO, "input/output error of the device" },
    { EISDIR, "it is a directory" },
    { ELOOP, "too many symbolic links" },
    { EMFILE, "this process has too many open files" },
    { ENAMETOOLONG, "the name is too long" },
    { ENFILE, "the system has too many open files" },
    { ENODEV, "the device cannot do that" },
    { ENOENT, "no such file or directory" },
    { ENOLCK, "the file system has no locks to give" },
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
    { ESTALE, "the file is gone from its server" },
    { ETIMEDOUT, "timed out" },
    { ETXTBSY, "it is a program that is running" },
    { EWOULDBLOCK, "somebody else has it" },
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
    /* Safe as long as the program does not change its environment in another thread, which POSIX leaves to the program. */
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
    return value != NULL && value[0] != '\0' ? value : NULL;
}

uint64_t coffer__os_milliseconds(void)
{
    struct timespec now = { 0, 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
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

uint32_t coffer__os_unlikely_number(void)
{
    struct timespec now = { 0, 0 };
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t mixed = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    mixed ^= (uint64_t)getpid() << 40;
    mixed *= UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 32);
}
