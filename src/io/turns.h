/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator that many threads may call, made from one that only one thread at a time may call. Callers'
 * allocators need not be safe in threads; where the library has to allocate on several threads at the same
 * time, it wraps them in this.
 */
#ifndef COFFER_IO_TURNS_H
#define COFFER_IO_TURNS_H

#include "coffer.h"
#include "os.h"

typedef struct coffer__taking_turns {
    coffer_allocator allocator; /* the caller's */
    coffer__mutex lock;
} coffer__taking_turns;

/* *shared works as long as `turns` lives where it is. False where the system has no mutex. */
bool coffer__turns_begin(coffer__taking_turns *turns, const coffer_allocator *allocator, coffer_allocator *shared);
void coffer__turns_end(coffer__taking_turns *turns);

#endif
