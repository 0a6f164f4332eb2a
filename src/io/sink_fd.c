/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A descriptor of the caller's, from its position on; it stays the caller's and open.
 *
 * A regular file or block device is written at any position. In the end a regular file is truncated after the
 * last byte, and the descriptor's position is there, as if everything had been written in order. When
 * writing fails, a regular file gets its old length back, though not its old bytes.
 *
 * Everything else (a pipe, a socket, a terminal), and a descriptor that appends, takes bytes in order only,
 * and keeps what it got. A pipe whose reader is gone raises SIGPIPE unless the program ignores it: signals
 * belong to the program.
 */
#include "alloc.h"
#include "errno_status.h"
#include "error.h"
#include "os.h"
#include "sink.h"

#include <errno.h>

typedef struct sink_fd_state {
    int fd;
    coffer_sync sync;
    bool regular;
    bool positioned;    /* takes bytes at any position */
    uint64_t start;     /* the file's byte 0, when positioned */
    uint64_t old_size;  /* of a regular file */
    uint64_t size;      /* of the new one */
    coffer__mutex lock; /* of `next`, when not positioned */
    uint64_t next;
    bool broken; /* a write failed: nobody knows how many of its bytes went out */
} sink_fd_state;

/* A block device has its size, and what only appends cannot be reserved by offset. */
static coffer_status sink_fd_reserve(coffer__byte_sink *sink, uint64_t size, coffer_error *err)
{
    sink_fd_state *state = sink->state;
    state->size = size;
    if (!state->regular || !state->positioned) {
        return COFFER_OK;
    }
    const int os_error = coffer__os_reserve(state->fd, state->start, size);
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "reserve space for the file", NULL, os_error);
}

/* After a failed write nobody knows how many bytes went out, so no later one can be in order. */
static coffer_status sink_fd_out_of_order(const sink_fd_state *state, uint64_t offset, coffer_error *err)
{
    if (state->broken) {
        return coffer__fail_at(err, COFFER_ERR_IO, offset, "an earlier write to the descriptor failed");
    }
    return coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, offset,
                           "the descriptor is a pipe, a terminal or appending: it takes bytes only in order, and byte "
                           "%u is next, not %u; write the tensors in the order of the file, or write to a file",
                           state->next, offset);
}

/* Writes in order, under the lock. A reader that stops reading can make this wait for ever, so the
   user is asked after each interruption by a signal. `next` counts what went out even if the write
   then fails. */
static coffer_status sink_fd_write_next(coffer__byte_sink *sink, uint64_t offset, const uint8_t *bytes, size_t size,
                                        coffer_error *err)
{
    sink_fd_state *state = sink->state;
    if (offset != state->next || state->broken) {
        return sink_fd_out_of_order(state, offset, err);
    }
    coffer_status status = COFFER_OK;
    for (size_t done = 0; done < size && status == COFFER_OK;) {
        size_t put = 0;
        const int os_error = coffer__os_write_next(state->fd, bytes + done, size - done, &put);
        done += put;
        state->next += put;
        if (os_error != 0) {
            status = coffer__errno_status(err, "write to the descriptor", NULL, os_error);
        } else if (done < size) {
            status = coffer__sink_ask(sink, state->next, state->size, err);
        }
    }
    state->broken = status != COFFER_OK;
    return status;
}

/* Writes by offset need no lock. In order, the lock also covers the wait for the reader, since the
   next bytes cannot go out before these. */
static coffer_status sink_fd_write_at(coffer__byte_sink *sink, uint64_t offset, const void *bytes, size_t size,
                                      coffer_error *err)
{
    sink_fd_state *state = sink->state;
    if (!state->positioned) {
        coffer__os_mutex_lock(&state->lock);
        const coffer_status status = sink_fd_write_next(sink, offset, bytes, size, err);
        coffer__os_mutex_unlock(&state->lock);
        return status;
    }
    const int os_error = coffer__os_write_at(state->fd, state->start + offset, bytes, size);
    return os_error == 0 ? COFFER_OK : coffer__errno_status(err, "write to the descriptor", NULL, os_error);
}

/* Copies in the kernel need offsets on both sides. */
static int sink_fd_copy_at(coffer__byte_sink *sink, uint64_t offset, int from, uint64_t from_offset, uint64_t size,
                           uint64_t *done)
{
    const sink_fd_state *state = sink->state;
    *done = 0;
    return state->positioned
               ? coffer__os_copy_that_pays(from, from_offset, state->fd, state->start + offset, size, done)
               : EOPNOTSUPP;
}

static void sink_fd_close(coffer__byte_sink *sink)
{
    sink_fd_state *state = sink->state;
    coffer__os_mutex_close(&state->lock);
    coffer__free(&sink->allocator, state, sizeof *state);
    sink->state = NULL;
}

/* Truncating comes before the sync, which stores the length, too. The descriptor is not closed. */
static coffer_status sink_fd_finish(const coffer__byte_sink *sink, coffer_error *err)
{
    const sink_fd_state *state = sink->state;
    int os_error = 0;
    if (state->regular && state->positioned) {
        os_error = coffer__os_truncate(state->fd, state->start + state->size);
    }
    if (os_error == 0 && state->positioned) {
        os_error = coffer__os_set_position(state->fd, state->start + state->size);
    }
    if (os_error != 0) {
        return coffer__errno_status(err, "truncate the descriptor's file after the written bytes", NULL, os_error);
    }
    if (state->sync != COFFER_SYNC_ALWAYS || !(state->regular || state->positioned)) {
        return COFFER_OK;
    }
    return coffer__sink_sync(sink, state->fd, state->start, state->size, "make the descriptor's file durable", NULL,
                             err);
}

static coffer_status sink_fd_publish(coffer__byte_sink *sink, coffer_error *err)
{
    const coffer_status status = sink_fd_finish(sink, err);
    sink_fd_close(sink);
    return status;
}

/* The old bytes are lost, but a file that was extended does not keep a tail of garbage. */
static void sink_fd_discard(coffer__byte_sink *sink)
{
    const sink_fd_state *state = sink->state;
    if (state->regular && state->positioned) {
        (void)coffer__os_truncate(state->fd, state->old_size);
    }
    sink_fd_close(sink);
}

/* What the descriptor is decides how it is written. With O_APPEND the system ignores offsets, so
   even a regular file is written in order then. The descriptor is not duplicated: it stays the
   caller's, and must stay open. */
coffer_status coffer__sink_fd(coffer__byte_sink *sink, const coffer_allocator *allocator, int fd, coffer_sync sync,
                              coffer_error *err)
{
    static const coffer__sink_ops ops = {
        sink_fd_reserve, sink_fd_write_at, sink_fd_publish, sink_fd_discard, sink_fd_copy_at, NULL, NULL
    };
    coffer__os_info info;
    int os_error = coffer__os_inspect_fd(fd, &info);
    if (os_error != 0) {
        return coffer__errno_status(err, "write to the descriptor", NULL, os_error);
    }
    if (info.kind == COFFER__OS_DIRECTORY) {
        return coffer__kind_status(err, true, NULL);
    }
    const bool regular = info.kind == COFFER__OS_REGULAR;
    const bool positioned = (regular || info.kind == COFFER__OS_BLOCK) && !coffer__os_appends(fd);
    uint64_t start = 0;
    os_error = positioned ? coffer__os_position(fd, &start) : 0;
    if (os_error != 0) {
        return coffer__errno_status(err, "get the descriptor's position", NULL, os_error);
    }
    const coffer_status status = coffer__sink_init(sink, &ops, allocator, sizeof(sink_fd_state), err);
    if (status != COFFER_OK) {
        return status;
    }
    sink_fd_state *state = sink->state;
    sink->in_order = !positioned;
    *state = (sink_fd_state){
        .fd = fd, .sync = sync, .regular = regular, .positioned = positioned, .start = start, .old_size = info.size
    };
    os_error = coffer__os_mutex_init(&state->lock);
    if (os_error != 0) {
        coffer__free(allocator, state, sizeof *state);
        return coffer__errno_status(err, "make a lock for the descriptor", NULL, os_error);
    }
    return COFFER_OK;
}
