/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that the caller has in memory: borrowed until close, never written to. They are their own map, so mapping
   costs nothing and needs no unmapping; reading copies them. The range was checked by source.c. */
#include "error.h"
#include "source.h"

#include <string.h>

typedef struct source_memory {
    const uint8_t *bytes;
} source_memory;

static const source_memory *source_memory_of(const coffer__byte_source *source)
{
    return (const void *)source->state.capacity;
}

static coffer_status source_memory_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer,
                                           size_t size, const coffer__watch *watch, coffer_error *err)
{
    (void)watch;
    (void)err;
    memcpy(buffer, source_memory_of(source)->bytes + (size_t)offset, size);
    return COFFER_OK;
}

static void *source_memory_map(const coffer__byte_source *source, uint64_t offset, uint64_t size, coffer_access access,
                               bool populate, coffer__os_map *map, coffer_error *err)
{
    (void)size;
    (void)populate;
    (void)map;
    return coffer__source_lent_memory(source_memory_of(source)->bytes + (size_t)offset, access, err);
}

static void source_memory_close(coffer__byte_source *source)
{
    (void)source;
}

void coffer__source_memory(coffer__byte_source *source, const void *bytes, size_t size)
{
    static const coffer__source_ops ops = {
        .kind = "memory", .read_at = source_memory_read_at, .close = source_memory_close, .map = source_memory_map
    };
    const source_memory memory = { bytes };
    coffer__source_init(source, &ops, size, (coffer__source_traits){ .maps = true });
    memcpy(source->state.capacity, &memory, sizeof memory);
}
