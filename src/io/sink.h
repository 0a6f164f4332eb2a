/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sink: where a new file goes. It knows nothing of tensors. One file each: sink_path.c (atomic), sink_fd.c, sink_memory.c,
 * sink_custom.c.
 *
 * reserve announces the final size before the first write. write_at stores all bytes or fails, and may be called from any
 * number of threads at once, for ranges that do not overlap. Then exactly one of publish and discard, which also release
 * what the sink holds; publish has released it when it fails, too.
 */
#ifndef COFFER_IO_SINK_H
#define COFFER_IO_SINK_H

#include "coffer.h"

typedef struct coffer__sink coffer__sink;

typedef struct coffer__sink_ops {
    coffer_status (*reserve)(coffer__sink *sink, uint64_t size, coffer_error *err);
    coffer_status (*write_at)(coffer__sink *sink, uint64_t offset, const void *bytes, size_t size, coffer_error *err);
    coffer_status (*publish)(coffer__sink *sink, coffer_error *err);
    void (*discard)(coffer__sink *sink);
} coffer__sink_ops;

struct coffer__sink {
    const coffer__sink_ops *ops;
    coffer_allocator allocator;
    void *state; /* the kind's own, allocated by it */
};

coffer_status coffer__sink_path(coffer__sink *sink, const coffer_allocator *allocator, const char *path, coffer_sync sync,
                                bool in_place, coffer_error *err);
coffer_status coffer__sink_fd(coffer__sink *sink, const coffer_allocator *allocator, int fd, coffer_sync sync,
                              coffer_error *err);
coffer_status coffer__sink_memory(coffer__sink *sink, const coffer_allocator *allocator, void *memory, size_t size,
                                  coffer_error *err);
coffer_status coffer__sink_custom(coffer__sink *sink, const coffer_allocator *allocator, const coffer_sink *custom,
                                  coffer_error *err);

#endif
