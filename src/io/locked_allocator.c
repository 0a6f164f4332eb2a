/* SPDX-License-Identifier: Apache-2.0 */
#include "locked_allocator.h"

/* Each call holds the lock while the caller's function runs, and only then. */
static void *turns_alloc(void *ctx, size_t size)
{
    coffer__locked_allocator *turns = ctx;
    coffer__os_mutex_lock(&turns->lock);
    void *block = turns->allocator.alloc(turns->allocator.ctx, size);
    coffer__os_mutex_unlock(&turns->lock);
    return block;
}

static void *turns_realloc(void *ctx, void *block, size_t old_size, size_t new_size)
{
    coffer__locked_allocator *turns = ctx;
    coffer__os_mutex_lock(&turns->lock);
    void *grown = turns->allocator.realloc(turns->allocator.ctx, block, old_size, new_size);
    coffer__os_mutex_unlock(&turns->lock);
    return grown;
}

static void turns_free(void *ctx, void *block, size_t size)
{
    coffer__locked_allocator *turns = ctx;
    coffer__os_mutex_lock(&turns->lock);
    turns->allocator.free(turns->allocator.ctx, block, size);
    coffer__os_mutex_unlock(&turns->lock);
}

bool coffer__locked_allocator_open(coffer__locked_allocator *turns, const coffer_allocator *allocator,
                                   coffer_allocator *shared)
{
    turns->allocator = *allocator;
    *shared = (coffer_allocator){ turns_alloc, turns_realloc, turns_free, turns };
    return coffer__os_mutex_init(&turns->lock) == 0;
}

void coffer__locked_allocator_close(coffer__locked_allocator *turns)
{
    coffer__os_mutex_close(&turns->lock);
}
