/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for programs that have no allocator of their own: blocks of the C library, and buffers of whole
 * pages, which are fresh from the system and zero. Large ones use huge pages where the system has them. The
 * first write to a page costs a fault; with huge pages there are 512 times fewer, which makes filling fresh
 * memory several times faster.
 */
#include "coffer.h"
#include "os.h"

#include <stdlib.h>

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

/* Bytes of the pages that a buffer takes; 0 when there can be no such buffer. An empty one takes a page, too, so
   that its address is unique and not NULL. The limit leaves space for the alignment of os_huge_pages. */
static size_t memory_buffer_size(size_t size)
{
    const size_t page = coffer__os_page_size();
    if (size > SIZE_MAX - page - COFFER__OS_HUGE_PAGE) {
        return 0;
    }
    return size == 0 ? page : (size + page - 1) / page * page;
}

void *coffer_buffer_new(size_t size)
{
    const size_t whole = memory_buffer_size(size);
    return whole == 0 ? NULL : coffer__os_pages_new(whole);
}

void coffer_buffer_free(void *buffer, size_t size)
{
    if (buffer != NULL) {
        coffer__os_pages_free(buffer, memory_buffer_size(size));
    }
}

/* ---- the C library's allocator ----------------------------------------------------------------------------------- */

/* Asks for huge pages for a large block. A smaller one contains at most one whole huge page, which is not worth
   a system call. */
static void *memory_large_block(void *block, size_t size)
{
    if (block != NULL && size >= 2 * COFFER__OS_HUGE_PAGE) {
        coffer__os_want_huge_pages(block, size);
    }
    return block;
}

static void *memory_libc_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return memory_large_block(malloc(size), size);
}

static void *memory_libc_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    (void)ctx;
    (void)old_size;
    return memory_large_block(realloc(block, new_size), new_size);
}

static void memory_libc_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)size;
    free(block);
}

const coffer_allocator *coffer_libc_allocator(void)
{
    static const coffer_allocator libc = { memory_libc_alloc, memory_libc_realloc, memory_libc_free, NULL };
    return &libc;
}
