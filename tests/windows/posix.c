/* SPDX-License-Identifier: Apache-2.0 */
#include "posix.h"

#include "os_windows.h"
#include "support_child.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <winioctl.h>

#undef open
#undef fopen
#undef unlink
#undef fcntl

/* What the runtime opens without saying how is bytes. */
unsigned int _CRT_fmode = _O_BINARY;

/* Wine's debugger would end a program that has crashed with an exit code of 0. */
static LONG WINAPI crashed(EXCEPTION_POINTERS *exception)
{
    fprintf(stderr, "the program crashed: %#lx at %p\n", exception->ExceptionRecord->ExceptionCode,
            exception->ExceptionRecord->ExceptionAddress);
    fflush(stderr);
    (void)TerminateProcess(GetCurrentProcess(), 3);
    return EXCEPTION_EXECUTE_HANDLER;
}

/* The library with SHA-256 stays loaded, as it is in most programs; loading it takes Wine milliseconds. */
__attribute__((constructor)) static void begin(void)
{
    (void)SetUnhandledExceptionFilter(crashed);
    (void)LoadLibraryA("bcrypt.dll");
}

void *cmocka_next[5];
unsigned long cmocka_runner;

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

static wchar_t *wide(const char *text, wchar_t capacity[1024])
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, capacity, 1024) > 0 ? capacity : NULL;
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
    wchar_t capacity[1024];
    HANDLE handle = CreateFileW(wide(path, capacity), rights, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                NULL, how, FILE_FLAG_BACKUP_SEMANTICS, NULL);
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
    wchar_t capacity[1024];
    (void)SetFileAttributesW(wide(path, capacity), FILE_ATTRIBUTE_NORMAL);
    return DeleteFileW(capacity) != 0 ? 0 : error_of_system();
}

/* Only whether a descriptor is open. */
int shim_fcntl(int fd, int command, ...)
{
    (void)command;
    return _get_osfhandle(fd) == -1 ? -1 : 0;
}

ssize_t pread(int fd, void *buffer, size_t size, int64_t offset)
{
    size_t done = 0;
    errno = coffer__os_read_handle(coffer__os_handle(fd), (uint64_t)offset, buffer, size, size, &done);
    return errno == 0 ? (ssize_t)done : -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, int64_t offset)
{
    OVERLAPPED where = { .Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32) };
    DWORD put = 0;
    return WriteFile((HANDLE)_get_osfhandle(fd), bytes, (DWORD)size, &put, &where) != 0 ? (ssize_t)put
                                                                                        : error_of_system();
}

/* By handles, since a test may have put a function of its own in the place of what the library opens files by. */
static HANDLE open_to_see(const char *path, DWORD access, DWORD flags)
{
    wchar_t capacity[1024];
    return CreateFileW(wide(path, capacity), access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                       OPEN_EXISTING, flags | FILE_FLAG_BACKUP_SEMANTICS, NULL);
}

static int see(HANDLE handle, struct shim_stat *found)
{
    coffer__os_info info;
    FILE_STANDARD_INFO more = { .AllocationSize = { .QuadPart = 0 } };
    errno = coffer__os_inspect_handle(handle, &info);
    if (errno != 0) {
        return -1;
    }
    (void)GetFileInformationByHandleEx(handle, FileStandardInfo, &more, sizeof more);
    *found = (struct shim_stat){
        .st_dev = info.device,
        .st_ino = info.inode,
        .st_nlink = info.links,
        .st_mode = info.mode | (info.kind == COFFER__OS_REGULAR     ? _S_IFREG
                                : info.kind == COFFER__OS_DIRECTORY ? _S_IFDIR
                                : info.kind == COFFER__OS_LINK      ? S_IFLNK
                                                                    : _S_IFIFO),
        .st_uid = info.owner,
        .st_gid = info.group,
        .st_size = (int64_t)info.size,
        .st_blocks = more.AllocationSize.QuadPart / 512,
        .st_mtim = { info.modified / 1000000000, (long)(info.modified % 1000000000) },
        .st_ctim = { info.touched / 1000000000, (long)(info.touched % 1000000000) },
    };
    return 0;
}

static int see_path(const char *path, DWORD flags, struct shim_stat *found)
{
    HANDLE handle = open_to_see(path, FILE_READ_ATTRIBUTES | READ_CONTROL, flags);
    if (handle == INVALID_HANDLE_VALUE) {
        return error_of_system();
    }
    const int result = see(handle, found);
    (void)CloseHandle(handle);
    return result;
}

int shim_stat(const char *path, struct shim_stat *found)
{
    return see_path(path, 0, found);
}

int shim_lstat(const char *path, struct shim_stat *found)
{
    return see_path(path, FILE_FLAG_OPEN_REPARSE_POINT, found);
}

int shim_fstat(int fd, struct shim_stat *found)
{
    return see(coffer__os_handle(fd), found);
}

static DWORD rights_of_bits(unsigned bits)
{
    return ((bits & 4) != 0 ? FILE_GENERIC_READ : 0) | ((bits & 2) != 0 ? FILE_GENERIC_WRITE | DELETE : 0);
}

/* This user may do everything but write where the mark against it is set, and everybody what the last three bits say. */
int shim_chmod(const char *path, unsigned mode)
{
    coffer__os_privacy privacy;
    unsigned char everybody[SECURITY_MAX_SID_SIZE];
    DWORD size = sizeof everybody;
    HANDLE handle = open_to_see(path, READ_CONTROL | WRITE_DAC, 0);
    if (handle == INVALID_HANDLE_VALUE) {
        return error_of_system();
    }
    const DWORD rights = rights_of_bits(mode);
    const int done = CreateWellKnownSid(WinWorldSid, NULL, everybody, &size) != 0 &&
                     coffer__os_make_private(&privacy) == 0 &&
                     (rights == 0 || AddAccessAllowedAce(&privacy.access.list, ACL_REVISION, rights, everybody) != 0) &&
                     SetKernelObjectSecurity(handle, DACL_SECURITY_INFORMATION, &privacy.descriptor) != 0;
    (void)CloseHandle(handle);
    wchar_t capacity[1024];
    const DWORD mark = (mode & 0200) != 0 ? FILE_ATTRIBUTE_NORMAL : FILE_ATTRIBUTE_READONLY;
    return done && SetFileAttributesW(wide(path, capacity), mark) != 0 ? 0 : error_of_system();
}

int shim_truncate(const char *path, int64_t size)
{
    FILE_END_OF_FILE_INFO end = { .EndOfFile = { .QuadPart = size } };
    HANDLE handle = open_to_see(path, GENERIC_WRITE, 0);
    if (handle == INVALID_HANDLE_VALUE) {
        return error_of_system();
    }
    DWORD done = 0;
    (void)DeviceIoControl(handle, FSCTL_SET_SPARSE, NULL, 0, NULL, 0, &done, NULL);
    const int result =
        SetFileInformationByHandle(handle, FileEndOfFileInfo, &end, sizeof end) != 0 ? 0 : error_of_system();
    (void)CloseHandle(handle);
    return result;
}

int shim_rename(const char *from, const char *to)
{
    wchar_t one[1024];
    wchar_t other[1024];
    return MoveFileExW(wide(from, one), wide(to, other), MOVEFILE_REPLACE_EXISTING) != 0 ? 0 : error_of_system();
}

int shim_rmdir(const char *path)
{
    wchar_t capacity[1024];
    return RemoveDirectoryW(wide(path, capacity)) != 0 ? 0 : error_of_system();
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
    wchar_t capacity[1024];
    (void)SetEnvironmentVariableW(wide(name, capacity), NULL);
    return 0;
}

/* What Windows does not have, and says so: the tests that need it are left out. */
static int lacks(void)
{
    errno = ENOSYS;
    return -1;
}

int getrlimit(int what, struct rlimit *limit)
{
    (void)what;
    *limit = (struct rlimit){ coffer__os_descriptors(), coffer__os_descriptors() };
    return 0;
}

int setrlimit(int what, const struct rlimit *limit)
{
    (void)what;
    (void)limit;
    return lacks();
}

int mkfifo(const char *path, unsigned mode)
{
    (void)path;
    (void)mode;
    return lacks();
}

pid_t fork(void)
{
    return lacks();
}

pid_t waitpid(pid_t child, int *status, int how)
{
    (void)child;
    (void)status;
    (void)how;
    return lacks();
}

int mount(const char *from, const char *to, const char *kind, unsigned long flags, const void *data)
{
    (void)from;
    (void)to;
    (void)kind;
    (void)flags;
    (void)data;
    return lacks();
}

int umount(const char *path)
{
    (void)path;
    return lacks();
}

int socket(int family, int kind, int protocol)
{
    (void)family;
    (void)kind;
    (void)protocol;
    return lacks();
}

int bind(int fd, const struct sockaddr *name, size_t size)
{
    (void)fd;
    (void)name;
    (void)size;
    return lacks();
}

int mincore(void *memory, size_t size, unsigned char *pages)
{
    (void)memory;
    (void)size;
    (void)pages;
    return lacks();
}

int setuid(unsigned user)
{
    (void)user;
    return lacks();
}

int setgid(unsigned group)
{
    (void)group;
    return lacks();
}

int chown(const char *path, unsigned user, unsigned group)
{
    (void)path;
    (void)user;
    (void)group;
    return lacks();
}

int fchdir(int fd)
{
    (void)fd;
    return lacks();
}

int unshare(int what)
{
    (void)what;
    return lacks();
}

/* A test that hangs is ended by CTest. */
unsigned alarm(unsigned seconds)
{
    (void)seconds;
    return 0;
}

/* Advice only. */
int posix_fadvise(int fd, int64_t offset, int64_t size, int advice)
{
    (void)fd;
    (void)offset;
    (void)size;
    (void)advice;
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

/* ---- support_child.h --------------------------------------------------------------------------------------------- */

/* There is no fork: what needs it fails, and is left out. */

int child_run(int (*run)(void *ctx), void *ctx)
{
    (void)run;
    (void)ctx;
    return lacks();
}

int child_run_killed(int (*run)(void *ctx), void *ctx, unsigned k, bool *killed)
{
    (void)run;
    (void)ctx;
    (void)k;
    *killed = false;
    return lacks();
}
