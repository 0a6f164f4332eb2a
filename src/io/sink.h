/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sink: where a new file goes. It knows nothing of tensors. One file each: sink_path.c (atomic), sink_in_place.c,
 * sink_fd.c, sink_memory.c, sink_custom.c.
 *
 * reserve announces the final size before the first write. write_at stores all bytes or fails, and may be called from any
 * number of threads at once, for ranges that do not overlap; every byte of the file is written once. Then exactly one of
 * publish and discard, which also release what the sink holds; publish has released it when it fails, too.
 *
 * A sink that `keeps_holes` may be `sparse` from reserve on: then no space is set aside, and what copy_at finds to be a hole is one in
 * the new file, too. When `sparse` is taken back, reserve comes a second time.
 *
 * read_at reads back what was written, from any number of threads; NULL where that cannot be done. A sink that is `in_order`
 * takes its bytes from the first to the last only.
 *
 * copy_at is another way to write: it copies from a descriptor as coffer__os_copy does, and answers as that does, so that
 * bytes of a file need not come into memory. Sinks that cannot do it have NULL there or say EOPNOTSUPP; then they are written.
 */
#ifndef COFFER_IO_SINK_H
#define COFFER_IO_SINK_H

#include "coffer.h"
#include "os.h"

#include <stdatomic.h>

typedef struct coffer__sink coffer__sink;

typedef struct coffer__sink_ops {
    coffer_status (*reserve)(coffer__sink *sink, uint64_t size, coffer_error *err);
    coffer_status (*write_at)(coffer__sink *sink, uint64_t offset, const void *bytes, size_t size, coffer_error *err);
    coffer_status (*publish)(coffer__sink *sink, coffer_error *err);
    void (*discard)(coffer__sink *sink);
    int (*copy_at)(coffer__sink *sink, uint64_t offset, int from, uint64_t from_offset, uint64_t size, uint64_t *done);
    coffer_status (*read_at)(coffer__sink *sink, uint64_t offset, void *buffer, size_t size, coffer_error *err);
} coffer__sink_ops;

struct coffer__sink {
    const coffer__sink_ops *ops;
    coffer_allocator allocator;
    void *state; /* the kind's own, allocated by it */
    bool in_order;
    bool keeps_holes;         /* of the kind */
    _Atomic(bool) sparse;     /* as the one wants who fills it; it may be taken back while others copy */
    coffer_progress progress; /* asked where publishing and writing wait; NULL: nobody is */
    void *progress_ctx;
};

/* Each fills *sink, or fails having opened and changed nothing. */
coffer_status coffer__sink_path(coffer__sink *sink, const coffer_allocator *allocator, const char *path,
                                coffer_sync sync, bool in_place, coffer_error *err);
coffer_status coffer__sink_fd(coffer__sink *sink, const coffer_allocator *allocator, int fd, coffer_sync sync,
                              coffer_error *err);
coffer_status coffer__sink_memory(coffer__sink *sink, const coffer_allocator *allocator, void *memory, size_t size,
                                  coffer_error *err);
coffer_status coffer__sink_custom(coffer__sink *sink, const coffer_allocator *allocator, const coffer_sink *custom,
                                  coffer_error *err);

/* Of a sink of coffer__sink_path that is not `in_place`: it publishes only while the path leads to the file `old`, unchanged, else
   COFFER_ERR_CHANGED. */
void coffer__sink_path_only(coffer__sink *sink, const coffer__os_info *old);

/* What coffer__sink_path is with `in_place`; `exists`: there is a regular file, else nothing. */
coffer_status coffer__sink_in_place(coffer__sink *sink, const coffer_allocator *allocator, const char *path,
                                    bool exists, coffer_sync sync, coffer_error *err);

/* COFFER_ERR_CANCELLED when the user, asked after `done` bytes of `total`, wants no more. */
coffer_status coffer__sink_ask(const coffer__sink *sink, uint64_t done, uint64_t total, coffer_error *err);
/* Makes a file durable whose `size` bytes begin at `start` of the descriptor, and asks the user meanwhile. A failure says that one
   cannot `task`. */
coffer_status coffer__sink_sync(const coffer__sink *sink, int fd, uint64_t start, uint64_t size, const char *task,
                                const char *path, coffer_error *err);

/* Gives a sink its operations and a zeroed state of `state_size` bytes; COFFER_ERR_MEMORY when there is none. */
coffer_status coffer__sink_init(coffer__sink *sink, const coffer__sink_ops *ops, const coffer_allocator *allocator,
                                size_t state_size, coffer_error *err);

#endif
