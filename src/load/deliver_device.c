/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines to a device. They are queued on the outlet's lane; a ticket is the number of a mark on it. Marks are used in turn, so
 * no more than OUTLET_MARKS tickets can be open; older ones are waited for.
 *
 * Most lines are copied as they are, as a run or a box of runs. A run is kept back until the next line is known: small
 * tensors that follow each other in the file mostly do so on the device, and then go there as one, since a device is
 * asked for tens of thousands of copies no faster than it is for gigabytes. Two sorts are gathered first, in memory of the
 * outlet:
 *
 *   - narrow runs that go to contiguous bytes, since a device takes about as long for a short run as for a long one;
 *   - runs that go backwards, since boxes do not.
 *
 *   pieces   | … sealed, ticket 7 | … sealed, ticket 8 | being filled → | free |
 *
 * The outlet's memory has pieces that are filled one after the other. A full one gets a ticket, and is filled again when that
 * was reached.
 */
#include "deliver.h"

#include "alloc.h"
#include "device.h"
#include "error.h"

#include <string.h>

#define OUTLET_MARKS 64u
#define OUTLET_PIECES 4u
#define OUTLET_PIECE ((size_t)256 << 10)
#define OUTLET_PART (OUTLET_PIECE / 8) /* the longest run that is gathered with others */
/* Runs below this many bytes are gathered. A processor gathers some gigabytes each second whatever their width, and
   devices copy boxes of such runs no faster than that. */
#define OUTLET_NARROW 512u
/* The largest step of a box; drivers refuse more. */
#define OUTLET_STEP ((uint64_t)INT32_MAX)
/* One thread uses it, so nothing here is locked. What is queued on the lane is done in order, which is why a single
   mark can stand for all that was sent before it. */
struct coffer__outlet {
    coffer_allocator allocator;
    coffer_device *device;
    coffer__lane *lane;
    coffer__mark *marks[OUTLET_MARKS]; /* of ticket t: t modulo OUTLET_MARKS; made when they are first needed */
    uint64_t issued;                   /* the last ticket; 0: none */
    uint64_t reached;                  /* all up to this one */
    bool sent;                         /* something that no ticket covers */
    coffer__copy pending;              /* one run that is not queued yet; no rows: none */
    uint64_t pending_end;              /* of the allocation that it goes to; 0: was not asked */
    uint64_t *streams;                 /* of the caller's, that the lane waits for */
    size_t stream_count;
    size_t stream_room;
    uint8_t *pieces; /* NULL: none are needed yet */
    bool registered; /* they are, by this outlet */
    size_t piece;    /* the one that is being filled … */
    size_t used;     /* … and how much of it is */
    uint64_t sealed[OUTLET_PIECES];
};

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

/* Nothing but the lane is made here: marks and pieces come when they are needed, since many outlets send a few runs
   that are copied as they are. */
coffer_status coffer__outlet_open(coffer__outlet **outlet, coffer_device *device, const coffer_allocator *allocator,
                                  coffer_error *err)
{
    coffer__device_visit visit;
    coffer__outlet *made = coffer__alloc_array(allocator, 1, sizeof *made, err);
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
    *outlet = made;
    return COFFER_OK;
}

/* The lane first: when it is empty, nothing of the rest is in use. A lost device holds none of this any more. */
void coffer__outlet_close(coffer__outlet *outlet)
{
    coffer__device_visit visit;
    if (outlet == NULL) {
        return;
    }
    coffer_device *device = outlet->device;
    if (coffer__device_enter_to_release(device, &visit)) {
        device->ops->lane_free(device, outlet->lane);
        for (size_t i = 0; i < OUTLET_MARKS; i++) {
            device->ops->mark_free(device, outlet->marks[i]);
        }
        if (outlet->registered) {
            device->ops->forget_host(device, outlet->pieces);
        }
        device->ops->leave(device, &visit);
    }
    if (outlet->pieces != NULL) {
        coffer__os_pages_free(outlet->pieces, OUTLET_PIECES * OUTLET_PIECE);
    }
    const coffer_allocator allocator = outlet->allocator;
    coffer__free(&allocator, outlet->streams, outlet->stream_room * sizeof *outlet->streams);
    coffer__free_array(&allocator, outlet, 1, sizeof *outlet);
}

/* ---- tickets ----------------------------------------------------------------------------------------------------- */

/* All of these are called when the device was entered. Marks of one lane are reached in the order in which they
   were set, so a ticket that was reached stands for all before it, and `reached` never goes back. */
static coffer_status outlet_wait(coffer__outlet *outlet, uint64_t ticket, bool wait, coffer_error *err)
{
    if (ticket <= outlet->reached) {
        return COFFER_OK;
    }
    coffer__mark *mark = outlet->marks[ticket % OUTLET_MARKS];
    const coffer_status status = outlet->device->ops->mark_reached(outlet->device, mark, wait, err);
    if (status == COFFER_OK) {
        outlet->reached = ticket;
    }
    return status;
}

/* A copy that failed may have been queued in part, so it counts as sent in any case. */
static coffer_status outlet_copy(coffer__outlet *outlet, const coffer__copy *copy, coffer_error *err)
{
    outlet->sent = true;
    return outlet->device->ops->copy(outlet->device, outlet->lane, copy, err);
}

/* Queues the run that was kept back. */
static coffer_status outlet_send_pending(coffer__outlet *outlet, coffer_error *err)
{
    const coffer__copy pending = outlet->pending;
    outlet->pending.rows = 0;
    return pending.rows == 0 ? COFFER_OK : outlet_copy(outlet, &pending, err);
}

/* Where nothing was sent since the last ticket that one says as much, and no mark is spent. A mark can only be set
   again when what it was set for before has been reached, or a wait for the old ticket would become one for the
   new. */
static coffer_status outlet_mark(coffer__outlet *outlet, uint64_t *ticket, coffer_error *err)
{
    coffer_device *device = outlet->device;
    coffer_status status = outlet_send_pending(outlet, err);
    if (!outlet->sent) {
        *ticket = outlet->issued;
        return COFFER_OK;
    }
    const uint64_t number = outlet->issued + 1;
    coffer__mark **mark = &outlet->marks[number % OUTLET_MARKS];
    if (status == COFFER_OK && number > OUTLET_MARKS) {
        status = outlet_wait(outlet, number - OUTLET_MARKS, true, err);
    }
    if (status == COFFER_OK && *mark == NULL) {
        status = device->ops->mark_new(device, mark, err);
    }
    if (status == COFFER_OK) {
        status = device->ops->mark_lane(device, *mark, outlet->lane, err);
    }
    if (status == COFFER_OK) {
        outlet->issued = number;
        outlet->sent = false;
        *ticket = number;
    }
    return status;
}

coffer_status coffer__outlet_ticket(coffer__outlet *outlet, uint64_t *ticket, coffer_error *err)
{
    coffer__device_visit visit;
    coffer_status status = outlet->device->ops->enter(outlet->device, &visit, err);
    if (status == COFFER_OK) {
        status = outlet_mark(outlet, ticket, err);
        outlet->device->ops->leave(outlet->device, &visit);
    }
    return status;
}

/* A ticket that is known to be reached is answered without entering the device, which is a call of the driver. */
coffer_status coffer__outlet_reached(coffer__outlet *outlet, uint64_t ticket, bool wait, coffer_error *err)
{
    coffer__device_visit visit;
    if (ticket <= outlet->reached) {
        return COFFER_OK;
    }
    coffer_status status = outlet->device->ops->enter(outlet->device, &visit, err);
    if (status == COFFER_OK) {
        status = outlet_wait(outlet, ticket, wait, err);
        outlet->device->ops->leave(outlet->device, &visit);
    }
    return status;
}

/* ---- the caller's streams ---------------------------------------------------------------------------------------- */

/* A load has few streams, mostly one. */
static bool outlet_waits_for(const coffer__outlet *outlet, uint64_t stream)
{
    for (size_t i = 0; i < outlet->stream_count; i++) {
        if (outlet->streams[i] == stream) {
            return true;
        }
    }
    return false;
}

/* The mark goes at once: the driver keeps what was asked of it. The lane waits on the device, not the worker on the
   host: the caller's stream may have much to do, and reading goes on meanwhile. */
static coffer_status outlet_order(coffer__outlet *outlet, uint64_t stream, coffer_error *err)
{
    coffer_device *device = outlet->device;
    coffer__mark *mark = NULL;
    coffer_status status = device->ops->mark_new(device, &mark, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = device->ops->mark_stream(device, mark, stream, err);
    if (status == COFFER_OK) {
        status = device->ops->lane_after(device, outlet->lane, mark, err);
    }
    device->ops->mark_free(device, mark);
    return status;
}

/* Room for the stream is made first: once the lane waits for it, it must be remembered without fail. */
coffer_status coffer__outlet_after(coffer__outlet *outlet, uint64_t stream, coffer_error *err)
{
    coffer__device_visit visit;
    if (outlet_waits_for(outlet, stream)) {
        return COFFER_OK;
    }
    uint64_t *streams = coffer__grow_array(&outlet->allocator, outlet->streams, outlet->stream_count,
                                           &outlet->stream_room, sizeof *streams, err);
    if (streams == NULL) {
        return COFFER_ERR_MEMORY;
    }
    outlet->streams = streams;
    coffer_status status = outlet->device->ops->enter(outlet->device, &visit, err);
    if (status == COFFER_OK) {
        status = outlet_order(outlet, stream, err);
        outlet->device->ops->leave(outlet->device, &visit);
    }
    if (status == COFFER_OK) {
        streams[outlet->stream_count++] = stream;
    }
    return status;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* A box, or its runs one by one where the driver would refuse the box. */
static coffer_status outlet_box(coffer__outlet *outlet, coffer__copy box, coffer_error *err)
{
    if (box.rows == 1 || (box.to_step <= OUTLET_STEP && box.from_step <= OUTLET_STEP)) {
        return outlet_copy(outlet, &box, err);
    }
    coffer_status status = COFFER_OK;
    for (uint64_t left = box.rows; left > 0 && status == COFFER_OK; left--) {
        box.rows = 1;
        status = outlet_copy(outlet, &box, err);
        box.to += box.to_step;
        box.from += box.from_step;
    }
    return status;
}

/* The pieces come when they are first needed. Copies from them work whether they are registered or not. Failing to
   register them is remembered as not registered, and not tried again for this outlet. */
static coffer_status outlet_make_pieces(coffer__outlet *outlet, coffer_error *err)
{
    coffer_device *device = outlet->device;
    const size_t size = OUTLET_PIECES * OUTLET_PIECE;
    outlet->pieces = coffer__os_pages_new(size);
    if (outlet->pieces == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to gather the bytes for %s", device->words);
    }
    const coffer_status status = device->ops->register_host(device, outlet->pieces, size, &outlet->registered, err);
    return status == COFFER_ERR_UNSUPPORTED ? COFFER_OK : status;
}

/* Makes room for at least `width` bytes, at most a piece; *room is how much there is. What is left of the old piece
   is not used: a run is never cut here. The next piece was sealed earliest, so the wait for it is mostly over
   before it begins; its ticket is 0 the first time, which is always reached. */
static coffer_status outlet_room(coffer__outlet *outlet, uint64_t width, size_t *room, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    if (outlet->pieces == NULL) {
        status = outlet_make_pieces(outlet, err);
    }
    if (status == COFFER_OK && width > OUTLET_PIECE - outlet->used) {
        status = outlet_mark(outlet, &outlet->sealed[outlet->piece], err);
        outlet->piece = (outlet->piece + 1) % OUTLET_PIECES;
        outlet->used = 0;
        if (status == COFFER_OK) {
            status = outlet_wait(outlet, outlet->sealed[outlet->piece], true, err);
        }
    }
    *room = OUTLET_PIECE - outlet->used;
    return status;
}

/* Gathers as many runs as there is room for, and sends them. The last of them comes first where the line goes
   backwards, so that what is sent goes forwards. The bytes stay in the piece until a ticket that comes later was
   reached, so the chunk's slot is not needed for them any more. Packed runs are contiguous in the piece; whether
   they are on the device depends on the step there, and then one copy does for all of them. */
static coffer_status outlet_gather_some(coffer__outlet *outlet, const coffer__line *line, const uint8_t *bytes,
                                        uint64_t first, uint64_t runs, coffer_error *err)
{
    const bool backwards = line->to_step < 0;
    const uint64_t step = backwards ? 0 - (uint64_t)line->to_step : (uint64_t)line->to_step;
    uint8_t *start = outlet->pieces + outlet->piece * OUTLET_PIECE + outlet->used;
    const coffer__line packed = {
        .from_step = line->from_step,
        .to = (uintptr_t)(backwards ? start + (runs - 1) * line->width : start),
        .to_step = backwards ? -(int64_t)line->width : (int64_t)line->width,
        .width = line->width,
        .runs = runs,
    };
    coffer__deliver_host(&packed, bytes + first * line->from_step);
    outlet->used += (size_t)(runs * line->width);
    const uint64_t lowest = backwards ? line->to - (first + runs - 1) * step : line->to + first * step;
    if (step == line->width) {
        return outlet_copy(outlet, &(coffer__copy){ lowest, 0, start, 0, runs * line->width, 1 }, err);
    }
    return outlet_box(outlet, (coffer__copy){ lowest, step, start, line->width, line->width, runs }, err);
}

/* outlet_room makes sure of room for one run at least, so each round sends something. */
static coffer_status outlet_gather(coffer__outlet *outlet, const coffer__line *line, const uint8_t *bytes,
                                   coffer_error *err)
{
    uint64_t done = 0;
    while (done < line->runs) {
        size_t room = 0;
        const coffer_status status = outlet_room(outlet, line->width, &room, err);
        if (status != COFFER_OK) {
            return status;
        }
        const uint64_t left = line->runs - done;
        const uint64_t fit = room / line->width;
        const uint64_t runs = left < fit ? left : fit;
        const coffer_status sent = outlet_gather_some(outlet, line, bytes, done, runs, err);
        if (sent != COFFER_OK) {
            return sent;
        }
        done += runs;
    }
    return COFFER_OK;
}

/* Runs backwards that are longer than a piece go one by one. A run of that length is worth a copy of its own, and
   turning it around in memory would need more room than there is. */
static coffer_status outlet_backwards(coffer__outlet *outlet, const coffer__line *line, const uint8_t *bytes,
                                      coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (uint64_t i = 0; i < line->runs && status == COFFER_OK; i++) {
        const uint64_t to = line->to + i * (uint64_t)line->to_step;
        status = outlet_copy(outlet, &(coffer__copy){ to, 0, bytes + i * line->from_step, 0, line->width, 1 }, err);
    }
    return status;
}

/* Whether a line is a run that goes on where the one that was kept back ends. */
static bool outlet_continues(const coffer__outlet *outlet, const coffer__line *line, const uint8_t *bytes)
{
    const coffer__copy *pending = &outlet->pending;
    return pending->rows == 1 && line->runs == 1 && bytes == pending->from + pending->width &&
           line->to == pending->to + pending->width;
}

/* Makes it a part of that, unless another allocation begins there. The driver is asked each time, as memory that was
   there before may have been given back. */
static coffer_status outlet_join(coffer__outlet *outlet, const coffer__line *line, bool *joined, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    if (outlet->pending_end == 0) {
        status = outlet->device->ops->end_of(outlet->device, outlet->pending.to, &outlet->pending_end, err);
    }
    *joined = status == COFFER_OK && line->to < outlet->pending_end;
    outlet->pending.width += *joined ? line->width : 0;
    return status;
}

/* The questions go from the usual case to the rare ones: most tensors are one run. */
static coffer_status outlet_send(coffer__outlet *outlet, const coffer__line *line, const uint8_t *bytes,
                                 coffer_error *err)
{
    bool joined = false;
    coffer_status status = COFFER_OK;
    if (outlet_continues(outlet, line, bytes)) {
        status = outlet_join(outlet, line, &joined, err);
    }
    if (status == COFFER_OK && !joined) {
        status = outlet_send_pending(outlet, err);
    }
    if (status != COFFER_OK || joined) {
        return status;
    }
    if (line->runs == 1) {
        outlet->pending = (coffer__copy){ line->to, 0, bytes, 0, line->width, 1 };
        outlet->pending_end = 0;
        return COFFER_OK;
    }
    if (line->to_step < 0 && line->width > OUTLET_PART) {
        return outlet_backwards(outlet, line, bytes, err);
    }
    if (line->to_step < 0 || (line->width < OUTLET_NARROW && (uint64_t)line->to_step == line->width)) {
        return outlet_gather(outlet, line, bytes, err);
    }
    return outlet_box(
        outlet, (coffer__copy){ line->to, (uint64_t)line->to_step, bytes, line->from_step, line->width, line->runs },
        err);
}

coffer_status coffer__outlet_send(coffer__outlet *outlet, const coffer__line *line, const uint8_t *bytes,
                                  coffer_error *err)
{
    coffer__device_visit visit;
    coffer_status status = outlet->device->ops->enter(outlet->device, &visit, err);
    if (status == COFFER_OK) {
        status = outlet_send(outlet, line, bytes, err);
        outlet->device->ops->leave(outlet->device, &visit);
    }
    return status;
}
