/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of storages go. The rows of a storage are views that may overlap, so their sizes cannot simply be
 * added up: what counts is the union of their bytes.
 *
 * Most views cover all bytes from their first to their last; then the union is that of intervals. The others are
 * combs: runs with gaps between them, in which the runs of another view may lie (a fused q, k and v; the real and the
 * imaginary parts). Views whose intervals overlap form a cluster. A comb that is alone in its cluster is counted by
 * its dimensions; several are merged run by run, as far as that is quick.
 */
#include "plan.h"

#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "sort.h"

#include <string.h>

/* Steps of a merge, a view looked at being one: a second or so. */
#define ACCOUNT_MERGE_STEPS ((uint64_t)1 << 28)
#define ACCOUNT_MERGE_RUNS ((uint64_t)1 << 24)

/* The bytes of a view: `run` bytes from `begin` on, and again along each dimension. The fastest dimension is the
   first. Each stride is beyond what the dimensions before it reach, if `nested`; so runs ascend and do not overlap. */
typedef struct account_view {
    uint64_t begin;
    uint64_t end; /* one past the last byte */
    uint64_t run;
    size_t rank; /* 0: an interval */
    bool nested;
    uint64_t counts[COFFER__PLAN_MAX_RANK];
    uint64_t strides[COFFER__PLAN_MAX_RANK];
} account_view;

/* A view whose runs are being merged with others'. */
typedef struct account_cursor {
    account_view view;
    uint64_t at; /* of the next run; UINT64_MAX after the last */
    uint64_t index[COFFER__PLAN_MAX_RANK];
} account_cursor;

/*
 * What views bytes: row number `i` of the plan, or, with `i` beyond the rows, part number `i - rows`, which views the bytes
 * of its storage for the rows of the array that it belongs to. Rows of such an array view nothing by themselves.
 */
typedef struct account_ledger {
    const coffer__import_plan *plan;
    uint32_t *order; /* of all rows and parts */
    uint8_t *fates;  /* of each part: the least of the rows of its array */
    uint32_t *owner; /* of each part: the storage that it belongs to */
} account_ledger;

/* The views of which the union is being taken: order[0..count), all of one storage, by their beginnings. */
typedef struct account_set {
    const account_ledger *ledger;
    const uint32_t *order;
    size_t count;
    coffer_fate most; /* rows with a greater fate are not in the set */
} account_set;

/* ---- rows and parts ---------------------------------------------------------------------------------------------- */

/* The part of a number beyond the rows; NULL: it is a row's. */
static const coffer__import_plan_part *account_part(const account_ledger *ledger, uint32_t i)
{
    const size_t rows = ledger->plan->rows.count;
    return i < rows ? NULL : coffer__import_plan_parts(ledger->plan) + (i - rows);
}

/* The storage whose bytes are viewed; COFFER__PLAN_NO_STORAGE: none, as also for rows of what is assembled. */
static uint32_t account_storage_of(const account_ledger *ledger, uint32_t i)
{
    const coffer__import_plan *plan = ledger->plan;
    const coffer__import_plan_part *part = account_part(ledger, i);
    if (part != NULL) {
        return part->storage;
    }
    const uint32_t storage = coffer__import_plan_rows(plan)[i].storage;
    const bool assembled =
        storage < plan->storages.count && coffer__import_plan_storages(plan)[storage].kind == COFFER__STORAGE_ASSEMBLED;
    return assembled ? COFFER__PLAN_NO_STORAGE : storage;
}

static uint64_t account_offset_of(const account_ledger *ledger, uint32_t i)
{
    const coffer__import_plan_part *part = account_part(ledger, i);
    return part != NULL ? part->offset : coffer__import_plan_rows(ledger->plan)[i].offset;
}

static coffer_fate account_fate_of(const account_ledger *ledger, uint32_t i)
{
    const size_t rows = ledger->plan->rows.count;
    return i < rows ? coffer__import_plan_rows(ledger->plan)[i].fate : (coffer_fate)ledger->fates[i - rows];
}

/* Which array each part belongs to, and what becomes of it: what becomes of the best of that array's rows. */
static void account_find_fates(account_ledger *ledger)
{
    const coffer__import_plan *plan = ledger->plan;
    memset(ledger->fates, COFFER_FATE_SKIPPED, plan->parts.count);
    for (size_t i = 0; i < plan->rows.count; i++) {
        const coffer__import_plan_row *row = coffer__import_plan_rows(plan) + i;
        if (row->storage == COFFER__PLAN_NO_STORAGE) {
            continue;
        }
        const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + row->storage;
        for (uint32_t k = 0; k < coffer__import_plan_part_count(storage); k++) {
            uint8_t *fate = &ledger->fates[storage->first + k];
            ledger->owner[storage->first + k] = row->storage;
            *fate = (uint8_t)row->fate < *fate ? (uint8_t)row->fate : *fate;
        }
    }
}

/* ---- a view ------------------------------------------------------------------------------------------------------ */

/* Puts a dimension where it belongs by its stride. */
static void account_insert(account_view *view, uint64_t count, uint64_t stride)
{
    size_t place = view->rank++;
    for (; place > 0 && view->strides[place - 1] > stride; place--) {
        view->counts[place] = view->counts[place - 1];
        view->strides[place] = view->strides[place - 1];
    }
    view->counts[place] = count;
    view->strides[place] = stride;
}

/*
 * In which order the dimensions are does not matter for which bytes there are, so they are sorted by stride. Those
 * that step by no more than what the run has become make a longer run, with or without overlaps; a dimension that is
 * never stepped along, or that leads to the same bytes again, is none. Returns false for a view without bytes.
 */
static bool account_view_of_row(const coffer__import_plan *plan, const coffer__import_plan_row *row, account_view *view)
{
    const coffer__import_plan_dimension *dimensions = coffer__import_plan_dimensions(plan, row);
    *view = (account_view){ .begin = row->offset, .run = row->item_size, .nested = true };
    if (row->item_size == 0) {
        return false;
    }
    for (size_t i = 0; i < row->rank; i++) {
        if (dimensions[i].count == 0) {
            return false;
        }
        if (dimensions[i].count > 1 && dimensions[i].stride != 0) {
            account_insert(view, dimensions[i].count, (uint64_t)dimensions[i].stride);
        }
    }
    size_t kept = 0;
    uint64_t reach = view->run; /* from the beginning to the end of what the dimensions so far cover */
    for (size_t i = 0; i < view->rank; i++) {
        const uint64_t steps = (view->counts[i] - 1) * view->strides[i];
        if (kept == 0 && view->strides[i] <= view->run) {
            view->run += steps;
        } else {
            view->nested = view->nested && view->strides[i] >= reach;
            view->counts[kept] = view->counts[i];
            view->strides[kept++] = view->strides[i];
        }
        reach += steps;
    }
    /* Dimensions that were joined to the run are gone; those that are kept moved down. */
    view->rank = kept;
    view->end = view->begin + reach;
    return true;
}

/* A part is an interval. One whose array no row views has no bytes to tell of. */
static bool account_view_of(const account_ledger *ledger, uint32_t i, account_view *view)
{
    const coffer__import_plan *plan = ledger->plan;
    const coffer__import_plan_part *part = account_part(ledger, i);
    if (part == NULL) {
        return account_storage_of(ledger, i) != COFFER__PLAN_NO_STORAGE &&
               account_view_of_row(plan, coffer__import_plan_rows(plan) + i, view);
    }
    const uint32_t owner = ledger->owner[i - plan->rows.count];
    if (owner == COFFER__PLAN_NO_STORAGE) {
        return false;
    }
    const uint64_t size = coffer__import_plan_part_size(plan, coffer__import_plan_storages(plan) + owner, part);
    *view = (account_view){ .begin = part->offset, .end = part->offset + size, .run = size, .nested = true };
    return true;
}

static uint64_t account_runs(const account_view *view)
{
    uint64_t runs = 1;
    for (size_t i = 0; i < view->rank; i++) {
        runs *= view->counts[i];
    }
    return runs;
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

/* To the next run: as one counts, the fastest dimension first. */
static void account_step(account_cursor *cursor)
{
    const account_view *view = &cursor->view;
    size_t i = 0;
    while (i < view->rank && ++cursor->index[i] == view->counts[i]) {
        cursor->at -= (view->counts[i] - 1) * view->strides[i];
        cursor->index[i] = 0;
        i++;
    }
    cursor->at = i < view->rank ? cursor->at + view->strides[i] : UINT64_MAX;
}

/* The bytes of several views together: always the run that begins first, minus what is covered
   already. Runs of a nested view ascend, so nothing before `covered` comes again. The first is
   found by looking at all cursors: clusters have few views, and account_close bounds the steps. */
static uint64_t account_merge(account_cursor *cursors, size_t count)
{
    uint64_t bytes = 0;
    uint64_t covered = 0; /* all bytes before it are dealt with */
    for (;;) {
        account_cursor *first = &cursors[0];
        for (size_t i = 1; i < count; i++) {
            first = cursors[i].at < first->at ? &cursors[i] : first;
        }
        if (first->at == UINT64_MAX) {
            return bytes;
        }
        const uint64_t end = first->at + first->view.run;
        const uint64_t begin = first->at > covered ? first->at : covered;
        bytes += end > begin ? end - begin : 0;
        covered = end > covered ? end : covered;
        account_step(first);
    }
}

/* The views of a cluster, rows order[first..last) of the set, which has the bytes from `begin` to `end` between them. */
static coffer_status account_cluster(const account_set *set, size_t first, size_t last, uint64_t *bytes,
                                     coffer_error *err)
{
    const coffer_allocator *allocator = set->ledger->plan->allocator;
    account_cursor *cursors = coffer__alloc_array(allocator, last - first, sizeof *cursors, err);
    if (cursors == NULL) {
        return COFFER_ERR_MEMORY;
    }
    size_t count = 0;
    for (size_t i = first; i < last; i++) {
        account_cursor *cursor = &cursors[count];
        if (account_fate_of(set->ledger, set->order[i]) <= set->most &&
            account_view_of(set->ledger, set->order[i], &cursor->view)) {
            cursor->at = cursor->view.begin;
            count++;
        }
    }
    *bytes += account_merge(cursors, count);
    coffer__free_array(allocator, cursors, last - first, sizeof *cursors);
    return COFFER_OK;
}

/* ---- clusters ---------------------------------------------------------------------------------------------------- */

/* A cluster while the rows are gone through. */
typedef struct account_group {
    size_t first; /* in the order */
    size_t views;
    uint64_t begin;
    uint64_t end;
    uint64_t combs;
    uint64_t runs;  /* of all views */
    uint64_t bytes; /* of the only view */
    bool nested;
} account_group;

/*
 * Adds the bytes of a cluster that ends before order[last]: exactly, by the one view it has or by a
 * merge; or, where a merge would take too long or runs do not ascend, as the interval from its
 * first to its last byte. A file can be made for which the merge takes hours, so this is bounded
 * before it begins.
 */
static coffer_status account_close(const account_set *set, const account_group *group, size_t last, uint64_t *bytes,
                                   coffer_error *err)
{
    if (group->views == 1 && group->nested) {
        *bytes += group->bytes;
        return COFFER_OK;
    }
    const bool quick = group->nested && group->runs <= ACCOUNT_MERGE_RUNS &&
                       group->runs <= ACCOUNT_MERGE_STEPS / (group->views > 0 ? group->views : 1);
    if (group->combs > 0 && quick) {
        return account_cluster(set, group->first, last, bytes, err);
    }
    *bytes += group->end - group->begin;
    return COFFER_OK;
}

/* The bytes of the union of the set, cluster by cluster. A cluster of intervals only is the
   interval that they make together, so `combs` decides whether there is anything to merge. */
static coffer_status account_union(const account_set *set, uint64_t *bytes, coffer_error *err)
{
    account_group group = { .nested = true };
    *bytes = 0;
    for (size_t i = 0; i < set->count; i++) {
        account_view view;
        if (account_fate_of(set->ledger, set->order[i]) > set->most ||
            !account_view_of(set->ledger, set->order[i], &view)) {
            continue;
        }
        /* Sorted by their beginnings: whoever begins at or after the end of all others so far
           shares no byte with them. */
        if (view.begin >= group.end) {
            const coffer_status status = account_close(set, &group, i, bytes, err);
            if (status != COFFER_OK) {
                return status;
            }
            group = (account_group){ .first = i, .begin = view.begin, .nested = true };
        }
        const uint64_t runs = account_runs(&view);
        group.views++;
        group.end = view.end > group.end ? view.end : group.end;
        group.combs += view.rank > 0;
        group.runs += runs;
        group.bytes = runs * view.run;
        group.nested = group.nested && view.nested;
    }
    return account_close(set, &group, set->count, bytes, err);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* By storage, and in one by where they begin. */
static bool account_before(const void *ctx, uint32_t a, uint32_t b)
{
    const account_ledger *ledger = ctx;
    const uint32_t a_storage = account_storage_of(ledger, a);
    const uint32_t b_storage = account_storage_of(ledger, b);
    if (a_storage != b_storage) {
        return a_storage < b_storage;
    }
    return account_offset_of(ledger, a) < account_offset_of(ledger, b);
}

/* What the rows and parts of one storage take of it. Each class gets what those before it have left. */
static coffer_status account_storage(const account_ledger *ledger, const uint32_t *order, size_t count,
                                     coffer__import_plan_account *account, coffer_error *err)
{
    uint64_t *const classes[] = { &account->written, &account->aliased, &account->skipped };
    uint64_t before = 0;
    for (unsigned fate = COFFER_FATE_WRITTEN; fate <= COFFER_FATE_SKIPPED; fate++) {
        const account_set set = { .ledger = ledger, .order = order, .count = count, .most = (coffer_fate)fate };
        uint64_t bytes = 0;
        const coffer_status status = account_union(&set, &bytes, err);
        if (status != COFFER_OK) {
            return status;
        }
        /* A union that was too slow to take is a bound, and may be smaller than that of fewer views. */
        bytes = bytes > before ? bytes : before;
        *classes[fate] += bytes - before;
        before = bytes;
    }
    return COFFER_OK;
}

/* What views nothing by itself has the greatest number, so it is at the end, where the loop stops. */
static coffer_status account_storages(const account_ledger *ledger, coffer__import_plan_account *account,
                                      coffer_error *err)
{
    const size_t count = ledger->plan->rows.count + ledger->plan->parts.count;
    const uint32_t *order = ledger->order;
    for (size_t i = 0; i < count && account_storage_of(ledger, order[i]) != COFFER__PLAN_NO_STORAGE;) {
        size_t end = i + 1;
        while (end < count && account_storage_of(ledger, order[end]) == account_storage_of(ledger, order[i])) {
            end++;
        }
        const coffer_status status = account_storage(ledger, order + i, end - i, account, err);
        if (status != COFFER_OK) {
            return status;
        }
        i = end;
    }
    return COFFER_OK;
}

/* The bytes of what is written. The sum of storages cannot wrap, as coffer__import_plan_check has seen; that of rows can, where
   views repeat bytes. */
static coffer_status account_output(const coffer__import_plan *plan, coffer__import_plan_account *account,
                                    coffer_error *err)
{
    for (size_t i = 0; i < plan->rows.count; i++) {
        const coffer__import_plan_row *row = coffer__import_plan_rows(plan) + i;
        if (row->fate == COFFER_FATE_WRITTEN &&
            !coffer__add_u64(account->output, coffer__import_plan_row_size(plan, row), &account->output)) {
            return coffer__fail(err, COFFER_ERR_VIEW, "the tensors together would be more than 2^64-1 bytes");
        }
    }
    return COFFER_OK;
}

/* Arrays that are assembled have no bytes of their own. */
static coffer_status account_add_up(account_ledger *ledger, coffer__import_plan_account *account, coffer_error *err)
{
    const coffer__import_plan *plan = ledger->plan;
    const size_t count = plan->rows.count + plan->parts.count;
    for (size_t i = 0; i < plan->storages.count; i++) {
        const coffer__import_plan_storage *storage = coffer__import_plan_storages(plan) + i;
        account->total += storage->kind == COFFER__STORAGE_ASSEMBLED ? 0 : storage->size;
    }
    for (size_t i = 0; i < plan->parts.count; i++) {
        ledger->owner[i] = COFFER__PLAN_NO_STORAGE;
    }
    account_find_fates(ledger);
    for (uint32_t i = 0; i < count; i++) {
        ledger->order[i] = i;
    }
    coffer__sort(ledger->order, count, account_before, ledger);
    coffer_status status = account_output(plan, account, err);
    if (status == COFFER_OK) {
        status = account_storages(ledger, account, err);
    }
    account->unreferenced = account->total - account->written - account->aliased - account->skipped;
    return status;
}

coffer_status coffer__import_plan_add_up(const coffer__import_plan *plan, coffer__import_plan_account *account,
                                         coffer_error *err)
{
    const size_t parts = plan->parts.count;
    const size_t count = plan->rows.count + parts;
    account_ledger ledger = { .plan = plan };
    *account = (coffer__import_plan_account){ .total = 0 };
    if (count > UINT32_MAX) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "there are too many tensors and parts of tensors to count");
    }
    ledger.order = coffer__alloc_array(plan->allocator, count, sizeof *ledger.order, err);
    ledger.fates = coffer__alloc_array(plan->allocator, parts, sizeof *ledger.fates, err);
    ledger.owner = coffer__alloc_array(plan->allocator, parts, sizeof *ledger.owner, err);
    const bool allocated = ledger.order != NULL && ledger.fates != NULL && ledger.owner != NULL;
    const coffer_status status = allocated ? account_add_up(&ledger, account, err) : COFFER_ERR_MEMORY;
    coffer__free_array(plan->allocator, ledger.owner, parts, sizeof *ledger.owner);
    coffer__free_array(plan->allocator, ledger.fates, parts, sizeof *ledger.fates);
    coffer__free_array(plan->allocator, ledger.order, count, sizeof *ledger.order);
    return status;
}
