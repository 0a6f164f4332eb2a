/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging: a plan of a rewrite in which the numbers of some tensors are computed (rewriting.h). The plan knows for each
 * tensor of the base which modules are added to it. Their matrices are read when it is carried out.
 */
#include "alloc.h"
#include "compatible.h"
#include "error.h"
#include "lora.h"
#include "mismatches.h"
#include "options.h"
#include "rewriting.h"

#include <math.h>
#include <string.h>

#define LORA_ELEMENT_SIZE 8 /* bytes, at most */

/* What planning needs besides. */
typedef struct lora_planning {
    coffer__lora_merge *merge;
    coffer__lora_places places;
    char *buffer; /* for names */
    size_t buffer_size;
    coffer__lora_change *found; /* the changes in the order of the adapters */
    coffer__mismatches mismatches;
    coffer_error *err;
} lora_planning;

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* What is known of a product before its numbers are. */
static void lora_describe(coffer__lora_product *product, const coffer_lora_update *update,
                          const coffer__lora_module *module)
{
    product->kind = update->kind;
    product->scale = update->scale;
    product->by_columns = update->transposed;
    for (size_t i = 0; i < 2; i++) {
        const coffer__lora_shape *shape = &module->shapes[i];
        coffer__lora_matrix *matrix = &product->matrices[i];
        matrix->rank = shape->rank;
        matrix->rows = update->transposed ? shape->columns : shape->rows;
        matrix->columns = update->transposed ? shape->rows : shape->columns;
    }
    product->columns = product->matrices[0].columns;
    if (update->kind == COFFER_ADAPTER_LOKR) {
        product->columns *= product->matrices[1].columns; /* which is the base's, as it fits */
    }
}

/* Whether the change fits its tensor; then it knows how. */
static bool lora_fits(const coffer_lora *lora, const coffer_tensor *base, coffer__lora_change *change)
{
    const coffer__lora_module *module = change->module;
    const bool prefers = lora->config.present && lora->config.fan_in_fan_out;
    return module->kind == COFFER_ADAPTER_WHOLE ? coffer__compatible_shapes(base, module->parts[COFFER__LORA_WHOLE])
                                                : coffer__lora_fits(module, base, prefers, &change->update.transposed);
}

static coffer_status lora_refuse_dtype(const coffer_tensor *base, coffer_error *err)
{
    coffer__fail(
        err, COFFER_ERR_DTYPE,
        "tensor %q of the base is %s, and only F16, BF16, F32 and F64 can be merged into: take the base as it was "
        "before it was quantised",
        base->name, (size_t)base->name_len, coffer_tensor_dtype_name(base));
    return coffer__fail_tensor(err, COFFER_ERR_DTYPE, base->name, base->name_len);
}

/* All tensors of a module that has no place. */
static void lora_misfit(lora_planning *planning, size_t adapter, const coffer__lora_module *module, const char *why)
{
    for (size_t i = 0; i < COFFER__LORA_PARTS; i++) {
        if (module->parts[i] != NULL) {
            coffer__mismatches_add(&planning->mismatches, adapter, module->parts[i], why);
        }
    }
}

static coffer_status lora_place_module(lora_planning *planning, size_t adapter, const coffer__lora_module *module)
{
    coffer__lora_merge *merge = planning->merge;
    const coffer_adapter *from = &merge->adapters[adapter];
    coffer__lora_change change = { .module = module };
    change.tensor = coffer__lora_place(&planning->places, &module->said, planning->buffer);
    if (change.tensor == COFFER__LORA_NO_PLACE || change.tensor == COFFER__LORA_TWO_PLACES) {
        lora_misfit(planning, adapter, module,
                    change.tensor == COFFER__LORA_NO_PLACE ? "the base has no such tensor"
                                                           : "the base has several such tensors");
        return COFFER_OK;
    }
    const coffer_tensor *base = coffer_at(merge->base, change.tensor);
    if (!coffer__compatible_numbers(base)) {
        return lora_refuse_dtype(base, planning->err);
    }
    if (!lora_fits(from->lora, base, &change)) {
        lora_misfit(planning, adapter, module, "the base's tensor has another shape");
        return COFFER_OK;
    }
    const bool replaces = module->kind == COFFER_ADAPTER_WHOLE;
    change.update.adapter = adapter;
    change.update.rank = module->rank;
    change.update.scale = replaces ? 1 : module->factor * from->scale;
    change.update.kind = module->kind;
    lora_describe(&change.product, &change.update, module);
    merge->replaces = merge->replaces || replaces;
    const float scale = (float)change.update.scale;
    if (!isfinite(scale)) {
        const coffer_tensor *named = coffer__lora_named(module);
        coffer__fail(planning->err, COFFER_ERR_NUMBER, "the scale for tensor %q is beyond the range of F32",
                     named->name, (size_t)named->name_len);
        return coffer__fail_tensor(planning->err, COFFER_ERR_NUMBER, named->name, named->name_len);
    }
    planning->found[merge->count++] = change;
    return COFFER_OK;
}

/* All of them are looked at before any of them fails the plan, so that all mismatches are told. */
static coffer_status lora_place_all(lora_planning *planning)
{
    const coffer__lora_merge *merge = planning->merge;
    for (size_t a = 0; a < merge->adapter_count; a++) {
        const coffer_lora *lora = merge->adapters[a].lora;
        for (size_t i = 0; i < lora->count; i++) {
            const coffer_status status = lora_place_module(planning, a, &lora->modules[i]);
            if (status != COFFER_OK) {
                return status;
            }
        }
    }
    const coffer_tensor *misfit = planning->mismatches.first;
    if (misfit == NULL) {
        return COFFER_OK;
    }
    coffer__fail(
        planning->err, COFFER_ERR_NO_TENSOR,
        "%u of the adapter's tensors have no place in the base, %q for one: %s; take the base that the adapter "
        "was trained on, or select what is for this one",
        (uint64_t)planning->mismatches.count, misfit->name, (size_t)misfit->name_len, planning->mismatches.why);
    return coffer__fail_tensor(planning->err, COFFER_ERR_NO_TENSOR, misfit->name, misfit->name_len);
}

/* ---- by tensor --------------------------------------------------------------------------------------------------- */

/* Counts the changes of each tensor, and puts them there, in their order. */
static void lora_sort_changes(const lora_planning *planning)
{
    coffer__lora_merge *merge = planning->merge;
    const size_t tensors = coffer_count(merge->base);
    for (size_t i = 0; i < merge->count; i++) {
        merge->first[planning->found[i].tensor + 1]++;
    }
    for (size_t i = 0; i < tensors; i++) {
        merge->first[i + 1] += merge->first[i];
    }
    for (size_t i = 0; i < merge->count; i++) {
        const coffer__lora_change *change = &planning->found[i];
        const size_t at = merge->first[change->tensor]++;
        merge->changes[at] = *change;
        merge->updates[at] = change->update;
    }
    /* Each has moved to where the next one begins. */
    for (size_t i = tensors; i > 0; i--) {
        merge->first[i] = merge->first[i - 1];
    }
    merge->first[0] = 0;
}

/* PEFT saves the base of a trained embedding together with its adapter. */
static bool lora_adds_to_whole(const coffer__lora_change *one, const coffer__lora_change *other)
{
    return one->update.kind == COFFER_ADAPTER_WHOLE && other->update.kind != COFFER_ADAPTER_WHOLE &&
           one->module->said.below && one->update.adapter == other->update.adapter;
}

/* Neighbours that change the same tensor must be of different adapters, and neither may replace it. */
static coffer_status lora_check_twice(const coffer__lora_merge *merge, coffer_error *err)
{
    for (size_t i = 1; i < merge->count; i++) {
        const coffer__lora_change *one = &merge->changes[i - 1];
        const coffer__lora_change *other = &merge->changes[i];
        const bool replaces = one->update.kind == COFFER_ADAPTER_WHOLE || other->update.kind == COFFER_ADAPTER_WHOLE;
        if (one->tensor != other->tensor || (one->update.adapter != other->update.adapter && !replaces) ||
            lora_adds_to_whole(one, other)) {
            continue;
        }
        const coffer_tensor *a = coffer__lora_named(one->module);
        const coffer_tensor *b = coffer__lora_named(other->module);
        coffer__fail(err, COFFER_ERR_DUPLICATE_NAME, "%q and %q are for the same tensor of the base%s", a->name,
                     (size_t)a->name_len, b->name, (size_t)b->name_len,
                     replaces ? ", which would be replaced and changed" : "");
        return coffer__fail_tensor(err, COFFER_ERR_DUPLICATE_NAME, b->name, b->name_len);
    }
    return COFFER_OK;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static coffer_status lora_prepare(void *ctx, const coffer_read_options *options, coffer_error *err)
{
    coffer__lora_merge *merge = ctx;
    const coffer_status status = coffer__lora_load(merge, err);
    return status == COFFER_OK ? coffer__lora_find_norms(merge, options, err) : status;
}

static bool lora_wants(const void *ctx, size_t tensor)
{
    const coffer__lora_merge *merge = ctx;
    return merge->first[tensor] < merge->first[tensor + 1];
}

/* Of a tensor that is replaced, the new elements. */
static coffer_status lora_fetch(const void *ctx, uint8_t *memory, size_t tensor, uint64_t first, size_t count,
                                coffer_error *err)
{
    const coffer__lora_merge *merge = ctx;
    const coffer__lora_change *change = &merge->changes[merge->first[tensor]];
    const coffer_tensor *whole = change->module->parts[COFFER__LORA_WHOLE];
    coffer_read_options alone = COFFER_READ_OPTIONS_INIT;
    alone.threads = 1;
    if (whole == NULL) {
        return COFFER_OK;
    }
    const uint64_t size = coffer_dtype_bits(whole->dtype) / 8;
    return coffer_read_part(coffer__lora_model_of(merge, change), whole, first * size, memory, count * size, &alone,
                            err);
}

/* In F64, where the base or the result is. */
static void lora_change_numbers(const void *ctx, const uint8_t *memory, size_t tensor, uint64_t first, size_t skip,
                                size_t count, double *values)
{
    const coffer__lora_merge *merge = ctx;
    for (size_t i = merge->first[tensor]; i < merge->first[tensor + 1]; i++) {
        const coffer__lora_change *change = &merge->changes[i];
        const coffer_tensor *whole = change->module->parts[COFFER__LORA_WHOLE];
        if (whole != NULL) {
            (void)coffer_decode(whole->dtype, memory, skip, count, values);
        } else {
            coffer__lora_add_wide(&change->product, first + skip, count, values);
        }
    }
}

static void lora_change_floats(const void *ctx, const uint8_t *memory, size_t tensor, uint64_t first, size_t skip,
                               size_t count, float *values)
{
    const coffer__lora_merge *merge = ctx;
    for (size_t i = merge->first[tensor]; i < merge->first[tensor + 1]; i++) {
        const coffer__lora_change *change = &merge->changes[i];
        const coffer_tensor *whole = change->module->parts[COFFER__LORA_WHOLE];
        if (whole != NULL) {
            double numbers[COFFER__LORA_MAX_SUMS];
            (void)coffer_decode(whole->dtype, memory, skip, count, numbers);
            for (size_t k = 0; k < count; k++) {
                values[k] = (float)numbers[k];
            }
        } else {
            coffer__lora_add(&change->product, first + skip, count, values);
        }
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void lora_free(void *ctx)
{
    coffer__lora_merge *merge = ctx;
    const coffer_allocator allocator = merge->allocator;
    coffer__free_array(&allocator, merge->matrices, merge->matrices_count, sizeof *merge->matrices);
    coffer__free_array(&allocator, merge->factors, merge->factors_count, sizeof *merge->factors);
    coffer__free_array(&allocator, merge->changes, merge->capacity, sizeof *merge->changes);
    coffer__free_array(&allocator, merge->updates, merge->capacity, sizeof *merge->updates);
    coffer__free_array(&allocator, merge->first, merge->first_capacity, sizeof *merge->first);
    coffer__free_array(&allocator, merge->adapters, merge->adapter_count, sizeof *merge->adapters);
    coffer__free(&allocator, merge, sizeof *merge);
}

static coffer_status lora_check_adapters(const coffer_adapter *adapters, size_t count, coffer_error *err)
{
    if (adapters == NULL || count == 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "there is no adapter to merge");
    }
    for (size_t i = 0; i < count; i++) {
        if (adapters[i].lora == NULL || !isfinite(adapters[i].scale)) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "an adapter is NULL, or its scale is not a finite number");
        }
    }
    return COFFER_OK;
}

/* Space for all that is known by the number of modules, and for the longest name. */
static coffer_status lora_reserve(lora_planning *planning)
{
    coffer__lora_merge *merge = planning->merge;
    const coffer_allocator *allocator = &merge->allocator;
    for (size_t a = 0; a < merge->adapter_count; a++) {
        const coffer_lora *lora = merge->adapters[a].lora;
        merge->capacity += lora->count;
        for (size_t i = 0; i < lora->count; i++) {
            const size_t len = lora->modules[i].said.module.len + 12;
            planning->buffer_size = len > planning->buffer_size ? len : planning->buffer_size;
        }
    }
    merge->first_capacity = coffer_count(merge->base) + 1;
    merge->changes = coffer__alloc_array(allocator, merge->capacity, sizeof *merge->changes, planning->err);
    merge->updates = coffer__alloc_array(allocator, merge->capacity, sizeof *merge->updates, planning->err);
    merge->first = coffer__alloc_array(allocator, merge->first_capacity, sizeof *merge->first, planning->err);
    planning->found = coffer__alloc_array(allocator, merge->capacity, sizeof *planning->found, planning->err);
    planning->buffer = coffer__alloc_array(allocator, planning->buffer_size, 1, planning->err);
    return merge->changes != NULL && merge->updates != NULL && merge->first != NULL && planning->found != NULL &&
                   planning->buffer != NULL
               ? COFFER_OK
               : COFFER_ERR_MEMORY;
}

static coffer_status lora_plan_with(coffer__lora_merge *merge, const coffer_merge_lora_options *options,
                                    coffer_error *err)
{
    lora_planning planning = { .merge = merge,
                               .mismatches = { .tell = options->misfit, .ctx = options->misfit_ctx },
                               .err = err };
    coffer_status status = coffer__lora_places_open(&planning.places, merge->base, &merge->allocator, err);
    if (status == COFFER_OK) {
        status = lora_reserve(&planning);
    }
    if (status == COFFER_OK) {
        status = lora_place_all(&planning);
    }
    if (status == COFFER_OK) {
        lora_sort_changes(&planning);
        status = lora_check_twice(merge, err);
    }
    coffer__free_array(&merge->allocator, planning.found, merge->capacity, sizeof *planning.found);
    coffer__free_array(&merge->allocator, planning.buffer, planning.buffer_size, 1);
    coffer__lora_places_free(&planning.places);
    return status;
}

/* Copies the list of adapters, which lives as long as the plan. */
static coffer_status lora_merge_new(coffer__lora_merge **merge, const coffer *base, const coffer_adapter *adapters,
                                    size_t count, const coffer_allocator *given, coffer_error *err)
{
    const coffer_allocator *allocator = given != NULL ? given : coffer_libc_allocator();
    coffer__lora_merge *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan the merging of adapters");
    }
    made->allocator = *allocator;
    made->base = base;
    made->adapter_count = count;
    made->adapters = coffer__alloc_array(allocator, count, sizeof *adapters, err);
    if (made->adapters == NULL) {
        lora_free(made);
        return COFFER_ERR_MEMORY;
    }
    memcpy(made->adapters, adapters, count * sizeof *adapters);
    *merge = made;
    return COFFER_OK;
}

coffer_status coffer_merge_lora_plan(coffer_rewrite **rewrite, const coffer *base, const coffer_adapter *adapters,
                                     size_t count, const coffer_merge_lora_options *options,
                                     const coffer_rewrite_options *rewriting, coffer_error *err)
{
    coffer__lora_merge *merge = NULL;
    coffer_merge_lora_options known;
    coffer_rewrite_options where;
    if (rewrite == NULL || base == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "merging needs a base model and a place for its handle");
    }
    *rewrite = NULL;
    coffer_status status = lora_check_adapters(adapters, count, err);
    if (status == COFFER_OK) {
        status = coffer__options_copy(&known, sizeof known, options, err);
    }
    if (status == COFFER_OK) {
        status = coffer__options_copy(&where, sizeof where, rewriting, err);
    }
    if (status == COFFER_OK) {
        status = lora_merge_new(&merge, base, adapters, count, where.allocator, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer__computing computing = { .wants = lora_wants,
                                    .prepare = lora_prepare,
                                    .change = lora_change_numbers,
                                    .change_floats = lora_change_floats,
                                    .free = lora_free,
                                    .ctx = merge };
    status = lora_plan_with(merge, &known, err);
    if (status == COFFER_OK && merge->replaces) {
        computing.fetch = lora_fetch;
        computing.memory_size = (size_t)COFFER__REWRITE_PIECE_ELEMENTS * LORA_ELEMENT_SIZE;
    }
    if (status == COFFER_OK) {
        status = coffer__rewrite_plan_computed(rewrite, base, rewriting, &computing, err);
    }
    if (status != COFFER_OK) {
        lora_free(merge);
    }
    return status;
}

const coffer_lora_update *coffer_merge_lora_at(const coffer_rewrite *rewrite, size_t i, size_t k)
{
    if (rewrite == NULL || rewrite->computing.wants != lora_wants || i >= rewrite->count) {
        return NULL;
    }
    const coffer__lora_merge *merge = rewrite->computing.ctx;
    const size_t count = merge->first[i + 1] - merge->first[i];
    return k < count ? &merge->updates[merge->first[i] + k] : NULL;
}
