/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sink: where a new file goes. It knows nothing of tensors. Each kind is one file: sink_path.c (atomic),
 * sink_in_place.c, sink_fd.c, sink_memory.c, sink_custom.c.
 *
 * reserve    announces the final size before the first write, so that a full disk is found early
 * write_at   stores all bytes or fails. Any number of threads may call it at once, for ranges that do not
 *            overlap; every byte of the file is written once
 * copy_at    is another way to write: it copies from a descriptor as coffer__os_copy does, and answers as
 *            that does, so that bytes of a file need not come into memory. Sinks that cannot do it have
 *            NULL there or answer EOPNOTSUPP; then the bytes are read and written
 * read_at    reads back what was written, from any number of threads; NULL where that is impossible
 * lend       gives the descriptor of the file, whose byte 0 is that of the descriptor, to look at what was written
 *            before it is published; the sink keeps it. NULL where there is none that can be read
 * publish    makes the file visible, if the kind is one that hides it until then
 * discard    undoes what can be undone
 *
 * Exactly one of publish and discard is called, and last. Both release what the sink holds, and publish
 * does so even when it fails.
 *
 * A sink that is `in_order` takes its bytes from the first to the last only. A sink that `keeps_holes` may
 * be set to `sparse` before reserve: then no space is set aside, and what copy_at finds to be a hole
 * becomes one in the new file, too. When `sparse` is unset later, reserve is called a second time.
 */
#ifndef COFFER_IO_SINK_H
#define COFFER_IO_SINK_H

#include "coffer.h"
#include "os.h"

#include <stdatomic.h>

typedef struct coffer__byte_sink coffer__byte_sink;

typedef struct coffer__sink_ops {
    coffer_status (*reserve)(coffer__byte_sink *sink, uint64_t size, coffer_error *err);
    coffer_status (*write_at)(coffer__byte_sink *sink, uint64_t offset, const void *bytes, size_t size,
                              coffer_error *err);
    coffer_status (*publish)(coffer__byte_sink *sink, coffer_error *err);
    void (*discard)(coffer__byte_sink *sink);
    int (*copy_at)(coffer__byte_sink *sink, uint64_t offset, int from, uint64_t from_offset, uint64_t size,
                   uint64_t *done);
    coffer_status (*read_at)(coffer__byte_sink *sink, uint64_t offset, void *buffer, size_t size, coffer_error *err);
    int (*lend)(const coffer__byte_sink *sink);
} coffer__sink_ops;

struct coffer__byte_sink {
    const coffer__sink_ops *ops;
    coffer_allocator allocator;
    void *state; /* the kind's own, allocated by it */
    bool in_order;
    bool keeps_holes;         /* whether the kind can be sparse */
    _Atomic(bool) sparse;     /* set by whoever fills it, and perhaps unset while other threads copy */
    coffer_progress progress; /* asked while publishing or writing waits; NULL: nobody is asked */
    void *progress_ctx;
};

/* Each fills *sink, or fails having opened and changed nothing. */
coffer_status coffer__sink_path(coffer__byte_sink *sink, const coffer_allocator *allocator, const char *path,
                                coffer_sync sync, bool in_place, coffer_error *err);
coffer_status coffer__sink_fd(coffer__byte_sink *sink, const coffer_allocator *allocator, int fd, coffer_sync sync,
                              coffer_error *err);
coffer_status coffer__sink_memory(coffer__byte_sink *sink, const coffer_allocator *allocator, void *memory, size_t size,
                                  coffer_error *err);
coffer_status coffer__sink_custom(coffer__byte_sink *sink, const coffer_allocator *allocator, const coffer_sink *custom,
                                  coffer_error *err);

/* For a sink of coffer__sink_path that is not `in_place`: it then publishes only while the path
   leads to the file `old`, unchanged, and fails with COFFER_ERR_CHANGED otherwise. */
void coffer__sink_path_only(coffer__byte_sink *sink, const coffer__os_info *old);

/* What coffer__sink_path makes with `in_place`. `exists`: there is a regular file; otherwise there
   is nothing. */
coffer_status coffer__sink_in_place(coffer__byte_sink *sink, const coffer_allocator *allocator, const char *path,
                                    bool exists, coffer_sync sync, coffer_error *err);

/* All of a small file: reserves its size, writes the bytes, and publishes, or discards after a failure. */
coffer_status coffer__sink_write_whole(coffer__byte_sink *sink, const void *bytes, size_t size, coffer_error *err);
/* COFFER_ERR_CANCELLED when the user, told that `done` bytes of `total` are done, cancels. */
coffer_status coffer__sink_ask(const coffer__byte_sink *sink, uint64_t done, uint64_t total, coffer_error *err);
/* Makes a file durable whose `size` bytes begin at `start` of the descriptor, and asks the user now
   and then while it waits. The message of a failure is "cannot `task`". */
coffer_status coffer__sink_sync(const coffer__byte_sink *sink, int fd, uint64_t start, uint64_t size, const char *task,
                                const char *path, coffer_error *err);

/* Gives a sink its operations and a zeroed state of `state_size` bytes; COFFER_ERR_MEMORY when there is none. */
coffer_status coffer__sink_init(coffer__byte_sink *sink, const coffer__sink_ops *ops, const coffer_allocator *allocator,
                                size_t state_size, coffer_error *err);

#endif
