/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extracting: the plan of an adapter that makes one model of another. Tensors of both are matched and compared, and
 * those that differ become pairs of matrices, or stay as they are.
 */
#include "extract.h"

#include "alloc.h"
#include "checked.h"
#include "compatible.h"
#include "error.h"
#include "mismatches.h"
#include "options.h"

#include <math.h>
#include <string.h>

/* Names of layers that are embeddings: PEFT has other names for their matrices, and turns their product. */
static const char *const extract_embeddings[] = { "*embed_tokens", "*embed_in",   "*embed_positions",
                                                  "*embedding",    "*embeddings", "wte",
                                                  "*.wte",         "wpe",         "*.wpe",
                                                  "shared",        "*.shared",    "*relative_attention_bias" };

#define EXTRACT_EMBEDDINGS (sizeof extract_embeddings / sizeof extract_embeddings[0])

/* What planning needs besides. */
typedef struct extract_planning {
    coffer_extraction *extraction;
    const coffer_extract_lora_options *options;
    coffer__mismatches mismatches;
    coffer_error *err;
} extract_planning;

/* ---- models that agree ------------------------------------------------------------------------------------------- */

static coffer_status extract_fail(coffer_error *err, coffer_status status, const coffer_tensor *tensor,
                                  const char *what)
{
    coffer__fail(err, status, "tensor %q %s", tensor->name, (size_t)tensor->name_len, what);
    return coffer__fail_tensor(err, status, tensor->name, tensor->name_len);
}

/* Numbers may be of two dtypes; anything else has to be the same. */
static void extract_match(extract_planning *planning, const coffer_tensor *base)
{
    coffer_extraction *extraction = planning->extraction;
    const coffer_tensor *tuned = coffer_find(extraction->tuned, base->name, base->name_len);
    if (tuned == NULL) {
        coffer__mismatches_add(&planning->mismatches, 1, base, "is missing");
    } else if (!coffer__compatible_shapes(base, tuned)) {
        coffer__mismatches_add(&planning->mismatches, 1, base, "has another shape");
    } else if (base->dtype != tuned->dtype &&
               !(coffer__compatible_numbers(base) && coffer__compatible_numbers(tuned))) {
        coffer__mismatches_add(&planning->mismatches, 1, base, "has another dtype");
    } else {
        extraction->items[extraction->count++] = (coffer__extract_item){ .base = base, .tuned = tuned };
    }
}

static coffer_status extract_match_all(extract_planning *planning)
{
    coffer_extraction *extraction = planning->extraction;
    size_t selected = 0;
    for (size_t i = 0; i < coffer_count(extraction->base); i++) {
        const coffer_tensor *base = coffer_at(extraction->base, i);
        if (coffer_match_list(planning->options->select, planning->options->select_count, base->name, base->name_len)) {
            selected++;
            extract_match(planning, base);
        }
    }
    for (size_t i = 0; i < coffer_count(extraction->tuned); i++) {
        const coffer_tensor *tuned = coffer_at(extraction->tuned, i);
        if (coffer_match_list(planning->options->select, planning->options->select_count, tuned->name,
                              tuned->name_len) &&
            coffer_find(extraction->base, tuned->name, tuned->name_len) == NULL) {
            selected++;
            coffer__mismatches_add(&planning->mismatches, 0, tuned, "is missing");
        }
    }
    const coffer_tensor *misfit = planning->mismatches.first;
    if (misfit == NULL) {
        return selected > 0 ? COFFER_OK
                            : coffer__fail(planning->err, COFFER_ERR_NO_TENSOR, "no tensor matches what is selected");
    }
    coffer__fail(planning->err, COFFER_ERR_NO_TENSOR,
                 "the models differ in %u tensors, %q for one, which in the %s model %s: take models with the same "
                 "tensors, or select those that they have in common",
                 (uint64_t)planning->mismatches.count, misfit->name, (size_t)misfit->name_len,
                 planning->mismatches.model == 0 ? "base" : "tuned", planning->mismatches.why);
    return coffer__fail_tensor(planning->err, COFFER_ERR_NO_TENSOR, misfit->name, misfit->name_len);
}

/* ---- what becomes of them ---------------------------------------------------------------------------------------- */

/* The name of a layer that may get two matrices; else empty. */
static coffer__name extract_module(const coffer_tensor *tensor)
{
    static const char ending[] = ".weight";
    const size_t len = sizeof ending - 1;
    const bool is = tensor->rank >= 2 && tensor->rank <= COFFER__EXTRACT_MAX_DIMENSIONS && tensor->name_len > len &&
                    memcmp(tensor->name + tensor->name_len - len, ending, len) == 0;
    return (coffer__name){ tensor->name, is ? tensor->name_len - len : 0 };
}

static bool extract_is_embedding(const coffer_tensor *tensor, coffer__name module)
{
    for (size_t i = 0; i < EXTRACT_EMBEDDINGS && tensor->rank == 2; i++) {
        if (coffer_match(extract_embeddings[i], module.text, module.len)) {
            return true;
        }
    }
    return false;
}

/* Two matrices, if they are smaller than the difference, else the tensor. */
static void extract_choose(const coffer_extraction *extraction, coffer__extract_item *item)
{
    const coffer__name module = extract_module(item->base);
    const uint64_t elements = coffer_tensor_elements(item->base);
    uint64_t sides = 0;
    uint64_t size = 0;
    item->reported = (coffer_extracted){ .tensor = item->base, .kept = 1 };
    if (module.len == 0 || elements == 0) {
        return;
    }
    item->rows = item->base->shape[0];
    item->columns = elements / item->rows;
    if (!coffer__add_u64(item->rows, item->columns, &sides) || !coffer__mul_u64(sides, extraction->rank, &size) ||
        size >= elements) {
        return;
    }
    item->module = module;
    item->embedding = extract_is_embedding(item->base, module);
    item->reported.rank = extraction->rank;
    item->reported.transposed = item->embedding || (extraction->fan_in_fan_out && item->base->rank == 2);
    item->reported.kept = 0;
}

static coffer_status extract_check(const coffer__extract_item *item, coffer_error *err)
{
    if (!coffer__compatible_numbers(item->base)) {
        coffer__fail(err, COFFER_ERR_DTYPE,
                     "tensor %q is %s, which has no difference that could be added, and differs between the models: "
                     "select others, or take models that agree in it",
                     item->base->name, (size_t)item->base->name_len, coffer_tensor_dtype_name(item->base));
        return coffer__fail_tensor(err, COFFER_ERR_DTYPE, item->base->name, item->base->name_len);
    }
    return item->reported.rank == 0 || isfinite(item->square)
               ? COFFER_OK
               : extract_fail(err, COFFER_ERR_NUMBER, item->base,
                              "has an infinite number or a NaN in one of the models, or a difference beyond F32");
}

/* Keeps the items that differ. */
static coffer_status extract_choose_all(coffer_extraction *extraction, coffer_error *err)
{
    const size_t all = extraction->count;
    bool paired = false;
    extraction->count = 0;
    for (size_t i = 0; i < all; i++) {
        coffer__extract_item *item = &extraction->items[i];
        if (item->square == 0) {
            continue;
        }
        extract_choose(extraction, item);
        const coffer_status status = extract_check(item, err);
        if (status != COFFER_OK) {
            return status;
        }
        paired = paired || item->reported.rank > 0;
        extraction->items[extraction->count++] = *item;
    }
    if (paired) {
        return COFFER_OK;
    }
    return extraction->count == 0
               ? coffer__fail(err, COFFER_ERR_NO_TENSOR, "the models do not differ: there is no adapter to extract")
               : coffer__fail(err, COFFER_ERR_NO_TENSOR,
                              "of all tensors that differ, none is larger than two matrices of rank %u: there is no "
                              "adapter to extract; take a smaller rank",
                              extraction->rank);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static coffer_status extract_check_options(const coffer_extract_lora_options *options, coffer_error *err)
{
    if (options->rank == 0 || options->rank > INT32_MAX) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an adapter needs a rank from 1 on");
    }
    if (options->dtype != COFFER_UNKNOWN_DTYPE && options->dtype != COFFER_F32 && options->dtype != COFFER_BF16 &&
        options->dtype != COFFER_F16) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the matrices of an adapter are F32, BF16 or F16");
    }
    bool missing = options->select == NULL && options->select_count > 0;
    for (size_t i = 0; i < options->select_count && !missing; i++) {
        missing = options->select[i] == NULL;
    }
    return missing ? coffer__fail(err, COFFER_ERR_ARGUMENT, "the patterns that select are NULL") : COFFER_OK;
}

static coffer_status extract_plan_with(coffer_extraction *extraction, const coffer_extract_lora_options *options,
                                       const coffer_read_options *reading, coffer_error *err)
{
    extract_planning planning = { .extraction = extraction,
                                  .options = options,
                                  .mismatches = { .tell = options->misfit, .ctx = options->misfit_ctx },
                                  .err = err };
    extraction->capacity = coffer_count(extraction->base);
    extraction->items =
        coffer__alloc_array(&extraction->allocator, extraction->capacity, sizeof *extraction->items, err);
    if (extraction->items == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = extract_match_all(&planning);
    if (status == COFFER_OK) {
        status = coffer__lapack_open(&extraction->lapack, err);
    }
    if (status == COFFER_OK) {
        status = coffer__extract_compare(extraction, reading, err);
    }
    return status == COFFER_OK ? extract_choose_all(extraction, err) : status;
}

coffer_status coffer_extract_lora_plan(coffer_extraction **extraction, const coffer *base, const coffer *tuned,
                                       const coffer_extract_lora_options *options, const coffer_read_options *reading,
                                       coffer_error *err)
{
    coffer_extract_lora_options known;
    coffer_read_options how;
    if (extraction == NULL || base == NULL || tuned == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "extracting needs two models and a place for its handle");
    }
    *extraction = NULL;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status == COFFER_OK) {
        status = coffer__options_copy(&how, sizeof how, reading, err);
    }
    if (status == COFFER_OK) {
        status = extract_check_options(&known, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const coffer_allocator *allocator = known.allocator != NULL ? known.allocator : coffer_libc_allocator();
    coffer_extraction *made = coffer__alloc_zeroed(allocator, sizeof *made);
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan an adapter");
    }
    made->allocator = *allocator;
    made->base = base;
    made->tuned = tuned;
    made->rank = known.rank;
    made->dtype = known.dtype != COFFER_UNKNOWN_DTYPE ? known.dtype : COFFER_F32;
    made->fan_in_fan_out = known.fan_in_fan_out;
    status = extract_plan_with(made, &known, &how, err);
    if (status != COFFER_OK) {
        coffer_extraction_free(made);
        return status;
    }
    *extraction = made;
    return COFFER_OK;
}

size_t coffer_extraction_count(const coffer_extraction *extraction)
{
    return extraction != NULL ? extraction->count : 0;
}

const coffer_extracted *coffer_extraction_at(const coffer_extraction *extraction, size_t i)
{
    return i < coffer_extraction_count(extraction) ? &extraction->items[i].reported : NULL;
}

void coffer_extraction_free(coffer_extraction *extraction)
{
    if (extraction == NULL) {
        return;
    }
    const coffer_allocator allocator = extraction->allocator;
    coffer__lapack_close(&extraction->lapack);
    coffer__free_array(&allocator, extraction->items, extraction->capacity, sizeof *extraction->items);
    coffer__free(&allocator, extraction, sizeof *extraction);
}

/* ---- carrying it out --------------------------------------------------------------------------------------------- */

static coffer_status extract_run_item(coffer__extract_files *files, coffer__extract_item *item,
                                      coffer__extract_progress *progress, uint32_t threads, coffer_error *err)
{
    coffer__extract_pair pair = { .down = NULL };
    coffer_status status = COFFER_OK;
    if (item->reported.rank > 0) {
        status = coffer__extract_factor(files->extraction, item, &pair, progress, threads, err);
    }
    if (status == COFFER_OK) {
        status = coffer__extract_write(files, item, &pair, err);
    }
    coffer__extract_pair_free(files->extraction, &pair);
    progress->done += coffer_tensor_elements(item->base);
    return status;
}

/* Asks after each item; the end is told when the files are there. */
static coffer_status extract_run_all(coffer_extraction *extraction, coffer__extract_files *files,
                                     coffer__extract_progress *progress, uint32_t threads, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < extraction->count; i++) {
        progress->total += coffer_tensor_elements(extraction->items[i].base);
    }
    for (size_t i = 0; i < extraction->count && status == COFFER_OK; i++) {
        if (progress->call != NULL && progress->call(progress->ctx, progress->done, progress->total) != 0) {
            return coffer__fail(err, COFFER_ERR_CANCELLED, "cancelled by the progress callback");
        }
        status = extract_run_item(files, &extraction->items[i], progress, threads, err);
    }
    return status;
}

coffer_status coffer_extract_lora_run(coffer_extraction *extraction, const char *folder,
                                      const coffer_writer_options *writing, const coffer_read_options *reading,
                                      coffer_error *err)
{
    coffer__extract_files files;
    coffer_read_options how;
    coffer_status status = coffer__options_copy(&how, sizeof how, reading, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (extraction == NULL || folder == NULL || extraction->run) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a plan is carried out once, and into a folder");
    }
    extraction->run = true;
    coffer__extract_progress progress = { .call = how.progress, .ctx = how.progress_ctx };
    status = coffer__extract_open(&files, extraction, folder, writing, err);
    if (status == COFFER_OK) {
        status = extract_run_all(extraction, &files, &progress, how.threads, err);
    }
    if (status == COFFER_OK) {
        status = coffer__adapter_publish(&files.adapter, err);
    }
    coffer__extract_close(&files);
    if (status == COFFER_OK && progress.call != NULL) {
        (void)progress.call(progress.ctx, progress.total, progress.total);
    }
    return status;
}
