/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans refer by number, never by address, so joining two is copying arrays and adding to the numbers in them. What the
 * numbers count decides by how much they move: a row's dimensions by the dimensions of the first plan, its storage by
 * the storages, its name by the bytes of the texts.
 *
 * Arrays only grow at their ends, so the plan can be cut back to what it was. The one exception is the record of tensors
 * in the metadata, of which both plans have one: it is replaced, and the mark remembers it.
 */
#include "plan_join.h"

#include "alloc.h"
#include "error.h"
#include "sort.h"
#include "text.h"
#include "writing.h"

/* How far the numbers of the second plan move. Text 0 is "" in both, and stays. */
typedef struct plan_shift {
    uint32_t texts;
    uint32_t files;
    uint32_t pieces;
    uint32_t storages;
    uint32_t parts;
    uint32_t extents;
    uint32_t rows;
    uint32_t dimensions;
} plan_shift;

/* Both plans begin with the text of no bytes, so the second one's copy of it is left unused. */
static uint32_t join_text(const plan_shift *shift, uint32_t text)
{
    return text == 0 ? 0 : text + shift->texts;
}

/* What the arrays of a plan take, so that the budget of both is what each of them had. */
static uint64_t join_size(const coffer__import_plan *plan)
{
    return plan->file_names.count * sizeof(uint32_t) + plan->pieces.count * sizeof(coffer__import_plan_piece) +
           plan->storages.count * sizeof(coffer__import_plan_storage) +
           plan->parts.count * sizeof(coffer__import_plan_part) + plan->extents.count * sizeof(uint64_t) +
           plan->rows.count * sizeof(coffer__import_plan_row) +
           plan->dimensions.count * sizeof(coffer__import_plan_dimension) +
           plan->pairs.count * sizeof(coffer__import_plan_pair) +
           plan->findings.count * sizeof(coffer__import_plan_finding) + plan->texts.count;
}

/* ---- parts of it ------------------------------------------------------------------------------------------------- */

/* What a piece says of its bytes stays; only where they are, and where its factors are, moves. */
static void join_move_piece(void *item, const plan_shift *shift)
{
    coffer__import_plan_piece *piece = item;
    piece->file += shift->files;
    if (piece->coding == COFFER__CODING_BLOCKS) {
        piece->as.blocks.scales = join_text(shift, piece->as.blocks.scales);
    }
}

/* Its pieces are put before it is, in the same order, so that they are as far apart as they were. */
static void join_move_storage(void *item, const plan_shift *shift)
{
    coffer__import_plan_storage *storage = item;
    storage->name = join_text(shift, storage->name);
    switch (storage->kind) {
    case COFFER__STORAGE_JOINED:
        storage->first += shift->pieces;
        break;
    case COFFER__STORAGE_CHUNKED:
        storage->first += shift->pieces;
        storage->as.grid.dimensions += shift->dimensions;
        break;
    case COFFER__STORAGE_ASSEMBLED:
        storage->first += shift->parts;
        storage->as.array.extents += shift->extents;
        break;
    }
}

/* Parts refer to storages of the same plan, and their boxes are numbers that mean the same anywhere. */
static void join_move_part(void *item, const plan_shift *shift)
{
    coffer__import_plan_part *part = item;
    part->storage += shift->storages;
    part->box += shift->extents;
}

/* Rows that view nothing keep saying so, and what is no alias has no number of another row: the field may hold anything
   then, and moving it could make a number that is in range by chance. */
static void join_move_row(void *item, const plan_shift *shift)
{
    coffer__import_plan_row *row = item;
    row->name = join_text(shift, row->name);
    row->reason = join_text(shift, row->reason);
    row->dimensions += shift->dimensions;
    row->storage += row->storage == COFFER__PLAN_NO_STORAGE ? 0 : shift->storages;
    row->alias_of += row->fate == COFFER_FATE_ALIAS ? shift->rows : 0;
}

/* The sentences are escaped already, and say nothing of the file's number. */
static void join_move_finding(void *item, const plan_shift *shift)
{
    coffer__import_plan_finding *finding = item;
    finding->file += shift->files;
    finding->member = join_text(shift, finding->member);
    finding->subject = join_text(shift, finding->subject);
    finding->text = join_text(shift, finding->text);
}

/* Puts the items of the second plan's array after those of the first, and moves the numbers in them. All are copied
   before any is moved, so a lack of memory leaves the array as it was. */
static coffer_status join_array(coffer__import_plan *plan, coffer__import_plan_array *array,
                                const coffer__import_plan_array *more, size_t item_size,
                                void (*move)(void *item, const plan_shift *shift), const plan_shift *shift,
                                coffer_error *err)
{
    const size_t first = array->count;
    const coffer_status status = coffer__import_plan_extend(plan, array, more->items, more->count, item_size, err);
    for (size_t i = first; status == COFFER_OK && i < array->count; i++) {
        move((uint8_t *)array->items + i * item_size, shift);
    }
    return status;
}

/* All but the pairs. Dimensions and extents hold sizes and strides, which mean the same anywhere. */
static coffer_status join_arrays(coffer__import_plan *plan, const coffer__import_plan *more, const plan_shift *shift,
                                 coffer_error *err)
{
    coffer_status status =
        coffer__import_plan_extend(plan, &plan->dimensions, more->dimensions.items, more->dimensions.count,
                                   sizeof(coffer__import_plan_dimension), err);
    if (status == COFFER_OK) {
        status = join_array(plan, &plan->pieces, &more->pieces, sizeof(coffer__import_plan_piece), join_move_piece,
                            shift, err);
    }
    if (status == COFFER_OK) {
        status = join_array(plan, &plan->storages, &more->storages, sizeof(coffer__import_plan_storage),
                            join_move_storage, shift, err);
    }
    if (status == COFFER_OK) {
        status = coffer__import_plan_extend(plan, &plan->extents, more->extents.items, more->extents.count,
                                            sizeof(uint64_t), err);
    }
    if (status == COFFER_OK) {
        status =
            join_array(plan, &plan->parts, &more->parts, sizeof(coffer__import_plan_part), join_move_part, shift, err);
    }
    if (status == COFFER_OK) {
        status = join_array(plan, &plan->rows, &more->rows, sizeof(coffer__import_plan_row), join_move_row, shift, err);
    }
    if (status == COFFER_OK) {
        status = join_array(plan, &plan->findings, &more->findings, sizeof(coffer__import_plan_finding),
                            join_move_finding, shift, err);
    }
    return status;
}

/* Whether a pair lists tensors, and so has another list for each file. */
static bool join_is_record(const coffer__import_plan *plan, const coffer__import_plan_pair *pair)
{
    size_t key_len = 0;
    const char *key = coffer__import_plan_text(plan, pair->key, &key_len);
    return coffer__text_is(key, key_len, COFFER__PLAN_RECORD);
}

/* Two objects of JSON become one with the members of both, which are names of tensors: none can be in both, as no tensor
   can. What is no object was written by nobody here, and is left to be refused as any other difference is. */
static coffer_status join_records(coffer__import_plan *plan, coffer__import_plan_pair *into, uint32_t more,
                                  bool *joined, coffer_error *err)
{
    size_t first_len = 0;
    size_t second_len = 0;
    coffer__writing both = { .allocator = plan->allocator };
    const char *first = coffer__import_plan_text(plan, into->value, &first_len);
    const char *second = coffer__import_plan_text(plan, more, &second_len);
    *joined = first_len > 2 && second_len > 2 && first[0] == '{' && second[0] == '{' && first[first_len - 1] == '}' &&
              second[second_len - 1] == '}';
    if (!*joined) {
        return COFFER_OK;
    }
    coffer__write(&both, first, first_len - 1);
    coffer__write_text(&both, ", ");
    coffer__write(&both, second + 1, second_len - 1);
    plan->budget += both.used;
    const coffer_status status = both.failed
                                     ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory to join the types of tensors")
                                     : coffer__import_plan_put_text(plan, both.text, both.used, &into->value, err);
    coffer__writing_free(&both);
    return status;
}

/* One of the pairs. Files of one program say the same thing each, "format" for one: it is kept once. The pairs of the
   first plan are few where those of the second are many, and the other way round; both are few as a rule. */
static coffer_status join_pair(coffer__import_plan *plan, const coffer__import_plan_pair *pair, size_t known,
                               coffer_error *err)
{
    for (size_t i = 0; i < known; i++) {
        const coffer__import_plan_pair *other = &coffer__import_plan_pairs(plan)[i];
        if (coffer__import_plan_compare_texts(plan, other->key, pair->key) != 0) {
            continue;
        }
        if (coffer__import_plan_compare_texts(plan, other->value, pair->value) == 0) {
            return COFFER_OK;
        }
        bool joined = false;
        coffer_status status = COFFER_OK;
        if (join_is_record(plan, pair)) {
            status = join_records(plan, (coffer__import_plan_pair *)plan->pairs.items + i, pair->value, &joined, err);
        }
        if (joined || status != COFFER_OK) {
            return status;
        }
        size_t key_len = 0;
        const char *key = coffer__import_plan_text(plan, pair->key, &key_len);
        return coffer__fail(err, COFFER_ERR_DUPLICATE_KEY, "several files have %q for the metadata, and not the same",
                            key, key_len);
    }
    return coffer__import_plan_extend(plan, &plan->pairs, pair, 1, sizeof *pair, err);
}

/* Compared with the pairs of the first plan only: within the second one keys are unique already. */
static coffer_status join_pairs(coffer__import_plan *plan, const coffer__import_plan *more, const plan_shift *shift,
                                coffer_error *err)
{
    const size_t known = plan->pairs.count;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < more->pairs.count && status == COFFER_OK; i++) {
        coffer__import_plan_pair pair = coffer__import_plan_pairs(more)[i];
        pair.key = join_text(shift, pair.key);
        pair.value = join_text(shift, pair.value);
        status = join_pair(plan, &pair, known, err);
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* A copy of the struct is enough for all arrays, whose counts are in it. What the copy's pointers lead to may be gone
   later, and is not looked at. */
void coffer__import_plan_mark_now(const coffer__import_plan *plan, coffer__import_plan_mark *mark)
{
    mark->plan = *plan;
    mark->record = SIZE_MAX;
    for (size_t i = 0; i < plan->pairs.count && mark->record == SIZE_MAX; i++) {
        mark->record = join_is_record(plan, &coffer__import_plan_pairs(plan)[i]) ? i : SIZE_MAX;
    }
    mark->value = mark->record == SIZE_MAX ? 0 : coffer__import_plan_pairs(plan)[mark->record].value;
}

/* The arrays keep their space. The one item that joining changes in place is the record. */
void coffer__import_plan_unjoin(coffer__import_plan *plan, const coffer__import_plan_mark *mark)
{
    const coffer__import_plan *before = &mark->plan;
    if (mark->record != SIZE_MAX) {
        ((coffer__import_plan_pair *)plan->pairs.items)[mark->record].value = mark->value;
    }
    plan->file_count = before->file_count;
    plan->keys_file = before->keys_file;
    plan->keys_size = before->keys_size;
    plan->file_names.count = before->file_names.count;
    plan->pieces.count = before->pieces.count;
    plan->storages.count = before->storages.count;
    plan->parts.count = before->parts.count;
    plan->extents.count = before->extents.count;
    plan->rows.count = before->rows.count;
    plan->dimensions.count = before->dimensions.count;
    plan->pairs.count = before->pairs.count;
    plan->findings.count = before->findings.count;
    plan->texts.count = before->texts.count;
}

/* Each array has fewer than 2^32 items, and so has what it grows to, or growing fails: no number wraps. */
coffer_status coffer__import_plan_join(coffer__import_plan *plan, const coffer__import_plan *more, uint32_t file,
                                       coffer_error *err)
{
    coffer__import_plan_mark before;
    coffer__import_plan_mark_now(plan, &before);
    const plan_shift shift = { .texts = (uint32_t)plan->texts.count,
                               .files = file,
                               .pieces = (uint32_t)plan->pieces.count,
                               .storages = (uint32_t)plan->storages.count,
                               .parts = (uint32_t)plan->parts.count,
                               .extents = (uint32_t)plan->extents.count,
                               .rows = (uint32_t)plan->rows.count,
                               .dimensions = (uint32_t)plan->dimensions.count };
    plan->budget += 2 * join_size(more);
    if (plan->keys_size == 0) {
        plan->keys_file = file + more->keys_file;
        plan->keys_size = more->keys_size;
    }
    coffer_status status = coffer__import_plan_extend(plan, &plan->texts, more->texts.items, more->texts.count, 1, err);
    if (status == COFFER_OK) {
        status = join_arrays(plan, more, &shift, err);
    }
    if (status == COFFER_OK) {
        status = join_pairs(plan, more, &shift, err);
    }
    if (status != COFFER_OK) {
        coffer__import_plan_unjoin(plan, &before);
    }
    return status;
}

/* By name, then by number, so that the order is one. */
static bool join_name_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__import_plan_row *rows = coffer__import_plan_rows(ctx);
    const int order = coffer__import_plan_compare_texts(ctx, rows[a].name, rows[b].name);
    return order != 0 ? order < 0 : a < b;
}

/* Sorted by name and number, rows of one name are neighbours. */
coffer_status coffer__import_plan_find_same(const coffer__import_plan *plan, size_t split, uint32_t *first,
                                            uint32_t *second, coffer_error *err)
{
    const coffer__import_plan_row *rows = coffer__import_plan_rows(plan);
    uint32_t *order = coffer__alloc_array(plan->allocator, plan->rows.count, sizeof *order, err);
    size_t count = 0;
    *first = UINT32_MAX;
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < plan->rows.count; i++) {
        order[count] = i;
        count += rows[i].fate != COFFER_FATE_SKIPPED;
    }
    coffer__sort(order, count, join_name_before, plan);
    for (size_t i = 1; i < count && *first == UINT32_MAX; i++) {
        const bool apart = order[i - 1] < split && order[i] >= split;
        if (apart && coffer__import_plan_compare_texts(plan, rows[order[i - 1]].name, rows[order[i]].name) == 0) {
            *first = order[i - 1];
            *second = order[i];
        }
    }
    coffer__free_array(plan->allocator, order, plan->rows.count, sizeof *order);
    return COFFER_OK;
}
