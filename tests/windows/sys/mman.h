/* SPDX-License-Identifier: Apache-2.0 */
/* Of sys/mman.h, what the tests need for memory that ends at a page which cannot be touched. */
#ifndef COFFER_TESTS_WINDOWS_MMAN_H
#define COFFER_TESTS_WINDOWS_MMAN_H

#include <stddef.h>
#include <stdint.h>

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 2
#define MAP_ANONYMOUS 32
#define MAP_FAILED ((void *)-1)

/* Only anonymous memory. */
void *mmap(void *place, size_t size, int protection, int flags, int fd, int64_t offset);
int munmap(void *memory, size_t size);
int mprotect(void *memory, size_t size, int protection);

#endif
