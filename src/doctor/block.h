/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the caller's allocator that knows its size: rules make many small texts and lists, which go from hand to hand
 * and are freed where nobody knows any more how large they are.
 */
#ifndef COFFER_DOCTOR_BLOCK_H
#define COFFER_DOCTOR_BLOCK_H

#include "coffer.h"

/* `size` bytes of zeros; NULL without memory. */
void *coffer__block_new(const coffer_allocator *allocator, size_t size);
/* Larger or smaller, as realloc does: NULL, and the block stays as it was, without memory. What is added is not set. NULL as
   `block` allocates a new one. */
void *coffer__block_resize(const coffer_allocator *allocator, void *block, size_t size);
/* NULL is allowed. */
void coffer__block_free(void *block);

#endif
