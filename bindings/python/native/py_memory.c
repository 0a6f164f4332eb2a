/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for tensors. Fresh memory costs more than the copy that fills it, and how much depends on its pages: huge ones are faulted
 * in several times as fast as small ones where the machine has them at hand, and several times as slowly in a virtual machine
 * whose host took the free ones back. Nothing tells which it is but trying, so a large load first tries some of both. Some are
 * no proof, and small pages are what everybody else has: huge ones have to be clearly better.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */

#include "py_native.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MEMORY_HUGE_PAGE ((size_t)2 << 20)
#define MEMORY_SMALL_PAGE ((size_t)4096)
#define MEMORY_TRIED (16 * MEMORY_HUGE_PAGE)
/* Less is not worth a trial, and is often memory that was used before. */
#define MEMORY_LARGE ((uint64_t)256 << 20)

#ifdef MADV_HUGEPAGE

static uint64_t memory_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Nanoseconds that it takes to fault this memory in. */
static uint64_t memory_try(volatile char *memory)
{
    const uint64_t start = memory_now();
    for (size_t at = 0; at < MEMORY_TRIED; at += MEMORY_SMALL_PAGE) {
        memory[at] = 1;
    }
    return memory_now() - start;
}

static bool memory_huge_is_faster(void)
{
    const size_t size = 2 * MEMORY_TRIED + MEMORY_HUGE_PAGE;
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        return false;
    }
    char *huge = block + (MEMORY_HUGE_PAGE - (uintptr_t)block % MEMORY_HUGE_PAGE) % MEMORY_HUGE_PAGE;
    char *small = huge + MEMORY_TRIED;
    const bool can =
        madvise(huge, MEMORY_TRIED, MADV_HUGEPAGE) == 0 && madvise(small, MEMORY_TRIED, MADV_NOHUGEPAGE) == 0;
    const bool faster = can && memory_try(huge) < memory_try(small) / 3 * 2;
    (void)munmap(block, size);
    return faster;
}

#else

static bool memory_huge_is_faster(void)
{
    return false;
}

#endif

bool py_memory_wants_huge(uint64_t total)
{
    const char *told = getenv("COFFER_HUGE_PAGES");
    if (told != NULL && strcmp(told, "always") == 0) {
        return true;
    }
    if ((told != NULL && strcmp(told, "never") == 0) || total < MEMORY_LARGE) {
        return false;
    }
    bool faster = false;
    Py_BEGIN_ALLOW_THREADS faster = memory_huge_is_faster();
    Py_END_ALLOW_THREADS return faster;
}

/* libc's allocator as the library uses it asks for huge pages below large blocks. */
void *py_memory_new(size_t size, bool huge)
{
    const coffer_allocator *libc = coffer_libc_allocator();
    const size_t least = size == 0 ? 1 : size;
    return huge ? libc->alloc(libc->ctx, least) : malloc(least);
}

void py_memory_free(void *memory)
{
    free(memory);
}
