/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines to a device. They are queued on the device queue's lane; a ticket is the number of a mark on it. Marks are used in turn, so
 * no more than DEVICE_QUEUE_MARKS tickets can be open; older ones are waited for.
 *
 * Most lines are copied as they are, as a run or a box of runs. A run is kept back until the next line is known: small
 * tensors that follow each other in the file mostly do so on the device, and then go there as one, since a device is
 * asked for tens of thousands of copies no faster than it is for gigabytes. Two sorts are gathered first, in memory of the
 * device queue:
 *
 *   - narrow runs that go to contiguous bytes, since a device takes about as long for a short run as for a long one;
 *   - runs that go backwards, since boxes do not.
 *
 *   pieces   | … sealed, ticket 7 | … sealed, ticket 8 | being filled → | free |
 *
 * The device queue's memory has pieces that are filled one after the other. A full one gets a ticket, and is filled again when that
 * was reached.
 */
#include "deliver.h"

#include "alloc.h"
#include "device.h"
#include "error.h"

#include <string.h>

#define DEVICE_QUEUE_MARKS 64u
#define DEVICE_QUEUE_PIECES 4u
#define DEVICE_QUEUE_PIECE ((size_t)256 << 10)
#define DEVICE_QUEUE_PART (DEVICE_QUEUE_PIECE / 8) /* the longest run that is gathered with others */
/* Runs below this many bytes are gathered. A processor gathers some gigabytes each second whatever their width, and
   devices copy boxes of such runs no faster than that. */
#define DEVICE_QUEUE_NARROW 512u
/* The largest step of a box; drivers refuse more. */
#define DEVICE_QUEUE_STEP ((uint64_t)INT32_MAX)
/* One thread uses it, so nothing here is locked. What is queued on the lane is done in order, which is why a single
   mark can stand for all that was sent before it. */
struct coffer__device_queue {
    coffer_allocator allocator;
    coffer_device *device;
    coffer__lane *lane;
    coffer__mark
        *marks[DEVICE_QUEUE_MARKS]; /* of ticket t: t modulo DEVICE_QUEUE_MARKS; made when they are first needed */
    uint64_t issued;                /* the last ticket; 0: none */
    uint64_t reached;               /* all up to this one */
    bool sent;                      /* something that no ticket covers */
    coffer__device_copy pending;    /* one run that is not queued yet; no rows: none */
    uint64_t pending_end;           /* of the allocation that it goes to; 0: was not asked */
    uint64_t *streams;              /* of the caller's, that the lane waits for */
    size_t stream_count;
    size_t stream_capacity;
    uint8_t *pieces; /* NULL: none are needed yet */
    bool registered; /* they are, by this device queue */
    size_t piece;    /* the one that is being filled */
    size_t used;     /* bytes of that piece that are filled */
    uint64_t sealed[DEVICE_QUEUE_PIECES];
};

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

/* Nothing but the lane is made here: marks and pieces come when they are needed, since many device queues send a few runs
   that are copied as they are. */
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
        status = device->ops->lane_new(device, &made->lane, err);
        device->ops->leave(device, &visit);
    }
    if (status != COFFER_OK) {
        coffer__free_array(allocator, made, 1, sizeof *made);
        return status;
    }
    *device_queue = made;
    return COFFER_OK;
}

/* The lane first: when it is empty, nothing of the rest is in use. A lost device holds none of this any more. */
void coffer__device_queue_close(coffer__device_queue *device_queue)
{
    coffer__device_visit visit;
    if (device_queue == NULL) {
        return;
    }
    coffer_device *device = device_queue->device;
    if (coffer__device_enter_to_release(device, &visit)) {
        device->ops->lane_free(device, device_queue->lane);
        for (size_t i = 0; i < DEVICE_QUEUE_MARKS; i++) {
            device->ops->mark_free(device, device_queue->marks[i]);
        }
        if (device_queue->registered) {
            device->ops->forget_host(device, device_queue->pieces);
        }
        device->ops->leave(device, &visit);
    }
    if (device_queue->pieces != NULL) {
        coffer__os_pages_free(device_queue->pieces, DEVICE_QUEUE_PIECES * DEVICE_QUEUE_PIECE);
    }
    const coffer_allocator allocator = device_queue->allocator;
    coffer__free(&allocator, device_queue->streams, device_queue->stream_capacity * sizeof *device_queue->streams);
    coffer__free_array(&allocator, device_queue, 1, sizeof *device_queue);
}

/* ---- tickets ----------------------------------------------------------------------------------------------------- */

/* All of these are called when the device was entered. Marks of one lane are reached in the order in which they
   were set, so a ticket that was reached stands for all before it, and `reached` never goes back. */
static coffer_status device_queue_wait(coffer__device_queue *device_queue, uint64_t ticket, bool wait,
                                       coffer_error *err)
{
    if (ticket <= device_queue->reached) {
        return COFFER_OK;
    }
    coffer__mark *mark = device_queue->marks[ticket % DEVICE_QUEUE_MARKS];
    const coffer_status status = device_queue->device->ops->mark_reached(device_queue->device, mark, wait, err);
    if (status == COFFER_OK) {
        device_queue->reached = ticket;
    }
    return status;
}

/* A copy that failed may have been queued in part, so it counts as sent in any case. */
static coffer_status device_queue_copy(coffer__device_queue *device_queue, const coffer__device_copy *copy,
                                       coffer_error *err)
{
    device_queue->sent = true;
    return device_queue->device->ops->copy(device_queue->device, device_queue->lane, copy, err);
}

/* Queues the run that was kept back. */
static coffer_status device_queue_send_pending(coffer__device_queue *device_queue, coffer_error *err)
{
    const coffer__device_copy pending = device_queue->pending;
    device_queue->pending.rows = 0;
    return pending.rows == 0 ? COFFER_OK : device_queue_copy(device_queue, &pending, err);
}

/* Where nothing was sent since the last ticket that one says as much, and no mark is spent. A mark can only be set
   again when what it was set for before has been reached, or a wait for the old ticket would become one for the
   new. */
static coffer_status device_queue_mark(coffer__device_queue *device_queue, uint64_t *ticket, coffer_error *err)
{
    coffer_device *device = device_queue->device;
    coffer_status status = device_queue_send_pending(device_queue, err);
    if (!device_queue->sent) {
        *ticket = device_queue->issued;
        return COFFER_OK;
    }
    const uint64_t number = device_queue->issued + 1;
    coffer__mark **mark = &device_queue->marks[number % DEVICE_QUEUE_MARKS];
    if (status == COFFER_OK && number > DEVICE_QUEUE_MARKS) {
        status = device_queue_wait(device_queue, number - DEVICE_QUEUE_MARKS, true, err);
    }
    if (status == COFFER_OK && *mark == NULL) {
        status = device->ops->mark_new(device, mark, err);
    }
    if (status == COFFER_OK) {
        status = device->ops->mark_lane(device, *mark, device_queue->lane, err);
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
        status = device_queue_mark(device_queue, ticket, err);
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
static bool device_queue_waits_for(const coffer__device_queue *device_queue, uint64_t stream)
{
    for (size_t i = 0; i < device_queue->stream_count; i++) {
        if (device_queue->streams[i] == stream) {
            return true;
        }
    }
    return false;
}

/* The mark goes at once: the driver keeps what was asked of it. The lane waits on the device, not the worker on the
   host: the caller's stream may have much to do, and reading goes on meanwhile. */
static coffer_status device_queue_order(coffer__device_queue *device_queue, uint64_t stream, coffer_error *err)
{
    coffer_device *device = device_queue->device;
    coffer__mark *mark = NULL;
    coffer_status status = device->ops->mark_new(device, &mark, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = device->ops->mark_stream(device, mark, stream, err);
    if (status == COFFER_OK) {
        status = device->ops->lane_after(device, device_queue->lane, mark, err);
    }
    device->ops->mark_free(device, mark);
    return status;
}

/* Space for the stream is made first: once the lane waits for it, it must be remembered without fail. */
coffer_status coffer__device_queue_after(coffer__device_queue *device_queue, uint64_t stream, coffer_error *err)
{
    coffer__device_visit visit;
    if (device_queue_waits_for(device_queue, stream)) {
        return COFFER_OK;
    }
    uint64_t *streams = coffer__grow_array(&device_queue->allocator, device_queue->streams, device_queue->stream_count,
                                           &device_queue->stream_capacity, sizeof *streams, err);
    if (streams == NULL) {
        return COFFER_ERR_MEMORY;
    }
    device_queue->streams = streams;
    coffer_status status = device_queue->device->ops->enter(device_queue->device, &visit, err);
    if (status == COFFER_OK) {
        status = device_queue_order(device_queue, stream, err);
        device_queue->device->ops->leave(device_queue->device, &visit);
    }
    if (status == COFFER_OK) {
        streams[device_queue->stream_count++] = stream;
    }
    return status;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* A box, or its runs one by one where the driver would refuse the box. */
static coffer_status device_queue_box(coffer__device_queue *device_queue, coffer__device_copy box, coffer_error *err)
{
    if (box.rows == 1 || (box.to_step <= DEVICE_QUEUE_STEP && box.from_step <= DEVICE_QUEUE_STEP)) {
        return device_queue_copy(device_queue, &box, err);
    }
    coffer_status status = COFFER_OK;
    for (uint64_t left = box.rows; left > 0 && status == COFFER_OK; left--) {
        box.rows = 1;
        status = device_queue_copy(device_queue, &box, err);
        box.to += box.to_step;
        box.from += box.from_step;
    }
    return status;
}

/* The pieces come when they are first needed. Copies from them work whether they are registered or not. Failing to
   register them is remembered as not registered, and not tried again for this device queue. */
static coffer_status device_queue_make_pieces(coffer__device_queue *device_queue, coffer_error *err)
{
    coffer_device *device = device_queue->device;
    const size_t size = DEVICE_QUEUE_PIECES * DEVICE_QUEUE_PIECE;
    device_queue->pieces = coffer__os_pages_new(size);
    if (device_queue->pieces == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to gather the bytes for %s", device->words);
    }
    const coffer_status status =
        device->ops->register_host(device, device_queue->pieces, size, &device_queue->registered, err);
    return status == COFFER_ERR_UNSUPPORTED ? COFFER_OK : status;
}

/* Makes space for at least `width` bytes, at most a piece; *capacity is how much there is. What is left of the old piece
   is not used: a run is never cut here. The next piece was sealed earliest, so the wait for it is mostly over
   before it begins; its ticket is 0 the first time, which is always reached. */
static coffer_status device_queue_capacity(coffer__device_queue *device_queue, uint64_t width, size_t *capacity,
                                           coffer_error *err)
{
    coffer_status status = COFFER_OK;
    if (device_queue->pieces == NULL) {
        status = device_queue_make_pieces(device_queue, err);
    }
    if (status == COFFER_OK && width > DEVICE_QUEUE_PIECE - device_queue->used) {
        status = device_queue_mark(device_queue, &device_queue->sealed[device_queue->piece], err);
        device_queue->piece = (device_queue->piece + 1) % DEVICE_QUEUE_PIECES;
        device_queue->used = 0;
        if (status == COFFER_OK) {
            status = device_queue_wait(device_queue, device_queue->sealed[device_queue->piece], true, err);
        }
    }
    *capacity = DEVICE_QUEUE_PIECE - device_queue->used;
    return status;
}

/* Gathers as many runs as there is space for, and sends them. The last of them comes first where the line goes
   backwards, so that what is sent goes forwards. The bytes stay in the piece until a ticket that comes later was
   reached, so the chunk's slot is not needed for them any more. Packed runs are contiguous in the piece; whether
   they are on the device depends on the step there, and then one copy does for all of them. */
static coffer_status device_queue_gather_some(coffer__device_queue *device_queue, const coffer__line *line,
                                              const uint8_t *bytes, uint64_t first, uint64_t runs, coffer_error *err)
{
    const bool backwards = line->to_step < 0;
    const uint64_t step = backwards ? 0 - (uint64_t)line->to_step : (uint64_t)line->to_step;
    uint8_t *start = device_queue->pieces + device_queue->piece * DEVICE_QUEUE_PIECE + device_queue->used;
    const coffer__line packed = {
        .from_step = line->from_step,
        .to = (uintptr_t)(backwards ? start + (runs - 1) * line->width : start),
        .to_step = backwards ? -(int64_t)line->width : (int64_t)line->width,
        .width = line->width,
        .runs = runs,
    };
    coffer__deliver_host(&packed, bytes + first * line->from_step);
    device_queue->used += (size_t)(runs * line->width);
    const uint64_t lowest = backwards ? line->to - (first + runs - 1) * step : line->to + first * step;
    if (step == line->width) {
        return device_queue_copy(device_queue, &(coffer__device_copy){ lowest, 0, start, 0, runs * line->width, 1 },
                                 err);
    }
    return device_queue_box(device_queue, (coffer__device_copy){ lowest, step, start, line->width, line->width, runs },
                            err);
}

/* device_queue_capacity makes sure of space for one run at least, so each round sends something. */
static coffer_status device_queue_gather(coffer__device_queue *device_queue, const coffer__line *line,
                                         const uint8_t *bytes, coffer_error *err)
{
    uint64_t done = 0;
    while (done < line->runs) {
        size_t capacity = 0;
        const coffer_status status = device_queue_capacity(device_queue, line->width, &capacity, err);
        if (status != COFFER_OK) {
            return status;
        }
        const uint64_t left = line->runs - done;
        const uint64_t fit = capacity / line->width;
        const uint64_t runs = left < fit ? left : fit;
        const coffer_status sent = device_queue_gather_some(device_queue, line, bytes, done, runs, err);
        if (sent != COFFER_OK) {
            return sent;
        }
        done += runs;
    }
    return COFFER_OK;
}

/* Runs backwards that are longer than a piece go one by one. A run of that length is worth a copy of its own, and
   turning it around in memory would need more space than there is. */
static coffer_status device_queue_backwards(coffer__device_queue *device_queue, const coffer__line *line,
                                            const uint8_t *bytes, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (uint64_t i = 0; i < line->runs && status == COFFER_OK; i++) {
        const uint64_t to = line->to + i * (uint64_t)line->to_step;
        status = device_queue_copy(
            device_queue, &(coffer__device_copy){ to, 0, bytes + i * line->from_step, 0, line->width, 1 }, err);
    }
    return status;
}

/* Whether a line is a run that goes on where the one that was kept back ends. */
static bool device_queue_continues(const coffer__device_queue *device_queue, const coffer__line *line,
                                   const uint8_t *bytes)
{
    const coffer__device_copy *pending = &device_queue->pending;
    return pending->rows == 1 && line->runs == 1 && bytes == pending->from + pending->width &&
           line->to == pending->to + pending->width;
}

/* Makes it a part of that, unless another allocation begins there. The driver is asked each time, as memory that was
   there before may have been given back. */
static coffer_status device_queue_join(coffer__device_queue *device_queue, const coffer__line *line, bool *joined,
                                       coffer_error *err)
{
    coffer_status status = COFFER_OK;
    if (device_queue->pending_end == 0) {
        status = device_queue->device->ops->end_of(device_queue->device, device_queue->pending.to,
                                                   &device_queue->pending_end, err);
    }
    *joined = status == COFFER_OK && line->to < device_queue->pending_end;
    device_queue->pending.width += *joined ? line->width : 0;
    return status;
}

/* The questions go from the usual case to the rare ones: most tensors are one run. */
static coffer_status device_queue_send(coffer__device_queue *device_queue, const coffer__line *line,
                                       const uint8_t *bytes, coffer_error *err)
{
    bool joined = false;
    coffer_status status = COFFER_OK;
    if (device_queue_continues(device_queue, line, bytes)) {
        status = device_queue_join(device_queue, line, &joined, err);
    }
    if (status == COFFER_OK && !joined) {
        status = device_queue_send_pending(device_queue, err);
    }
    if (status != COFFER_OK || joined) {
        return status;
    }
    if (line->runs == 1) {
        device_queue->pending = (coffer__device_copy){ line->to, 0, bytes, 0, line->width, 1 };
        device_queue->pending_end = 0;
        return COFFER_OK;
    }
    if (line->to_step < 0 && line->width > DEVICE_QUEUE_PART) {
        return device_queue_backwards(device_queue, line, bytes, err);
    }
    if (line->to_step < 0 || (line->width < DEVICE_QUEUE_NARROW && (uint64_t)line->to_step == line->width)) {
        return device_queue_gather(device_queue, line, bytes, err);
    }
    return device_queue_box(
        device_queue,
        (coffer__device_copy){ line->to, (uint64_t)line->to_step, bytes, line->from_step, line->width, line->runs },
        err);
}

coffer_status coffer__device_queue_send(coffer__device_queue *device_queue, const coffer__line *line,
                                        const uint8_t *bytes, coffer_error *err)
{
    coffer__device_visit visit;
    coffer_status status = device_queue->device->ops->enter(device_queue->device, &visit, err);
    if (status == COFFER_OK) {
        status = device_queue_send(device_queue, line, bytes, err);
        device_queue->device->ops->leave(device_queue->device, &visit);
    }
    return status;
}
