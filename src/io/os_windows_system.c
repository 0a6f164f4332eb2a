/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system: errors of Windows as errno, names in its encoding, handles, libraries, and clocks. */
#include "os_windows.h"

#ifdef _WIN32

#include <errno.h>
#include <process.h>
#include <stdlib.h>
#include <string.h>

/* Longer names than this are given in the form without a limit. The system's own limit is 260, and 248 for folders. */
#define OS_SHORT_NAME 240

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* Of newer headers. */
#define OS_STOPPED_ON_SYMLINK 681u
#define OS_QUOTA_EXCEEDED 1295u

static const struct os_errors_row {
    DWORD error;
    int os_error;
} os_errors_rows[] = {
    { ERROR_FILE_NOT_FOUND, ENOENT },
    { ERROR_PATH_NOT_FOUND, ENOENT },
    { ERROR_INVALID_NAME, ENOENT },
    { ERROR_BAD_NETPATH, ENOENT },
    { ERROR_BAD_NET_NAME, ENOENT },
    { ERROR_BAD_PATHNAME, ENOENT },
    { ERROR_INVALID_DRIVE, ENOENT },
    { ERROR_ACCESS_DENIED, EACCES },
    { ERROR_SHARING_VIOLATION, EBUSY },
    { ERROR_LOCK_VIOLATION, EWOULDBLOCK },
    { ERROR_PRIVILEGE_NOT_HELD, EPERM },
    { ERROR_FILE_EXISTS, EEXIST },
    { ERROR_ALREADY_EXISTS, EEXIST },
    { ERROR_DIRECTORY, ENOTDIR },
    { ERROR_DIR_NOT_EMPTY, ENOTEMPTY },
    { ERROR_DISK_FULL, ENOSPC },
    { ERROR_HANDLE_DISK_FULL, ENOSPC },
    { OS_QUOTA_EXCEEDED, EDQUOT },
    { ERROR_FILE_TOO_LARGE, EFBIG },
    { ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG },
    { ERROR_BUFFER_OVERFLOW, ENAMETOOLONG },
    { ERROR_TOO_MANY_OPEN_FILES, EMFILE },
    { ERROR_NOT_ENOUGH_MEMORY, ENOMEM },
    { ERROR_OUTOFMEMORY, ENOMEM },
    { ERROR_NO_SYSTEM_RESOURCES, ENOMEM },
    { ERROR_COMMITMENT_LIMIT, ENOMEM },
    { ERROR_INVALID_HANDLE, EBADF },
    { ERROR_INVALID_PARAMETER, EINVAL },
    { ERROR_NOT_SAME_DEVICE, EXDEV },
    { ERROR_WRITE_PROTECT, EROFS },
    { ERROR_NOT_SUPPORTED, EOPNOTSUPP },
    { ERROR_INVALID_FUNCTION, EOPNOTSUPP },
    { ERROR_CALL_NOT_IMPLEMENTED, ENOSYS },
    { ERROR_BROKEN_PIPE, EPIPE },
    { ERROR_NO_DATA, EPIPE },
    { ERROR_USER_MAPPED_FILE, EBUSY },
    { ERROR_BUSY, EBUSY },
    { ERROR_DELETE_PENDING, ENOENT },
    { ERROR_CANT_RESOLVE_FILENAME, ELOOP },
    { OS_STOPPED_ON_SYMLINK, ELOOP },
    { ERROR_SEEK_ON_DEVICE, ESPIPE },
    { ERROR_SEM_TIMEOUT, ETIMEDOUT },
};

/* What is not listed is an error of the device. */
int coffer__os_windows_errno(DWORD error)
{
    for (size_t i = 0; i < sizeof os_errors_rows / sizeof os_errors_rows[0]; i++) {
        if (os_errors_rows[i].error == error) {
            return os_errors_rows[i].os_error;
        }
    }
    return EIO;
}

int coffer__os_last_error(void)
{
    return coffer__os_windows_errno(GetLastError());
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static wchar_t *os_decode(const char *path)
{
    const int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *wide = length > 0 ? malloc((size_t)length * sizeof *wide) : NULL;
    if (wide != NULL) {
        (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, length);
    }
    return wide;
}

/* The whole path with \\?\ before it, or \\?\UNC\ in place of the two backslashes of a share. In this form the system takes
   every character as it is, so the path is made absolute first, which also turns slashes into backslashes. */
static wchar_t *os_lengthen(const wchar_t *wide)
{
    static const wchar_t local[] = L"\\\\?\\";
    static const wchar_t share[] = L"\\\\?\\UNC\\";
    const DWORD room = GetFullPathNameW(wide, 0, NULL, NULL);
    wchar_t *full = room > 0 ? malloc((room + 8) * sizeof *full) : NULL;
    wchar_t *named = room > 0 ? malloc((room + 8) * sizeof *named) : NULL;
    if (full == NULL || named == NULL || GetFullPathNameW(wide, room, full, NULL) == 0) {
        free(full);
        free(named);
        return NULL;
    }
    const bool known = wcsncmp(full, local, 4) == 0 || wcsncmp(full, L"\\\\.\\", 4) == 0;
    const bool remote = !known && full[0] == L'\\' && full[1] == L'\\';
    wcscpy(named, known ? L"" : remote ? share : local);
    wcscat(named, remote ? full + 2 : full);
    free(full);
    return named;
}

int coffer__os_wide(const char *path, wchar_t **wide)
{
    *wide = os_decode(path);
    if (*wide == NULL) {
        return EINVAL;
    }
    if (wcslen(*wide) < OS_SHORT_NAME) {
        return 0;
    }
    wchar_t *longer = os_lengthen(*wide);
    free(*wide);
    *wide = longer;
    return longer != NULL ? 0 : ENAMETOOLONG;
}

int coffer__os_narrow(const wchar_t *wide, char *out, size_t size)
{
    const int room = size < INT32_MAX ? (int)size : INT32_MAX;
    return WideCharToMultiByte(CP_UTF8, 0, wide, -1, out, room, NULL, NULL) > 0 ? 0 : ENAMETOOLONG;
}

/* ---- libraries --------------------------------------------------------------------------------------------------- */

#ifndef COFFER_NO_DLOPEN

bool coffer__os_can_load(void)
{
    return true;
}

/* Beside the program, and where the system's own are: never in the current folder, where anybody may have put one. */
bool coffer__os_library_open(coffer__os_library *library, const char *name)
{
    wchar_t *wide = NULL;
    library->handle = NULL;
    if (name == NULL) {
        HMODULE program = NULL;
        library->handle = GetModuleHandleExW(0, NULL, &program) ? (void *)program : NULL;
    } else if (coffer__os_wide(name, &wide) == 0) {
        const bool is_path = strpbrk(name, "/\\") != NULL;
        library->handle = (void *)LoadLibraryExW(
            wide, NULL, is_path ? LOAD_WITH_ALTERED_SEARCH_PATH : LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
        free(wide);
    }
    return library->handle != NULL;
}

bool coffer__os_library_holding(coffer__os_library *library, void (*function)(void))
{
    HMODULE module = NULL;
    const wchar_t *address = NULL;
    memcpy(&address, &function, sizeof address);
    library->handle =
        GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, address, &module) ? (void *)module : NULL;
    return library->handle != NULL;
}

bool coffer__os_library_find(const coffer__os_library *library, const char *name, void *function)
{
    const FARPROC address = GetProcAddress((HMODULE)library->handle, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

void coffer__os_library_close(coffer__os_library *library)
{
    (void)FreeLibrary((HMODULE)library->handle);
    library->handle = NULL;
}

#endif

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

/* Whole seconds and the rest apart, so that the product does not overflow. */
uint64_t coffer__os_nanoseconds(void)
{
    LARGE_INTEGER count;
    LARGE_INTEGER per_second;
    (void)QueryPerformanceFrequency(&per_second);
    (void)QueryPerformanceCounter(&count);
    const uint64_t seconds = (uint64_t)(count.QuadPart / per_second.QuadPart);
    const uint64_t rest = (uint64_t)(count.QuadPart % per_second.QuadPart);
    return seconds * 1000000000 + rest * 1000000000 / (uint64_t)per_second.QuadPart;
}

uint64_t coffer__os_milliseconds(void)
{
    return coffer__os_nanoseconds() / 1000000;
}

/* The system counts units of 100 ns from 1601 on. */
uint64_t coffer__os_time(void)
{
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    const uint64_t units = (uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime;
    return units / 10000000 - UINT64_C(11644473600);
}

void coffer__os_sleep(uint64_t milliseconds)
{
    Sleep(milliseconds < INFINITE ? (DWORD)milliseconds : INFINITE - 1);
}

uint64_t coffer__os_process(void)
{
    return (uint64_t)GetCurrentProcessId();
}

uint32_t coffer__os_unlikely_number(void)
{
    const uint64_t mixed = (coffer__os_nanoseconds() ^ coffer__os_process() << 40) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 32);
}

/* Files belong to nobody in particular here: see os_windows_names.c. */
uint32_t coffer__os_user(void)
{
    return 0;
}

#endif
