/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system, Windows: its errors as errno values, text between UTF-8 and UTF-16, its environment, and its clocks. */
#include "os_windows.h"

#ifdef _WIN32

#include <stdlib.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static const struct win_error_row {
    DWORD error;
    int os_error;
} win_error_rows[] = {
    { ERROR_ACCESS_DENIED, EACCES },
    { ERROR_ALREADY_EXISTS, EEXIST },
    { ERROR_BAD_NETPATH, ENOENT },
    { ERROR_BAD_NET_NAME, ENOENT },
    { ERROR_BAD_PATHNAME, ENOENT },
    { ERROR_BAD_UNIT, ENODEV },
    { ERROR_BROKEN_PIPE, EPIPE },
    { ERROR_BUSY, EBUSY },
    { ERROR_CALL_NOT_IMPLEMENTED, ENOSYS },
    { ERROR_CANT_RESOLVE_FILENAME, ELOOP },
    { ERROR_COMMITMENT_LIMIT, ENOMEM },
    { ERROR_CRC, EIO },
    { ERROR_DELETE_PENDING, ENOENT },
    { ERROR_DEV_NOT_EXIST, ENODEV },
    { ERROR_DIRECTORY, ENOTDIR },
    { 336, EISDIR }, /* ERROR_DIRECTORY_NOT_SUPPORTED, which not all headers have */
    { ERROR_DIR_NOT_EMPTY, ENOTEMPTY },
    { ERROR_DISK_FULL, ENOSPC },
    { 1295, EDQUOT }, /* ERROR_DISK_QUOTA_EXCEEDED, likewise */
    { ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG },
    { ERROR_FILE_EXISTS, EEXIST },
    { ERROR_FILE_INVALID, EIO },
    { ERROR_FILE_NOT_FOUND, ENOENT },
    { ERROR_FILE_TOO_LARGE, EFBIG },
    { ERROR_HANDLE_DISK_FULL, ENOSPC },
    { ERROR_INVALID_FUNCTION, EOPNOTSUPP },
    { ERROR_INVALID_HANDLE, EBADF },
    { ERROR_INVALID_NAME, ENOENT },
    { ERROR_INVALID_PARAMETER, EINVAL },
    { ERROR_IO_DEVICE, EIO },
    { ERROR_LOCK_VIOLATION, EWOULDBLOCK },
    { ERROR_MEDIA_CHANGED, EIO },
    { ERROR_NEGATIVE_SEEK, EINVAL },
    { ERROR_NETNAME_DELETED, ESTALE },
    { ERROR_NETWORK_ACCESS_DENIED, EACCES },
    { ERROR_NOACCESS, EFAULT },
    { ERROR_NOT_ENOUGH_MEMORY, ENOMEM },
    { ERROR_NOT_ENOUGH_QUOTA, ENOMEM },
    { ERROR_NOT_OWNER, EPERM },
    { ERROR_NOT_READY, EIO },
    { ERROR_NOT_SAME_DEVICE, EXDEV },
    { ERROR_NOT_SUPPORTED, EOPNOTSUPP },
    { ERROR_NO_DATA, EPIPE },
    { ERROR_NO_SYSTEM_RESOURCES, ENOMEM },
    { ERROR_OPEN_FAILED, EIO },
    { ERROR_OUTOFMEMORY, ENOMEM },
    { ERROR_PATH_NOT_FOUND, ENOENT },
    { ERROR_PRIVILEGE_NOT_HELD, EPERM },
    { ERROR_READ_FAULT, EIO },
    { ERROR_SECTOR_NOT_FOUND, EIO },
    { ERROR_SEM_TIMEOUT, ETIMEDOUT },
    { ERROR_SHARING_VIOLATION, EBUSY },
    { ERROR_TOO_MANY_OPEN_FILES, EMFILE },
    { ERROR_USER_MAPPED_FILE, EBUSY },
    { ERROR_WORKING_SET_QUOTA, ENOMEM },
    { ERROR_WRITE_FAULT, EIO },
    { ERROR_WRITE_PROTECT, EROFS },
};

int coffer__os_errno(DWORD error)
{
    for (size_t i = 0; i < sizeof win_error_rows / sizeof win_error_rows[0]; i++) {
        if (win_error_rows[i].error == error) {
            return win_error_rows[i].os_error;
        }
    }
    return EIO;
}

int coffer__os_last_errno(void)
{
    return coffer__os_errno(GetLastError());
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* From this length on a path needs a prefix: MAX_PATH less a name of 8.3 characters, which the system keeps free. */
#define WIN_LONG_PATH 248u
#define WIN_PREFIX L"\\\\?\\"
#define WIN_SHARE_PREFIX L"\\\\?\\UNC\\"

int coffer__os_wide_text(const char *text, wchar_t **wide)
{
    *wide = NULL;
    const int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    if (length == 0) {
        return GetLastError() == ERROR_NO_UNICODE_TRANSLATION ? EILSEQ : EINVAL;
    }
    *wide = malloc((size_t)length * sizeof **wide);
    if (*wide == NULL) {
        return ENOMEM;
    }
    (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, *wide, length);
    return 0;
}

/* \\server\share\name becomes \\?\UNC\server\share\name. What begins with \\?\ or \\.\ stays as it is. */
static const wchar_t *win_prefix_for(const wchar_t *whole, size_t length, size_t *skip)
{
    const bool share = whole[0] == L'\\' && whole[1] == L'\\';
    const bool done = share && (whole[2] == L'?' || whole[2] == L'.');
    *skip = share && !done ? 2 : 0;
    return length < WIN_LONG_PATH || done ? L"" : share ? WIN_SHARE_PREFIX : WIN_PREFIX;
}

/* The system removes "." and ".." and turns slashes round, which it does not do behind the prefix. */
static int win_absolute(const wchar_t *given, wchar_t **wide)
{
    const DWORD most = GetFullPathNameW(given, 0, NULL, NULL);
    wchar_t *whole = most == 0 ? NULL : malloc(most * sizeof *whole);
    const DWORD length = whole == NULL ? 0 : GetFullPathNameW(given, most, whole, NULL);
    if (length == 0 || length >= most) {
        const int os_error = most != 0 && whole == NULL ? ENOMEM : coffer__os_last_errno();
        free(whole);
        return os_error;
    }
    size_t skip = 0;
    const wchar_t *prefix = win_prefix_for(whole, length, &skip);
    const size_t before = wcslen(prefix);
    if (before == 0) {
        *wide = whole;
        return 0;
    }
    *wide = malloc((before + length - skip + 1) * sizeof **wide);
    if (*wide != NULL) {
        memcpy(*wide, prefix, before * sizeof **wide);
        memcpy(*wide + before, whole + skip, (length - skip + 1) * sizeof **wide);
    }
    free(whole);
    return *wide != NULL ? 0 : ENOMEM;
}

int coffer__os_wide_path(const char *path, wchar_t **wide)
{
    wchar_t *given = NULL;
    *wide = NULL;
    if (path[0] == '\0') {
        return ENOENT;
    }
    int os_error = coffer__os_wide_text(path, &given);
    if (os_error == 0) {
        os_error = win_absolute(given, wide);
    }
    free(given);
    return os_error;
}

int coffer__os_narrow(const wchar_t *wide, char *out, size_t size)
{
    const int capacity = size < INT32_MAX ? (int)size : INT32_MAX;
    return WideCharToMultiByte(CP_UTF8, 0, wide, -1, out, capacity, NULL, NULL) != 0 ? 0 : ENAMETOOLONG;
}

/* ---- environment ------------------------------------------------------------------------------------------------- */

/* The system's environment is UTF-16, and the runtime's copy in the code page cannot hold every path. What was asked for
   is kept, in UTF-8, for as long as the process lives: callers keep the pointer, and ask for few names. */
typedef struct win_kept_variable {
    struct win_kept_variable *next;
    char text[];
} win_kept_variable;

static SRWLOCK win_variables_lock = SRWLOCK_INIT;
static win_kept_variable *win_variables;

/* "NAME=value", as UTF-8; NULL if it is not set. */
static win_kept_variable *win_read_variable(const char *name, const wchar_t *wide)
{
    const DWORD most = GetEnvironmentVariableW(wide, NULL, 0);
    wchar_t *value = most == 0 ? NULL : malloc(most * sizeof *value);
    const DWORD length = value == NULL ? 0 : GetEnvironmentVariableW(wide, value, most);
    const size_t before = strlen(name) + 1;
    const size_t capacity = 3 * (size_t)length + 1; /* a unit of UTF-16 is three bytes at most */
    win_kept_variable *kept = length == 0 || length >= most ? NULL : malloc(sizeof *kept + before + capacity);
    if (kept != NULL) {
        memcpy(kept->text, name, before - 1);
        kept->text[before - 1] = '=';
        if (coffer__os_narrow(value, kept->text + before, capacity) != 0) {
            free(kept);
            kept = NULL;
        }
    }
    free(value);
    return kept;
}

/* The same text is kept once, whatever asks for it. */
static const win_kept_variable *win_keep_variable(win_kept_variable *read)
{
    AcquireSRWLockExclusive(&win_variables_lock);
    win_kept_variable *kept = win_variables;
    while (kept != NULL && strcmp(kept->text, read->text) != 0) {
        kept = kept->next;
    }
    if (kept == NULL) {
        read->next = win_variables;
        win_variables = read;
    }
    ReleaseSRWLockExclusive(&win_variables_lock);
    if (kept != NULL) {
        free(read);
    }
    return kept != NULL ? kept : read;
}

const char *coffer__os_variable(const char *name)
{
    wchar_t *wide = NULL;
    if (coffer__os_wide_text(name, &wide) != 0) {
        return NULL;
    }
    win_kept_variable *read = win_read_variable(name, wide);
    free(wide);
    return read != NULL ? win_keep_variable(read)->text + strlen(name) + 1 : NULL;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

/* Parts of a second apart from whole ones, since the product would be too large after some days. */
uint64_t coffer__os_nanoseconds(void)
{
    LARGE_INTEGER ticks = { .QuadPart = 0 };
    LARGE_INTEGER frequency = { .QuadPart = 1 };
    (void)QueryPerformanceCounter(&ticks);
    (void)QueryPerformanceFrequency(&frequency);
    const uint64_t count = (uint64_t)ticks.QuadPart;
    const uint64_t each = (uint64_t)frequency.QuadPart;
    return count / each * 1000000000u + count % each * 1000000000u / each;
}

uint64_t coffer__os_milliseconds(void)
{
    return coffer__os_nanoseconds() / 1000000;
}

/* In units of 100 ns since 1601. */
static uint64_t win_calendar(void)
{
    FILETIME now;
    GetSystemTimePreciseAsFileTime(&now);
    return (uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime;
}

uint64_t coffer__os_time(void)
{
    return win_calendar() / 10000000 - UINT64_C(11644473600);
}

void coffer__os_sleep(uint64_t milliseconds)
{
    Sleep(milliseconds < INFINITE ? (DWORD)milliseconds : INFINITE - 1);
}

uint64_t coffer__os_process(void)
{
    return GetCurrentProcessId();
}

uint32_t coffer__os_unlikely_number(void)
{
    LARGE_INTEGER ticks = { .QuadPart = 0 };
    (void)QueryPerformanceCounter(&ticks);
    uint64_t mixed = win_calendar() ^ (uint64_t)ticks.QuadPart << 20 ^ coffer__os_process() << 40;
    mixed *= UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 32);
}

#endif
