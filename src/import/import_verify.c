/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was written, compared with what was read: both sides are read again, and bytes are compared. The code that wrote
 * is not asked: elements of views are found by their indices in a storage that is in memory (verify_walk.h). Only for a
 * view of more than that are its bands gathered by the transfer.
 *
 * The order:
 *
 *   1. every row is found in the output by its name, with the same dtype and shape
 *   2. rows whose bytes are simply there, on both sides, all together
 *   3. the others storage by storage, so that what is decoded is decoded once; arrays of parts by verify_parts.h
 *
 * CRCs are not compared again: the same bytes would give the same answer.
 *
 * Memory: that of the thread pool (verify_threads.h) and, once a view needs it, 16 MiB.
 */
#include "alloc.h"
#include "error.h"
#include "import.h"
#include "model.h"
#include "options.h"
#include "pages.h"
#include "sort.h"
#include "storage.h"
#include "tile.h"
#include "transfer.h"
#include "verify_threads.h"

#include <string.h>

/* Storages of views that are read whole, and bands of the results of others, at most. */
#define VERIFY_VIEW ((uint64_t)16 << 20)

/* A band is read in tiles that are small enough for the cache of one processor, so that several threads read one. */
static const coffer__tile_limits verify_tiles = { (uint64_t)1 << 20, 4096 - 64, 1024, 4096 };

/* One call. */
typedef struct verify_comparison {
    const coffer_import *import;
    const coffer__import_plan *plan;
    const coffer_read_options *options;
    const coffer_allocator *allocator;
    coffer__decoding decoding;
    coffer__verify_threads thread_pool;
    coffer__verify_row *rows; /* `count` that are written: those of a storage together, but first the plain ones */
    size_t count;
    size_t empty_count;         /* without bytes, at the end: nothing was carried, so nothing is decoded either */
    size_t plain_count;         /* whose bytes lie one after another in a file of the input */
    uint32_t *order;            /* of their rows in the plan */
    uint8_t *view;              /* `view_size` bytes, once a view needs them */
    size_t view_size;           /* VERIFY_VIEW, or less where all storages and results are smaller */
    coffer__transfer_kept kept; /* by the transfers that read views */
} verify_comparison;

/* A row that is written has a storage: the check refuses any other. */
static const coffer__import_plan_storage *verify_storage_of(const coffer__import_plan *plan,
                                                            const coffer__import_plan_row *row)
{
    return coffer__import_plan_storages(plan) + row->storage;
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

/* The memory of views, once one is there: most files have none. */
static coffer_status verify_view_memory(verify_comparison *run, coffer_error *err)
{
    if (run->view == NULL) {
        run->view = coffer__alloc_pages(run->allocator, run->view_size);
    }
    return run->view != NULL ? COFFER_OK : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to verify what was written");
}

/* Reads a row into memory, by the transfer's own threads. */
static coffer_status verify_transfer(verify_comparison *run, const coffer__transfer_op *row, coffer_error *err)
{
    const coffer__transfer_options options = { .allocator = run->allocator,
                                               .threads = run->options->threads,
                                               .tiles = row->source->is.far ? NULL : &verify_tiles,
                                               .kept = &run->kept };
    return coffer__transfer(row, 1, &options, err);
}

/* Views of a storage that fits in memory: it is read once for all of them. */
static coffer_status verify_small_views(verify_comparison *run, const coffer__verify_row *rows, size_t count,
                                        uint64_t storage_size, coffer_error *err)
{
    coffer_status status = verify_view_memory(run, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__transfer_op whole = {
        .source = rows->source, .offset = rows->at, .size = storage_size, .to = run->view
    };
    status = verify_transfer(run, &whole, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer__verify_task task = { .rows = rows, .count = count, .to = UINT64_MAX, .storage = run->view };
    return coffer__verify_threads_run(&run->thread_pool, &task, err);
}

/* A view of more: band by band of the result, each gathered by a transfer into memory. */
static coffer_status verify_large_view(verify_comparison *run, const coffer__verify_row *row, const coffer__box *box,
                                       coffer_error *err)
{
    coffer__tiling tiling;
    coffer_status status = verify_view_memory(run, err);
    /* A little less than a power of two: lines at such distances would compete for the same few sets of the cache. */
    coffer__tiling_bands(&tiling, box, VERIFY_VIEW - VERIFY_VIEW / 64);
    for (uint64_t k = 0; k < tiling.count && status == COFFER_OK; k++) {
        coffer__tile tile;
        coffer__box band;
        coffer__tile_at(&tiling, k, &tile);
        coffer__tile_box(&tile, &band);
        const coffer__transfer_op part = {
            .source = row->source, .offset = row->at, .box = &band, .size = tile.size, .to = run->view
        };
        const coffer__verify_task task = {
            .rows = row, .count = 1, .from = tile.to, .to = tile.to + tile.size, .gathered = run->view
        };
        /* A band has at least one run, which is as long as the view makes it. */
        status = tile.size <= VERIFY_VIEW
                     ? verify_transfer(run, &part, err)
                     : coffer__fail(err, COFFER_ERR_UNSUPPORTED, "a run of this tensor is too long to be verified");
        if (status == COFFER_OK) {
            status = coffer__verify_threads_run(&run->thread_pool, &task, err);
        }
    }
    return status;
}

/* ---- storages ---------------------------------------------------------------------------------------------------- */

/* A row, given the source of its storage, by itself: all of what is decoded in order, or a view of much. */
static coffer_status verify_alone(verify_comparison *run, const coffer__verify_row *row, bool in_order,
                                  coffer_error *err)
{
    coffer__box box;
    const coffer_status status = coffer__import_plan_box(run->plan, row->row, &box, err);
    if (status != COFFER_OK || row->tensor->size == 0) {
        return status;
    }
    const coffer__verify_task task = { .rows = row, .count = 1, .to = UINT64_MAX, .in_order = in_order };
    return box.rank == 0 ? coffer__verify_threads_run(&run->thread_pool, &task, err)
                         : verify_large_view(run, row, &box, err);
}

/* `count` rows of one storage, from its source. A small storage is read whole, whatever its views look like; of a large
   one each view is looked at by itself. What comes as a stream has one row, which is all of it. */
static coffer_status verify_from(verify_comparison *run, const coffer__verify_row *rows, size_t count, bool in_order,
                                 coffer_error *err)
{
    const uint64_t storage_size = verify_storage_of(run->plan, rows->row)->size;
    coffer_status status = COFFER_OK;
    if (storage_size <= VERIFY_VIEW && !in_order) {
        status = verify_small_views(run, rows, count, storage_size, err);
        return status == COFFER_OK ? status : coffer__import_plan_fail_row(run->plan, rows->row, status, err);
    }
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        status = verify_alone(run, &rows[i], in_order, err);
        if (status != COFFER_OK) {
            (void)coffer__import_plan_fail_row(run->plan, rows[i].row, status, err);
        }
    }
    return status;
}

/* Whether a row is all of an array that is assembled, in its order. Others of such arrays, which are transposed, go the
   way of views: over the source that wrote them. */
static bool verify_is_array(const coffer__import_plan *plan, const coffer__import_plan_row *row)
{
    return verify_storage_of(plan, row)->kind == COFFER__STORAGE_ASSEMBLED && coffer__import_plan_is_whole(plan, row);
}

/* Rows that are all of one array: what they should be is assembled stretch by stretch. */
static coffer_status verify_array(verify_comparison *run, coffer__verify_row *rows, size_t count, coffer_error *err)
{
    const coffer__verify_array array = { run->plan, run->import->input, rows->row->storage };
    const coffer__verify_task task = { .rows = rows, .count = count, .to = UINT64_MAX };
    for (size_t i = 0; i < count; i++) {
        rows[i].array = &array;
    }
    const coffer_status status = coffer__verify_threads_run(&run->thread_pool, &task, err);
    return status == COFFER_OK ? status : coffer__import_plan_fail_row(run->plan, rows->row, status, err);
}

/* The rows of one storage: from the file itself where the bytes are simply there, else decoded again. A stream can be
   read once only, so a storage streams if one row wants it, and all of it. */
static coffer_status verify_storage(verify_comparison *run, coffer__verify_row *rows, size_t count, coffer_error *err)
{
    const coffer__import_plan_row *row = rows->row;
    if (rows->source != NULL) {
        return verify_from(run, rows, count, false, err);
    }
    if (verify_is_array(run->plan, row)) {
        return verify_array(run, rows, count, err);
    }
    coffer__storage_source source;
    coffer_status status = coffer__storage_open(&source, &run->decoding, row->storage,
                                                count == 1 && coffer__import_plan_is_whole(run->plan, row), err);
    for (size_t i = 0; i < count; i++) {
        rows[i].source = &source.source;
    }
    if (status == COFFER_OK) {
        status = verify_from(run, rows, count, source.in_order, err);
    } else {
        (void)coffer__import_plan_fail_row(run->plan, row, status, err);
    }
    coffer__storage_close(&source);
    return status;
}

/* ---- all rows ---------------------------------------------------------------------------------------------------- */

/* Whether a row's bytes lie one after another in a file of the input. */
static bool verify_is_plain(const coffer__import_plan *plan, const coffer__import_plan_row *row)
{
    coffer__box box;
    return coffer__import_plan_is_plain(plan, verify_storage_of(plan, row)) &&
           coffer__import_plan_box(plan, row, &box, NULL) == COFFER_OK && box.rank == 0;
}

/* Whether the tensor is declared as the plan has it: right bytes under a wrong shape or dtype are a wrong tensor. */
static bool verify_is_same(const coffer__import_plan *plan, const coffer__verify_row *row)
{
    const coffer_tensor *tensor = row->tensor;
    if (tensor->dtype != row->row->dtype || tensor->rank != row->row->rank ||
        tensor->size != coffer__import_plan_row_size(plan, row->row)) {
        return false;
    }
    for (size_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] != row->dimensions[i].size) {
            return false;
        }
    }
    return true;
}

/* Row `number` of the plan as it was written. A tensor that the output does not have under its name is an error of the
   output, not of the call. */
static coffer_status verify_find_row(verify_comparison *run, uint32_t number, coffer__verify_row *found,
                                     coffer_error *err)
{
    const coffer__import_plan_row *row = coffer__import_plan_rows(run->plan) + number;
    const coffer__import_plan_storage *storage = verify_storage_of(run->plan, row);
    size_t name_len = 0;
    const char *name = coffer__import_plan_text(run->plan, row->name, &name_len);
    *found = (coffer__verify_row){ .row = row,
                                   .dimensions = coffer__import_plan_dimensions(run->plan, row),
                                   .tensor = coffer_find(run->thread_pool.written, name, name_len) };
    if (found->tensor == NULL || !verify_is_same(run->plan, found)) {
        return coffer__verify_differs(name, name_len, "the output does not have it as it should be", err);
    }
    if (coffer__import_plan_is_plain(run->plan, storage)) {
        const coffer__import_plan_piece *piece = coffer__import_plan_pieces(run->plan) + storage->first;
        found->source = coffer__input_source(run->import->input, piece->file);
        found->at = piece->offset;
    }
    return COFFER_OK;
}

/* What is plain comes first, and what has no bytes last. */
static unsigned verify_turn(const coffer__import_plan *plan, const coffer__import_plan_row *row)
{
    return verify_is_plain(plan, row) ? 0 : coffer__import_plan_row_size(plan, row) > 0 ? 1 : 2;
}

/* The rest by storage, and so in the order of the input for what a reader found in order. */
static bool verify_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__import_plan_row *rows = coffer__import_plan_rows(ctx);
    const unsigned turn = verify_turn(ctx, &rows[a]);
    const unsigned other = verify_turn(ctx, &rows[b]);
    return turn != other ? turn < other : rows[a].storage < rows[b].storage;
}

/* Notes which rows are in files with holes, on both sides. Asking costs calls of the system, and rows from one source
   mostly follow each other. */
static void verify_find_holes(verify_comparison *run)
{
    const coffer__byte_source *sources[2] = { NULL, NULL };
    bool sparse = false;
    for (size_t i = 0; i < run->plain_count; i++) {
        coffer__verify_row *row = &run->rows[i];
        const coffer__byte_source *output = &coffer__model_shard(run->thread_pool.written, row->tensor)->source;
        if (row->source != sources[0] || output != sources[1]) {
            sparse = coffer__source_has_holes(row->source) && coffer__source_has_holes(output);
        }
        sources[0] = row->source;
        sources[1] = output;
        row->sparse = sparse;
    }
}

/* Makes space for a row that is written, as far as it is worth it. */
static void verify_reserve(verify_comparison *run, const coffer__import_plan_row *row)
{
    const uint64_t storage_size = verify_storage_of(run->plan, row)->size;
    const uint64_t row_size = coffer__import_plan_row_size(run->plan, row);
    const uint64_t larger = storage_size > row_size ? storage_size : row_size;
    const size_t useful = larger < VERIFY_VIEW ? (size_t)larger : (size_t)VERIFY_VIEW;
    run->view_size = useful > run->view_size ? useful : run->view_size;
    run->thread_pool.total += row_size;
}

/* As many tensors as rows, and each row is found by its name: so there are no others. */
static coffer_status verify_find_all(verify_comparison *run, coffer_error *err)
{
    for (uint32_t i = 0; i < run->plan->rows.count; i++) {
        const coffer__import_plan_row *row = coffer__import_plan_rows(run->plan) + i;
        if (row->fate == COFFER_FATE_WRITTEN) {
            run->order[run->count++] = i;
            verify_reserve(run, row);
            run->plain_count += verify_turn(run->plan, row) == 0;
            run->empty_count += verify_turn(run->plan, row) == 2;
        }
    }
    coffer__sort(run->order, run->count, verify_before, run->plan);
    if (coffer_count(run->thread_pool.written) != run->count) {
        return coffer__fail(err, COFFER_ERR_NOT_EQUAL, "the output has %u tensors instead of %u",
                            (uint64_t)coffer_count(run->thread_pool.written), (uint64_t)run->count);
    }
    for (size_t i = 0; i < run->count; i++) {
        const coffer_status status = verify_find_row(run, run->order[i], &run->rows[i], err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    verify_find_holes(run);
    return COFFER_OK;
}

/* The input is looked at once more at the end: if it was changed meanwhile, equal bytes prove nothing. */
static coffer_status verify_all(verify_comparison *run, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    if (run->plain_count > 0) {
        const coffer__verify_task plain = { .rows = run->rows, .count = run->plain_count, .to = UINT64_MAX };
        status = coffer__verify_threads_run(&run->thread_pool, &plain, err);
    }
    const size_t filled_end = run->count - run->empty_count;
    for (size_t i = run->plain_count; i < filled_end && status == COFFER_OK;) {
        size_t end = i + 1;
        while (end < filled_end && run->rows[end].row->storage == run->rows[i].row->storage) {
            end++;
        }
        status = verify_storage(run, run->rows + i, end - i, err);
        i = end;
    }
    return status == COFFER_OK ? coffer__input_is_still(run->import->input, err) : status;
}

/* Allocates, compares and releases, whatever happened: what was not allocated is NULL. */
static coffer_status verify_import(verify_comparison *run, coffer_error *err)
{
    const size_t rows = run->plan->rows.count;
    run->order = coffer__alloc_array(run->allocator, rows, sizeof *run->order, err);
    run->rows = coffer__alloc_array(run->allocator, rows, sizeof *run->rows, err);
    coffer_status status = run->order != NULL && run->rows != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
    if (status == COFFER_OK) {
        status = verify_find_all(run, err);
    }
    if (status == COFFER_OK) {
        status = coffer__verify_threads_open(&run->thread_pool, coffer__input_is_far(run->import->input), err);
    }
    if (status == COFFER_OK) {
        status = verify_all(run, err);
    }
    coffer__inflaters_close(&run->decoding.inflaters);
    coffer__transfer_free(&run->kept, run->allocator);
    coffer__free_pages(run->allocator, run->view, run->view_size);
    coffer__verify_threads_close(&run->thread_pool);
    coffer__free_array(run->allocator, run->rows, rows, sizeof *run->rows);
    coffer__free_array(run->allocator, run->order, rows, sizeof *run->order);
    return status;
}

coffer_status coffer__import_compare(coffer_import *import, const coffer *written, const char *spool,
                                     const coffer_read_options *reading, coffer_error *err)
{
    coffer_read_options known;
    const coffer_status status = coffer__options_copy(&known, sizeof known, reading, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer_allocator *allocator = &import->allocator;
    verify_comparison run = {
        .import = import,
        .plan = &import->plan,
        .options = &known,
        .allocator = allocator,
        .view_size = 1, /* of nothing, too */
        .decoding = { .plan = &import->plan, .input = import->input, .spool = spool, .allocator = allocator },
        .thread_pool = { .written = written, .options = &known, .allocator = allocator }
    };
    return verify_import(&run, err);
}

/* Beside the output there was space for as much. One at a URL has no folder here. */
coffer_status coffer_import_verify(coffer_import *import, const coffer *written, const coffer_read_options *reading,
                                   coffer_error *err)
{
    if (import == NULL || written == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the import or what was written is NULL");
    }
    const char *path = written->web == NULL && written->shard_count > 0 ? written->shards[0].path : NULL;
    return coffer__import_compare(import, written, path, reading, err);
}
