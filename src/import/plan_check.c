/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judge of plans. A plan may come from a process that was taken over by the file that it read,
 * so nothing in it is believed: not one number of it is used before it was compared with what is
 * known here, the sizes of the files.
 *
 * The order matters: texts, then pieces, storages, their parts, rows, names, each relying on those before. A
 * piece lies within its file; so a storage, which is made of pieces, has bytes that exist; so a
 * view within a storage reads nothing else.
 *
 * What is accepted is safe to carry out, and no more than that. A plan that says nonsense within
 * these bounds makes a file with nonsense in it, as the input itself could.
 *
 * Two kinds of failure: COFFER_ERR_PLAN for what no reader makes, which accuses the process that
 * read; and the others for what an honest reader finds in a damaged file. The latter are worded for
 * users.
 */
#include "plan.h"

#include "alloc.h"
#include "checked.h"
#include "decode_numbers.h"
#include "dtype.h"
#include "error.h"
#include "filters.h"
#include "gguf_blocks.h"
#include "grid.h"
#include "pickle_text.h"
#include "sort.h"
#include "text.h"

#include <string.h>

/* Bytes by which all tensors together may be larger than the storages that they view. */
#define PLAN_EXPANSION ((uint64_t)64 << 20)
/* Comparisons of the boxes of parts: a second or two. */
#define PLAN_COMPARISONS ((uint64_t)1 << 28)
/* What deflate makes of one byte at most. */
#define PLAN_DEFLATE_RATIO 1032

/* One check in progress. */
typedef struct plan_judge {
    const coffer__import_plan *plan;
    const uint64_t *file_sizes;
    uint64_t expansion; /* bytes by which tensors may still exceed their storages */
    coffer_error *err;
} plan_judge;

/* For numbers that no reader puts. */
static coffer_status judge_foreign(const plan_judge *judge, const char *what, uint64_t number)
{
    return coffer__fail(judge->err, COFFER_ERR_PLAN,
                        "the plan of this conversion is not one that a reader makes: "
                        "%s %u is out of its range",
                        what, number);
}

/* Names the tensor in an error that was filled. */
static coffer_status judge_fail_row(const plan_judge *judge, coffer_status status, const coffer__import_plan_row *row)
{
    return coffer__import_plan_fail_row(judge->plan, row, status, judge->err);
}

/* ---- files, texts, pieces, storages ------------------------------------------------------------------------------ */

/* Every number of a text that can be reached from a finding, and the names of files. Those of
   storages and rows are checked together with their other numbers. */
static coffer_status judge_texts(const plan_judge *judge)
{
    const coffer__import_plan *plan = judge->plan;
    const uint32_t *names = plan->file_names.items;
    if (plan->file_count == 0 || plan->file_count != plan->file_names.count) {
        return judge_foreign(judge, "the number of files", plan->file_count);
    }
    for (size_t i = 0; i < plan->file_count; i++) {
        if (!coffer__import_plan_has_text(plan, names[i])) {
            return judge_foreign(judge, "the name of file", i);
        }
    }
    for (size_t i = 0; i < plan->findings.count; i++) {
        const coffer__import_plan_finding *finding = coffer__import_plan_findings(plan) + i;
        if ((unsigned)finding->weight > COFFER_WEIGHT_DANGER || finding->file >= plan->file_count ||
            !coffer__import_plan_has_text(plan, finding->member) ||
            !coffer__import_plan_has_text(plan, finding->subject) ||
            !coffer__import_plan_has_text(plan, finding->text)) {
            return judge_foreign(judge, "finding", i);
        }
    }
    return COFFER_OK;
}

/* Whether the keys are bytes of a file, with the head that is before them. */
static coffer_status judge_keys(const plan_judge *judge)
{
    const coffer__import_plan *plan = judge->plan;
    const bool is_there =
        plan->keys_size == 0 || (plan->keys_file < plan->file_count && plan->keys_size >= COFFER__PLAN_MIN_KEYS &&
                                 plan->keys_size <= judge->file_sizes[plan->keys_file]);
    return is_there ? COFFER_OK : judge_foreign(judge, "the size of the keys", plan->keys_size);
}

/* Whether there is a factor for each of equally many blocks, or none. */
static bool judge_scales(const coffer__import_plan *plan, const coffer__import_plan_piece *piece, uint64_t blocks)
{
    size_t len = 0;
    if (!coffer__import_plan_has_text(plan, piece->as.blocks.scales)) {
        return false;
    }
    (void)coffer__import_plan_text(plan, piece->as.blocks.scales, &len);
    return len == 0 || (len % sizeof(float) == 0 && blocks % (len / sizeof(float)) == 0);
}

/* Whether so many bytes of blocks become so many of numbers. */
static bool judge_blocks(const coffer__import_plan *plan, const coffer__import_plan_piece *piece)
{
    const coffer__gguf_type *type = coffer__gguf_type_of(piece->as.blocks.type);
    const bool is_known = piece->as.blocks.dtype == COFFER_F32 || piece->as.blocks.dtype == COFFER_F16 ||
                          piece->as.blocks.dtype == COFFER_BF16;
    uint64_t size = 0;
    return type != NULL && type->decode != NULL && is_known && piece->stored_size % type->size == 0 &&
           piece->crc_kind == COFFER__CRC_NONE && judge_scales(plan, piece, piece->stored_size / type->size) &&
           coffer__mul_u64(piece->stored_size / type->size,
                           type->elements * coffer__dtype_info_of(piece->as.blocks.dtype)->bits / 8, &size) &&
           size == piece->size;
}

/* Whether so many stored bytes can become so many plain ones. This bounds what a small file can
   make this process allocate or write: deflate makes at most 1032 bytes of one, and two bytes of
   text make at least one. An unknown coding came over the wire as a number, so `default` is
   reached. */
static bool judge_coding(const coffer__import_plan *plan, const coffer__import_plan_piece *piece)
{
    switch (piece->coding) {
    case COFFER__CODING_STORED:
        return piece->size == piece->stored_size;
    case COFFER__CODING_DEFLATED:
        return piece->size / PLAN_DEFLATE_RATIO <= piece->stored_size;
    case COFFER__CODING_LATIN1:
        return piece->size <= piece->stored_size && piece->stored_size - piece->size <= piece->size;
    case COFFER__CODING_QUOTED:
    case COFFER__CODING_ESCAPED:
        return coffer__pickle_text_fits(piece->coding == COFFER__CODING_QUOTED, piece->stored_size, piece->size);
    case COFFER__CODING_BLOCKS:
        return judge_blocks(plan, piece);
    case COFFER__CODING_FILTERED:
        return coffer__filters_fit(piece);
    case COFFER__CODING_NUMBERS:
        return coffer__numbers_fit(piece);
    default:
        return false;
    }
}

/* A reader that took the numbers from an archive makes pieces beyond the end of a file that was
   cut; so that is no foreign plan. */
static coffer_status judge_piece(const plan_judge *judge, size_t i)
{
    const coffer__import_plan_piece *piece = coffer__import_plan_pieces(judge->plan) + i;
    if (piece->file >= judge->plan->file_count || (unsigned)piece->crc_kind > COFFER__CRC_32C ||
        !judge_coding(judge->plan, piece)) {
        return judge_foreign(judge, "piece", i);
    }
    const uint64_t file_size = judge->file_sizes[piece->file];
    if (piece->offset > file_size || piece->stored_size > file_size - piece->offset) {
        coffer__fail_at(judge->err, COFFER_ERR_DAMAGED, piece->offset,
                        "%u bytes at byte %u reach beyond the end of the file, which has %u; get the file again",
                        piece->stored_size, piece->offset, file_size);
        return coffer__fail_sizes(judge->err, COFFER_ERR_DAMAGED, piece->stored_size, file_size);
    }
    return COFFER_OK;
}

/* Whether the pieces of a storage are as many chunks as its grid has, each of as many bytes. */
static bool judge_grid(const plan_judge *judge, const coffer__import_plan_storage *storage)
{
    const size_t count = judge->plan->dimensions.count;
    const uint32_t rank = storage->as.grid.rank;
    const uint32_t first = storage->as.grid.dimensions;
    if (rank == 0 || rank > COFFER__PLAN_MAX_RANK || first > count || rank > count - first ||
        storage->as.grid.item_size == 0) {
        return false;
    }
    const coffer__import_plan_dimension *grid =
        (const coffer__import_plan_dimension *)judge->plan->dimensions.items + first;
    uint64_t chunks = 1;
    uint64_t size = storage->as.grid.item_size;
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t whole = 0;
        if (grid[i].stride <= 0 || grid[i].count == 0 || !coffer__mul_u64(chunks, grid[i].count, &chunks) ||
            !coffer__mul_u64(size, (uint64_t)grid[i].stride, &size) ||
            !coffer__mul_u64(grid[i].count, (uint64_t)grid[i].stride, &whole) || whole != grid[i].size) {
            return false;
        }
    }
    if (chunks != storage->count || size > COFFER__GRID_MAX_CHUNK) {
        return false;
    }
    for (size_t i = 0; i < storage->count; i++) {
        if (coffer__import_plan_pieces(judge->plan)[storage->first + i].size != size) {
            return false;
        }
    }
    return true;
}

/* How far the storages that were looked at go: each piece and each part belongs to one of them, in order. */
typedef struct judge_progress {
    size_t pieces;
    size_t parts;
    uint64_t size; /* of all pieces */
} judge_progress;

/* Of a storage made of pieces: they follow those of the storage before it, and the size is their sum. */
static coffer_status judge_pieces_of(const plan_judge *judge, size_t i, judge_progress *so_far)
{
    const coffer__import_plan *plan = judge->plan;
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + i;
    uint64_t size = 0;
    /* `pieces` never exceeds the count, by the comparison with what is left of it. */
    if (storage->first != so_far->pieces || storage->count > plan->pieces.count - so_far->pieces) {
        return judge_foreign(judge, "storage", i);
    }
    for (size_t k = 0; k < storage->count; k++) {
        const coffer__import_plan_piece *piece = coffer__import_plan_pieces(plan) + storage->first + k;
        /* Blocks are decoded by their place, and so are a storage by themselves. A piece is at most 1032 times as large as
           its file, so one sum does not wrap twice. */
        if ((piece->coding == COFFER__CODING_BLOCKS && storage->count != 1) ||
            !coffer__add_u64(size, piece->size, &size)) {
            return judge_foreign(judge, "storage", i);
        }
    }
    if (size != storage->size || !coffer__add_u64(so_far->size, size, &so_far->size) || so_far->size > INT64_MAX) {
        return judge_foreign(judge, "the size of storage", i);
    }
    so_far->pieces += storage->count;
    return COFFER_OK;
}

static coffer_status judge_storage(const plan_judge *judge, size_t i, judge_progress *so_far)
{
    const coffer__import_plan *plan = judge->plan;
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + i;
    if (!coffer__import_plan_has_text(plan, storage->name)) {
        return judge_foreign(judge, "storage", i);
    }
    switch (storage->kind) {
    case COFFER__STORAGE_JOINED:
        return judge_pieces_of(judge, i, so_far);
    case COFFER__STORAGE_CHUNKED: {
        const coffer_status status = judge_pieces_of(judge, i, so_far);
        return status != COFFER_OK || judge_grid(judge, storage) ? status
                                                                 : judge_foreign(judge, "the grid of storage", i);
    }
    case COFFER__STORAGE_ASSEMBLED:
        if (storage->first != so_far->parts || storage->count == 0 ||
            storage->count > plan->parts.count - so_far->parts || storage->size > INT64_MAX) {
            return judge_foreign(judge, "storage", i);
        }
        so_far->parts += storage->count;
        return COFFER_OK;
    default:
        return judge_foreign(judge, "storage", i);
    }
}

/* The storages have the pieces and the parts among them in order, each of them belongs to one, and the sizes are the sums
   of the pieces'. So the bytes of all storages, which the account begins with, count each piece once; those of arrays that
   are assembled are bytes of other storages, and are not counted. */
static coffer_status judge_storages(const plan_judge *judge)
{
    const coffer__import_plan *plan = judge->plan;
    judge_progress so_far = { .pieces = 0 };
    for (size_t i = 0; i < plan->storages.count; i++) {
        const coffer_status status = judge_storage(judge, i, &so_far);
        if (status != COFFER_OK) {
            return status;
        }
    }
    if (so_far.parts != plan->parts.count) {
        return judge_foreign(judge, "part", so_far.parts);
    }
    return so_far.pieces == plan->pieces.count ? COFFER_OK : judge_foreign(judge, "piece", so_far.pieces);
}

/* Arrays that are assembled of other storages, once all of these have been looked at. */
static coffer_status judge_parts(const plan_judge *judge)
{
    uint64_t comparisons = PLAN_COMPARISONS;
    for (size_t i = 0; i < judge->plan->storages.count; i++) {
        if (coffer__import_plan_storages(judge->plan)[i].kind == COFFER__STORAGE_ASSEMBLED) {
            const coffer_status status = coffer__import_plan_check_parts(judge->plan, i, &comparisons, judge->err);
            if (status != COFFER_OK) {
                return status;
            }
        }
    }
    return COFFER_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Whether the row's numbers can be looked at: what they count is there. */
static bool judge_is_row(const plan_judge *judge, const coffer__import_plan_row *row)
{
    const coffer__import_plan *plan = judge->plan;
    const size_t dimensions = plan->dimensions.count;
    const bool apart = row->storage == COFFER__PLAN_NO_STORAGE && row->fate == COFFER_FATE_SKIPPED;
    return coffer__import_plan_has_text(plan, row->name) && (unsigned)row->fate <= COFFER_FATE_SKIPPED &&
           (unsigned)row->sign <= COFFER__SIGN_CONJUGATED && (unsigned)row->dtype <= COFFER_DTYPE_COUNT &&
           row->rank <= COFFER__PLAN_MAX_RANK && row->dimensions <= dimensions &&
           row->rank <= dimensions - row->dimensions && (row->storage < plan->storages.count || apart) &&
           coffer__import_plan_has_text(plan, row->fate == COFFER_FATE_SKIPPED ? row->reason : 0);
}

/* Whether the stages that change elements fit the dtype. A sign is the highest bit of a float, or of a float's half of
   a complex number; integers are negated as two's complement. Floats without a sign, or whose negative zero is NaN,
   have no such bit. */
static bool judge_stages(const coffer__import_plan_row *row)
{
    const coffer__dtype_info *dtype = coffer__dtype_info_of(row->dtype);
    const bool unit = row->swap == 0 || row->swap == 2 || row->swap == 4 || row->swap == 8;
    if (!unit || (row->swap > 0 && row->item_size % row->swap != 0)) {
        return false;
    }
    if (row->sign == COFFER__SIGN_CONJUGATED) {
        return row->dtype == COFFER_C64;
    }
    const bool whole = dtype->kind == COFFER_KIND_SIGNED || dtype->kind == COFFER_KIND_UNSIGNED;
    const bool floats = dtype->special == COFFER__SPECIAL_IEEE || dtype->special == COFFER__SPECIAL_FN;
    return row->sign == COFFER__SIGN_KEPT || (dtype->bits >= 8 && (whole || floats));
}

/*
 * Whether what is written, by dtype and sizes, has as many bits as what is read, by items and counts: dimension by dimension,
 * or, where elements are less than a byte, in all, as their items are bytes. Items have at most 16 bytes, so the products
 * of bits and items stay small.
 */
static bool judge_shape(const plan_judge *judge, const coffer__import_plan_row *row)
{
    const coffer__import_plan_dimension *dimensions = coffer__import_plan_dimensions(judge->plan, row);
    const uint64_t bits = coffer__dtype_info_of(row->dtype)->bits;
    const bool shared = bits < 8;
    uint64_t sizes = bits;
    uint64_t counts = row->item_size * 8;
    if (bits == 0 || row->item_size > 16 || (shared ? row->rank == 0 || row->item_size != 1 : bits != counts)) {
        return false;
    }
    bool no_sizes = false;
    bool no_counts = false;
    for (size_t i = 0; i < row->rank; i++) {
        if (!shared && dimensions[i].count != dimensions[i].size) {
            return false;
        }
        no_sizes = no_sizes || dimensions[i].size == 0;
        no_counts = no_counts || dimensions[i].count == 0;
    }
    /* Beside a size of 0 the others may be anything, and their product beyond 2^64. */
    if (no_sizes || no_counts) {
        return no_sizes && no_counts;
    }
    for (size_t i = 0; i < row->rank && shared; i++) {
        if (!coffer__mul_u64(sizes, dimensions[i].size, &sizes) ||
            !coffer__mul_u64(counts, dimensions[i].count, &counts)) {
            return false;
        }
    }
    return !shared || sizes == counts;
}

/* Bytes of what the row views; false when they are too many for a file. A size of 0 hides what comes after it, as the
   format has it. */
static bool judge_size(const plan_judge *judge, const coffer__import_plan_row *row, uint64_t *size)
{
    const coffer__import_plan_dimension *dimensions = coffer__import_plan_dimensions(judge->plan, row);
    uint64_t shape[COFFER__PLAN_MAX_RANK];
    uint64_t bits = 0;
    for (size_t i = 0; i < row->rank; i++) {
        shape[i] = dimensions[i].size;
    }
    if (!coffer__tensor_bits(row->dtype, shape, row->rank, &bits)) {
        return false;
    }
    *size = bits / 8;
    return true;
}

/* The view of a row that is written, or whose bytes are skipped: it lies within the storage, and does not make much
   out of little. */
static coffer_status judge_view(plan_judge *judge, const coffer__import_plan_row *row, uint64_t size)
{
    /* A skipped row that has a storage is looked at as well, for the account. */
    const coffer__import_plan_dimension *dimensions = coffer__import_plan_dimensions(judge->plan, row);
    const uint64_t storage_size = coffer__import_plan_storages(judge->plan)[row->storage].size;
    size_t name_len = 0;
    const char *name = coffer__import_plan_text(judge->plan, row->name, &name_len);
    coffer__box box;
    coffer_status status = coffer__import_plan_box(judge->plan, row, &box, judge->err);
    /* Within the storage is not enough: the account and the writers expect views that step forward.
       No format that is read has others. */
    for (size_t i = 0; i < row->rank && status == COFFER_OK; i++) {
        const bool stepped = box.run_count > 0 && dimensions[i].count > 1;
        status = stepped && dimensions[i].stride < 0 ? COFFER_ERR_VIEW : COFFER_OK;
    }
    if (status != COFFER_OK) {
        return coffer__fail(judge->err, COFFER_ERR_VIEW,
                            "tensor %q does not lie within its storage of %u bytes, where it begins at byte %u", name,
                            name_len, storage_size, row->offset);
    }
    /* What a row adds to the output beyond its storage comes out of one allowance for all rows. So
       a thousand views that repeat a little each are caught like one that repeats much. */
    const uint64_t excess = size > storage_size && row->fate == COFFER_FATE_WRITTEN ? size - storage_size : 0;
    if (excess > judge->expansion) {
        coffer__fail(judge->err, COFFER_ERR_VIEW,
                     "tensor %q would be %z, repeated from a storage of %u bytes: too much to write unless that is "
                     "asked for",
                     name, name_len, size, storage_size);
        return coffer__fail_sizes(judge->err, COFFER_ERR_VIEW, storage_size, size);
    }
    judge->expansion -= excess;
    return COFFER_OK;
}

/* An alias is the same view as a row that is written: its name in the metadata then says all of it. */
static bool judge_alias(const plan_judge *judge, const coffer__import_plan_row *row)
{
    if (row->alias_of >= judge->plan->rows.count) {
        return false;
    }
    const coffer__import_plan_row *other = coffer__import_plan_rows(judge->plan) + row->alias_of;
    if (!judge_is_row(judge, other) || other->fate != COFFER_FATE_WRITTEN || other->dtype != row->dtype ||
        other->rank != row->rank || other->storage != row->storage || other->offset != row->offset ||
        other->swap != row->swap || other->sign != row->sign) {
        return false;
    }
    /* Strides of dimensions with one index are never stepped along, so they may differ. */
    const coffer__import_plan_dimension *a = coffer__import_plan_dimensions(judge->plan, row);
    const coffer__import_plan_dimension *b = coffer__import_plan_dimensions(judge->plan, other);
    for (size_t i = 0; i < row->rank; i++) {
        if (a[i].size != b[i].size || a[i].count != b[i].count || (a[i].stride != b[i].stride && a[i].size > 1)) {
            return false;
        }
    }
    return true;
}

/* The order is that of what is used: first that its numbers can be looked at, then stages and
   shape, then the size, and the view last. An error names the tensor where there is a name to tell. */
static coffer_status judge_row(plan_judge *judge, size_t i)
{
    const coffer__import_plan_row *row = coffer__import_plan_rows(judge->plan) + i;
    uint64_t size = 0;
    if (!judge_is_row(judge, row)) {
        return judge_foreign(judge, "row", i);
    }
    /* What is skipped may have a dtype that this library has no name for, and then no view either. */
    if (row->fate == COFFER_FATE_SKIPPED && row->storage == COFFER__PLAN_NO_STORAGE) {
        return COFFER_OK;
    }
    const bool skipped = row->fate == COFFER_FATE_SKIPPED;
    const bool alias = row->fate == COFFER_FATE_ALIAS;
    if (!skipped && (!judge_stages(row) || !judge_shape(judge, row) || (alias && !judge_alias(judge, row)))) {
        return judge_fail_row(judge, judge_foreign(judge, "row", i), row);
    }
    if (!skipped && !judge_size(judge, row, &size)) {
        coffer__fail(judge->err, COFFER_ERR_VIEW, "the sizes of a tensor multiply to more than 2^64-1");
        return judge_fail_row(judge, COFFER_ERR_VIEW, row);
    }
    const coffer_status status = judge_view(judge, row, size);
    return status == COFFER_OK ? COFFER_OK : judge_fail_row(judge, status, row);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* By name; for sorting the numbers of rows. */
static bool judge_row_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__import_plan_row *rows = coffer__import_plan_rows(ctx);
    return coffer__import_plan_compare_texts(ctx, rows[a].name, rows[b].name) < 0;
}

/* What the format asks of names. They come from strangers, so the messages quote and escape them. */
static coffer_status judge_name(const plan_judge *judge, const coffer__import_plan_row *row)
{
    static const char reserved[] = "__metadata__";
    size_t name_len = 0;
    const char *name = coffer__import_plan_text(judge->plan, row->name, &name_len);
    if (coffer__utf8_valid_len(name, name_len) != name_len) {
        coffer__fail(judge->err, COFFER_ERR_NAME, "the name of tensor %q is not UTF-8", name, name_len);
    } else if (name_len == sizeof reserved - 1 && memcmp(name, reserved, name_len) == 0) {
        coffer__fail(judge->err, COFFER_ERR_NAME, "no tensor can be named %q: the name belongs to the metadata", name,
                     name_len);
    } else {
        return COFFER_OK;
    }
    return coffer__fail_tensor(judge->err, COFFER_ERR_NAME, name, name_len);
}

/* Sorted, names that are equal are neighbours: then neither comes before the other. */
static coffer_status judge_same_names(const plan_judge *judge, uint32_t *order, size_t count)
{
    coffer__sort(order, count, judge_row_before, judge->plan);
    for (size_t i = 1; i < count; i++) {
        if (!judge_row_before(judge->plan, order[i - 1], order[i])) {
            const coffer__import_plan_row *row = coffer__import_plan_rows(judge->plan) + order[i];
            size_t name_len = 0;
            const char *name = coffer__import_plan_text(judge->plan, row->name, &name_len);
            coffer__fail(judge->err, COFFER_ERR_DUPLICATE_NAME, "two tensors would be named %q", name, name_len);
            return coffer__fail_tensor(judge->err, COFFER_ERR_DUPLICATE_NAME, name, name_len);
        }
    }
    return COFFER_OK;
}

/* The names of what is written, and of the aliases, which go into the metadata. What is skipped can
   be called anything: its name is only shown. */
static coffer_status judge_names(const plan_judge *judge, uint32_t *order)
{
    size_t count = 0;
    for (uint32_t i = 0; i < judge->plan->rows.count; i++) {
        const coffer__import_plan_row *row = coffer__import_plan_rows(judge->plan) + i;
        if (row->fate != COFFER_FATE_SKIPPED) {
            const coffer_status status = judge_name(judge, row);
            if (status != COFFER_OK) {
                return status;
            }
            order[count++] = i;
        }
    }
    return judge_same_names(judge, order, count);
}

/* The same of the metadata: keys and values are texts, UTF-8, and no key stands twice. */
static coffer_status judge_pairs(const plan_judge *judge, uint32_t *order)
{
    const coffer__import_plan *plan = judge->plan;
    const size_t count = plan->pairs.count;
    for (uint32_t i = 0; i < count; i++) {
        const coffer__import_plan_pair *pair = coffer__import_plan_pairs(plan) + i;
        size_t key_len = 0;
        size_t value_len = 0;
        const char *key = coffer__import_plan_text(plan, pair->key, &key_len);
        const char *value = coffer__import_plan_text(plan, pair->value, &value_len);
        if (!coffer__import_plan_has_text(plan, pair->key) || !coffer__import_plan_has_text(plan, pair->value)) {
            return judge_foreign(judge, "pair", i);
        }
        if (coffer__utf8_valid_len(key, key_len) != key_len || coffer__utf8_valid_len(value, value_len) != value_len) {
            return coffer__fail(judge->err, COFFER_ERR_NAME, "the metadata %q are not UTF-8", key, key_len);
        }
        order[i] = i;
    }
    coffer__sort(order, count, coffer__import_plan_pair_before, plan);
    for (size_t i = 1; i < count; i++) {
        if (!coffer__import_plan_pair_before(plan, order[i - 1], order[i])) {
            size_t key_len = 0;
            const char *key = coffer__import_plan_text(plan, coffer__import_plan_pairs(plan)[order[i]].key, &key_len);
            return coffer__fail(judge->err, COFFER_ERR_DUPLICATE_KEY, "the metadata would have %q twice", key, key_len);
        }
    }
    return COFFER_OK;
}

/* Names and keys, which must be unique. They are sorted to find equal ones, since a file may have a
   million; one array serves the rows and then the pairs. */
static coffer_status judge_order(const plan_judge *judge)
{
    const coffer__import_plan *plan = judge->plan;
    const size_t most = plan->rows.count > plan->pairs.count ? plan->rows.count : plan->pairs.count;
    uint32_t *order = coffer__alloc_array(plan->allocator, most, sizeof *order, judge->err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = judge_names(judge, order);
    if (status == COFFER_OK) {
        status = judge_pairs(judge, order);
    }
    coffer__free_array(plan->allocator, order, most, sizeof *order);
    return status;
}

/* Each loop stops at the first failure, since the steps after it rely on what it has checked. */
coffer_status coffer__import_plan_check(const coffer__import_plan *plan, const uint64_t *file_sizes, bool may_expand,
                                        coffer_error *err)
{
    plan_judge judge = {
        .plan = plan, .file_sizes = file_sizes, .expansion = may_expand ? UINT64_MAX : PLAN_EXPANSION, .err = err
    };
    coffer_status status = judge_texts(&judge);
    if (status == COFFER_OK) {
        status = judge_keys(&judge);
    }
    for (size_t i = 0; i < plan->pieces.count && status == COFFER_OK; i++) {
        status = judge_piece(&judge, i);
    }
    if (status == COFFER_OK) {
        status = judge_storages(&judge);
    }
    if (status == COFFER_OK) {
        status = judge_parts(&judge);
    }
    for (size_t i = 0; i < plan->rows.count && status == COFFER_OK; i++) {
        status = judge_row(&judge, i);
    }
    if (status != COFFER_OK) {
        return status;
    }
    return judge_order(&judge);
}
