/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that loads hand out. Items share stretches of pages, or of a device. A stretch has a count of users, and the
 * last to be freed frees it; in host memory each huge page of it goes back when no item is left in it.
 *
 *   - Items that follow each other in a file lie in a stretch as they lie in the file, gaps included. So a cell of the
 *     file is read, or copied to the device, in one piece, however many tensors it holds, and huge pages serve them
 *     all.
 *   - Other small ones, such as slices, are packed one after the other; large ones have a stretch of their own.
 *
 * In host memory an address and its offset in the file agree modulo 4096 where the dtype's alignment allows it: then
 * bytes can be read past the page cache right to their destination. In large stretches they agree modulo a cell, so
 * that each cell is a huge page, and the thread that reads it is the one that first touches it.
 */
#ifndef COFFER_LOAD_LOAD_MEMORY_H
#define COFFER_LOAD_LOAD_MEMORY_H

#include "chunk.h"
#include "load_plan.h"

typedef struct coffer__stretch coffer__stretch;

/* An address of an item, and the memory in which it is. */
typedef struct coffer__allocation {
    uint64_t address;
    coffer_memory *memory;
} coffer__allocation;

/* Where the next items of one space go. Zero at first, but for the device. */
typedef struct coffer__store {
    coffer_device *device; /* NULL: host memory */
    coffer__stretch *open; /* where small ones are packed; the store is one of its users */
    uint64_t used;         /* bytes of it */
} coffer__store;

/* Memory for `count` items at least 1, which lie one after the other in a file, with gaps that are small; they share
   stretches as far as that suits. COFFER_ERR_MEMORY, COFFER_ERR_DEVICE_MEMORY; then none has any. */
coffer_status coffer__store_row(coffer__store *store, const coffer_plan *plan, const uint32_t *items, size_t count,
                                coffer__allocation *allocations, coffer_error *err);
/* How many of `count` items, from the first on, coffer__store_row can put into one stretch of at most `most` bytes; at
   least 1. */
size_t coffer__store_together(const coffer__store *store, const coffer_plan *plan, const uint32_t *items, size_t count,
                              uint64_t most);
/* Lets go of what is open. */
void coffer__store_end(coffer__store *store);

#endif
