/* SPDX-License-Identifier: Apache-2.0 */
#include "posix.h"

#include "os.h"

#include <fileapi.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <windows.h>

#undef open
#undef fopen
#undef unlink
#undef fcntl

/* What the runtime opens without saying how is bytes. */
unsigned int _CRT_fmode = _O_BINARY;

/* ---- files ------------------------------------------------------------------------------------------------------- */

char *mkdtemp(char *name)
{
    char *end = name + strlen(name) - 6;
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(end, 7, "%06x", (unsigned)(GetCurrentProcessId() * 1000 + i) & 0xFFFFFF);
        if (_mkdir(name) == 0) {
            return name;
        }
    }
    return NULL;
}

static wchar_t *wide(const char *text, wchar_t room[1024])
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, room, 1024) > 0 ? room : NULL;
}

static int error_of_system(void)
{
    const DWORD error = GetLastError();
    errno = error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND ? ENOENT
            : error == ERROR_FILE_EXISTS || error == ERROR_ALREADY_EXISTS  ? EEXIST
                                                                           : EACCES;
    return -1;
}

/* The runtime's own open lets nobody rename or delete the file. */
int shim_open(const char *path, int flags, ...)
{
    const int access = flags & (O_WRONLY | O_RDWR);
    const DWORD rights = access == O_RDWR     ? GENERIC_READ | GENERIC_WRITE
                         : access == O_WRONLY ? GENERIC_WRITE
                                              : GENERIC_READ;
    const DWORD how = (flags & O_CREAT) == 0   ? ((flags & O_TRUNC) != 0 ? TRUNCATE_EXISTING : OPEN_EXISTING)
                      : (flags & O_EXCL) != 0  ? CREATE_NEW
                      : (flags & O_TRUNC) != 0 ? CREATE_ALWAYS
                                               : OPEN_ALWAYS;
    wchar_t room[1024];
    HANDLE handle = CreateFileW(wide(path, room), rights, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                how, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    return handle == INVALID_HANDLE_VALUE ? error_of_system() : _open_osfhandle((intptr_t)handle, flags | _O_BINARY);
}

FILE *shim_fopen(const char *path, const char *mode)
{
    const int access = strchr(mode, '+') != NULL ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    const int more = mode[0] == 'w' ? O_CREAT | O_TRUNC : mode[0] == 'a' ? O_CREAT | O_APPEND : 0;
    const int fd = shim_open(path, access | more);
    return fd < 0 ? NULL : _fdopen(fd, mode);
}

int shim_unlink(const char *path)
{
    wchar_t room[1024];
    (void)SetFileAttributesW(wide(path, room), FILE_ATTRIBUTE_NORMAL);
    return DeleteFileW(room) != 0 ? 0 : error_of_system();
}

/* Only whether a descriptor is open. */
int shim_fcntl(int fd, int command)
{
    (void)command;
    return _get_osfhandle(fd) == -1 ? -1 : 0;
}

ssize_t pread(int fd, void *buffer, size_t size, int64_t offset)
{
    OVERLAPPED where = { .Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32) };
    DWORD got = 0;
    const BOOL done = ReadFile((HANDLE)_get_osfhandle(fd), buffer, (DWORD)size, &got, &where);
    return done != 0 || GetLastError() == ERROR_HANDLE_EOF ? (ssize_t)got : error_of_system();
}

ssize_t pwrite(int fd, const void *bytes, size_t size, int64_t offset)
{
    OVERLAPPED where = { .Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32) };
    DWORD put = 0;
    return WriteFile((HANDLE)_get_osfhandle(fd), bytes, (DWORD)size, &put, &where) != 0 ? (ssize_t)put
                                                                                        : error_of_system();
}

int link(const char *from, const char *to)
{
    wchar_t one[1024];
    wchar_t other[1024];
    return CreateHardLinkW(wide(to, one), wide(from, other), NULL) != 0 ? 0 : error_of_system();
}

int symlink(const char *to, const char *path)
{
    wchar_t one[1024];
    wchar_t other[1024];
    return CreateSymbolicLinkW(wide(path, one), wide(to, other), 2) != 0 ? 0 : error_of_system();
}

int fsync(int fd)
{
    return FlushFileBuffers((HANDLE)_get_osfhandle(fd)) != 0 ? 0 : error_of_system();
}

int pipe(int ends[2])
{
    return _pipe(ends, 65536, _O_BINARY);
}

/* Nobody asks for it: the tests that do are left out. */
int mkfifo(const char *path, unsigned mode)
{
    (void)path;
    (void)mode;
    errno = ENOSYS;
    return -1;
}

/* As the library locks. */
int flock(int fd, int how)
{
    (void)how;
    return coffer__os_lock(fd);
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

int setenv(const char *name, const char *value, int replace)
{
    wchar_t one[1024];
    wchar_t other[1024];
    (void)replace;
    return SetEnvironmentVariableW(wide(name, one), wide(value, other)) != 0 ? 0 : error_of_system();
}

int unsetenv(const char *name)
{
    wchar_t room[1024];
    (void)SetEnvironmentVariableW(wide(name, room), NULL);
    return 0;
}

long sysconf(int what)
{
    (void)what;
    return (long)coffer__os_page_size();
}

char *realpath(const char *path, char *out)
{
    return _fullpath(out, path, 1024);
}

void *memmem(const void *in, size_t size, const void *what, size_t what_size)
{
    const char *at = in;
    for (; size >= what_size; size--, at++) {
        if (memcmp(at, what, what_size) == 0) {
            return (void *)(uintptr_t)at;
        }
    }
    return NULL;
}

char *strndup(const char *text, size_t size)
{
    const size_t length = strnlen(text, size);
    char *copy = malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

static DWORD protection_of(int protection)
{
    return protection == PROT_NONE ? PAGE_NOACCESS : (protection & PROT_WRITE) != 0 ? PAGE_READWRITE : PAGE_READONLY;
}

void *mmap(void *place, size_t size, int protection, int flags, int fd, int64_t offset)
{
    (void)place;
    (void)offset;
    void *memory = (flags & MAP_ANONYMOUS) != 0 && fd < 0
                       ? VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, protection_of(protection))
                       : NULL;
    return memory != NULL ? memory : MAP_FAILED;
}

int munmap(void *memory, size_t size)
{
    (void)size;
    return VirtualFree(memory, 0, MEM_RELEASE) != 0 ? 0 : error_of_system();
}

int mprotect(void *memory, size_t size, int protection)
{
    DWORD before = 0;
    return VirtualProtect(memory, size, protection_of(protection), &before) != 0 ? 0 : error_of_system();
}
