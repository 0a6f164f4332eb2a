/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: opening files, and their bytes. Files that are opened here can be read in several places at once
 * (FILE_FLAG_OVERLAPPED); those of the program may not be, which the same calls cope with. There a read at an offset moves the
 * position, which is put back: a program must not use a descriptor's position in another thread meanwhile.
 */
#include "os_windows.h"

#ifdef _WIN32

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <winioctl.h>

/* The most that one call is asked to move. */
#define OS_PIECE ((size_t)1 << 30)
/* Reading past the page cache wants multiples of a sector, which is never larger. */
#define OS_SECTOR 4096u

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

int coffer__os_handle(int fd, HANDLE *handle)
{
    const intptr_t found = fd < 0 ? -1 : _get_osfhandle(fd);
    *handle = (HANDLE)found; /* NOLINT(performance-no-int-to-ptr) */
    return found == -1 || found == -2 ? EBADF : 0;
}

int coffer__os_create_handle(const char *path, DWORD access, DWORD disposition, DWORD flags, HANDLE *handle)
{
    wchar_t *wide = NULL;
    const int os_error = coffer__os_wide(path, &wide);
    if (os_error != 0) {
        return os_error;
    }
    *handle = CreateFileW(wide, access, COFFER__OS_SHARE_ALL, NULL, disposition, flags, NULL);
    const int failed = *handle == INVALID_HANDLE_VALUE ? coffer__os_last_error() : 0;
    free(wide);
    return failed;
}

int coffer__os_adopt(HANDLE handle, int *fd)
{
    *fd = _open_osfhandle((intptr_t)handle, _O_BINARY | _O_NOINHERIT);
    if (*fd >= 0) {
        return 0;
    }
    (void)CloseHandle(handle);
    return EMFILE;
}

/* A link that was opened itself is ELOOP, and a folder can only be read. */
static int os_refuse(HANDLE handle, coffer__os_use use, bool follow)
{
    FILE_ATTRIBUTE_TAG_INFO tag = { 0, 0 };
    if (!GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag)) {
        return 0; /* a device */
    }
    if (!follow && (tag.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 &&
        tag.ReparseTag == IO_REPARSE_TAG_SYMLINK) {
        return ELOOP;
    }
    return use != COFFER__OS_READ && (tag.FileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0 ? EISDIR : 0;
}

int coffer__os_open(const char *path, coffer__os_use use, bool follow, int *fd)
{
    const DWORD access = use == COFFER__OS_READ    ? GENERIC_READ
                         : use == COFFER__OS_WRITE ? GENERIC_WRITE | FILE_READ_ATTRIBUTES
                                                   : GENERIC_READ | GENERIC_WRITE;
    const DWORD flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OVERLAPPED | (follow ? 0 : FILE_FLAG_OPEN_REPARSE_POINT);
    HANDLE handle = INVALID_HANDLE_VALUE;
    int os_error = coffer__os_create_handle(path, access, OPEN_EXISTING, flags, &handle);
    if (os_error != 0) {
        return os_error;
    }
    os_error = os_refuse(handle, use, follow);
    if (os_error != 0) {
        (void)CloseHandle(handle);
        return os_error;
    }
    return coffer__os_adopt(handle, fd);
}

/* A new file has the rights that its folder passes on, whether it is secret or not. WRITE_DAC is for giving it those of
   the file that it will replace. */
int coffer__os_create(const char *path, bool secret, int *fd)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    (void)secret;
    const int os_error = coffer__os_create_handle(path, GENERIC_READ | GENERIC_WRITE | WRITE_DAC, CREATE_NEW,
                                                  FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OVERLAPPED, &handle);
    return os_error != 0 ? os_error : coffer__os_adopt(handle, fd);
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

int coffer__os_duplicate(int fd, int *copy)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    HANDLE made = INVALID_HANDLE_VALUE;
    const HANDLE process = GetCurrentProcess();
    const int os_error = coffer__os_handle(fd, &handle);
    if (os_error != 0) {
        return os_error;
    }
    if (!DuplicateHandle(process, handle, process, &made, 0, FALSE, DUPLICATE_SAME_ACCESS)) {
        return coffer__os_last_error();
    }
    return coffer__os_adopt(made, copy);
}

int coffer__os_close(int fd)
{
    return _close(fd) == 0 ? 0 : errno;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static bool os_fits(uint64_t offset, uint64_t size)
{
    return offset <= INT64_MAX && size <= INT64_MAX - offset;
}

/* One read or write at an offset. It is awaited by an event of its own, since a file that several threads read has one end
   for all of them. At the file's end *done is 0. */
static int os_transfer(HANDLE handle, uint64_t offset, void *buffer, size_t size, bool write, size_t *done)
{
    OVERLAPPED place = { 0 };
    DWORD moved = 0;
    place.Offset = (DWORD)offset;
    place.OffsetHigh = (DWORD)(offset >> 32);
    place.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
    if (place.hEvent == NULL) {
        return coffer__os_last_error();
    }
    const DWORD piece = (DWORD)(size < OS_PIECE ? size : OS_PIECE);
    BOOL fine = write ? WriteFile(handle, buffer, piece, NULL, &place) : ReadFile(handle, buffer, piece, NULL, &place);
    if (fine || GetLastError() == ERROR_IO_PENDING) {
        fine = GetOverlappedResult(handle, &place, &moved, TRUE);
    }
    const DWORD error = fine ? ERROR_SUCCESS : GetLastError();
    (void)CloseHandle(place.hEvent);
    *done = moved;
    return fine || (!write && error == ERROR_HANDLE_EOF) ? 0 : coffer__os_windows_errno(error);
}

/* The system says of reading a folder that the function is none. */
static int os_read_failed(HANDLE handle, int os_error)
{
    BY_HANDLE_FILE_INFORMATION found;
    const bool folder =
        GetFileInformationByHandle(handle, &found) && (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    return folder ? EISDIR : os_error;
}

/* Where the file's position is, to be put back by os_put_back. A file that was opened here has none: it stays 0. */
static int64_t os_position_before(HANDLE handle)
{
    const LARGE_INTEGER nowhere = { { 0 } };
    LARGE_INTEGER at = { { 0 } };
    return SetFilePointerEx(handle, nowhere, &at, FILE_CURRENT) ? at.QuadPart : -1;
}

static void os_put_back(HANDLE handle, int64_t position)
{
    LARGE_INTEGER at;
    at.QuadPart = position;
    if (position >= 0 && os_position_before(handle) != position) {
        (void)SetFilePointerEx(handle, at, NULL, FILE_BEGIN);
    }
}

int coffer__os_read_enough(int fd, uint64_t offset, void *buffer, size_t size, size_t enough, size_t *done)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    *done = 0;
    int os_error = os_fits(offset, size) ? coffer__os_handle(fd, &handle) : EOVERFLOW;
    if (os_error != 0) {
        return os_error;
    }
    const int64_t position = os_position_before(handle);
    size_t got = 1;
    while (os_error == 0 && got > 0 && *done < enough) {
        os_error = os_transfer(handle, offset + *done, (char *)buffer + *done, size - *done, false, &got);
        *done += got;
    }
    os_put_back(handle, position);
    return os_error == 0 ? 0 : os_read_failed(handle, os_error);
}

int coffer__os_read_at(int fd, uint64_t offset, void *buffer, size_t size, size_t *done)
{
    return coffer__os_read_enough(fd, offset, buffer, size, size, done);
}

int coffer__os_write_at(int fd, uint64_t offset, const void *bytes, size_t size)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    int os_error = os_fits(offset, size) ? coffer__os_handle(fd, &handle) : EFBIG;
    size_t done = 0;
    while (os_error == 0 && done < size) {
        size_t put = 0;
        char *from = (char *)(uintptr_t)bytes + done; /* it is only read */
        os_error = os_transfer(handle, offset + done, from, size - done, true, &put);
        done += put;
        os_error = os_error == 0 && put == 0 ? EIO : os_error;
    }
    return os_error;
}

/* Not by the C library, which may turn line feeds into two characters. */
int coffer__os_write_next(int fd, const void *bytes, size_t size, size_t *done)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    DWORD put = 0;
    *done = 0;
    const int os_error = size > 0 ? coffer__os_handle(fd, &handle) : 0;
    if (os_error != 0 || size == 0) {
        return os_error;
    }
    if (!WriteFile(handle, bytes, (DWORD)(size < OS_PIECE ? size : OS_PIECE), &put, NULL)) {
        return coffer__os_last_error();
    }
    *done = put;
    return put > 0 ? 0 : EIO;
}

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
    return os_fits(offset, size) ? EOPNOTSUPP : EFBIG;
}

int coffer__os_claim(int fd)
{
    (void)fd;
    return EOPNOTSUPP;
}

void coffer__os_let_go(int fd)
{
    (void)fd;
}

/* Room is asked for by the whole size that a file is to have on the disk. Less than it has would cut it. */
int coffer__os_reserve(int fd, uint64_t offset, uint64_t size)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    FILE_STANDARD_INFO has;
    FILE_ALLOCATION_INFO wanted;
    if (!os_fits(offset, size)) {
        return EFBIG;
    }
    const int os_error = coffer__os_handle(fd, &handle);
    if (os_error != 0) {
        return os_error;
    }
    wanted.AllocationSize.QuadPart = (LONGLONG)(offset + size);
    if (!GetFileInformationByHandleEx(handle, FileStandardInfo, &has, sizeof has) ||
        has.AllocationSize.QuadPart >= wanted.AllocationSize.QuadPart ||
        SetFileInformationByHandle(handle, FileAllocationInfo, &wanted, sizeof wanted)) {
        return 0;
    }
    const int failed = coffer__os_last_error();
    return failed == ENOSPC || failed == EDQUOT ? failed : 0;
}

/* The first stretch from `offset` on that has space on the disk; false: the system cannot tell, or there is none, which
   *known tells apart. */
static bool os_first_stretch(int fd, uint64_t offset, uint64_t *begin, uint64_t *end, uint64_t *size, bool *known)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    BY_HANDLE_FILE_INFORMATION found;
    FILE_ALLOCATED_RANGE_BUFFER asked = { { { 0 } }, { { 0 } } };
    FILE_ALLOCATED_RANGE_BUFFER answer = { { { 0 } }, { { 0 } } };
    DWORD bytes = 0;
    *known = false;
    if (coffer__os_handle(fd, &handle) != 0 || !GetFileInformationByHandle(handle, &found) ||
        (found.dwFileAttributes & FILE_ATTRIBUTE_SPARSE_FILE) == 0) {
        return false;
    }
    *size = (uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow;
    if (offset >= *size) {
        return false;
    }
    asked.FileOffset.QuadPart = (LONGLONG)offset;
    asked.Length.QuadPart = (LONGLONG)(*size - offset);
    *known = DeviceIoControl(handle, FSCTL_QUERY_ALLOCATED_RANGES, &asked, sizeof asked, &answer, sizeof answer, &bytes,
                             NULL) ||
             GetLastError() == ERROR_MORE_DATA;
    *begin = (uint64_t)answer.FileOffset.QuadPart;
    *end = *begin + (uint64_t)answer.Length.QuadPart;
    return *known && bytes >= sizeof answer;
}

uint64_t coffer__os_next_data(int fd, uint64_t offset)
{
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t size = 0;
    bool known = false;
    if (os_first_stretch(fd, offset, &begin, &end, &size, &known)) {
        return begin > offset ? begin : offset;
    }
    return known ? size : offset;
}

uint64_t coffer__os_next_hole(int fd, uint64_t offset)
{
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t size = 0;
    bool known = false;
    if (!os_first_stretch(fd, offset, &begin, &end, &size, &known)) {
        return known ? offset : UINT64_MAX;
    }
    const uint64_t hole = begin > offset ? offset : end;
    return hole < size ? hole : UINT64_MAX;
}

int coffer__os_truncate(int fd, uint64_t size)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    FILE_END_OF_FILE_INFO end;
    const int os_error = os_fits(size, 0) ? coffer__os_handle(fd, &handle) : EFBIG;
    if (os_error != 0) {
        return os_error;
    }
    end.EndOfFile.QuadPart = (LONGLONG)size;
    return SetFileInformationByHandle(handle, FileEndOfFileInfo, &end, sizeof end) ? 0 : coffer__os_last_error();
}

int coffer__os_position(int fd, uint64_t *position)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    LARGE_INTEGER at = { { 0 } };
    const LARGE_INTEGER nowhere = { { 0 } };
    const int os_error = coffer__os_handle(fd, &handle);
    if (os_error != 0) {
        return os_error;
    }
    if (GetFileType(handle) != FILE_TYPE_DISK) {
        return ESPIPE;
    }
    if (!SetFilePointerEx(handle, nowhere, &at, FILE_CURRENT)) {
        return coffer__os_last_error();
    }
    *position = (uint64_t)at.QuadPart;
    return 0;
}

int coffer__os_set_position(int fd, uint64_t position)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    LARGE_INTEGER at;
    at.QuadPart = (LONGLONG)position;
    const int os_error = coffer__os_handle(fd, &handle);
    return os_error != 0 ? os_error : SetFilePointerEx(handle, at, NULL, FILE_BEGIN) ? 0 : coffer__os_last_error();
}

/* Appending is something that the C library does, of its own; what is written here goes where it is told to. */
bool coffer__os_appends(int fd)
{
    (void)fd;
    return false;
}

/* ---- reading in bulk --------------------------------------------------------------------------------------------- */

coffer__os_storage coffer__os_storage_of(int fd)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    FILE_REMOTE_PROTOCOL_INFO remote;
    return coffer__os_handle(fd, &handle) == 0 &&
                   GetFileInformationByHandleEx(handle, FileRemoteProtocolInfo, &remote, sizeof remote)
               ? COFFER__OS_NETWORK
               : COFFER__OS_LOCAL;
}

static int os_reopen(int fd, DWORD flags, int *again)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    *again = -1;
    const int os_error = coffer__os_handle(fd, &handle);
    if (os_error != 0) {
        return os_error;
    }
    const HANDLE opened = ReOpenFile(handle, GENERIC_READ, COFFER__OS_SHARE_ALL, FILE_FLAG_OVERLAPPED | flags);
    return opened == INVALID_HANDLE_VALUE ? EOPNOTSUPP : coffer__os_adopt(opened, again);
}

int coffer__os_open_again(int fd, int *again)
{
    return os_reopen(fd, FILE_FLAG_RANDOM_ACCESS, again);
}

/* A block is read on trial, since not every file system can do it. */
int coffer__os_open_direct(int fd, int *direct, uint32_t *block)
{
    int os_error = os_reopen(fd, FILE_FLAG_NO_BUFFERING, direct);
    if (os_error != 0) {
        return os_error;
    }
    size_t done = 0;
    void *memory = coffer__os_pages_new(OS_SECTOR);
    os_error = memory == NULL ? ENOMEM : coffer__os_read_enough(*direct, 0, memory, OS_SECTOR, 1, &done);
    if (memory != NULL) {
        coffer__os_pages_free(memory, OS_SECTOR);
    }
    *block = OS_SECTOR;
    if (os_error != 0) {
        (void)coffer__os_close(*direct);
        *direct = -1;
    }
    return os_error;
}

/* The system has no way to forget what it has of a file. */
int coffer__os_read_uncached(int fd, uint64_t offset, void *buffer, size_t size, size_t *done)
{
    return coffer__os_read_at(fd, offset, buffer, size, done);
}

int coffer__os_uncached_works(int fd)
{
    (void)fd;
    return EOPNOTSUPP;
}

int coffer__os_read_present(int fd, uint64_t offset, void *buffer, size_t size, size_t *done)
{
    (void)fd;
    (void)offset;
    (void)buffer;
    (void)size;
    *done = 0;
    return EOPNOTSUPP;
}

int coffer__os_is_cached(int fd, uint64_t offset, bool *cached)
{
    (void)fd;
    (void)offset;
    *cached = false;
    return EOPNOTSUPP;
}

#endif
