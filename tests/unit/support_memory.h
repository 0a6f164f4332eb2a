/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator for tests: it counts what is held, remembers the peak, checks that sizes come back as they went out and that
   nothing was written behind a block, and can fail the k-th request. One program links it once; not thread-safe. */
#ifndef COFFER_TESTS_SUPPORT_MEMORY_H
#define COFFER_TESTS_SUPPORT_MEMORY_H

#include "coffer.h"

typedef struct memory_meter {
    size_t held;   /* bytes now */
    size_t peak;   /* bytes at most, both blocks counted while one is reallocated */
    size_t blocks; /* now */
    size_t requests;
    size_t fail_at; /* the number of the request that fails, from 1; 0: none does */
} memory_meter;

/* An allocator that reports to `meter`, which must outlive it. */
coffer_allocator metered_allocator(memory_meter *meter);

#endif
