/* SPDX-License-Identifier: Apache-2.0 */
/* Files and their bytes: see cli_windows.h for what is promised. */
#include "cli_windows_text.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define READ_MAX ((size_t)1 << 30) /* the system counts bytes in 32 bits */
#define TICKS_TO_1970 INT64_C(116444736000000000)
#define TICKS_A_SECOND INT64_C(10000000)
#define NAMES_TRIED 1000

/* ---- Opening ---- */

static HANDLE handle_of(int fd)
{
    return (HANDLE)_get_osfhandle(fd);
}

/* Takes the handle. */
static int descriptor_of(HANDLE handle, int flags)
{
    const int fd = handle == INVALID_HANDLE_VALUE
                       ? cli_windows_failed()
                       : _open_osfhandle((intptr_t)handle, _O_BINARY | (flags & (_O_APPEND | _O_NOINHERIT)));
    if (fd < 0 && handle != INVALID_HANDLE_VALUE) {
        CloseHandle(handle);
    }
    return fd;
}

/* Others may read, write, rename and delete what is open here, as they may where POSIX comes from. Folders can be opened
   too, so that they are told from files by what they are. */
int cli_windows_open(const char *path, int flags, ...)
{
    const int ways = flags & O_ACCMODE;
    const DWORD rights = ways == O_RDONLY   ? GENERIC_READ
                         : ways == O_WRONLY ? GENERIC_WRITE
                                            : GENERIC_READ | GENERIC_WRITE;
    const DWORD how = (flags & O_CREAT) == 0 ? OPEN_EXISTING : (flags & O_EXCL) != 0 ? CREATE_NEW : OPEN_ALWAYS;
    const DWORD extra = FILE_FLAG_BACKUP_SEMANTICS | ((flags & O_NOFOLLOW) != 0 ? FILE_FLAG_OPEN_REPARSE_POINT : 0);
    wchar_t *name = cli_windows_path(path);
    if (name == NULL) {
        return -1;
    }
    const HANDLE handle = CreateFileW(name, rights, SHARE_ALL, NULL, how, FILE_ATTRIBUTE_NORMAL | extra, NULL);
    const int fd = descriptor_of(handle, flags);
    const int error = errno;
    free(name);
    errno = error;
    return fd;
}

int cli_windows_mkstemp(char *path)
{
    static const char signs[] = "0123456789abcdefghijklmnopqrstuv";
    char *end = path + strlen(path);
    int fd = -1;
    errno = EEXIST;
    for (int i = 0; i < NAMES_TRIED && fd < 0 && errno == EEXIST; i++) {
        LARGE_INTEGER ticks;
        QueryPerformanceCounter(&ticks);
        /* Nobody has to be kept from guessing it, as only a new file is taken: different is enough. */
        uint64_t number =
            ((uint64_t)ticks.QuadPart + (uint64_t)i) * UINT64_C(0x9E3779B97F4A7C15) ^ GetCurrentProcessId();
        for (char *sign = end - 6; sign < end; sign++) {
            *sign = signs[number >> 59];
            number *= UINT64_C(0x9E3779B97F4A7C15);
        }
        fd = cli_windows_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC);
    }
    return fd;
}

int cli_windows_fcntl(int fd, int what)
{
    (void)what;
    if (handle_of(fd) == INVALID_HANDLE_VALUE) {
        errno = EBADF;
        return -1;
    }
    return O_RDWR; /* which of the ways are allowed shows when they are used */
}

/* ---- Bytes ---- */

/* A read that Ctrl-C has ended is one that a signal ended. */
ssize_t cli_windows_read(int fd, void *buffer, size_t size)
{
    const int got = _read(fd, buffer, (unsigned)(size < READ_MAX ? size : READ_MAX));
    return got < 0 && GetLastError() == ERROR_OPERATION_ABORTED ? cli_windows_failed() : got;
}

/* The C library says EINVAL of a pipe whose reader has gone. */
ssize_t cli_windows_write(int fd, const void *bytes, size_t size)
{
    const int put = _write(fd, bytes, (unsigned)(size < READ_MAX ? size : READ_MAX));
    return put < 0 && errno == EINVAL ? cli_windows_failed() : put;
}

ssize_t cli_windows_pread(int fd, void *buffer, size_t size, int64_t offset)
{
    OVERLAPPED place = { .Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32) };
    DWORD got = 0;
    if (!ReadFile(handle_of(fd), buffer, (DWORD)(size < READ_MAX ? size : READ_MAX), &got, &place) &&
        GetLastError() != ERROR_HANDLE_EOF) {
        return cli_windows_failed();
    }
    return (ssize_t)got;
}

int cli_windows_fsync(int fd)
{
    return FlushFileBuffers(handle_of(fd)) ? 0 : cli_windows_failed();
}

/* ---- What they are ---- */

static int64_t ticks_of(FILETIME time)
{
    return (int64_t)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime);
}

static struct timespec time_of(int64_t ticks)
{
    const int64_t since = ticks - TICKS_TO_1970;
    return (struct timespec){ .tv_sec = since / TICKS_A_SECOND, .tv_nsec = (long)(since % TICKS_A_SECOND * 100) };
}

static bool is_link(HANDLE handle, DWORD attributes)
{
    FILE_ATTRIBUTE_TAG_INFO tag = { .ReparseTag = 0 };
    return (attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 &&
           GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag) &&
           (tag.ReparseTag == IO_REPARSE_TAG_SYMLINK || tag.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT);
}

/* A handle of which the system no longer knows the volume: Wine has such ones of its host's. */
static int about_nameless(HANDLE handle, struct cli_stat *about)
{
    LARGE_INTEGER size;
    FILETIME written;
    if (!GetFileSizeEx(handle, &size) || !GetFileTime(handle, NULL, NULL, &written)) {
        return cli_windows_failed();
    }
    const struct timespec time = time_of(ticks_of(written));
    *about = (struct cli_stat){
        .st_mode = S_IFREG | 0600, .st_nlink = 1, .st_size = size.QuadPart, .st_mtim = time, .st_ctim = time
    };
    return 0;
}

static int about_file(HANDLE handle, struct cli_stat *about)
{
    BY_HANDLE_FILE_INFORMATION found;
    FILE_BASIC_INFO times;
    if (!GetFileInformationByHandle(handle, &found)) {
        return about_nameless(handle, about);
    }
    const int64_t modified = ticks_of(found.ftLastWriteTime);
    /* A handle that somebody else opened may not have the right to ask for it. */
    const bool tells = GetFileInformationByHandleEx(handle, FileBasicInfo, &times, sizeof times);
    const int64_t changed = tells ? times.ChangeTime.QuadPart : modified;
    const DWORD attributes = found.dwFileAttributes;
    const mode_t kind = is_link(handle, attributes)                    ? S_IFLNK
                        : (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0 ? S_IFDIR
                                                                       : S_IFREG;
    const bool fixed = kind == S_IFREG && (attributes & FILE_ATTRIBUTE_READONLY) != 0;
    *about = (struct cli_stat){ .st_dev = found.dwVolumeSerialNumber,
                                .st_ino = (uint64_t)found.nFileIndexHigh << 32 | found.nFileIndexLow,
                                .st_mode = (mode_t)(kind | (fixed ? 0400 : 0600)),
                                .st_nlink = found.nNumberOfLinks,
                                .st_size = (int64_t)((uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow),
                                .st_mtim = time_of(modified),
                                .st_ctim = time_of(changed) };
    return 0;
}

static int about_handle(HANDLE handle, struct cli_stat *about)
{
    if (handle == INVALID_HANDLE_VALUE) {
        return cli_windows_failed();
    }
    const DWORD type = GetFileType(handle);
    *about = (struct cli_stat){ .st_mode = type == FILE_TYPE_PIPE ? S_IFIFO : S_IFCHR };
    return type == FILE_TYPE_DISK ? about_file(handle, about) : 0;
}

static int about_path(const char *path, struct cli_stat *about, DWORD extra)
{
    wchar_t *name = cli_windows_path(path);
    if (name == NULL) {
        return -1;
    }
    const HANDLE handle = CreateFileW(name, FILE_READ_ATTRIBUTES, SHARE_ALL, NULL, OPEN_EXISTING,
                                      FILE_FLAG_BACKUP_SEMANTICS | extra, NULL);
    const int result = about_handle(handle, about);
    const int error = errno;
    if (handle != INVALID_HANDLE_VALUE) {
        CloseHandle(handle);
    }
    free(name);
    errno = error;
    return result;
}

int cli_windows_stat(const char *path, struct cli_stat *about)
{
    return about_path(path, about, 0);
}

int cli_windows_lstat(const char *path, struct cli_stat *about)
{
    return about_path(path, about, FILE_FLAG_OPEN_REPARSE_POINT);
}

int cli_windows_fstat(int fd, struct cli_stat *about)
{
    return about_handle(handle_of(fd), about);
}
