/* SPDX-License-Identifier: Apache-2.0 */
/* Names and folders: see cli_windows.h for what is promised. */
#include "cli_windows_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

/* In the system since Windows 10 1607 and 1709, and not in every set of headers. */
#define RENAME_INFO_EX ((FILE_INFO_BY_HANDLE_CLASS)22)
#define RENAME_REPLACES 0x1u
#define RENAME_AS_POSIX 0x2u

struct cli_windows_dir {
    HANDLE search;
    bool first;
    WIN32_FIND_DATAW found;
    struct dirent entry;
};

/* ---- Names ---- */

/* What a call that takes a path says, as POSIX would. */
static int done(BOOL fine)
{
    return fine ? 0 : cli_windows_failed();
}

/* One call on a path. The two arguments of a call that wants none else are in one function, so that each is one line. */
static int with_path(const char *path, BOOL(WINAPI *call)(LPCWSTR))
{
    wchar_t *name = cli_windows_path(path);
    const int result = name != NULL ? done(call(name)) : -1;
    const int error = errno;
    free(name);
    errno = error;
    return result;
}

int cli_windows_unlink(const char *path)
{
    return with_path(path, DeleteFileW);
}

int cli_windows_rmdir(const char *path)
{
    return with_path(path, RemoveDirectoryW);
}

static BOOL WINAPI make_folder(LPCWSTR name)
{
    return CreateDirectoryW(name, NULL);
}

int cli_windows_mkdir(const char *path)
{
    return with_path(path, make_folder);
}

int cli_windows_access(const char *path, int mode)
{
    wchar_t *name = cli_windows_path(path);
    const int result = name != NULL ? _waccess(name, mode) : -1;
    const int error = errno;
    free(name);
    errno = error;
    return result;
}

/* The name goes to the new file at once, while others still have the old one open. Older systems and other file systems
   do not know this. */
static bool rename_as_posix(const wchar_t *from, const wchar_t *to)
{
    const size_t bytes = wcslen(to) * sizeof *to;
    const size_t size = sizeof(FILE_RENAME_INFO) + bytes;
    FILE_RENAME_INFO *wish = calloc(1, size);
    const HANDLE file = CreateFileW(from, DELETE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                    OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    bool renamed = false;
    if (wish != NULL && file != INVALID_HANDLE_VALUE) {
        const DWORD flags = RENAME_REPLACES | RENAME_AS_POSIX;
        memcpy(wish, &flags,
               sizeof flags); /* a union with the one byte of the old call, whose name headers disagree on */
        wish->FileNameLength = (DWORD)bytes;
        memcpy(wish->FileName, to, bytes);
        renamed = SetFileInformationByHandle(file, RENAME_INFO_EX, wish, (DWORD)size);
    }
    if (file != INVALID_HANDLE_VALUE) {
        CloseHandle(file);
    }
    free(wish);
    return renamed;
}

int cli_windows_rename(const char *from, const char *to)
{
    wchar_t *old_name = cli_windows_path(from);
    wchar_t *new_name = old_name != NULL ? cli_windows_path(to) : NULL;
    int result = -1;
    if (new_name != NULL) {
        result = rename_as_posix(old_name, new_name)
                     ? 0
                     : done(MoveFileExW(old_name, new_name, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH));
    }
    const int error = errno;
    free(old_name);
    free(new_name);
    errno = error;
    return result;
}

/* "\\?\C:\x" becomes "C:/x", and "\\?\UNC\server\x" becomes "//server/x". */
static char *plain_path(const wchar_t *real)
{
    const bool is_share = wcsncmp(real, L"\\\\?\\UNC\\", 8) == 0;
    char *path = cli_windows_utf8(is_share ? real + 6 : wcsncmp(real, L"\\\\?\\", 4) == 0 ? real + 4 : real);
    for (char *sign = path; sign != NULL && *sign != '\0'; sign++) {
        *sign = *sign == '\\' ? '/' : *sign;
    }
    if (path != NULL && is_share) {
        path[0] = '/'; /* the C of UNC was the one before the slash */
    }
    return path;
}

char *cli_windows_realpath(const char *path, char *none)
{
    (void)none;
    wchar_t *name = cli_windows_path(path);
    const HANDLE file = name == NULL ? INVALID_HANDLE_VALUE
                                     : CreateFileW(name, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                                   NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    char *found = NULL;
    if (file != INVALID_HANDLE_VALUE) {
        const DWORD capacity = GetFinalPathNameByHandleW(file, NULL, 0, 0);
        wchar_t *real = capacity > 0 ? malloc((capacity + 1) * sizeof *real) : NULL;
        const DWORD len = real != NULL ? GetFinalPathNameByHandleW(file, real, capacity + 1, 0) : 0;
        found = len > 0 && len <= capacity ? plain_path(real) : NULL;
        free(real);
        CloseHandle(file);
    } else if (name != NULL) {
        (void)cli_windows_failed();
    }
    free(name);
    return found;
}

/* ---- Folders ---- */

DIR *cli_windows_opendir(const char *path)
{
    const size_t size = strlen(path) + sizeof "/*";
    char *pattern = malloc(size);
    DIR *folder = calloc(1, sizeof *folder);
    if (pattern == NULL || folder == NULL) {
        free(pattern);
        free(folder);
        errno = ENOMEM;
        return NULL;
    }
    snprintf(pattern, size, "%s/*", path);
    wchar_t *name = path[0] != '\0' ? cli_windows_path(pattern) : NULL;
    free(pattern);
    folder->search = name != NULL ? FindFirstFileW(name, &folder->found) : INVALID_HANDLE_VALUE;
    folder->first = true;
    if (folder->search == INVALID_HANDLE_VALUE) {
        if (name != NULL) {
            (void)cli_windows_failed();
        } else if (path[0] == '\0') {
            errno = ENOENT;
        }
        free(folder);
        folder = NULL;
    }
    free(name);
    return folder;
}

struct dirent *cli_windows_readdir(DIR *folder)
{
    if (!folder->first && !FindNextFileW(folder->search, &folder->found)) {
        return NULL;
    }
    folder->first = false;
    WideCharToMultiByte(CP_UTF8, 0, folder->found.cFileName, -1, folder->entry.d_name, sizeof folder->entry.d_name,
                        NULL, NULL);
    return &folder->entry;
}

int cli_windows_closedir(DIR *folder)
{
    FindClose(folder->search);
    free(folder);
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp((*(struct dirent *const *)a)->d_name, (*(struct dirent *const *)b)->d_name);
}

/* Adds a copy of the entry; false without memory. */
static bool add_entry(struct dirent ***entries, int count, const struct dirent *entry)
{
    /* Grown when the count is a power of two: then it has doubled. */
    if ((count & (count - 1)) == 0) {
        struct dirent **grown = realloc(*entries, (count == 0 ? 1 : 2 * (size_t)count) * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        *entries = grown;
    }
    struct dirent *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        return false;
    }
    *copy = *entry;
    (*entries)[count] = copy;
    return true;
}

int cli_windows_scandir(const char *path, struct dirent ***entries)
{
    DIR *folder = opendir(path);
    const struct dirent *entry = NULL;
    int count = 0;
    bool fine = true;
    *entries = NULL;
    if (folder == NULL) {
        return -1;
    }
    /* cppcheck-suppress readdirCalled */
    while (fine && (entry = readdir(folder)) != NULL) {
        fine = add_entry(entries, count, entry);
        count += fine;
    }
    closedir(folder);
    if (fine) {
        qsort(*entries, (size_t)count, sizeof **entries, by_bytes);
        return count;
    }
    while (count > 0) {
        free((*entries)[--count]);
    }
    free(*entries);
    errno = ENOMEM;
    return -1;
}
