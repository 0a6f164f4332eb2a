/* SPDX-License-Identifier: Apache-2.0 */
#include "fill.h"

#include "error.h"
#include "gather.h"

#include <string.h>

#define FILL_ASK_RUNS ((uint64_t)1 << 10) /* copied from a map, each of which may be a page that is not in memory */

static uint64_t fill_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint8_t *fill_place(const coffer__piece *piece)
{
    return (uint8_t *)piece->row->to + (size_t)(piece->run * coffer__row_run_size(piece->row) + piece->skip);
}

static coffer_status fill_bytes(const coffer__filler *worker, const coffer__row *row, uint64_t from, uint8_t *to,
                                uint64_t size, coffer_error *err)
{
    if (row->map != NULL) {
        memcpy(to, row->map + (size_t)(row->offset + from), (size_t)size);
        return COFFER_OK;
    }
    return coffer__source_read_watched(row->source, row->offset + from, to, (size_t)size, &worker->base.watch, err);
}

/* Runs that lie far apart may each take the device a while, so whoever moves many of them looks now and then whether they are still
   wanted. */
static coffer_status fill_ask(coffer__filler *worker, coffer_error *err)
{
    const uint64_t now = coffer__os_milliseconds();
    if (now - worker->asked < COFFER__WATCH_MS) {
        return COFFER_OK;
    }
    worker->asked = now;
    return coffer__crew_stop(&worker->base, 0)
               ? coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback")
               : COFFER_OK;
}

/* Several rows, read in one window: straight into their places, where those follow each other as the bytes do. */
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

/* Runs that are each worth a read of their own, or that are in memory. */
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
            const uint8_t *from = row->map + (size_t)(row->offset + walk.at);
            coffer__gather(to, from, (size_t)run_size, coffer__walk_stride(&walk), runs);
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

/* Bytes [low, high) of the box's frame, read at once, and the number of runs in them. */
typedef struct fill_window {
    uint64_t low;
    uint64_t high;
    uint64_t runs;
} fill_window;

/*
 * How many of the `most` next runs of the line at `walk` fit in the window: those that lie inside `size` bytes with
 * what is there already and leave no gap that is too long; in an empty window at least one. The window grows by them.
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
        const uint64_t room = stride < 0 ? size - (high - begin) : size - (end - low);
        /* At no distance at all, the same bytes are wanted again and again. */
        runs = distance == 0 ? most : fill_min(most, 1 + room / distance);
    }
    const uint64_t reach = (runs - 1) * distance;
    window->low = stride < 0 ? fill_min(low, begin - reach) : low;
    window->high = stride < 0 || end + reach < high ? high : end + reach;
    window->runs += runs;
    return runs;
}

/* Puts as many runs from `walk` on in one window as go well together, `most` at most. */
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
                const uint8_t *from = worker->scratch + (size_t)(walk.at - window.low);
                coffer__gather(to, from, (size_t)run_size, coffer__walk_stride(&walk), runs);
            }
            to += (size_t)(runs * run_size);
            inside -= runs;
            coffer__walk_on(&walk, runs);
        }
    }
    return COFFER_OK;
}

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
