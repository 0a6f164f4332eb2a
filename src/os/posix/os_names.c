/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system: what lies under a name. */
#include "os_posix.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/fs.h>
#endif

#define OS_PERMISSIONS 07777u
#define OS_OVERFLOW_USER 65534u /* where /proc does not say */

static coffer__os_kind os_kind(mode_t mode)
{
    return S_ISREG(mode)   ? COFFER__OS_REGULAR
           : S_ISDIR(mode) ? COFFER__OS_DIRECTORY
           : S_ISBLK(mode) ? COFFER__OS_BLOCK
           : S_ISLNK(mode) ? COFFER__OS_LINK
                           : COFFER__OS_OTHER;
}

/* What a failed inspection leaves. Callers do not look at it, but a compiler that inlines both does not know
   that errno is not 0 after a failure, and would warn. */
static const coffer__os_info OS_NO_INFO = { .kind = COFFER__OS_OTHER };

/* Times are only compared, so a far future that wraps around does no harm. */
static int64_t os_nanoseconds(const struct timespec *time)
{
    return (int64_t)((uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec);
}

/* The clock that files get their times from. On Linux it is the coarse one, which advances once per tick: a
   precise clock would be ahead of it. */
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

/* Whether one more change could leave the ctime as it is. `before` is the file clock's time just
   before the file was looked at: if the ctime is at or after that, a change within the same tick
   would get the same time. A time of whole seconds may be of a file system that stores no finer
   ones; at worst they are two seconds apart (FAT). A time in the future beyond that comes from
   another machine's clock, and says nothing. */
static bool os_is_recent(int64_t touched, int64_t before)
{
    const int64_t coarsest = INT64_C(2000000000);
    const bool whole_seconds = touched % INT64_C(1000000000) == 0;
    return touched >= before - (whole_seconds ? coarsest : 0) && touched <= before + coarsest;
}

/* `before`: the file clock's time just before the file was looked at. */
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

/* The clock is read before the file. The other order could call a file settled that changed in
   between. */
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

/* stat reports a size of 0 for a block device; the device itself knows its size. */
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
    if (info->kind == COFFER__OS_BLOCK && ioctl(fd, (coffer__os_request)BLKGETSIZE64, &info->size) != 0) {
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

uint32_t coffer__os_user(void)
{
    return (uint32_t)geteuid();
}

#ifdef __linux__
/* What a file of /proc says, cut to what is asked for; "" where there is none. */
static void os_read_text(const char *path, char *text, size_t size)
{
    int fd = -1;
    ssize_t got = -1;
    if (coffer__os_open_with(path, O_RDONLY, 0, &fd) == 0) {
        got = read(fd, text, size - 1);
        (void)close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
}

uint32_t coffer__os_overflow_user(void)
{
    char text[24];
    os_read_text("/proc/sys/kernel/overflowuid", text, sizeof text);
    return text[0] != '\0' ? (uint32_t)strtoul(text, NULL, 10) : OS_OVERFLOW_USER;
}

/* Whether this namespace has a number for each user: lines of "inside outside count". A map that is longer than what is read
   here is of parts. */
static bool os_has_all_users(void)
{
    char text[512];
    unsigned long long all = 0;
    os_read_text("/proc/self/uid_map", text, sizeof text);
    for (char *at = text; *at != '\0';) {
        (void)strtoull(at, &at, 10);
        (void)strtoull(at, &at, 10);
        char *end = at;
        all += strtoull(at, &end, 10);
        at = end == at ? end + strlen(end) : end;
        at += strspn(at, " \n");
    }
    return all >= UINT32_MAX;
}
#endif

bool coffer__os_is_one_user(uint32_t number)
{
#ifdef __linux__
    return number != coffer__os_overflow_user() || os_has_all_users();
#else
    (void)number;
    return true;
#endif
}

bool coffer__os_is_mine(const coffer__os_info *info)
{
    return info->owner == coffer__os_user() && coffer__os_is_one_user(info->owner);
}

/* Cheaper than a stat, as nothing but the name is looked up. It follows links, so a link to nothing
   does not exist. */
bool coffer__os_exists(const char *path)
{
    return faccessat(AT_FDCWD, path, F_OK, 0) == 0;
}

/* readdir returns NULL both at the end and after an error. Only errno tells them apart, so it is
   cleared before each call. */
int coffer__os_list(const char *folder, bool (*see)(void *ctx, const char *name), void *ctx)
{
    DIR *stream = opendir(folder);
    if (stream == NULL) {
        return errno;
    }
    int os_error = 0;
    bool more = true;
    while (more) {
        errno = 0;
        /* No other thread has this stream. */
        /* cppcheck-suppress readdirCalled */
        const struct dirent *entry = readdir(stream); /* NOLINT(concurrency-mt-unsafe) */
        const char *name = entry == NULL ? NULL : entry->d_name;
        os_error = name == NULL ? errno : 0; /* `see` may change it */
        more = name != NULL && (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || see(ctx, name));
    }
    (void)closedir(stream);
    return os_error;
}

const char coffer__os_separators[] = "/";

/* realpath allocates with malloc, as the one way that has no limit of its own. */
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
