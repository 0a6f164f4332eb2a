/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc.h"

#include "error.h"

#include <string.h>

#define ARRAY_FIRST_CAPACITY 16

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

/* What an array takes. An allocator may answer NULL for 0 bytes, which would look like a failure,
   so an array of no items takes the space of one. */
static size_t array_size(size_t count, size_t size)
{
    return count == 0 ? size : count * size;
}

void *coffer__alloc_array(const coffer_allocator *allocator, size_t count, size_t size, coffer_error *err)
{
    /* The division comes first: the product must not wrap to a small size that the allocator could
       serve. */
    void *block = count > SIZE_MAX / size ? NULL : coffer__alloc_zeroed(allocator, array_size(count, size));
    if (block == NULL) {
        coffer__fail(err, COFFER_ERR_MEMORY, "no memory for %u items of %u bytes each", (uint64_t)count,
                     (uint64_t)size);
    }
    return block;
}

void coffer__free_array(const coffer_allocator *allocator, void *block, size_t count, size_t size)
{
    coffer__free(allocator, block, array_size(count, size));
}

void *coffer__realloc(const coffer_allocator *allocator, void *block, size_t old_size, size_t new_size)
{
    return block == NULL ? coffer__alloc(allocator, new_size)
                         : allocator->realloc(allocator->ctx, block, old_size, new_size);
}

/* Doubling, so that an item is moved a few times in all. The bounds come before the products that
   they guard. */
void *coffer__grow_array(const coffer_allocator *allocator, void *items, size_t count, size_t *capacity, size_t size,
                         coffer_error *err)
{
    if (count < *capacity) {
        return items;
    }
    const bool fits =
        *capacity <= INT32_MAX / 2 && *capacity <= SIZE_MAX / 2 / size && size <= SIZE_MAX / ARRAY_FIRST_CAPACITY;
    const size_t wanted = *capacity == 0 ? ARRAY_FIRST_CAPACITY : 2 * *capacity;
    void *grown = fits ? coffer__realloc(allocator, items, *capacity * size, wanted * size) : NULL;
    if (grown == NULL) {
        coffer__fail(err, COFFER_ERR_MEMORY, "no memory for more than %u items of %u bytes each", (uint64_t)count,
                     (uint64_t)size);
        return NULL;
    }
    *capacity = wanted;
    return grown;
}

void coffer__free(const coffer_allocator *allocator, void *block, size_t size)
{
    if (block != NULL) {
        allocator->free(allocator->ctx, block, size);
    }
}
