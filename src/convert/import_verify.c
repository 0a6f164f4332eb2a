/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was written, compared with what was read: both sides are read again, block by block, and
 * bytes are compared, never numbers, since a NaN equals nothing. The code that wrote is not asked:
 * elements of views are found by walking over their indices, one by one, in a storage that is in
 * memory. Only for a view of more than that are its bands gathered by the transfer.
 *
 * So a few things are here a second time on purpose, and must not be merged with what the transfer
 * does: the swapping of bytes, the change of signs, and the walk over a view.
 *
 * Rows are taken storage by storage, so that what is decoded is decoded once. CRCs are not compared
 * again: the same bytes would give the same answer.
 *
 * Memory: two blocks of 1 MiB and, once a view needs it, 16 MiB.
 */
#include "alloc.h"
#include "dtype.h"
#include "error.h"
#include "import.h"
#include "model.h"
#include "options.h"
#include "sort.h"
#include "storage.h"
#include "tile.h"
#include "transfer.h"

#include <string.h>

#define VERIFY_BLOCK ((uint64_t)1 << 20)
/* Storages of views that are read whole, and bands of the results of others. */
#define VERIFY_VIEW ((uint64_t)16 << 20)

/* One call. */
typedef struct verify_comparison {
    const coffer_import *import;
    const coffer__plan *plan;
    const coffer *written;
    const coffer_read_options *options;
    const coffer_allocator *allocator;
    coffer__decoding decoding;
    uint32_t *order; /* rows that are written, those of a storage together */
    size_t count;
    uint8_t *read;              /* VERIFY_BLOCK bytes of the output … */
    uint8_t *expected;          /* … and as many that should be there */
    uint8_t *view;              /* VERIFY_VIEW bytes, once a view needs them: … */
    uint32_t view_of;           /* … all of this storage */
    coffer__transfer_kept kept; /* by the transfers that gather bands */
    uint64_t done;
    uint64_t total;
} verify_comparison;

/* A row that is being compared: its tensor, and the source of its storage, which begins at byte `at` there. */
typedef struct verify_row {
    const coffer__plan_row *row;
    const coffer_tensor *tensor;
    const coffer__source *source;
    uint64_t at;
} verify_row;

/* ---- failing ----------------------------------------------------------------------------------------------------- */

/* The one failure that speaks against the output. Everything else that fails here says nothing
   about it. */
static coffer_status verify_differs(const verify_comparison *run, const coffer__plan_row *row, const char *what,
                                    coffer_error *err)
{
    size_t name_len = 0;
    const char *name = coffer__plan_text(run->plan, row->name, &name_len);
    coffer__fail(err, COFFER_ERR_NOT_EQUAL, "tensor %q was written, but %s: do not use the output", name, name_len,
                 what);
    return coffer__fail_tensor(err, COFFER_ERR_NOT_EQUAL, name, name_len);
}

/* Counts bytes of tensors, and asks whether to go on. */
static coffer_status verify_progress(verify_comparison *run, uint64_t size, coffer_error *err)
{
    run->done += size;
    if (run->options->progress != NULL &&
        run->options->progress(run->options->progress_ctx, run->done, run->total) != 0) {
        return coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
    }
    return COFFER_OK;
}

/* ---- what should be there ---------------------------------------------------------------------------------------- */

/* Swaps and changes signs as the plan says, element by element. Of a complex number each half is
   swapped and counted by itself, and conjugation changes every second one. Written without regard
   to speed, so that it is plain that it is right. */
static void verify_change(const coffer__plan_row *row, uint8_t *bytes, uint64_t size)
{
    const coffer__dtype_info *dtype = coffer__dtype(row->dtype);
    const bool complex = dtype->kind == COFFER_KIND_COMPLEX;
    const size_t width = complex ? 4 : dtype->bits / 8;
    for (uint64_t at = 0; row->swap > 0 && at < size; at += row->swap) {
        /* One unit backwards. Sizes are multiples of the unit: the check has compared it with the
           items. */
        for (size_t i = 0; i < row->swap / 2u; i++) {
            const uint8_t byte = bytes[at + i];
            bytes[at + i] = bytes[at + row->swap - 1 - i];
            bytes[at + row->swap - 1 - i] = byte;
        }
    }
    if (row->sign == COFFER__SIGN_KEPT) {
        return;
    }
    const bool every = row->sign == COFFER__SIGN_NEGATED;
    for (uint64_t k = 0; k < size / width; k++) {
        uint8_t *number = bytes + k * width;
        if (dtype->kind == COFFER_KIND_FLOAT || complex) {
            number[width - 1] ^= every || k % 2 == 1 ? 0x80 : 0;
            continue;
        }
        /* Two's complement: all bits inverted, and 1 added from the lowest byte on. */
        unsigned carry = 1;
        for (size_t i = 0; i < width; i++) {
            const unsigned inverted = (number[i] ^ 0xFFu) + carry;
            number[i] = (uint8_t)inverted;
            carry = inverted >> 8;
        }
    }
}

/* Where a walk over the indices of a view is. */
typedef struct verify_walk {
    const coffer__plan_dimension *dimensions;
    uint32_t rank;
    uint64_t at;
    uint64_t index[COFFER__PLAN_MAX_RANK];
} verify_walk;

/* To the next element, as one counts: the last dimension first, and when it is through, back to its
   beginning and one step along the one before. Strides may be 0; unsigned arithmetic wraps and
   comes back. */
static void verify_step(verify_walk *walk)
{
    for (uint32_t i = walk->rank; i > 0; i--) {
        const coffer__plan_dimension *dimension = &walk->dimensions[i - 1];
        walk->at += (uint64_t)dimension->stride;
        if (++walk->index[i - 1] < dimension->count) {
            return;
        }
        walk->at -= (uint64_t)dimension->stride * dimension->count;
        walk->index[i - 1] = 0;
    }
}

/* The next `size` bytes of a view, from a storage in memory. The walk goes on where it stopped, so
   that a view is gathered block by block. */
static void verify_gather(verify_walk *walk, size_t item_size, const uint8_t *storage, uint8_t *bytes, uint64_t size)
{
    for (uint64_t done = 0; done < size; done += item_size) {
        memcpy(bytes + done, storage + walk->at, item_size);
        verify_step(walk);
    }
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

/* Compares `size` bytes with what was written, after the change that is still to be made to them. A block is a number
   of whole elements. */
static coffer_status verify_block(verify_comparison *run, const verify_row *row, uint8_t *expected, uint64_t offset,
                                  uint64_t size, coffer_error *err)
{
    verify_change(row->row, expected, size);
    for (uint64_t done = 0; done < size;) {
        const uint64_t block = size - done < VERIFY_BLOCK ? size - done : VERIFY_BLOCK;
        coffer_status status = coffer_read_part(run->written, row->tensor, offset + done, run->read, block, NULL, err);
        if (status != COFFER_OK) {
            return status;
        }
        /* The output is read by the public function, with all that it checks. */
        if (memcmp(run->read, expected + (size_t)done, (size_t)block) != 0) {
            return verify_differs(run, row->row, "other bytes are there than in the input", err);
        }
        status = verify_progress(run, block, err);
        if (status != COFFER_OK) {
            return status;
        }
        done += block;
    }
    return COFFER_OK;
}

/* The memory of views, once one is there: most files have none. */
static coffer_status verify_view_memory(verify_comparison *run, coffer_error *err)
{
    if (run->view == NULL) {
        run->view = coffer__alloc(run->allocator, (size_t)VERIFY_VIEW);
    }
    return run->view != NULL ? COFFER_OK : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to verify what was written");
}

/* How many bytes from `offset` on are a hole on both sides, and so zeros on both: they need not be
   read. A checkpoint that is mostly a hole, of terabytes, would take hours otherwise. */
static coffer_status verify_hole(const verify_comparison *run, const verify_row *row, uint64_t offset, uint64_t *size,
                                 coffer_error *err)
{
    /* The input's bytes and the output's. Only files that lend their descriptors can say. */
    const coffer__source *sources[] = { row->source, &coffer__model_shard(run->written, row->tensor)->source };
    const uint64_t places[] = { row->at + row->row->offset + offset, row->tensor->offset + offset };
    *size = row->tensor->size - offset;
    for (size_t i = 0; i < 2; i++) {
        uint64_t base = 0;
        int fd = -1;
        if (!sources[i]->is.lends || !coffer__source_has_holes(sources[i])) {
            *size = 0;
            return COFFER_OK;
        }
        const coffer_status status = sources[i]->ops->borrow(sources[i], &fd, &base, err);
        if (status != COFFER_OK) {
            return status;
        }
        const uint64_t hole = coffer__os_next_data(fd, base + places[i]) - (base + places[i]);
        sources[i]->ops->give_back(sources[i]);
        *size = hole < *size ? hole : *size;
    }
    return COFFER_OK;
}

/* A block of a row whose bytes lie one after another. */
static coffer_status verify_stretch(verify_comparison *run, const verify_row *row, uint64_t at, uint64_t size,
                                    coffer_error *err)
{
    const coffer_status status =
        coffer__source_read(row->source, row->at + row->row->offset + at, run->expected, (size_t)size, err);
    if (status != COFFER_OK) {
        return status;
    }
    return verify_block(run, row, run->expected, at, size, err);
}

/* A row whose bytes lie one after another. */
static coffer_status verify_contiguous(verify_comparison *run, const verify_row *row, coffer_error *err)
{
    const uint64_t size = row->tensor->size;
    for (uint64_t at = 0; at < size;) {
        uint64_t block = size - at < VERIFY_BLOCK ? size - at : VERIFY_BLOCK;
        uint64_t hole = 0;
        coffer_status status = verify_hole(run, row, at, &hole, err);
        if (status == COFFER_OK && hole > block) {
            block = hole;
            status = verify_progress(run, block, err);
        } else if (status == COFFER_OK) {
            status = verify_stretch(run, row, at, block, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        at += block;
    }
    return COFFER_OK;
}

/* A view of a storage that fits in memory. Blocks are whole items. */
static coffer_status verify_small_view(verify_comparison *run, const verify_row *row, uint64_t storage_size,
                                       coffer_error *err)
{
    const uint64_t size = row->tensor->size;
    const uint64_t item = row->row->item_size;
    verify_walk walk = { .dimensions = coffer__plan_dimensions(run->plan, row->row),
                         .rank = row->row->rank,
                         .at = row->row->offset };
    coffer_status status = verify_view_memory(run, err);
    /* Rows of a storage follow each other, so it is read once for all of its views. */
    if (status == COFFER_OK && run->view_of != row->row->storage) {
        status = coffer__source_read(row->source, row->at, run->view, (size_t)storage_size, err);
        run->view_of = row->row->storage;
    }
    for (uint64_t at = 0; at < size && status == COFFER_OK;) {
        const uint64_t block = size - at < VERIFY_BLOCK ? size - at : VERIFY_BLOCK - VERIFY_BLOCK % item;
        verify_gather(&walk, (size_t)item, run->view, run->expected, block);
        status = verify_block(run, row, run->expected, at, block, err);
        at += block;
    }
    return status;
}

/* A view of more: band by band of the result, each gathered by a transfer into memory. */
static coffer_status verify_large_view(verify_comparison *run, const verify_row *row, const coffer__box *box,
                                       coffer_error *err)
{
    coffer__tiling tiling;
    const coffer__transfer_options options = { .allocator = run->allocator,
                                               .threads = run->options->threads,
                                               .kept = &run->kept };
    coffer_status status = verify_view_memory(run, err);
    /* The memory is used for bands now, and no longer has a storage. */
    run->view_of = COFFER__PLAN_NO_STORAGE;
    /* A little less than a power of two: lines at such distances would compete for the same few sets of the cache. */
    coffer__tiling_bands(&tiling, box, VERIFY_VIEW - VERIFY_VIEW / 64);
    for (uint64_t k = 0; k < tiling.count && status == COFFER_OK; k++) {
        coffer__tile tile;
        coffer__box band;
        coffer__tile_at(&tiling, k, &tile);
        coffer__tile_box(&tile, &band);
        const coffer__row part = {
            .source = row->source, .offset = row->at, .box = &band, .size = tile.size, .to = run->view
        };
        /* A band has at least one run, which is as long as the view makes it. */
        status = tile.size <= VERIFY_VIEW
                     ? coffer__transfer(&part, 1, &options, err)
                     : coffer__fail(err, COFFER_ERR_UNSUPPORTED, "a run of this tensor is too long to be verified");
        if (status == COFFER_OK) {
            status = verify_block(run, row, run->view, tile.to, tile.size, err);
        }
    }
    return status;
}

/* Whether the tensor is declared as the plan has it: right bytes under a wrong shape or dtype are a
   wrong tensor. */
static bool verify_is_same(const verify_comparison *run, const verify_row *row)
{
    const coffer_tensor *tensor = row->tensor;
    const coffer__plan_dimension *dimensions = coffer__plan_dimensions(run->plan, row->row);
    if (tensor->dtype != row->row->dtype || tensor->rank != row->row->rank ||
        tensor->size != coffer__plan_row_size(run->plan, row->row)) {
        return false;
    }
    for (size_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] != dimensions[i].size) {
            return false;
        }
    }
    return true;
}

/* Compares a row, given the source of its storage. The way depends on how the view lies: bytes one
   after another are compared as they come, other views from memory, or band by band. */
static coffer_status verify_bytes(verify_comparison *run, const verify_row *row, coffer_error *err)
{
    const uint64_t storage_size = coffer__plan_storages(run->plan)[row->row->storage].size;
    coffer__box box;
    const coffer_status status = coffer__plan_box(run->plan, row->row, &box, err);
    if (status != COFFER_OK || row->tensor->size == 0) {
        return status;
    }
    if (box.rank == 0) {
        return verify_contiguous(run, row, err);
    }
    return storage_size <= VERIFY_VIEW ? verify_small_view(run, row, storage_size, err)
                                       : verify_large_view(run, row, &box, err);
}

/* ---- all rows ---------------------------------------------------------------------------------------------------- */

/* The row at place `i` of the order. */
static const coffer__plan_row *verify_at(const verify_comparison *run, size_t i)
{
    return coffer__plan_rows(run->plan) + run->order[i];
}

/* Rows order[first..end), all of one storage, from its source, which has the storage's first byte
   at `at`. A tensor that the output does not have under its name is an error of the output, not of
   the call. */
static coffer_status verify_from(verify_comparison *run, size_t first, size_t end, const coffer__source *source,
                                 uint64_t at, coffer_error *err)
{
    for (size_t i = first; i < end; i++) {
        size_t name_len = 0;
        const char *name = coffer__plan_text(run->plan, verify_at(run, i)->name, &name_len);
        const verify_row row = {
            .row = verify_at(run, i), .tensor = coffer_find(run->written, name, name_len), .source = source, .at = at
        };
        if (row.tensor == NULL || !verify_is_same(run, &row)) {
            return verify_differs(run, row.row, "the output does not have it as it should be", err);
        }
        const coffer_status status = verify_bytes(run, &row, err);
        if (status != COFFER_OK) {
            return coffer__fail_tensor(err, status, name, name_len);
        }
    }
    return COFFER_OK;
}

/* The rows of one storage: from the file itself where the bytes are simply there, else decoded
   again. A stream can be read once only, so a storage streams if one row wants it, and all of it. */
static coffer_status verify_storage(verify_comparison *run, size_t first, size_t end, coffer_error *err)
{
    const coffer__plan_row *row = verify_at(run, first);
    const coffer__plan_storage *storage = coffer__plan_storages(run->plan) + row->storage;
    const coffer__plan_piece *piece = coffer__plan_pieces(run->plan) + storage->first_piece;
    if (coffer__plan_is_plain(run->plan, storage)) {
        return verify_from(run, first, end, coffer__input_source(run->import->input, piece->file), piece->offset, err);
    }
    coffer__storage_source source;
    coffer_status status = coffer__storage_open(&source, &run->decoding, row->storage,
                                                end - first == 1 && coffer__plan_is_whole(run->plan, row), err);
    if (status == COFFER_OK) {
        status = verify_from(run, first, end, &source.source, 0, err);
    }
    coffer__storage_close(&source);
    return status;
}

/* By storage, and so in the order of the input for what a reader found in order. */
static bool verify_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__plan_row *rows = coffer__plan_rows(ctx);
    return rows[a].storage < rows[b].storage;
}

/* As many tensors as rows, and each row is found by its name: so there are no others. */
static coffer_status verify_all(verify_comparison *run, coffer_error *err)
{
    for (uint32_t i = 0; i < run->plan->rows.count; i++) {
        const coffer__plan_row *row = coffer__plan_rows(run->plan) + i;
        if (row->fate == COFFER_FATE_WRITTEN) {
            run->order[run->count++] = i;
            run->total += coffer__plan_row_size(run->plan, row);
        }
    }
    coffer__sort(run->order, run->count, verify_before, run->plan);
    if (coffer_count(run->written) != run->count) {
        return coffer__fail(err, COFFER_ERR_NOT_EQUAL, "the output has %u tensors instead of %u: do not use it",
                            (uint64_t)coffer_count(run->written), (uint64_t)run->count);
    }
    for (size_t i = 0; i < run->count;) {
        size_t end = i + 1;
        while (end < run->count && verify_at(run, end)->storage == verify_at(run, i)->storage) {
            end++;
        }
        const coffer_status status = verify_storage(run, i, end, err);
        if (status != COFFER_OK) {
            return status;
        }
        i = end;
    }
    return coffer__input_is_still(run->import->input, err);
}

/* Everything that it allocates is released at the end, whatever happened: what was not allocated is
   NULL. */
coffer_status coffer_import_verify(coffer_import *import, const coffer *written, const coffer_read_options *reading,
                                   coffer_error *err)
{
    if (import == NULL || written == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the import or what was written is NULL");
    }
    coffer_read_options known;
    coffer_status status = coffer__options_copy(&known, sizeof known, reading, err);
    if (status != COFFER_OK) {
        return status;
    }
    const coffer_allocator *allocator = &import->allocator;
    verify_comparison run = { .import = import,
                              .plan = &import->plan,
                              .written = written,
                              .options = &known,
                              .allocator = allocator,
                              .view_of = COFFER__PLAN_NO_STORAGE,
                              .decoding = { .plan = &import->plan, .input = import->input, .allocator = allocator } };
    const size_t rows = import->plan.rows.count;
    run.order = coffer__alloc_array(allocator, rows, sizeof *run.order, err);
    run.read = coffer__alloc(allocator, (size_t)VERIFY_BLOCK);
    run.expected = coffer__alloc(allocator, (size_t)VERIFY_BLOCK);
    status = run.order != NULL && run.read != NULL && run.expected != NULL
                 ? verify_all(&run, err)
                 : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to verify what was written");
    coffer__inflaters_close(&run.decoding.inflaters);
    coffer__transfer_forget(&run.kept, allocator);
    coffer__free(allocator, run.view, (size_t)VERIFY_VIEW);
    coffer__free(allocator, run.expected, (size_t)VERIFY_BLOCK);
    coffer__free(allocator, run.read, (size_t)VERIFY_BLOCK);
    coffer__free_array(allocator, run.order, rows, sizeof *run.order);
    return status;
}
