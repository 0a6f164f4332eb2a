/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a read goes down: the tensor in which it begins, the row of that tensor, where the row's storage has its bytes, and
 * which runs of it they are. Reads are for any bytes, so that runs may be cut, and units whose bytes are swapped.
 *
 *   source   | header | tensor | tensor | …       as coffer_header lays them out: no gaps
 *   row      a dense range of the box that gathers it (box.h): part of a run, whole runs as few boxes, part of a run
 */
#include "import_source.h"

#include "alloc.h"
#include "box.h"
#include "copy_tensors.h"
#include "decoded.h"
#include "error.h"
#include "locked_allocator.h"
#include "sort.h"
#include "transfer.h"

#include <string.h>

/* A tensor that has bytes. */
typedef struct view_tensor {
    uint64_t offset; /* in the source */
    uint64_t size;
    uint32_t row; /* of the plan */
} view_tensor;

typedef struct import_view {
    coffer_import *import;
    coffer_input *input;
    coffer__locked_allocator turns;
    coffer_allocator allocator; /* takes turns: threads decode */
    coffer_header *header;
    const uint8_t *front; /* the header's bytes; borrowed from it */
    uint64_t front_size;
    view_tensor *tensors; /* in order of their offsets */
    size_t count;
    size_t capacity;
    coffer__decoded decoded;
    coffer__mutex lock;   /* of the maps */
    coffer__os_map *maps; /* of each file of the input */
    void **bases;         /* its byte 0 in memory; NULL: not mapped yet */
    uint32_t file_count;
} import_view;

static const coffer__source_ops view_ops;

static import_view *view_of(const coffer__byte_source *source)
{
    return source->state.kept;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool view_before(const void *ctx, uint32_t a, uint32_t b)
{
    const import_view *view = ctx;
    return coffer_header_at(view->header, a)->offset < coffer_header_at(view->header, b)->offset;
}

/* Rows that are aliases are tensors here, too, of bytes that are there once. */
static bool view_has(const coffer__import_plan_row *row)
{
    return row->fate != COFFER_FATE_SKIPPED;
}

/* As coffer_import_declare does, and the aliases. */
static coffer_status view_declare(import_view *view, coffer_error *err)
{
    const coffer_import *import = view->import;
    const coffer__import_plan *plan = &import->plan;
    coffer_status status = COFFER_OK;
    coffer_pair pair;
    for (size_t i = 0; i < plan->rows.count && status == COFFER_OK; i++) {
        const coffer__import_plan_row *row = coffer__import_plan_rows(plan) + i;
        if (view_has(row)) {
            size_t len = 0;
            const char *name = coffer__import_plan_text(plan, row->name, &len);
            status = coffer_header_add(view->header, name, len, row->dtype, import->shapes + row->dimensions, row->rank,
                                       err);
        }
    }
    for (size_t i = 0; i < plan->pairs.count && status == COFFER_OK && coffer_import_metadata_at(import, i, &pair);
         i++) {
        status = coffer_header_set_metadata(view->header, pair.key, pair.key_len, pair.value, pair.value_len, err);
    }
    return status;
}

/* Such rows have the numbers of the declaration, in their order; `order` and `rows` have space for all. */
static void view_list_tensors(import_view *view, uint32_t *order, uint32_t *rows)
{
    const coffer__import_plan *plan = &view->import->plan;
    uint32_t declared = 0;
    size_t listed = 0;
    for (uint32_t i = 0; i < plan->rows.count; i++) {
        if (view_has(coffer__import_plan_rows(plan) + i)) {
            rows[declared] = i;
            if (coffer_header_at(view->header, declared)->size > 0) {
                order[listed++] = declared;
            }
            declared++;
        }
    }
    coffer__sort(order, listed, view_before, view);
    for (size_t i = 0; i < listed; i++) {
        const coffer_tensor *tensor = coffer_header_at(view->header, order[i]);
        view->tensors[i] = (view_tensor){ tensor->offset, tensor->size, rows[order[i]] };
    }
    view->count = listed;
}

/* The header is made of a declaration, as when an import is written, so that what reads it is what reads any. */
static coffer_status view_lay_out(import_view *view, coffer_error *err)
{
    const size_t count = view->import->plan.rows.count;
    const void *bytes = NULL;
    coffer_status status = coffer_header_new(&view->header, &view->allocator, err);
    if (status == COFFER_OK) {
        status = view_declare(view, err);
    }
    if (status == COFFER_OK) {
        status = coffer_header_build(view->header, NULL, &bytes, &view->front_size, NULL, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    view->front = bytes;
    view->capacity = count;
    view->tensors = coffer__alloc_array(&view->allocator, count, sizeof *view->tensors, err);
    uint32_t *order = coffer__alloc_array(&view->allocator, count, 2 * sizeof *order, err);
    if (view->tensors != NULL && order != NULL) {
        view_list_tensors(view, order, order + count);
    }
    coffer__free_array(&view->allocator, order, count, 2 * sizeof *order);
    return view->tensors != NULL && order != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
}

static coffer_status view_make_space(import_view *view, coffer_error *err)
{
    view->file_count = view->input->count;
    view->maps = coffer__alloc_array(&view->allocator, view->file_count, sizeof *view->maps, err);
    view->bases = coffer__alloc_array(&view->allocator, view->file_count, sizeof *view->bases, err);
    if (view->maps == NULL || view->bases == NULL) {
        return COFFER_ERR_MEMORY;
    }
    memset(view->maps, 0, view->file_count * sizeof *view->maps);
    memset(view->bases, 0, view->file_count * sizeof *view->bases);
    return view_lay_out(view, err);
}

/* Everything but the import and its input, which others still have when opening fails. */
static void view_free(import_view *view)
{
    const coffer_allocator outer = view->turns.allocator;
    coffer__decoded_close(&view->decoded);
    for (uint32_t i = 0; view->maps != NULL && i < view->file_count; i++) {
        coffer__os_unmap(&view->maps[i]);
    }
    coffer__free_array(&view->allocator, view->bases, view->file_count, sizeof *view->bases);
    coffer__free_array(&view->allocator, view->maps, view->file_count, sizeof *view->maps);
    coffer__free_array(&view->allocator, view->tensors, view->capacity, sizeof *view->tensors);
    coffer_header_free(view->header);
    coffer__os_mutex_close(&view->lock);
    coffer__locked_allocator_close(&view->turns);
    coffer__free(&outer, view, sizeof *view);
}

/* Locks first, so that releasing finds each of them made. */
static import_view *view_new(coffer_import *import, coffer_error *err)
{
    const coffer_allocator *outer = &import->allocator;
    import_view *view = coffer__alloc_zeroed(outer, sizeof *view);
    const bool turns = view != NULL && coffer__locked_allocator_open(&view->turns, outer, &view->allocator);
    const bool lock = turns && coffer__os_mutex_init(&view->lock) == 0;
    if (lock && coffer__decoded_open(&view->decoded, &import->plan, import->input, &view->allocator)) {
        view->import = import;
        view->input = import->input;
        return view;
    }
    if (lock) {
        coffer__os_mutex_close(&view->lock);
    }
    if (turns) {
        coffer__locked_allocator_close(&view->turns);
    }
    coffer__free(outer, view, sizeof *view);
    coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the model");
    return NULL;
}

/* Reading it calls what inflates, which is other code than the library's. */
static coffer__source_traits view_traits(const import_view *view)
{
    const coffer__import_plan *plan = &view->import->plan;
    coffer__source_traits traits = { .foreign = true };
    for (uint32_t i = 0; i < view->input->count; i++) {
        const coffer__source_traits is = coffer__input_source(view->input, i)->is;
        traits.far = traits.far || is.far;
        traits.unstable = traits.unstable || is.unstable;
        traits.sequential = traits.sequential || is.sequential;
    }
    for (uint32_t i = 0; i < plan->storages.count && !traits.in_order; i++) {
        traits.in_order = coffer__decoded_in_order(plan, i);
    }
    return traits;
}

coffer_status coffer__import_source(coffer__byte_source *source, coffer_import *import, coffer_error *err)
{
    import_view *view = view_new(import, err);
    if (view == NULL) {
        return COFFER_ERR_MEMORY;
    }
    const coffer_status status = view_make_space(view, err);
    if (status != COFFER_OK) {
        view_free(view);
        return status;
    }
    const view_tensor *last = view->count == 0 ? NULL : &view->tensors[view->count - 1];
    coffer__source_init(source, &view_ops, last == NULL ? view->front_size : last->offset + last->size,
                        view_traits(view));
    source->state.kept = view;
    return COFFER_OK;
}

static void view_close(coffer__byte_source *source)
{
    import_view *view = view_of(source);
    coffer_import *import = view->import;
    coffer_input *input = view->input;
    view_free(view);
    coffer_import_free(import);
    coffer_input_free(input);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The last tensor that does not begin after a byte; there is one. */
static const view_tensor *view_find(const import_view *view, uint64_t offset)
{
    size_t low = 0;
    size_t high = view->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        *(view->tensors[middle].offset <= offset ? &low : &high) = middle;
    }
    return &view->tensors[low];
}

/* A row while it is read, and where its storage has its bytes: from byte `base` of a source on. */
typedef struct view_row {
    import_view *view;
    const coffer__byte_source *source;
    uint64_t base;
    const coffer__watch *watch;
    coffer__change change;
    coffer__box box;
} view_row;

/* Carries out a box of whole runs: windows, tiles and all, as when it is written. */
/* NOLINTNEXTLINE(readability-non-const-parameter): it is written to by the transfer */
static coffer_status view_read_box(const view_row *row, const coffer__box *box, uint8_t *to, coffer_error *err)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): the innermost dimension always fits into a cut */
    const bool is_run = box->rank == 0;
    const coffer__transfer_op op = { .source = row->source,
                                     .offset = row->base + (is_run ? box->start : 0),
                                     .box = is_run ? NULL : box,
                                     .size = box->run_count * box->run_size,
                                     .to = to };
    const coffer__transfer_options options = { .allocator = &row->view->allocator, .threads = 1 };
    return coffer__transfer(&op, 1, &options, err);
}

/* The largest box of runs from number `k` on that goes no further than `end`; its number of runs. */
static uint64_t view_cut_box(const coffer__box *box, uint64_t k, uint64_t end, coffer__box *cut)
{
    uint64_t inner = box->run_count; /* runs below an index of dimension `d` */
    for (size_t d = 0; d < box->rank; d++) {
        inner /= box->counts[d];
        if (k % inner != 0 || inner > end - k) {
            continue;
        }
        const uint64_t left = box->counts[d] - k / inner % box->counts[d];
        const uint64_t wanted = (end - k) / inner;
        const uint64_t count = wanted < left ? wanted : left;
        const size_t skipped = count > 1 ? d : d + 1;
        cut->start = coffer__box_run(box, k);
        cut->run_size = box->run_size;
        cut->run_count = count * inner;
        cut->rank = box->rank - skipped;
        memcpy(cut->counts, box->counts + skipped, cut->rank * sizeof *cut->counts);
        memcpy(cut->strides, box->strides + skipped, cut->rank * sizeof *cut->strides);
        if (count > 1) {
            cut->counts[0] = count;
        }
        return cut->run_count;
    }
    return 0;
}

/* Part of one run. */
static coffer_status view_read_run(const view_row *row, uint64_t at, uint8_t *to, size_t size, coffer_error *err)
{
    const uint64_t run = row->box.rank == 0 ? row->box.start : coffer__box_run(&row->box, at / row->box.run_size);
    return coffer__source_read_watched(row->source, row->base + run + at % row->box.run_size, to, size, row->watch,
                                       err);
}

/* Bytes of the gathered row, before they are changed. */
static coffer_status view_gather(const view_row *row, uint64_t at, uint8_t *to, size_t size, coffer_error *err)
{
    const uint64_t run_size = row->box.run_size;
    coffer_status status = COFFER_OK;
    while (size > 0 && status == COFFER_OK) {
        const uint64_t inside = at % run_size;
        uint64_t now = run_size - inside;
        if (inside != 0 || size < run_size || row->box.rank == 0) {
            now = size < now ? size : now;
            status = view_read_run(row, at, to, (size_t)now, err);
        } else {
            coffer__box cut;
            now = view_cut_box(&row->box, at / run_size, (at + size) / run_size, &cut) * run_size;
            status = view_read_box(row, &cut, to, err);
        }
        at += now;
        to += now;
        size -= (size_t)now;
    }
    return status;
}

/* Bytes of the row as it is written. Units that the range cuts are brought whole, and cut. */
static coffer_status view_read_changed(const view_row *row, uint64_t at, uint8_t *to, size_t size, coffer_error *err)
{
    const size_t unit = coffer__change_unit(&row->change);
    coffer_status status = COFFER_OK;
    while (size > 0 && status == COFFER_OK) {
        uint8_t aside[16];
        const size_t inside = (size_t)(at % unit);
        size_t now = size - size % unit;
        if (inside == 0 && now > 0) {
            status = view_gather(row, at, to, now, err);
            if (status == COFFER_OK) {
                coffer__change_bytes(&row->change, to, now);
            }
        } else {
            now = size < unit - inside ? size : unit - inside;
            status = view_gather(row, at - inside, aside, unit, err);
            if (status == COFFER_OK) {
                coffer__change_bytes(&row->change, aside, unit);
                memcpy(to, aside + inside, now);
            }
        }
        at += now;
        to += now;
        size -= now;
    }
    return status;
}

static bool view_is_changed(const coffer__change *change)
{
    return change->swap != 0 || change->flip != COFFER__FLIP_NOTHING;
}

/* Reads from a row whose storage is there. */
static coffer_status view_read_there(view_row *row, const coffer__import_plan_row *of, uint64_t at, uint8_t *to,
                                     size_t size, coffer_error *err)
{
    const coffer_status status = coffer__import_plan_box(&row->view->import->plan, of, &row->box, err);
    if (status != COFFER_OK) {
        return status;
    }
    row->change = coffer__copy_change(of);
    return view_is_changed(&row->change) ? view_read_changed(row, at, to, size, err)
                                         : view_gather(row, at, to, size, err);
}

/* Reads from a row whose storage is decoded. */
static coffer_status view_read_decoded(view_row *row, const coffer__import_plan_row *of, uint64_t at, uint8_t *to,
                                       size_t size, coffer_error *err)
{
    coffer__decoded *decoded = &row->view->decoded;
    coffer__decoded_entry *entry = NULL;
    coffer_status status = coffer__decoded_acquire(decoded, of->storage, &entry, err);
    if (status != COFFER_OK) {
        return status;
    }
    row->source = coffer__decoded_source(entry);
    status = view_read_there(row, of, at, to, size, err);
    coffer__decoded_release(decoded, entry);
    return status;
}

/* Reads from a row whose storage is decoded where it is read, which costs nothing to open. */
static coffer_status view_read_random(const view_row *row, const coffer__import_plan_row *of, uint64_t at, uint8_t *to,
                                      size_t size, coffer_error *err)
{
    coffer__storage_source storage;
    view_row opened = *row;
    coffer_status status = coffer__storage_open(&storage, &row->view->decoded.decoding, of->storage, false, err);
    if (status == COFFER_OK) {
        opened.source = &storage.source;
        status = view_read_there(&opened, of, at, to, size, err);
    }
    coffer__storage_close(&storage);
    return status;
}

/* `size` bytes of a tensor from its byte `at` on. */
static coffer_status view_read_tensor(import_view *view, const view_tensor *tensor, uint64_t at, uint8_t *to,
                                      size_t size, const coffer__watch *watch, coffer_error *err)
{
    const coffer__import_plan *plan = &view->import->plan;
    const coffer__import_plan_row *of = coffer__import_plan_rows(plan) + tensor->row;
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + of->storage;
    view_row row = { .view = view, .watch = watch };
    if (coffer__import_plan_is_plain(plan, storage)) {
        const coffer__import_plan_piece *piece = coffer__import_plan_pieces(plan) + storage->first;
        row.source = coffer__input_source(view->input, piece->file);
        row.base = piece->offset;
        return view_read_there(&row, of, at, to, size, err);
    }
    return coffer__storage_is_random(plan, of->storage) ? view_read_random(&row, of, at, to, size, err)
                                                        : view_read_decoded(&row, of, at, to, size, err);
}

/* ---- the source -------------------------------------------------------------------------------------------------- */

/* Tensors cover all that follows the header, without a gap, as it was laid out. */
static coffer_status view_read_at(const coffer__byte_source *source, uint64_t offset, void *buffer, size_t size,
                                  const coffer__watch *watch, coffer_error *err)
{
    import_view *view = view_of(source);
    uint8_t *to = buffer;
    coffer_status status = COFFER_OK;
    while (size > 0 && status == COFFER_OK) {
        size_t now = size;
        if (offset < view->front_size) {
            now = view->front_size - offset < size ? (size_t)(view->front_size - offset) : size;
            memcpy(to, view->front + (size_t)offset, now);
        } else {
            const view_tensor *tensor = view_find(view, offset);
            const uint64_t at = offset - tensor->offset;
            now = tensor->size - at < size ? (size_t)(tensor->size - at) : size;
            status = view_read_tensor(view, tensor, at, to, now, watch, err);
        }
        to += now;
        offset += now;
        size -= now;
    }
    return status;
}

/* Where a range lies in a file as it is; NULL where it does not. */
static const coffer__import_plan_piece *view_place(const import_view *view, uint64_t offset, uint64_t size,
                                                   uint64_t *at)
{
    const coffer__import_plan *plan = &view->import->plan;
    if (offset < view->front_size || view->count == 0) {
        return NULL;
    }
    const view_tensor *tensor = view_find(view, offset);
    const coffer__import_plan_row *row = coffer__import_plan_rows(plan) + tensor->row;
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + row->storage;
    const coffer__change change = coffer__copy_change(row);
    coffer__box box;
    if (size > tensor->size - (offset - tensor->offset) || !coffer__import_plan_is_plain(plan, storage) ||
        view_is_changed(&change) || coffer__import_plan_box(plan, row, &box, NULL) != COFFER_OK || box.rank > 0) {
        return NULL;
    }
    const coffer__import_plan_piece *piece = coffer__import_plan_pieces(plan) + storage->first;
    *at = piece->offset + box.start + (offset - tensor->offset);
    return piece;
}

static bool view_lies(const coffer__byte_source *source, uint64_t offset, uint64_t size, uint64_t *at)
{
    return view_place(view_of(source), offset, size, at) != NULL;
}

/* A file is mapped whole and once, like a shard's. */
static uint8_t *view_base(import_view *view, uint32_t file, coffer_access access, bool populate, coffer_error *err)
{
    const coffer__byte_source *of = coffer__input_source(view->input, file);
    coffer__os_mutex_lock(&view->lock);
    if (view->bases[file] == NULL) {
        coffer__os_unmap(&view->maps[file]);
        view->maps[file] = (coffer__os_map){ .base = NULL };
        view->bases[file] = coffer__source_map(of, 0, of->size, access, populate, &view->maps[file], err);
    }
    uint8_t *base = view->bases[file];
    coffer__os_mutex_unlock(&view->lock);
    return base;
}

/* What has no bytes may be anywhere. */
static void *view_lend(const coffer__byte_source *source, uint64_t offset, uint64_t size, coffer_access access,
                       bool populate, coffer_error *err)
{
    import_view *view = view_of(source);
    uint64_t at = 0;
    if (size == 0) {
        return view;
    }
    const coffer__import_plan_piece *piece = view_place(view, offset, size, &at);
    if (piece == NULL) {
        coffer__fail(err, COFFER_ERR_NOT_MAPPED,
                     "the tensor does not lie in the file as it is read: read it instead of mapping it");
        return NULL;
    }
    uint8_t *base = view_base(view, piece->file, access, populate, err);
    return base == NULL ? NULL : base + (size_t)at;
}

/* Of a storage that several tensors view, what each of them views is not known: it is their size, at most all of it. */
static uint64_t view_stored_size(const coffer__byte_source *source, uint64_t offset, uint64_t size)
{
    const import_view *view = view_of(source);
    const coffer__import_plan *plan = &view->import->plan;
    uint64_t stored = 0;
    if (size == source->size) {
        for (uint32_t i = 0; i < plan->file_count; i++) {
            stored += coffer_input_size(view->input, i);
        }
        return stored;
    }
    const coffer__import_plan_row *row = coffer__import_source_row(source, offset);
    if (row == NULL || size == 0) {
        return size;
    }
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + row->storage;
    for (uint32_t i = 0; i < coffer__import_plan_piece_count(storage); i++) {
        stored += coffer__import_plan_pieces(plan)[storage->first + i].stored_size;
    }
    const bool whole = stored > 0 && coffer__import_plan_is_whole(plan, row);
    return whole ? stored : size;
}

static const coffer__os_info *view_seen(const coffer__byte_source *source)
{
    return coffer__source_seen(coffer__input_source(view_of(source)->input, 0));
}

static bool view_is_still(coffer__byte_source *source)
{
    return coffer__input_is_still(view_of(source)->input, NULL) == COFFER_OK;
}

static const char *view_commit(const coffer__byte_source *source)
{
    return coffer__source_commit(coffer__input_source(view_of(source)->input, 0));
}

static const coffer__source_ops view_ops = { .kind = "a file of another program",
                                             .read_at = view_read_at,
                                             .close = view_close,
                                             .seen = view_seen,
                                             .is_still = view_is_still,
                                             .commit = view_commit,
                                             .lies = view_lies,
                                             .lend = view_lend,
                                             .stored_size = view_stored_size };

coffer_import *coffer__import_source_of(const coffer__byte_source *source)
{
    return source->ops == &view_ops ? view_of(source)->import : NULL;
}

const coffer__import_plan_row *coffer__import_source_row(const coffer__byte_source *source, uint64_t offset)
{
    const import_view *view = view_of(source);
    if (offset < view->front_size || offset >= source->size) {
        return NULL;
    }
    return coffer__import_plan_rows(&view->import->plan) + view_find(view, offset)->row;
}
