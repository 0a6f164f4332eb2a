/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system, Windows: opening files, and their bytes. */
#include "os_windows.h"

#ifdef _WIN32

#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winioctl.h>

/* The most that one call is asked to move, a multiple of every page size: sizes have 32 bits. */
#define WIN_PIECE ((size_t)1 << 30)
#define WIN_EVERYBODY (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

HANDLE coffer__os_handle(int fd)
{
    return fd < 0 ? INVALID_HANDLE_VALUE : (HANDLE)_get_osfhandle(fd); /* NOLINT(performance-no-int-to-ptr) */
}

int coffer__os_adopt(HANDLE handle, int *fd)
{
    const int made = _open_osfhandle((intptr_t)handle, _O_BINARY | _O_NOINHERIT);
    if (made < 0) {
        (void)CloseHandle(handle);
        return EMFILE;
    }
    *fd = made;
    return 0;
}

/* FILE_FLAG_BACKUP_SEMANTICS is what lets folders be opened; it gives no rights by itself. A pipe that is busy is not
   waited for. */
int coffer__os_open_handle(const char *path, DWORD access, DWORD creation, DWORD flags, SECURITY_ATTRIBUTES *security,
                           HANDLE *handle)
{
    wchar_t *wide = NULL;
    int os_error = coffer__os_wide_path(path, &wide);
    if (os_error != 0) {
        return os_error;
    }
    const DWORD always = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OVERLAPPED;
    *handle = CreateFileW(wide, access, WIN_EVERYBODY, security, creation, flags | always, NULL);
    os_error = *handle == INVALID_HANDLE_VALUE ? coffer__os_last_errno() : 0;
    free(wide);
    return os_error;
}

/* Rights to read the security descriptor are asked for with those to read, as POSIX systems tell everybody the owner;
   who has not got them gets the file without. */
static int win_open_as(const char *path, DWORD access, DWORD flags, HANDLE *handle)
{
    const int os_error = coffer__os_open_handle(path, access | READ_CONTROL, OPEN_EXISTING, flags, NULL, handle);
    return os_error == EACCES ? coffer__os_open_handle(path, access, OPEN_EXISTING, flags, NULL, handle) : os_error;
}

/* POSIX systems open folders for reading only, as this does. Without `follow` the link itself is opened, to see that
   it is one. */
int coffer__os_open(const char *path, coffer__os_use use, bool follow, int *fd)
{
    const DWORD access = use == COFFER__OS_READ    ? GENERIC_READ
                         : use == COFFER__OS_WRITE ? GENERIC_WRITE | FILE_READ_ATTRIBUTES
                                                   : GENERIC_READ | GENERIC_WRITE;
    HANDLE handle = INVALID_HANDLE_VALUE;
    coffer__os_info info;
    int os_error = win_open_as(path, access, follow ? 0 : FILE_FLAG_OPEN_REPARSE_POINT, &handle);
    if (os_error != 0) {
        return os_error;
    }
    os_error = follow && use == COFFER__OS_READ ? 0 : coffer__os_inspect_handle(handle, &info);
    if (os_error == 0 && !(follow && use == COFFER__OS_READ)) {
        os_error = info.kind == COFFER__OS_LINK                                  ? ELOOP
                   : info.kind == COFFER__OS_DIRECTORY && use != COFFER__OS_READ ? EISDIR
                                                                                 : 0;
    }
    if (os_error != 0) {
        (void)CloseHandle(handle);
        return os_error;
    }
    return coffer__os_adopt(handle, fd);
}

/* DELETE and the rights to change the security descriptor belong to a file that is made here: it is renamed by its handle,
   and gets the access list of the file that it replaces. */
int coffer__os_create(const char *path, bool secret, int *fd)
{
    const DWORD access = GENERIC_READ | GENERIC_WRITE | READ_CONTROL | WRITE_DAC;
    coffer__os_privacy privacy;
    HANDLE handle = INVALID_HANDLE_VALUE;
    int os_error = secret ? coffer__os_make_private(&privacy) : 0;
    if (os_error == 0) {
        os_error = coffer__os_open_handle(path, access, CREATE_NEW, FILE_FLAG_OPEN_REPARSE_POINT,
                                          secret ? &privacy.attributes : NULL, &handle);
    }
    return os_error == 0 ? coffer__os_adopt(handle, fd) : os_error;
}

int coffer__os_create_unnamed(const char *directory, bool secret, int *fd)
{
    (void)directory;
    (void)secret;
    (void)fd;
    return EOPNOTSUPP;
}

int coffer__os_name(int fd, const char *path)
{
    (void)fd;
    (void)path;
    return EOPNOTSUPP;
}

/* Opened once more, so that reading by it neither moves the position of the program's own handle nor waits for its
   transfers. What cannot be opened again, like a pipe, is duplicated. */
int coffer__os_duplicate(int fd, int *copy)
{
    const HANDLE self = GetCurrentProcess();
    const HANDLE given = coffer__os_handle(fd);
    HANDLE made = ReOpenFile(given, GENERIC_READ | READ_CONTROL, WIN_EVERYBODY, FILE_FLAG_OVERLAPPED);
    if (made == INVALID_HANDLE_VALUE &&
        DuplicateHandle(self, given, self, &made, 0, FALSE, DUPLICATE_SAME_ACCESS) == 0) {
        return coffer__os_last_errno();
    }
    return coffer__os_adopt(made, copy);
}

int coffer__os_close(int fd)
{
    coffer__os_unlock(fd);
    return _close(fd) == 0 ? 0 : errno;
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

/* The lowest bit of the event keeps the completion from being put into a port that the program has for its handle. */
static bool win_begin(OVERLAPPED *transfer, HANDLE *event, uint64_t offset)
{
    *event = CreateEventW(NULL, TRUE, FALSE, NULL);
    memset(transfer, 0, sizeof *transfer);
    transfer->Offset = (DWORD)offset;
    transfer->OffsetHigh = (DWORD)(offset >> 32);
    transfer->hEvent = (HANDLE)((uintptr_t)*event | 1); /* NOLINT(performance-no-int-to-ptr) */
    return *event != NULL;
}

/* The transfer has begun, or failed; this waits for it and gives the event back. */
static DWORD win_end(HANDLE handle, OVERLAPPED *transfer, HANDLE event, BOOL begun, DWORD *moved)
{
    DWORD error = begun != 0 ? NO_ERROR : GetLastError();
    if (error == ERROR_IO_PENDING || error == NO_ERROR) {
        error = GetOverlappedResult(handle, transfer, moved, TRUE) != 0 ? NO_ERROR : GetLastError();
    }
    (void)CloseHandle(event);
    return error;
}

static DWORD win_piece(size_t size)
{
    return (DWORD)(size < WIN_PIECE ? size : WIN_PIECE);
}

static bool win_offset_fits(uint64_t offset, uint64_t size)
{
    return offset <= INT64_MAX && size <= INT64_MAX - offset;
}

static DWORD win_read_once(HANDLE handle, uint64_t offset, void *buffer, size_t size, DWORD *got)
{
    OVERLAPPED transfer;
    HANDLE event = NULL;
    *got = 0;
    if (!win_begin(&transfer, &event, offset)) {
        return GetLastError();
    }
    const BOOL begun = ReadFile(handle, buffer, win_piece(size), NULL, &transfer);
    const DWORD error = win_end(handle, &transfer, event, begun, got);
    return error == ERROR_HANDLE_EOF ? NO_ERROR : error;
}

int coffer__os_read_handle(HANDLE handle, uint64_t offset, void *buffer, size_t size, size_t enough, size_t *done)
{
    *done = 0;
    if (!win_offset_fits(offset, size)) {
        return EOVERFLOW;
    }
    while (*done < enough) {
        DWORD got = 0;
        const DWORD error = win_read_once(handle, offset + *done, (char *)buffer + *done, size - *done, &got);
        if (error != NO_ERROR) {
            return coffer__os_errno(error);
        }
        if (got == 0) {
            return 0;
        }
        *done += got;
    }
    return 0;
}

int coffer__os_read_enough(int fd, uint64_t offset, void *buffer, size_t size, size_t enough, size_t *done)
{
    return coffer__os_read_handle(coffer__os_handle(fd), offset, buffer, size, enough, done);
}

int coffer__os_read_at(int fd, uint64_t offset, void *buffer, size_t size, size_t *done)
{
    return coffer__os_read_enough(fd, offset, buffer, size, size, done);
}

static DWORD win_write_once(HANDLE handle, uint64_t offset, const void *bytes, size_t size, DWORD *put)
{
    OVERLAPPED transfer;
    HANDLE event = NULL;
    *put = 0;
    if (!win_begin(&transfer, &event, offset)) {
        return GetLastError();
    }
    const BOOL begun = WriteFile(handle, bytes, win_piece(size), NULL, &transfer);
    return win_end(handle, &transfer, event, begun, put);
}

int coffer__os_write_at(int fd, uint64_t offset, const void *bytes, size_t size)
{
    if (!win_offset_fits(offset, size)) {
        return EFBIG;
    }
    const HANDLE handle = coffer__os_handle(fd);
    for (size_t done = 0; done < size;) {
        DWORD put = 0;
        const DWORD error = win_write_once(handle, offset + done, (const char *)bytes + done, size - done, &put);
        if (error != NO_ERROR || put == 0) {
            return error != NO_ERROR ? coffer__os_errno(error) : EIO;
        }
        done += put;
    }
    return 0;
}

/* The runtime would put a carriage return before each newline on a descriptor of text, so the handle is written to. A
   handle for overlapped transfers has no position, but descriptors like that are not given to programs. */
int coffer__os_write_next(int fd, const void *bytes, size_t size, size_t *done)
{
    const HANDLE handle = coffer__os_handle(fd);
    DWORD put = 0;
    *done = 0;
    if (size == 0) {
        return 0;
    }
    if (coffer__os_appends(fd)) {
        (void)SetFilePointerEx(handle, (LARGE_INTEGER){ .QuadPart = 0 }, NULL, FILE_END);
    }
    if (WriteFile(handle, bytes, win_piece(size), &put, NULL) == 0) {
        return coffer__os_last_errno();
    }
    *done = put;
    return put > 0 ? 0 : EIO;
}

/* ---- copies, clones and space ------------------------------------------------------------------------------------ */

int coffer__os_control(HANDLE handle, DWORD code, const void *in, DWORD in_size, void *out, DWORD out_size, DWORD *done)
{
    OVERLAPPED transfer;
    HANDLE event = NULL;
    *done = 0;
    if (!win_begin(&transfer, &event, 0)) {
        return coffer__os_last_errno();
    }
    const BOOL begun = DeviceIoControl(handle, code, (void *)in, in_size, out, out_size, NULL, &transfer);
    const DWORD error = win_end(handle, &transfer, event, begun, done);
    return error == NO_ERROR ? 0 : coffer__os_errno(error);
}

/* The system copies whole files by their names only. */
int coffer__os_copy(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size, uint64_t *done)
{
    (void)from;
    (void)from_offset;
    (void)to;
    (void)to_offset;
    *done = 0;
    return size == 0 ? 0 : EOPNOTSUPP;
}

int coffer__os_clone(int from, int to)
{
    (void)from;
    (void)to;
    return EOPNOTSUPP;
}

int coffer__os_clone_range(int from, uint64_t from_offset, int to, uint64_t to_offset)
{
    (void)from;
    (void)from_offset;
    (void)to;
    (void)to_offset;
    return EOPNOTSUPP;
}

int coffer__os_insert(int fd, uint64_t offset, uint64_t size)
{
    (void)fd;
    return win_offset_fits(offset, size) ? EOPNOTSUPP : EFBIG;
}

int coffer__os_claim(int fd)
{
    (void)fd;
    return EOPNOTSUPP;
}

void coffer__os_claim_release(int fd)
{
    (void)fd;
}

/* The allocation of a file is apart from its length; a smaller one than it has would cut the file, so it is only ever
   raised. Only a full disk counts. */
int coffer__os_reserve(int fd, uint64_t offset, uint64_t size)
{
    const HANDLE handle = coffer__os_handle(fd);
    FILE_STANDARD_INFO now;
    FILE_ALLOCATION_INFO wanted;
    if (!win_offset_fits(offset, size)) {
        return EFBIG;
    }
    wanted.AllocationSize.QuadPart = (int64_t)(offset + size);
    if (size == 0 || GetFileInformationByHandleEx(handle, FileStandardInfo, &now, sizeof now) == 0 ||
        wanted.AllocationSize.QuadPart <= now.AllocationSize.QuadPart ||
        SetFileInformationByHandle(handle, FileAllocationInfo, &wanted, sizeof wanted) != 0) {
        return 0;
    }
    const int os_error = coffer__os_last_errno();
    return os_error == ENOSPC || os_error == EDQUOT ? os_error : 0;
}

/* ---- holes ------------------------------------------------------------------------------------------------------- */

/* The first range of the file that has blocks, from `offset` on. False when there is none, which `none` says, or when
   the system cannot tell. */
static bool win_allocated(HANDLE handle, uint64_t offset, uint64_t end, FILE_ALLOCATED_RANGE_BUFFER *range, bool *none)
{
    const FILE_ALLOCATED_RANGE_BUFFER asked = { .FileOffset = { .QuadPart = (int64_t)offset },
                                                .Length = { .QuadPart = (int64_t)(end - offset) } };
    DWORD size = 0;
    const int os_error =
        coffer__os_control(handle, FSCTL_QUERY_ALLOCATED_RANGES, &asked, sizeof asked, range, sizeof *range, &size);
    *none = os_error == 0 && size == 0;
    return size >= sizeof *range;
}

static bool win_size_beyond(HANDLE handle, uint64_t offset, uint64_t *size)
{
    LARGE_INTEGER found;
    const bool known = GetFileSizeEx(handle, &found) != 0;
    *size = known ? (uint64_t)found.QuadPart : 0;
    return known && offset < *size;
}

uint64_t coffer__os_next_data(int fd, uint64_t offset)
{
    const HANDLE handle = coffer__os_handle(fd);
    FILE_ALLOCATED_RANGE_BUFFER range;
    uint64_t size = 0;
    bool none = false;
    if (!win_size_beyond(handle, offset, &size)) {
        return offset;
    }
    if (!win_allocated(handle, offset, size, &range, &none)) {
        return none ? size : offset;
    }
    return (uint64_t)range.FileOffset.QuadPart > offset ? (uint64_t)range.FileOffset.QuadPart : offset;
}

/* Ranges come in order, each after a hole or at the beginning; more than one buffer's are asked for one by one. Only
   files that were made sparse have holes. */
uint64_t coffer__os_next_hole(int fd, uint64_t offset)
{
    const HANDLE handle = coffer__os_handle(fd);
    BY_HANDLE_FILE_INFORMATION info;
    FILE_ALLOCATED_RANGE_BUFFER range;
    uint64_t size = 0;
    bool none = false;
    if (GetFileInformationByHandle(handle, &info) == 0 || (info.dwFileAttributes & FILE_ATTRIBUTE_SPARSE_FILE) == 0) {
        return UINT64_MAX;
    }
    while (win_size_beyond(handle, offset, &size)) {
        if (!win_allocated(handle, offset, size, &range, &none)) {
            return none ? offset : UINT64_MAX;
        }
        if ((uint64_t)range.FileOffset.QuadPart > offset) {
            return offset;
        }
        offset = (uint64_t)(range.FileOffset.QuadPart + range.Length.QuadPart);
    }
    return UINT64_MAX;
}

/* ---- length and position ----------------------------------------------------------------------------------------- */

/* Growing a file by a gap would make the system write zeros there when something behind it is written, so it is marked
   sparse first. Not all file systems can. */
int coffer__os_truncate(int fd, uint64_t size)
{
    const HANDLE handle = coffer__os_handle(fd);
    FILE_END_OF_FILE_INFO end;
    uint64_t now = 0;
    DWORD done = 0;
    if (!win_offset_fits(size, 0)) {
        return EFBIG;
    }
    if (!win_size_beyond(handle, size, &now) && size > now) {
        (void)coffer__os_control(handle, FSCTL_SET_SPARSE, NULL, 0, NULL, 0, &done);
    }
    end.EndOfFile.QuadPart = (int64_t)size;
    return SetFileInformationByHandle(handle, FileEndOfFileInfo, &end, sizeof end) != 0 ? 0 : coffer__os_last_errno();
}

int coffer__os_position(int fd, uint64_t *position)
{
    if (GetFileType(coffer__os_handle(fd)) != FILE_TYPE_DISK) {
        return ESPIPE;
    }
    const int64_t at = _lseeki64(fd, 0, SEEK_CUR);
    if (at < 0) {
        return errno;
    }
    *position = (uint64_t)at;
    return 0;
}

int coffer__os_set_position(int fd, uint64_t position)
{
    return _lseeki64(fd, (int64_t)position, SEEK_SET) < 0 ? errno : 0;
}

/* Appending is a matter of the access that a handle was opened with. The C runtime keeps O_APPEND to itself, and moves
   to the end before it writes; nothing tells, so such a descriptor counts as one with a position. */
bool coffer__os_appends(int fd)
{
    (void)fd;
    return false;
}

#endif
