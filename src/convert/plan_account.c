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

/* The views of which the union is being taken: rows[order[0..count)], all of one storage, by their beginnings. */
typedef struct account_set {
    const coffer__plan *plan;
    const uint32_t *order;
    size_t count;
    coffer_fate most; /* rows with a greater fate are not in the set */
} account_set;

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
static bool account_view_of(const coffer__plan *plan, const coffer__plan_row *row, account_view *view)
{
    const coffer__plan_dimension *dimensions = coffer__plan_dimensions(plan, row);
    *view = (account_view){ .begin = row->offset, .run = row->item_size, .nested = true };
    if (row->storage == COFFER__PLAN_NO_STORAGE || row->item_size == 0) {
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
    const coffer_allocator *allocator = set->plan->allocator;
    account_cursor *cursors = coffer__alloc_array(allocator, last - first, sizeof *cursors, err);
    if (cursors == NULL) {
        return COFFER_ERR_MEMORY;
    }
    size_t count = 0;
    for (size_t i = first; i < last; i++) {
        const coffer__plan_row *row = coffer__plan_rows(set->plan) + set->order[i];
        account_cursor *cursor = &cursors[count];
        if (row->fate <= set->most && account_view_of(set->plan, row, &cursor->view)) {
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
        const coffer__plan_row *row = coffer__plan_rows(set->plan) + set->order[i];
        account_view view;
        if (row->fate > set->most || !account_view_of(set->plan, row, &view)) {
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
    const coffer__plan_row *rows = coffer__plan_rows(ctx);
    if (rows[a].storage != rows[b].storage) {
        return rows[a].storage < rows[b].storage;
    }
    return rows[a].offset < rows[b].offset;
}

/* What the rows of one storage take of it. Each class gets what those before it have left. */
static coffer_status account_storage(const coffer__plan *plan, const uint32_t *order, size_t count,
                                     coffer__plan_account *account, coffer_error *err)
{
    uint64_t *const classes[] = { &account->written, &account->aliased, &account->skipped };
    uint64_t before = 0;
    for (unsigned fate = COFFER_FATE_WRITTEN; fate <= COFFER_FATE_SKIPPED; fate++) {
        const account_set set = { .plan = plan, .order = order, .count = count, .most = (coffer_fate)fate };
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

/* Rows without a storage have the greatest number, so they are at the end, where the loop stops. */
static coffer_status account_storages(const coffer__plan *plan, const uint32_t *order, coffer__plan_account *account,
                                      coffer_error *err)
{
    const coffer__plan_row *rows = coffer__plan_rows(plan);
    for (size_t i = 0; i < plan->rows.count && rows[order[i]].storage != COFFER__PLAN_NO_STORAGE;) {
        size_t end = i + 1;
        while (end < plan->rows.count && rows[order[end]].storage == rows[order[i]].storage) {
            end++;
        }
        const coffer_status status = account_storage(plan, order + i, end - i, account, err);
        if (status != COFFER_OK) {
            return status;
        }
        i = end;
    }
    return COFFER_OK;
}

/* The sum of storages cannot wrap, as coffer__plan_check has seen; that of rows can, where views
   repeat bytes. */
coffer_status coffer__plan_add_up(const coffer__plan *plan, coffer__plan_account *account, coffer_error *err)
{
    const size_t count = plan->rows.count;
    *account = (coffer__plan_account){ .total = 0 };
    for (size_t i = 0; i < plan->storages.count; i++) {
        account->total += coffer__plan_storages(plan)[i].size;
    }
    uint32_t *order = coffer__alloc_array(plan->allocator, count, sizeof *order, err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = COFFER_OK;
    for (uint32_t i = 0; i < count && status == COFFER_OK; i++) {
        const coffer__plan_row *row = coffer__plan_rows(plan) + i;
        order[i] = i;
        if (row->fate == COFFER_FATE_WRITTEN &&
            !coffer__add_u64(account->output, coffer__plan_row_size(plan, row), &account->output)) {
            status = coffer__fail(err, COFFER_ERR_VIEW, "the tensors together would be more than 2^64-1 bytes");
        }
    }
    coffer__sort(order, count, account_before, plan);
    if (status == COFFER_OK) {
        status = account_storages(plan, order, account, err);
    }
    account->unreferenced = account->total - account->written - account->aliased - account->skipped;
    coffer__free_array(plan->allocator, order, count, sizeof *order);
    return status;
}
