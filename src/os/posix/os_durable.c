/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system: what survives a crash, and what changes under a name atomically. */
#include "os_posix.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#ifdef __APPLE__
/* fsync only hands the bytes to the device, which may keep them in its cache. F_FULLFSYNC has the device store them; file
   systems that do not know it get the former. */
static int os_sync_file(int fd)
{
    return fcntl(fd, F_FULLFSYNC) == 0 ? 0 : fsync(fd);
}
#else
/* fdatasync also stores the file's length and whatever else is needed to read the bytes; it leaves
   out only times. */
static int os_sync_file(int fd)
{
    return fdatasync(fd);
}
#endif

int coffer__os_sync(int fd)
{
    int result = 0;
    do {
        result = os_sync_file(fd);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

/* sync_file_range only starts the I/O. It stores no metadata and does not flush the device's cache,
   which is why it can never replace coffer__os_sync. */
void coffer__os_sync_begin(int fd)
{
#ifdef SYNC_FILE_RANGE_WRITE
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
#else
    (void)fd;
#endif
}

/* All three flags together: wait for earlier writes of these pages, start this one, and wait for
   it. */
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

/* Some file systems answer EINVAL for a directory (FUSE, SMB): their names are as durable as they
   get. */
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
    return coffer__os_open_with(path, O_RDONLY | O_DIRECTORY, 0, directory);
}

int coffer__os_rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to) == 0 ? 0 : errno;
}

/* macOS has a call of its own. Callers have a way without it. */
int coffer__os_exchange(const char *one, const char *other)
{
#ifdef SYS_renameat2
    return renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0 ? 0 : errno;
#elif defined __APPLE__ && defined RENAME_SWAP
    return renamex_np(one, other, RENAME_SWAP) == 0 ? 0 : errno;
#else
    (void)one;
    (void)other;
    return EOPNOTSUPP;
#endif
}

int coffer__os_unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0) == 0 ? 0 : errno;
}

/* flock belongs to the open file, not to the process as locks of fcntl do. So two handles of one
   process exclude each other, and closing some other descriptor of the file does not drop the lock. */
int coffer__os_lock(int fd)
{
    int result = 0;
    do {
        result = flock(fd, LOCK_EX | LOCK_NB);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}
