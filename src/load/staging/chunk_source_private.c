/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunk source of one process: slots of the staging buffer, filled by engines. Bytes that go to host memory as they
 * are, and are many enough, are read right to their destination; the rest of a chunk into its slot. A span of a chunk
 * becomes requests like this, where A and B are contiguous in memory, and C is small, or goes elsewhere:
 *
 *     span     |--------- A ---------|------ B ------|- C -|
 *     destination        |============================|              whole blocks of the file, where memory and file agree
 *     slot     |====|                           |==========|   what is left
 *
 * Byte `offset` of the file is at `offset - cell.begin` in the slot, which begins at a multiple of a cell. So direct
 * reading, which moves whole blocks, always agrees with a slot, and what it reads around a range stays within the slot.
 */
#include "alloc.h"
#include "chunk_source.h"
#include "error.h"
#include "file_readers.h"
#include "model.h"
#include "staging.h"

/* Bytes that are worth a read of their own: a call through the page cache, a request to the disk past it. */
#define PRIVATE_CACHED ((uint64_t)4 << 10)
#define PRIVATE_DIRECT ((uint64_t)128 << 10)
#define PRIVATE_DEVICE ((uint64_t)64 << 10)

/* `left` goes down as requests come back, and the chunk is whole when it is 0; `given` tells such a chunk from one
   that the worker has already, as both keep their slot. */
typedef struct private_slot {
    uint8_t *memory;      /* NULL: nothing was read into a slot yet */
    coffer__chunk *chunk; /* NULL: it is free */
    const coffer__file_reader *file_reader;
    coffer__request *requests;
    size_t count;
    size_t capacity;
    size_t left; /* requests that are in progress */
    bool given;  /* the chunk was given back by next */
} private_slot;

typedef struct private_chunk_source {
    coffer__chunk_source base;
    const coffer__chunk_sources *chunk_sources;
    coffer__range_reader *reader;
    coffer__file_reader
        latest; /* of the last chunk, a copy, since it may be closed meanwhile; no engine: there was none */
    private_slot *slots;
    size_t count;
    size_t first;  /* the slot of the staging buffer that is its first */
    size_t taken;  /* slots with a chunk */
    size_t coming; /* of them, those that were not given back by next */
} private_chunk_source;

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* A stretch of a span that goes to one destination: parts that follow each other in the file and in memory. */
typedef struct private_run {
    size_t first; /* part */
    size_t end;   /* the part after the last */
    coffer__file_span within;
    uint8_t *to;
    coffer_device *device;
    bool in_map;
} private_run;

/* An empty span is no request, which spares every caller the question. The array may move while requests are added;
   this is why none is submitted before the last was made. */
/* NOLINTBEGIN(readability-non-const-parameter): it is read to */
static coffer_status private_request(const private_chunk_source *own, private_slot *slot, coffer__file_span span,
                                     uint8_t *to, bool in_map, coffer_error *err)
/* NOLINTEND(readability-non-const-parameter) */
{
    if (span.end <= span.begin) {
        return COFFER_OK;
    }
    coffer__request *requests = coffer__grow_array(own->chunk_sources->allocator, slot->requests, slot->count,
                                                   &slot->capacity, sizeof *requests, err);
    if (requests == NULL) {
        return COFFER_ERR_MEMORY;
    }
    slot->requests = requests;
    requests[slot->count++] = (coffer__request){ .file_reader = slot->file_reader,
                                                 .offset = span.begin,
                                                 .size = (size_t)(span.end - span.begin),
                                                 .to = to,
                                                 .in_map = in_map,
                                                 .user = slot };
    return COFFER_OK;
}

/* The slots get their memory with the first span that is read into one. */
static coffer_status private_slots(const private_chunk_source *own, coffer_error *err)
{
    uint8_t *all = NULL;
    const coffer_status status = coffer__staging_slots(own->chunk_sources->staging, &all, err);
    for (size_t i = 0; status == COFFER_OK && i < own->count; i++) {
        own->slots[i].memory = all + (own->first + i) * (size_t)COFFER__CELL;
    }
    return status;
}

/* A span lies within the cell, so its distance from the cell's beginning is within the slot. */
static coffer_status private_to_slot(const private_chunk_source *own, private_slot *slot, coffer__file_span span,
                                     coffer_error *err)
{
    coffer_status status = COFFER_OK;
    if (span.end <= span.begin) {
        return COFFER_OK;
    }
    if (slot->memory == NULL) {
        status = private_slots(own, err);
    }
    return status != COFFER_OK
               ? status
               : private_request(own, slot, span, slot->memory + (size_t)(span.begin - slot->chunk->cell.begin), false,
                                 err);
}

/* The next run from part `first` on, which begins at `reached` at the earliest: no part that was there before reaches
   into it, and none that comes after it begins in it. False when part `first` begins none. Both hold because bytes that
   are read to a destination are not read to the slot: another part that wants them too, from the slot, would find
   nothing there. So only bytes that exactly one run wants may skip the slot. Parts that follow each other in the file
   and in memory, such as small tensors of one stretch, are one run, and become one request. */
static bool private_find_run(const coffer__chunk *chunk, size_t first, uint64_t reached, private_run *run)
{
    const coffer__chunk_part *part = &chunk->parts[first];
    *run = (private_run){
        .first = first,
        .end = first + 1,
        .within = part->within,
        .to = part->to,
        .device = part->device,
        .in_map = part->in_map,
    };
    if (part->to == NULL || part->within.begin < reached) {
        return false;
    }
    while (run->end < chunk->part_count) {
        const coffer__chunk_part *next = &chunk->parts[run->end];
        if (next->device != run->device || next->in_map != run->in_map ||
            next->to != run->to + (size_t)(run->within.end - run->within.begin) ||
            next->within.begin != run->within.end) {
            break;
        }
        run->within.end = next->within.end;
        run->end++;
    }
    return run->end == chunk->part_count || chunk->parts[run->end].within.begin >= run->within.end;
}

/* The blocks of a run that can be read to their destination, if they are worth it. They are when they are the whole
   span, which is one request in any case. Blocks of the file that lie wholly in the run are all that direct reading can
   destination, since it writes whole blocks and would overwrite what lies before and after the run in memory. cuFile
   has no such bounds for the addresses, so to a device it is all of the run or none of it. */
static bool private_placeable(const private_slot *slot, const private_run *run, const coffer__file_span *span,
                              coffer__file_span *destination)
{
    const uint64_t least = slot->file_reader->block > 1 ? PRIVATE_DIRECT : PRIVATE_CACHED;
    if (run->device != NULL) {
        *destination = run->within;
        return run->within.end - run->within.begin >= PRIVATE_DEVICE;
    }
    uint64_t offset = run->within.begin;
    uint64_t size = run->within.end - run->within.begin;
    coffer__file_reader_within(slot->file_reader, run->to, &offset, &size);
    *destination = (coffer__file_span){ offset, offset + size };
    return size >= least || run->in_map || (size > 0 && size == span->end - span->begin);
}

/* Tells the parts of a run which of their bytes are at their destination. The run may be of several parts, and the
   destination may begin within the first and end within the last, so each part gets its own share of it. */
static void private_mark(coffer__chunk *chunk, const private_run *run, const coffer__file_span *destination)
{
    for (size_t i = run->first; i < run->end; i++) {
        coffer__chunk_part *part = &chunk->parts[i];
        const uint64_t begin = part->within.begin > destination->begin ? part->within.begin : destination->begin;
        const uint64_t end = part->within.end < destination->end ? part->within.end : destination->end;
        if (begin < end) {
            part->there = (coffer__file_span){ begin, end };
        }
    }
}

/* Where the making of a chunk's requests is. The four together say what is still to be asked for: everything in the
   slot from `from` to `wanted`, and the parts from `next` on. */
typedef struct private_cursor {
    size_t next;      /* the first part that was not looked at */
    uint64_t reached; /* to where those that were looked at reach */
    uint64_t from;    /* what lies before it was asked for, or is not needed */
    uint64_t wanted;  /* from there to here bytes are needed in the slot; not above `from`: none are */
} private_cursor;

/* Bytes from `begin` to `end` are needed in the slot. What lies between them and those before is read with them,
   unless there are none before. */
static void private_want(private_cursor *cursor, uint64_t begin, uint64_t end)
{
    if (cursor->wanted <= cursor->from && begin > cursor->from) {
        cursor->from = begin;
    }
    cursor->wanted = end > cursor->wanted ? end : cursor->wanted;
}

/* Reads a run to its destination on a device, now: cuFile waits for it. It is counted here, because no request of it
   comes back by the reader. The file reader is in use by this chunk, so it cannot be closed meanwhile. */
static coffer_status private_to_device(const private_chunk_source *own, const private_slot *slot,
                                       const private_run *run, coffer_error *err)
{
    coffer__chunk *chunk = slot->chunk;
    const uint64_t size = run->within.end - run->within.begin;
    chunk->counts.requests++;
    chunk->counts.read += size;
    chunk->counts.direct += size;
    chunk->counts.engines |= 1u << (unsigned)COFFER_ENGINE_CUFILE;
    return coffer__file_readers_read_to(own->chunk_sources->file_readers, chunk->shard, run->device, run->within,
                                        (uintptr_t)run->to, err);
}

/* Makes the requests of a run that is read to its destination: what is needed before it goes to the slot, with the
   bytes before its first whole block. Those after its last one are wanted from now on. What is in the slot from `from`
   to `wanted` is one request, though it may contain gaps between parts: the schedule has found that reading them costs
   less than another request. */
static coffer_status private_destination(const private_chunk_source *own, private_slot *slot, private_cursor *cursor,
                                         const private_run *run, const coffer__file_span *destination,
                                         coffer_error *err)
{
    if (destination->begin > run->within.begin) {
        private_want(cursor, run->within.begin, destination->begin);
    }
    coffer_status status = private_to_slot(own, slot, (coffer__file_span){ cursor->from, cursor->wanted }, err);
    if (status == COFFER_OK && run->device != NULL) {
        status = private_to_device(own, slot, run, err);
    } else if (status == COFFER_OK) {
        uint8_t *to = run->to + (size_t)(destination->begin - run->within.begin);
        status = private_request(own, slot, *destination, to, run->in_map, err);
    }
    private_mark(slot->chunk, run, destination);
    cursor->from = destination->end;
    cursor->wanted = run->within.end;
    return status;
}

/* The parts are in the order in which they begin, and a part whose bytes go on in the next span has been looked at
   in this one. So the cursor goes over the parts once for all spans; `reached` tells how far those already looked
   at still want bytes of the slot. What is wanted beyond the span's end is not read here, since it is a gap or part
   of the next span. */
static coffer_status private_span(const private_chunk_source *own, private_slot *slot, const coffer__file_span *span,
                                  private_cursor *cursor, coffer_error *err)
{
    const coffer__chunk *chunk = slot->chunk;
    cursor->from = span->begin;
    cursor->wanted = cursor->reached; /* a part with gaps may reach over several spans */
    while (cursor->next < chunk->part_count && chunk->parts[cursor->next].within.begin < span->end) {
        private_run run;
        coffer__file_span destination;
        const bool found = private_find_run(chunk, cursor->next, cursor->reached, &run);
        if (found && private_placeable(slot, &run, span, &destination)) {
            const coffer_status status = private_destination(own, slot, cursor, &run, &destination, err);
            if (status != COFFER_OK) {
                return status;
            }
        } else {
            run.end = found ? run.end : cursor->next + 1;
            run.within = found ? run.within : chunk->parts[cursor->next].within;
            private_want(cursor, run.within.begin, run.within.end);
        }
        cursor->reached = run.within.end > cursor->reached ? run.within.end : cursor->reached;
        cursor->next = run.end;
    }
    const uint64_t end = cursor->wanted < span->end ? cursor->wanted : span->end;
    return private_to_slot(own, slot, (coffer__file_span){ cursor->from, end }, err);
}

/* The array of the slot's last chunk is filled again. The cursor is one for all spans of the chunk, because a part
   may reach over several. */
static coffer_status private_requests(const private_chunk_source *own, private_slot *slot, coffer_error *err)
{
    private_cursor cursor = { .next = 0 };
    slot->count = 0;
    for (size_t i = 0; i < slot->chunk->span_count; i++) {
        const coffer_status status = private_span(own, slot, &slot->chunk->spans[i], &cursor, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    slot->left = slot->count;
    return COFFER_OK;
}

/* ---- the chunk source -------------------------------------------------------------------------------------------- */

/* The engine is asked as well as the slots: an engine that reads at once, by the calling thread, wants few chunks
   ahead, since each would delay the delivery of the last one. The file reader of the last chunk stands for that of the
   next, which mostly is of the same file. */
static bool private_has_capacity(const coffer__chunk_source *chunk_source)
{
    const private_chunk_source *own = (const private_chunk_source *)chunk_source;
    return own->taken < own->count &&
           (own->latest.engine == NULL || coffer__range_reader_wants(own->reader, &own->latest));
}

/* Which engines read a chunk. Of a file that is mapped, what cannot be part of the map is read through the page cache. */
static uint32_t private_engines(const private_chunk_source *own, const private_slot *slot)
{
    const coffer_engine engine = coffer__file_reader_engine(slot->file_reader);
    uint32_t engines = 0;
    if (coffer__file_readers_is_served(own->chunk_sources->file_readers, slot->chunk->shard)) {
        return 0;
    }
    if (engine != COFFER_ENGINE_MAPPED) {
        return UINT32_C(1) << (unsigned)engine;
    }
    for (size_t i = 0; i < slot->count; i++) {
        engines |= UINT32_C(1) << (unsigned)(slot->requests[i].in_map ? COFFER_ENGINE_MAPPED : COFFER_ENGINE_BUFFERED);
    }
    return engines;
}

/* Requests stay where they are while they are in progress, so all of them are made before the first is submitted. The
   slot counts as taken, and its file reader as used, before anything can fail: private_close gives the file reader back
   for each slot that has a chunk, whether its requests were made or not. */
static coffer_status private_submit(coffer__chunk_source *chunk_source, coffer__chunk *chunk, coffer_error *err)
{
    private_chunk_source *own = (private_chunk_source *)chunk_source;
    private_slot *slot = own->slots;
    if (own->taken == own->count) {
        return COFFER_NEED_MORE;
    }
    while (slot->chunk != NULL) {
        slot++;
    }
    coffer_status status =
        coffer__file_readers_use(own->chunk_sources->file_readers, chunk->shard, &slot->file_reader, err);
    if (status != COFFER_OK) {
        return status;
    }
    slot->chunk = chunk;
    slot->given = false;
    own->latest = *slot->file_reader;
    own->taken++;
    own->coming++;
    chunk->own = slot;
    chunk->counts = (coffer__chunk_counts){ .requests = 0 };
    status = private_requests(own, slot, err);
    chunk->bytes = slot->memory;
    chunk->counts.engines |= private_engines(own, slot);
    for (size_t i = 0; status == COFFER_OK && i < slot->count; i++) {
        coffer__range_reader_submit(own->reader, &slot->requests[i]);
    }
    return status;
}

/* Gives back the chunk of a slot that has all it waits for. It keeps its slot until it is released. */
static coffer__chunk *private_give(private_chunk_source *own, private_slot *slot)
{
    slot->given = true;
    own->coming--;
    slot->chunk->gap = coffer__range_reader_gap(own->reader, slot->file_reader);
    return slot->chunk;
}

/* A slot whose chunk needed no requests, since all of it went to a device; NULL: none. It is asked for only while
   something is to come, and there are few slots. */
static private_slot *private_without_requests(const private_chunk_source *own)
{
    for (size_t i = 0; i < own->count; i++) {
        private_slot *slot = &own->slots[i];
        if (slot->chunk != NULL && !slot->given && slot->count == 0) {
            return slot;
        }
    }
    return NULL;
}

/* Requests come back in any order, and those of several chunks are mixed; a chunk is given back with its last one.
   One whose requests are none would never come back that way, so it is looked for first. After a failure the chunk
   stays where it is, in its slot: closing the chunk source waits for what is still being read into it. */
static coffer_status private_next(coffer__chunk_source *chunk_source, bool wait, coffer__chunk **chunk,
                                  coffer_error *err)
{
    private_chunk_source *own = (private_chunk_source *)chunk_source;
    private_slot *empty = own->coming > 0 ? private_without_requests(own) : NULL;
    *chunk = empty == NULL ? NULL : private_give(own, empty);
    while (own->coming > 0 && *chunk == NULL) {
        coffer__request *done = NULL;
        const coffer_status status = coffer__range_reader_reap(own->reader, wait, &done, err);
        if (done == NULL) {
            return status;
        }
        private_slot *slot = done->user;
        if (status != COFFER_OK) {
            const char *path = own->chunk_sources->model->shards[slot->chunk->shard].path;
            return path == NULL ? status : coffer__fail_path(err, status, path);
        }
        slot->chunk->counts.requests++;
        slot->chunk->counts.read += done->read;
        slot->chunk->counts.cached += done->cached;
        slot->chunk->counts.direct += done->direct;
        slot->left--;
        if (slot->left == 0) {
            *chunk = private_give(own, slot);
        }
    }
    return COFFER_OK;
}

/* The file reader may be closed from now on, to make space for that of another file. */
static void private_release(coffer__chunk_source *chunk_source, coffer__chunk *chunk)
{
    private_chunk_source *own = (private_chunk_source *)chunk_source;
    private_slot *slot = chunk->own;
    coffer__file_readers_leave(own->chunk_sources->file_readers, chunk->shard);
    slot->chunk = NULL;
    own->taken--;
}

/* The reader goes first: the system may still be reading into slots and destinations. */
static void private_close(coffer__chunk_source *chunk_source)
{
    private_chunk_source *own = (private_chunk_source *)chunk_source;
    const coffer_allocator *allocator = own->chunk_sources->allocator;
    coffer__range_reader_free(own->reader);
    for (size_t i = 0; i < own->count; i++) {
        private_slot *slot = &own->slots[i];
        if (slot->chunk != NULL) {
            coffer__file_readers_leave(own->chunk_sources->file_readers, slot->chunk->shard);
        }
        coffer__free(allocator, slot->requests, slot->capacity * sizeof *slot->requests);
    }
    coffer__free_array(allocator, own->slots, own->count, sizeof *own->slots);
    coffer__free(allocator, own, sizeof *own);
}

static const coffer__chunk_source_ops private_ops = { .name = "private",
                                                      .has_capacity = private_has_capacity,
                                                      .submit = private_submit,
                                                      .next = private_next,
                                                      .release = private_release,
                                                      .close = private_close };

/* The slots of a staging buffer are divided evenly among the chunk sources of a load. Workers have fixed slots, so they
   need no lock for taking one. The depth is as many requests as there are slots, up to what a ring can have; a chunk of
   several requests queues the rest. */
static coffer_status private_fill(private_chunk_source *own, size_t worker, const coffer__watch *watch,
                                  coffer_error *err)
{
    const coffer__chunk_sources *chunk_sources = own->chunk_sources;
    const size_t share = chunk_sources->staging->slot_count / chunk_sources->workers;
    const coffer__range_reader_options options = { .allocator = chunk_sources->allocator,
                                                   .watch = watch,
                                                   .depth = (uint32_t)(share < 4096 ? share : 4096) };
    own->slots = coffer__alloc_array(chunk_sources->allocator, share, sizeof *own->slots, err);
    if (own->slots == NULL) {
        return COFFER_ERR_MEMORY;
    }
    own->count = share;
    own->first = worker * share;
    return coffer__range_reader_new(&own->reader, &options, err);
}

/* The chunk source is closed by its own function if it cannot be filled, so that function takes one of which anything
   is missing. */
coffer_status coffer__chunk_source_private(coffer__chunk_source **chunk_source,
                                           const coffer__chunk_sources *chunk_sources, size_t worker,
                                           const coffer__watch *watch, coffer_error *err)
{
    private_chunk_source *own = coffer__alloc_zeroed(chunk_sources->allocator, sizeof *own);
    if (own == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for reading");
    }
    own->base.ops = &private_ops;
    own->chunk_sources = chunk_sources;
    const coffer_status status = private_fill(own, worker, watch, err);
    if (status != COFFER_OK) {
        private_close(&own->base);
        return status;
    }
    *chunk_source = &own->base;
    return COFFER_OK;
}
