/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and errors: see cli_windows_text.h for the contract. */
#include "cli_windows_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const wchar_t LONG_PREFIX[] = L"\\\\?\\";
static const wchar_t LONG_SHARE_PREFIX[] = L"\\\\?\\UNC\\";

static wchar_t *wide(const char *text)
{
    const int capacity = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    if (capacity == 0) {
        errno = ENOENT; /* no file has such a name */
        return NULL;
    }
    wchar_t *made = malloc((size_t)capacity * sizeof *made);
    if (made == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, made, capacity);
    return made;
}

/* With the prefix, in place of the two backslashes that shares begin with. Devices, \\.\NUL say, and what has a prefix
   already stay what they are. */
static void add_prefix(wchar_t *full, size_t len)
{
    const bool is_share = wcsncmp(full, L"\\\\", 2) == 0;
    if (is_share && (full[2] == L'.' || full[2] == L'?') && full[3] == L'\\') {
        return;
    }
    const wchar_t *prefix = is_share ? LONG_SHARE_PREFIX : LONG_PREFIX;
    const size_t left_out = is_share ? 2 : 0;
    const size_t prefix_len = wcslen(prefix);
    memmove(full + prefix_len, full + left_out, (len + 1 - left_out) * sizeof *full);
    memcpy(full, prefix, prefix_len * sizeof *full);
}

wchar_t *cli_windows_path(const char *path)
{
    if (path[0] == '\0') {
        errno = ENOENT;
        return NULL;
    }
    wchar_t *given = wide(path);
    const DWORD capacity = given != NULL ? GetFullPathNameW(given, 0, NULL, NULL) : 0;
    wchar_t *full =
        capacity > 0 ? malloc((capacity + sizeof LONG_SHARE_PREFIX / sizeof(wchar_t)) * sizeof *full) : NULL;
    if (full != NULL) {
        const DWORD len = GetFullPathNameW(given, capacity, full, NULL);
        if (len > 0 && len < capacity) {
            add_prefix(full, len);
        } else { /* another thread has changed the folder meanwhile */
            free(full);
            full = NULL;
            errno = ENOENT;
        }
    } else if (given != NULL) {
        errno = capacity > 0 ? ENOMEM : ENOENT;
    }
    free(given);
    return full;
}

char *cli_windows_utf8(const wchar_t *text)
{
    const int capacity = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *made = capacity > 0 ? malloc((size_t)capacity) : NULL;
    if (made != NULL) {
        WideCharToMultiByte(CP_UTF8, 0, text, -1, made, capacity, NULL, NULL);
    }
    return made;
}

int cli_windows_failed(void)
{
    static const struct {
        DWORD system;
        int number;
    } known[] = {
        { ERROR_FILE_NOT_FOUND, ENOENT },
        { ERROR_PATH_NOT_FOUND, ENOENT },
        { ERROR_INVALID_NAME, ENOENT },
        { ERROR_BAD_PATHNAME, ENOENT },
        { ERROR_BAD_NETPATH, ENOENT },
        { ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG },
        { ERROR_ACCESS_DENIED, EACCES },
        { ERROR_SHARING_VIOLATION, EACCES },
        { ERROR_LOCK_VIOLATION, EACCES },
        { ERROR_WRITE_PROTECT, EROFS },
        { ERROR_FILE_EXISTS, EEXIST },
        { ERROR_ALREADY_EXISTS, EEXIST },
        { ERROR_DISK_FULL, ENOSPC },
        { ERROR_HANDLE_DISK_FULL, ENOSPC },
        { ERROR_DIR_NOT_EMPTY, ENOTEMPTY },
        { ERROR_DIRECTORY, ENOTDIR },
        { ERROR_NOT_SAME_DEVICE, EXDEV },
        { ERROR_TOO_MANY_OPEN_FILES, EMFILE },
        { ERROR_NOT_ENOUGH_MEMORY, ENOMEM },
        { ERROR_OUTOFMEMORY, ENOMEM },
        { ERROR_INVALID_HANDLE, EBADF },
        { ERROR_BROKEN_PIPE, EPIPE },
        { ERROR_NO_DATA, EPIPE },
        { ERROR_OPERATION_ABORTED, EINTR },
    };
    const DWORD error = GetLastError();
    errno = EIO;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].system == error) {
            errno = known[i].number;
        }
    }
    return -1;
}
