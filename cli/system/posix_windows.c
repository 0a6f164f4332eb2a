/* SPDX-License-Identifier: Apache-2.0 */
/* See posix_windows.h. */
#define WIN32_LEAN_AND_MEAN
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00 /* Windows 10 */
#include "posix_windows.h"

#include "poll.h"
#include "sys/ioctl.h"
#include "sys/resource.h"

#include <errno.h>
#include <stdarg.h>
#include <wchar.h>
#include <windows.h>

#include <psapi.h>
#include <shellapi.h>

#undef main
#undef read
#undef write

#define POSIX_SHORT_NAME 240
#define POSIX_SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define POSIX_EPOCH INT64_C(116444736000000000) /* 1970, in units of 100 ns since 1601 */

/* ---- errors and names ---- */

static int posix_errno(DWORD error)
{
    switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_NETPATH:
    case ERROR_BAD_NET_NAME:
    case ERROR_BAD_PATHNAME:
        return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
    case ERROR_PRIVILEGE_NOT_HELD:
        return EACCES;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
        return EEXIST;
    case ERROR_DIRECTORY:
        return ENOTDIR;
    case ERROR_DIR_NOT_EMPTY:
        return ENOTEMPTY;
    case ERROR_DISK_FULL:
        return ENOSPC;
    case ERROR_FILENAME_EXCED_RANGE:
        return ENAMETOOLONG;
    case ERROR_TOO_MANY_OPEN_FILES:
        return EMFILE;
    case ERROR_NOT_SAME_DEVICE:
        return EXDEV;
    case ERROR_INVALID_HANDLE:
        return EBADF;
    case ERROR_BROKEN_PIPE:
    case ERROR_NO_DATA:
        return EPIPE;
    default:
        return EIO;
    }
}

static int posix_fail(void)
{
    errno = posix_errno(GetLastError());
    return -1;
}

static wchar_t *posix_decode(const char *text)
{
    const int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = length > 0 ? malloc((size_t)length * sizeof *wide) : NULL;
    if (wide != NULL) {
        (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, length);
    }
    return wide;
}

static char *posix_encode(const wchar_t *wide)
{
    const int size = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = size > 0 ? malloc((size_t)size) : NULL;
    if (text != NULL) {
        (void)WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, size, NULL, NULL);
    }
    return text;
}

/* A name for the system, to be freed; long ones in the form without a limit. NULL, with errno set. */
static wchar_t *posix_path(const char *path)
{
    if (strcmp(path, "/dev/null") == 0) {
        path = "NUL";
    }
    wchar_t *wide = posix_decode(path);
    if (wide == NULL || wcslen(wide) < POSIX_SHORT_NAME || wcsncmp(wide, L"\\\\", 2) == 0) {
        errno = EINVAL;
        return wide;
    }
    const DWORD room = GetFullPathNameW(wide, 0, NULL, NULL);
    wchar_t *longer = room > 0 ? malloc((room + 4) * sizeof *longer) : NULL;
    if (longer != NULL) {
        wcscpy(longer, L"\\\\?\\");
        (void)GetFullPathNameW(wide, room, longer + 4, NULL);
    }
    free(wide);
    errno = ENAMETOOLONG;
    return longer;
}

static HANDLE posix_handle(const char *path, DWORD access, DWORD disposition, DWORD flags)
{
    wchar_t *wide = posix_path(path);
    if (wide == NULL) {
        return INVALID_HANDLE_VALUE;
    }
    const HANDLE handle = CreateFileW(wide, access, POSIX_SHARE_ALL, NULL, disposition, flags, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        (void)posix_fail();
    }
    free(wide);
    return handle;
}

/* ---- what files are ---- */

static struct timespec posix_time(LARGE_INTEGER units)
{
    const int64_t since = units.QuadPart - POSIX_EPOCH;
    struct timespec time = { 0, 0 };
    time.tv_sec = (time_t)(since / 10000000);
    time.tv_nsec = (long)(since % 10000000 * 100);
    return time;
}

static int posix_about(HANDLE handle, struct posix_stat *about)
{
    BY_HANDLE_FILE_INFORMATION found;
    FILE_BASIC_INFO times;
    FILE_STANDARD_INFO space;
    FILE_ATTRIBUTE_TAG_INFO tag = { 0, 0 };
    memset(about, 0, sizeof *about);
    if (GetFileType(handle) != FILE_TYPE_DISK) {
        about->st_mode = (GetFileType(handle) == FILE_TYPE_PIPE ? S_IFIFO : S_IFCHR) | 0600u;
        about->st_nlink = 1;
        return 0;
    }
    if (!GetFileInformationByHandle(handle, &found) ||
        !GetFileInformationByHandleEx(handle, FileBasicInfo, &times, sizeof times) ||
        !GetFileInformationByHandleEx(handle, FileStandardInfo, &space, sizeof space)) {
        return posix_fail();
    }
    (void)GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag);
    const bool folder = (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    const bool link = (found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 &&
                      (tag.ReparseTag == IO_REPARSE_TAG_SYMLINK || tag.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT);
    const bool read_only = !folder && (found.dwFileAttributes & FILE_ATTRIBUTE_READONLY) != 0;
    about->st_mode = (link     ? S_IFLNK
                      : folder ? S_IFDIR
                               : S_IFREG) |
                     (read_only ? 0444u : 0644u) | (folder ? 0111u : 0u);
    about->st_dev = found.dwVolumeSerialNumber;
    about->st_ino = (uint64_t)found.nFileIndexHigh << 32 | found.nFileIndexLow;
    about->st_nlink = found.nNumberOfLinks;
    about->st_size = folder ? 0 : (int64_t)((uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow);
    about->st_blocks = (space.AllocationSize.QuadPart + 511) / 512;
    about->st_mtim = posix_time(times.LastWriteTime);
    about->st_ctim = posix_time(times.ChangeTime);
    about->st_atim = posix_time(times.LastAccessTime);
    about->st_mtime_s = about->st_mtim.tv_sec;
    return 0;
}

static int posix_stat_of(const char *path, DWORD flags, struct posix_stat *about)
{
    const HANDLE handle = posix_handle(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | flags);
    if (handle == INVALID_HANDLE_VALUE) {
        return -1;
    }
    const int result = posix_about(handle, about);
    (void)CloseHandle(handle);
    return result;
}

int posix_stat(const char *path, struct posix_stat *about)
{
    return posix_stat_of(path, 0, about);
}

int posix_lstat(const char *path, struct posix_stat *about)
{
    return posix_stat_of(path, FILE_FLAG_OPEN_REPARSE_POINT, about);
}

static HANDLE posix_handle_of(int fd)
{
    const HANDLE handle = fd < 0 ? INVALID_HANDLE_VALUE : (HANDLE)_get_osfhandle(fd);
    if (handle == INVALID_HANDLE_VALUE) {
        errno = EBADF;
    }
    return handle;
}

int posix_fstat(int fd, struct posix_stat *about)
{
    const HANDLE handle = posix_handle_of(fd);
    return handle == INVALID_HANDLE_VALUE ? -1 : posix_about(handle, about);
}

/* ---- opening ---- */

static DWORD posix_disposition(int flags)
{
    if ((flags & O_CREAT) == 0) {
        return (flags & O_TRUNC) != 0 ? TRUNCATE_EXISTING : OPEN_EXISTING;
    }
    return (flags & O_EXCL) != 0 ? CREATE_NEW : (flags & O_TRUNC) != 0 ? CREATE_ALWAYS : OPEN_ALWAYS;
}

/* A folder can be opened to be read, as an address of what is in it; nothing can be read from it. */
int posix_open(const char *path, int flags, ...)
{
    const DWORD access = (flags & O_RDWR) != 0     ? GENERIC_READ | GENERIC_WRITE
                         : (flags & O_WRONLY) != 0 ? GENERIC_WRITE
                                                   : GENERIC_READ;
    struct posix_stat about;
    if ((flags & O_NOFOLLOW) != 0 && posix_lstat(path, &about) == 0 && S_ISLNK(about.st_mode)) {
        errno = ELOOP;
        return -1;
    }
    const HANDLE handle = posix_handle(path, access, posix_disposition(flags), FILE_FLAG_BACKUP_SEMANTICS);
    if (handle == INVALID_HANDLE_VALUE) {
        return -1;
    }
    if (access != GENERIC_READ && posix_about(handle, &about) == 0 && S_ISDIR(about.st_mode)) {
        (void)CloseHandle(handle);
        errno = EISDIR;
        return -1;
    }
    const int fd = _open_osfhandle((intptr_t)handle, _O_BINARY | _O_NOINHERIT | (flags & O_APPEND));
    if (fd < 0) {
        (void)CloseHandle(handle);
    }
    return fd;
}

int posix_creat(const char *path, int mode)
{
    return posix_open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

FILE *posix_fopen(const char *path, const char *mode)
{
    const bool plus = strchr(mode, '+') != NULL;
    const int access = plus ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    const int making = mode[0] == 'w' ? O_CREAT | O_TRUNC : mode[0] == 'a' ? O_CREAT | O_APPEND : 0;
    const int exclusive = strchr(mode, 'x') != NULL ? O_EXCL : 0;
    const int fd = posix_open(path, access | making | exclusive, 0666);
    char plain[4] = { mode[0], 'b', plus ? '+' : '\0', '\0' };
    FILE *file = fd < 0 ? NULL : _fdopen(fd, plain);
    if (file == NULL && fd >= 0) {
        (void)_close(fd);
    }
    return file;
}

ssize_t posix_read(int fd, void *bytes, size_t size)
{
    return _read(fd, bytes, size < (1u << 30) ? (unsigned)size : 1u << 30);
}

/* The C library answers EINVAL where a pipe's reader is gone. */
ssize_t posix_write(int fd, const void *bytes, size_t size)
{
    const int written = _write(fd, bytes, size < (1u << 30) ? (unsigned)size : 1u << 30);
    if (written < 0 && errno == EINVAL && posix_handle_of(fd) != INVALID_HANDLE_VALUE &&
        GetFileType(posix_handle_of(fd)) == FILE_TYPE_PIPE) {
        errno = EPIPE;
    }
    return written;
}

/* The position is put back, as these two do not move it. */
static ssize_t posix_transfer(int fd, void *bytes, size_t size, int64_t offset, bool write)
{
    const HANDLE handle = posix_handle_of(fd);
    OVERLAPPED place = { 0 };
    LARGE_INTEGER before = { { 0 } };
    const LARGE_INTEGER nowhere = { { 0 } };
    const DWORD piece = size < (1u << 30) ? (DWORD)size : 1u << 30;
    DWORD moved = 0;
    if (handle == INVALID_HANDLE_VALUE) {
        return -1;
    }
    place.Offset = (DWORD)offset;
    place.OffsetHigh = (DWORD)((uint64_t)offset >> 32);
    (void)SetFilePointerEx(handle, nowhere, &before, FILE_CURRENT);
    place.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
    BOOL fine = write ? WriteFile(handle, bytes, piece, NULL, &place) : ReadFile(handle, bytes, piece, NULL, &place);
    if (fine || GetLastError() == ERROR_IO_PENDING) {
        fine = GetOverlappedResult(handle, &place, &moved, TRUE);
    }
    const DWORD error = fine ? ERROR_SUCCESS : GetLastError();
    (void)CloseHandle(place.hEvent);
    (void)SetFilePointerEx(handle, before, NULL, FILE_BEGIN);
    if (!fine && error != ERROR_HANDLE_EOF) {
        errno = posix_errno(error);
        return -1;
    }
    return (ssize_t)moved;
}

ssize_t pread(int fd, void *bytes, size_t size, int64_t offset)
{
    return posix_transfer(fd, bytes, size, offset, false);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, int64_t offset)
{
    return posix_transfer(fd, (void *)(uintptr_t)bytes, size, offset, true);
}

int posix_ftruncate(int fd, int64_t size)
{
    const HANDLE handle = posix_handle_of(fd);
    FILE_END_OF_FILE_INFO end;
    end.EndOfFile.QuadPart = size;
    if (handle == INVALID_HANDLE_VALUE) {
        return -1;
    }
    return SetFileInformationByHandle(handle, FileEndOfFileInfo, &end, sizeof end) ? 0 : posix_fail();
}

int posix_truncate(const char *path, int64_t size)
{
    const int fd = posix_open(path, O_WRONLY);
    const int result = fd < 0 ? -1 : posix_ftruncate(fd, size);
    if (fd >= 0) {
        (void)_close(fd);
    }
    return result;
}

int fsync(int fd)
{
    return _commit(fd);
}

int fdatasync(int fd)
{
    return _commit(fd);
}

int fcntl(int fd, int command, ...)
{
    (void)command;
    return posix_handle_of(fd) == INVALID_HANDLE_VALUE ? -1 : 0;
}

/* Nothing can be forgotten, which is told to those who want it. */
int posix_fadvise(int fd, int64_t offset, int64_t size, int advice)
{
    (void)fd;
    (void)offset;
    (void)size;
    return advice == POSIX_FADV_DONTNEED ? EOPNOTSUPP : 0;
}

/* ---- names ---- */

int posix_unlink(const char *path)
{
    wchar_t *wide = posix_path(path);
    if (wide == NULL) {
        return -1;
    }
    const int result = DeleteFileW(wide) ? 0 : posix_fail();
    free(wide);
    return result;
}

int posix_rmdir(const char *path)
{
    wchar_t *wide = posix_path(path);
    if (wide == NULL) {
        return -1;
    }
    const int result = RemoveDirectoryW(wide) ? 0 : posix_fail();
    free(wide);
    return result;
}

int posix_mkdir(const char *path, unsigned mode)
{
    wchar_t *wide = posix_path(path);
    (void)mode;
    if (wide == NULL) {
        return -1;
    }
    const int result = CreateDirectoryW(wide, NULL) ? 0 : posix_fail();
    free(wide);
    return result;
}

int posix_rename(const char *from, const char *to)
{
    wchar_t *old_name = posix_path(from);
    wchar_t *new_name = posix_path(to);
    const bool named = old_name != NULL && new_name != NULL;
    const int result = !named ? -1
                       : MoveFileExW(old_name, new_name, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)
                           ? 0
                           : posix_fail();
    free(old_name);
    free(new_name);
    return result;
}

int link(const char *from, const char *to)
{
    wchar_t *old_name = posix_path(from);
    wchar_t *new_name = posix_path(to);
    const bool named = old_name != NULL && new_name != NULL;
    const int result = !named ? -1 : CreateHardLinkW(new_name, old_name, NULL) ? 0 : posix_fail();
    free(old_name);
    free(new_name);
    return result;
}

int symlink(const char *target, const char *path)
{
    wchar_t *what = posix_path(target);
    wchar_t *name = posix_path(path);
    const bool named = what != NULL && name != NULL;
    const int result = !named                                                                          ? -1
                       : CreateSymbolicLinkW(name, what, SYMBOLIC_LINK_FLAG_ALLOW_UNPRIVILEGED_CREATE) ? 0
                                                                                                       : posix_fail();
    free(what);
    free(name);
    return result;
}

int posix_access(const char *path, int mode)
{
    wchar_t *wide = posix_path(path);
    if (wide == NULL) {
        return -1;
    }
    const DWORD attributes = GetFileAttributesW(wide);
    free(wide);
    if (attributes == INVALID_FILE_ATTRIBUTES) {
        return posix_fail();
    }
    if ((mode & W_OK) != 0 && (attributes & FILE_ATTRIBUTE_READONLY) != 0 &&
        (attributes & FILE_ATTRIBUTE_DIRECTORY) == 0) {
        errno = EACCES;
        return -1;
    }
    return 0;
}

/* Of a mode only whether anybody may write counts. */
int posix_chmod(const char *path, unsigned mode)
{
    wchar_t *wide = posix_path(path);
    if (wide == NULL) {
        return -1;
    }
    const DWORD attributes = GetFileAttributesW(wide);
    const DWORD wanted =
        (mode & 0222u) != 0 ? attributes & ~(DWORD)FILE_ATTRIBUTE_READONLY : attributes | FILE_ATTRIBUTE_READONLY;
    const int result = attributes != INVALID_FILE_ATTRIBUTES && SetFileAttributesW(wide, wanted) ? 0 : posix_fail();
    free(wide);
    return result;
}

mode_t posix_umask(mode_t mask)
{
    return (mode_t)_umask(mask);
}

int fchmod(int fd, unsigned mode)
{
    (void)mode;
    return posix_handle_of(fd) == INVALID_HANDLE_VALUE ? -1 : 0;
}

static void posix_slashes(char *path)
{
    for (char *at = path; *at != '\0'; at++) {
        *at = *at == '\\' ? '/' : *at;
    }
}

char *posix_getcwd(char *out, size_t size)
{
    const DWORD room = GetCurrentDirectoryW(0, NULL);
    wchar_t *wide = malloc(((size_t)room + 1) * sizeof *wide);
    char *text = NULL;
    if (wide != NULL && GetCurrentDirectoryW(room + 1, wide) != 0) {
        text = posix_encode(wide);
    }
    free(wide);
    if (text == NULL || strlen(text) >= size) {
        free(text);
        errno = ERANGE;
        return NULL;
    }
    posix_slashes(text);
    strcpy(out, text);
    free(text);
    return out;
}

int posix_chdir(const char *path)
{
    wchar_t *wide = posix_path(path);
    if (wide == NULL) {
        return -1;
    }
    const int result = SetCurrentDirectoryW(wide) ? 0 : posix_fail();
    free(wide);
    return result;
}

/* Memory for free(), when `out` is NULL, as it always is. */
char *realpath(const char *path, char *out)
{
    (void)out;
    const HANDLE handle = posix_handle(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (handle == INVALID_HANDLE_VALUE) {
        return NULL;
    }
    const DWORD room = GetFinalPathNameByHandleW(handle, NULL, 0, 0);
    wchar_t *wide = malloc(((size_t)room + 1) * sizeof *wide);
    char *real = NULL;
    if (wide != NULL && GetFinalPathNameByHandleW(handle, wide, room + 1, 0) != 0) {
        real = posix_encode(wcsncmp(wide, L"\\\\?\\", 4) == 0 && wide[5] == L':' ? wide + 4 : wide);
    }
    free(wide);
    (void)CloseHandle(handle);
    if (real != NULL) {
        posix_slashes(real);
    }
    return real;
}

char *mkdtemp(char *pattern)
{
    char *digits = pattern + strlen(pattern) - 6;
    for (unsigned turn = 0; turn < 100; turn++) {
        const unsigned number = (unsigned)GetTickCount64() * 31u + GetCurrentProcessId() * 7919u + turn;
        (void)snprintf(digits, 7, "%06u", number % 1000000u);
        if (posix_mkdir(pattern, 0700) == 0) {
            return pattern;
        }
    }
    return NULL;
}

/* ---- folders ---- */

/* The C library's, of which only the name is used here, holds a name of 260 bytes; the first entry is what the system finds
   when it opens the folder. */
typedef struct posix_folder {
    HANDLE search;
    WIN32_FIND_DATAW found;
    bool more;
    struct dirent entry;
    char room[MAX_PATH * 4]; /* the rest of a name that is longer in UTF-8 */
} posix_folder;

DIR *posix_opendir(const char *path)
{
    const size_t len = strlen(path);
    posix_folder *folder = calloc(1, sizeof *folder);
    char *pattern = malloc(len + 3);
    wchar_t *wide = NULL;
    if (folder != NULL && pattern != NULL) {
        memcpy(pattern, path, len);
        memcpy(pattern + len, "/*", 3);
        wide = posix_path(pattern);
    }
    free(pattern);
    if (wide == NULL) {
        free(folder);
        return NULL;
    }
    folder->search = FindFirstFileW(wide, &folder->found);
    free(wide);
    folder->more = folder->search != INVALID_HANDLE_VALUE;
    if (!folder->more) {
        struct posix_stat about;
        (void)posix_fail();
        if (posix_stat(path, &about) == 0 && !S_ISDIR(about.st_mode)) {
            errno = ENOTDIR;
        }
        free(folder);
        return NULL;
    }
    return (DIR *)folder;
}

struct dirent *posix_readdir(DIR *stream)
{
    posix_folder *folder = (posix_folder *)stream;
    if (!folder->more) {
        return NULL;
    }
    (void)WideCharToMultiByte(CP_UTF8, 0, folder->found.cFileName, -1, folder->entry.d_name,
                              sizeof folder->entry.d_name, NULL, NULL);
    folder->more = FindNextFileW(folder->search, &folder->found);
    return &folder->entry;
}

int posix_closedir(DIR *stream)
{
    posix_folder *folder = (posix_folder *)stream;
    (void)FindClose(folder->search);
    free(folder);
    return 0;
}

int alphasort(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

static int posix_keep(struct dirent ***names, size_t *count, const struct dirent *entry)
{
    struct dirent *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        return -1;
    }
    struct dirent **more = realloc(*names, (*count + 1) * sizeof **names);
    if (more == NULL) {
        free(copy);
        return -1;
    }
    *copy = *entry;
    more[(*count)++] = copy;
    *names = more;
    return 0;
}

typedef int (*posix_compare)(const void *left, const void *right);

int scandir(const char *path, struct dirent ***names, int (*choose)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **))
{
    size_t count = 0;
    int result = 0;
    DIR *folder = posix_opendir(path);
    *names = NULL;
    if (folder == NULL) {
        return -1;
    }
    for (const struct dirent *entry = posix_readdir(folder); entry != NULL && result == 0;
         entry = posix_readdir(folder)) {
        result = choose == NULL || choose(entry) != 0 ? posix_keep(names, &count, entry) : 0;
    }
    (void)posix_closedir(folder);
    if (compare != NULL && count > 0) {
        qsort(*names, count, sizeof **names, (posix_compare)(void (*)(void))compare);
    }
    return result == 0 ? (int)count : -1;
}

/* ---- the process ---- */

unsigned geteuid(void)
{
    return 0;
}

int setenv(const char *name, const char *value, int replace)
{
    return replace == 0 && getenv(name) != NULL ? 0 : _putenv_s(name, value);
}

int unsetenv(const char *name)
{
    return _putenv_s(name, "");
}

long sysconf(int name)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return name == _SC_PAGESIZE           ? (long)info.dwPageSize
           : name == _SC_NPROCESSORS_ONLN ? (long)info.dwNumberOfProcessors
                                          : -1;
}

static void (*posix_on_break)(int number);

/* Called by a thread of the system's. Closing the window leaves a few seconds, which is enough to tidy up. */
static BOOL WINAPI posix_console_event(DWORD event)
{
    if (event == CTRL_C_EVENT || posix_on_break == NULL) {
        return FALSE; /* the C library makes a signal of it */
    }
    posix_on_break(SIGTERM);
    return TRUE;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    if (number != SIGINT && number != SIGTERM) {
        errno = EINVAL;
        return -1;
    }
    if (action == NULL) {
        before->sa_handler = SIG_DFL;
        return 0;
    }
    if (number == SIGTERM) {
        posix_on_break = action->sa_handler;
        (void)SetConsoleCtrlHandler(posix_console_event, TRUE);
    }
    return signal(number, action->sa_handler) == SIG_ERR ? -1 : 0;
}

int poll(struct pollfd *waiting, unsigned count, int milliseconds)
{
    if (count == 0) {
        Sleep((DWORD)milliseconds);
        return 0;
    }
    const HANDLE handle = posix_handle_of(waiting->fd);
    DWORD bytes = 0;
    if (GetFileType(handle) == FILE_TYPE_PIPE) {
        for (int waited = 0; waited < milliseconds; waited += 10) {
            if (!PeekNamedPipe(handle, NULL, 0, NULL, &bytes, NULL) || bytes > 0) {
                return 1;
            }
            Sleep(10);
        }
        return 0;
    }
    if (GetFileType(handle) == FILE_TYPE_CHAR && _isatty(waiting->fd)) {
        return WaitForSingleObject(handle, (DWORD)milliseconds) == WAIT_OBJECT_0 ? 1 : 0;
    }
    return 1;
}

int ioctl(int fd, unsigned long request, struct winsize *size)
{
    CONSOLE_SCREEN_BUFFER_INFO screen;
    (void)request;
    if (!GetConsoleScreenBufferInfo(posix_handle_of(fd), &screen)) {
        return -1;
    }
    size->ws_col = (unsigned short)(screen.srWindow.Right - screen.srWindow.Left + 1);
    size->ws_row = (unsigned short)(screen.srWindow.Bottom - screen.srWindow.Top + 1);
    return 0;
}

static struct timeval posix_duration(const FILETIME *spent)
{
    const uint64_t units = (uint64_t)spent->dwHighDateTime << 32 | spent->dwLowDateTime;
    const struct timeval duration = { (long)(units / 10000000), (long)(units % 10000000 / 10) };
    return duration;
}

int getrusage(int who, struct rusage *usage)
{
    PROCESS_MEMORY_COUNTERS memory = { .cb = sizeof memory };
    FILETIME began;
    FILETIME ended;
    FILETIME kernel;
    FILETIME user;
    (void)who;
    (void)GetProcessTimes(GetCurrentProcess(), &began, &ended, &kernel, &user);
    usage->ru_utime = posix_duration(&user);
    usage->ru_stime = posix_duration(&kernel);
    (void)GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof memory);
    usage->ru_maxrss = (long)(memory.PeakWorkingSetSize / 1024);
    return 0;
}

/* ---- memory and text ---- */

void *aligned_alloc(size_t alignment, size_t size)
{
    (void)alignment;
    return malloc(size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = aligned_alloc(alignment, size);
    return *block != NULL ? 0 : ENOMEM;
}

void *memmem(const void *in, size_t in_size, const void *what, size_t size)
{
    for (size_t at = 0; size <= in_size && at <= in_size - size; at++) {
        if (memcmp((const char *)in + at, what, size) == 0) {
            return (char *)(uintptr_t)in + at;
        }
    }
    return NULL;
}

char *strndup(const char *text, size_t most)
{
    const size_t len = strnlen(text, most);
    char *copy = malloc(len + 1);
    if (copy != NULL) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

int timespec_get(struct timespec *now, int base)
{
    return clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

/* ---- starting ---- */

#ifndef COFFER_POSIX_TESTS

/* Bytes as they are, and on a console UTF-8 and colours; a terminal that has them is told by TERM, as elsewhere. */
static void posix_prepare_streams(void)
{
    bool coloured = false;
    for (int fd = 0; fd < 3; fd++) {
        DWORD mode = 0;
        const HANDLE handle = (HANDLE)_get_osfhandle(fd);
        (void)_setmode(fd, _O_BINARY);
        if (fd > 0 && GetConsoleMode(handle, &mode)) {
            coloured = SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) || coloured;
        }
    }
    (void)SetConsoleOutputCP(CP_UTF8);
    if (coloured) {
        (void)setenv("TERM", "xterm-256color", 0);
    }
}

int main(void)
{
    int argc = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &argc);
    char **argv = calloc((size_t)argc + 1, sizeof *argv);
    if (wide == NULL || argv == NULL) {
        return 1;
    }
    for (int i = 0; i < argc; i++) {
        argv[i] = posix_encode(wide[i]);
        if (argv[i] == NULL) {
            return 1;
        }
    }
    posix_prepare_streams();
    return posix_main(argc, argv);
}

#endif
