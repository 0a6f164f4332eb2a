/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor. What its crew shares is where the next piece begins. A worker holds the mutex only to take a piece, so at a few
 * MiB each it is never in the way.
 *
 *   a long run (above a piece)    is cut into pieces and read straight into its place
 *   runs of 4 KiB and more        are read straight into their place, one read each
 *   short runs                    are read in windows: neighbours and the small gaps between them in one read, into
 *                                 scratch memory, and gathered from there. A gap of up to a page is read through,
 *                                 because that costs less than another read
 *   runs across the source's      are read in tiles, and turned in memory (tile.h). A tile is large, so there are few: a worker
 *   order, as in a transpose      waits until one is free
 *
 * From far away, where every read is a journey, all of this is larger (transfer_far): runs are short up to a whole window, gaps
 * that are read through long, and neighbouring rows come in one window, too. Workers then mostly wait, so there are as many
 * as there are pieces, whatever the number of processors.
 */
#include "transfer.h"

#include "alloc.h"
#include "checked.h"
#include "crew.h"
#include "error.h"
#include "gather.h"
#include "os.h"

#include <string.h>

#define TRANSFER_PIECE_SIZE ((uint64_t)2 << 20)
#define TRANSFER_HUGE_PAGE ((uintptr_t)2 << 20)
#define TRANSFER_PIECE_RUNS ((uint64_t)64 << 10) /* so that pieces of tiny runs end in good time, too */
#define TRANSFER_ASK_RUNS ((uint64_t)1 << 10) /* copied from a map, each of which may be a page that is not in memory */
#define TRANSFER_ALONE_SIZE ((uint64_t)2 << 20) /* below it starting a thread costs more than it brings */
#define TRANSFER_DEFAULT_THREADS 16u
#define TRANSFER_MOST_THREADS 64u

/* All tiles of all workers together. */
#define TRANSFER_TILES ((uint64_t)32 << 20)

/* How much is worth a read of its own. */
typedef struct transfer_shape {
    uint64_t piece;  /* a longer run is cut */
    uint64_t run;    /* a shorter one is read in windows */
    uint64_t gap;    /* that is read through */
    uint64_t window; /* what is read at once for several runs */
    coffer__tile_limits tiles;
} transfer_shape;

static const transfer_shape transfer_near = {
    .piece = TRANSFER_PIECE_SIZE,
    .run = 4096,
    .gap = 4096,
    .window = (uint64_t)256 << 10,
    /* Lines of a power of two would all fall on the same few places of the processor's cache. */
    .tiles = { .memory = (uint64_t)16 << 20, .read = 8192 - 64, .write = 8192, .gap = 4096 },
};
/* A journey of 50 ms is worth 600 kB at 100 Mbit/s, and journeys are made side by side. */
static const transfer_shape transfer_far = {
    .piece = (uint64_t)4 << 20,
    .run = (uint64_t)1 << 20,
    .gap = (uint64_t)128 << 10,
    .window = (uint64_t)2 << 20,
    .tiles = { .memory = (uint64_t)16 << 20, .read = (uint64_t)1 << 20, .write = 64, .gap = (uint64_t)128 << 10 },
};
/* Nothing is read, but a page that is not in memory takes its time: pieces are small, so that the user is asked often enough. */
static const coffer__tile_limits transfer_tiles_of_map = { (uint64_t)1 << 20, 8192, 8192, 4096 };

/* Runs of a row (or bytes of one run) that one worker moves at a stretch; or, from far away, rows that lie close together. */
typedef struct transfer_piece {
    const coffer__row *row;
    size_t rows;    /* 1, or as many whole rows without a box as are read in one window */
    uint64_t run;   /* the first one */
    uint64_t count; /* of runs; 1 when it is a part of one */
    uint64_t skip;  /* bytes of the first run that belong to the piece before */
    uint64_t size;  /* of its bytes in the result */
    bool tiled;     /* it is a tile, which the worker has; `run` is its number */
} transfer_piece;

/* Memory for a tile, which one worker has at a time. */
typedef struct transfer_slot {
    coffer__mutex lock;
    uint8_t *memory;
} transfer_slot;

typedef struct transfer_job {
    const coffer__row *rows;
    size_t row_count;
    coffer__crew crew; /* its mutex guards everything below */
    size_t row;        /* the next piece's */
    uint64_t run;
    uint64_t skip;
    const coffer__tile_limits *tiles; /* those that were given, or NULL */
} transfer_job;

typedef struct transfer_worker {
    coffer__crew_worker base;
    transfer_job *job;
    uint64_t asked; /* when the crew was asked last within a piece, in milliseconds */
    uint8_t *scratch;
    size_t scratch_size;
    transfer_slot *slot; /* for tiles; NULL: no row needs it */
    coffer__tile *tile;  /* what the worker has taken, if it is one … */
    uint64_t tile_gap;   /* … and what is read through in it */
} transfer_worker;

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static uint64_t transfer_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t transfer_run_size(const coffer__row *row)
{
    return row->box == NULL ? row->size : row->box->run_size;
}

static uint64_t transfer_run_count(const coffer__row *row)
{
    return row->box == NULL ? 1 : row->box->run_count;
}

static const transfer_shape *transfer_shape_of(const coffer__row *row)
{
    return row->map == NULL && row->source->is.far ? &transfer_far : &transfer_near;
}

/* Whether a row is carried out in tiles; then this is how it is cut. */
static bool transfer_tiling(const transfer_job *job, const coffer__row *row, coffer__tiling *tiling)
{
    const transfer_shape *shape = transfer_shape_of(row);
    const coffer__tile_limits *usual = row->map != NULL ? &transfer_tiles_of_map : &shape->tiles;
    const coffer__tile_limits *limits = job->tiles != NULL ? job->tiles : usual;
    if (row->box == NULL || row->box->run_size >= shape->run || !coffer__box_is_turned(row->box, limits->gap)) {
        return false;
    }
    coffer__tiling_plan(tiling, row->box, limits);
    return true;
}

/* Runs of a row that make one piece. From far away as many as one window has, when they lie close enough for one. */
static uint64_t transfer_piece_runs(const coffer__row *row, const transfer_shape *shape)
{
    const uint64_t run_size = transfer_run_size(row);
    if (shape == &transfer_near) {
        return transfer_min(shape->piece / run_size, TRANSFER_PIECE_RUNS);
    }
    if (row->box == NULL || row->box->rank == 0) {
        return 1;
    }
    const uint64_t distance = coffer__box_distance(row->box->strides[row->box->rank - 1]);
    const uint64_t gap = distance > run_size ? distance - run_size : 0;
    const uint64_t runs = gap > shape->gap ? 1 : shape->window / (run_size + gap);
    return runs > 0 ? transfer_min(runs, TRANSFER_PIECE_RUNS) : 1;
}

/* How many rows from `row` on, `most` at most, lie so close together in one far source that they come in one window. */
static size_t transfer_neighbours(const coffer__row *row, size_t most, const transfer_shape *shape)
{
    size_t count = 1;
    if (shape == &transfer_near || row->box != NULL) {
        return 1;
    }
    for (uint64_t end = row->offset + row->size; count < most; count++) {
        const coffer__row *next = &row[count];
        if (next->box != NULL || next->source != row->source || next->map != NULL || next->offset < end ||
            next->offset - end > shape->gap || next->offset - row->offset > shape->window ||
            next->size > shape->window - (next->offset - row->offset)) {
            break;
        }
        end = next->offset + next->size;
    }
    return count;
}

/* The size of a piece of a long run whose bytes go to `at` of the result: it ends where a huge page begins, so that no two
   workers touch the same fresh one, which the system would then clear twice. */
static uint64_t transfer_long_piece(const coffer__row *row, uint64_t at, const transfer_shape *shape)
{
    const uintptr_t place = (uintptr_t)row->to + (uintptr_t)at;
    return shape->piece - (uint64_t)(place % TRANSFER_HUGE_PAGE);
}

/* Takes the next tile of the next row, if that has any. */
static bool transfer_next_tile(transfer_job *job, transfer_worker *worker, transfer_piece *piece)
{
    coffer__tiling tiling;
    const coffer__row *row = &job->rows[job->row];
    if (!transfer_tiling(job, row, &tiling)) {
        return false;
    }
    coffer__tile_at(&tiling, job->run, worker->tile);
    worker->tile_gap = tiling.gap;
    *piece = (transfer_piece){ .row = row, .rows = 1, .run = job->run, .size = worker->tile->size, .tiled = true };
    job->run++;
    if (job->run == tiling.count) {
        job->run = 0;
        job->row++;
    }
    return true;
}

/* Takes the next piece and counts what the caller has done since; false when there is none, or when someone has
   failed. */
static bool transfer_next(transfer_job *job, uint64_t done, transfer_worker *worker, transfer_piece *piece)
{
    while (job->row < job->row_count && job->rows[job->row].size == 0) {
        job->row++;
    }
    job->crew.done += done;
    if (job->crew.status != COFFER_OK || job->row == job->row_count) {
        return false;
    }
    if (transfer_next_tile(job, worker, piece)) {
        return true;
    }
    const coffer__row *row = &job->rows[job->row];
    const uint64_t run_size = transfer_run_size(row);
    const uint64_t run_count = transfer_run_count(row);
    const transfer_shape *shape = transfer_shape_of(row);
    *piece = (transfer_piece){ .row = row, .rows = 1, .run = job->run, .count = 1, .skip = job->skip };
    if (run_size > shape->piece) {
        const uint64_t at = job->run * run_size + job->skip;
        piece->size = transfer_min(run_size - job->skip, transfer_long_piece(row, at, shape));
        job->skip += piece->size;
        if (job->skip == run_size) {
            job->skip = 0;
            job->run++;
        }
    } else {
        piece->rows = transfer_neighbours(row, job->row_count - job->row, shape);
        piece->count = transfer_min(run_count - job->run, transfer_piece_runs(row, shape));
        piece->size = piece->count * run_size;
        for (size_t i = 1; i < piece->rows; i++) {
            piece->size += row[i].size;
        }
        job->run += piece->count;
    }
    if (job->run == run_count) {
        job->run = 0;
        job->row += piece->rows;
    }
    return true;
}

static bool transfer_take(transfer_worker *worker, uint64_t done, transfer_piece *piece)
{
    transfer_job *job = worker->job;
    coffer__os_mutex_lock(&job->crew.mutex);
    const bool taken = transfer_next(job, done, worker, piece);
    coffer__os_mutex_unlock(&job->crew.mutex);
    return taken;
}

/* ---- moving one piece -------------------------------------------------------------------------------------------- */

static uint8_t *transfer_place(const transfer_piece *piece)
{
    return (uint8_t *)piece->row->to + (size_t)(piece->run * transfer_run_size(piece->row) + piece->skip);
}

static coffer_status transfer_bytes(const transfer_worker *worker, const coffer__row *row, uint64_t from, uint8_t *to,
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
static coffer_status transfer_ask(transfer_worker *worker, coffer_error *err)
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
static coffer_status transfer_rows(const transfer_worker *worker, const transfer_piece *piece, coffer_error *err)
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
    const coffer_status status = transfer_bytes(worker, rows, 0, into, size, err);
    for (size_t i = 0; i < piece->rows && status == COFFER_OK && !together; i++) {
        if (rows[i].size > 0) {
            memcpy(rows[i].to, into + (size_t)(rows[i].offset - rows->offset), (size_t)rows[i].size);
        }
    }
    return status;
}

/* Runs that are each worth a read of their own, or that are in memory. */
static coffer_status transfer_runs(transfer_worker *worker, const transfer_piece *piece, coffer_error *err)
{
    const coffer__row *row = piece->row;
    const uint64_t run_size = row->box->run_size;
    uint8_t *to = transfer_place(piece);
    coffer_status status = COFFER_OK;
    coffer__walk walk;
    coffer__walk_begin(&walk, row->box, piece->run);
    for (uint64_t left = piece->count; left > 0 && status == COFFER_OK;) {
        const uint64_t line = transfer_min(transfer_min(walk.line_left, left), TRANSFER_ASK_RUNS);
        const uint64_t runs = row->map != NULL ? line : 1;
        if (row->map != NULL) {
            const uint8_t *from = row->map + (size_t)(row->offset + walk.at);
            coffer__gather(to, from, (size_t)run_size, coffer__walk_stride(&walk), runs);
        } else {
            status = transfer_bytes(worker, row, walk.at, to, run_size, err);
        }
        to += (size_t)(runs * run_size);
        left -= runs;
        coffer__walk_on(&walk, runs);
        status = status == COFFER_OK && left > 0 ? transfer_ask(worker, err) : status;
    }
    return status;
}

/* Bytes [low, high) of the box's frame, read at once, and the number of runs in them. */
typedef struct transfer_window {
    uint64_t low;
    uint64_t high;
    uint64_t runs;
} transfer_window;

/*
 * How many of the `most` next runs of the line at `walk` fit in the window: those that lie inside `size` bytes with
 * what is there already and leave no gap that is too long; in an empty window at least one. The window grows by them.
 */
static uint64_t transfer_window_extend(transfer_window *window, const coffer__walk *walk, uint64_t most, uint64_t size,
                                       uint64_t longest_gap)
{
    const uint64_t run_size = walk->box->run_size;
    const uint64_t begin = walk->at;
    const uint64_t end = begin + run_size;
    if (window->runs == 0) {
        window->low = begin;
        window->high = end;
    }
    const uint64_t low = transfer_min(window->low, begin);
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
        runs = distance == 0 ? most : transfer_min(most, 1 + room / distance);
    }
    const uint64_t reach = (runs - 1) * distance;
    window->low = stride < 0 ? transfer_min(low, begin - reach) : low;
    window->high = stride < 0 || end + reach < high ? high : end + reach;
    window->runs += runs;
    return runs;
}

/* Puts as many runs from `walk` on in one window as go well together, `most` at most. */
static transfer_window transfer_window_plan(coffer__walk walk, uint64_t most, uint64_t size, uint64_t longest_gap)
{
    transfer_window window = { .runs = 0 };
    while (window.runs < most) {
        const uint64_t line = transfer_min(walk.line_left, most - window.runs);
        const uint64_t runs = transfer_window_extend(&window, &walk, line, size, longest_gap);
        if (runs == 0) {
            break;
        }
        coffer__walk_on(&walk, runs);
    }
    return window;
}

static coffer_status transfer_short_runs(transfer_worker *worker, const transfer_piece *piece, coffer_error *err)
{
    const coffer__row *row = piece->row;
    const uint64_t run_size = row->box->run_size;
    const uint64_t longest_gap = transfer_shape_of(row)->gap;
    uint8_t *to = transfer_place(piece);
    coffer__walk walk;
    coffer__walk_begin(&walk, row->box, piece->run);
    for (uint64_t left = piece->count; left > 0;) {
        const transfer_window window = transfer_window_plan(walk, left, worker->scratch_size, longest_gap);
        uint8_t *into = window.runs == 1 ? to : worker->scratch;
        coffer_status status = transfer_bytes(worker, row, window.low, into, window.high - window.low, err);
        left -= window.runs;
        status = status == COFFER_OK && left > 0 ? transfer_ask(worker, err) : status;
        if (status != COFFER_OK) {
            return status;
        }
        for (uint64_t inside = window.runs; inside > 0;) {
            const uint64_t runs = transfer_min(walk.line_left, inside);
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

static coffer_status transfer_read_lines(transfer_worker *worker, const coffer__row *row,
                                         const coffer__tile_lines *lines, coffer_error *err)
{
    uint8_t *to = worker->slot->memory;
    for (uint64_t k = 0; k < lines->count; k++) {
        const uint64_t from = coffer__tile_line(lines, k);
        coffer_status status = transfer_bytes(worker, row, from, to, lines->size, err);
        if (status == COFFER_OK && k + 1 < lines->count) {
            status = transfer_ask(worker, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        to += (size_t)lines->size;
    }
    return COFFER_OK;
}

static coffer_status transfer_tile(transfer_worker *worker, const transfer_piece *piece, coffer_error *err)
{
    const coffer__row *row = piece->row;
    const coffer__tile *tile = worker->tile;
    if (row->map != NULL) {
        coffer__tile_turn(tile, row->to, row->map + (size_t)(row->offset + tile->start), tile->strides);
        return COFFER_OK;
    }
    coffer__tile_lines lines;
    coffer__tile_lines_plan(tile, worker->tile_gap, &lines);
    coffer__os_mutex_lock(&worker->slot->lock);
    const coffer_status status = transfer_read_lines(worker, row, &lines, err);
    if (status == COFFER_OK) {
        coffer__tile_turn(tile, row->to, worker->slot->memory + (size_t)lines.first, lines.strides);
    }
    coffer__os_mutex_unlock(&worker->slot->lock);
    return status;
}

static coffer_status transfer_move(transfer_worker *worker, const transfer_piece *piece, coffer_error *err)
{
    if (piece->tiled) {
        return transfer_tile(worker, piece, err);
    }
    const coffer__row *row = piece->row;
    const transfer_shape *shape = transfer_shape_of(row);
    if (piece->rows > 1) {
        return transfer_rows(worker, piece, err);
    }
    if (row->box == NULL) {
        return transfer_bytes(worker, row, piece->skip, transfer_place(piece), piece->size, err);
    }
    const uint64_t run_size = row->box->run_size;
    if (run_size > shape->piece) {
        const uint64_t from = coffer__box_run(row->box, piece->run) + piece->skip;
        return transfer_bytes(worker, row, from, transfer_place(piece), piece->size, err);
    }
    if (row->map != NULL || run_size >= shape->run) {
        return transfer_runs(worker, piece, err);
    }
    return transfer_short_runs(worker, piece, err);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

/* The number of the row that a failure is about: of several, the one that has the byte where it was. */
static size_t transfer_failed_row(const transfer_job *job, const transfer_piece *piece, const coffer_error *error)
{
    const coffer__row *row = piece->row;
    for (size_t i = 1; i < piece->rows && error->offset != COFFER_NO_OFFSET; i++) {
        row = piece->row[i].offset <= error->offset ? &piece->row[i] : row;
    }
    return (size_t)(row - job->rows);
}

/* Moves pieces until there are none. */
static void transfer_work(void *arg)
{
    transfer_worker *worker = arg;
    transfer_job *job = worker->job;
    transfer_piece piece;
    coffer__tile tile;
    uint64_t done = 0;
    worker->tile = &tile;
    worker->asked = coffer__os_milliseconds();
    while (transfer_take(worker, done, &piece)) {
        coffer_error error;
        coffer__error_clear(&error);
        const coffer_status status = transfer_move(worker, &piece, &error);
        done = piece.size;
        if (status != COFFER_OK) {
            const bool cancelled = status == COFFER_ERR_CANCELLED;
            const size_t row = cancelled ? COFFER__CREW_NO_ROW : transfer_failed_row(job, &piece, &error);
            coffer__crew_fail(&job->crew, status, &error, row);
        } else {
            (void)coffer__crew_stop(&worker->base, done); /* which the next look for a piece finds out */
        }
    }
}

/* Pieces that come from far away, counted up to `most`. */
static uint64_t transfer_far_pieces(const transfer_job *job, uint64_t most)
{
    uint64_t pieces = 0;
    coffer__tiling tiling;
    for (size_t i = 0; i < job->row_count && pieces < most;) {
        const coffer__row *row = &job->rows[i];
        const transfer_shape *shape = transfer_shape_of(row);
        if (shape == &transfer_near || row->size == 0) {
            i++;
            continue;
        }
        if (transfer_tiling(job, row, &tiling)) {
            pieces += tiling.count;
            i++;
            continue;
        }
        const uint64_t run_size = transfer_run_size(row);
        const uint64_t cuts = run_size / shape->piece + 1;
        pieces += run_size > shape->piece ? cuts * transfer_run_count(row)
                                          : (transfer_run_count(row) - 1) / transfer_piece_runs(row, shape) + 1;
        i += transfer_neighbours(row, job->row_count - i, shape);
    }
    return transfer_min(pieces, most);
}

/* Threads that are worth while, the caller's included. */
static size_t transfer_thread_count(const transfer_job *job, uint32_t wanted)
{
    const uint64_t most = wanted == 0 ? TRANSFER_DEFAULT_THREADS : transfer_min(wanted, TRANSFER_MOST_THREADS);
    const uint64_t far = transfer_far_pieces(job, most);
    const uint64_t pieces = job->crew.total / TRANSFER_PIECE_SIZE + 1;
    if (far > 0) {
        return (size_t)far;
    }
    if (wanted == 0 && job->crew.total < TRANSFER_ALONE_SIZE) {
        return 1;
    }
    return (size_t)transfer_min(wanted == 0 ? transfer_min(coffer__os_processors(), most) : most, pieces);
}

/* Whether all of it is read by this library alone: from maps and files, by no caller's functions and no other library. */
static bool transfer_is_own(const transfer_job *job)
{
    for (size_t i = 0; i < job->row_count; i++) {
        if (job->rows[i].map == NULL && job->rows[i].source->ops->borrow == NULL) {
            return false;
        }
    }
    return true;
}

/* Bytes from the first to the last that a box takes, or `most` when that is less. */
static uint64_t transfer_box_span(const coffer__box *box, uint64_t most)
{
    uint64_t span = box->run_size;
    for (size_t i = 0; i < box->rank; i++) {
        span += (box->counts[i] - 1) * coffer__box_distance(box->strides[i]);
    }
    return transfer_min(span, most);
}

/* What the largest tile of all rows takes: 0 when none is read. */
static size_t transfer_slot_size(const transfer_job *job)
{
    uint64_t most = 0;
    coffer__tiling tiling;
    for (size_t i = 0; i < job->row_count; i++) {
        const coffer__row *row = &job->rows[i];
        if (row->map == NULL && row->size > 0 && transfer_tiling(job, row, &tiling)) {
            most = tiling.memory > most ? tiling.memory : most;
        }
    }
    return (size_t)most;
}

/* Scratch that a worker needs for the rows: 0 when all their runs go straight to their places. */
static size_t transfer_scratch_size(const transfer_job *job)
{
    uint64_t most = 0;
    coffer__tiling tiling;
    for (size_t i = 0; i < job->row_count; i++) {
        const coffer__row *row = &job->rows[i];
        const transfer_shape *shape = transfer_shape_of(row);
        const size_t left = job->row_count - i;
        uint64_t span = 0;
        if (row->box == NULL && transfer_neighbours(row, left < 2 ? left : 2, shape) > 1) {
            span = shape->window;
        } else if (transfer_tiling(job, row, &tiling)) {
            span = 0;
        } else if (row->map == NULL && row->box != NULL && row->box->run_count > 1 && row->box->run_size < shape->run) {
            span = transfer_box_span(row->box, shape->window);
        }
        most = span > most ? span : most;
    }
    return (size_t)most;
}

/* What all workers have besides themselves. */
typedef struct transfer_memory {
    size_t workers;
    size_t scratch; /* bytes of each */
    size_t slots;
    size_t slot; /* bytes of each */
} transfer_memory;

static transfer_memory transfer_measure(const transfer_job *job, uint32_t threads)
{
    transfer_memory memory = { .workers = transfer_thread_count(job, threads) };
    memory.scratch = transfer_scratch_size(job);
    memory.slot = transfer_slot_size(job);
    if (memory.slot > 0) {
        const uint64_t slots = TRANSFER_TILES / memory.slot;
        memory.slots = (size_t)transfer_min(slots > 0 ? slots : 1, memory.workers);
    }
    return memory;
}

/* Gives out the memory behind the workers. The caller's thread shares its slot with nobody, as it has the user to ask. */
static void transfer_share(transfer_job *job, const transfer_memory *memory, transfer_worker *workers,
                           transfer_slot *slots)
{
    uint8_t *scratch = (uint8_t *)(slots + memory->slots);
    uint8_t *tiles = scratch + memory->workers * memory->scratch;
    for (size_t i = 0; i < memory->slots; i++) {
        slots[i].memory = tiles + i * memory->slot;
    }
    for (size_t i = 0; i < memory->workers; i++) {
        workers[i].job = job;
        workers[i].scratch = scratch + i * memory->scratch;
        workers[i].scratch_size = memory->scratch;
        const size_t others = memory->slots > 1 ? 1 + (i - 1) % (memory->slots - 1) : 0;
        workers[i].slot = memory->slots == 0 ? NULL : &slots[i == 0 ? 0 : others];
    }
}

static coffer_status transfer_run(transfer_job *job, const coffer__transfer_options *options, coffer_error *err)
{
    const transfer_memory memory = transfer_measure(job, options->threads);
    const size_t block_size = memory.workers * (sizeof(transfer_worker) + memory.scratch) +
                              memory.slots * (sizeof(transfer_slot) + memory.slot);
    transfer_worker *workers = coffer__alloc(options->allocator, block_size);
    if (workers == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z that reading works with",
                            (uint64_t)block_size);
    }
    transfer_slot *slots = (transfer_slot *)(workers + memory.workers);
    coffer_status status = COFFER_OK;
    size_t locks = 0;
    transfer_share(job, &memory, workers, slots);
    while (locks < memory.slots && coffer__os_mutex_init(&slots[locks].lock) == 0) {
        locks++;
    }
    if (locks == memory.slots) {
        job->crew.own_code = transfer_is_own(job);
        status = coffer__crew_run(&job->crew, workers, memory.workers, sizeof *workers);
    } else {
        status = coffer__fail(err, COFFER_ERR_IO, "the system gives no mutex");
    }
    while (locks > 0) {
        coffer__os_mutex_deinit(&slots[--locks].lock);
    }
    coffer__free(options->allocator, workers, block_size);
    return status;
}

coffer__crew coffer__transfer_crew(const coffer__transfer_options *options, coffer_error *err)
{
    return (coffer__crew){
        .progress = options->progress, .progress_ctx = options->progress_ctx, .failed = options->failed, .err = err
    };
}

coffer_status coffer__transfer(const coffer__row *rows, size_t count, const coffer__transfer_options *options,
                               coffer_error *err)
{
    transfer_job job = { .rows = rows, .row_count = count, .tiles = options->tiles };
    job.crew = coffer__transfer_crew(options, err);
    job.crew.work = transfer_work;
    for (size_t i = 0; i < count; i++) {
        if (!coffer__add_u64(job.crew.total, rows[i].size, &job.crew.total)) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "more than 2^64-1 bytes cannot be moved at once");
        }
    }
    return transfer_run(&job, options, err);
}
