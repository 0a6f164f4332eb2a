/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tools/assurance/crash.py: preloaded into the command, it counts the calls that change what is in one folder, and lets one of them be
 * the last thing that the process does, or fail; and it writes down each of them, with its bytes, so that what a power cut may
 * leave can be made of them.
 *
 *   CRASH_UNDER   the folder, absolute
 *   CRASH_LOG     a file for the records: OPERATION, then numbers, paths and bytes, all in hexadecimal or after their length
 *   CRASH_AT      the number of the call, from 1, at which it happens; none: nothing happens
 *   CRASH_ERROR   the errno with which that call fails; none: the process is killed before it makes the call
 *
 * No part of the library, and of Linux alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4200

static atomic_uint calls;

/* The C library's function of that name. */
#define NEXT(type, name) ((type)(uintptr_t)dlsym(RTLD_NEXT, name))

/* ---- what counts ------------------------------------------------------------------------------------------------------- */

static bool is_under(const char *path)
{
    const char *under = getenv("CRASH_UNDER");
    const size_t len = under == NULL ? 0 : strlen(under);
    return len > 0 && strncmp(path, under, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* The path of a descriptor. */
static bool path_of(int fd, char path[PATH_SIZE])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t len = readlink(link, path, PATH_SIZE - 1);
    path[len > 0 ? len : 0] = '\0';
    return len > 0;
}

/* An absolute path, as it was spelt but for that. */
static void absolute(int directory, const char *name, char path[PATH_SIZE])
{
    char base[PATH_SIZE] = "";
    if (name[0] != '/') {
        if (directory == AT_FDCWD) {
            (void)!getcwd(base, sizeof base);
        } else {
            (void)path_of(directory, base);
        }
    }
    snprintf(path, PATH_SIZE, "%.*s%s%s", 2000, base, base[0] != '\0' ? "/" : "", name);
}

static bool fd_counts(int fd)
{
    char path[PATH_SIZE];
    struct stat info;
    return path_of(fd, path) && is_under(path) && fstat(fd, &info) == 0 &&
           (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}

/* Counts a call. True: it is to fail, with errno set. Does not return where the process is to be killed. */
static bool is_the_one(void)
{
    const char *at = getenv("CRASH_AT");
    const char *error = getenv("CRASH_ERROR");
    const unsigned number = atomic_fetch_add(&calls, 1) + 1;
    if (at == NULL || number != (unsigned)atoi(at)) {
        return false;
    }
    if (error == NULL) {
        (void)kill(getpid(), SIGKILL);
        pause();
    }
    errno = atoi(error);
    return true;
}

/* ---- records ----------------------------------------------------------------------------------------------------------- */

static void append(const char *text, size_t len)
{
    const char *log = getenv("CRASH_LOG");
    const int fd =
        log == NULL ? -1 : NEXT(int (*)(const char *, int, ...), "open")(log, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (fd >= 0) {
        (void)!NEXT(ssize_t(*)(int, const void *, size_t), "write")(fd, text, len);
        NEXT(int (*)(int), "close")(fd);
    }
}

static void note(const char *format, ...)
{
    const int error = errno;
    char line[3 * PATH_SIZE];
    va_list values;
    va_start(values, format);
    const int len = vsnprintf(line, sizeof line - 1, format, values);
    va_end(values);
    line[len] = '\n';
    append(line, (size_t)len + 1);
    errno = error;
}

static unsigned long long number_of(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 ? (unsigned long long)info.st_ino : 0;
}

static void note_bytes(int fd, off_t offset, const uint8_t *bytes, size_t size)
{
    const int error = errno;
    char *line = malloc(2 * size + 100);
    if (line != NULL) {
        int len = snprintf(line, 100, "write\t%llu\t%lld\t", number_of(fd), (long long)offset);
        for (size_t i = 0; i < size; i++) {
            len += snprintf(line + len, 3, "%02x", bytes[i]);
        }
        line[len++] = '\n';
        append(line, (size_t)len);
    }
    free(line);
    errno = error;
}

/* What was copied by the system is read back. */
static void note_range(int fd, off_t offset, size_t size)
{
    char path[64];
    uint8_t *bytes = malloc(size + 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int reader = NEXT(int (*)(const char *, int, ...), "open")(path, O_RDONLY);
    const ssize_t got = bytes == NULL || reader < 0 ? -1 : pread(reader, bytes, size, offset);
    if (got > 0) {
        note_bytes(fd, offset, bytes, (size_t)got);
    }
    if (reader >= 0) {
        NEXT(int (*)(int), "close")(reader);
    }
    free(bytes);
}

/* ---- files and their names ------------------------------------------------------------------------------------------------ */

static int open_by(const char *function, int directory, const char *name, int flags, mode_t mode)
{
    int (*next)(int, const char *, int, ...) = NEXT(int (*)(int, const char *, int, ...), function);
    char path[PATH_SIZE];
    absolute(directory, name, path);
    const bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
    const bool is_new = (flags & O_CREAT) != 0 && !unnamed && access(path, F_OK) != 0;
    if (!is_under(path) || (!unnamed && !is_new && (flags & O_TRUNC) == 0)) {
        return next(directory, name, flags, mode);
    }
    if (is_the_one()) {
        return -1;
    }
    const int fd = next(directory, name, flags, mode);
    if (fd >= 0 && unnamed) {
        note("unnamed\t%llu", number_of(fd));
    } else if (fd >= 0 && is_new) {
        note("create\t%llu\t%s", number_of(fd), path);
    } else if (fd >= 0) {
        note("size\t%llu\t0", number_of(fd));
    }
    return fd;
}

#define OPEN_MODE(mode, flags)                                                                                         \
    mode_t mode = 0;                                                                                                   \
    if (((flags) & (O_CREAT | O_TMPFILE)) != 0) {                                                                      \
        va_list values;                                                                                                \
        va_start(values, flags);                                                                                       \
        mode = (mode_t)va_arg(values, int);                                                                            \
        va_end(values);                                                                                                \
    }

int open(const char *path, int flags, ...)
{
    OPEN_MODE(mode, flags)
    return open_by("openat", AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    OPEN_MODE(mode, flags)
    return open_by("openat64", AT_FDCWD, path, flags, mode);
}

int mkstemp64(char *path)
{
    if (!is_under(path)) {
        return NEXT(int (*)(char *), "mkstemp64")(path);
    }
    if (is_the_one()) {
        return -1;
    }
    const int fd = NEXT(int (*)(char *), "mkstemp64")(path);
    if (fd >= 0) {
        note("create\t%llu\t%s", number_of(fd), path);
    }
    return fd;
}

static int rename_by(int from_directory, const char *from, int to_directory, const char *to)
{
    char source[PATH_SIZE];
    char target[PATH_SIZE];
    struct stat info;
    absolute(from_directory, from, source);
    absolute(to_directory, to, target);
    int (*next)(int, const char *, int, const char *) = NEXT(int (*)(int, const char *, int, const char *), "renameat");
    if (!is_under(target)) {
        return next(from_directory, from, to_directory, to);
    }
    if (is_the_one()) {
        return -1;
    }
    const bool found = lstat(source, &info) == 0;
    const int result = next(from_directory, from, to_directory, to);
    if (result == 0 && found) {
        note("rename\t%llu\t%s\t%s", (unsigned long long)info.st_ino, source, target);
    }
    return result;
}

int rename(const char *from, const char *to)
{
    return rename_by(AT_FDCWD, from, AT_FDCWD, to);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to)
{
    return rename_by(from_directory, from, to_directory, to);
}

int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags)
{
    char target[PATH_SIZE];
    struct stat info;
    absolute(to_directory, to, target);
    int (*next)(int, const char *, int, const char *, int) =
        NEXT(int (*)(int, const char *, int, const char *, int), "linkat");
    if (!is_under(target)) {
        return next(from_directory, from, to_directory, to, flags);
    }
    if (is_the_one()) {
        return -1;
    }
    const int result = next(from_directory, from, to_directory, to, flags);
    if (result == 0 && lstat(target, &info) == 0) {
        note("link\t%llu\t%s", (unsigned long long)info.st_ino, target);
    }
    return result;
}

static int unlink_by(int directory, const char *name, int flags)
{
    char path[PATH_SIZE];
    absolute(directory, name, path);
    int (*next)(int, const char *, int) = NEXT(int (*)(int, const char *, int), "unlinkat");
    if (!is_under(path)) {
        return next(directory, name, flags);
    }
    if (is_the_one()) {
        return -1;
    }
    const int result = next(directory, name, flags);
    if (result == 0) {
        note("unlink\t%s", path);
    }
    return result;
}

int unlink(const char *path)
{
    return unlink_by(AT_FDCWD, path, 0);
}

int unlinkat(int directory, const char *path, int flags)
{
    return unlink_by(directory, path, flags);
}

int rmdir(const char *path)
{
    return unlink_by(AT_FDCWD, path, AT_REMOVEDIR);
}

/* ---- bytes ----------------------------------------------------------------------------------------------------------------- */

ssize_t write(int fd, const void *bytes, size_t size)
{
    ssize_t (*next)(int, const void *, size_t) = NEXT(ssize_t(*)(int, const void *, size_t), "write");
    if (!fd_counts(fd)) {
        return next(fd, bytes, size);
    }
    const off_t offset = lseek(fd, 0, SEEK_CUR);
    if (is_the_one()) {
        return -1;
    }
    const ssize_t done = next(fd, bytes, size);
    if (done > 0) {
        note_bytes(fd, offset, bytes, (size_t)done);
    }
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
    ssize_t (*next)(int, const void *, size_t, off64_t) =
        NEXT(ssize_t(*)(int, const void *, size_t, off64_t), "pwrite64");
    if (!fd_counts(fd)) {
        return next(fd, bytes, size, offset);
    }
    if (is_the_one()) {
        return -1;
    }
    const ssize_t done = next(fd, bytes, size, offset);
    if (done > 0) {
        note_bytes(fd, offset, bytes, (size_t)done);
    }
    return done;
}

int ftruncate64(int fd, off64_t size)
{
    int (*next)(int, off64_t) = NEXT(int (*)(int, off64_t), "ftruncate64");
    if (!fd_counts(fd)) {
        return next(fd, size);
    }
    const int result = is_the_one() ? -1 : next(fd, size);
    if (result == 0) {
        note("size\t%llu\t%lld", number_of(fd), (long long)size);
    }
    return result;
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size)
{
    int (*next)(int, int, off64_t, off64_t) = NEXT(int (*)(int, int, off64_t, off64_t), "fallocate64");
    if (!fd_counts(fd)) {
        return next(fd, mode, offset, size);
    }
    const int result = is_the_one() ? -1 : next(fd, mode, offset, size);
    if (result == 0 && mode == FALLOC_FL_INSERT_RANGE) {
        note("insert\t%llu\t%lld\t%lld", number_of(fd), (long long)offset, (long long)size);
    }
    return result;
}

ssize_t copy_file_range(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t size, unsigned flags)
{
    ssize_t (*next)(int, off64_t *, int, off64_t *, size_t, unsigned) =
        NEXT(ssize_t(*)(int, off64_t *, int, off64_t *, size_t, unsigned), "copy_file_range");
    if (!fd_counts(to)) {
        return next(from, from_offset, to, to_offset, size, flags);
    }
    const off64_t offset = to_offset != NULL ? *to_offset : lseek(to, 0, SEEK_CUR);
    if (is_the_one()) {
        return -1;
    }
    const ssize_t done = next(from, from_offset, to, to_offset, size, flags);
    if (done > 0) {
        note_range(to, offset, (size_t)done);
    }
    return done;
}

int ioctl(int fd, unsigned long request, ...)
{
    int (*next)(int, unsigned long, ...) = NEXT(int (*)(int, unsigned long, ...), "ioctl");
    va_list values;
    va_start(values, request);
    void *argument = va_arg(values, void *);
    va_end(values);
    if ((request != FICLONE && request != FICLONERANGE) || !fd_counts(fd)) {
        return next(fd, request, argument);
    }
    const int result = is_the_one() ? -1 : next(fd, request, argument);
    struct stat info;
    if (result == 0 && fstat(fd, &info) == 0) {
        note_range(fd, 0, (size_t)info.st_size);
    }
    return result;
}

/* ---- what makes them durable, and who may use them ------------------------------------------------------------------------ */

static int sync_by(const char *function, int fd)
{
    int (*next)(int) = NEXT(int (*)(int), function);
    if (!fd_counts(fd)) {
        return next(fd);
    }
    if (is_the_one()) {
        return -1;
    }
    const int result = next(fd);
    struct stat info;
    char path[PATH_SIZE];
    if (result == 0 && fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) && path_of(fd, path)) {
        note("names\t%s", path);
    } else if (result == 0) {
        note("bytes\t%llu", number_of(fd));
    }
    return result;
}

int fsync(int fd)
{
    return sync_by("fsync", fd);
}

int fdatasync(int fd)
{
    return sync_by("fdatasync", fd);
}

int fchmod(int fd, mode_t mode)
{
    int (*next)(int, mode_t) = NEXT(int (*)(int, mode_t), "fchmod");
    return fd_counts(fd) && is_the_one() ? -1 : next(fd, mode);
}

int fchown(int fd, uid_t owner, gid_t group)
{
    int (*next)(int, uid_t, gid_t) = NEXT(int (*)(int, uid_t, gid_t), "fchown");
    return fd_counts(fd) && is_the_one() ? -1 : next(fd, owner, group);
}

/* How many calls there were, for who counts them first. */
__attribute__((destructor)) static void count_calls(void)
{
    note("calls\t%u", atomic_load(&calls));
}
