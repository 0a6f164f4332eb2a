/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: what lies under a name. Windows has lists of who may do what, and neither owners by number nor bits
 * for a group. So every file belongs to the user, and its mode says only whether it is read-only: whoever may write a file
 * is the system's business.
 */
#include "os_windows.h"

#ifdef _WIN32

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How far the clock of files may be behind the one that is asked: a tick of the system's, and the two seconds of FAT for
   times without a fraction. In units of 100 ns. */
#define OS_TICK INT64_C(200000)
#define OS_COARSEST INT64_C(20000000)

/* What a failed inspection leaves. */
static const coffer__os_info OS_NOTHING_KNOWN = { .kind = COFFER__OS_OTHER };

bool coffer__os_unchanged(const coffer__os_info *then, const coffer__os_info *now)
{
    return then->device == now->device && then->inode == now->inode && then->size == now->size &&
           then->modified == now->modified;
}

bool coffer__os_is_mine(const coffer__os_info *info)
{
    return info->owner == coffer__os_user();
}

static int64_t os_units_now(void)
{
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    return (int64_t)((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime);
}

/* As in os_names.c, for times in units of 100 ns. */
static bool os_is_fresh(int64_t touched, int64_t before)
{
    const bool whole_seconds = touched % 10000000 == 0;
    return touched >= before - (whole_seconds ? OS_COARSEST : OS_TICK) && touched <= before + OS_COARSEST;
}

/* Links and what a folder is mounted at count as links; other reparse points, such as files of a cloud's that are not here
   yet, are what they stand for. */
static bool os_is_link(HANDLE handle, DWORD attributes)
{
    FILE_ATTRIBUTE_TAG_INFO tag = { 0, 0 };
    return (attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 &&
           GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag) &&
           (tag.ReparseTag == IO_REPARSE_TAG_SYMLINK || tag.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT);
}

static int os_inspect_handle(HANDLE handle, coffer__os_info *info)
{
    const int64_t before = os_units_now();
    BY_HANDLE_FILE_INFORMATION found;
    FILE_BASIC_INFO times;
    if (GetFileType(handle) != FILE_TYPE_DISK) {
        return 0;
    }
    if (!GetFileInformationByHandle(handle, &found) ||
        !GetFileInformationByHandleEx(handle, FileBasicInfo, &times, sizeof times)) {
        return coffer__os_last_error();
    }
    const bool folder = (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    const bool writable = folder || (found.dwFileAttributes & FILE_ATTRIBUTE_READONLY) == 0;
    info->kind = os_is_link(handle, found.dwFileAttributes) ? COFFER__OS_LINK
                 : folder                                   ? COFFER__OS_DIRECTORY
                                                            : COFFER__OS_REGULAR;
    info->mode = (writable ? 0644u : 0444u) | (folder ? 0111u : 0u);
    info->owner = coffer__os_user();
    info->size = folder ? 0 : (uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow;
    info->links = found.nNumberOfLinks;
    info->device = found.dwVolumeSerialNumber;
    info->inode = (uint64_t)found.nFileIndexHigh << 32 | found.nFileIndexLow;
    info->modified = times.LastWriteTime.QuadPart * 100;
    info->touched = times.ChangeTime.QuadPart * 100;
    info->recent = os_is_fresh(times.ChangeTime.QuadPart, before);
    return 0;
}

int coffer__os_inspect(const char *path, bool follow, coffer__os_info *info)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    *info = OS_NOTHING_KNOWN;
    int os_error =
        coffer__os_create_handle(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING,
                                 FILE_FLAG_BACKUP_SEMANTICS | (follow ? 0 : FILE_FLAG_OPEN_REPARSE_POINT), &handle);
    if (os_error == 0) {
        os_error = os_inspect_handle(handle, info);
        (void)CloseHandle(handle);
    }
    return os_error;
}

int coffer__os_inspect_fd(int fd, coffer__os_info *info)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    *info = OS_NOTHING_KNOWN;
    const int os_error = coffer__os_handle(fd, &handle);
    return os_error != 0 ? os_error : os_inspect_handle(handle, info);
}

bool coffer__os_exists(const char *path)
{
    wchar_t *wide = NULL;
    if (coffer__os_wide(path, &wide) != 0) {
        return false;
    }
    const bool exists = GetFileAttributesW(wide) != INVALID_FILE_ATTRIBUTES;
    free(wide);
    return exists;
}

/* The pattern for everything in a folder. */
static int os_pattern(const char *folder, wchar_t **pattern)
{
    const size_t len = strlen(folder);
    char *text = malloc(len + 3);
    if (text == NULL) {
        return ENOMEM;
    }
    memcpy(text, folder, len);
    memcpy(text + len, len > 0 && coffer__os_separates(folder[len - 1]) ? "*" : "/*", 3);
    const int os_error = coffer__os_wide(text, pattern);
    free(text);
    return os_error;
}

/* A file is no folder, which the system tells in words of its own. */
static int os_no_folder(const char *folder, int os_error)
{
    coffer__os_info info;
    const bool is_file = coffer__os_inspect(folder, true, &info) == 0 && info.kind != COFFER__OS_DIRECTORY;
    return is_file ? ENOTDIR : os_error;
}

int coffer__os_list(const char *folder, bool (*see)(void *ctx, const char *name), void *ctx)
{
    WIN32_FIND_DATAW found;
    wchar_t *pattern = NULL;
    char name[MAX_PATH * 4];
    int os_error = os_pattern(folder, &pattern);
    if (os_error != 0) {
        return os_error;
    }
    const HANDLE search = FindFirstFileW(pattern, &found);
    os_error = search == INVALID_HANDLE_VALUE ? coffer__os_last_error() : 0;
    free(pattern);
    if (os_error != 0) {
        return os_no_folder(folder, os_error);
    }
    bool more = true;
    while (more) {
        os_error = coffer__os_narrow(found.cFileName, name, sizeof name);
        more = os_error == 0 && (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || see(ctx, name));
        if (more && !FindNextFileW(search, &found)) {
            more = false;
            os_error = GetLastError() == ERROR_NO_MORE_FILES ? 0 : coffer__os_last_error();
        }
    }
    (void)FindClose(search);
    return os_error;
}

/* What the system answers begins with \\?\, which is left out where the path is an ordinary one, and has slashes then. */
static int os_tidy(wchar_t *wide, char *out, size_t size)
{
    wchar_t *tidy = wide;
    if (wcsncmp(wide, L"\\\\?\\UNC\\", 8) == 0) {
        tidy = wide + 6;
        tidy[0] = L'\\';
    } else if (wcsncmp(wide, L"\\\\?\\", 4) == 0) {
        tidy = wide + 4;
    }
    for (wchar_t *at = tidy; *at != 0; at++) {
        *at = *at == L'\\' ? L'/' : *at;
    }
    return coffer__os_narrow(tidy, out, size);
}

int coffer__os_real_path(const char *path, char *out, size_t size)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    int os_error =
        coffer__os_create_handle(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, &handle);
    if (os_error != 0) {
        return os_error;
    }
    const DWORD room = GetFinalPathNameByHandleW(handle, NULL, 0, FILE_NAME_NORMALIZED | VOLUME_NAME_DOS);
    wchar_t *wide = room > 0 ? malloc((room + 1) * sizeof *wide) : NULL;
    if (wide == NULL) {
        os_error = room > 0 ? ENOMEM : coffer__os_last_error();
    } else if (GetFinalPathNameByHandleW(handle, wide, room + 1, FILE_NAME_NORMALIZED | VOLUME_NAME_DOS) == 0) {
        os_error = coffer__os_last_error();
    } else {
        os_error = os_tidy(wide, out, size);
    }
    free(wide);
    (void)CloseHandle(handle);
    return os_error;
}

#endif
