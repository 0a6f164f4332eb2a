/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the caller's, of exactly the file's size. Also what all sinks share. */
#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "os.h"
#include "sink.h"

#include <string.h>

/* A slow disk takes a tenth of a second to store this many bytes: how long cancelling may take. */
#define SINK_SYNC_STRETCH ((uint64_t)8 << 20)

typedef struct sink_memory_state {
    void *memory;
    size_t size;
} sink_memory_state;

/* *sink may hold anything before. progress_ctx is left alone, as it means nothing without `progress`. */
coffer_status coffer__sink_init(coffer__byte_sink *sink, const coffer__sink_ops *ops, const coffer_allocator *allocator,
                                size_t state_size, coffer_error *err)
{
    sink->ops = ops;
    sink->allocator = *allocator;
    sink->in_order = false;
    sink->keeps_holes = false;
    sink->sparse = false;
    sink->progress = NULL;
    sink->state = coffer__alloc_zeroed(allocator, state_size);
    return sink->state != NULL ? COFFER_OK : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to write a file");
}

coffer_status coffer__sink_write_whole(coffer__byte_sink *sink, const void *bytes, size_t size, coffer_error *err)
{
    coffer_status status = sink->ops->reserve(sink, size, err);
    if (status == COFFER_OK) {
        status = sink->ops->write_at(sink, 0, bytes, size, err);
    }
    if (status != COFFER_OK) {
        sink->ops->discard(sink);
        return status;
    }
    return sink->ops->publish(sink, err);
}

coffer_status coffer__sink_ask(const coffer__byte_sink *sink, uint64_t done, uint64_t total, coffer_error *err)
{
    return sink->progress == NULL || sink->progress(sink->progress_ctx, done, total) == 0
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
}

/* Nothing can interrupt fdatasync. So the bytes are first stored in stretches, between which the
   user is asked, and the last call has little left to wait for. That call is still what promises
   durability. Without a callback nobody would be asked, and the stretches are left out. */
coffer_status coffer__sink_sync(const coffer__byte_sink *sink, int fd, uint64_t start, uint64_t size, const char *task,
                                const char *path, coffer_error *err)
{
    for (uint64_t done = 0; sink->progress != NULL && done < size;) {
        const uint64_t stretch = size - done < SINK_SYNC_STRETCH ? size - done : SINK_SYNC_STRETCH;
        const coffer_status status = coffer__sink_ask(sink, done, size, err);
        if (status != COFFER_OK) {
            return status;
        }
        coffer__os_sync_stretch(fd, start + done, stretch);
        done += stretch;
    }
    const int os_error = coffer__os_sync(fd);
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, task, path, os_error);
}

static coffer_status sink_memory_reserve(coffer__byte_sink *sink, uint64_t size, coffer_error *err)
{
    const sink_memory_state *state = sink->state;
    if (size == state->size) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_BUFFER_SIZE, "the memory has %u bytes, but the file needs %u: they must be equal",
                 (uint64_t)state->size, size);
    return coffer__fail_sizes(err, COFFER_ERR_BUFFER_SIZE, size, state->size);
}

/* The range is checked although reserve fixed the size, since a mistake here would write beyond the caller's
   memory. */
static coffer_status sink_memory_write_at(coffer__byte_sink *sink, uint64_t offset, const void *bytes, size_t size,
                                          coffer_error *err)
{
    const sink_memory_state *state = sink->state;
    if (offset > state->size || size > state->size - offset) {
        return coffer__fail_at(err, COFFER_ERR_WRITE_RANGE, offset,
                               "%u bytes from %u on do not fit into memory of %u bytes", (uint64_t)size, offset,
                               (uint64_t)state->size);
    }
    if (size > 0) {
        memcpy((char *)state->memory + offset, bytes, size);
    }
    return COFFER_OK;
}

static coffer_status sink_memory_read_at(coffer__byte_sink *sink, uint64_t offset, void *buffer, size_t size,
                                         coffer_error *err)
{
    const sink_memory_state *state = sink->state;
    (void)err;
    memcpy(buffer, (const char *)state->memory + offset, size);
    return COFFER_OK;
}

static void sink_memory_discard(coffer__byte_sink *sink)
{
    coffer__free(&sink->allocator, sink->state, sizeof(sink_memory_state));
    sink->state = NULL;
}

static coffer_status sink_memory_publish(coffer__byte_sink *sink, coffer_error *err)
{
    (void)err;
    sink_memory_discard(sink);
    return COFFER_OK;
}

coffer_status coffer__sink_memory(coffer__byte_sink *sink, const coffer_allocator *allocator, void *memory, size_t size,
                                  coffer_error *err)
{
    static const coffer__sink_ops ops = { sink_memory_reserve,
                                          sink_memory_write_at,
                                          sink_memory_publish,
                                          sink_memory_discard,
                                          NULL,
                                          sink_memory_read_at,
                                          NULL };
    const coffer_status status = coffer__sink_init(sink, &ops, allocator, sizeof(sink_memory_state), err);
    if (status == COFFER_OK) {
        sink_memory_state *state = sink->state;
        state->memory = memory;
        state->size = size;
    }
    return status;
}
