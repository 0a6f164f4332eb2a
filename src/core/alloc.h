/* SPDX-License-Identifier: Apache-2.0 */
/* One way to allocate: through the allocator that the caller gave. There is no default in this room. */
#ifndef COFFER_CORE_ALLOC_H
#define COFFER_CORE_ALLOC_H

#include "coffer.h"

/* NULL when there is none, or when size is 0. */
void *coffer__alloc(const coffer_allocator *allocator, size_t size);
/* The same, filled with zeros. */
void *coffer__alloc_zeroed(const coffer_allocator *allocator, size_t size);
/* `count` items of `size` bytes each (at least 1), filled with zeros; NULL, with *err filled, when there is no memory for them or no
   block can be so large. No item is a block, too. */
void *coffer__alloc_array(const coffer_allocator *allocator, size_t count, size_t size, coffer_error *err);
void coffer__free_array(const coffer_allocator *allocator, void *block, size_t count, size_t size);
/* Keeps the block and returns NULL when there is no room for the new size. */
void *coffer__realloc(const coffer_allocator *allocator, void *block, size_t old_size, size_t new_size);
/* NULL is allowed. */
void coffer__free(const coffer_allocator *allocator, void *block, size_t size);

#endif
