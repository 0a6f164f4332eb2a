/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array is read by ranges of its bytes, and a part has its elements in the same order as the array has them. So the
 * bytes of a part that are in a range of the array lie one after another in the part, too, and are read at once:
 *
 *   array   | part 0 | part 1 | part 0 | part 1 | part 0 | part 1 | …     rows of two shards along dimension 1
 *                  [ range                      ]
 *   part 0             [ here ]          bytes from .. to, by parts_before of the range's two ends
 *
 * and then each run of them, a row of the box, goes to its place in the range. Elements count as a last dimension, of
 * bytes, so that a range may begin anywhere.
 *
 * What is read waits on the stack, since threads allocate nothing; long runs are read where they belong.
 */
#include "source_parts.h"

#include <string.h>

#define PARTS_READ ((size_t)32 << 10)  /* bytes that are read at once; threads have small stacks */
#define PARTS_LONG ((uint64_t)8 << 10) /* of a run that is worth a read of its own */

/* It lies in the space that each source has for its state; see source_blocks.c. */
typedef struct source_parts {
    const coffer__import_plan *plan;
    const coffer_input *input;
    uint32_t storage;
} source_parts;

/* A part while it is read. Dimensions are those of the array and, the last one, the bytes of an element. */
typedef struct parts_box {
    const coffer__byte_source *source;
    uint64_t at; /* of the part's first byte in the source */
    size_t rank;
    uint64_t sizes[COFFER__PLAN_MAX_RANK + 1];  /* of the array */
    uint64_t starts[COFFER__PLAN_MAX_RANK + 1]; /* of the box */
    uint64_t counts[COFFER__PLAN_MAX_RANK + 1];
} parts_box;

/* Dimensions of which a part has all melt into the one before them, so that runs are as long as they can be. */
static void parts_box_of(const source_parts *in, const coffer__import_plan_part *part, parts_box *box)
{
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(in->plan) + in->storage;
    const coffer__import_plan_storage *base = coffer__import_plan_storages(in->plan) + part->storage;
    const coffer__import_plan_piece *piece = coffer__import_plan_pieces(in->plan) + base->first;
    const uint64_t *sizes = coffer__import_plan_extents(in->plan, storage->as.array.extents, storage->as.array.rank);
    const uint64_t *extents = coffer__import_plan_extents(in->plan, part->box, 2 * (size_t)storage->as.array.rank);
    box->source = coffer__input_source(in->input, piece->file);
    box->at = piece->offset + part->offset;
    box->rank = 0;
    for (size_t i = 0; i <= storage->as.array.rank; i++) {
        const bool bytes = i == storage->as.array.rank;
        const uint64_t size = bytes ? storage->as.array.item_size : sizes[i];
        const uint64_t start = bytes ? 0 : extents[i];
        const uint64_t count = bytes ? storage->as.array.item_size : extents[storage->as.array.rank + i];
        if (box->rank > 0 && count == size) {
            box->sizes[box->rank - 1] *= size;
            box->starts[box->rank - 1] *= size;
            box->counts[box->rank - 1] *= size;
            continue;
        }
        box->sizes[box->rank] = size;
        box->starts[box->rank] = start;
        box->counts[box->rank++] = count;
    }
}

/* Bytes of the part that come before byte `place` of the array, which may be the one after its last. */
static uint64_t parts_before(const parts_box *box, uint64_t place)
{
    uint64_t below = 1;  /* bytes of the array below an index of a dimension */
    uint64_t inside = 1; /* bytes of the part below that index */
    uint64_t before = 0;
    for (size_t i = 1; i < box->rank; i++) {
        below *= box->sizes[i];
        inside *= box->counts[i];
    }
    for (size_t i = 0; i < box->rank; i++) {
        const uint64_t index = place / below;
        if (index < box->starts[i]) {
            return before;
        }
        if (index - box->starts[i] >= box->counts[i]) {
            return before + box->counts[i] * inside;
        }
        before += (index - box->starts[i]) * inside;
        place %= below;
        below /= i + 1 < box->rank ? box->sizes[i + 1] : 1;
        inside /= i + 1 < box->rank ? box->counts[i + 1] : 1;
    }
    return before;
}

/* Where byte `at` of the part belongs in the array; *run becomes how many bytes from there on follow each other. */
static uint64_t parts_place(const parts_box *box, uint64_t at, uint64_t *run)
{
    const size_t last = box->rank - 1;
    uint64_t place = box->starts[last] + at % box->counts[last];
    uint64_t below = box->sizes[last];
    *run = box->counts[last] - at % box->counts[last];
    at /= box->counts[last];
    for (size_t i = last; i > 0; i--) {
        place += (box->starts[i - 1] + at % box->counts[i - 1]) * below;
        below *= box->sizes[i - 1];
        at /= box->counts[i - 1];
    }
    return place;
}

/* Copies `size` bytes that are there of the part, from its byte `at` on, to their places. */
static void parts_scatter(const parts_box *box, uint64_t at, const uint8_t *bytes, size_t size, uint64_t offset,
                          uint8_t *to)
{
    while (size > 0) {
        uint64_t run = 0;
        const uint64_t place = parts_place(box, at, &run);
        const size_t taken = run < size ? (size_t)run : size;
        memcpy(to + (place - offset), bytes, taken);
        bytes += taken;
        at += taken;
        size -= taken;
    }
}

/* What a part has of bytes [offset, offset + size) of the array. */
static coffer_status parts_read_part(const parts_box *box, uint64_t offset, uint8_t *to, size_t size,
                                     const coffer__watch *watch, coffer_error *err)
{
    uint8_t bytes[PARTS_READ];
    const uint64_t end = parts_before(box, offset + size);
    uint64_t at = parts_before(box, offset);
    while (at < end) {
        uint64_t run = 0;
        const uint64_t place = parts_place(box, at, &run);
        const bool direct = run >= PARTS_LONG || run >= end - at;
        const uint64_t left = direct && run < end - at ? run : end - at;
        const size_t taken = direct || left < sizeof bytes ? (size_t)left : sizeof bytes;
        uint8_t *where = direct ? to + (place - offset) : bytes;
        const coffer_status status = coffer__source_read_watched(box->source, box->at + at, where, taken, watch, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (!direct) {
            parts_scatter(box, at, bytes, taken, offset, to);
        }
        at += taken;
    }
    return COFFER_OK;
}

/* Whether a part may have something of a range: nearly all parts of a long list lie elsewhere along the slowest dimension,
   which is seen at once. */
static bool parts_reach(const source_parts *in, const coffer__import_plan_part *part, uint64_t offset, size_t size)
{
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(in->plan) + in->storage;
    if (storage->as.array.rank == 0) {
        return true;
    }
    const uint64_t *box = coffer__import_plan_extents(in->plan, part->box, 2 * (size_t)storage->as.array.rank);
    const uint64_t step = storage->size / coffer__import_plan_extents(in->plan, storage->as.array.extents, 1)[0];
    return box[0] * step < offset + size && (box[0] + box[storage->as.array.rank]) * step > offset;
}

/* The parts have each byte of the range once, as was checked, so all of it is filled. */
static coffer_status source_parts_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                          const coffer__watch *watch, coffer_error *err)
{
    source_parts in;
    memcpy(&in, source->state.capacity, sizeof in);
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(in.plan) + in.storage;
    for (uint32_t i = 0; i < storage->count; i++) {
        const coffer__import_plan_part *part = coffer__import_plan_parts(in.plan) + storage->first + i;
        parts_box box;
        if (!parts_reach(&in, part, offset, size)) {
            continue;
        }
        parts_box_of(&in, part, &box);
        const coffer_status status = parts_read_part(&box, offset, buffer, size, watch, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

static void source_parts_close(coffer__byte_source *source)
{
    (void)source;
}

/* It is as far, and as foreign, as any of the files that its parts are in. */
void coffer__source_parts(coffer__byte_source *source, const coffer__import_plan *plan, const coffer_input *input,
                          uint32_t number)
{
    static const coffer__source_ops ops = { .kind = "parts of a tensor",
                                            .read_at = source_parts_read_at,
                                            .close = source_parts_close };
    const source_parts in = { plan, input, number };
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + number;
    coffer__source_traits traits = { .far = false };
    for (uint32_t i = 0; i < storage->count; i++) {
        const coffer__import_plan_part *part = coffer__import_plan_parts(plan) + storage->first + i;
        const coffer__import_plan_storage *base = coffer__import_plan_storages(plan) + part->storage;
        const coffer__import_plan_piece *piece = coffer__import_plan_pieces(plan) + base->first;
        const coffer__source_traits is = coffer__input_source(input, piece->file)->is;
        traits.far = traits.far || is.far;
        traits.foreign = traits.foreign || is.foreign;
        traits.unstable = traits.unstable || is.unstable;
    }
    coffer__source_init(source, &ops, storage->size, traits);
    memcpy(source->state.capacity, &in, sizeof in);
}
