/* SPDX-License-Identifier: Apache-2.0 */
/* All that the library wants of libc here. The compiler makes instructions of the calls of mem…, or calls what js_memory.c has. */
#ifndef COFFER_JS_STRING_H
#define COFFER_JS_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);
void *memchr(const void *bytes, int wanted, size_t size);
size_t strlen(const char *text);
char *strchr(const char *text, int wanted);

/* Copies of a size that is known become loads and stores, which -ffreestanding alone does not allow. */
#define memcpy(to, from, size) __builtin_memcpy(to, from, size)
#define memmove(to, from, size) __builtin_memmove(to, from, size)
#define memset(to, byte, size) __builtin_memset(to, byte, size)
#define memcmp(a, b, size) __builtin_memcmp(a, b, size)

#endif
