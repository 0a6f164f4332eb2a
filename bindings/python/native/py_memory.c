/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for tensors. Fresh memory costs more than the copy that fills it, and how much depends on its pages: huge ones are faulted
 * in several times as fast as small ones where the machine has them at hand, and several times as slowly in a virtual machine
 * whose host took the free ones back. Both occur in one load, the second after the first. So a large load faults its memory in by
 * blocks of huge pages, holds the time of each against that of small pages, and switches to small ones once huge ones are slower:
 * what is lost is the time of a block or two.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */

#include "py_native.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifndef _WIN32
#include <sys/mman.h>
#endif

#define MEMORY_HUGE_PAGE ((size_t)2 << 20)
#define MEMORY_SMALL_PAGE ((size_t)4096)
#define MEMORY_BLOCK (4 * MEMORY_HUGE_PAGE)
/* Less is not worth a trial, and is often memory that was used before. */
#define MEMORY_LARGE ((uint64_t)256 << 20)
/* A block that is slower than small pages counts once, as a thread may have lost its processor; one that is far slower, twice. */
#define MEMORY_MAX_SLOW 2u

#ifdef MADV_HUGEPAGE

static uint64_t memory_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Nanoseconds that it takes to fault in a block, whose pages are so large. */
static uint64_t memory_fault(volatile char *block, size_t page)
{
    const uint64_t start = memory_now();
    for (size_t at = 0; at < MEMORY_BLOCK; at += page) {
        block[at] = 1;
    }
    return memory_now() - start;
}

/* What small pages cost here and now; 0 when that cannot be told. */
static uint64_t memory_try_small(void)
{
    char *block = mmap(NULL, MEMORY_BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        return 0;
    }
    const uint64_t taken =
        madvise(block, MEMORY_BLOCK, MADV_NOHUGEPAGE) == 0 ? memory_fault(block, MEMORY_SMALL_PAGE) : 0;
    (void)munmap(block, MEMORY_BLOCK);
    return taken;
}

/* Faults memory in by blocks of huge pages, as long as that is the faster way. */
static void memory_fault_all(py_pages *pages, char *memory, size_t size)
{
    for (size_t at = 0; size - at >= MEMORY_BLOCK && pages->slow < MEMORY_MAX_SLOW; at += MEMORY_BLOCK) {
        if (madvise(memory + at, MEMORY_BLOCK, MADV_HUGEPAGE) != 0) {
            pages->slow = MEMORY_MAX_SLOW;
            return;
        }
        const uint64_t taken = memory_fault(memory + at, MEMORY_HUGE_PAGE);
        pages->slow += taken > 2 * pages->small_cost ? 2 : taken > pages->small_cost;
    }
}

static void *memory_new_tried(py_pages *pages, size_t size)
{
    void *memory = NULL;
    if (posix_memalign(&memory, MEMORY_HUGE_PAGE, size) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS memory_fault_all(pages, memory, size);
    Py_END_ALLOW_THREADS return memory;
}

#else

static uint64_t memory_try_small(void)
{
    return 0;
}

static void *memory_new_tried(py_pages *pages, size_t size)
{
    (void)pages;
    return malloc(size);
}

#endif

py_pages py_pages_for(uint64_t total)
{
    const char *reported = getenv("COFFER_HUGE_PAGES");
    py_pages pages = { .always = reported != NULL && strcmp(reported, "always") == 0 };
    const bool never = reported != NULL && strcmp(reported, "never") == 0;
    if (!pages.always && !never && total >= MEMORY_LARGE) {
        Py_BEGIN_ALLOW_THREADS pages.small_cost = memory_try_small();
        Py_END_ALLOW_THREADS
    }
    return pages;
}

void *py_memory_new(size_t size, py_pages *pages)
{
    const size_t least = size == 0 ? 1 : size;
    if (pages->always) {
        /* libc's allocator as the library uses it asks for huge pages below large blocks. */
        const coffer_allocator *libc = coffer_libc_allocator();
        return libc->alloc(libc->ctx, least);
    }
    const bool tried = pages->small_cost > 0 && pages->slow < MEMORY_MAX_SLOW && size >= MEMORY_BLOCK;
    return tried ? memory_new_tried(pages, size) : malloc(least);
}

void py_memory_free(void *memory)
{
    free(memory);
}
