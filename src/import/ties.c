/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ties: rows that are the same view become aliases of one of them; see plan.h.
 *
 * Models use one parameter in two places, often the embedding and the last layer, and a pickle says so by
 * sharing the storage. safetensors has no way to share bytes, and its writer for torch drops all but one
 * name and records the others in the metadata. The same is done here. Rows are compared by what they view,
 * never by their bytes: equal bytes in different storages are two parameters that happen to be equal.
 */
#include "plan.h"

#include "alloc.h"
#include "sort.h"

#include <string.h>

/* Returns from the function that uses it, unless both are equal. */
#define TIES_COMPARE(a, b)                                                                                             \
    do {                                                                                                               \
        if ((a) != (b)) {                                                                                              \
            return (a) < (b) ? -1 : 1;                                                                                 \
        }                                                                                                              \
    } while (0)

/* An order in which rows that are the same view are neighbours. */
static int ties_compare_views(const coffer__import_plan *plan, const coffer__import_plan_row *a,
                              const coffer__import_plan_row *b)
{
    TIES_COMPARE(a->storage, b->storage);
    TIES_COMPARE(a->offset, b->offset);
    TIES_COMPARE(a->dtype, b->dtype);
    TIES_COMPARE(a->rank, b->rank);
    TIES_COMPARE(a->sign, b->sign);
    TIES_COMPARE(a->swap, b->swap);
    /* The ranks are equal from here on. A dimension's count follows from size, dtype and rank. */
    const coffer__import_plan_dimension *a_dimensions = coffer__import_plan_dimensions(plan, a);
    const coffer__import_plan_dimension *b_dimensions = coffer__import_plan_dimensions(plan, b);
    for (size_t i = 0; i < a->rank; i++) {
        TIES_COMPARE(a_dimensions[i].size, b_dimensions[i].size);
        TIES_COMPARE(a_dimensions[i].stride, b_dimensions[i].stride);
    }
    return 0;
}

/* The view decides, then the name: so the first of each group is the one that is kept. */
static bool ties_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__import_plan *plan = ctx;
    const coffer__import_plan_row *rows = coffer__import_plan_rows(plan);
    const int views = ties_compare_views(plan, &rows[a], &rows[b]);
    if (views != 0) {
        return views < 0;
    }
    size_t a_len = 0;
    size_t b_len = 0;
    const char *a_name = coffer__import_plan_text(plan, rows[a].name, &a_len);
    const char *b_name = coffer__import_plan_text(plan, rows[b].name, &b_len);
    return coffer__compare_names(a_name, a_len, b_name, b_len) < 0;
}

/* Empty tensors are the same view of nothing; each is written for itself. Rows that are not written cannot be
   kept for others. */
static bool ties_has_bytes(const coffer__import_plan *plan, const coffer__import_plan_row *row)
{
    for (size_t i = 0; i < row->rank; i++) {
        if (coffer__import_plan_dimensions(plan, row)[i].count == 0) {
            return false;
        }
    }
    return row->fate == COFFER_FATE_WRITTEN;
}

/* The pairs of a plan in the order of their keys. */
typedef struct ties_keys {
    const coffer__import_plan *plan;
    const uint32_t *order;
} ties_keys;

static int ties_compare_at(const void *ctx, size_t i, const void *wanted)
{
    const ties_keys *keys = ctx;
    const uint32_t *name = wanted;
    return coffer__import_plan_compare_texts(keys->plan, coffer__import_plan_pairs(keys->plan)[keys->order[i]].key,
                                             *name);
}

/* Whether a name is a key of the metadata already, of which `order` are the pairs in the order of their keys: as an alias
   it would be that key a second time. */
static bool ties_is_key(const coffer__import_plan *plan, const uint32_t *order, uint32_t name)
{
    const ties_keys keys = { plan, order };
    size_t at = 0;
    return coffer__find_sorted(plan->pairs.count, ties_compare_at, &keys, &name, &at);
}

/* Of neighbours that are the same view, the first is kept. */
static void ties_decide(coffer__import_plan *plan, const uint32_t *order, size_t count, const uint32_t *keys)
{
    coffer__import_plan_row *rows = plan->rows.items;
    uint32_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        /* Compared with the row that was kept, and not with the neighbour: a row that stays a tensor because
           of the metadata is skipped over, and does not end the group. */
        if (i == 0 || ties_compare_views(plan, &rows[kept], &rows[order[i]]) != 0) {
            kept = order[i];
        } else if (!ties_is_key(plan, keys, rows[order[i]].name)) {
            rows[order[i]].fate = COFFER_FATE_ALIAS;
            rows[order[i]].alias_of = kept;
        }
    }
}

coffer_status coffer__import_plan_tie(coffer__import_plan *plan, size_t first_row, coffer_error *err)
{
    const size_t capacity = plan->rows.count - first_row;
    const size_t key_count = plan->pairs.count;
    size_t count = 0;
    uint32_t *order = coffer__alloc_array(plan->allocator, capacity, sizeof *order, err);
    uint32_t *keys = coffer__alloc_array(plan->allocator, key_count, sizeof *keys, err);
    const bool have = order != NULL && keys != NULL;
    for (size_t i = first_row; have && i < plan->rows.count; i++) {
        if (ties_has_bytes(plan, &coffer__import_plan_rows(plan)[i])) {
            order[count++] = (uint32_t)i;
        }
    }
    for (size_t i = 0; have && i < key_count; i++) {
        keys[i] = (uint32_t)i;
    }
    if (have) {
        /* Two sorts instead of comparing each row with each, and each alias with each key of the metadata. */
        coffer__sort(order, count, ties_before, plan);
        coffer__sort(keys, key_count, coffer__import_plan_pair_before, plan);
        ties_decide(plan, order, count, keys);
    }
    coffer__free_array(plan->allocator, order, capacity, sizeof *order);
    coffer__free_array(plan->allocator, keys, key_count, sizeof *keys);
    return have ? COFFER_OK : COFFER_ERR_MEMORY;
}
