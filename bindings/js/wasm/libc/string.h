/* SPDX-License-Identifier: Apache-2.0 */
/* All that core and format want of libc. The compiler makes instructions of these calls, or calls what js_memory.c has. */
#ifndef COFFER_JS_STRING_H
#define COFFER_JS_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);

#endif
