/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One way to allocate: through the allocator that the caller gave. This room has no default; what a
 * NULL allocator stands for is decided above it (io/libc_allocator). Allocators are told the size
 * again when a block is freed or grown, so whoever owns a block remembers its size.
 */
#ifndef COFFER_CORE_ALLOC_H
#define COFFER_CORE_ALLOC_H

#include "coffer.h"

/* NULL when the allocator has no memory, and when size is 0: then the allocator is not asked. */
void *coffer__alloc(const coffer_allocator *allocator, size_t size);
/* As coffer__alloc, filled with zeros. */
void *coffer__alloc_zeroed(const coffer_allocator *allocator, size_t size);
/*
 * `count` items of `size` bytes each (at least 1), filled with zeros. NULL, with *err filled, when
 * the allocator has no memory or the product is beyond SIZE_MAX. Zero items give a block, too, so
 * that NULL always means failure.
 */
void *coffer__alloc_array(const coffer_allocator *allocator, size_t count, size_t size, coffer_error *err);
/* Frees what coffer__alloc_array gave, with the same count and size. NULL is allowed. */
void coffer__free_array(const coffer_allocator *allocator, void *block, size_t count, size_t size);
/* Grows or shrinks a block; NULL as `block` allocates a new one. Returns NULL, and keeps the old
   block as it was, when the allocator has no memory. */
void *coffer__realloc(const coffer_allocator *allocator, void *block, size_t old_size, size_t new_size);
/*
 * Space for one more item in a list of `count` items of `size` bytes each (at least 1), whose block
 * has space for *capacity: the same block, or one of twice the space, which *capacity then says. NULL, with
 * *err filled, when the allocator has no memory, or when there are 2^30 items already, as sorting
 * numbers them with 32 bits; then the old block stays. Free it by coffer__free, with *capacity * size.
 */
void *coffer__grow_array(const coffer_allocator *allocator, void *items, size_t count, size_t *capacity, size_t size,
                         coffer_error *err);
/* NULL is allowed. */
void coffer__free(const coffer_allocator *allocator, void *block, size_t size);

#endif
