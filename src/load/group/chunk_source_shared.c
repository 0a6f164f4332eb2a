/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunk source of a process that loads together with others: a cell that several of them want is read by one, into
 * memory that all of them have, and taken from there by each.
 *
 * Below it is a private chunk source, `alone`, which does all reading: of what this process reads for all, right into
 * the shared buffers, and of what it reads for itself. The first are claims, made as chunks of this file's own.
 *
 *   submit ──► shared ──────────── the cell is there ──► next
 *     │           └── it will not be ──►┐
 *     └──► alone ──────────────────► read alone ───────► next
 *
 * While chunks of its worker are in progress, and none is there yet, the chunk source claims whatever cell is next for
 * anybody. So reading goes on as long as any process waits, and the fastest reads most.
 */
#include "chunk_source_shared.h"

#include "alloc.h"
#include "error.h"
#include "group.h"
#include "model.h"

#include <string.h>

/* Runs of blocks in a cell, at most. */
#define SHARED_RUNS 16

/* It has space for its spans and parts in itself, as it stays where it is while the private chunk source has it, and is
   used again for the next cell. */
typedef struct shared_claim {
    coffer__chunk chunk; /* as the private chunk source sees it */
    coffer__file_span spans[SHARED_RUNS];
    coffer__chunk_part parts[SHARED_RUNS];
    coffer__group_claim is;
    bool busy; /* it is claimed, … */
    bool sent; /* … and the private chunk source has it */
} shared_claim;

/* The four counts say where the worker's chunks are, and what `alone` has: from them follows whether there is
   anything to wait for, and whether waiting for it can end. */
typedef struct shared_chunk_source {
    coffer__chunk_source chunk_source;
    const coffer__chunk_sources *chunk_sources;
    coffer__group *group;
    coffer__chunk_source *alone;
    const coffer__watch *watch;
    uint32_t *first;        /* of each shard, the number of its first cell; one more at the end */
    coffer__chunk *waiting; /* shared chunks, in the order in which they came */
    coffer__chunk *parting; /* chunks that are to be read alone after all, and that `alone` has no space for yet */
    size_t waiting_count;
    size_t waiting_most;
    size_t alone_count; /* the worker's chunks that `alone` has */
    size_t held;        /* chunks that were handed out and are not released */
    size_t claims_sent;
    size_t claim_count;
    shared_claim *claims;
    coffer__chunk_counts carried; /* what was read for claims, to be told with the next chunk */
} shared_chunk_source;

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* The numbers follow from the sizes of the files alone, so all processes of a group come to the same ones without a
   word between them. Each file has a cell more than it fills: a file whose size is a multiple of a cell has one
   that nobody ever wants, which costs two words and spares a case. The number is bounded before it is used; the 32
   bits may wrap only where the result is 0, and then there is no group. */
size_t coffer__shared_cells(const coffer *model, uint32_t *first)
{
    uint64_t count = 0;
    for (size_t i = 0; i < model->shard_count; i++) {
        if (first != NULL) {
            first[i] = (uint32_t)count;
        }
        count += model->shards[i].source.size / COFFER__CELL + 1;
    }
    if (first != NULL) {
        first[model->shard_count] = (uint32_t)count;
    }
    return count < COFFER__GROUP_MAX_CELLS ? (size_t)count : 0;
}

uint32_t coffer__shared_cell(const coffer__chunk *chunk, const uint32_t *first)
{
    return first[chunk->shard] + (uint32_t)(chunk->cell.begin / COFFER__CELL);
}

/* Spans are rounded outwards to blocks, so that the blocks of a claim have every byte that was asked for. A block
   is a cell's 32nd part, and no span reaches out of its cell, so the shift stays below 32. */
uint32_t coffer__shared_blocks(const coffer__chunk *chunk)
{
    uint32_t blocks = 0;
    for (size_t i = 0; i < chunk->span_count; i++) {
        const uint64_t from = (chunk->spans[i].begin - chunk->cell.begin) / COFFER__GROUP_BLOCK;
        const uint64_t to = (chunk->spans[i].end - chunk->cell.begin + COFFER__GROUP_BLOCK - 1) / COFFER__GROUP_BLOCK;
        for (uint64_t block = from; block < to; block++) {
            blocks |= UINT32_C(1) << block;
        }
    }
    return blocks;
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

/* Bisection: first[low] <= cell < first[high] holds throughout, as the numbers ascend and each shard has a cell at
   least. */
static size_t shared_shard_of(const shared_chunk_source *chunk_source, uint32_t cell)
{
    size_t low = 0;
    size_t high = chunk_source->chunk_sources->model->shard_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        *(chunk_source->first[middle] <= cell ? &low : &high) = middle;
    }
    return low;
}

/* Makes a chunk of a claim: each run of blocks is a span, and a part that goes to the shared buffer as it is. A claim's
   blocks come from memory that any rank may write, so nothing is taken for granted of them: blocks beyond the file's
   end are left out, and there are at most 16 runs in 32 bits, which is the space of the lists. The private chunk source
   then reads the parts right to the shared buffer, and by way of its own slot only what is too small or not whole
   blocks. */
static void shared_describe(shared_chunk_source *chunk_source, shared_claim *claim)
{
    coffer__chunk *chunk = &claim->chunk;
    const size_t shard = shared_shard_of(chunk_source, claim->is.cell);
    const uint64_t begin = (uint64_t)(claim->is.cell - chunk_source->first[shard]) * COFFER__CELL;
    const uint64_t size = chunk_source->chunk_sources->model->shards[shard].source.size;
    const uint64_t end = size - begin < COFFER__CELL ? size : begin + COFFER__CELL;
    uint8_t *buffer = coffer__group_buffer(&chunk_source->group->table, claim->is.buffer);
    *chunk = (coffer__chunk){ .shard = shard, .cell = { begin, end }, .spans = claim->spans, .parts = claim->parts };
    uint32_t left = claim->is.blocks;
    for (uint32_t block = 0; block < 32; block++) {
        const uint64_t from = begin + block * COFFER__GROUP_BLOCK;
        if ((left >> block & 1) == 0 || from >= end) {
            continue;
        }
        const uint64_t to = end - from < COFFER__GROUP_BLOCK ? end : from + COFFER__GROUP_BLOCK;
        if (chunk->span_count > 0 && claim->spans[chunk->span_count - 1].end == from) {
            claim->spans[chunk->span_count - 1].end = to;
            continue;
        }
        claim->spans[chunk->span_count++] = (coffer__file_span){ from, to };
    }
    chunk->part_count = chunk->span_count;
    for (size_t i = 0; i < chunk->span_count; i++) {
        claim->parts[i] =
            (coffer__chunk_part){ .within = claim->spans[i], .to = buffer + (claim->spans[i].begin - begin) };
    }
}

/* Claims what is to be read next, as long as `alone` takes more. A claim that `alone` refuses after it was made
   stays busy and is sent later: giving it up would only let another process claim it, and it is this process that
   knows that it is about to have space. */
static coffer_status shared_claim_more(shared_chunk_source *chunk_source, coffer_error *err)
{
    coffer__chunk_source *alone = chunk_source->alone;
    for (size_t i = 0; i < chunk_source->claim_count; i++) {
        shared_claim *claim = &chunk_source->claims[i];
        if (claim->sent) {
            continue;
        }
        if (!alone->ops->has_capacity(alone) ||
            (!claim->busy && !coffer__group_claim_next(chunk_source->group, &claim->is))) {
            return COFFER_OK;
        }
        if (!claim->busy) {
            claim->busy = true;
            shared_describe(chunk_source, claim);
        }
        const coffer_status status = alone->ops->submit(alone, &claim->chunk, err);
        if (status != COFFER_OK) {
            return status == COFFER_NEED_MORE ? COFFER_OK : status;
        }
        claim->sent = true;
        chunk_source->claims_sent++;
    }
    return COFFER_OK;
}

/* Copies what was read to the private chunk source's slot, not right to the shared buffer: the ends of files. `there`
   is what was read to the buffer directly, one stretch of the part at most, so what is left lies before it, after it,
   or is all of the part. */
static void shared_complete(const coffer__chunk *chunk)
{
    for (size_t i = 0; i < chunk->part_count; i++) {
        const coffer__chunk_part *part = &chunk->parts[i];
        const bool some = part->there.begin < part->there.end;
        const coffer__file_span before = { part->within.begin, some ? part->there.begin : part->within.end };
        const coffer__file_span after = { some ? part->there.end : part->within.end, part->within.end };
        if (before.begin < before.end) {
            memcpy(part->to, chunk->bytes + (before.begin - chunk->cell.begin), (size_t)(before.end - before.begin));
        }
        if (after.begin < after.end) {
            memcpy(part->to + (after.begin - part->within.begin), chunk->bytes + (after.begin - chunk->cell.begin),
                   (size_t)(after.end - after.begin));
        }
    }
}

/* Reading for all costs the process that does it, so it is this process's statistics that have it. */
static void shared_carry(coffer__chunk_counts *to, const coffer__chunk_counts *from)
{
    to->requests += from->requests;
    to->read += from->read;
    to->cached += from->cached;
    to->direct += from->direct;
    to->engines |= from->engines;
}

/* Whether a chunk is a claim's. Then its bytes are there for all now. The private chunk source's slot is released
   before or after without harm: what it had was copied to the shared buffer here. */
static bool shared_bring(shared_chunk_source *chunk_source, coffer__chunk *chunk)
{
    for (size_t i = 0; i < chunk_source->claim_count; i++) {
        shared_claim *claim = &chunk_source->claims[i];
        if (chunk == &claim->chunk) {
            shared_complete(chunk);
            shared_carry(&chunk_source->carried, &chunk->counts);
            chunk_source->alone->ops->release(chunk_source->alone, chunk);
            coffer__group_bring(chunk_source->group, &claim->is);
            claim->busy = false;
            claim->sent = false;
            chunk_source->claims_sent--;
            return true;
        }
    }
    return false;
}

/* ---- the worker's chunks ----------------------------------------------------------------------------------------- */

/* Whether a chunk's bytes are in the shared memory. The private chunk source's slots lie in the staging buffer, which
   is other memory. So where the bytes are tells who has to be told when they are released, and the chunk needs no mark
   of its own. */
static bool shared_is_ours(const shared_chunk_source *chunk_source, const coffer__chunk *chunk)
{
    return chunk->bytes >= chunk_source->group->table.bytes && chunk_source->group->map.base != NULL &&
           chunk->bytes < (const uint8_t *)chunk_source->group->map.base + chunk_source->group->map.size;
}

static uint32_t shared_number(const shared_chunk_source *chunk_source, const coffer__chunk *chunk)
{
    return coffer__shared_cell(chunk, chunk_source->first);
}

/* It counts only what was accepted, so that shared_reap counts down as often. */
static coffer_status shared_submit_alone(shared_chunk_source *chunk_source, coffer__chunk *chunk, coffer_error *err)
{
    const coffer_status status = chunk_source->alone->ops->submit(chunk_source->alone, chunk, err);
    chunk_source->alone_count += status == COFFER_OK;
    return status;
}

/* Chunks that have to be read alone after all come before new ones: the schedule goes on upwards, and a chunk that
   is left behind would keep this rank's cursor low, for which the other ranks have to wait. */
static bool shared_has_capacity(const coffer__chunk_source *base)
{
    const shared_chunk_source *chunk_source = (const shared_chunk_source *)base;
    return chunk_source->waiting_count < chunk_source->waiting_most && chunk_source->parting == NULL;
}

/* What `alone` has done. *chunk NULL: a claim, or nothing. What this rank reads for itself moves no cursor, so its
   beat is what tells the others that it is alive and at work. */
static coffer_status shared_reap(shared_chunk_source *chunk_source, bool wait, coffer__chunk **chunk, bool *any,
                                 coffer_error *err)
{
    const coffer_status status = chunk_source->alone->ops->next(chunk_source->alone, wait, chunk, err);
    *any = status == COFFER_OK && *chunk != NULL;
    if (!*any) {
        return status;
    }
    if (shared_bring(chunk_source, *chunk)) {
        *chunk = NULL;
        return COFFER_OK;
    }
    chunk_source->alone_count--;
    coffer__group_beat(chunk_source->group);
    return COFFER_OK;
}

/* Claims take the space of `alone`, too. Where they have all of it, and the worker has nothing to release, they are
   finished first. Without this both would wait: the worker for space, before it asks for anything that came, and the
   claims for the worker, as they are only reaped when it asks. As long as a chunk of the worker's own is in
   `alone`, or handed out, releasing that makes space, and NEED_MORE tells the worker to do so. */
static coffer_status shared_reserve(shared_chunk_source *chunk_source, coffer__chunk *chunk, coffer_error *err)
{
    coffer_status status = shared_submit_alone(chunk_source, chunk, err);
    while (status == COFFER_NEED_MORE && chunk_source->claims_sent > 0 &&
           chunk_source->alone_count + chunk_source->held == 0) {
        coffer__chunk *none = NULL;
        bool any = false;
        status = shared_reap(chunk_source, true, &none, &any, err);
        status = status == COFFER_OK ? shared_submit_alone(chunk_source, chunk, err) : status;
    }
    return status;
}

/* A chunk that finds no space is submitted again, and what was said of its cell then holds still. A chunk that is
   read out of order passes its cell at once: the cursor must not wait for a cell that this rank is going to read by
   itself. The counters are set to zero here, because nothing is read for a chunk that is taken from shared memory;
   what reading for all has cost is added by shared_carry. */
static coffer_status shared_submit(coffer__chunk_source *base, coffer__chunk *chunk, coffer_error *err)
{
    shared_chunk_source *chunk_source = (shared_chunk_source *)base;
    coffer__group_tend(chunk_source->group);
    const uint32_t cell = shared_number(chunk_source, chunk);
    if (chunk->alone) {
        coffer__group_pass(chunk_source->group, cell, COFFER__GROUP_NOBODY);
    }
    if (chunk->alone || !coffer__group_ask(chunk_source->group, cell)) {
        return shared_reserve(chunk_source, chunk, err);
    }
    coffer__chunk **end = &chunk_source->waiting;
    while (*end != NULL) {
        end = &(*end)->link;
    }
    *end = chunk;
    chunk->link = NULL;
    chunk->bytes = NULL;
    chunk->counts = (coffer__chunk_counts){ .requests = 0 };
    chunk_source->waiting_count++;
    return COFFER_OK;
}

/* The first shared chunk that is there, or NULL. Those that will not be are put aside. *blamed is who is in the way
   of the first. All waiting chunks are looked at and not only the first, since cells become ready in any order, and
   a slot is free again the earlier, the sooner each rank has taken from it. But only who holds up the first is
   blamed: what the others wait for may just have its turn later. */
static coffer__chunk *shared_find(shared_chunk_source *chunk_source, uint32_t *blamed)
{
    coffer__chunk **at = &chunk_source->waiting;
    *blamed = COFFER__GROUP_NOBODY;
    while (*at != NULL) {
        coffer__chunk *chunk = *at;
        uint32_t buffer = 0;
        uint32_t whose = COFFER__GROUP_NOBODY;
        const uint32_t cell = shared_number(chunk_source, chunk);
        const coffer__group_view_of view =
            coffer__group_find(chunk_source->group, cell, coffer__shared_blocks(chunk), &buffer, &whose);
        *blamed = chunk == chunk_source->waiting ? whose : *blamed;
        if (view == COFFER__GROUP_COMING) {
            at = &chunk->link;
            continue;
        }
        *at = chunk->link;
        chunk_source->waiting_count--;
        if (view == COFFER__GROUP_HERE) {
            chunk->bytes = coffer__group_buffer(&chunk_source->group->table, buffer);
            return chunk;
        }
        coffer__group_pass(chunk_source->group, cell, COFFER__GROUP_NOBODY);
        chunk->link = chunk_source->parting;
        chunk_source->parting = chunk;
    }
    return NULL;
}

/* The list is left in a state from which the next call continues: a chunk is taken off only when `alone` has it. */
static coffer_status shared_part(shared_chunk_source *chunk_source, coffer_error *err)
{
    while (chunk_source->parting != NULL) {
        coffer__chunk *chunk = chunk_source->parting;
        coffer__chunk *next = chunk->link;
        const coffer_status status = shared_submit_alone(chunk_source, chunk, err);
        if (status != COFFER_OK) {
            chunk->link = next;
            return status == COFFER_NEED_MORE ? COFFER_OK : status;
        }
        chunk_source->parting = next;
    }
    return COFFER_OK;
}

/* ---- next -------------------------------------------------------------------------------------------------------- */

/*
 * One round: what is there is handed out; else something is read, or waited for. *again: nothing was found, and another
 * round may find something. Nothing is claimed for others while the worker has nothing in progress: then it wants to
 * submit, and needs the space for that.
 *
 * The event is read before anything is looked for. If a cell becomes ready after the look, the event has changed by
 * the time that the wait compares it, and the wait ends at once; so no waking is lost.
 */
static coffer_status shared_round(shared_chunk_source *chunk_source, bool wait, coffer__chunk **chunk, bool *again,
                                  coffer_error *err)
{
    const uint32_t seen = coffer__group_seen(chunk_source->group);
    uint32_t blamed = COFFER__GROUP_NOBODY;
    bool any = false;
    coffer_status status = coffer__group_check(chunk_source->group, err);
    status = status == COFFER_OK ? shared_part(chunk_source, err) : status;
    if (status == COFFER_OK && chunk_source->waiting_count > 0) {
        status = shared_claim_more(chunk_source, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    *chunk = shared_find(chunk_source, &blamed);
    if (*chunk != NULL) {
        return COFFER_OK;
    }
    const bool busy = chunk_source->alone_count + chunk_source->claims_sent > 0;
    if (busy) {
        status = shared_reap(chunk_source, wait, chunk, &any, err);
    }
    *again = any || (wait && (busy || chunk_source->parting != NULL || chunk_source->waiting_count > 0));
    if (status == COFFER_OK && wait && !busy && chunk_source->parting == NULL && chunk_source->waiting_count > 0) {
        coffer__group_wait(chunk_source->group, seen, blamed);
    }
    return status;
}

/* The statistics of claims travel with whatever chunk is handed out next, since a chunk is the only way by which a
   chunk source tells the load anything. What was read after the last chunk is told to nobody. */
static coffer_status shared_next(coffer__chunk_source *base, bool wait, coffer__chunk **chunk, coffer_error *err)
{
    shared_chunk_source *chunk_source = (shared_chunk_source *)base;
    coffer_status status = COFFER_OK;
    bool again = true;
    *chunk = NULL;
    while (status == COFFER_OK && *chunk == NULL && again) {
        again = false;
        if (chunk_source->watch != NULL && chunk_source->watch->stop(chunk_source->watch->ctx)) {
            return coffer__fail(err, COFFER_ERR_CANCELLED, "the load was cancelled");
        }
        status = shared_round(chunk_source, wait, chunk, &again, err);
    }
    if (*chunk != NULL) {
        chunk_source->held++;
        shared_carry(&(*chunk)->counts, &chunk_source->carried);
        chunk_source->carried = (coffer__chunk_counts){ .requests = 0 };
    }
    return status;
}

/* Passing the cell lets the cursor rise, and with it the slot be used again; so it comes after the last copy from
   the buffer. */
static void shared_release(coffer__chunk_source *base, coffer__chunk *chunk)
{
    shared_chunk_source *chunk_source = (shared_chunk_source *)base;
    chunk_source->held--;
    if (!shared_is_ours(chunk_source, chunk)) {
        chunk_source->alone->ops->release(chunk_source->alone, chunk);
        return;
    }
    const uint64_t offset = (uint64_t)(chunk->bytes - chunk_source->group->table.bytes);
    coffer__group_pass(chunk_source->group, shared_number(chunk_source, chunk), (uint32_t)(offset / COFFER__CELL));
}

/* When `alone` is closed nobody writes to a claim's buffer any more. So the claims are given up after that and not
   before: a rank that takes one over then finds a buffer that is free to be used. */
static void shared_close(coffer__chunk_source *base)
{
    shared_chunk_source *chunk_source = (shared_chunk_source *)base;
    const coffer_allocator *allocator = chunk_source->chunk_sources->allocator;
    chunk_source->alone->ops->close(chunk_source->alone);
    for (size_t i = 0; i < chunk_source->claim_count; i++) {
        if (chunk_source->claims[i].busy) {
            coffer__group_release_claim(chunk_source->group, &chunk_source->claims[i].is);
        }
    }
    coffer__free_array(allocator, chunk_source->claims, chunk_source->claim_count, sizeof *chunk_source->claims);
    coffer__free_array(allocator, chunk_source->first, chunk_source->chunk_sources->model->shard_count + 1,
                       sizeof *chunk_source->first);
    coffer__free(allocator, chunk_source, sizeof *chunk_source);
}

static const coffer__chunk_source_ops SHARED_OPS = { .name = "shared",
                                                     .has_capacity = shared_has_capacity,
                                                     .submit = shared_submit,
                                                     .next = shared_next,
                                                     .release = shared_release,
                                                     .close = shared_close };

/* Half of the slots are for reading ahead, the others for cells that ranks take: each chunk source claims its part of
   that half. At least one of each is allowed even where there are fewer slots than that: claims are a matter of the
   table, which simply has none to give then. Waiting chunks are bounded so that the workers of one rank do not ask for
   cells that are further ahead than there are slots. */
coffer_status coffer__chunk_source_shared(coffer__chunk_source **chunk_source,
                                          const coffer__chunk_sources *chunk_sources, coffer__chunk_source *alone,
                                          const coffer__watch *watch, coffer_error *err)
{
    const coffer__group_shape *is = &chunk_sources->group->table.is;
    const size_t readers = (size_t)2 * is->ranks * chunk_sources->workers;
    shared_chunk_source *made = coffer__alloc_zeroed(chunk_sources->allocator, sizeof *made);
    if (made != NULL) {
        *made = (shared_chunk_source){ .chunk_source = { &SHARED_OPS },
                                       .chunk_sources = chunk_sources,
                                       .group = chunk_sources->group,
                                       .alone = alone,
                                       .watch = watch };
        const size_t claims = is->slots / readers > 0 ? is->slots / readers : 1;
        made->waiting_most = is->slots / chunk_sources->workers > 0 ? is->slots / chunk_sources->workers : 1;
        made->first = coffer__alloc_array(chunk_sources->allocator, chunk_sources->model->shard_count + 1,
                                          sizeof *made->first, err);
        made->claims = coffer__alloc_array(chunk_sources->allocator, claims, sizeof *made->claims, err);
        made->claim_count = made->claims != NULL ? claims : 0;
        if (made->first != NULL && made->claims != NULL) {
            (void)coffer__shared_cells(chunk_sources->model, made->first);
            *chunk_source = &made->chunk_source;
            return COFFER_OK;
        }
        shared_close(&made->chunk_source);
        return COFFER_ERR_MEMORY;
    }
    alone->ops->close(alone);
    return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a feed");
}
