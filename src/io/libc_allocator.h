/* SPDX-License-Identifier: Apache-2.0 */
/* The rule that a NULL allocator stands for libc's, in one place. Core does not know libc; io is the lowest space
   that does. */
#ifndef COFFER_IO_LIBC_ALLOCATOR_H
#define COFFER_IO_LIBC_ALLOCATOR_H

#include "coffer.h"

/* The caller's allocator, or libc's where the caller gave none. Never NULL. */
static inline const coffer_allocator *coffer__allocator_or_libc(const coffer_allocator *given)
{
    return given != NULL ? given : coffer_libc_allocator();
}

#endif
