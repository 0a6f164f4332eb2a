/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: what survives a crash, and what changes under a name atomically.
 *
 * Names are changed with the semantics of POSIX where the file system has them (NTFS, since Windows 10 1709): a name that
 * others have open can be replaced and removed, and they keep the old file. Elsewhere that is an error, EACCES or EBUSY.
 */
#include "os_windows.h"

#ifdef _WIN32

#include <aclapi.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Of newer headers: classes of information, and the flags that come with them. */
#define OS_DISPOSITION_EX ((FILE_INFO_BY_HANDLE_CLASS)21)
#define OS_RENAME_EX ((FILE_INFO_BY_HANDLE_CLASS)22)
#define OS_REPLACE 0x01u
#define OS_DELETE 0x01u
#define OS_POSIX 0x02u
#define OS_DELETE_READ_ONLY 0x10u
#define OS_REPLACE_READ_ONLY 0x40u

/* A byte that no file has. Locks forbid others to read and write what they cover, and a lock of the bytes would shut
   readers out. */
#define OS_LOCKED_BYTE_LOW 0xFFFFFFFEu
#define OS_LOCKED_BYTE_HIGH 0x7FFFFFFFu

typedef struct os_renaming {
    DWORD flags;
    HANDLE root;
    DWORD name_size; /* in bytes */
    wchar_t name[1]; /* as many as there are, and a NUL */
} os_renaming;

int coffer__os_sync(int fd)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    const int os_error = coffer__os_handle(fd, &handle);
    return os_error != 0 ? os_error : FlushFileBuffers(handle) ? 0 : coffer__os_last_error();
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

/* Names are metadata, which the file system keeps a journal of. Whether it can store them at once depends on it, and on
   what the user may do with the folder. */
int coffer__os_sync_names(int directory)
{
    (void)coffer__os_sync(directory);
    return 0;
}

/* With the right to write, which storing the names needs, and where there is none without. */
int coffer__os_open_directory(const char *path, int *directory)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    BY_HANDLE_FILE_INFORMATION found;
    int os_error = coffer__os_create_handle(path, GENERIC_READ | GENERIC_WRITE, OPEN_EXISTING,
                                            FILE_FLAG_BACKUP_SEMANTICS, &handle);
    if (os_error == EACCES || os_error == EISDIR) {
        os_error = coffer__os_create_handle(path, GENERIC_READ, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, &handle);
    }
    if (os_error != 0) {
        return os_error;
    }
    if (!GetFileInformationByHandle(handle, &found) || (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0) {
        (void)CloseHandle(handle);
        return ENOTDIR;
    }
    return coffer__os_adopt(handle, directory);
}

int coffer__os_sync_directory(const char *path)
{
    int directory = -1;
    const int os_error = coffer__os_open_directory(path, &directory);
    if (os_error == 0) {
        (void)coffer__os_sync_names(directory);
        (void)coffer__os_close(directory);
    }
    return os_error;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* By the semantics of POSIX; false: the system or the file system cannot, or it went wrong. */
static bool os_rename_posix(const char *from, const wchar_t *to)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    const size_t length = wcslen(to);
    os_renaming *renaming = calloc(1, sizeof *renaming + length * sizeof *to);
    if (renaming == NULL) {
        return false;
    }
    renaming->flags = OS_REPLACE | OS_POSIX | OS_REPLACE_READ_ONLY;
    renaming->name_size = (DWORD)(length * sizeof *to);
    memcpy(renaming->name, to, length * sizeof *to);
    const DWORD size = (DWORD)(sizeof *renaming + length * sizeof *to);
    bool fine = coffer__os_create_handle(from, DELETE | SYNCHRONIZE, OPEN_EXISTING,
                                         FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, &handle) == 0;
    if (fine) {
        fine = SetFileInformationByHandle(handle, OS_RENAME_EX, renaming, size);
        (void)CloseHandle(handle);
    }
    free(renaming);
    return fine;
}

/* The second way is that of older systems and other file systems. It is atomic on NTFS, too, but not where somebody has
   the old file open. Neither writes the name through before it returns, but for the flag of the second. */
int coffer__os_rename(const char *from, const char *to)
{
    wchar_t *old_name = NULL;
    wchar_t *new_name = NULL;
    int os_error = coffer__os_wide(from, &old_name);
    if (os_error == 0) {
        os_error = coffer__os_wide(to, &new_name);
    }
    if (os_error == 0 && !os_rename_posix(from, new_name) &&
        !MoveFileExW(old_name, new_name, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
        os_error = coffer__os_last_error();
    }
    free(old_name);
    free(new_name);
    return os_error;
}

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

static bool os_unlink_posix(const char *path)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    DWORD flags = OS_DELETE | OS_POSIX | OS_DELETE_READ_ONLY;
    if (coffer__os_create_handle(path, DELETE | SYNCHRONIZE, OPEN_EXISTING,
                                 FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, &handle) != 0) {
        return false;
    }
    const bool fine = SetFileInformationByHandle(handle, OS_DISPOSITION_EX, &flags, sizeof flags);
    (void)CloseHandle(handle);
    return fine;
}

/* A folder is not removed, as elsewhere: the second call refuses it, and is made first where it is one. */
int coffer__os_unlink(const char *path)
{
    wchar_t *wide = NULL;
    int os_error = coffer__os_wide(path, &wide);
    if (os_error != 0) {
        return os_error;
    }
    const DWORD attributes = GetFileAttributesW(wide);
    const bool folder = attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0 &&
                        (attributes & FILE_ATTRIBUTE_REPARSE_POINT) == 0;
    if (folder) {
        os_error = EISDIR;
    } else if (!os_unlink_posix(path) && !DeleteFileW(wide)) {
        os_error = coffer__os_last_error();
    }
    free(wide);
    return os_error;
}

int coffer__os_unlink_without_wait(const char *path)
{
    return coffer__os_unlink(path);
}

/* ---- rights ------------------------------------------------------------------------------------------------------ */

/* Gives the new file the old one's list of who may do what. A list that the old file only inherited is the folder's, and
   the new file has it already. */
static int os_take_list(HANDLE handle, const char *path)
{
    wchar_t *wide = NULL;
    PACL list = NULL;
    PSECURITY_DESCRIPTOR rights = NULL;
    SECURITY_DESCRIPTOR_CONTROL control = 0;
    DWORD revision = 0;
    const int os_error = coffer__os_wide(path, &wide);
    if (os_error != 0) {
        return os_error;
    }
    DWORD error =
        GetNamedSecurityInfoW(wide, SE_FILE_OBJECT, DACL_SECURITY_INFORMATION, NULL, NULL, &list, NULL, &rights);
    free(wide);
    if (error == ERROR_SUCCESS && GetSecurityDescriptorControl(rights, &control, &revision) &&
        (control & SE_DACL_PROTECTED) != 0) {
        error = SetSecurityInfo(handle, SE_FILE_OBJECT, DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION,
                                NULL, NULL, list, NULL);
    }
    (void)LocalFree(rights);
    return error == ERROR_SUCCESS ? 0 : coffer__os_windows_errno(error);
}

int coffer__os_take_owner_and_mode(int fd, const coffer__os_info *info, const char *path)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    FILE_BASIC_INFO basic = { .FileAttributes = FILE_ATTRIBUTE_READONLY };
    int os_error = coffer__os_handle(fd, &handle);
    if (os_error != 0) {
        return os_error;
    }
    os_error = os_take_list(handle, path);
    if (os_error == 0 && (info->mode & 0222u) == 0 &&
        !SetFileInformationByHandle(handle, FileBasicInfo, &basic, sizeof basic)) {
        os_error = coffer__os_last_error();
    }
    return os_error;
}

int coffer__os_lock(int fd)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    OVERLAPPED place = { 0 };
    const int os_error = coffer__os_handle(fd, &handle);
    if (os_error != 0) {
        return os_error;
    }
    place.Offset = OS_LOCKED_BYTE_LOW;
    place.OffsetHigh = OS_LOCKED_BYTE_HIGH;
    return LockFileEx(handle, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &place)
               ? 0
               : coffer__os_last_error();
}

#endif
