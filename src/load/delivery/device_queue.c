/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strided copies to a device. They are queued on the device queue's stream; a ticket is the number of an event on it.
 * Events are used in turn, so no more than DEVICE_QUEUE_EVENTS tickets can be open; older ones are waited for.
 *
 * Most strided copies are copied as they are, as a run or a box of runs. A run is kept back until the next strided copy
 * is known: small tensors that follow each other in the file mostly do so on the device, and then go there as one,
 * since a device is asked for tens of thousands of copies no faster than it is for gigabytes. Two sorts are gathered
 * first, in memory of the device queue:
 *
 *   - narrow runs that go to contiguous bytes, since a device takes about as long for a short run as for a long one;
 *   - runs that go backwards, since boxes do not.
 *
 *   buffers   | … sealed, ticket 7 | … sealed, ticket 8 | being filled → | free |
 *
 * The device queue's memory has buffers that are filled one after the other. A full one gets a ticket, and is filled
 * again when that was reached.
 */
#include "device_queue.h"

#include "alloc.h"
#include "device.h"
#include "error.h"

#include <string.h>

#define DEVICE_QUEUE_EVENTS 64u
#define DEVICE_QUEUE_BUFFERS 4u
#define DEVICE_QUEUE_BUFFER ((size_t)256 << 10)
#define DEVICE_QUEUE_PART (DEVICE_QUEUE_BUFFER / 8) /* the longest run that is gathered with others */
/* Runs below this many bytes are gathered. A processor gathers some gigabytes each second whatever their width, and
   devices copy boxes of such runs no faster than that. */
#define DEVICE_QUEUE_NARROW 512u
/* The largest step of a box; drivers refuse more. */
#define DEVICE_QUEUE_STEP ((uint64_t)INT32_MAX)
/* One thread uses it, so nothing here is locked. What is queued on the stream is done in order, which is why a single
   event can stand for all that was sent before it. */
struct coffer__device_queue {
    coffer_allocator allocator;
    coffer_device *device;
    coffer__stream *stream;
    coffer__event
        *events[DEVICE_QUEUE_EVENTS]; /* of ticket t: t modulo DEVICE_QUEUE_EVENTS; made when they are first needed */
    uint64_t issued;                  /* the last ticket; 0: none */
    uint64_t reached;                 /* all up to this one */
    bool sent;                        /* something that no ticket covers */
    coffer__strided_copy pending;     /* one run that is not queued yet; no runs: none */
    const uint8_t *pending_bytes;     /* where it is */
    uint64_t pending_end;             /* of the allocation that it goes to; 0: was not asked */
    uint64_t *caller_streams;         /* of the caller's, that the stream waits for */
    size_t caller_stream_count;
    size_t caller_stream_capacity;
    uint8_t *buffers; /* NULL: none are needed yet */
    bool registered;  /* they are, by this device queue */
    size_t buffer;    /* the one that is being filled … */
    size_t used;      /* … and how much of it is */
    uint64_t sealed[DEVICE_QUEUE_BUFFERS];
};

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

/* Nothing but the stream is made here: events and buffers come when they are needed, since many device queues send a
   few runs that are copied as they are. */
coffer_status coffer__device_queue_open(coffer__device_queue **device_queue, coffer_device *device,
                                        const coffer_allocator *allocator, coffer_error *err)
{
    coffer__device_visit visit;
    coffer__device_queue *made = coffer__alloc_array(allocator, 1, sizeof *made, err);
    if (made == NULL) {
        return COFFER_ERR_MEMORY;
    }
    made->allocator = *allocator;
    made->device = device;
    coffer_status status = device->ops->enter(device, &visit, err);
    if (status == COFFER_OK) {
        status = device->ops->stream_new(device, &made->stream, err);
        device->ops->leave(device, &visit);
    }
    if (status != COFFER_OK) {
        coffer__free_array(allocator, made, 1, sizeof *made);
        return status;
    }
    *device_queue = made;
    return COFFER_OK;
}

/* The stream first: when it is empty, nothing of the rest is in use. A lost device holds none of this any more. */
void coffer__device_queue_close(coffer__device_queue *device_queue)
{
    coffer__device_visit visit;
    if (device_queue == NULL) {
        return;
    }
    coffer_device *device = device_queue->device;
    if (coffer__device_enter_to_release(device, &visit)) {
        device->ops->stream_free(device, device_queue->stream);
        for (size_t i = 0; i < DEVICE_QUEUE_EVENTS; i++) {
            device->ops->event_free(device, device_queue->events[i]);
        }
        if (device_queue->registered) {
            device->ops->forget_host(device, device_queue->buffers);
        }
        device->ops->leave(device, &visit);
    }
    if (device_queue->buffers != NULL) {
        coffer__os_pages_free(device_queue->buffers, DEVICE_QUEUE_BUFFERS * DEVICE_QUEUE_BUFFER);
    }
    const coffer_allocator allocator = device_queue->allocator;
    coffer__free(&allocator, device_queue->caller_streams,
                 device_queue->caller_stream_capacity * sizeof *device_queue->caller_streams);
    coffer__free_array(&allocator, device_queue, 1, sizeof *device_queue);
}

/* ---- tickets ----------------------------------------------------------------------------------------------------- */

/* All of these are called when the device was entered. Events of one stream are reached in the order in which they
   were set, so a ticket that was reached stands for all before it, and `reached` never goes back. */
static coffer_status device_queue_wait(coffer__device_queue *device_queue, uint64_t ticket, bool wait,
                                       coffer_error *err)
{
    if (ticket <= device_queue->reached) {
        return COFFER_OK;
    }
    coffer__event *event = device_queue->events[ticket % DEVICE_QUEUE_EVENTS];
    const coffer_status status = device_queue->device->ops->event_reached(device_queue->device, event, wait, err);
    if (status == COFFER_OK) {
        device_queue->reached = ticket;
    }
    return status;
}

/* A copy that failed may have been queued in part, so it counts as sent in any case. */
static coffer_status device_queue_copy(coffer__device_queue *device_queue, const coffer__strided_copy *copy,
                                       const uint8_t *bytes, coffer_error *err)
{
    device_queue->sent = true;
    return device_queue->device->ops->copy(device_queue->device, device_queue->stream, copy, bytes, err);
}

/* Queues the run that was kept back. */
static coffer_status device_queue_send_pending(coffer__device_queue *device_queue, coffer_error *err)
{
    const coffer__strided_copy pending = device_queue->pending;
    device_queue->pending.runs = 0;
    return pending.runs == 0 ? COFFER_OK : device_queue_copy(device_queue, &pending, device_queue->pending_bytes, err);
}

/* Where nothing was sent since the last ticket that one says as much, and no event is spent. An event can only be set
   again when what it was set for before has been reached, or a wait for the old ticket would become one for the
   new. */
static coffer_status device_queue_record(coffer__device_queue *device_queue, uint64_t *ticket, coffer_error *err)
{
    coffer_device *device = device_queue->device;
    coffer_status status = device_queue_send_pending(device_queue, err);
    if (!device_queue->sent) {
        *ticket = device_queue->issued;
        return COFFER_OK;
    }
    const uint64_t number = device_queue->issued + 1;
    coffer__event **event = &device_queue->events[number % DEVICE_QUEUE_EVENTS];
    if (status == COFFER_OK && number > DEVICE_QUEUE_EVENTS) {
        status = device_queue_wait(device_queue, number - DEVICE_QUEUE_EVENTS, true, err);
    }
    if (status == COFFER_OK && *event == NULL) {
        status = device->ops->event_new(device, event, err);
    }
    if (status == COFFER_OK) {
        status = device->ops->event_record(device, *event, device_queue->stream, err);
    }
    if (status == COFFER_OK) {
        device_queue->issued = number;
        device_queue->sent = false;
        *ticket = number;
    }
    return status;
}

coffer_status coffer__device_queue_ticket(coffer__device_queue *device_queue, uint64_t *ticket, coffer_error *err)
{
    coffer__device_visit visit;
    coffer_status status = device_queue->device->ops->enter(device_queue->device, &visit, err);
    if (status == COFFER_OK) {
        status = device_queue_record(device_queue, ticket, err);
        device_queue->device->ops->leave(device_queue->device, &visit);
    }
    return status;
}

/* A ticket that is known to be reached is answered without entering the device, which is a call of the driver. */
coffer_status coffer__device_queue_reached(coffer__device_queue *device_queue, uint64_t ticket, bool wait,
                                           coffer_error *err)
{
    coffer__device_visit visit;
    if (ticket <= device_queue->reached) {
        return COFFER_OK;
    }
    coffer_status status = device_queue->device->ops->enter(device_queue->device, &visit, err);
    if (status == COFFER_OK) {
        status = device_queue_wait(device_queue, ticket, wait, err);
        device_queue->device->ops->leave(device_queue->device, &visit);
    }
    return status;
}

/* ---- the caller's streams ---------------------------------------------------------------------------------------- */

/* A load has few streams, mostly one. */
static bool device_queue_waits_for(const coffer__device_queue *device_queue, uint64_t caller_stream)
{
    for (size_t i = 0; i < device_queue->caller_stream_count; i++) {
        if (device_queue->caller_streams[i] == caller_stream) {
            return true;
        }
    }
    return false;
}

/* The event goes at once: the driver keeps what was asked of it. The stream waits on the device, not the worker on the
   host: the caller's stream may have much to do, and reading goes on meanwhile. */
static coffer_status device_queue_order(coffer__device_queue *device_queue, uint64_t caller_stream, coffer_error *err)
{
    coffer_device *device = device_queue->device;
    coffer__event *event = NULL;
    coffer_status status = device->ops->event_new(device, &event, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = device->ops->event_record_caller(device, event, caller_stream, err);
    if (status == COFFER_OK) {
        status = device->ops->stream_wait(device, device_queue->stream, event, err);
    }
    device->ops->event_free(device, event);
    return status;
}

/* Space for the stream is made first: once the stream waits for it, it must be remembered without fail. */
coffer_status coffer__device_queue_after(coffer__device_queue *device_queue, uint64_t caller_stream, coffer_error *err)
{
    coffer__device_visit visit;
    if (device_queue_waits_for(device_queue, caller_stream)) {
        return COFFER_OK;
    }
    uint64_t *caller_streams =
        coffer__grow_array(&device_queue->allocator, device_queue->caller_streams, device_queue->caller_stream_count,
                           &device_queue->caller_stream_capacity, sizeof *caller_streams, err);
    if (caller_streams == NULL) {
        return COFFER_ERR_MEMORY;
    }
    device_queue->caller_streams = caller_streams;
    coffer_status status = device_queue->device->ops->enter(device_queue->device, &visit, err);
    if (status == COFFER_OK) {
        status = device_queue_order(device_queue, caller_stream, err);
        device_queue->device->ops->leave(device_queue->device, &visit);
    }
    if (status == COFFER_OK) {
        caller_streams[device_queue->caller_stream_count++] = caller_stream;
    }
    return status;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* The copy as it is, or its runs one by one where the driver would refuse the steps. */
static coffer_status device_queue_strided(coffer__device_queue *device_queue, coffer__strided_copy copy,
                                          const uint8_t *bytes, coffer_error *err)
{
    const bool fits = (uint64_t)copy.to_step <= DEVICE_QUEUE_STEP && (uint64_t)copy.from_step <= DEVICE_QUEUE_STEP;
    if (copy.runs == 1 || fits) {
        return device_queue_copy(device_queue, &copy, bytes, err);
    }
    coffer_status status = COFFER_OK;
    for (uint64_t left = copy.runs; left > 0 && status == COFFER_OK; left--) {
        copy.runs = 1;
        status = device_queue_copy(device_queue, &copy, bytes, err);
        copy.to += (uint64_t)copy.to_step;
        bytes += copy.from_step;
    }
    return status;
}

/* The buffers come when they are first needed. Copies from them work whether they are registered or not. Failing to
   register them is remembered as not registered, and not tried again for this device queue. */
static coffer_status device_queue_make_buffers(coffer__device_queue *device_queue, coffer_error *err)
{
    coffer_device *device = device_queue->device;
    const size_t size = DEVICE_QUEUE_BUFFERS * DEVICE_QUEUE_BUFFER;
    device_queue->buffers = coffer__os_pages_new(size);
    if (device_queue->buffers == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to gather the bytes for %s", device->words);
    }
    const coffer_status status =
        device->ops->register_host(device, device_queue->buffers, size, &device_queue->registered, err);
    return status == COFFER_ERR_UNSUPPORTED ? COFFER_OK : status;
}

/* Makes space for at least `width` bytes, at most a buffer; *capacity is how much there is. What is left of the old
   buffer is not used: a run is never cut here. The next buffer was sealed earliest, so the wait for it is mostly over
   before it begins; its ticket is 0 the first time, which is always reached. */
static coffer_status device_queue_capacity(coffer__device_queue *device_queue, uint64_t width, size_t *capacity,
                                           coffer_error *err)
{
    coffer_status status = COFFER_OK;
    if (device_queue->buffers == NULL) {
        status = device_queue_make_buffers(device_queue, err);
    }
    if (status == COFFER_OK && width > DEVICE_QUEUE_BUFFER - device_queue->used) {
        status = device_queue_record(device_queue, &device_queue->sealed[device_queue->buffer], err);
        device_queue->buffer = (device_queue->buffer + 1) % DEVICE_QUEUE_BUFFERS;
        device_queue->used = 0;
        if (status == COFFER_OK) {
            status = device_queue_wait(device_queue, device_queue->sealed[device_queue->buffer], true, err);
        }
    }
    *capacity = DEVICE_QUEUE_BUFFER - device_queue->used;
    return status;
}

/* Gathers as many runs as there is space for, and sends them. The last of them comes first where the strided copy goes
   backwards, so that what is sent goes forwards. The bytes stay in the buffer until a ticket that comes later was
   reached, so the chunk's slot is not needed for them any more. Packed runs are contiguous in the buffer; whether
   they are on the device depends on the step there, and then one copy does for all of them. */
static coffer_status device_queue_gather_some(coffer__device_queue *device_queue, const coffer__strided_copy *copy,
                                              const uint8_t *bytes, uint64_t first, uint64_t runs, coffer_error *err)
{
    const bool backwards = copy->to_step < 0;
    const uint64_t step = backwards ? 0 - (uint64_t)copy->to_step : (uint64_t)copy->to_step;
    uint8_t *start = device_queue->buffers + device_queue->buffer * DEVICE_QUEUE_BUFFER + device_queue->used;
    const coffer__strided_copy packed = {
        .from_step = copy->from_step,
        .to = (uintptr_t)(backwards ? start + (runs - 1) * copy->width : start),
        .to_step = backwards ? -(int64_t)copy->width : (int64_t)copy->width,
        .width = copy->width,
        .runs = runs,
    };
    coffer__copy_strided(&packed, bytes + (int64_t)first * copy->from_step);
    device_queue->used += (size_t)(runs * copy->width);
    const uint64_t lowest = backwards ? copy->to - (first + runs - 1) * step : copy->to + first * step;
    if (step == copy->width) {
        const coffer__strided_copy whole = { .to = lowest, .width = runs * copy->width, .runs = 1 };
        return device_queue_copy(device_queue, &whole, start, err);
    }
    const coffer__strided_copy apart = {
        .from_step = (int64_t)copy->width, .to = lowest, .to_step = (int64_t)step, .width = copy->width, .runs = runs
    };
    return device_queue_strided(device_queue, apart, start, err);
}

/* device_queue_capacity makes sure of space for one run at least, so each round sends something. */
static coffer_status device_queue_gather(coffer__device_queue *device_queue, const coffer__strided_copy *copy,
                                         const uint8_t *bytes, coffer_error *err)
{
    uint64_t done = 0;
    while (done < copy->runs) {
        size_t capacity = 0;
        const coffer_status status = device_queue_capacity(device_queue, copy->width, &capacity, err);
        if (status != COFFER_OK) {
            return status;
        }
        const uint64_t left = copy->runs - done;
        const uint64_t fit = capacity / copy->width;
        const uint64_t runs = left < fit ? left : fit;
        const coffer_status sent = device_queue_gather_some(device_queue, copy, bytes, done, runs, err);
        if (sent != COFFER_OK) {
            return sent;
        }
        done += runs;
    }
    return COFFER_OK;
}

/* Runs backwards that are longer than a buffer go one by one. A run of that length is worth a copy of its own, and
   turning it around in memory would need more space than there is. */
static coffer_status device_queue_backwards(coffer__device_queue *device_queue, const coffer__strided_copy *copy,
                                            const uint8_t *bytes, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (uint64_t i = 0; i < copy->runs && status == COFFER_OK; i++) {
        const coffer__strided_copy run = { .to = copy->to + i * (uint64_t)copy->to_step,
                                           .width = copy->width,
                                           .runs = 1 };
        status = device_queue_copy(device_queue, &run, bytes + (int64_t)i * copy->from_step, err);
    }
    return status;
}

/* Whether a strided copy is a run that goes on where the one that was kept back ends. */
static bool device_queue_continues(const coffer__device_queue *device_queue, const coffer__strided_copy *copy,
                                   const uint8_t *bytes)
{
    const coffer__strided_copy *pending = &device_queue->pending;
    return pending->runs == 1 && copy->runs == 1 && bytes == device_queue->pending_bytes + pending->width &&
           copy->to == pending->to + pending->width;
}

/* Makes it a part of that, unless another allocation begins there. The driver is asked each time, as memory that was
   there before may have been given back. */
static coffer_status device_queue_join(coffer__device_queue *device_queue, const coffer__strided_copy *copy,
                                       bool *joined, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    if (device_queue->pending_end == 0) {
        status = device_queue->device->ops->end_of(device_queue->device, device_queue->pending.to,
                                                   &device_queue->pending_end, err);
    }
    *joined = status == COFFER_OK && copy->to < device_queue->pending_end;
    device_queue->pending.width += *joined ? copy->width : 0;
    return status;
}

/* The questions go from the usual case to the rare ones: most tensors are one run. */
static coffer_status device_queue_send(coffer__device_queue *device_queue, const coffer__strided_copy *copy,
                                       const uint8_t *bytes, coffer_error *err)
{
    bool joined = false;
    coffer_status status = COFFER_OK;
    if (device_queue_continues(device_queue, copy, bytes)) {
        status = device_queue_join(device_queue, copy, &joined, err);
    }
    if (status == COFFER_OK && !joined) {
        status = device_queue_send_pending(device_queue, err);
    }
    if (status != COFFER_OK || joined) {
        return status;
    }
    if (copy->runs == 1) {
        device_queue->pending = *copy;
        device_queue->pending_bytes = bytes;
        device_queue->pending_end = 0;
        return COFFER_OK;
    }
    if (copy->to_step < 0 && copy->width > DEVICE_QUEUE_PART) {
        return device_queue_backwards(device_queue, copy, bytes, err);
    }
    if (copy->to_step < 0 || (copy->width < DEVICE_QUEUE_NARROW && (uint64_t)copy->to_step == copy->width)) {
        return device_queue_gather(device_queue, copy, bytes, err);
    }
    return device_queue_strided(device_queue, *copy, bytes, err);
}

coffer_status coffer__device_queue_send(coffer__device_queue *device_queue, const coffer__strided_copy *copy,
                                        const uint8_t *bytes, coffer_error *err)
{
    coffer__device_visit visit;
    coffer_status status = device_queue->device->ops->enter(device_queue->device, &visit, err);
    if (status == COFFER_OK) {
        status = device_queue_send(device_queue, copy, bytes, err);
        device_queue->device->ops->leave(device_queue->device, &visit);
    }
    return status;
}
