/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: opening files, and their bytes. Bytes are read and written by offset, so that
 * threads can share a descriptor without a lock.
 */
#include "os_posix.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/falloc.h> /* musl's fcntl.h knows only two of its modes */
#include <linux/fs.h>
#include <stdio.h>
#endif

/* The most that one call is asked to move. Linux moves at most 2 GiB less a page, and some systems refuse sizes
   above 2 GiB. A multiple of every page size. */
#define OS_PIECE ((uint64_t)1 << 30)
/* How often fallocate is tried when signals interrupt it. */
#define OS_RESERVE_TRIES 8

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

/* O_NOCTTY: opening a terminal by mistake must not make it the process's controlling one. */
int coffer__os_open_with(const char *path, int flags, mode_t mode, int *fd)
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

/* O_NONBLOCK has no effect on regular files; it keeps open from waiting for the other end of a
   pipe. */
int coffer__os_open(const char *path, coffer__os_use use, bool follow, int *fd)
{
    const int access = use == COFFER__OS_READ ? O_RDONLY : use == COFFER__OS_WRITE ? O_WRONLY : O_RDWR;
    return coffer__os_open_with(path, access | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW), 0, fd);
}

static mode_t os_new_mode(bool secret)
{
    return secret ? 0600 : 0666;
}

int coffer__os_create(const char *path, bool secret, int *fd)
{
    return coffer__os_open_with(path, O_RDWR | O_CREAT | O_EXCL, os_new_mode(secret), fd);
}

#ifdef __linux__
/* The name under which the file of a descriptor can be opened or linked, whether it has another one or not. */
#define OS_FD_NAME_SIZE 32
static void os_fd_name(int fd, char name[OS_FD_NAME_SIZE])
{
    (void)snprintf(name, OS_FD_NAME_SIZE, "/proc/self/fd/%d", fd);
}

/* The name in /proc leads to the open file also when its path was renamed or removed, or another file has taken its name,
   and needs the same rights as any other name. The file has bytes at places, so that opening it waits for nobody. In a
   mount that is no real /proc the name could lead anywhere, and therefore the comparison. */
int coffer__os_open_by_number(int fd, int flags, int *again)
{
    char name[OS_FD_NAME_SIZE];
    struct stat meant;
    struct stat opened;
    os_fd_name(fd, name);
    const int os_error = coffer__os_open_with(name, flags, 0, again);
    if (os_error != 0) {
        *again = -1;
        return os_error == ENOENT ? EOPNOTSUPP : os_error; /* there is no /proc */
    }
    if (fstat(fd, &meant) == 0 && fstat(*again, &opened) == 0 && meant.st_dev == opened.st_dev &&
        meant.st_ino == opened.st_ino) {
        return 0;
    }
    (void)close(*again);
    *again = -1;
    return ESTALE;
}
#endif

/* linkat with AT_EMPTY_PATH would need no /proc, but a privilege (CAP_DAC_READ_SEARCH). */
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
    const int os_error = coffer__os_open_with(directory, O_RDWR | O_TMPFILE, os_new_mode(secret), fd);
    if (os_error != 0) {
        return os_error;
    }
    /* coffer__os_name needs /proc, which a container or chroot may lack, and linking may be forbidden. That
       must be known before gigabytes are written. So try to give the file the name of its own directory: the
       name is taken, and any error but EEXIST means that naming does not work. */
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

/* Not 0 to 2, even if the program closed those: what is written to standard error must not end up
   in the file. */
int coffer__os_duplicate(int fd, int *copy)
{
    const int made = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (made < 0) {
        return errno;
    }
    *copy = made;
    return 0;
}

/* On Linux the descriptor is closed even when close is interrupted. Repeating it could close a
   descriptor that another thread just got. */
int coffer__os_close(int fd)
{
    return close(fd) == 0 || errno == EINTR ? 0 : errno;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* off_t has 64 bits (_FILE_OFFSET_BITS) and a sign. */
bool coffer__os_offset_fits(uint64_t offset, uint64_t size)
{
    return offset <= INT64_MAX && size <= INT64_MAX - offset;
}

static size_t os_piece(size_t size)
{
    return (uint64_t)size < OS_PIECE ? size : (size_t)OS_PIECE;
}

/* A short read is no error and no end of the file: only 0 bytes are. So it goes on until all bytes
   are read. */
int coffer__os_read_enough(int fd, uint64_t offset, void *buffer, size_t size, size_t enough, size_t *done)
{
    *done = 0;
    if (!coffer__os_offset_fits(offset, size)) {
        return EOVERFLOW;
    }
    while (*done < enough) {
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

int coffer__os_read_at(int fd, uint64_t offset, void *buffer, size_t size, size_t *done)
{
    return coffer__os_read_enough(fd, offset, buffer, size, size, done);
}

/* pwrite that writes nothing without an error would loop for ever; no regular file does that. */
int coffer__os_write_at(int fd, uint64_t offset, const void *bytes, size_t size)
{
    if (!coffer__os_offset_fits(offset, size)) {
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

/* Waits until a non-blocking descriptor accepts bytes again, or has an error to report. 0 also when a signal
   came first: the caller then asks the user and tries again. */
static int os_wait_writable(int fd)
{
    struct pollfd waiting = { .fd = fd, .events = POLLOUT };
    return poll(&waiting, 1, -1) >= 0 || errno == EINTR ? 0 : errno;
}

/* One call of write, and no more: the caller decides whether to continue. Writing nothing at all on
   a descriptor that accepts bytes would loop for ever, so it counts as an error of the device. */
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
/* Whether the error means that copy_file_range does not work between these two files, though
   reading and writing may: other file systems (EXDEV), overlapping ranges or special files
   (EINVAL), old kernels and containers (ENOSYS, EPERM), a file open for appending (EBADF), or a
   swap file (ETXTBSY). */
static bool os_cannot_copy(int os_error)
{
    return os_error == EXDEV || os_error == EINVAL || os_error == ENOSYS || os_error == EOPNOTSUPP ||
           os_error == EPERM || os_error == EBADF || os_error == ETXTBSY;
}
#endif

/* copy_file_range moves as much as it likes. 0 bytes is the end of the source, or what some file
   systems answer instead of an error; the caller finds out which by reading. */
int coffer__os_copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size, uint64_t *done)
{
    *done = 0;
#ifdef __linux__
    if (!coffer__os_offset_fits(from_offset, size) || !coffer__os_offset_fits(to_offset, size)) {
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

/* A length of 0 means up to the end of the source, whose last block may be partial. */
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
    if (!coffer__os_offset_fits(offset, size)) {
        return EFBIG;
    }
#ifdef FALLOC_FL_INSERT_RANGE
    return fallocate(fd, FALLOC_FL_INSERT_RANGE, (off_t)offset, (off_t)size) == 0 ? 0 : errno;
#else
    (void)fd;
    return EOPNOTSUPP;
#endif
}

/* A write lease is granted only if the file is open nowhere else. If somebody opens it later, the
   system holds them up and sends a signal to this process. The default for that is SIGIO, which
   would end a process that does not handle it; SIGURG is ignored unless the program handles it. */
int coffer__os_claim(int fd)
{
#if defined F_SETLEASE && defined F_SETSIG
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

/* KEEP_SIZE, so that a file that is not complete yet is not as long as one that is. Not
   posix_fallocate: where the file system cannot reserve, glibc would write zeros to every block,
   which costs as much as the file itself. */
int coffer__os_reserve(int fd, uint64_t offset, uint64_t size)
{
    if (!coffer__os_offset_fits(offset, size)) {
        return EFBIG;
    }
    if (size == 0) {
        return 0;
    }
#ifdef FALLOC_FL_KEEP_SIZE
    /* On some file systems fallocate starts again after a signal. A program with a timer that fires faster
       than that would never get through, so the number of tries is bounded. */
    int result = -1;
    for (int i = 0; i < OS_RESERVE_TRIES && result != 0 && (i == 0 || errno == EINTR); i++) {
        result = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
    }
    const bool of_no_use =
        result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL || errno == ENODEV || errno == EINTR);
    return result == 0 || of_no_use ? 0 : errno;
#elif defined F_PREALLOCATE
    /* macOS reserves from the file's end on, of which the file is short before its first write. Only a full disk counts. */
    fstore_t wanted = { .fst_flags = F_ALLOCATEALL,
                        .fst_posmode = F_PEOFPOSMODE,
                        .fst_length = (off_t)(offset + size) };
    return fcntl(fd, F_PREALLOCATE, &wanted) != 0 && errno == ENOSPC ? ENOSPC : 0;
#else
    (void)fd;
    return 0;
#endif
}

/*
 * Holes are found with lseek, which moves the descriptor's position. The descriptor may be the program's,
 * which may read by that position in another thread or process. Opening it once more makes a new open file of
 * the same file, with a position of its own. Only Linux has that; elsewhere files have no holes.
 */
#if defined(__linux__) && defined(SEEK_DATA)
/* The answer of lseek, or `otherwise` if it fails. */
static uint64_t os_look(int fd, uint64_t offset, int whence, uint64_t otherwise)
{
    const off_t found = coffer__os_offset_fits(offset, 0) ? lseek(fd, (off_t)offset, whence) : -1;
    return found >= 0 ? (uint64_t)found : otherwise;
}

/* ENXIO is the one error that is an answer; after any other, everything counts as data. */
uint64_t coffer__os_next_data(int fd, uint64_t offset)
{
    int own = -1;
    if (coffer__os_open_by_number(fd, O_RDONLY, &own) != 0) {
        return offset;
    }
    errno = 0;
    uint64_t data = os_look(own, offset, SEEK_DATA, offset);
    if (errno == ENXIO) { /* there is no data up to the end */
        data = os_look(own, 0, SEEK_END, offset);
    }
    (void)close(own);
    return data > offset ? data : offset;
}

uint64_t coffer__os_next_hole(int fd, uint64_t offset)
{
    struct stat info;
    /* A file that has all its blocks has no holes. That is asked first, because SEEK_HOLE may walk over all
       pages of the file. */
    if (fstat(fd, &info) != 0 || (uint64_t)info.st_blocks * 512 >= (uint64_t)info.st_size) {
        return UINT64_MAX;
    }
    int own = -1;
    if (coffer__os_open_by_number(fd, O_RDONLY, &own) != 0) {
        return UINT64_MAX;
    }
    /* SEEK_HOLE reports a hole at the end of every file. It does not count. */
    const uint64_t found = os_look(own, offset, SEEK_HOLE, UINT64_MAX);
    const uint64_t end = os_look(own, 0, SEEK_END, 0);
    (void)close(own);
    return found < end ? found : UINT64_MAX;
}
#else
uint64_t coffer__os_next_data(int fd, uint64_t offset)
{
    (void)fd;
    return offset;
}

uint64_t coffer__os_next_hole(int fd, uint64_t offset)
{
    (void)fd;
    (void)offset;
    return UINT64_MAX;
}
#endif

int coffer__os_truncate(int fd, uint64_t size)
{
    if (!coffer__os_offset_fits(size, 0)) {
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
