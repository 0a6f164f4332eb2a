/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of an allocator that begin at a page: see pages.h. */
#include "pages.h"

#include "alloc.h"

#include <string.h>

#define PAGES_ALIGNMENT 4096u
/* The address of the block lies before the pages, and so much is needed at most to reach a multiple from there. */
#define PAGES_BEFORE (PAGES_ALIGNMENT + sizeof(void *))

void *coffer__alloc_pages(const coffer_allocator *allocator, size_t size)
{
    uint8_t *block = size == 0 || size > SIZE_MAX - PAGES_BEFORE ? NULL : coffer__alloc(allocator, size + PAGES_BEFORE);
    if (block == NULL) {
        return NULL;
    }
    uint8_t *pages = block + PAGES_BEFORE - (uintptr_t)(block + PAGES_BEFORE) % PAGES_ALIGNMENT;
    memcpy(pages - sizeof block, &block, sizeof block);
    return pages;
}

void coffer__free_pages(const coffer_allocator *allocator, void *pages, size_t size)
{
    uint8_t *block = NULL;
    if (pages != NULL) {
        memcpy(&block, (uint8_t *)pages - sizeof block, sizeof block);
        coffer__free(allocator, block, size + PAGES_BEFORE);
    }
}
