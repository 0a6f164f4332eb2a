/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer_chunk.h"

#include "checked.h"

#define PIECE_SIZE ((uint64_t)2 << 20)
#define PIECE_HUGE_PAGE ((uintptr_t)2 << 20)
#define PIECE_RUNS ((uint64_t)64 << 10) /* bounds the time that a chunk of tiny runs takes */

/* Files of this system. A system call costs about as much as copying a page, hence the 4 KiB.
   Chunks of 2 MiB are large enough to hide the cost of taking them, and small enough that the work
   divides evenly and that cancelling takes effect soon. */
static const coffer__shape chunk_near = {
    .chunk = PIECE_SIZE,
    .run = 4096,
    .gap = 4096,
    .window = (uint64_t)256 << 10,
    /* 64 bytes less than a power of two: lines at distances of a power of two would compete for the same
       few sets of the processor's cache. */
    .tiles = { .memory = (uint64_t)16 << 20, .read = 8192 - 64, .write = 8192, .gap = 4096 },
};
/* A round trip of 50 ms is worth 600 kB at 100 Mbit/s. So requests are large, and gaps are read
   that are short compared with it. Several round trips run in parallel, which is why a chunk is not
   larger still. */
static const coffer__shape chunk_far = {
    .chunk = (uint64_t)4 << 20,
    .run = (uint64_t)1 << 20,
    .gap = (uint64_t)128 << 10,
    .window = (uint64_t)2 << 20,
    .tiles = { .memory = (uint64_t)16 << 20, .read = (uint64_t)1 << 20, .write = 64, .gap = (uint64_t)128 << 10 },
};
/* Tiles of a map need no memory, but touching a page may read it from the device, which nothing can
   interrupt. Tiles are smaller, so that the progress callback is asked often enough. */
static const coffer__tile_limits chunk_tiles_of_map = { (uint64_t)1 << 20, 8192, 8192, 4096 };

/* ---- ops -------------------------------------------------------------------------------------------------------- */

static uint64_t chunk_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t coffer__transfer_op_run_size(const coffer__transfer_op *op)
{
    return op->box == NULL ? op->size : op->box->run_size;
}

static uint64_t chunk_run_count(const coffer__transfer_op *op)
{
    return op->box == NULL ? 1 : op->box->run_count;
}

bool coffer__transfer_op_is_far(const coffer__transfer_op *op)
{
    return op->map == NULL && op->source->is.far;
}

const coffer__shape *coffer__shape_of(const coffer__transfer_op *op)
{
    return coffer__transfer_op_is_far(op) ? &chunk_far : &chunk_near;
}

/* Whether a op is carried out in tiles; then *tiling says how it is cut. Runs that are long enough
   for a read of their own gain nothing from tiles. Planning a tiling is cheap and pure, so it is
   repeated for each tile instead of being kept in the queue. */
static bool chunk_tiling(const coffer__queue *queue, const coffer__transfer_op *op, coffer__tiling *tiling)
{
    const coffer__shape *shape = coffer__shape_of(op);
    const coffer__tile_limits *usual = op->map != NULL ? &chunk_tiles_of_map : &shape->tiles;
    const coffer__tile_limits *limits = queue->tiles != NULL ? queue->tiles : usual;
    if (op->box == NULL || op->box->run_size >= shape->run || !coffer__box_is_turned(op->box, limits->gap)) {
        return false;
    }
    coffer__tiling_plan(tiling, op->box, limits);
    return true;
}

/*
 * How many runs of a op make one chunk, at least 1. The run size is at most a chunk's here, and
 * not 0.
 *
 * Near: as many as fill a chunk. Far: as many as one window holds, when the runs of the innermost
 * dimension are so close that a window can span the gaps; otherwise one, because each is a request
 * and requests are what the threads divide.
 */
static uint64_t chunk_runs(const coffer__transfer_op *op, const coffer__shape *shape)
{
    const uint64_t run_size = coffer__transfer_op_run_size(op);
    if (shape == &chunk_near) {
        return chunk_min(shape->chunk / run_size, PIECE_RUNS);
    }
    if (op->box == NULL || op->box->rank == 0) {
        return 1;
    }
    const uint64_t distance = coffer__box_distance(op->box->strides[op->box->rank - 1]);
    const uint64_t gap = distance > run_size ? distance - run_size : 0;
    const uint64_t runs = gap > shape->gap ? 1 : shape->window / (run_size + gap);
    return runs > 0 ? chunk_min(runs, PIECE_RUNS) : 1;
}

/* How many ops from `op` on, at most `most`, are close enough together in one far source to be
   read in one window: each begins at or after the end of the one before, no gap is longer than the
   shape's, and all lie within the window. The sums are written as differences, so that nothing
   overflows: op[count] begins after `op` when its distance is computed. */
static size_t chunk_neighbours(const coffer__transfer_op *op, size_t most, const coffer__shape *shape)
{
    size_t count = 1;
    if (shape == &chunk_near || op->box != NULL) {
        return 1;
    }
    for (uint64_t end = op->offset + op->size; count < most; count++) {
        const coffer__transfer_op *next = &op[count];
        if (next->box != NULL || next->algorithm != COFFER_NO_ALGORITHM || next->source != op->source ||
            next->map != NULL || next->offset < end || next->offset - end > shape->gap ||
            next->offset - op->offset > shape->window || next->size > shape->window - (next->offset - op->offset)) {
            break;
        }
        end = next->offset + next->size;
    }
    return count;
}

/* The size of a chunk of a long run whose bytes go to `at` of the result. It ends at an address
   where a huge page begins. Otherwise two workers would touch the same fresh huge page at the same
   time, and the kernel would clear it twice. Never 0, since a chunk is at least as large as a huge
   page. */
static uint64_t chunk_long(const coffer__transfer_op *op, uint64_t at, const coffer__shape *shape)
{
    const uintptr_t place = (uintptr_t)op->to + (uintptr_t)at;
    return shape->chunk - (uint64_t)(place % PIECE_HUGE_PAGE);
}

/* ---- the queue --------------------------------------------------------------------------------------------------- */

/* Whether a op is in the queue at all. */
static bool chunk_is_queued(const coffer__transfer_op *op)
{
    return op->size > 0 && op->algorithm == COFFER_NO_ALGORITHM;
}

/* Takes tile number queue->run of the current op. For a tiled op `run` counts tiles instead of
   runs. */
static void chunk_take_tile(coffer__queue *queue, const coffer__tiling *tiling, coffer__transfer_chunk *chunk,
                            coffer__tile *tile)
{
    coffer__tile_at(tiling, queue->run, tile);
    *chunk = (coffer__transfer_chunk){
        .op = &queue->ops[queue->op], .ops = 1, .run = queue->run, .size = tile->size, .tiled = true
    };
    queue->run++;
    if (queue->run == tiling->count) {
        queue->run = 0;
        queue->op++;
    }
}

/* Takes a part of a run that is longer than a chunk. The parts of a run are disjoint and in order,
   and the last one ends where the run does. */
static void chunk_take_part(coffer__queue *queue, const coffer__shape *shape, coffer__transfer_chunk *chunk)
{
    const uint64_t run_size = coffer__transfer_op_run_size(chunk->op);
    const uint64_t at = queue->run * run_size + queue->skip;
    chunk->size = chunk_min(run_size - queue->skip, chunk_long(chunk->op, at, shape));
    queue->skip += chunk->size;
    if (queue->skip == run_size) {
        queue->skip = 0;
        queue->run++;
    }
}

/* Takes whole runs: as many of one op as make a chunk, or several whole ops. When there are
   several, the first has one run (it has no box), so run reaches its run count and
   coffer__queue_next passes over all of them. */
static void chunk_take_runs(coffer__queue *queue, const coffer__shape *shape, coffer__transfer_chunk *chunk)
{
    const coffer__transfer_op *op = chunk->op;
    chunk->ops = chunk_neighbours(op, queue->op_count - queue->op, shape);
    chunk->count = chunk_min(chunk_run_count(op) - queue->run, chunk_runs(op, shape));
    chunk->size = chunk->count * coffer__transfer_op_run_size(op);
    for (size_t i = 1; i < chunk->ops; i++) {
        chunk->size += op[i].size;
    }
    queue->run += chunk->count;
}

/* Invariant between calls: op == op_count, or `run` is below the op's number of runs (or tiles)
   and `skip` is below the run size. Every call that returns true advances the cursor by at least
   one byte. */
bool coffer__queue_next(coffer__queue *queue, coffer__transfer_chunk *chunk, coffer__tile *tile)
{
    coffer__tiling tiling;
    while (queue->op < queue->op_count && !chunk_is_queued(&queue->ops[queue->op])) {
        queue->op++;
    }
    if (queue->op == queue->op_count) {
        return false;
    }
    const coffer__transfer_op *op = &queue->ops[queue->op];
    const coffer__shape *shape = coffer__shape_of(op);
    if (chunk_tiling(queue, op, &tiling)) {
        chunk_take_tile(queue, &tiling, chunk, tile);
        return true;
    }
    *chunk = (coffer__transfer_chunk){ .op = op, .ops = 1, .run = queue->run, .count = 1, .skip = queue->skip };
    if (coffer__transfer_op_run_size(op) > shape->chunk) {
        chunk_take_part(queue, shape, chunk);
    } else {
        chunk_take_runs(queue, shape, chunk);
    }
    if (queue->run == chunk_run_count(op)) {
        queue->run = 0;
        queue->op += chunk->ops;
    }
    return true;
}

/* ---- what the queue comes to ------------------------------------------------------------------------------------- */

bool coffer__queue_total(const coffer__queue *queue, uint64_t *total)
{
    *total = 0;
    for (size_t i = 0; i < queue->op_count; i++) {
        if (chunk_is_queued(&queue->ops[i]) && !coffer__add_u64(*total, queue->ops[i].size, total)) {
            return false;
        }
    }
    return true;
}

/* Counts as coffer__queue_next would take chunks, but without walking through them: a op may have
   more chunks than can be counted one by one. Cuts of long runs are rounded up, which at worst
   starts a thread too many. */
uint64_t coffer__queue_far_chunks(const coffer__queue *queue, uint64_t most)
{
    uint64_t chunks = 0;
    coffer__tiling tiling;
    for (size_t i = 0; i < queue->op_count && chunks < most;) {
        const coffer__transfer_op *op = &queue->ops[i];
        const coffer__shape *shape = coffer__shape_of(op);
        if (shape == &chunk_near || !chunk_is_queued(op)) {
            i++;
            continue;
        }
        if (chunk_tiling(queue, op, &tiling)) {
            chunks += tiling.count;
            i++;
            continue;
        }
        const uint64_t run_size = coffer__transfer_op_run_size(op);
        const uint64_t cuts = run_size / shape->chunk + 1;
        chunks += run_size > shape->chunk ? cuts * chunk_run_count(op)
                                          : (chunk_run_count(op) - 1) / chunk_runs(op, shape) + 1;
        i += chunk_neighbours(op, queue->op_count - i, shape);
    }
    return chunk_min(chunks, most);
}

/* Bytes from the first to the last byte that a box takes, or `most` if that is less. The box lies
   within its source, so the span is a number of bytes that exist and does not overflow. */
static uint64_t chunk_box_span(const coffer__box *box, uint64_t most)
{
    uint64_t span = box->run_size;
    for (size_t i = 0; i < box->rank; i++) {
        span += (box->counts[i] - 1) * coffer__box_distance(box->strides[i]);
    }
    return chunk_min(span, most);
}

/* The largest tile of all ops. Mapped ops are transposed straight from the map and need none. */
size_t coffer__queue_largest_tile(const coffer__queue *queue)
{
    uint64_t most = 0;
    coffer__tiling tiling;
    for (size_t i = 0; i < queue->op_count; i++) {
        const coffer__transfer_op *op = &queue->ops[i];
        if (op->map == NULL && chunk_is_queued(op) && chunk_tiling(queue, op, &tiling)) {
            most = tiling.memory > most ? tiling.memory : most;
        }
    }
    return (size_t)most;
}

/* The most scratch memory that any op needs. Only windows use scratch: neighbouring far ops, and
   boxes of short runs that are not mapped. A box that spans less than a window needs only its span.
   This must not be less than fill.c uses; the conditions are those by which coffer__fill chooses
   its way. */
size_t coffer__queue_scratch(const coffer__queue *queue)
{
    uint64_t most = 0;
    coffer__tiling tiling;
    for (size_t i = 0; i < queue->op_count; i++) {
        const coffer__transfer_op *op = &queue->ops[i];
        const coffer__shape *shape = coffer__shape_of(op);
        const size_t left = queue->op_count - i;
        uint64_t span = 0;
        if (!chunk_is_queued(op)) {
            continue;
        }
        if (op->box == NULL && chunk_neighbours(op, left < 2 ? left : 2, shape) > 1) {
            span = shape->window;
        } else if (chunk_tiling(queue, op, &tiling)) {
            span = 0;
        } else if (op->map == NULL && op->box != NULL && op->box->run_count > 1 && op->box->run_size < shape->run) {
            span = chunk_box_span(op->box, shape->window);
        }
        most = span > most ? span : most;
    }
    return (size_t)most;
}
