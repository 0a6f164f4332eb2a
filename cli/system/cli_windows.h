/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX for the command on Windows, as far as it is used, and with the promises that it is used for: paths are UTF-8 and as
 * long as they need to be, bytes are bytes, and an open file can be replaced and deleted. Descriptors are those of the
 * C library. Only cli_system.h includes it.
 */
#ifndef COFFER_CLI_WINDOWS_H
#define COFFER_CLI_WINDOWS_H

#include <direct.h>
#include <dirent.h>
#include <fcntl.h>
#include <io.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* ---- Files ---- */

/* What the system tells of a file. Of rights there is one: whether the owner may write. Those of others are in lists that
   stat has never known, so the bits claim none, and everything is said to belong to the one who asks. */
struct cli_stat {
    uint64_t st_dev;
    uint64_t st_ino;
    mode_t st_mode;
    uint32_t st_nlink;
    uint32_t st_uid;
    int64_t st_size;
    struct timespec st_mtim;
    struct timespec st_ctim;
};

#define S_IFLNK 0xA000
#define S_ISLNK(mode) (((mode)&S_IFMT) == S_IFLNK)
#define O_CLOEXEC O_NOINHERIT
#define O_NOCTTY 0
#define O_NONBLOCK 0
#define O_NOFOLLOW 0x1000000 /* no bit of the C library's */
#define F_GETFL 3

int cli_windows_open(const char *path, int flags, ...); /* the mode of a new file is not used */
ssize_t cli_windows_read(int fd, void *buffer, size_t size);
ssize_t cli_windows_write(int fd, const void *bytes, size_t size);
ssize_t cli_windows_pread(int fd, void *buffer, size_t size, int64_t offset);
int cli_windows_fsync(int fd);
int cli_windows_fcntl(int fd, int what); /* F_GETFL alone */
int cli_windows_stat(const char *path, struct cli_stat *about);
int cli_windows_lstat(const char *path, struct cli_stat *about);
int cli_windows_fstat(int fd, struct cli_stat *about);
int cli_windows_mkstemp(char *path);

/* ---- Names ---- */

typedef struct cli_windows_dir DIR_of_cli;
struct cli_dirent {
    char d_name[1024]; /* 255 UTF-16 units have at most 765 bytes */
};

int cli_windows_unlink(const char *path);
int cli_windows_rename(const char *from, const char *to);
int cli_windows_mkdir(const char *path);
int cli_windows_rmdir(const char *path);
int cli_windows_access(const char *path, int mode);
char *cli_windows_realpath(const char *path, char *none); /* with slashes, and without a prefix */
DIR_of_cli *cli_windows_opendir(const char *path);
struct cli_dirent *cli_windows_readdir(DIR_of_cli *folder);
int cli_windows_closedir(DIR_of_cli *folder);
int cli_windows_scandir(const char *path, struct cli_dirent ***entries);

/* ---- What is asked of the system ---- */

int cli_windows_isatty(int fd);
long cli_windows_processors(void);
char *cli_windows_strndup(const char *text, size_t most);

static inline uint32_t geteuid(void)
{
    return 0;
}

/* A new file has the rights that its folder hands on. */
static inline mode_t cli_windows_umask(mode_t mask)
{
    (void)mask;
    return 0;
}

static inline int fchmod(int fd, mode_t mode)
{
    (void)fd, (void)mode;
    return 0;
}

/* Advice that nobody needs to follow, but for the one that forgets what is cached: that it was not followed is told. */
#define POSIX_FADV_SEQUENTIAL 2
#define POSIX_FADV_DONTNEED 4
static inline int posix_fadvise(int fd, int64_t offset, int64_t size, int advice)
{
    (void)fd, (void)offset, (void)size;
    return advice == POSIX_FADV_DONTNEED ? -1 : 0;
}

/* Alignment serves speed here, as there is no O_DIRECT; free() takes only what malloc() gave. */
static inline int posix_memalign(void **block, size_t alignment, size_t size)
{
    (void)alignment;
    *block = malloc(size);
    return *block != NULL ? 0 : -1;
}
#define aligned_alloc(alignment, size) malloc(size)

#define _SC_NPROCESSORS_ONLN 0
#define sysconf(what) cli_windows_processors()

#undef stat
#undef fstat
#define stat cli_stat
#define cli_stat(path, about) cli_windows_stat(path, about)
#define lstat(path, about) cli_windows_lstat(path, about)
#define fstat(fd, about) cli_windows_fstat(fd, about)
#define open cli_windows_open
#define read cli_windows_read
#define write cli_windows_write
#define pread(fd, buffer, size, offset) cli_windows_pread(fd, buffer, size, offset)
#define fsync(fd) cli_windows_fsync(fd)
#define fdatasync(fd) cli_windows_fsync(fd)
#define fcntl(fd, what) cli_windows_fcntl(fd, what)
#define mkstemp(path) cli_windows_mkstemp(path)
#define unlink(path) cli_windows_unlink(path)
#define rename(from, to) cli_windows_rename(from, to)
#define mkdir(path, mode) cli_windows_mkdir(path)
#define rmdir(path) cli_windows_rmdir(path)
#define access(path, mode) cli_windows_access(path, mode)
#define realpath(path, none) cli_windows_realpath(path, none)
#define DIR DIR_of_cli
#define dirent cli_dirent
#define opendir(path) cli_windows_opendir(path)
#define readdir(folder) cli_windows_readdir(folder)
#define closedir(folder) cli_windows_closedir(folder)
#define scandir(path, entries, filter, order)                                                                          \
    cli_windows_scandir(path, entries) /* all of them, in order of their bytes */
#define isatty(fd) cli_windows_isatty(fd)
#define strndup(text, most) cli_windows_strndup(text, most)
#define umask(mask) cli_windows_umask(mask)

#endif
