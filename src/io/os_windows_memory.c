/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system: maps of files, and pages of memory. A file that is mapped cannot become shorter: the system refuses
 * to cut it, so touching a map fails only when the device does.
 */
#include "os_windows.h"

#ifdef _WIN32

#include <errno.h>
#include <string.h>

/* How often a free place for huge pages is looked for; another thread may take what was found. */
#define OS_PLACE_TRIES 8

static SYSTEM_INFO os_machine(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info;
}

size_t coffer__os_page_size(void)
{
    return os_machine().dwPageSize;
}

/* The pages come in the background; what is not there yet when it is touched is waited for then. */
static void os_populate(void *base, size_t size)
{
    WIN32_MEMORY_RANGE_ENTRY range = { base, size };
    (void)PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
}

/* Maps begin at multiples of 64 KiB. The section, which lends its name to the map, may be closed at once. */
int coffer__os_map_range(int fd, uint64_t offset, uint64_t size, bool writable_copy, bool populate, coffer__os_map *map,
                         void **address)
{
    HANDLE handle = INVALID_HANDLE_VALUE;
    const uint64_t before = offset % os_machine().dwAllocationGranularity;
    const uint64_t begin = offset - before;
    if (size > SIZE_MAX - before || offset > INT64_MAX - size) {
        return EFBIG;
    }
    const size_t whole = (size_t)(before + size);
    const int os_error = coffer__os_handle(fd, &handle);
    if (os_error != 0) {
        return os_error;
    }
    const HANDLE section = CreateFileMappingW(handle, NULL, writable_copy ? PAGE_WRITECOPY : PAGE_READONLY, 0, 0, NULL);
    if (section == NULL) {
        return coffer__os_last_error();
    }
    void *base = MapViewOfFile(section, writable_copy ? FILE_MAP_COPY : FILE_MAP_READ, (DWORD)(begin >> 32),
                               (DWORD)begin, whole);
    const int failed = base == NULL ? coffer__os_last_error() : 0;
    (void)CloseHandle(section);
    if (failed != 0) {
        return failed;
    }
    if (populate) {
        os_populate(base, whole);
    }
    map->base = base;
    map->size = whole;
    *address = (char *)base + before;
    return 0;
}

void coffer__os_unmap(const coffer__os_map *map)
{
    if (map->base != NULL) {
        (void)UnmapViewOfFile(map->base);
    }
}

static void *os_pages_at(void *at, size_t size)
{
    return VirtualAlloc(at, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

/* A place is found by reserving more than is wanted and giving it back, since a part of it cannot be given back. */
static void *os_huge_pages_at(size_t size)
{
    void *pages = NULL;
    for (int i = 0; i < OS_PLACE_TRIES && pages == NULL && size <= SIZE_MAX - COFFER__OS_HUGE_PAGE; i++) {
        char *room = VirtualAlloc(NULL, size + COFFER__OS_HUGE_PAGE, MEM_RESERVE, PAGE_NOACCESS);
        if (room == NULL) {
            break;
        }
        const size_t before = (COFFER__OS_HUGE_PAGE - (uintptr_t)room % COFFER__OS_HUGE_PAGE) % COFFER__OS_HUGE_PAGE;
        (void)VirtualFree(room, 0, MEM_RELEASE);
        pages = os_pages_at(room + before, size);
    }
    return pages != NULL ? pages : os_pages_at(NULL, size);
}

void *coffer__os_pages_new(size_t size)
{
    return size < COFFER__OS_HUGE_PAGE ? os_pages_at(NULL, size) : os_huge_pages_at(size);
}

void coffer__os_pages_free(void *pages, size_t size)
{
    (void)size;
    (void)VirtualFree(pages, 0, MEM_RELEASE);
}

/* Memory that was given back might not come again, so it is kept, and may be written to the page file. */
void coffer__os_pages_discard(void *pages, size_t size)
{
    memset(pages, 0, size);
    (void)VirtualUnlock(pages, size);
}

void coffer__os_want_huge_pages(void *block, size_t size)
{
    (void)block;
    (void)size;
}

static MEMORYSTATUSEX os_memory(void)
{
    MEMORYSTATUSEX memory = { .dwLength = sizeof memory };
    (void)GlobalMemoryStatusEx(&memory);
    return memory;
}

uint64_t coffer__os_memory_available(void)
{
    return os_memory().ullAvailPhys;
}

uint64_t coffer__os_memory_total(void)
{
    return os_memory().ullTotalPhys;
}

uint64_t coffer__os_memory_lockable(void)
{
    return UINT64_MAX;
}

#endif
