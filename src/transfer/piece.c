/* SPDX-License-Identifier: Apache-2.0 */
#include "piece.h"

#include "checked.h"

#define PIECE_SIZE ((uint64_t)2 << 20)
#define PIECE_HUGE_PAGE ((uintptr_t)2 << 20)
#define PIECE_RUNS ((uint64_t)64 << 10) /* so that pieces of tiny runs end in good time, too */

static const coffer__shape piece_near = {
    .piece = PIECE_SIZE,
    .run = 4096,
    .gap = 4096,
    .window = (uint64_t)256 << 10,
    /* Lines of a power of two would all fall on the same few places of the processor's cache. */
    .tiles = { .memory = (uint64_t)16 << 20, .read = 8192 - 64, .write = 8192, .gap = 4096 },
};
/* A journey of 50 ms is worth 600 kB at 100 Mbit/s, and journeys are made side by side. */
static const coffer__shape piece_far = {
    .piece = (uint64_t)4 << 20,
    .run = (uint64_t)1 << 20,
    .gap = (uint64_t)128 << 10,
    .window = (uint64_t)2 << 20,
    .tiles = { .memory = (uint64_t)16 << 20, .read = (uint64_t)1 << 20, .write = 64, .gap = (uint64_t)128 << 10 },
};
/* Nothing is read, but a page that is not in memory takes its time: pieces are small, so that the user is asked often enough. */
static const coffer__tile_limits piece_tiles_of_map = { (uint64_t)1 << 20, 8192, 8192, 4096 };

/* ---- rows ----------------------------------------------------------------------------------------------------------- */

static uint64_t piece_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t coffer__row_run_size(const coffer__row *row)
{
    return row->box == NULL ? row->size : row->box->run_size;
}

static uint64_t piece_run_count(const coffer__row *row)
{
    return row->box == NULL ? 1 : row->box->run_count;
}

bool coffer__row_is_far(const coffer__row *row)
{
    return row->map == NULL && row->source->is.far;
}

const coffer__shape *coffer__shape_of(const coffer__row *row)
{
    return coffer__row_is_far(row) ? &piece_far : &piece_near;
}

/* Whether a row is carried out in tiles; then this is how it is cut. */
static bool piece_tiling(const coffer__queue *queue, const coffer__row *row, coffer__tiling *tiling)
{
    const coffer__shape *shape = coffer__shape_of(row);
    const coffer__tile_limits *usual = row->map != NULL ? &piece_tiles_of_map : &shape->tiles;
    const coffer__tile_limits *limits = queue->tiles != NULL ? queue->tiles : usual;
    if (row->box == NULL || row->box->run_size >= shape->run || !coffer__box_is_turned(row->box, limits->gap)) {
        return false;
    }
    coffer__tiling_plan(tiling, row->box, limits);
    return true;
}

/* Runs of a row that make one piece. From far away as many as one window has, when they lie close enough for one. */
static uint64_t piece_runs(const coffer__row *row, const coffer__shape *shape)
{
    const uint64_t run_size = coffer__row_run_size(row);
    if (shape == &piece_near) {
        return piece_min(shape->piece / run_size, PIECE_RUNS);
    }
    if (row->box == NULL || row->box->rank == 0) {
        return 1;
    }
    const uint64_t distance = coffer__box_distance(row->box->strides[row->box->rank - 1]);
    const uint64_t gap = distance > run_size ? distance - run_size : 0;
    const uint64_t runs = gap > shape->gap ? 1 : shape->window / (run_size + gap);
    return runs > 0 ? piece_min(runs, PIECE_RUNS) : 1;
}

/* How many rows from `row` on, `most` at most, lie so close together in one far source that they come in one window. */
static size_t piece_neighbours(const coffer__row *row, size_t most, const coffer__shape *shape)
{
    size_t count = 1;
    if (shape == &piece_near || row->box != NULL) {
        return 1;
    }
    for (uint64_t end = row->offset + row->size; count < most; count++) {
        const coffer__row *next = &row[count];
        if (next->box != NULL || next->algorithm != COFFER_NO_ALGORITHM || next->source != row->source ||
            next->map != NULL || next->offset < end || next->offset - end > shape->gap ||
            next->offset - row->offset > shape->window || next->size > shape->window - (next->offset - row->offset)) {
            break;
        }
        end = next->offset + next->size;
    }
    return count;
}

/* The size of a piece of a long run whose bytes go to `at` of the result: it ends where a huge page begins, so that no two
   workers touch the same fresh one, which the system would then clear twice. */
static uint64_t piece_long(const coffer__row *row, uint64_t at, const coffer__shape *shape)
{
    const uintptr_t place = (uintptr_t)row->to + (uintptr_t)at;
    return shape->piece - (uint64_t)(place % PIECE_HUGE_PAGE);
}

/* ---- the queue --------------------------------------------------------------------------------------------------- */

/* Whether a row is in the queue at all: without bytes it is done, and a digest cannot be cut. */
static bool piece_is_queued(const coffer__row *row)
{
    return row->size > 0 && row->algorithm == COFFER_NO_ALGORITHM;
}

/* A tile of the next row, which is cut so. */
static void piece_take_tile(coffer__queue *queue, const coffer__tiling *tiling, coffer__piece *piece,
                            coffer__tile *tile)
{
    coffer__tile_at(tiling, queue->run, tile);
    *piece = (coffer__piece){
        .row = &queue->rows[queue->row], .rows = 1, .run = queue->run, .size = tile->size, .tiled = true
    };
    queue->run++;
    if (queue->run == tiling->count) {
        queue->run = 0;
        queue->row++;
    }
}

/* A part of a run that is longer than a piece. */
static void piece_take_part(coffer__queue *queue, const coffer__shape *shape, coffer__piece *piece)
{
    const uint64_t run_size = coffer__row_run_size(piece->row);
    const uint64_t at = queue->run * run_size + queue->skip;
    piece->size = piece_min(run_size - queue->skip, piece_long(piece->row, at, shape));
    queue->skip += piece->size;
    if (queue->skip == run_size) {
        queue->skip = 0;
        queue->run++;
    }
}

/* Whole runs, of one row or of several that lie close together. */
static void piece_take_runs(coffer__queue *queue, const coffer__shape *shape, coffer__piece *piece)
{
    const coffer__row *row = piece->row;
    piece->rows = piece_neighbours(row, queue->row_count - queue->row, shape);
    piece->count = piece_min(piece_run_count(row) - queue->run, piece_runs(row, shape));
    piece->size = piece->count * coffer__row_run_size(row);
    for (size_t i = 1; i < piece->rows; i++) {
        piece->size += row[i].size;
    }
    queue->run += piece->count;
}

bool coffer__queue_next(coffer__queue *queue, coffer__piece *piece, coffer__tile *tile)
{
    coffer__tiling tiling;
    while (queue->row < queue->row_count && !piece_is_queued(&queue->rows[queue->row])) {
        queue->row++;
    }
    if (queue->row == queue->row_count) {
        return false;
    }
    const coffer__row *row = &queue->rows[queue->row];
    const coffer__shape *shape = coffer__shape_of(row);
    if (piece_tiling(queue, row, &tiling)) {
        piece_take_tile(queue, &tiling, piece, tile);
        return true;
    }
    *piece = (coffer__piece){ .row = row, .rows = 1, .run = queue->run, .count = 1, .skip = queue->skip };
    if (coffer__row_run_size(row) > shape->piece) {
        piece_take_part(queue, shape, piece);
    } else {
        piece_take_runs(queue, shape, piece);
    }
    if (queue->run == piece_run_count(row)) {
        queue->run = 0;
        queue->row += piece->rows;
    }
    return true;
}

/* ---- what the queue comes to ---------------------------------------------------------------------------------------- */

bool coffer__queue_total(const coffer__queue *queue, uint64_t *total)
{
    *total = 0;
    for (size_t i = 0; i < queue->row_count; i++) {
        if (piece_is_queued(&queue->rows[i]) && !coffer__add_u64(*total, queue->rows[i].size, total)) {
            return false;
        }
    }
    return true;
}

/* Pieces that come from far away, counted up to `most`. */
uint64_t coffer__queue_far_pieces(const coffer__queue *queue, uint64_t most)
{
    uint64_t pieces = 0;
    coffer__tiling tiling;
    for (size_t i = 0; i < queue->row_count && pieces < most;) {
        const coffer__row *row = &queue->rows[i];
        const coffer__shape *shape = coffer__shape_of(row);
        if (shape == &piece_near || !piece_is_queued(row)) {
            i++;
            continue;
        }
        if (piece_tiling(queue, row, &tiling)) {
            pieces += tiling.count;
            i++;
            continue;
        }
        const uint64_t run_size = coffer__row_run_size(row);
        const uint64_t cuts = run_size / shape->piece + 1;
        pieces += run_size > shape->piece ? cuts * piece_run_count(row)
                                          : (piece_run_count(row) - 1) / piece_runs(row, shape) + 1;
        i += piece_neighbours(row, queue->row_count - i, shape);
    }
    return piece_min(pieces, most);
}

/* Bytes from the first to the last that a box takes, or `most` when that is less. */
static uint64_t piece_box_span(const coffer__box *box, uint64_t most)
{
    uint64_t span = box->run_size;
    for (size_t i = 0; i < box->rank; i++) {
        span += (box->counts[i] - 1) * coffer__box_distance(box->strides[i]);
    }
    return piece_min(span, most);
}

/* What the largest tile of all rows takes: 0 when none is read. */
size_t coffer__queue_largest_tile(const coffer__queue *queue)
{
    uint64_t most = 0;
    coffer__tiling tiling;
    for (size_t i = 0; i < queue->row_count; i++) {
        const coffer__row *row = &queue->rows[i];
        if (row->map == NULL && piece_is_queued(row) && piece_tiling(queue, row, &tiling)) {
            most = tiling.memory > most ? tiling.memory : most;
        }
    }
    return (size_t)most;
}

/* Scratch that a worker needs for the rows: 0 when all their runs go straight to their places. */
size_t coffer__queue_scratch(const coffer__queue *queue)
{
    uint64_t most = 0;
    coffer__tiling tiling;
    for (size_t i = 0; i < queue->row_count; i++) {
        const coffer__row *row = &queue->rows[i];
        const coffer__shape *shape = coffer__shape_of(row);
        const size_t left = queue->row_count - i;
        uint64_t span = 0;
        if (!piece_is_queued(row)) {
            continue;
        }
        if (row->box == NULL && piece_neighbours(row, left < 2 ? left : 2, shape) > 1) {
            span = shape->window;
        } else if (piece_tiling(queue, row, &tiling)) {
            span = 0;
        } else if (row->map == NULL && row->box != NULL && row->box->run_count > 1 && row->box->run_size < shape->run) {
            span = piece_box_span(row->box, shape->window);
        }
        most = span > most ? span : most;
    }
    return (size_t)most;
}
