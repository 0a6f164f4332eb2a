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
#include <unistd.h>

#define O_CLOEXEC _O_NOINHERIT
#define O_NONBLOCK 0
#define O_NOFOLLOW 0
#define O_DIRECTORY 0
#define LOCK_EX 2
#define LOCK_NB 4
#define _SC_PAGESIZE 30
#define F_GETFD 1
#define S_ISLNK(mode) ((void)(mode), 0)

int coffer__os_truncate(int fd, uint64_t size); /* the runtime's would write zeros */
char *mkdtemp(char *name);
int shim_open(const char *path, int flags, ...);
FILE *shim_fopen(const char *path, const char *mode);
int shim_unlink(const char *path);
int shim_fcntl(int fd, int command);
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
#define lstat(path, found) stat(path, found)

#endif
