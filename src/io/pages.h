/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for bytes on their way between files, which begins at a multiple of 4096: bytes of a file then lie at the same
 * place of a page in both. Where they lie up to 16 bytes further in memory, as they do in the large blocks of libc's
 * allocator, copying them takes some processors five times as long: loads seem to depend on the stores before them.
 *
 * It is of the caller's allocator, which promises no more than malloc does of an address. Not in core, where an address is
 * never a number.
 */
#ifndef COFFER_IO_PAGES_H
#define COFFER_IO_PAGES_H

#include "coffer.h"

/* NULL when the allocator has no memory, and when size is 0: then the allocator is not asked. Free it by
   coffer__free_pages, with the same size. */
void *coffer__alloc_pages(const coffer_allocator *allocator, size_t size);
/* NULL is allowed. */
void coffer__free_pages(const coffer_allocator *allocator, void *pages, size_t size);

#endif
