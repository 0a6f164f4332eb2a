/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system, Windows: maps of files, and pages of memory. */
#include "os_windows.h"

#ifdef _WIN32

/* How often a place for huge pages is looked for, when other threads take the one that was found. */
#define WIN_MAX_TRIES 8

static SYSTEM_INFO win_system(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info;
}

size_t coffer__os_page_size(void)
{
    return win_system().dwPageSize;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* A view keeps the file's map alive, and that the file, so both handles may be closed. */
static int win_map_view(HANDLE file, uint64_t offset, size_t size, bool writable_copy, void **base)
{
    const uint64_t end = offset + size;
    HANDLE section = CreateFileMappingW(file, NULL, writable_copy ? PAGE_WRITECOPY : PAGE_READONLY, (DWORD)(end >> 32),
                                        (DWORD)end, NULL);
    if (section == NULL) {
        return coffer__os_last_errno();
    }
    *base = MapViewOfFile(section, writable_copy ? FILE_MAP_COPY : FILE_MAP_READ, (DWORD)(offset >> 32), (DWORD)offset,
                          size);
    const int os_error = *base == NULL ? coffer__os_last_errno() : 0;
    (void)CloseHandle(section);
    return os_error;
}

/* A view begins at a multiple of the granularity of addresses, 64 KiB, so some bytes before the range are mapped with it. */
int coffer__os_map_range(int fd, uint64_t offset, uint64_t size, bool writable_copy, bool populate, coffer__os_map *map,
                         void **address)
{
    const uint64_t before = offset % win_system().dwAllocationGranularity;
    if (offset > INT64_MAX || size > INT64_MAX - offset || size > SIZE_MAX - before) {
        return EFBIG;
    }
    if (size == 0) {
        return EINVAL;
    }
    const size_t whole = (size_t)(before + size);
    void *base = NULL;
    const int os_error = win_map_view(coffer__os_handle(fd), offset - before, whole, writable_copy, &base);
    if (os_error != 0) {
        return os_error;
    }
    if (populate) {
        WIN32_MEMORY_RANGE_ENTRY range = { base, whole };
        (void)PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
    }
    map->base = base;
    map->size = whole;
    *address = (char *)base + before;
    return 0;
}

/* PrefetchVirtualMemory does not say how it went. */
int coffer__os_map_populate(void *address, size_t size)
{
    (void)address;
    (void)size;
    return EOPNOTSUPP;
}

bool coffer__os_map_is_cached(int fd, uint64_t offset, void *address, size_t size)
{
    (void)fd;
    (void)offset;
    (void)address;
    (void)size;
    return false;
}

void coffer__os_unmap(const coffer__os_map *map)
{
    if (map->base != NULL) {
        (void)UnmapViewOfFile(map->base);
    }
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

static void *win_pages_at(void *place, size_t size)
{
    return VirtualAlloc(place, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

/* Addresses cannot be given back in part, as on POSIX systems. So space for a huge page more is looked for, given back
   whole, and its aligned part taken, unless another thread was faster. */
static void *win_huge_pages(size_t size)
{
    for (unsigned i = 0; i < WIN_MAX_TRIES; i++) {
        char *capacity = VirtualAlloc(NULL, size + COFFER__OS_HUGE_PAGE, MEM_RESERVE, PAGE_NOACCESS);
        if (capacity == NULL) {
            return NULL;
        }
        const size_t past = (size_t)((uintptr_t)capacity % COFFER__OS_HUGE_PAGE);
        (void)VirtualFree(capacity, 0, MEM_RELEASE);
        void *pages = win_pages_at(capacity + (past == 0 ? 0 : COFFER__OS_HUGE_PAGE - past), size);
        if (pages != NULL) {
            return pages;
        }
    }
    return NULL;
}

void *coffer__os_pages_new(size_t size)
{
    return size < COFFER__OS_HUGE_PAGE ? win_pages_at(NULL, size) : win_huge_pages(size);
}

void coffer__os_pages_free(void *pages, size_t size)
{
    (void)size;
    (void)VirtualFree(pages, 0, MEM_RELEASE);
}

/* Decommitted pages come back as zeros. The system promises memory when it is committed, and what was just given back
   is promised again; until it is, the pages cannot be touched. */
void coffer__os_pages_discard(void *pages, size_t size)
{
    (void)VirtualFree(pages, size, MEM_DECOMMIT);
    while (VirtualAlloc(pages, size, MEM_COMMIT, PAGE_READWRITE) == NULL) {
        Sleep(1);
    }
}

int coffer__os_pages_near(void *pages, size_t size, int32_t node)
{
    (void)pages;
    (void)size;
    (void)node;
    return EOPNOTSUPP;
}

/* Huge pages need a privilege, and are given to whole allocations only. */
void coffer__os_want_huge_pages(void *block, size_t size)
{
    (void)block;
    (void)size;
}

/* ---- how much there is ------------------------------------------------------------------------------------------- */

static MEMORYSTATUSEX win_memory(void)
{
    MEMORYSTATUSEX status = { .dwLength = sizeof status };
    (void)GlobalMemoryStatusEx(&status);
    return status;
}

uint64_t coffer__os_memory_available(void)
{
    return win_memory().ullAvailPhys;
}

uint64_t coffer__os_memory_total(void)
{
    return win_memory().ullTotalPhys;
}

uint64_t coffer__os_memory_lockable(void)
{
    return UINT64_MAX;
}

#endif
