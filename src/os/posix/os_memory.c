/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system: maps of files, and pages of memory. */
#include "os_posix.h"

#include <sys/mman.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>

size_t coffer__os_page_size(void)
{
    const long size = sysconf(_SC_PAGESIZE);
    return size < 1 ? 4096 : (size_t)size;
}

/* Reads in the pages of a private map. MAP_POPULATE would do it by writing to them, which makes a copy of
   every page; MADV_POPULATE_READ (Linux 5.14) does not. Older systems get a hint. */
static void os_populate_private(void *base, size_t size)
{
#ifdef MADV_POPULATE_READ
    if (madvise(base, size, MADV_POPULATE_READ) == 0) {
        return;
    }
#endif
    (void)posix_madvise(base, size, POSIX_MADV_WILLNEED);
}

int coffer__os_map_populate(void *address, size_t size)
{
#ifdef MADV_POPULATE_READ
    const size_t before = (size_t)((uintptr_t)address % coffer__os_page_size());
    if (madvise((char *)address - before, before + size, MADV_POPULATE_READ) == 0) {
        return 0;
    }
    /* Systems before 5.14 do not know the advice. */
    return errno == EINVAL ? EOPNOTSUPP : errno;
#else
    (void)address;
    (void)size;
    return EOPNOTSUPP;
#endif
}

/* Without it Linux counts a private map as memory that will be used, as if every page were going to be
   changed, and refuses one that is larger than all memory. */
#ifdef MAP_NORESERVE
#define OS_NO_RESERVE MAP_NORESERVE
#else
#define OS_NO_RESERVE 0
#endif

/* A private map is populated later, see os_populate_private. */
static int os_map_flags(bool writable_copy, bool populate)
{
#ifdef MAP_POPULATE
    if (populate && !writable_copy) {
        return MAP_SHARED | MAP_POPULATE;
    }
#else
    (void)populate;
#endif
    return writable_copy ? MAP_PRIVATE | OS_NO_RESERVE : MAP_SHARED;
}

/* A map begins at a page, so up to a page before the range is mapped with it, and has to be
   unmapped with it. */
int coffer__os_map_range(int fd, uint64_t offset, uint64_t size, bool writable_copy, bool populate, coffer__os_map *map,
                         void **address)
{
    const uint64_t before = offset % coffer__os_page_size();
    if (!coffer__os_offset_fits(offset, size) || size > SIZE_MAX - before) {
        return EFBIG;
    }
    const size_t whole = (size_t)(before + size);
    const int protection = writable_copy ? PROT_READ | PROT_WRITE : PROT_READ;
    void *base = mmap(NULL, whole, protection, os_map_flags(writable_copy, populate), fd, (off_t)(offset - before));
    if (base == MAP_FAILED) {
        return errno;
    }
    if (populate && writable_copy) {
        os_populate_private(base, whole);
    }
    map->base = base;
    map->size = whole;
    *address = (char *)base + before;
    return 0;
}

void coffer__os_unmap(const coffer__os_map *map)
{
    if (map->base != NULL) {
        (void)munmap(map->base, map->size);
    }
}

static void *os_pages(size_t size, int protection)
{
    void *pages = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* mmap aligns to small pages. So this maps a huge page more than is wanted, and gives back what is
   before the first multiple of a huge page and what is after the end. */
void *coffer__os_pages_aligned(size_t size, int protection)
{
    char *pages = os_pages(size + COFFER__OS_HUGE_PAGE, protection);
    if (pages == NULL) {
        return NULL;
    }
    const size_t before =
        (COFFER__OS_HUGE_PAGE - (size_t)((uintptr_t)pages % COFFER__OS_HUGE_PAGE)) % COFFER__OS_HUGE_PAGE;
    if (before > 0) {
        (void)munmap(pages, before);
    }
    if (before < COFFER__OS_HUGE_PAGE) {
        (void)munmap(pages + before + size, COFFER__OS_HUGE_PAGE - before);
    }
    return pages + before;
}

/* The madvise matters where huge pages are used on request only, which is the default of many
   systems; if it fails, the pages are small. */
static void *os_huge_pages(size_t size)
{
    void *pages = coffer__os_pages_aligned(size, PROT_READ | PROT_WRITE);
#ifdef MADV_HUGEPAGE
    if (pages != NULL) {
        (void)madvise(pages, size, MADV_HUGEPAGE);
    }
#endif
    return pages;
}

void *coffer__os_pages_new(size_t size)
{
    return size < COFFER__OS_HUGE_PAGE ? os_pages(size, PROT_READ | PROT_WRITE) : os_huge_pages(size);
}

void coffer__os_pages_free(void *pages, size_t size)
{
    (void)munmap(pages, size);
}

void coffer__os_pages_discard(void *pages, size_t size)
{
#ifdef MADV_DONTNEED
    (void)madvise(pages, size, MADV_DONTNEED);
#else
    (void)pages;
    (void)size;
#endif
}

#if defined __linux__ && defined SYS_mbind
#define OS_PREFERRED 1 /* MPOL_PREFERRED: other nodes serve when this one has nothing left */
#define OS_NODES 1024
#define OS_WORD (8 * sizeof(unsigned long))

/* The system call itself, as the function for it is in a library of its own. It reads one bit less than it is told
   that there are. */
int coffer__os_pages_near(void *pages, size_t size, int32_t node)
{
    unsigned long nodes[OS_NODES / OS_WORD] = { 0 };
    if (node < 0 || node >= OS_NODES) {
        return EINVAL;
    }
    nodes[(size_t)node / OS_WORD] = 1UL << ((size_t)node % OS_WORD);
    return syscall(SYS_mbind, pages, size, OS_PREFERRED, nodes, (unsigned long)OS_NODES + 1, 0UL) == 0 ? 0 : errno;
}
#else
int coffer__os_pages_near(void *pages, size_t size, int32_t node)
{
    (void)pages;
    (void)size;
    (void)node;
    return EOPNOTSUPP;
}
#endif

void coffer__os_want_huge_pages(void *block, size_t size)
{
#ifdef MADV_HUGEPAGE
    const size_t before = (size_t)((uintptr_t)block % coffer__os_page_size());
    (void)madvise((char *)block - before, before + size, MADV_HUGEPAGE);
#else
    (void)block;
    (void)size;
#endif
}
