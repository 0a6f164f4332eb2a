/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors are sorted: those of plain storages first, by their places in the output, then those of
 * each storage that is decoded. (A writer that takes its bytes in order gets all of them by their
 * places; then a storage may be decoded several times.) They are handed to the writers in groups
 * that are small enough for the boxes of a group to be in memory.
 *
 * The steps, for all rows that are written and have bytes. The plan is asked in the first, and in
 * copy_look_up, which says all of one tensor at once; the others go by what these have found.
 *
 * 1. copy_classify and copy_sort: what each storage is, `order`, and the number that each row has in
 * the header of the output.
 *
 * 2. copy_all: group after group. The tensors of a group go to one file of the output, and come from
 * plain storages, or from one storage that is decoded.
 *
 * 3. copy_check_rest: the CRCs of plain storages that no tensor was all of.
 *
 * So a damaged archive may fail after its tensors are written; the caller publishes nothing then.
 * The order of 2 and 3 lets most CRCs be computed from bytes that are in memory anyway.
 *
 * Everything in the plan was checked: indices are in range, sums do not wrap, and each view lies
 * within its storage.
 */
#include "copy_tensors.h"

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
#define COPY_GROUP 4096

/* What a storage is to copying. */
typedef enum copy_state {
    COPY_DECODED = 0,  /* its bytes come of several pieces or parts, or of others */
    COPY_PLAIN = 1,    /* its bytes lie in a file as they are */
    COPY_UNCHECKED = 2 /* likewise, and its CRC is still to be computed */
} copy_state;

/* A tensor, as the plan has it. */
typedef struct copy_tensor {
    const coffer__import_plan_row *row;
    const coffer__import_plan_storage *storage;
    const coffer__import_plan_piece *piece; /* the first of the storage, which says in which file it is */
    uint32_t number;                        /* of the row */
    bool plain;
} copy_tensor;

/* One call. The arrays of a group have COPY_GROUP entries, or as many as there are rows. */
typedef struct copy_run {
    const coffer__import_plan *plan;
    const coffer_input *input;
    const coffer__copy_target *target;
    const coffer_read_options *options;
    const coffer_allocator *allocator;
    coffer__crcs *crcs; /* NULL: CRCs are not checked */
    coffer__decoding decoding;
    uint32_t *order; /* numbers of rows that are written and have bytes */
    size_t count;
    uint32_t *places;      /* of each row of the plan: its number in the declaration */
    uint8_t *states;       /* of each storage, a copy_state */
    size_t group_capacity; /* of the arrays that follow */
    coffer__carry *ops;    /* what the writer is given */
    copy_tensor *tensors;  /* of the group */
    coffer__box *boxes;
    coffer__checksum *sums;
    coffer__transfer_op *rest; /* storages that are read for their CRCs alone … */
    size_t *rest_of;           /* … and the place in `order` of a row of each, … */
    uint32_t *rest_storage;    /* … and its own number */
    size_t rest_count;
    coffer__parts parts; /* the progress of the groups; counts bytes of tensors */
} copy_run;

/* All that the plan says of the tensor at place `i` of the order; everything below speaks of places in the order. Its storage has
   at least one piece, or is of parts that do, since the tensor has bytes. */
static copy_tensor copy_look_up(const copy_run *run, size_t i)
{
    const uint32_t number = run->order[i];
    const coffer__import_plan_row *row = coffer__import_plan_rows(run->plan) + number;
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(run->plan) + row->storage;
    return (copy_tensor){ .row = row,
                          .storage = storage,
                          .piece = coffer__import_plan_first_piece(run->plan, storage),
                          .number = number,
                          .plain = run->states[row->storage] != COPY_DECODED };
}

/* Names the tensor in an error, and its file unless another one is named. */
static coffer_status copy_fail_tensor(const copy_run *run, coffer_status status, const copy_tensor *tensor,
                                      coffer_error *err)
{
    if (err != NULL && err->path[0] == '\0') {
        (void)coffer__fail_path(err, status, coffer__input_file_path(run->input, tensor->piece->file));
    }
    return coffer__import_plan_fail_row(run->plan, tensor->row, status, err);
}

/* The same of the tensor at place `i` of the order. */
static coffer_status copy_fail_at(const copy_run *run, coffer_status status, size_t i, coffer_error *err)
{
    const copy_tensor tensor = copy_look_up(run, i);
    return copy_fail_tensor(run, status, &tensor, err);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The signs of a row's numbers, as the transfer changes them. */
coffer__change coffer__copy_change(const coffer__import_plan_row *row)
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
typedef struct copy_place {
    const coffer__byte_source *source;
    const uint8_t *map;
    uint64_t at;
} copy_place;

/* Puts a tensor, run->tensors[k], into entry `k` of the group. One that is all of a plain storage takes its CRC along, if no
   other one did. */
static coffer_status copy_put(copy_run *run, size_t k, const copy_place *place, coffer_error *err)
{
    const copy_tensor *tensor = &run->tensors[k];
    coffer__box *box = &run->boxes[k];
    const coffer_status status = coffer__import_plan_box(run->plan, tensor->row, box, err);
    if (status != COFFER_OK) {
        return copy_fail_tensor(run, status, tensor, err);
    }
    /* A view without gaps is one run, which needs no box: the transfer can have the system copy it. */
    const bool gathered = box->rank > 0;
    const uint64_t size = coffer__import_plan_row_size(run->plan, tensor->row);
    run->ops[k] = (coffer__carry){ .to = run->places[tensor->number],
                                   .row = { .source = place->source,
                                            .map = place->map,
                                            .offset = place->at + (gathered ? 0 : box->start),
                                            .box = gathered ? box : NULL,
                                            .size = size,
                                            .change = coffer__copy_change(tensor->row) } };
    /* A CRC is that of all bytes of the piece, in their order, before any change. The transfer
       feeds it what it reads; so only a tensor that reads just these bytes can have it computed on
       the way. */
    uint8_t *state = &run->states[tensor->row->storage];
    if (run->crcs != NULL && *state == COPY_UNCHECKED && !gathered && size == tensor->storage->size) {
        *state = COPY_PLAIN;
        run->sums[k] = (coffer__checksum){ .crc32 = coffer__crc_of(run->crcs, tensor->piece) };
        run->ops[k].row.checksum = &run->sums[k];
    }
    return COFFER_OK;
}

/* The file of a model that a tensor goes to. */
static size_t copy_shard(const copy_run *run, size_t i)
{
    return run->target->model == NULL ? 0
                                      : coffer_model_writer_shard_of(run->target->model, run->places[run->order[i]]);
}

/* Compares the CRCs that came along with a group. A mismatch comes after the group was written. Nothing of it is published,
   so that is early enough. */
static coffer_status copy_compare(const copy_run *run, size_t count, coffer_error *err)
{
    for (size_t k = 0; k < count; k++) {
        const copy_tensor *tensor = &run->tensors[k];
        if (run->ops[k].row.checksum != NULL && run->sums[k].value != tensor->piece->crc) {
            const coffer_status status =
                coffer__decode_mismatch(run->plan, tensor->storage, tensor->piece, run->sums[k].value, err);
            return copy_fail_tensor(run, status, tensor, err);
        }
    }
    return COFFER_OK;
}

/* Hands order[first..first + count) to the writer, of one file and of one source or of plain storages. `threads`
   1 is for sources that have to be read in order. */
static coffer_status copy_hand_over(copy_run *run, size_t first, size_t count, uint32_t threads, coffer_error *err)
{
    const coffer__copy_target *target = run->target;
    const size_t shard = copy_shard(run, first);
    coffer_read_options options = *run->options;
    size_t failed = count;
    uint64_t size = 0;
    coffer__parts_begin(&run->parts, &options.progress, &options.progress_ctx);
    options.threads = threads == 0 ? options.threads : threads;
    for (size_t k = 0; k < count; k++) {
        size += run->ops[k].row.size;
    }
    /* The tensors count as done before the status is looked at: after a failure nothing is told any
       more. */
    coffer_status status =
        target->model != NULL
            ? coffer__model_writer_carry(target->model, shard, run->ops, count, &options, &failed, err)
            : coffer__writer_carry(target->writer, run->ops, count, &options, &failed, err);
    run->parts.before += size;
    if (status != COFFER_OK) {
        return failed < count ? copy_fail_tensor(run, status, &run->tensors[failed], err) : status;
    }
    return copy_compare(run, count, err);
}

/* Where the storage of a tensor is: decoded, or, if that is NULL, in its file. */
static copy_place copy_find(const copy_run *run, const copy_tensor *tensor, const coffer__storage_source *decoded)
{
    if (decoded != NULL) {
        return (copy_place){ .source = &decoded->source, .map = decoded->memory };
    }
    return (copy_place){ .source = coffer__input_source(run->input, tensor->piece->file), .at = tensor->piece->offset };
}

/* Hands over one group of tensors, all of one file, from order[first] on; *next becomes the first that is not among
   them. They are of plain storages, or all of the storage that is `decoded`. */
static coffer_status copy_group(copy_run *run, size_t first, size_t end, const coffer__storage_source *decoded,
                                size_t *next, coffer_error *err)
{
    const size_t shard = copy_shard(run, first);
    size_t count = 0;
    while (first + count < end && count < run->group_capacity && copy_shard(run, first + count) == shard) {
        run->tensors[count] = copy_look_up(run, first + count);
        const copy_place place = copy_find(run, &run->tensors[count], decoded);
        const coffer_status status = copy_put(run, count, &place, err);
        if (status != COFFER_OK) {
            return status;
        }
        count++;
    }
    *next = first + count;
    return copy_hand_over(run, first, count, decoded != NULL && decoded->in_order ? 1 : 0, err);
}

/* ---- plain storages ---------------------------------------------------------------------------------------------- */

/* Puts a storage of the tensor at order[i], its own or that of a part, into a group of those that are read for their CRCs
   alone. Marked at once: tensors that share a storage would have it read again otherwise. `rest_of` is for finding the tensor
   again. */
static void copy_put_storage(copy_run *run, size_t k, size_t i, uint32_t number)
{
    const coffer__import_plan_storage *storage = coffer__import_plan_storages(run->plan) + number;
    const coffer__import_plan_piece *piece = coffer__import_plan_pieces(run->plan) + storage->first;
    run->states[number] = COPY_PLAIN;
    run->rest_storage[k] = number;
    run->sums[k] = (coffer__checksum){ .crc32 = coffer__crc_of(run->crcs, piece) };
    run->rest[k] = (coffer__transfer_op){ .source = coffer__input_source(run->input, piece->file),
                                          .offset = piece->offset,
                                          .size = piece->size,
                                          .checksum = &run->sums[k] };
    run->rest_of[k] = i;
}

/* Asks whether to go on. What is read for CRCs alone is not counted, since all tensors have been told of. */
static int copy_ask(void *ctx, uint64_t done, uint64_t total)
{
    const copy_run *run = ctx;
    return done == total ? 0 : run->options->progress(run->options->progress_ctx, run->parts.total, run->parts.total);
}

/* Reads the storages of a group, several at once, and compares their CRCs. */
static coffer_status copy_check_group(copy_run *run, size_t count, coffer_error *err)
{
    size_t failed = count;
    const coffer__transfer_options options = { .allocator = run->allocator,
                                               .progress = run->options->progress != NULL ? copy_ask : NULL,
                                               .progress_ctx = run,
                                               .threads = run->options->threads,
                                               .failed = &failed };
    coffer_status status = coffer__discard(run->rest, count, &options, err);
    if (status != COFFER_OK) {
        return failed < count ? copy_fail_at(run, status, run->rest_of[failed], err) : status;
    }
    for (size_t k = 0; k < count; k++) {
        const coffer__import_plan_storage *storage = coffer__import_plan_storages(run->plan) + run->rest_storage[k];
        const coffer__import_plan_piece *piece = coffer__import_plan_pieces(run->plan) + storage->first;
        if (run->sums[k].value != piece->crc) {
            status = coffer__decode_mismatch(run->plan, storage, piece, run->sums[k].value, err);
            return copy_fail_at(run, status, run->rest_of[k], err);
        }
    }
    return COFFER_OK;
}

/* Adds a storage of the tensor at order[i] to the group, and checks the group first if it is full. */
static coffer_status copy_check_storage(copy_run *run, size_t i, uint32_t number, coffer_error *err)
{
    if (run->states[number] != COPY_UNCHECKED) {
        return COFFER_OK;
    }
    if (run->rest_count == run->group_capacity) {
        const coffer_status status = copy_check_group(run, run->rest_count, err);
        if (status != COFFER_OK) {
            return status;
        }
        run->rest_count = 0;
    }
    copy_put_storage(run, run->rest_count++, i, number);
    return COFFER_OK;
}

/* The plain storages of which only parts are wanted, or nothing in their order, are read for their CRCs alone. That is
   one more pass over them; the system's cache often has them still. */
static coffer_status copy_check_rest(copy_run *run, coffer_error *err)
{
    for (size_t i = 0; i < run->count && run->crcs != NULL; i++) {
        const copy_tensor tensor = copy_look_up(run, i);
        const uint32_t parts = coffer__import_plan_part_count(tensor.storage);
        coffer_status status = copy_check_storage(run, i, tensor.row->storage, err);
        for (uint32_t k = 0; k < parts && status == COFFER_OK; k++) {
            const coffer__import_plan_part *part = coffer__import_plan_parts(run->plan) + tensor.storage->first + k;
            status = copy_check_storage(run, i, part->storage, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return run->rest_count == 0 ? COFFER_OK : copy_check_group(run, run->rest_count, err);
}

/* ---- storages that are decoded ----------------------------------------------------------------------------------- */

/* Tensors order[first..end) of one storage that is decoded. It streams if its only tensor is all of it,
   in order: then no byte is wanted twice. A failure of the storage is reported as that of its first
   tensor, for want of a better one. */
static coffer_status copy_decoded(copy_run *run, size_t first, size_t end, coffer_error *err)
{
    const copy_tensor tensor = copy_look_up(run, first);
    const bool streams = end - first == 1 && coffer__import_plan_is_whole(run->plan, tensor.row);
    coffer__storage_source storage;
    coffer_status status = coffer__storage_open(&storage, &run->decoding, tensor.row->storage, streams, err);
    for (size_t next = first; next < end && status == COFFER_OK;) {
        status = copy_group(run, next, end, &storage, &next, err);
    }
    coffer__storage_close(&storage);
    if (status != COFFER_OK && err != NULL && err->tensor[0] == '\0') {
        (void)copy_fail_tensor(run, status, &tensor, err);
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Plain storages first, by the place in the output; then storage by storage. */
static bool copy_row_before(const void *ctx, uint32_t a, uint32_t b)
{
    const copy_run *run = ctx;
    const coffer__import_plan_row *first = coffer__import_plan_rows(run->plan) + a;
    const coffer__import_plan_row *second = coffer__import_plan_rows(run->plan) + b;
    const bool first_plain = run->states[first->storage] != COPY_DECODED;
    const bool second_plain = run->states[second->storage] != COPY_DECODED;
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

/* What each storage is, before any tensor is copied. */
static void copy_classify(copy_run *run)
{
    for (size_t i = 0; i < run->plan->storages.count; i++) {
        const coffer__import_plan_storage *storage = coffer__import_plan_storages(run->plan) + i;
        if (coffer__import_plan_is_plain(run->plan, storage)) {
            const coffer__import_plan_piece *piece = coffer__import_plan_pieces(run->plan) + storage->first;
            run->states[i] = piece->crc_kind == COFFER__CRC_NONE ? COPY_PLAIN : COPY_UNCHECKED;
        }
    }
}

/* Rows without bytes are declared but not copied, so they have a place and are not in the order. */
static void copy_sort(copy_run *run)
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
    const copy_run given = *run; /* what the comparison looks at stays as it is */
    coffer__sort(run->order, run->count, copy_row_before, &given);
}

/* From order[first] on, the tensors that go together: those of plain storages, or those of one storage. */
static size_t copy_end(const copy_run *run, size_t first)
{
    const copy_tensor tensor = copy_look_up(run, first);
    size_t end = first + 1;
    while (end < run->count) {
        const copy_tensor next = copy_look_up(run, end);
        if (tensor.plain ? !next.plain : next.row->storage != tensor.row->storage) {
            break;
        }
        end++;
    }
    return end;
}

/* copy_group may stop before `end`, as a group has a bound and one file; the next round goes on
   from there. */
static coffer_status copy_all(copy_run *run, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < run->count && status == COFFER_OK;) {
        const size_t end = copy_end(run, i);
        if (copy_look_up(run, i).plain) {
            status = copy_group(run, i, end, NULL, &i, err);
        } else {
            status = copy_decoded(run, i, end, err);
            i = end;
        }
    }
    if (status != COFFER_OK) {
        return status;
    }
    return copy_check_rest(run, err);
}

/* Allocates what a run needs; copy_free releases what there is. All arrays are tried before one status is returned: each
   call has filled `err` if it failed. */
static coffer_status copy_new(copy_run *run, bool unchecked, coffer_error *err)
{
    const size_t rows = run->plan->rows.count;
    const size_t storages = run->plan->storages.count;
    const size_t most = rows > storages ? rows : storages;
    run->group_capacity = most < COPY_GROUP ? most : COPY_GROUP;
    run->order = coffer__alloc_array(run->allocator, rows, sizeof *run->order, err);
    run->places = coffer__alloc_array(run->allocator, rows, sizeof *run->places, err);
    run->states = coffer__alloc_array(run->allocator, storages, sizeof *run->states, err);
    run->tensors = coffer__alloc_array(run->allocator, run->group_capacity, sizeof *run->tensors, err);
    run->ops = coffer__alloc_array(run->allocator, run->group_capacity, sizeof *run->ops, err);
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
    return run->order != NULL && run->places != NULL && run->states != NULL && run->tensors != NULL &&
                   run->ops != NULL && run->boxes != NULL && run->sums != NULL && run->rest != NULL &&
                   run->rest_of != NULL && run->rest_storage != NULL
               ? COFFER_OK
               : COFFER_ERR_MEMORY;
}

/* Arrays that were not allocated are NULL, and freeing those does nothing. */
static void copy_free(copy_run *run)
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
    coffer__free_array(run->allocator, run->ops, run->group_capacity, sizeof *run->ops);
    coffer__free_array(run->allocator, run->tensors, run->group_capacity, sizeof *run->tensors);
    coffer__free_array(run->allocator, run->states, run->plan->storages.count, sizeof *run->states);
    coffer__free_array(run->allocator, run->places, rows, sizeof *run->places);
    coffer__free_array(run->allocator, run->order, rows, sizeof *run->order);
}

/* `decoding` lives as long as the run, so that libraries are opened once and for all storages. */
coffer_status coffer__copy_tensors(const coffer__import_plan *plan, const coffer_input *input,
                                   const coffer__copy_target *target, bool unchecked,
                                   const coffer_read_options *options, coffer_error *err)
{
    copy_run run = { .plan = plan, .input = input, .target = target, .options = options, .allocator = plan->allocator };
    coffer_status status = copy_new(&run, unchecked, err);
    if (status == COFFER_OK) {
        run.decoding = (coffer__decoding){
            .plan = plan, .input = input, .crcs = run.crcs, .spool = target->spool, .allocator = run.allocator
        };
        copy_classify(&run);
        copy_sort(&run);
        status = copy_all(&run, err);
    }
    copy_free(&run);
    return status;
}
