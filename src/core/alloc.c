/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc.h"

#include <string.h>

void *coffer__alloc(const coffer_allocator *allocator, size_t size)
{
    return size == 0 ? NULL : allocator->alloc(allocator->ctx, size);
}

void *coffer__alloc_zeroed(const coffer_allocator *allocator, size_t size)
{
    void *block = coffer__alloc(allocator, size);
    if (block != NULL) {
        memset(block, 0, size);
    }
    return block;
}

void *coffer__realloc(const coffer_allocator *allocator, void *block, size_t old_size, size_t new_size)
{
    return block == NULL ? coffer__alloc(allocator, new_size)
                         : allocator->realloc(allocator->ctx, block, old_size, new_size);
}

void coffer__free(const coffer_allocator *allocator, void *block, size_t size)
{
    if (block != NULL) {
        allocator->free(allocator->ctx, block, size);
    }
}
