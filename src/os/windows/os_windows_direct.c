/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system, Windows: reading in bulk, past the page cache where that is wanted. The system does not say what
 * its cache holds, and has no read that leaves nothing there but one past it.
 */
#include "os_windows.h"

#ifdef _WIN32

#include <stdlib.h>

#define WIN_BLOCK_MAX 4096u
#define WIN_EVERYBODY (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

/* ---- kinds of storage -------------------------------------------------------------------------------------------- */

coffer__os_storage coffer__os_storage_called(uint32_t magic)
{
    (void)magic;
    return COFFER__OS_LOCAL;
}

/* A file has a protocol if it is on another machine. */
coffer__os_storage coffer__os_storage_of(int fd)
{
    FILE_REMOTE_PROTOCOL_INFO protocol;
    return GetFileInformationByHandleEx(coffer__os_handle(fd), FileRemoteProtocolInfo, &protocol, sizeof protocol) != 0
               ? COFFER__OS_NETWORK
               : COFFER__OS_LOCAL;
}

coffer__os_storage coffer__os_storage_at(const char *path)
{
    int fd = -1;
    if (coffer__os_open(path, COFFER__OS_READ, true, &fd) != 0) {
        return COFFER__OS_LOCAL;
    }
    const coffer__os_storage storage = coffer__os_storage_of(fd);
    (void)coffer__os_close(fd);
    return storage;
}

int coffer__os_copy_that_pays(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size, uint64_t *done)
{
    return coffer__os_copy(from, from_offset, to, to_offset, size, done);
}

/* ---- the same file once more ------------------------------------------------------------------------------------- */

static int win_open_once_more(int fd, DWORD flags, int *again)
{
    const HANDLE made = ReOpenFile(coffer__os_handle(fd), GENERIC_READ, WIN_EVERYBODY, flags | FILE_FLAG_OVERLAPPED);
    return made == INVALID_HANDLE_VALUE ? coffer__os_last_errno() : coffer__os_adopt(made, again);
}

int coffer__os_open_again(int fd, int *again)
{
    return win_open_once_more(fd, FILE_FLAG_RANDOM_ACCESS, again);
}

/* What the device calls a sector, physically; the largest that is supported where it does not say. */
static uint32_t win_sector(HANDLE handle)
{
    FILE_STORAGE_INFO info;
    if (GetFileInformationByHandleEx(handle, FileStorageInfo, &info, sizeof info) == 0) {
        return WIN_BLOCK_MAX;
    }
    const uint32_t logical = (uint32_t)info.LogicalBytesPerSector;
    const uint32_t physical = (uint32_t)info.FileSystemEffectivePhysicalBytesPerSectorForAtomicity;
    return physical > logical ? physical : logical;
}

/* A block at a place that is a multiple of it and of nothing larger is read, as in os_direct.c. */
static int win_try_block(HANDLE handle, uint32_t block)
{
    char *memory = VirtualAlloc(NULL, 4 * (size_t)WIN_BLOCK_MAX, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    size_t done = 0;
    if (memory == NULL) {
        return ENOMEM;
    }
    const int os_error = coffer__os_read_handle(handle, block, memory + block, block, 1, &done);
    (void)VirtualFree(memory, 0, MEM_RELEASE);
    return os_error;
}

int coffer__os_open_direct(int fd, int *direct, uint32_t *block)
{
    int os_error = win_open_once_more(fd, FILE_FLAG_NO_BUFFERING, direct);
    if (os_error != 0) {
        return os_error;
    }
    *block = win_sector(coffer__os_handle(*direct));
    const bool usable = *block != 0 && *block <= WIN_BLOCK_MAX && (*block & (*block - 1)) == 0;
    os_error = usable ? win_try_block(coffer__os_handle(*direct), *block) : EOPNOTSUPP;
    if (os_error != 0) {
        (void)coffer__os_close(*direct);
        *direct = -1;
    }
    return os_error;
}

/* ---- the page cache ---------------------------------------------------------------------------------------------- */

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
