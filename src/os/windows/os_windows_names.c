/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system, Windows: what lies under a name. */
#include "os_windows.h"

#ifdef _WIN32

#include <stdlib.h>
#include <string.h>

/* Times are in units of 100 ns. The system's clock for files advances by ticks of up to 16 ms. */
#define WIN_TIME_UNIT 100
#define WIN_TICK INT64_C(160000)
#define WIN_SECOND INT64_C(10000000)

static const coffer__os_info WIN_NO_INFO = { .kind = COFFER__OS_OTHER };

static int64_t win_file_clock(void)
{
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    return (int64_t)((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime);
}

/* Whether one more change could leave the time as it is: as in os_names.c, in units of 100 ns. FAT stores whole seconds,
   two apart. */
static bool win_is_recent(int64_t touched, int64_t before)
{
    const int64_t coarsest = 2 * WIN_SECOND;
    const bool whole_seconds = touched % WIN_SECOND == 0;
    return touched >= before - (whole_seconds ? coarsest : WIN_TICK) && touched <= before + coarsest;
}

/* A link is what leads elsewhere when it is opened: a symbolic link or a mount point. Other reparse points, like
   files that are fetched when they are read, are what they stand for. */
static bool win_is_link(HANDLE handle, DWORD attributes)
{
    FILE_ATTRIBUTE_TAG_INFO tag;
    return (attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 &&
           GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag) != 0 &&
           (tag.ReparseTag == IO_REPARSE_TAG_SYMLINK || tag.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT);
}

static coffer__os_kind win_kind(HANDLE handle, DWORD attributes)
{
    return win_is_link(handle, attributes)                ? COFFER__OS_LINK
           : (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0 ? COFFER__OS_DIRECTORY
                                                          : COFFER__OS_REGULAR;
}

/* The clock is read before the file, as the other order could call a file settled that changed in between. */
int coffer__os_inspect_handle(HANDLE handle, coffer__os_info *info)
{
    BY_HANDLE_FILE_INFORMATION found;
    FILE_BASIC_INFO times;
    *info = WIN_NO_INFO;
    if (handle == INVALID_HANDLE_VALUE) {
        return EBADF;
    }
    if (GetFileType(handle) != FILE_TYPE_DISK) {
        info->owner = COFFER__OS_NOT_KNOWN;
        return GetFileType(handle) != FILE_TYPE_UNKNOWN || GetLastError() == NO_ERROR ? 0 : coffer__os_last_errno();
    }
    const int64_t before = win_file_clock();
    if (GetFileInformationByHandle(handle, &found) == 0 ||
        GetFileInformationByHandleEx(handle, FileBasicInfo, &times, sizeof times) == 0) {
        return coffer__os_last_errno();
    }
    info->kind = win_kind(handle, found.dwFileAttributes);
    const uint64_t size = (uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow;
    info->size = info->kind == COFFER__OS_REGULAR ? size : 0;
    info->links = found.nNumberOfLinks;
    info->device = found.dwVolumeSerialNumber;
    info->inode = (uint64_t)found.nFileIndexHigh << 32 | found.nFileIndexLow;
    info->modified = times.LastWriteTime.QuadPart * WIN_TIME_UNIT;
    info->touched = times.ChangeTime.QuadPart * WIN_TIME_UNIT;
    info->recent = win_is_recent(times.ChangeTime.QuadPart, before);
    coffer__os_rights_of(handle, info);
    if ((found.dwFileAttributes & FILE_ATTRIBUTE_READONLY) != 0 && info->kind == COFFER__OS_REGULAR) {
        info->mode &= ~0222u;
    }
    return 0;
}

/* Whoever may look at a file's attributes may not always read who has rights to it. */
int coffer__os_inspect(const char *path, bool follow, coffer__os_info *info)
{
    const DWORD flags = follow ? 0 : FILE_FLAG_OPEN_REPARSE_POINT;
    HANDLE handle = INVALID_HANDLE_VALUE;
    *info = WIN_NO_INFO;
    int os_error =
        coffer__os_open_handle(path, FILE_READ_ATTRIBUTES | READ_CONTROL, OPEN_EXISTING, flags, NULL, &handle);
    if (os_error == EACCES) {
        os_error = coffer__os_open_handle(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING, flags, NULL, &handle);
    }
    if (os_error == 0) {
        os_error = coffer__os_inspect_handle(handle, info);
        (void)CloseHandle(handle);
    }
    return os_error;
}

int coffer__os_inspect_fd(int fd, coffer__os_info *info)
{
    return coffer__os_inspect_handle(coffer__os_handle(fd), info);
}

bool coffer__os_unchanged(const coffer__os_info *then, const coffer__os_info *now)
{
    return then->device == now->device && then->inode == now->inode && then->size == now->size &&
           then->modified == now->modified;
}

uint32_t coffer__os_user(void)
{
    return COFFER__OS_ME;
}

bool coffer__os_is_one_user(uint32_t number)
{
    (void)number;
    return true;
}

bool coffer__os_is_mine(const coffer__os_info *info)
{
    return info->owner == COFFER__OS_ME;
}

/* The attributes of a link are its own, so only a name that is one has to be followed. */
bool coffer__os_exists(const char *path)
{
    wchar_t *wide = NULL;
    coffer__os_info info;
    if (coffer__os_wide_path(path, &wide) != 0) {
        return false;
    }
    const DWORD attributes = GetFileAttributesW(wide);
    free(wide);
    if (attributes == INVALID_FILE_ATTRIBUTES) {
        return false;
    }
    return (attributes & FILE_ATTRIBUTE_REPARSE_POINT) == 0 || coffer__os_inspect(path, true, &info) == 0;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* The path of everything in a folder, for the functions that list by a pattern. Its characters * and ? are in no name. */
static int win_everything_in(const char *folder, wchar_t **pattern)
{
    wchar_t *wide = NULL;
    const int os_error = coffer__os_wide_path(folder, &wide);
    if (os_error != 0) {
        return os_error;
    }
    const size_t length = wcslen(wide);
    *pattern = malloc((length + 3) * sizeof **pattern);
    if (*pattern != NULL) {
        const bool ends = length > 0 && wide[length - 1] == L'\\';
        memcpy(*pattern, wide, length * sizeof *wide);
        memcpy(*pattern + length, ends ? L"*" : L"\\*", (ends ? 2 : 3) * sizeof *wide);
    }
    free(wide);
    return *pattern != NULL ? 0 : ENOMEM;
}

/* A name that is not valid UTF-16 cannot be given in UTF-8, so no path of the API could lead to it: it is passed over. */
static bool win_see(const WIN32_FIND_DATAW *found, bool (*see)(void *ctx, const char *name), void *ctx)
{
    char name[3 * MAX_PATH + 1];
    return wcscmp(found->cFileName, L".") == 0 || wcscmp(found->cFileName, L"..") == 0 ||
           coffer__os_narrow(found->cFileName, name, sizeof name) != 0 || see(ctx, name);
}

int coffer__os_list(const char *folder, bool (*see)(void *ctx, const char *name), void *ctx)
{
    wchar_t *pattern = NULL;
    WIN32_FIND_DATAW found;
    const int os_error = win_everything_in(folder, &pattern);
    if (os_error != 0) {
        return os_error;
    }
    HANDLE list =
        FindFirstFileExW(pattern, FindExInfoBasic, &found, FindExSearchNameMatch, NULL, FIND_FIRST_EX_LARGE_FETCH);
    free(pattern);
    if (list == INVALID_HANDLE_VALUE) { /* the root of a volume may have nothing in it */
        return GetLastError() == ERROR_FILE_NOT_FOUND ? 0 : coffer__os_last_errno();
    }
    while (win_see(&found, see, ctx)) {
        if (FindNextFileW(list, &found) == 0) {
            const DWORD error = GetLastError();
            (void)FindClose(list);
            return error == ERROR_NO_MORE_FILES ? 0 : coffer__os_errno(error);
        }
    }
    (void)FindClose(list);
    return 0;
}

const char coffer__os_separators[] = "/\\";

/* The system gives it with the prefix for long paths, which the API does not need, and with backslashes. */
static int win_without_prefix(wchar_t *whole, char *out, size_t size)
{
    static const wchar_t share[] = L"\\\\?\\UNC\\";
    static const wchar_t prefix[] = L"\\\\?\\";
    const size_t share_length = sizeof share / sizeof share[0] - 1;
    const size_t length = sizeof prefix / sizeof prefix[0] - 1;
    wchar_t *from = wcsncmp(whole, prefix, length) == 0 ? whole + length : whole;
    if (wcsncmp(whole, share, share_length) == 0) {
        from = whole + share_length - 2;
        from[0] = L'\\';
    }
    for (wchar_t *sign = wcschr(from, L'\\'); sign != NULL; sign = wcschr(sign, L'\\')) {
        *sign = L'/';
    }
    return coffer__os_narrow(from, out, size);
}

int coffer__os_real_path(const char *path, char *out, size_t size)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    int os_error = coffer__os_open_handle(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING, 0, NULL, &handle);
    if (os_error != 0) {
        return os_error;
    }
    const DWORD most = GetFinalPathNameByHandleW(handle, NULL, 0, FILE_NAME_NORMALIZED);
    wchar_t *whole = most == 0 ? NULL : malloc((most + 1) * sizeof *whole);
    const DWORD length = whole == NULL ? 0 : GetFinalPathNameByHandleW(handle, whole, most + 1, FILE_NAME_NORMALIZED);
    if (length == 0 || length > most) {
        os_error = most != 0 && whole == NULL ? ENOMEM : coffer__os_last_errno();
    } else {
        os_error = win_without_prefix(whole, out, size);
    }
    free(whole);
    (void)CloseHandle(handle);
    return os_error;
}

#endif
