/* SPDX-License-Identifier: Apache-2.0 */
#include "support_memory.h"

#include <stdlib.h>
#include <string.h>

/* In front of each block lies its size, to compare with what the library says when it gives the block back; behind it lie bytes
   that have to stay as they are. What is in a fresh block is never zero by chance. */
#define HEAD 16
#define TAIL 64
#define FILLING 0xA5

static void *metered_alloc(void *ctx, size_t size)
{
    memory_meter *meter = ctx;
    meter->requests++;
    if (meter->requests == meter->fail_at) {
        return NULL;
    }
    char *block = malloc(HEAD + size + TAIL);
    if (block == NULL) {
        abort();
    }
    memset(block, FILLING, HEAD + size + TAIL);
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
    for (size_t i = 0; i < TAIL; i++) {
        if (((unsigned char *)memory)[size + i] != FILLING) {
            abort();
        }
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
