/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system, Windows: what survives a crash, and what changes under a name atomically. */
#include "os_windows.h"

#ifdef _WIN32

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what survives ----------------------------------------------------------------------------------------------- */

/* Also makes the device write its cache. */
int coffer__os_sync(int fd)
{
    return FlushFileBuffers(coffer__os_handle(fd)) != 0 ? 0 : coffer__os_last_errno();
}

void coffer__os_sync_begin(int fd)
{
    (void)fd;
}

void coffer__os_sync_stretch(int fd, uint64_t offset, uint64_t size)
{
    (void)fd;
    (void)offset;
    (void)size;
}

/* NTFS and ReFS keep a journal of names, and the names of a folder become durable with the next file of the volume that
   is flushed. A folder is flushed where the system allows it to this user. */
int coffer__os_sync_names(int directory)
{
    (void)FlushFileBuffers(coffer__os_handle(directory));
    return 0;
}

int coffer__os_open_directory(const char *path, int *directory)
{
    coffer__os_info info;
    int fd = -1;
    int os_error = coffer__os_open(path, COFFER__OS_READ, true, &fd);
    if (os_error != 0) {
        return os_error;
    }
    os_error = coffer__os_inspect_fd(fd, &info);
    if (os_error == 0 && info.kind != COFFER__OS_DIRECTORY) {
        os_error = ENOTDIR;
    }
    if (os_error != 0) {
        (void)coffer__os_close(fd);
        return os_error;
    }
    *directory = fd;
    return 0;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* FileDispositionInfoEx and FileRenameInfoEx, whose numbers not all headers have. */
#define WIN_DELETE_BY_FLAGS ((FILE_INFO_BY_HANDLE_CLASS)21)
#define WIN_RENAME_BY_FLAGS ((FILE_INFO_BY_HANDLE_CLASS)22)

/* Renames as POSIX has it: what lies under `to` loses its name at once, whoever has it open, and even if it is marked
   read-only. Windows 10 has that since 1709 on NTFS; elsewhere it is an invalid parameter. */
static DWORD win_rename_posix(const wchar_t *from, const wchar_t *to)
{
    const DWORD flags = FILE_RENAME_FLAG_REPLACE_IF_EXISTS | FILE_RENAME_FLAG_POSIX_SEMANTICS;
    const size_t length = wcslen(to) * sizeof *to;
    const size_t size = sizeof(FILE_RENAME_INFO) + length;
    FILE_RENAME_INFO *info = calloc(1, size);
    if (info == NULL) {
        return ERROR_NOT_ENOUGH_MEMORY;
    }
    info->Flags = flags;
    info->FileNameLength = (DWORD)length;
    memcpy(info->FileName, to, length);
    HANDLE handle = CreateFileW(from, DELETE | SYNCHRONIZE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    DWORD error = handle == INVALID_HANDLE_VALUE ? GetLastError() : NO_ERROR;
    if (error == NO_ERROR) {
        error =
            SetFileInformationByHandle(handle, WIN_RENAME_BY_FLAGS, info, (DWORD)size) != 0 ? NO_ERROR : GetLastError();
        (void)CloseHandle(handle);
    }
    free(info);
    return error;
}

/* Without POSIX renames and deletes, the system refuses to take the name from a file that is marked read-only. Tries again
   without the mark, which comes back if that fails, too. */
static DWORD win_without_mark(const wchar_t *path, DWORD (*change)(const wchar_t *from, const wchar_t *to),
                              const wchar_t *from)
{
    const DWORD attributes = GetFileAttributesW(path);
    if (attributes == INVALID_FILE_ATTRIBUTES || (attributes & FILE_ATTRIBUTE_READONLY) == 0 ||
        SetFileAttributesW(path, attributes & ~(DWORD)FILE_ATTRIBUTE_READONLY) == 0) {
        return ERROR_ACCESS_DENIED;
    }
    const DWORD error = change(from, path);
    if (error != NO_ERROR) {
        (void)SetFileAttributesW(path, attributes);
    }
    return error;
}

/* Where the system, or the file system, has only its old way to rename: an open file cannot be replaced by that, but
   ReplaceFile can do it, which renames the old one away first. */
static DWORD win_rename_plain(const wchar_t *from, const wchar_t *to)
{
    if (MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) != 0) {
        return NO_ERROR;
    }
    const DWORD error = GetLastError();
    if ((error == ERROR_ACCESS_DENIED || error == ERROR_SHARING_VIOLATION) &&
        ReplaceFileW(to, from, NULL, REPLACEFILE_WRITE_THROUGH, NULL, NULL) != 0) {
        return NO_ERROR;
    }
    return error;
}

static DWORD win_rename_wide(const wchar_t *from, const wchar_t *to)
{
    const DWORD error = win_rename_posix(from, to);
    const bool old = error == ERROR_INVALID_PARAMETER || error == ERROR_NOT_SUPPORTED ||
                     error == ERROR_INVALID_FUNCTION || error == ERROR_CALL_NOT_IMPLEMENTED ||
                     error == ERROR_INVALID_LEVEL;
    if (!old) {
        return error;
    }
    const DWORD plain = win_rename_plain(from, to);
    return plain == ERROR_ACCESS_DENIED ? win_without_mark(to, win_rename_plain, from) : plain;
}

int coffer__os_rename(const char *from, const char *to)
{
    wchar_t *wide_from = NULL;
    wchar_t *wide_to = NULL;
    int os_error = coffer__os_wide_path(from, &wide_from);
    os_error = os_error != 0 ? os_error : coffer__os_wide_path(to, &wide_to);
    if (os_error == 0) {
        const DWORD error = win_rename_wide(wide_from, wide_to);
        os_error = error == NO_ERROR ? 0 : coffer__os_errno(error);
    }
    free(wide_from);
    free(wide_to);
    return os_error;
}

/* The system frees a file that has lost its name when its last handle is closed, which takes little time here: it
   does not have to drop pages one by one. */
int coffer__os_rename_without_wait(const char *from, const char *to)
{
    return coffer__os_rename(from, to);
}

int coffer__os_exchange(const char *one, const char *other)
{
    (void)one;
    (void)other;
    return EOPNOTSUPP;
}

/* The name goes at once, as POSIX has it; otherwise it would stay until everybody has closed the file. */
static DWORD win_delete_posix(const wchar_t *path)
{
    FILE_DISPOSITION_INFO_EX how = { FILE_DISPOSITION_FLAG_DELETE | FILE_DISPOSITION_FLAG_POSIX_SEMANTICS |
                                     FILE_DISPOSITION_FLAG_IGNORE_READONLY_ATTRIBUTE };
    HANDLE handle = CreateFileW(path, DELETE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        return GetLastError();
    }
    const DWORD error =
        SetFileInformationByHandle(handle, WIN_DELETE_BY_FLAGS, &how, sizeof how) != 0 ? NO_ERROR : GetLastError();
    (void)CloseHandle(handle);
    return error;
}

static DWORD win_delete_plain(const wchar_t *unused, const wchar_t *path)
{
    (void)unused;
    return DeleteFileW(path) != 0 ? NO_ERROR : GetLastError();
}

int coffer__os_unlink(const char *path)
{
    wchar_t *wide = NULL;
    const int os_error = coffer__os_wide_path(path, &wide);
    if (os_error != 0) {
        return os_error;
    }
    DWORD error = win_delete_posix(wide);
    if (error != NO_ERROR && error != ERROR_FILE_NOT_FOUND && error != ERROR_PATH_NOT_FOUND) {
        error = win_delete_plain(NULL, wide);
        error = error == ERROR_ACCESS_DENIED ? win_without_mark(wide, win_delete_plain, NULL) : error;
    }
    free(wide);
    return error == NO_ERROR ? 0 : coffer__os_errno(error);
}

int coffer__os_unlink_without_wait(const char *path)
{
    return coffer__os_unlink(path);
}

/* ---- locks ------------------------------------------------------------------------------------------------------- */

/*
 * A lock of the system keeps others from reading and writing the bytes that it covers, and the library's locks are only
 * for those who lock, too. So it covers a byte where no file has any.
 *
 * Folders have no bytes to lock. Whoever locks one makes an event of the system's, whose name says which folder it is:
 * it exists until its last handle is closed, by this process or by its end. The handle is kept in a list beside the
 * folder's descriptor, until that is closed.
 */
#define WIN_LOCKED_BYTE_HIGH 0x7FFFFFFFu

typedef struct win_folder_lock {
    struct win_folder_lock *next;
    HANDLE event;
    int fd;
} win_folder_lock;

static SRWLOCK win_folder_locks_guard = SRWLOCK_INIT;
static win_folder_lock *win_folder_locks;

static int win_lock_folder(int fd, const coffer__os_info *info)
{
    wchar_t name[64];
    win_folder_lock *lock = malloc(sizeof *lock);
    if (lock == NULL) {
        return ENOMEM;
    }
    (void)swprintf(name, sizeof name / sizeof name[0], L"Global\\coffer-folder-%llx-%llx",
                   (unsigned long long)info->device, (unsigned long long)info->inode);
    lock->fd = fd;
    lock->event = CreateEventW(NULL, TRUE, FALSE, name);
    const DWORD error = GetLastError();
    if (lock->event == NULL || error == ERROR_ALREADY_EXISTS) {
        const bool taken = lock->event != NULL || error == ERROR_ACCESS_DENIED; /* it may be another user's */
        if (lock->event != NULL) {
            (void)CloseHandle(lock->event);
        }
        free(lock);
        return taken ? EWOULDBLOCK : coffer__os_errno(error);
    }
    AcquireSRWLockExclusive(&win_folder_locks_guard);
    lock->next = win_folder_locks;
    win_folder_locks = lock;
    ReleaseSRWLockExclusive(&win_folder_locks_guard);
    return 0;
}

void coffer__os_unlock(int fd)
{
    AcquireSRWLockExclusive(&win_folder_locks_guard);
    win_folder_lock **link = &win_folder_locks;
    while (*link != NULL && (*link)->fd != fd) {
        link = &(*link)->next;
    }
    win_folder_lock *lock = *link;
    if (lock != NULL) {
        *link = lock->next;
    }
    ReleaseSRWLockExclusive(&win_folder_locks_guard);
    if (lock != NULL) {
        (void)CloseHandle(lock->event);
        free(lock);
    }
}

int coffer__os_lock(int fd)
{
    coffer__os_info info;
    const int os_error = coffer__os_inspect_fd(fd, &info);
    if (os_error != 0) {
        return os_error;
    }
    if (info.kind == COFFER__OS_DIRECTORY) {
        return win_lock_folder(fd, &info);
    }
    OVERLAPPED where;
    memset(&where, 0, sizeof where);
    where.OffsetHigh = WIN_LOCKED_BYTE_HIGH;
    if (LockFileEx(coffer__os_handle(fd), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &where) != 0) {
        return 0;
    }
    return GetLastError() == ERROR_IO_PENDING ? EWOULDBLOCK : coffer__os_last_errno();
}

#endif
