/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of POSIX that the command and the tests use, over Windows. What mingw-w64's own headers have of it is kept where it
 * does the right thing. Names of files are UTF-8, and files are bytes: no line end is changed. What the system does not have is
 * either without effect, where POSIX lets it be (advice, modes), or fails with an errno, as on a file system that lacks it.
 */
#ifndef COFFER_POSIX_WINDOWS_H
#define COFFER_POSIX_WINDOWS_H

#ifdef _WIN32

/* io.h has functions of these names, which nobody wants. */
#define tell windows_tell
#include <io.h>
#undef tell

#include <direct.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* ---- files ---- */

#define O_CLOEXEC _O_NOINHERIT
#define O_NOCTTY 0
#define O_NONBLOCK 0
#define O_NOFOLLOW 0x1000000
#define O_DIRECTORY 0x2000000

#undef S_IFLNK
#undef S_ISLNK
#undef S_IFSOCK
#define S_IFLNK 0xA000
#define S_ISLNK(mode) (((mode)&S_IFMT) == S_IFLNK)
#define S_IFSOCK 0xC000
#define S_ISSOCK(mode) (((mode)&S_IFMT) == S_IFSOCK)

struct posix_stat {
    uint64_t st_dev;
    uint64_t st_ino;
    unsigned st_mode;
    unsigned st_nlink;
    unsigned st_uid;
    unsigned st_gid;
    int64_t st_size;
    int64_t st_blocks;
    int64_t st_mtime_s;
    struct timespec st_mtim;
    struct timespec st_ctim;
    struct timespec st_atim;
};

int posix_stat(const char *path, struct posix_stat *about);
int posix_lstat(const char *path, struct posix_stat *about);
int posix_fstat(int fd, struct posix_stat *about);
int posix_open(const char *path, int flags, ...);
int posix_creat(const char *path, int mode);
int posix_unlink(const char *path);
int posix_rename(const char *from, const char *to);
int posix_mkdir(const char *path, unsigned mode);
int posix_rmdir(const char *path);
int posix_access(const char *path, int mode);
int posix_chmod(const char *path, unsigned mode);
int posix_truncate(const char *path, int64_t size);
char *posix_getcwd(char *out, size_t size);
int posix_chdir(const char *path);
FILE *posix_fopen(const char *path, const char *mode);
DIR *posix_opendir(const char *path);
struct dirent *posix_readdir(DIR *folder);
int posix_closedir(DIR *folder);
ssize_t posix_read(int fd, void *bytes, size_t size);
ssize_t posix_write(int fd, const void *bytes, size_t size);

#undef stat
#undef lstat
#undef fstat
#undef lseek
#undef ftruncate
#define stat posix_stat
#define lstat posix_lstat
#define fstat posix_fstat
#define open posix_open
#define creat posix_creat
#define unlink posix_unlink
#define remove posix_unlink
#define rename posix_rename
#define mkdir posix_mkdir
#define rmdir posix_rmdir
#define access posix_access
#define chmod posix_chmod
#define truncate posix_truncate
#define getcwd posix_getcwd
#define chdir posix_chdir
#define fopen posix_fopen
#define opendir posix_opendir
#define readdir posix_readdir
#define closedir posix_closedir
#define read posix_read
#define write posix_write
#define umask posix_umask
#define lseek _lseeki64
#define ftruncate(fd, size) posix_ftruncate(fd, size)
#define pipe(ends) _pipe(ends, 65536, _O_BINARY | _O_NOINHERIT)

mode_t posix_umask(mode_t mask);
int posix_ftruncate(int fd, int64_t size);
int scandir(const char *path, struct dirent ***names, int (*choose)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **));
int alphasort(const struct dirent **left, const struct dirent **right);
ssize_t pread(int fd, void *bytes, size_t size, int64_t offset);
ssize_t pwrite(int fd, const void *bytes, size_t size, int64_t offset);
char *realpath(const char *path, char *out);
char *mkdtemp(char *pattern);
int symlink(const char *target, const char *path);
int link(const char *from, const char *to);
int fsync(int fd);
int fdatasync(int fd);
int fchmod(int fd, unsigned mode);

#define F_GETFD 1
#define F_GETFL 3
/* Whether the descriptor is open; nothing of it is known. */
int fcntl(int fd, int command, ...);

#define POSIX_FADV_SEQUENTIAL 2
#define POSIX_FADV_DONTNEED 4
int posix_fadvise(int fd, int64_t offset, int64_t size, int advice);

/* ---- the process ---- */

unsigned geteuid(void);
int setenv(const char *name, const char *value, int replace);
int unsetenv(const char *name);

#define _SC_NPROCESSORS_ONLN 84
#define _SC_PAGESIZE 30
long sysconf(int name);

#ifndef SIGHUP
#define SIGHUP 1
#endif
#ifndef SIGXFSZ
#define SIGXFSZ SIGABRT_COMPAT /* files have no limit that raises a signal */
#endif
#define SA_RESETHAND 0x80000000u

/* Of SIGINT and SIGTERM; Ctrl-Break counts as the latter. */
struct sigaction {
    void (*sa_handler)(int number);
    int sa_flags;
};
int sigaction(int number, const struct sigaction *action, struct sigaction *before);

/* ---- memory and text ---- */

/* Without the alignment that was asked for, which here only makes things faster: free() has to take it. */
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **block, size_t alignment, size_t size);
void *memmem(const void *in, size_t in_size, const void *what, size_t size);
char *strndup(const char *text, size_t most);

#ifndef TIME_UTC
#define TIME_UTC 1
int timespec_get(struct timespec *now, int base);
#endif

/* The program's own main is called with words in UTF-8. Tests have no words. */
#ifndef COFFER_POSIX_TESTS
#define main posix_main
int posix_main(int argc, char **argv);
#endif

#endif
#endif
