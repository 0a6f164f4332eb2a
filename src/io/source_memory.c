/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that the caller has in memory: borrowed, never written to. Also what all sources share. */
#include "error.h"
#include "source.h"

#include <string.h>

coffer_status coffer__source_read(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                                  coffer_error *err)
{
    return coffer__source_read_watched(source, offset, buffer, size, NULL, err);
}

coffer_status coffer__source_read_watched(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                                          const coffer__watch *watch, coffer_error *err)
{
    if (offset > source->size || size > source->size - offset) {
        return coffer__fail_at(err, COFFER_ERR_ARGUMENT, offset,
                               "%u bytes from %u on are asked of a source of %u bytes", (uint64_t)size, offset,
                               source->size);
    }
    if (size == 0) {
        return COFFER_OK;
    }
    return source->ops->read_watched != NULL ? source->ops->read_watched(source, offset, buffer, size, watch, err)
                                             : source->ops->read_at(source, offset, buffer, size, err);
}

static coffer_status source_memory_read_at(const coffer__source *source, uint64_t offset, void *buffer, size_t size,
                                           coffer_error *err)
{
    (void)err;
    memcpy(buffer, (const char *)source->as.memory + offset, size);
    return COFFER_OK;
}

static void *source_memory_map(coffer__source *source, coffer_access access, bool populate, coffer_error *err)
{
    (void)populate;
    if (access == COFFER_MAP_PRIVATE) {
        coffer__fail(err, COFFER_ERR_NOT_MAPPED,
                     "memory that was handed in is not to be changed, and COFFER_MAP_PRIVATE makes no copy of it: use "
                     "COFFER_MAP");
        return NULL;
    }
    /* No bytes may come without an address, but even they have one. */
    static const char nothing[8];
    const void *bytes = source->as.memory != NULL ? source->as.memory : nothing;
    void *address = NULL;
    memcpy(&address, &bytes, sizeof address);
    return address;
}

static void source_memory_close(coffer__source *source)
{
    (void)source;
}

void coffer__source_memory(coffer__source *source, const void *bytes, size_t size)
{
    static const coffer__source_ops ops = { .read_at = source_memory_read_at,
                                            .map = source_memory_map,
                                            .close = source_memory_close };
    memset(source, 0, sizeof *source);
    source->ops = &ops;
    source->size = size;
    source->as.memory = bytes;
}
