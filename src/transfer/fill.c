/* SPDX-License-Identifier: Apache-2.0 */
#include "fill.h"

#include "error.h"
#include "walk.h"

#include <string.h>

/* Runs copied from a map between two looks at the clock. Each may touch a page that is not in memory. */
#define FILL_ASK_RUNS ((uint64_t)1 << 10)

static uint64_t fill_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Where the chunk begins in memory. Results are dense, so the place follows from the number of the
   run. */
static uint8_t *fill_place(const coffer__transfer_chunk *chunk)
{
    return (uint8_t *)chunk->op->to + (size_t)(chunk->run * coffer__transfer_op_run_size(chunk->op) + chunk->skip);
}

/* Fetches `size` contiguous bytes, from `from` on as the box counts. The only place where this
   stage touches a source. A map is at least as long as the op needs, because the planner compared
   them. */
static coffer_status fill_bytes(const coffer__filler *worker, const coffer__transfer_op *op, uint64_t from, uint8_t *to,
                                uint64_t size, coffer_error *err)
{
    if (op->map != NULL) {
        memcpy(to, op->map + (size_t)(op->offset + from), (size_t)size);
        return COFFER_OK;
    }
    return coffer__source_read_watched(op->source, op->offset + from, to, (size_t)size, &worker->base.watch, err);
}

/* Called between the reads of one chunk. Runs that are far apart may each take the device a while,
   so a chunk of many runs asks the thread pool now and then whether it is still wanted. The clock is read
   each time, which is cheap; the thread pool's mutex is taken only every COFFER__WATCH_MS. The first call
   starts the clock, so that a small read does not look at it at all. */
static coffer_status fill_ask(coffer__filler *worker, coffer_error *err)
{
    const uint64_t now = coffer__os_milliseconds();
    if (worker->asked == 0) {
        worker->asked = now;
    }
    if (now - worker->asked < COFFER__WATCH_MS) {
        return COFFER_OK;
    }
    worker->asked = now;
    return coffer__thread_pool_stop(&worker->base, 0)
               ? coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback")
               : COFFER_OK;
}

/* Several ops in one read. If the places follow each other exactly as the bytes do in the source,
   with no gap in either, everything is read straight into place. Otherwise it is read into scratch,
   which coffer__queue_scratch made large enough for a window, and each op is copied out. Copy ops
   without bytes may be among them and have no place that could be compared. */
static coffer_status fill_rows(const coffer__filler *worker, const coffer__transfer_chunk *chunk, coffer_error *err)
{
    const coffer__transfer_op *ops = chunk->op;
    const coffer__transfer_op *last = &ops[chunk->ops - 1];
    const uint64_t size = last->offset + last->size - ops->offset;
    bool together = size == chunk->size;
    for (size_t i = 1; i < chunk->ops && together; i++) {
        together =
            ops[i].size > 0 && (uint8_t *)ops[i].to == (uint8_t *)ops->to + (size_t)(ops[i].offset - ops->offset);
    }
    uint8_t *into = together ? ops->to : worker->scratch;
    const coffer_status status = fill_bytes(worker, ops, 0, into, size, err);
    for (size_t i = 0; i < chunk->ops && status == COFFER_OK && !together; i++) {
        if (ops[i].size > 0) {
            memcpy(ops[i].to, into + (size_t)(ops[i].offset - ops->offset), (size_t)ops[i].size);
        }
    }
    return status;
}

/* Runs that are each worth a read of their own, or that are in a map. From a map, as many runs of a
   line are copied at once as may be without asking the thread pool. */
static coffer_status fill_runs(coffer__filler *worker, const coffer__transfer_chunk *chunk, coffer_error *err)
{
    const coffer__transfer_op *op = chunk->op;
    const uint64_t run_size = op->box->run_size;
    uint8_t *to = fill_place(chunk);
    coffer_status status = COFFER_OK;
    coffer__walk walk;
    coffer__walk_begin(&walk, op->box, chunk->run);
    for (uint64_t left = chunk->count; left > 0 && status == COFFER_OK;) {
        const uint64_t line = fill_min(fill_min(walk.line_left, left), FILL_ASK_RUNS);
        const uint64_t runs = op->map != NULL ? line : 1;
        if (op->map != NULL) {
            const coffer__strided_copy copy = coffer__walk_copy(&walk, runs, to);
            coffer__copy_strided(&copy, op->map + (size_t)(op->offset + walk.at));
        } else {
            status = fill_bytes(worker, op, walk.at, to, run_size, err);
        }
        to += (size_t)(runs * run_size);
        left -= runs;
        coffer__walk_on(&walk, runs);
        status = status == COFFER_OK && left > 0 ? fill_ask(worker, err) : status;
    }
    return status;
}

/* One read for several runs: bytes [low, high), as the box counts, and the number of runs in them. Runs
   are taken in the order of the result, which may go backwards in the source. */
typedef struct fill_window {
    uint64_t low;
    uint64_t high;
    uint64_t runs;
} fill_window;

/*
 * Adds runs of the line at `walk` to the window, at most `most`, and returns how many: those that
 * together with what is there take no more than `size` bytes and leave no gap longer than
 * `longest_gap`. An empty window takes at least one run, whatever its size: a single run is read straight
 * into its place and needs no scratch.
 *
 * The first run decides whether the line is close enough to what is there. The others are at equal
 * distances, so one division says how many fit: `capacity` is what is left of `size` beyond that run, in
 * the direction of the stride. Comparisons add `longest_gap` to offsets within a source, which are
 * below 2^63, so nothing overflows.
 */
static uint64_t fill_window_extend(fill_window *window, const coffer__walk *walk, uint64_t most, uint64_t size,
                                   uint64_t longest_gap)
{
    const uint64_t run_size = walk->box->run_size;
    const uint64_t begin = walk->at;
    const uint64_t end = begin + run_size;
    if (window->runs == 0) {
        window->low = begin;
        window->high = end;
    }
    const uint64_t low = fill_min(window->low, begin);
    const uint64_t high = window->high > end ? window->high : end;
    const bool gap = begin > window->high + longest_gap || end + longest_gap < window->low;
    if (window->runs > 0 && (gap || high - low > size)) {
        return 0;
    }
    const int64_t stride = coffer__walk_stride(walk);
    const uint64_t distance = coffer__box_distance(stride);
    uint64_t runs = 1;
    if (most > 1 && distance <= run_size + longest_gap) {
        const uint64_t capacity = stride < 0 ? size - (high - begin) : size - (end - low);
        /* A stride of 0: the same bytes are wanted each time, and all of the line fits. */
        runs = distance == 0 ? most : fill_min(most, 1 + capacity / distance);
    }
    const uint64_t reach = (runs - 1) * distance;
    window->low = stride < 0 ? fill_min(low, begin - reach) : low;
    window->high = stride < 0 || end + reach < high ? high : end + reach;
    window->runs += runs;
    return runs;
}

/* Plans the next window: as many runs from `walk` on as go well together, at most `most`. The walk
   is a copy, since the caller walks over the same runs again to copy them out. */
static fill_window fill_window_plan(coffer__walk walk, uint64_t most, uint64_t size, uint64_t longest_gap)
{
    fill_window window = { .runs = 0 };
    while (window.runs < most) {
        const uint64_t line = fill_min(walk.line_left, most - window.runs);
        const uint64_t runs = fill_window_extend(&window, &walk, line, size, longest_gap);
        if (runs == 0) {
            break;
        }
        coffer__walk_on(&walk, runs);
    }
    return window;
}

/* Runs that are too short for a read each, window by window. A window with a single run is read
   into its place. The thread pool is asked after a window was read and before it is copied out, so that a
   stop costs at most one read. */
static coffer_status fill_short_runs(coffer__filler *worker, const coffer__transfer_chunk *chunk, coffer_error *err)
{
    const coffer__transfer_op *op = chunk->op;
    const uint64_t run_size = op->box->run_size;
    const uint64_t longest_gap = coffer__shape_of(op)->gap;
    uint8_t *to = fill_place(chunk);
    coffer__walk walk;
    coffer__walk_begin(&walk, op->box, chunk->run);
    for (uint64_t left = chunk->count; left > 0;) {
        const fill_window window = fill_window_plan(walk, left, worker->scratch_size, longest_gap);
        uint8_t *into = window.runs == 1 ? to : worker->scratch;
        coffer_status status = fill_bytes(worker, op, window.low, into, window.high - window.low, err);
        left -= window.runs;
        status = status == COFFER_OK && left > 0 ? fill_ask(worker, err) : status;
        if (status != COFFER_OK) {
            return status;
        }
        for (uint64_t inside = window.runs; inside > 0;) {
            const uint64_t runs = fill_min(walk.line_left, inside);
            if (into != to) {
                const coffer__strided_copy copy = coffer__walk_copy(&walk, runs, to);
                coffer__copy_strided(&copy, worker->scratch + (size_t)(walk.at - window.low));
            }
            to += (size_t)(runs * run_size);
            inside -= runs;
            coffer__walk_on(&walk, runs);
        }
    }
    return COFFER_OK;
}

/* Reads the lines of a tile into the slot, one request each. The slot is held by the caller and as
   large as the largest tile. */
static coffer_status fill_read_lines(coffer__filler *worker, const coffer__transfer_op *op,
                                     const coffer__tile_lines *lines, coffer_error *err)
{
    uint8_t *to = worker->slot->memory;
    for (uint64_t k = 0; k < lines->count; k++) {
        const uint64_t from = coffer__tile_line(lines, k);
        coffer_status status = fill_bytes(worker, op, from, to, lines->size, err);
        if (status == COFFER_OK && k + 1 < lines->count) {
            status = fill_ask(worker, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        to += (size_t)lines->size;
    }
    return COFFER_OK;
}

/* Reads a tile and transposes it into place. A map needs no slot: the tile is gathered from there.
   The slot stays locked during the reads, so workers that share it take turns; a worker never holds
   two. */
static coffer_status fill_tile(coffer__filler *worker, const coffer__transfer_op *op, const coffer__tile *tile,
                               coffer_error *err)
{
    if (op->map != NULL) {
        coffer__tile_turn(tile, op->to, op->map + (size_t)(op->offset + tile->start), tile->strides);
        return COFFER_OK;
    }
    coffer__tile_lines lines;
    coffer__tile_lines_plan(tile, &lines);
    coffer__os_mutex_lock(&worker->slot->lock);
    const coffer_status status = fill_read_lines(worker, op, &lines, err);
    if (status == COFFER_OK) {
        coffer__tile_turn(tile, op->to, worker->slot->memory + (size_t)lines.first, lines.strides);
    }
    coffer__os_mutex_unlock(&worker->slot->lock);
    return status;
}

/* Chooses the way for each kind of chunk (transfer_chunk.h). The conditions agree with those of
   coffer__queue_scratch, so that scratch is there whenever a window needs it. */
coffer_status coffer__fill(coffer__filler *worker, const coffer__transfer_chunk *chunk, const coffer__tile *tile,
                           coffer_error *err)
{
    if (chunk->tiled) {
        return fill_tile(worker, chunk->op, tile, err);
    }
    const coffer__transfer_op *op = chunk->op;
    const coffer__shape *shape = coffer__shape_of(op);
    if (chunk->ops > 1) {
        return fill_rows(worker, chunk, err);
    }
    if (op->box == NULL) {
        return fill_bytes(worker, op, chunk->skip, fill_place(chunk), chunk->size, err);
    }
    const uint64_t run_size = op->box->run_size;
    if (run_size > shape->chunk) {
        const uint64_t from = coffer__box_run(op->box, chunk->run) + chunk->skip;
        return fill_bytes(worker, op, from, fill_place(chunk), chunk->size, err);
    }
    if (op->map != NULL || run_size >= shape->run) {
        return fill_runs(worker, chunk, err);
    }
    return fill_short_runs(worker, chunk, err);
}
