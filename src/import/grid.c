/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sizes of a grid are those of the array, filled up to whole chunks; so every chunk is whole, and its rows are runs of the
 * array. Rows of the last dimensions, as far as there is one chunk along each of them, are one run.
 */
#include "grid.h"

/* Where a chunk is, and where within it. */
typedef struct grid_walk {
    const coffer__import_plan_dimension *grid;
    uint32_t rank;                         /* of the dimensions that are walked over */
    uint64_t run;                          /* bytes of a run */
    uint64_t at;                           /* of the next run, in the array */
    uint64_t steps[COFFER__PLAN_MAX_RANK]; /* bytes from an index to the next one, in the array */
    uint64_t index[COFFER__PLAN_MAX_RANK]; /* in the chunk */
} grid_walk;

/* The chunk's place: its number counts the last dimension first. */
static void grid_begin(grid_walk *walk, const coffer__import_plan_storage *storage, uint32_t number)
{
    uint64_t step = storage->as.grid.item_size;
    uint64_t left = number;
    for (uint32_t i = storage->as.grid.rank; i > 0; i--) {
        const coffer__import_plan_dimension *dimension = &walk->grid[i - 1];
        walk->steps[i - 1] = step;
        walk->index[i - 1] = 0;
        walk->at += left % dimension->count * (uint64_t)dimension->stride * step;
        left /= dimension->count;
        step *= dimension->size;
    }
    walk->rank = storage->as.grid.rank;
    walk->run = storage->as.grid.item_size;
    bool whole = true;
    while (walk->rank > 0 && whole) {
        const coffer__import_plan_dimension *dimension = &walk->grid[walk->rank - 1];
        walk->run *= (uint64_t)dimension->stride;
        whole = dimension->count == 1;
        walk->rank--;
    }
}

/* To the next run; false after the last. */
static bool grid_step(grid_walk *walk)
{
    for (uint32_t i = walk->rank; i > 0; i--) {
        const uint64_t count = (uint64_t)walk->grid[i - 1].stride;
        walk->at += walk->steps[i - 1];
        if (++walk->index[i - 1] < count) {
            return true;
        }
        walk->at -= count * walk->steps[i - 1];
        walk->index[i - 1] = 0;
    }
    return false;
}

coffer_status coffer__grid_spread(const coffer__import_plan *plan, const coffer__import_plan_storage *storage,
                                  uint32_t number, const uint8_t *bytes, coffer__grid_put *put, void *ctx,
                                  coffer_error *err)
{
    grid_walk walk = { .grid = (const coffer__import_plan_dimension *)plan->dimensions.items +
                               storage->as.grid.dimensions };
    coffer_status status = COFFER_OK;
    grid_begin(&walk, storage, number);
    do {
        status = put(ctx, walk.at, bytes, (size_t)walk.run, err);
        bytes += walk.run;
    } while (status == COFFER_OK && grid_step(&walk));
    return status;
}
