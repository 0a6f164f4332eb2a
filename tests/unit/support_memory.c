/* SPDX-License-Identifier: Apache-2.0 */
#include "support_memory.h"

#include <stdlib.h>
#include <string.h>

/* In front of each block lies its size, to compare with what the library says when it gives the block back. */
#define HEAD 16

static void *metered_alloc(void *ctx, size_t size)
{
    memory_meter *meter = ctx;
    meter->requests++;
    if (meter->requests == meter->fail_at) {
        return NULL;
    }
    char *block = malloc(size + HEAD);
    if (block == NULL) {
        abort();
    }
    memcpy(block, &size, sizeof size);
    meter->held += size;
    meter->blocks++;
    meter->peak = meter->held > meter->peak ? meter->held : meter->peak;
    return block + HEAD;
}

static void metered_free(void *ctx, void *memory, size_t size)
{
    memory_meter *meter = ctx;
    size_t known = 0;
    memcpy(&known, (char *)memory - HEAD, sizeof known);
    if (known != size) {
        abort();
    }
    meter->held -= size;
    meter->blocks--;
    free((char *)memory - HEAD);
}

/* Always moves, so that a pointer that was kept too long is seen by the sanitizer. */
static void *metered_realloc(void *ctx, void *memory, size_t old_size, size_t new_size)
{
    void *moved = metered_alloc(ctx, new_size);
    if (moved != NULL) {
        memcpy(moved, memory, old_size < new_size ? old_size : new_size);
        metered_free(ctx, memory, old_size);
    }
    return moved;
}

coffer_allocator metered_allocator(memory_meter *meter)
{
    memset(meter, 0, sizeof *meter);
    return (coffer_allocator){ metered_alloc, metered_realloc, metered_free, meter };
}
