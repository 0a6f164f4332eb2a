/* SPDX-License-Identifier: Apache-2.0 */
#include "piece.h"

#include "checked.h"

#define PIECE_SIZE ((uint64_t)2 << 20)
#define PIECE_HUGE_PAGE ((uintptr_t)2 << 20)
#define PIECE_RUNS ((uint64_t)64 << 10) /* bounds the time that a piece of tiny runs takes */

/* Files of this system. A system call costs about as much as copying a page, hence the 4 KiB.
   Pieces of 2 MiB are large enough to hide the cost of taking them, and small enough that the work
   divides evenly and that cancelling takes effect soon. */
static const coffer__shape piece_near = {
    .piece = PIECE_SIZE,
    .run = 4096,
    .gap = 4096,
    .window = (uint64_t)256 << 10,
    /* 64 bytes less than a power of two: lines at distances of a power of two would compete for the same
       few sets of the processor's cache. */
    .tiles = { .memory = (uint64_t)16 << 20, .read = 8192 - 64, .write = 8192, .gap = 4096 },
};
/* A round trip of 50 ms is worth 600 kB at 100 Mbit/s. So requests are large, and gaps are read
   that are short compared with it. Several round trips run in parallel, which is why a piece is not
   larger still. */
static const coffer__shape piece_far = {
    .piece = (uint64_t)4 << 20,
    .run = (uint64_t)1 << 20,
    .gap = (uint64_t)128 << 10,
    .window = (uint64_t)2 << 20,
    .tiles = { .memory = (uint64_t)16 << 20, .read = (uint64_t)1 << 20, .write = 64, .gap = (uint64_t)128 << 10 },
};
/* Tiles of a map need no memory, but touching a page may read it from the device, which nothing can
   interrupt. Tiles are smaller, so that the progress callback is asked often enough. */
static const coffer__tile_limits piece_tiles_of_map = { (uint64_t)1 << 20, 8192, 8192, 4096 };

/* ---- rows -------------------------------------------------------------------------------------------------------- */

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

/* Whether a row is carried out in tiles; then *tiling says how it is cut. Runs that are long enough
   for a read of their own gain nothing from tiles. Planning a tiling is cheap and pure, so it is
   repeated for each tile instead of being kept in the queue. */
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

/*
 * How many runs of a row make one piece, at least 1. The run size is at most a piece's here, and
 * not 0.
 *
 * Near: as many as fill a piece. Far: as many as one window holds, when the runs of the innermost
 * dimension are so close that a window can span the gaps; otherwise one, because each is a request
 * and requests are what the threads divide.
 */
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

/* How many rows from `row` on, at most `most`, are close enough together in one far source to be
   read in one window: each begins at or after the end of the one before, no gap is longer than the
   shape's, and all lie within the window. The sums are written as differences, so that nothing
   overflows: row[count] begins after `row` when its distance is computed. */
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

/* The size of a piece of a long run whose bytes go to `at` of the result. It ends at an address
   where a huge page begins. Otherwise two workers would touch the same fresh huge page at the same
   time, and the kernel would clear it twice. Never 0, since a piece is at least as large as a huge
   page. */
static uint64_t piece_long(const coffer__row *row, uint64_t at, const coffer__shape *shape)
{
    const uintptr_t place = (uintptr_t)row->to + (uintptr_t)at;
    return shape->piece - (uint64_t)(place % PIECE_HUGE_PAGE);
}

/* ---- the queue --------------------------------------------------------------------------------------------------- */

/* Whether a row is in the queue at all. */
static bool piece_is_queued(const coffer__row *row)
{
    return row->size > 0 && row->algorithm == COFFER_NO_ALGORITHM;
}

/* Takes tile number queue->run of the current row. For a tiled row `run` counts tiles instead of
   runs. */
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

/* Takes a part of a run that is longer than a piece. The parts of a run are disjoint and in order,
   and the last one ends where the run does. */
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

/* Takes whole runs: as many of one row as make a piece, or several whole rows. When there are
   several, the first has one run (it has no box), so run reaches its run count and
   coffer__queue_next passes over all of them. */
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

/* Invariant between calls: row == row_count, or `run` is below the row's number of runs (or tiles)
   and `skip` is below the run size. Every call that returns true advances the cursor by at least
   one byte. */
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

/* ---- what the queue comes to ------------------------------------------------------------------------------------- */

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

/* Counts as coffer__queue_next would take pieces, but without walking through them: a row may have
   more pieces than can be counted one by one. Cuts of long runs are rounded up, which at worst
   starts a thread too many. */
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

/* Bytes from the first to the last byte that a box takes, or `most` if that is less. The box lies
   within its source, so the span is a number of bytes that exist and does not overflow. */
static uint64_t piece_box_span(const coffer__box *box, uint64_t most)
{
    uint64_t span = box->run_size;
    for (size_t i = 0; i < box->rank; i++) {
        span += (box->counts[i] - 1) * coffer__box_distance(box->strides[i]);
    }
    return piece_min(span, most);
}

/* The largest tile of all rows. Mapped rows are transposed straight from the map and need none. */
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

/* The most scratch memory that any row needs. Only windows use scratch: neighbouring far rows, and
   boxes of short runs that are not mapped. A box that spans less than a window needs only its span.
   This must not be less than fill.c uses; the conditions are those by which coffer__fill chooses
   its way. */
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
