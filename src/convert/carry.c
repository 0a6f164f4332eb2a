/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows are sorted: those of plain storages first, by their places in the output, then those of
 * each storage that is decoded. (A writer that takes its bytes in order gets all of them by their
 * places; then a storage may be decoded several times.) They are handed to the writers in groups
 * that are small enough for the boxes of a group to be in memory.
 *
 * The steps, for all rows that are written and have bytes:
 *
 * 1. carry_sort: `order`, and the number that each row has in the header of the output.
 *
 * 2. carry_all: group after group. The rows of a group go to one file of the output, and come from
 * plain storages, or from one storage that is decoded.
 *
 * 3. carry_check_rest: the CRCs of plain storages that no row was all of.
 *
 * So a damaged archive may fail after its tensors are written; the caller publishes nothing then.
 * The order of 2 and 3 lets most CRCs be computed from bytes that are in memory anyway.
 *
 * Everything in the plan was checked: indices are in range, sums do not wrap, and each view lies
 * within its storage.
 */
#include "carry.h"

#include "alloc.h"
#include "checked.h"
#include "dtype.h"
#include "error.h"
#include "output_target.h"
#include "parts.h"
#include "sort.h"
#include "storage.h"
#include "writer_carry.h"

#include <string.h>

/* Rows that are handed over at once. A box is 1 KiB. */
#define CARRY_GROUP 4096

/* What is known of a storage. */
enum { CARRY_UNCHECKED = 0, CARRY_CHECKED = 1 };

/* One call. The arrays of a group have CARRY_GROUP entries, or as many as there are rows. */
typedef struct carry_run {
    const coffer__import_plan *plan;
    const coffer_input *input;
    const coffer__carry_target *target;
    const coffer_read_options *options;
    const coffer_allocator *allocator;
    coffer__crcs *crcs; /* NULL: CRCs are not checked */
    coffer__decoding decoding;
    uint32_t *order; /* numbers of rows that are written and have bytes */
    size_t count;
    uint32_t *places;      /* of each row of the plan: its number in the declaration */
    uint8_t *checked;      /* of each storage */
    size_t group_capacity; /* of the arrays that follow */
    coffer__carry *carries;
    coffer__box *boxes;
    coffer__checksum *sums;
    coffer__row *rest;      /* storages that are read for their CRCs alone */
    size_t *rest_of;        /* the place in `order` of a row of each of `rest` */
    uint32_t *rest_storage; /* the number of each of `rest` */
    size_t rest_count;
    coffer__parts parts; /* the progress of the groups; counts bytes of tensors */
} carry_run;

/* The row at place `i` of the order; everything below speaks of places in the order. */
static const coffer__import_plan_row *carry_row(const carry_run *run, size_t i)
{
    return coffer__import_plan_rows(run->plan) + run->order[i];
}

static const coffer__import_plan_storage *carry_storage_of(const carry_run *run, const coffer__import_plan_row *row)
{
    return coffer__import_plan_storages(run->plan) + row->storage;
}

/* Of a plain storage its only piece. A row that has bytes views a storage that has at least one, or is of parts that do. */
static const coffer__import_plan_piece *carry_first_piece(const carry_run *run,
                                                          const coffer__import_plan_storage *storage)
{
    return coffer__import_plan_first_piece(run->plan, storage);
}

/* Names the tensor in an error, and its file unless another one is named. `number` counts the rows of the plan. */
static coffer_status carry_fail_row(const carry_run *run, coffer_status status, uint32_t number, coffer_error *err)
{
    const coffer__import_plan_row *row = coffer__import_plan_rows(run->plan) + number;
    if (err != NULL && err->path[0] == '\0') {
        const uint32_t file = carry_first_piece(run, carry_storage_of(run, row))->file;
        (void)coffer__fail_path(err, status, coffer__input_file_path(run->input, file));
    }
    return coffer__import_plan_fail_row(run->plan, row, status, err);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The signs of a row's numbers, as the transfer changes them. */
static coffer__change carry_change(const coffer__import_plan_row *row)
{
    const coffer__dtype_info *dtype = coffer__dtype_info_of(row->dtype);
    coffer__change change = { .swap = row->swap };
    if (row->sign == COFFER__SIGN_CONJUGATED) {
        change.flip = COFFER__FLIP_IMAGINARY;
        change.width = 4;
    } else if (row->sign == COFFER__SIGN_NEGATED) {
        const bool whole = dtype->kind == COFFER_KIND_SIGNED || dtype->kind == COFFER_KIND_UNSIGNED;
        change.flip = whole ? COFFER__FLIP_INTEGERS : COFFER__FLIP_FLOATS;
        change.width = (uint8_t)(dtype->kind == COFFER_KIND_COMPLEX ? 4 : dtype->bits / 8);
    }
    return change;
}

/* Where the bytes of a storage are: from byte `at` of a source on, which is in memory if `map` is not NULL. */
typedef struct carry_place {
    const coffer__byte_source *source;
    const uint8_t *map;
    uint64_t at;
} carry_place;

/*
 * Puts row order[i] into entry `k` of the group. A row that is all of a
 * plain storage takes its CRC along, if no other row did.
 */
static coffer_status carry_put(carry_run *run, size_t k, size_t i, const carry_place *place, coffer_error *err)
{
    const coffer__import_plan_row *row = carry_row(run, i);
    const coffer__import_plan_storage *storage = carry_storage_of(run, row);
    coffer__box *box = &run->boxes[k];
    const coffer_status status = coffer__import_plan_box(run->plan, row, box, err);
    if (status != COFFER_OK) {
        return carry_fail_row(run, status, run->order[i], err);
    }
    /* A view without gaps is one run, which needs no box: the transfer can have the system copy it. */
    const bool gathered = box->rank > 0;
    const uint64_t size = coffer__import_plan_row_size(run->plan, row);
    run->carries[k] = (coffer__carry){ .to = run->places[run->order[i]],
                                       .row = { .source = place->source,
                                                .map = place->map,
                                                .offset = place->at + (gathered ? 0 : box->start),
                                                .box = gathered ? box : NULL,
                                                .size = size,
                                                .change = carry_change(row) } };
    /* A CRC is that of all bytes of the piece, in their order, before any change. The transfer
       feeds it what it reads; so only a row that reads just these bytes can have it computed on the
       way. */
    const bool whole = !gathered && size == storage->size && coffer__import_plan_is_plain(run->plan, storage);
    if (run->crcs != NULL && whole && run->checked[row->storage] == CARRY_UNCHECKED &&
        carry_first_piece(run, storage)->has_crc) {
        run->checked[row->storage] = CARRY_CHECKED;
        run->sums[k] = (coffer__checksum){ .crc32 = coffer__crc_of(run->crcs, carry_first_piece(run, storage)) };
        run->carries[k].row.checksum = &run->sums[k];
    }
    return COFFER_OK;
}

/* The file of a model that a row goes to. */
static size_t carry_shard(const carry_run *run, size_t i)
{
    return run->target->model == NULL ? 0
                                      : coffer_model_writer_shard_of(run->target->model, run->places[run->order[i]]);
}

/* Compares the CRCs that came along with a group, of rows from order[first] on. */
/* A mismatch comes after the group was written. Nothing of it is published, so that is early
   enough. */
static coffer_status carry_compare(const carry_run *run, size_t first, size_t count, coffer_error *err)
{
    for (size_t k = 0; k < count; k++) {
        const coffer__import_plan_row *row = carry_row(run, first + k);
        const coffer__import_plan_storage *storage = carry_storage_of(run, row);
        const coffer__import_plan_piece *piece = carry_first_piece(run, storage);
        if (run->carries[k].row.checksum != NULL && run->sums[k].value != piece->crc) {
            const coffer_status status = coffer__decode_mismatch(run->plan, storage, piece, run->sums[k].value, err);
            return carry_fail_row(run, status, run->order[first + k], err);
        }
    }
    return COFFER_OK;
}

/* Hands rows order[first..first + count) to the writer, of one file and of one source or of plain storages. `threads`
   1 is for sources that have to be read in order. */
static coffer_status carry_hand_over(carry_run *run, size_t first, size_t count, uint32_t threads, coffer_error *err)
{
    const coffer__carry_target *target = run->target;
    const size_t shard = carry_shard(run, first);
    coffer_read_options options = *run->options;
    size_t failed = count;
    uint64_t size = 0;
    coffer__parts_begin(&run->parts, &options.progress, &options.progress_ctx);
    options.threads = threads == 0 ? options.threads : threads;
    for (size_t k = 0; k < count; k++) {
        size += run->carries[k].row.size;
    }
    /* The rows count as done before the status is looked at: after a failure nothing is told any
       more. */
    coffer_status status =
        target->model != NULL
            ? coffer__model_writer_carry(target->model, shard, run->carries, count, &options, &failed, err)
            : coffer__writer_carry(target->writer, run->carries, count, &options, &failed, err);
    run->parts.before += size;
    if (status != COFFER_OK) {
        return failed < count ? carry_fail_row(run, status, run->order[first + failed], err) : status;
    }
    return carry_compare(run, first, count, err);
}

/* Where the storage of row order[i] is: decoded, or, if that is NULL, in its file. */
static carry_place carry_find(const carry_run *run, size_t i, const coffer__storage_source *decoded)
{
    if (decoded != NULL) {
        return (carry_place){ .source = &decoded->source, .map = decoded->memory };
    }
    const coffer__import_plan_piece *piece = carry_first_piece(run, carry_storage_of(run, carry_row(run, i)));
    return (carry_place){ .source = coffer__input_source(run->input, piece->file), .at = piece->offset };
}

/* Hands over one group of rows, all of one file, from order[first] on; *next becomes the first that is not among
   them. They are of plain storages, or all of the storage that is `decoded`. */
static coffer_status carry_group(carry_run *run, size_t first, size_t end, const coffer__storage_source *decoded,
                                 size_t *next, coffer_error *err)
{
    const size_t shard = carry_shard(run, first);
    size_t count = 0;
    while (first + count < end && count < run->group_capacity && carry_shard(run, first + count) == shard) {
        const carry_place place = carry_find(run, first + count, decoded);
        const coffer_status status = carry_put(run, count, first + count, &place, err);
        if (status != COFFER_OK) {
            return status;
        }
        count++;
    }
    *next = first + count;
    return carry_hand_over(run, first, count, decoded != NULL && decoded->in_order ? 1 : 0, err);
}

/* ---- plain storages ---------------------------------------------------------------------------------------------- */

/* Whether the CRC of a storage is still to be computed. */
static bool carry_is_unchecked(const carry_run *run, uint32_t number)
{
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(run->plan) + number;
    return run->checked[number] == CARRY_UNCHECKED && coffer__import_plan_is_plain(run->plan, storage) &&
           carry_first_piece(run, storage)->has_crc;
}

/* Puts a storage of row order[i], its own or that of a part, into a group of those that are read for their CRCs alone.
   Marked at once: rows that share a storage would have it read again otherwise. `rest_of` is for finding the row again. */
static void carry_put_storage(carry_run *run, size_t k, size_t i, uint32_t number)
{
    const coffer__import_plan_piece *piece = carry_first_piece(run, coffer__import_plan_storages(run->plan) + number);
    run->checked[number] = CARRY_CHECKED;
    run->rest_storage[k] = number;
    run->sums[k] = (coffer__checksum){ .crc32 = coffer__crc_of(run->crcs, piece) };
    run->rest[k] = (coffer__row){ .source = coffer__input_source(run->input, piece->file),
                                  .offset = piece->offset,
                                  .size = piece->size,
                                  .checksum = &run->sums[k] };
    run->rest_of[k] = i;
}

/* Asks whether to go on. What is read for CRCs alone is not counted, since all tensors have been told of. */
static int carry_ask(void *ctx, uint64_t done, uint64_t total)
{
    const carry_run *run = ctx;
    return done == total ? 0 : run->options->progress(run->options->progress_ctx, run->parts.total, run->parts.total);
}

/* Reads the storages of a group, several at once, and compares their CRCs. */
static coffer_status carry_check_group(carry_run *run, size_t count, coffer_error *err)
{
    size_t failed = count;
    const coffer__transfer_options options = { .allocator = run->allocator,
                                               .progress = run->options->progress != NULL ? carry_ask : NULL,
                                               .progress_ctx = run,
                                               .threads = run->options->threads,
                                               .failed = &failed };
    coffer_status status = coffer__land_nowhere(run->rest, count, &options, err);
    if (status != COFFER_OK) {
        return failed < count ? carry_fail_row(run, status, run->order[run->rest_of[failed]], err) : status;
    }
    for (size_t k = 0; k < count; k++) {
        const coffer__import_plan_storage *storage = coffer__import_plan_storages(run->plan) + run->rest_storage[k];
        const coffer__import_plan_piece *piece = carry_first_piece(run, storage);
        if (run->sums[k].value != piece->crc) {
            status = coffer__decode_mismatch(run->plan, storage, piece, run->sums[k].value, err);
            return carry_fail_row(run, status, run->order[run->rest_of[k]], err);
        }
    }
    return COFFER_OK;
}

/* Adds a storage of row order[i] to the group, and checks the group first if it is full. */
static coffer_status carry_check_storage(carry_run *run, size_t i, uint32_t number, coffer_error *err)
{
    if (!carry_is_unchecked(run, number)) {
        return COFFER_OK;
    }
    if (run->rest_count == run->group_capacity) {
        const coffer_status status = carry_check_group(run, run->rest_count, err);
        if (status != COFFER_OK) {
            return status;
        }
        run->rest_count = 0;
    }
    carry_put_storage(run, run->rest_count++, i, number);
    return COFFER_OK;
}

/* The plain storages of which only parts are wanted, or nothing in their order, are read for their CRCs alone. That is
   one more pass over them; the system's cache often has them still. */
static coffer_status carry_check_rest(carry_run *run, coffer_error *err)
{
    for (size_t i = 0; i < run->count && run->crcs != NULL; i++) {
        const coffer__import_plan_row *row = carry_row(run, i);
        const coffer__import_plan_storage *storage = carry_storage_of(run, row);
        coffer_status status = carry_check_storage(run, i, row->storage, err);
        for (uint32_t k = 0; k < storage->part_count && status == COFFER_OK; k++) {
            const coffer__import_plan_part *part = coffer__import_plan_parts(run->plan) + storage->first_part + k;
            status = carry_check_storage(run, i, part->storage, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return run->rest_count == 0 ? COFFER_OK : carry_check_group(run, run->rest_count, err);
}

/* ---- storages that are decoded ----------------------------------------------------------------------------------- */

/* Rows order[first..end) of one storage that is decoded. It streams if its only row is all of it,
   in order: then no byte is wanted twice. A failure of the storage is reported as that of its first
   tensor, for want of a better one. */
static coffer_status carry_decoded(carry_run *run, size_t first, size_t end, coffer_error *err)
{
    const bool streams = end - first == 1 && coffer__import_plan_is_whole(run->plan, carry_row(run, first));
    coffer__storage_source storage;
    coffer_status status = coffer__storage_open(&storage, &run->decoding, carry_row(run, first)->storage, streams, err);
    for (size_t next = first; next < end && status == COFFER_OK;) {
        status = carry_group(run, next, end, &storage, &next, err);
    }
    coffer__storage_close(&storage);
    if (status != COFFER_OK && err != NULL && err->tensor[0] == '\0') {
        (void)carry_fail_row(run, status, run->order[first], err);
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Plain storages first, by the place in the output; then storage by storage. */
static bool carry_row_before(const void *ctx, uint32_t a, uint32_t b)
{
    const carry_run *run = ctx;
    const coffer__import_plan_row *first = coffer__import_plan_rows(run->plan) + a;
    const coffer__import_plan_row *second = coffer__import_plan_rows(run->plan) + b;
    const bool first_plain = coffer__import_plan_is_plain(run->plan, carry_storage_of(run, first));
    const bool second_plain = coffer__import_plan_is_plain(run->plan, carry_storage_of(run, second));
    if (!run->target->in_order && first_plain != second_plain) {
        return first_plain;
    }
    if (!run->target->in_order && !first_plain && first->storage != second->storage) {
        return first->storage < second->storage;
    }
    const coffer_model_writer *model = run->target->model;
    const size_t first_place = run->places[a];
    const size_t second_place = run->places[b];
    if (model != NULL) {
        return coffer_model_writer_shard_of(model, first_place) < coffer_model_writer_shard_of(model, second_place);
    }
    return coffer_header_at(run->target->header, first_place)->offset <
           coffer_header_at(run->target->header, second_place)->offset;
}

/* Rows without bytes are declared but not carried, so they have a place and are not in the order. */
static void carry_sort(carry_run *run)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < run->plan->rows.count; i++) {
        const coffer__import_plan_row *row = coffer__import_plan_rows(run->plan) + i;
        if (row->fate != COFFER_FATE_WRITTEN) {
            continue;
        }
        const uint64_t size = coffer__import_plan_row_size(run->plan, row);
        run->places[i] = place++;
        if (size > 0) {
            run->order[run->count++] = i;
            run->parts.total += size;
        }
    }
    const carry_run given = *run; /* what the comparison looks at stays as it is */
    coffer__sort(run->order, run->count, carry_row_before, &given);
}

/* From row order[first] on, the rows that go together: those of plain storages, or those of one storage. */
static size_t carry_end(const carry_run *run, size_t first)
{
    const coffer__import_plan_row *row = carry_row(run, first);
    const bool plain = coffer__import_plan_is_plain(run->plan, carry_storage_of(run, row));
    size_t end = first + 1;
    while (end < run->count) {
        const coffer__import_plan_row *next = carry_row(run, end);
        if (plain ? !coffer__import_plan_is_plain(run->plan, carry_storage_of(run, next))
                  : next->storage != row->storage) {
            break;
        }
        end++;
    }
    return end;
}

/* carry_group may stop before `end`, as a group has a bound and one file; the next round goes on
   from there. */
static coffer_status carry_all(carry_run *run, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < run->count && status == COFFER_OK;) {
        const size_t end = carry_end(run, i);
        if (coffer__import_plan_is_plain(run->plan, carry_storage_of(run, carry_row(run, i)))) {
            status = carry_group(run, i, end, NULL, &i, err);
        } else {
            status = carry_decoded(run, i, end, err);
            i = end;
        }
    }
    if (status != COFFER_OK) {
        return status;
    }
    return carry_check_rest(run, err);
}

/* Allocates what a run needs; carry_free releases what there is. */
/* All arrays are tried before one status is returned: each call has filled `err` if it failed. */
static coffer_status carry_new(carry_run *run, bool unchecked, coffer_error *err)
{
    const size_t rows = run->plan->rows.count;
    const size_t storages = run->plan->storages.count;
    const size_t most = rows > storages ? rows : storages;
    run->group_capacity = most < CARRY_GROUP ? most : CARRY_GROUP;
    run->order = coffer__alloc_array(run->allocator, rows, sizeof *run->order, err);
    run->places = coffer__alloc_array(run->allocator, rows, sizeof *run->places, err);
    run->checked = coffer__alloc_array(run->allocator, run->plan->storages.count, sizeof *run->checked, err);
    run->carries = coffer__alloc_array(run->allocator, run->group_capacity, sizeof *run->carries, err);
    run->boxes = coffer__alloc_array(run->allocator, run->group_capacity, sizeof *run->boxes, err);
    run->sums = coffer__alloc_array(run->allocator, run->group_capacity, sizeof *run->sums, err);
    run->rest = coffer__alloc_array(run->allocator, run->group_capacity, sizeof *run->rest, err);
    run->rest_of = coffer__alloc_array(run->allocator, run->group_capacity, sizeof *run->rest_of, err);
    run->rest_storage = coffer__alloc_array(run->allocator, run->group_capacity, sizeof *run->rest_storage, err);
    if (!unchecked) {
        run->crcs = coffer__alloc_array(run->allocator, 1, sizeof *run->crcs, err);
        if (run->crcs == NULL) {
            return COFFER_ERR_MEMORY;
        }
        coffer__crcs_open(run->crcs);
    }
    return run->order != NULL && run->places != NULL && run->checked != NULL && run->carries != NULL &&
                   run->boxes != NULL && run->sums != NULL && run->rest != NULL && run->rest_of != NULL &&
                   run->rest_storage != NULL
               ? COFFER_OK
               : COFFER_ERR_MEMORY;
}

/* Arrays that were not allocated are NULL, and freeing those does nothing. */
static void carry_free(carry_run *run)
{
    const size_t rows = run->plan->rows.count;
    if (run->crcs != NULL) {
        coffer__crcs_close(run->crcs);
    }
    coffer__inflaters_close(&run->decoding.inflaters);
    coffer__free_array(run->allocator, run->crcs, 1, sizeof *run->crcs);
    coffer__free_array(run->allocator, run->rest_storage, run->group_capacity, sizeof *run->rest_storage);
    coffer__free_array(run->allocator, run->rest_of, run->group_capacity, sizeof *run->rest_of);
    coffer__free_array(run->allocator, run->rest, run->group_capacity, sizeof *run->rest);
    coffer__free_array(run->allocator, run->sums, run->group_capacity, sizeof *run->sums);
    coffer__free_array(run->allocator, run->boxes, run->group_capacity, sizeof *run->boxes);
    coffer__free_array(run->allocator, run->carries, run->group_capacity, sizeof *run->carries);
    coffer__free_array(run->allocator, run->checked, run->plan->storages.count, sizeof *run->checked);
    coffer__free_array(run->allocator, run->places, rows, sizeof *run->places);
    coffer__free_array(run->allocator, run->order, rows, sizeof *run->order);
}

/* `decoding` lives as long as the run, so that libraries are opened once and for all storages. */
coffer_status coffer__carry_plan(const coffer__import_plan *plan, const coffer_input *input,
                                 const coffer__carry_target *target, bool unchecked, const coffer_read_options *options,
                                 coffer_error *err)
{
    carry_run run = {
        .plan = plan, .input = input, .target = target, .options = options, .allocator = plan->allocator
    };
    coffer_status status = carry_new(&run, unchecked, err);
    if (status == COFFER_OK) {
        run.decoding = (coffer__decoding){
            .plan = plan, .input = input, .crcs = run.crcs, .spool = target->spool, .allocator = run.allocator
        };
        carry_sort(&run);
        status = carry_all(&run, err);
    }
    carry_free(&run);
    return status;
}
