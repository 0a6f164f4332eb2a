/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans refer by number, never by address, so joining two is copying arrays and adding to the numbers in them. What the
 * numbers count decides by how much they move: a row's dimensions by the dimensions of the first plan, its storage by
 * the storages, its name by the bytes of the texts.
 *
 * Arrays only grow at their ends, so the plan can be cut back to what it was.
 */
#include "plan_join.h"

#include "alloc.h"
#include "error.h"
#include "sort.h"

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
static uint64_t join_size(const coffer__plan *plan)
{
    return plan->file_names.count * sizeof(uint32_t) + plan->pieces.count * sizeof(coffer__plan_piece) +
           plan->storages.count * sizeof(coffer__plan_storage) + plan->parts.count * sizeof(coffer__plan_part) +
           plan->extents.count * sizeof(uint64_t) + plan->rows.count * sizeof(coffer__plan_row) +
           plan->dimensions.count * sizeof(coffer__plan_dimension) + plan->pairs.count * sizeof(coffer__plan_pair) +
           plan->findings.count * sizeof(coffer__plan_finding) + plan->texts.count;
}

/* ---- parts of it ------------------------------------------------------------------------------------------------- */

/* Pieces first: a storage refers to those that are its own. Coding and CRCs are what they were. */
static coffer_status join_storages(coffer__plan *plan, const coffer__plan *more, const plan_shift *shift,
                                   coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < more->pieces.count && status == COFFER_OK; i++) {
        coffer__plan_piece piece = coffer__plan_pieces(more)[i];
        piece.file += shift->files;
        status = coffer__plan_extend(plan, &plan->pieces, &piece, 1, sizeof piece, err);
    }
    for (size_t i = 0; i < more->storages.count && status == COFFER_OK; i++) {
        coffer__plan_storage storage = coffer__plan_storages(more)[i];
        storage.first_piece += shift->pieces;
        storage.name = join_text(shift, storage.name);
        storage.first_part += shift->parts;
        storage.extents += shift->extents;
        status = coffer__plan_extend(plan, &plan->storages, &storage, 1, sizeof storage, err);
    }
    return status;
}

/* Parts refer to storages of the same plan, and their boxes are numbers that mean the same anywhere. */
static coffer_status join_parts(coffer__plan *plan, const coffer__plan *more, const plan_shift *shift,
                                coffer_error *err)
{
    coffer_status status =
        coffer__plan_extend(plan, &plan->extents, more->extents.items, more->extents.count, sizeof(uint64_t), err);
    for (size_t i = 0; i < more->parts.count && status == COFFER_OK; i++) {
        coffer__plan_part part = coffer__plan_parts(more)[i];
        part.storage += shift->storages;
        part.box += shift->extents;
        status = coffer__plan_extend(plan, &plan->parts, &part, 1, sizeof part, err);
    }
    return status;
}

/* Dimensions hold sizes and strides, which mean the same anywhere. Rows that view nothing keep saying so. */
static coffer_status join_rows(coffer__plan *plan, const coffer__plan *more, const plan_shift *shift, coffer_error *err)
{
    coffer_status status = coffer__plan_extend(plan, &plan->dimensions, more->dimensions.items, more->dimensions.count,
                                               sizeof(coffer__plan_dimension), err);
    for (size_t i = 0; i < more->rows.count && status == COFFER_OK; i++) {
        coffer__plan_row row = coffer__plan_rows(more)[i];
        row.name = join_text(shift, row.name);
        row.reason = join_text(shift, row.reason);
        row.dimensions += shift->dimensions;
        row.storage += row.storage == COFFER__PLAN_NO_STORAGE ? 0 : shift->storages;
        row.alias_of += row.fate == COFFER_FATE_ALIAS ? shift->rows : 0;
        status = coffer__plan_extend(plan, &plan->rows, &row, 1, sizeof row, err);
    }
    return status;
}

/* One of the pairs. Files of one program say the same thing each, "format" for one: it is kept once. The pairs of the
   first plan are few where those of the second are many, and the other way round; both are few as a rule. */
static coffer_status join_pair(coffer__plan *plan, const coffer__plan_pair *pair, size_t known, coffer_error *err)
{
    for (size_t i = 0; i < known; i++) {
        const coffer__plan_pair *other = &coffer__plan_pairs(plan)[i];
        if (coffer__plan_compare_texts(plan, other->key, pair->key) != 0) {
            continue;
        }
        if (coffer__plan_compare_texts(plan, other->value, pair->value) == 0) {
            return COFFER_OK;
        }
        size_t key_len = 0;
        const char *key = coffer__plan_text(plan, pair->key, &key_len);
        return coffer__fail(err, COFFER_ERR_DUPLICATE_KEY, "several files have %q for the metadata, and not the same",
                            key, key_len);
    }
    return coffer__plan_extend(plan, &plan->pairs, pair, 1, sizeof *pair, err);
}

/* Compared with the pairs of the first plan only: within the second one keys are unique already. */
static coffer_status join_pairs(coffer__plan *plan, const coffer__plan *more, const plan_shift *shift,
                                coffer_error *err)
{
    const size_t known = plan->pairs.count;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < more->pairs.count && status == COFFER_OK; i++) {
        coffer__plan_pair pair = coffer__plan_pairs(more)[i];
        pair.key = join_text(shift, pair.key);
        pair.value = join_text(shift, pair.value);
        status = join_pair(plan, &pair, known, err);
    }
    return status;
}

/* The sentences are escaped already, and say nothing of the file's number. */
static coffer_status join_findings(coffer__plan *plan, const coffer__plan *more, const plan_shift *shift,
                                   coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < more->findings.count && status == COFFER_OK; i++) {
        coffer__plan_finding finding = coffer__plan_findings(more)[i];
        finding.file += shift->files;
        finding.member = join_text(shift, finding.member);
        finding.subject = join_text(shift, finding.subject);
        finding.text = join_text(shift, finding.text);
        status = coffer__plan_extend(plan, &plan->findings, &finding, 1, sizeof finding, err);
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* The arrays keep their room. */
void coffer__plan_unjoin(coffer__plan *plan, const coffer__plan *before)
{
    plan->file_count = before->file_count;
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
coffer_status coffer__plan_join(coffer__plan *plan, const coffer__plan *more, uint32_t file, coffer_error *err)
{
    const coffer__plan before = *plan;
    const plan_shift shift = { .texts = (uint32_t)plan->texts.count,
                               .files = file,
                               .pieces = (uint32_t)plan->pieces.count,
                               .storages = (uint32_t)plan->storages.count,
                               .parts = (uint32_t)plan->parts.count,
                               .extents = (uint32_t)plan->extents.count,
                               .rows = (uint32_t)plan->rows.count,
                               .dimensions = (uint32_t)plan->dimensions.count };
    plan->budget += 2 * join_size(more);
    coffer_status status = coffer__plan_extend(plan, &plan->texts, more->texts.items, more->texts.count, 1, err);
    if (status == COFFER_OK) {
        status = join_storages(plan, more, &shift, err);
    }
    if (status == COFFER_OK) {
        status = join_parts(plan, more, &shift, err);
    }
    if (status == COFFER_OK) {
        status = join_rows(plan, more, &shift, err);
    }
    if (status == COFFER_OK) {
        status = join_pairs(plan, more, &shift, err);
    }
    if (status == COFFER_OK) {
        status = join_findings(plan, more, &shift, err);
    }
    if (status != COFFER_OK) {
        coffer__plan_unjoin(plan, &before);
    }
    return status;
}

/* By name, then by number, so that the order is one. */
static bool join_name_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__plan_row *rows = coffer__plan_rows(ctx);
    const int order = coffer__plan_compare_texts(ctx, rows[a].name, rows[b].name);
    return order != 0 ? order < 0 : a < b;
}

/* Sorted by name and number, rows of one name are neighbours. */
coffer_status coffer__plan_find_same(const coffer__plan *plan, size_t split, uint32_t *first, uint32_t *second,
                                     coffer_error *err)
{
    const coffer__plan_row *rows = coffer__plan_rows(plan);
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
        if (apart && coffer__plan_compare_texts(plan, rows[order[i - 1]].name, rows[order[i]].name) == 0) {
            *first = order[i - 1];
            *second = order[i];
        }
    }
    coffer__free_array(plan->allocator, order, plan->rows.count, sizeof *order);
    return COFFER_OK;
}
