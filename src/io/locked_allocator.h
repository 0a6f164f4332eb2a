/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator that many threads may call, made from one that only one thread at a time may call. Callers'
 * allocators need not be safe in threads; where the library has to allocate on several threads at the same
 * time, it wraps them in this.
 */
#ifndef COFFER_IO_LOCKED_ALLOCATOR_H
#define COFFER_IO_LOCKED_ALLOCATOR_H

#include "coffer.h"
#include "os.h"

typedef struct coffer__locked_allocator {
    coffer_allocator allocator; /* the caller's */
    coffer__mutex lock;
} coffer__locked_allocator;

/* *shared works as long as `turns` lives where it is. False where the system has no mutex. */
bool coffer__locked_allocator_open(coffer__locked_allocator *turns, const coffer_allocator *allocator,
                                   coffer_allocator *shared);
void coffer__locked_allocator_close(coffer__locked_allocator *turns);

#endif
