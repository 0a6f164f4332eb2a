/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine that reads past the page cache by io_uring: one thread keeps many reads in progress. Completions may be short,
 * interrupted, and in any order; what is missing is read by another read of the system's, as long as they bring something,
 * and by the one that can say why it fails when they do not.
 *
 * The ring is opened by the first request. If it cannot be, or a call for it fails in a way that no try fixes, everything
 * is read as engine_direct.c does: what the system allowed a moment ago may not be allowed to this thread.
 */
#include "engine_own.h"

#include <errno.h>

/* How often a read that was interrupted, or that the system had no means for, is tried again. */
#define RING_TRIES 8u
#define RING_READ_MAX ((size_t)1 << 30)

/* It is tried once for each reader, by the reader's own thread, because the system binds such a ring to the thread
   that has made it. Without registered memory it works as well. */
static bool ring_open(coffer__range_reader *reader)
{
    coffer__ring_state *state = &reader->ring;
    const coffer__range_reader_options *options = &reader->options;
    int (*open)(coffer__os_ring *, unsigned) = options->ring != NULL ? options->ring->open : coffer__os_ring_open;
    if (state->open || state->refused) {
        return state->open;
    }
    state->open = open(&state->ring, options->depth) == 0;
    state->refused = !state->open;
    state->registered = state->open && options->memory_size > 0 &&
                        coffer__os_ring_register(&state->ring, options->memory, options->memory_size) == 0;
    return state->open;
}

/* The whole of the read must lie in the buffer, rounding included; otherwise it goes as a plain read, as the system
   would refuse it. Places are compared as numbers, since they may be of different objects. */
static bool ring_is_registered(const coffer__range_reader *reader, const uint8_t *to, size_t size)
{
    const uintptr_t begin = (uintptr_t)reader->options.memory;
    const uintptr_t at = (uintptr_t)to;
    return reader->ring.registered && at >= begin && at - begin <= reader->options.memory_size &&
           size <= reader->options.memory_size - (at - begin);
}

/* Hands what is missing of a request to the system; false: it takes no more. No more reads are in progress than the
   queue has places. The queue of completions has at least as many, so that they cannot overflow it. A read has at
   most 1 GiB, which is a whole number of blocks, so that the next one begins at a block. */
static bool ring_put(coffer__range_reader *reader, coffer__request *request, const coffer__rounded *rounded)
{
    const size_t got = (size_t)request->got;
    const size_t left = rounded->size - got < RING_READ_MAX ? rounded->size - got : RING_READ_MAX;
    const coffer__os_ring_read read = { .fd = request->file_reader->direct,
                                        .offset = rounded->offset + got,
                                        .to = rounded->to + got,
                                        .size = (uint32_t)left,
                                        .registered = ring_is_registered(reader, rounded->to + got, left),
                                        .user = request };
    if (reader->ring.under_way >= reader->ring.ring.entries || !coffer__os_ring_put(&reader->ring.ring, &read)) {
        return false;
    }
    reader->ring.under_way++;
    return true;
}

/* A request that is complete in the page cache goes the way of all others, so that they all come back by reap. Tuning
   begins with the first request and not with the reader, which may have been made long before; a request for which
   there is no place goes to the reader's list and is read by this thread. */
static bool ring_start(coffer__range_reader *reader, coffer__request *request)
{
    coffer__rounded rounded;
    if (!ring_open(reader) || !coffer__request_round(request, &rounded)) {
        return false;
    }
    if (reader->tune.depth == 0) {
        coffer__tune_begin(&reader->tune, request->file_reader->depth, reader->options.depth,
                           coffer__os_milliseconds());
    }
    if (request->got == 0 && coffer__request_take_cached(request, &rounded)) {
        coffer__requests_push(&reader->ready, request);
        return true;
    }
    if (!ring_put(reader, request, &rounded)) {
        return false;
    }
    /* Where the system does not take it now, it is told again whenever completions are looked for. */
    (void)coffer__os_ring_enter(&reader->ring.ring, 0);
    return true;
}

/* A completion means that the request is done, or has to go on. A result that is no whole number of blocks ends where
   the file does; the part of a block counts, but nothing more is read there. The request was rounded before it was
   handed over and nothing of it has changed, so it rounds again. An interruption is tried again some times and not
   forever: after that, or when the ring is full, it becomes ready with bytes missing, which the reader fetches. */
static void ring_complete(coffer__range_reader *reader, const coffer__os_completion *completion)
{
    coffer__request *request = completion->user;
    coffer__rounded rounded;
    const int32_t result = completion->result;
    reader->ring.under_way--;
    if (!coffer__request_round(request, &rounded)) {
        return;
    }
    bool over = result == 0 || (result < 0 && result != -EINTR && result != -EAGAIN);
    if (result > 0) {
        request->direct += (uint64_t)result;
        over =
            coffer__request_add(request, &rounded, (uint64_t)result) || request->got % request->file_reader->block != 0;
        coffer__tune_note(&reader->tune, (uint64_t)result, coffer__os_milliseconds());
    } else {
        request->tries++;
    }
    if (over || request->tries > RING_TRIES || !ring_put(reader, request, &rounded)) {
        coffer__requests_push(&reader->ready, request);
    }
}

/* A completion may put another read into the queue, but its completion comes only with a later call, so that this
   loop ends. */
static void ring_take_completions(coffer__range_reader *reader)
{
    bool (*next)(coffer__os_ring *, coffer__os_completion *) =
        reader->options.ring != NULL ? reader->options.ring->next : coffer__os_ring_next;
    coffer__os_completion completion;
    while (next(&reader->ring.ring, &completion)) {
        ring_complete(reader, &completion);
    }
}

/* A call that fails leaves everything as it was, so that it is made again: after a signal at once, else when the
   system has had time to find what it lacks. The first call was tried when the ring was opened, so that it is
   allowed. Reads that completions have put into the queue go to the system by the call that follows, so there is
   always one call, even if something is ready. */
void coffer__ring_collect(coffer__range_reader *reader, bool wait)
{
    coffer__ring_state *state = &reader->ring;
    if (state->under_way == 0) {
        return;
    }
    ring_take_completions(reader);
    do {
        const bool idle = wait && reader->ready.first == NULL;
        const int os_error = coffer__os_ring_enter(&state->ring, idle ? 1 : 0);
        if (os_error != 0 && os_error != EINTR) {
            coffer__os_sleep(1);
        }
        ring_take_completions(reader);
    } while (wait && reader->ready.first == NULL && state->under_way > 0);
}

/* The list of ready requests is emptied before each turn: as long as it holds one, collecting would not wait. */
void coffer__ring_close(coffer__range_reader *reader)
{
    while (reader->ring.under_way > 0) {
        reader->ready = (coffer__requests){ NULL, NULL };
        coffer__ring_collect(reader, true);
    }
    if (reader->ring.open) {
        coffer__os_ring_close(&reader->ring.ring);
        reader->ring.open = false;
    }
}

const coffer__read_engine coffer__engine_ring = {
    .id = COFFER_ENGINE_RING, .name = "ring", .read = coffer__engine_read_direct, .start = ring_start
};
