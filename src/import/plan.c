/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan's arrays: how they grow, how texts are kept in one of them, and the questions that are
 * asked of a plan.
 *
 * All arrays of a plan share one budget, since a file decides how long each of them becomes: a few
 * bytes of pickle can make a tensor. When the budget is used up, reading fails with
 * COFFER_ERR_MEMORY, long before the machine has no more.
 *
 * Items refer to each other by number, never by address: arrays move while they grow, and a plan
 * can be saved and loaded as it is. Functions that take numbers from a plan that was not checked
 * yet say so; plan_check.c judges the rest.
 */
#include "plan.h"

#include "alloc.h"
#include "bytes.h"
#include "checked.h"
#include "error.h"
#include "sort.h"
#include "text.h"

#define PLAN_TEXT_EXTRA 5 /* bytes of a text besides its own: the length and the NUL */
#define PLAN_FEWEST 16    /* items of an array that is allocated */

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* The failure of a plan that would be larger than its budget, or than 32 bits can count. */
static coffer_status plan_full(const coffer__import_plan *plan, coffer_error *err)
{
    (void)plan;
    return coffer__fail(err, COFFER_ERR_MEMORY, "what the file says of its tensors takes more memory than is allowed");
}

/*
 * Makes space for `more` items. An array grows to twice its size, so that filling it costs one copy of each
 * item on average; when the budget does not allow that much, to what is needed. While an array moves, its old
 * place is still there, but the budget counts what the plan holds when it stands still.
 */
static coffer_status plan_grow(coffer__import_plan *plan, coffer__import_plan_array *array, size_t item_size,
                               size_t more, coffer_error *err)
{
    uint64_t needed = 0;
    /* `count <= capacity` always, so the difference does not wrap. */
    if (more <= array->capacity - array->count) {
        return COFFER_OK;
    }
    if (!coffer__add_u64(array->count, more, &needed) || needed > UINT32_MAX) {
        return plan_full(plan, err);
    }
    /* No wrap: `needed` is below 2^32, so one and a half times as much, and its product with the
       size of an item, are far below 2^64. */
    const uint64_t affordable = array->capacity + plan->budget / item_size;
    const uint64_t wished = needed < PLAN_FEWEST ? PLAN_FEWEST : needed + needed / 2;
    if (needed > affordable) {
        return plan_full(plan, err);
    }
    /* Near the end of the budget, half of what is left: growing by no more than is needed would copy the whole for
       every text that a hostile file has. */
    const uint64_t capacity = wished <= affordable ? wished : needed + (affordable - needed) / 2;
    if (capacity > SIZE_MAX / item_size) {
        return plan_full(plan, err);
    }
    void *items =
        coffer__realloc(plan->allocator, array->items, array->capacity * item_size, (size_t)capacity * item_size);
    if (items == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the %z of a plan", capacity * item_size);
    }
    plan->budget -= (capacity - array->capacity) * item_size;
    array->items = items;
    array->capacity = (size_t)capacity;
    return COFFER_OK;
}

coffer_status coffer__import_plan_extend(coffer__import_plan *plan, coffer__import_plan_array *array, const void *items,
                                         size_t count, size_t item_size, coffer_error *err)
{
    const coffer_status status = plan_grow(plan, array, item_size, count, err);
    if (status == COFFER_OK && count > 0) {
        memcpy((uint8_t *)array->items + array->count * item_size, items, count * item_size);
        array->count += count;
    }
    return status;
}

/* Appends one item. */
static coffer_status plan_append(coffer__import_plan *plan, coffer__import_plan_array *array, const void *item,
                                 size_t item_size, coffer_error *err)
{
    return coffer__import_plan_extend(plan, array, item, 1, item_size, err);
}

/* What was spent is not given back to the budget: a plan is freed as a whole. */
static void plan_free_array(const coffer__import_plan *plan, coffer__import_plan_array *array, size_t item_size)
{
    coffer__free(plan->allocator, array->items, array->capacity * item_size);
    *array = (coffer__import_plan_array){ .items = NULL };
}

coffer_status coffer__import_plan_begin(coffer__import_plan *plan, const coffer_allocator *allocator, uint64_t budget,
                                        coffer_error *err)
{
    uint32_t empty = 0;
    uint32_t input = 0;
    *plan = (coffer__import_plan){ .allocator = allocator, .budget = budget, .noun = "" };
    const coffer_status status = coffer__import_plan_put_text(plan, "", 0, &empty, err);
    if (status != COFFER_OK) {
        return status;
    }
    return coffer__import_plan_put_file(plan, "", 0, &input, err);
}

/* A plan of zeros, which was never begun, has no allocator. */
void coffer__import_plan_free(coffer__import_plan *plan)
{
    if (plan->allocator == NULL) {
        return;
    }
    plan_free_array(plan, &plan->file_names, sizeof(uint32_t));
    plan_free_array(plan, &plan->pieces, sizeof(coffer__import_plan_piece));
    plan_free_array(plan, &plan->storages, sizeof(coffer__import_plan_storage));
    plan_free_array(plan, &plan->parts, sizeof(coffer__import_plan_part));
    plan_free_array(plan, &plan->extents, sizeof(uint64_t));
    plan_free_array(plan, &plan->rows, sizeof(coffer__import_plan_row));
    plan_free_array(plan, &plan->dimensions, sizeof(coffer__import_plan_dimension));
    plan_free_array(plan, &plan->pairs, sizeof(coffer__import_plan_pair));
    plan_free_array(plan, &plan->findings, sizeof(coffer__import_plan_finding));
    plan_free_array(plan, &plan->texts, 1);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Copies a text to the end. The first one that is put is text 0, that of no bytes; later ones of no bytes are it
   again. */
coffer_status coffer__import_plan_put_text(coffer__import_plan *plan, const char *text, size_t text_len,
                                           uint32_t *number, coffer_error *err)
{
    coffer__import_plan_array *texts = &plan->texts;
    *number = 0;
    if (text_len == 0 && texts->count > 0) {
        return COFFER_OK;
    }
    if (text_len > UINT32_MAX - PLAN_TEXT_EXTRA) {
        return plan_full(plan, err);
    }
    const coffer_status status = plan_grow(plan, texts, 1, text_len + PLAN_TEXT_EXTRA, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* Not a u32 in memory, since texts begin at any byte; and little-endian, as plan_bytes.c saves
       the array as it is. */
    uint8_t *to = (uint8_t *)texts->items + texts->count;
    for (unsigned i = 0; i < 4; i++) {
        to[i] = (uint8_t)(text_len >> (8 * i));
    }
    if (text_len > 0) {
        memcpy(to + 4, text, text_len);
    }
    to[4 + text_len] = 0;
    *number = (uint32_t)texts->count;
    texts->count += text_len + PLAN_TEXT_EXTRA;
    return COFFER_OK;
}

/* The length that a text begins with, of which four bytes must be there. */
static uint32_t plan_text_len(const coffer__import_plan *plan, uint32_t number)
{
    const uint8_t *at = (const uint8_t *)plan->texts.items + number;
    return coffer__load_u32le(at);
}

/* A number may come from somebody who wants this to read beyond the texts. Any place at which a length fits what
   follows, and a NUL ends it, is as good as a text. */
bool coffer__import_plan_has_text(const coffer__import_plan *plan, uint32_t number)
{
    const size_t count = plan->texts.count;
    if (number >= count || count - number < PLAN_TEXT_EXTRA) {
        return false;
    }
    const uint8_t *bytes = (const uint8_t *)plan->texts.items + number + 4;
    const uint32_t length = plan_text_len(plan, number);
    return length <= count - number - PLAN_TEXT_EXTRA && bytes[length] == 0;
}

/* Falls back to "" for a number that is no text's, so that messages about a plan that is being
   checked can be made of it. */
const char *coffer__import_plan_text(const coffer__import_plan *plan, uint32_t number, size_t *text_len)
{
    size_t length = 0;
    const char *text = "";
    if (coffer__import_plan_has_text(plan, number)) {
        length = plan_text_len(plan, number);
        text = (const char *)plan->texts.items + number + 4;
    }
    if (text_len != NULL) {
        *text_len = length;
    }
    return text;
}

/* ---- filling ----------------------------------------------------------------------------------------------------- */

/* `file_count` counts what was put completely, so after a failure it agrees with the names. */
coffer_status coffer__import_plan_put_file(coffer__import_plan *plan, const char *name, size_t name_len,
                                           uint32_t *number, coffer_error *err)
{
    uint32_t text = 0;
    coffer_status status = coffer__import_plan_put_text(plan, name, name_len, &text, err);
    if (status == COFFER_OK) {
        status = plan_append(plan, &plan->file_names, &text, sizeof text, err);
    }
    if (status == COFFER_OK) {
        *number = plan->file_count++;
    }
    return status;
}

/* A piece belongs to no storage until one is put; coffer__import_plan_check refuses pieces that are left
   over. */
coffer_status coffer__import_plan_put_piece(coffer__import_plan *plan, const coffer__import_plan_piece *piece,
                                            coffer_error *err)
{
    return plan_append(plan, &plan->pieces, piece, sizeof *piece, err);
}

/* The pieces were put by the reader from what the file says, so their sum may be anything. */
coffer_status coffer__import_plan_put_storage(coffer__import_plan *plan, uint32_t piece_count, uint32_t name,
                                              uint32_t *number, coffer_error *err)
{
    coffer__import_plan_storage made = { .kind = COFFER__STORAGE_JOINED, .count = piece_count, .name = name };
    const size_t count = plan->pieces.count;
    if (piece_count > count) {
        return coffer__fail(err, COFFER_ERR_PLAN, "a storage has pieces that nobody has put");
    }
    made.first = (uint32_t)(count - piece_count);
    for (size_t i = made.first; i < count; i++) {
        if (!coffer__add_u64(made.size, coffer__import_plan_pieces(plan)[i].size, &made.size)) {
            return coffer__fail(err, COFFER_ERR_PLAN, "the pieces of a storage are more than 2^64-1 bytes");
        }
    }
    *number = (uint32_t)plan->storages.count;
    return plan_append(plan, &plan->storages, &made, sizeof made, err);
}

/* The dimensions are those of no row; rows know their own by number. */
coffer_status coffer__import_plan_put_grid(coffer__import_plan *plan, uint32_t piece_count, uint32_t name,
                                           uint32_t rank, const coffer__import_plan_dimension *dimensions,
                                           uint64_t item_size, uint32_t *number, coffer_error *err)
{
    const uint32_t first = (uint32_t)plan->dimensions.count;
    coffer_status status = coffer__import_plan_put_storage(plan, piece_count, name, number, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__import_plan_extend(plan, &plan->dimensions, dimensions, rank, sizeof *dimensions, err);
    coffer__import_plan_storage *storage = (coffer__import_plan_storage *)plan->storages.items + *number;
    storage->kind = COFFER__STORAGE_CHUNKED;
    storage->as.grid.rank = rank;
    storage->as.grid.dimensions = first;
    storage->as.grid.item_size = item_size;
    return status;
}

/* Space for the row is made first, so that after a failure no dimensions are left without one. */
coffer_status coffer__import_plan_put_row(coffer__import_plan *plan, const coffer__import_plan_row *row,
                                          const coffer__import_plan_dimension *dimensions, coffer_error *err)
{
    coffer__import_plan_row made = *row;
    coffer_status status = plan_grow(plan, &plan->rows, sizeof made, 1, err);
    if (status == COFFER_OK) {
        status = plan_grow(plan, &plan->dimensions, sizeof *dimensions, row->rank, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    made.dimensions = (uint32_t)plan->dimensions.count;
    if (row->rank > 0) {
        memcpy((coffer__import_plan_dimension *)plan->dimensions.items + made.dimensions, dimensions,
               row->rank * sizeof *dimensions);
    }
    plan->dimensions.count += row->rank;
    /* Skipped rows count, too: their bytes are accounted for as skipped, and not as unreferenced. */
    if (row->storage < plan->storages.count) {
        ((coffer__import_plan_storage *)plan->storages.items)[row->storage].viewed = true;
    }
    return plan_append(plan, &plan->rows, &made, sizeof made, err);
}

/* Whether a key stands there already is for coffer__import_plan_check to find: comparing each with each
   would take long. */
coffer_status coffer__import_plan_put_pair(coffer__import_plan *plan, const char *key, size_t key_len,
                                           const char *value, size_t value_len, coffer_error *err)
{
    coffer__import_plan_pair pair = { .key = 0 };
    coffer_status status = coffer__import_plan_put_text(plan, key, key_len, &pair.key, err);
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_text(plan, value, value_len, &pair.value, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    return plan_append(plan, &plan->pairs, &pair, sizeof pair, err);
}

/* The sentence is formatted as messages are, by the one function that escapes what it quotes: into an error that
   nobody sees. */
coffer_status coffer__import_plan_put_finding(coffer__import_plan *plan, coffer_weight weight, uint32_t file,
                                              uint64_t offset, const char *member, const char *sentence,
                                              const char *subject, size_t subject_len, coffer_error *err)
{
    coffer_error text;
    coffer__import_plan_finding finding = { .weight = weight, .file = file, .offset = offset };
    (void)coffer__fail(&text, COFFER_OK, sentence, subject, subject_len);
    coffer_status status = coffer__import_plan_put_text(plan, member, coffer__text_len(member), &finding.member, err);
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_text(plan, subject, subject_len, &finding.subject, err);
    }
    if (status == COFFER_OK) {
        status = coffer__import_plan_put_text(plan, text.message, coffer__text_len(text.message), &finding.text, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    return plan_append(plan, &plan->findings, &finding, sizeof finding, err);
}

/* ---- what a plan says -------------------------------------------------------------------------------------------- */

/* The arrays by their types. They may be NULL when they are empty, and move whenever something is
   put. */
const coffer__import_plan_piece *coffer__import_plan_pieces(const coffer__import_plan *plan)
{
    return plan->pieces.items;
}

const coffer__import_plan_storage *coffer__import_plan_storages(const coffer__import_plan *plan)
{
    return plan->storages.items;
}

const coffer__import_plan_row *coffer__import_plan_rows(const coffer__import_plan *plan)
{
    return plan->rows.items;
}

const coffer__import_plan_dimension *coffer__import_plan_dimensions(const coffer__import_plan *plan,
                                                                    const coffer__import_plan_row *row)
{
    /* Without dimensions the array may not be there, and NULL + n is undefined. */
    const coffer__import_plan_dimension *all = plan->dimensions.items;
    return row->rank == 0 ? NULL : all + row->dimensions;
}

const coffer__import_plan_pair *coffer__import_plan_pairs(const coffer__import_plan *plan)
{
    return plan->pairs.items;
}

const coffer__import_plan_finding *coffer__import_plan_findings(const coffer__import_plan *plan)
{
    return plan->findings.items;
}

/* In a plan that is being checked the name may be no text; then it is "". */
coffer_status coffer__import_plan_fail_row(const coffer__import_plan *plan, const coffer__import_plan_row *row,
                                           coffer_status status, coffer_error *err)
{
    size_t name_len = 0;
    const char *name = coffer__import_plan_text(plan, row->name, &name_len);
    return coffer__fail_tensor(err, status, name, name_len);
}

int coffer__import_plan_compare_texts(const coffer__import_plan *plan, uint32_t a, uint32_t b)
{
    size_t a_len = 0;
    size_t b_len = 0;
    const char *a_text = coffer__import_plan_text(plan, a, &a_len);
    const char *b_text = coffer__import_plan_text(plan, b, &b_len);
    return coffer__compare_names(a_text, a_len, b_text, b_len);
}

bool coffer__import_plan_pair_before(const void *plan, uint32_t a, uint32_t b)
{
    const coffer__import_plan_pair *pairs = coffer__import_plan_pairs(plan);
    return coffer__import_plan_compare_texts(plan, pairs[a].key, pairs[b].key) < 0;
}

uint32_t coffer__import_plan_piece_count(const coffer__import_plan_storage *storage)
{
    return storage->kind == COFFER__STORAGE_ASSEMBLED ? 0 : storage->count;
}

uint32_t coffer__import_plan_part_count(const coffer__import_plan_storage *storage)
{
    return storage->kind == COFFER__STORAGE_ASSEMBLED ? storage->count : 0;
}

bool coffer__import_plan_is_plain(const coffer__import_plan *plan, const coffer__import_plan_storage *storage)
{
    return coffer__import_plan_piece_count(storage) == 1 &&
           coffer__import_plan_pieces(plan)[storage->first].coding == COFFER__CODING_STORED;
}

/* A box of rank 0 is one run, which begins at the view's offset. As it is as long as the storage,
   it begins at 0. */
bool coffer__import_plan_is_whole(const coffer__import_plan *plan, const coffer__import_plan_row *row)
{
    coffer__box box;
    return coffer__import_plan_box(plan, row, &box, NULL) == COFFER_OK && box.rank == 0 &&
           box.run_size == coffer__import_plan_storages(plan)[row->storage].size;
}

/* Without checks: coffer__import_plan_check has shown that the product is below 2^63. */
uint64_t coffer__import_plan_row_size(const coffer__import_plan *plan, const coffer__import_plan_row *row)
{
    uint64_t size = row->item_size;
    const coffer__import_plan_dimension *dimensions = coffer__import_plan_dimensions(plan, row);
    for (size_t i = 0; i < row->rank; i++) {
        size *= dimensions[i].count;
    }
    return size;
}

/* The one way from a row to its bytes: everything that reads a view does it through this box. So
   what coffer__import_plan_check has accepted is what is read. */
coffer_status coffer__import_plan_box(const coffer__import_plan *plan, const coffer__import_plan_row *row,
                                      coffer__box *box, coffer_error *err)
{
    uint64_t counts[COFFER__PLAN_MAX_RANK];
    int64_t strides[COFFER__PLAN_MAX_RANK];
    const coffer__import_plan_dimension *dimensions = coffer__import_plan_dimensions(plan, row);
    for (size_t i = 0; i < row->rank; i++) {
        counts[i] = dimensions[i].count;
        strides[i] = dimensions[i].stride;
    }
    const coffer__strided view = {
        .offset = row->offset, .item_size = row->item_size, .rank = row->rank, .sizes = counts, .strides = strides
    };
    const uint64_t available = coffer__import_plan_storages(plan)[row->storage].size;
    return coffer__box_from_strides(box, &view, available, err);
}
