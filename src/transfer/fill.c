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

/* Where the piece begins in memory. Results are dense, so the place follows from the number of the
   run. */
static uint8_t *fill_place(const coffer__piece *piece)
{
    return (uint8_t *)piece->row->to + (size_t)(piece->run * coffer__row_run_size(piece->row) + piece->skip);
}

/* Fetches `size` contiguous bytes, from `from` on as the box counts. The only place where this
   stage touches a source. A map is at least as long as the row needs, because the planner compared
   them. */
static coffer_status fill_bytes(const coffer__filler *worker, const coffer__row *row, uint64_t from, uint8_t *to,
                                uint64_t size, coffer_error *err)
{
    if (row->map != NULL) {
        memcpy(to, row->map + (size_t)(row->offset + from), (size_t)size);
        return COFFER_OK;
    }
    return coffer__source_read_watched(row->source, row->offset + from, to, (size_t)size, &worker->base.watch, err);
}

/* Called between the reads of one piece. Runs that are far apart may each take the device a while,
   so a piece of many runs asks the thread pool now and then whether it is still wanted. The clock is read
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

/* Several rows in one read. If the places follow each other exactly as the bytes do in the source,
   with no gap in either, everything is read straight into place. Otherwise it is read into scratch,
   which coffer__queue_scratch made large enough for a window, and each row is copied out. Rows
   without bytes may be among them and have no place that could be compared. */
static coffer_status fill_rows(const coffer__filler *worker, const coffer__piece *piece, coffer_error *err)
{
    const coffer__row *rows = piece->row;
    const coffer__row *last = &rows[piece->rows - 1];
    const uint64_t size = last->offset + last->size - rows->offset;
    bool together = size == piece->size;
    for (size_t i = 1; i < piece->rows && together; i++) {
        together =
            rows[i].size > 0 && (uint8_t *)rows[i].to == (uint8_t *)rows->to + (size_t)(rows[i].offset - rows->offset);
    }
    uint8_t *into = together ? rows->to : worker->scratch;
    const coffer_status status = fill_bytes(worker, rows, 0, into, size, err);
    for (size_t i = 0; i < piece->rows && status == COFFER_OK && !together; i++) {
        if (rows[i].size > 0) {
            memcpy(rows[i].to, into + (size_t)(rows[i].offset - rows->offset), (size_t)rows[i].size);
        }
    }
    return status;
}

/* Runs that are each worth a read of their own, or that are in a map. From a map, as many runs of a
   line are copied at once as may be without asking the thread pool. */
static coffer_status fill_runs(coffer__filler *worker, const coffer__piece *piece, coffer_error *err)
{
    const coffer__row *row = piece->row;
    const uint64_t run_size = row->box->run_size;
    uint8_t *to = fill_place(piece);
    coffer_status status = COFFER_OK;
    coffer__walk walk;
    coffer__walk_begin(&walk, row->box, piece->run);
    for (uint64_t left = piece->count; left > 0 && status == COFFER_OK;) {
        const uint64_t line = fill_min(fill_min(walk.line_left, left), FILL_ASK_RUNS);
        const uint64_t runs = row->map != NULL ? line : 1;
        if (row->map != NULL) {
            const coffer__strided_copy copy = coffer__walk_copy(&walk, runs, to);
            coffer__copy_strided(&copy, row->map + (size_t)(row->offset + walk.at));
        } else {
            status = fill_bytes(worker, row, walk.at, to, run_size, err);
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
static coffer_status fill_short_runs(coffer__filler *worker, const coffer__piece *piece, coffer_error *err)
{
    const coffer__row *row = piece->row;
    const uint64_t run_size = row->box->run_size;
    const uint64_t longest_gap = coffer__shape_of(row)->gap;
    uint8_t *to = fill_place(piece);
    coffer__walk walk;
    coffer__walk_begin(&walk, row->box, piece->run);
    for (uint64_t left = piece->count; left > 0;) {
        const fill_window window = fill_window_plan(walk, left, worker->scratch_size, longest_gap);
        uint8_t *into = window.runs == 1 ? to : worker->scratch;
        coffer_status status = fill_bytes(worker, row, window.low, into, window.high - window.low, err);
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
static coffer_status fill_read_lines(coffer__filler *worker, const coffer__row *row, const coffer__tile_lines *lines,
                                     coffer_error *err)
{
    uint8_t *to = worker->slot->memory;
    for (uint64_t k = 0; k < lines->count; k++) {
        const uint64_t from = coffer__tile_line(lines, k);
        coffer_status status = fill_bytes(worker, row, from, to, lines->size, err);
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
static coffer_status fill_tile(coffer__filler *worker, const coffer__row *row, const coffer__tile *tile,
                               coffer_error *err)
{
    if (row->map != NULL) {
        coffer__tile_turn(tile, row->to, row->map + (size_t)(row->offset + tile->start), tile->strides);
        return COFFER_OK;
    }
    coffer__tile_lines lines;
    coffer__tile_lines_plan(tile, &lines);
    coffer__os_mutex_lock(&worker->slot->lock);
    const coffer_status status = fill_read_lines(worker, row, &lines, err);
    if (status == COFFER_OK) {
        coffer__tile_turn(tile, row->to, worker->slot->memory + (size_t)lines.first, lines.strides);
    }
    coffer__os_mutex_unlock(&worker->slot->lock);
    return status;
}

/* Chooses the way for each kind of piece (piece.h). The conditions agree with those of
   coffer__queue_scratch, so that scratch is there whenever a window needs it. */
coffer_status coffer__fill(coffer__filler *worker, const coffer__piece *piece, const coffer__tile *tile,
                           coffer_error *err)
{
    if (piece->tiled) {
        return fill_tile(worker, piece->row, tile, err);
    }
    const coffer__row *row = piece->row;
    const coffer__shape *shape = coffer__shape_of(row);
    if (piece->rows > 1) {
        return fill_rows(worker, piece, err);
    }
    if (row->box == NULL) {
        return fill_bytes(worker, row, piece->skip, fill_place(piece), piece->size, err);
    }
    const uint64_t run_size = row->box->run_size;
    if (run_size > shape->piece) {
        const uint64_t from = coffer__box_run(row->box, piece->run) + piece->skip;
        return fill_bytes(worker, row, from, fill_place(piece), piece->size, err);
    }
    if (row->map != NULL || run_size >= shape->run) {
        return fill_runs(worker, piece, err);
    }
    return fill_short_runs(worker, piece, err);
}
