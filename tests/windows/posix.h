/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the unit tests use of POSIX and the runtime of Windows lacks or does otherwise. It is in front of every file of the tests
 * there. Files are opened as bytes, and shared as the library shares them; times and permissions are those that the
 * runtime knows.
 */
#ifndef COFFER_TESTS_WINDOWS_POSIX_H
#define COFFER_TESTS_WINDOWS_POSIX_H

#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define O_CLOEXEC _O_NOINHERIT
#define O_NONBLOCK 0
#define O_NOFOLLOW 0
#define O_DIRECTORY 0
#define LOCK_EX 2
#define LOCK_NB 4
#define _SC_PAGESIZE 30
#define F_GETFD 1
#define F_SETFL 4
#define F_SETPIPE_SZ 1031
#define POSIX_FADV_DONTNEED 4
#define POSIX_FADV_RANDOM 1
#define SIGKILL 9
#define SIGPIPE 13
#define SIGXFSZ 25
#define CLONE_NEWNS 0x20000
#define CLONE_NEWUSER 0x10000000
#define S_IFLNK 0120000
#define S_ISLNK(mode) (((mode)&_S_IFMT) == S_IFLNK)

/* What the runtime's structure of that name lacks: whose a file is, which one it is, and its blocks. */
struct shim_stat {
    uint64_t st_dev;
    uint64_t st_ino;
    uint64_t st_nlink;
    uint32_t st_mode;
    uint32_t st_uid;
    uint32_t st_gid;
    int64_t st_size;
    int64_t st_blocks;
    struct timespec st_mtim;
    struct timespec st_ctim;
};

int coffer__os_truncate(int fd, uint64_t size); /* the runtime's would write zeros */
char *mkdtemp(char *name);
int shim_open(const char *path, int flags, ...);
FILE *shim_fopen(const char *path, const char *mode);
int shim_unlink(const char *path);
int shim_fcntl(int fd, int command, ...);
int shim_stat(const char *path, struct shim_stat *found);
int shim_lstat(const char *path, struct shim_stat *found);
int shim_fstat(int fd, struct shim_stat *found);
int shim_chmod(const char *path, unsigned mode);
int shim_truncate(const char *path, int64_t size);
int shim_rename(const char *from, const char *to);
int shim_rmdir(const char *path);
uint32_t coffer__os_user(void);
int posix_fadvise(int fd, int64_t offset, int64_t size, int advice);
int mincore(void *memory, size_t size, unsigned char *pages);
int setuid(unsigned user);
int setgid(unsigned group);
int chown(const char *path, unsigned user, unsigned group);
int fchdir(int fd);
int unshare(int what);
unsigned alarm(unsigned seconds);
ssize_t pread(int fd, void *buffer, size_t size, int64_t offset);
ssize_t pwrite(int fd, const void *bytes, size_t size, int64_t offset);
int link(const char *from, const char *to);
int symlink(const char *to, const char *path);
int setenv(const char *name, const char *value, int replace);
int unsetenv(const char *name);
int fsync(int fd);
int pipe(int ends[2]);
int mkfifo(const char *path, unsigned mode);
int flock(int fd, int how);
long sysconf(int what);
void *memmem(const void *in, size_t size, const void *what, size_t what_size);
char *realpath(const char *path, char *out);
char *strndup(const char *text, size_t size);

#define open shim_open
#define fopen shim_fopen
#define unlink shim_unlink
#define fcntl shim_fcntl
#define mkdir(path, mode) ((void)(mode), _mkdir(path))
#undef ftruncate
#define ftruncate(fd, size) (coffer__os_truncate(fd, (uint64_t)(size)) == 0 ? 0 : -1)
#undef lseek
#define lseek(fd, offset, whence) _lseeki64(fd, offset, whence)
#define tell shim_tell
#undef stat
#define stat shim_stat
#undef fstat
#define fstat shim_fstat
#define lstat shim_lstat
#define chmod shim_chmod
#define umask(mask) ((void)(mask), 022)
#define geteuid() coffer__os_user()
#define getegid() 0u
#undef truncate
#define truncate shim_truncate
#define rename shim_rename
#define rmdir shim_rmdir
#undef ino_t
#define ino_t uint64_t
typedef uint32_t uid_t;
typedef uint32_t gid_t;

#endif
