/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Averages: a plan of a rewrite of the first model in which the numbers of all its floats are computed (rewriting.h). A
 * piece of each other model is read beside that of the first one, and all are added up by the tensor's coefficients.
 */
#include "average.h"

#include "alloc.h"
#include "checked.h"
#include "compatible.h"
#include "error.h"
#include "lora.h"
#include "mismatches.h"
#include "options.h"
#include "rewriting.h"

#include <math.h>
#include <string.h>

#define AVERAGE_ELEMENT_SIZE 8     /* bytes, at most */
#define AVERAGE_BLOCK_ELEMENTS 512 /* that are decoded at a time */

/* What planning needs besides. */
typedef struct average_planning {
    coffer__average *average;
    const coffer_average_options *options;
    coffer__mismatches mismatches;
    coffer_error *err;
} average_planning;

/* ---- models that agree ------------------------------------------------------------------------------------------- */

/* Finds the tensors of a model that are like those of the first. */
static void average_match(average_planning *planning, size_t model)
{
    const coffer__average *average = planning->average;
    size_t found = 0;
    for (size_t i = 0; i < average->tensor_count; i++) {
        const coffer_tensor *first = coffer__average_tensor(average, 0, i);
        const coffer_tensor *other = coffer_find(average->models[model], first->name, first->name_len);
        average->tensors[model * average->tensor_count + i] = other;
        found += other != NULL;
        if (other == NULL) {
            coffer__mismatches_add(&planning->mismatches, model, first, "is missing");
        } else if (!coffer__compatible_shapes(first, other)) {
            coffer__mismatches_add(&planning->mismatches, model, first, "has another shape");
        } else if (first->dtype != other->dtype) {
            coffer__mismatches_add(&planning->mismatches, model, first, "has another dtype");
        }
    }
    const size_t count = coffer_count(average->models[model]);
    for (size_t i = 0; i < count && found < count; i++) {
        const coffer_tensor *own = coffer_at(average->models[model], i);
        if (coffer_find(average->models[0], own->name, own->name_len) == NULL) {
            coffer__mismatches_add(&planning->mismatches, model, own, "is in no other model");
        }
    }
}

static coffer_status average_match_all(average_planning *planning)
{
    for (size_t m = 1; m < planning->average->model_count; m++) {
        average_match(planning, m);
    }
    const coffer_tensor *misfit = planning->mismatches.first;
    if (misfit == NULL) {
        return COFFER_OK;
    }
    coffer__fail(planning->err, COFFER_ERR_NO_TENSOR,
                 "the models differ in %u tensors, %q for one, which in model %u %s: only models with the same tensors "
                 "can be averaged",
                 (uint64_t)planning->mismatches.count, misfit->name, (size_t)misfit->name_len,
                 (uint64_t)planning->mismatches.model + 1, planning->mismatches.why);
    return coffer__fail_tensor(planning->err, COFFER_ERR_NO_TENSOR, misfit->name, misfit->name_len);
}

/* ---- coefficients ------------------------------------------------------------------------------------------------ */

static coffer_status average_bad_weights(coffer_error *err)
{
    return coffer__fail(err, COFFER_ERR_ARGUMENT, "the weights are not finite numbers, or their sum is 0");
}

/* t is kept as the first coefficient until the angles are known. */
static coffer_status average_take_t(const coffer__average *average, const double *weights, double *coefficients,
                                    coffer_error *err)
{
    const double t = weights != NULL ? weights[0] : 0.5;
    (void)average;
    coefficients[0] = t;
    return t >= 0 && t <= 1 ? COFFER_OK : coffer__fail(err, COFFER_ERR_ARGUMENT, "t of slerp is not from 0 to 1");
}

static coffer_status average_take_weights(const coffer__average *average, const double *weights, double *coefficients,
                                          coffer_error *err)
{
    double sum = 0;
    if (average->slerp) {
        return average_take_t(average, weights, coefficients, err);
    }
    for (size_t m = 0; m < average->model_count; m++) {
        coefficients[m] = weights != NULL ? weights[m] : 1;
        sum += coefficients[m];
    }
    if (!isfinite(sum) || sum == 0) {
        return average_bad_weights(err);
    }
    for (size_t m = 0; m < average->model_count; m++) {
        coefficients[m] /= sum;
        if (!isfinite(coefficients[m])) {
            return average_bad_weights(err);
        }
    }
    return COFFER_OK;
}

/* The first rule that matches. *used tells which rules matched any. */
static const double *average_weights_of(const coffer_average_options *options, const coffer_tensor *tensor, bool *used)
{
    const double *weights = options->weights;
    bool found = false;
    for (size_t i = 0; i < options->rule_count; i++) {
        const coffer_average_rule *rule = &options->rules[i];
        if (!coffer_match(rule->pattern, tensor->name, tensor->name_len)) {
            continue;
        }
        used[i] = true;
        weights = found ? weights : rule->weights;
        found = true;
    }
    return weights;
}

static coffer_status average_unused(const coffer_average_options *options, const bool *used, coffer_error *err)
{
    for (size_t i = 0; i < options->rule_count; i++) {
        if (!used[i]) {
            return coffer__fail(err, COFFER_ERR_NO_TENSOR, "no tensor has a name that matches %q",
                                options->rules[i].pattern, strlen(options->rules[i].pattern));
        }
    }
    return COFFER_OK;
}

static coffer_status average_take_all(const average_planning *planning)
{
    const coffer__average *average = planning->average;
    const coffer_average_options *options = planning->options;
    bool *used = coffer__alloc_array(&average->allocator, options->rule_count, sizeof *used, planning->err);
    coffer_status status = used != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
    for (size_t i = 0; i < average->tensor_count && status == COFFER_OK; i++) {
        status = average_take_weights(average, average_weights_of(options, coffer__average_tensor(average, 0, i), used),
                                      &average->coefficients[i * average->model_count], planning->err);
    }
    if (status == COFFER_OK) {
        status = average_unused(options, used, planning->err);
    }
    coffer__free_array(&average->allocator, used, options->rule_count, sizeof *used);
    return status;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool average_wants(const void *ctx, size_t tensor)
{
    return coffer__average_computes(ctx, tensor);
}

static coffer_status average_prepare(void *ctx, const coffer_read_options *options, coffer_error *err)
{
    return coffer__average_scan(ctx, options, err);
}

/* The pieces of the other models, one after the other. */
static coffer_status average_fetch(const void *ctx, uint8_t *memory, size_t tensor, uint64_t first, size_t count,
                                   coffer_error *err)
{
    const coffer__average *average = ctx;
    const uint64_t size = coffer_dtype_bits(coffer__average_tensor(average, 0, tensor)->dtype) / 8;
    coffer_read_options alone = COFFER_READ_OPTIONS_INIT;
    coffer_status status = COFFER_OK;
    alone.threads = 1;
    for (size_t m = 1; m < average->model_count && status == COFFER_OK; m++) {
        status = coffer_read_part(average->models[m], coffer__average_tensor(average, m, tensor), first * size,
                                  memory + (m - 1) * COFFER__REWRITE_PIECE_ELEMENTS * AVERAGE_ELEMENT_SIZE,
                                  count * size, &alone, err);
    }
    return status;
}

static void average_change(const void *ctx, const uint8_t *memory, size_t tensor, uint64_t first, size_t skip,
                           size_t count, double *values)
{
    double others[AVERAGE_BLOCK_ELEMENTS];
    const coffer__average *average = ctx;
    const coffer_dtype dtype = coffer__average_tensor(average, 0, tensor)->dtype;
    const double *coefficients = &average->coefficients[tensor * average->model_count];
    (void)first;
    for (size_t i = 0; i < count; i++) {
        values[i] *= coefficients[0];
    }
    for (size_t m = 1; m < average->model_count; m++) {
        const uint8_t *from = memory + (m - 1) * COFFER__REWRITE_PIECE_ELEMENTS * AVERAGE_ELEMENT_SIZE;
        for (size_t done = 0; done < count; done += AVERAGE_BLOCK_ELEMENTS) {
            const size_t now = count - done < AVERAGE_BLOCK_ELEMENTS ? count - done : AVERAGE_BLOCK_ELEMENTS;
            (void)coffer_decode(dtype, from, skip + done, now, others);
            for (size_t i = 0; i < now; i++) {
                const double part = coefficients[m] * others[i];
                values[done + i] = values[done + i] + part;
            }
        }
    }
}

static void average_free(void *ctx)
{
    coffer__average *average = ctx;
    const coffer_allocator allocator = average->allocator;
    const size_t all = average->model_count * average->tensor_count;
    coffer__free_array(&allocator, average->tensors, all, sizeof(const coffer_tensor *));
    coffer__free_array(&allocator, average->coefficients, all, sizeof *average->coefficients);
    coffer__free_array(&allocator, average->models, average->model_count, sizeof(const coffer *));
    coffer__free(&allocator, average, sizeof *average);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static coffer_status average_check(const coffer *const *models, size_t count, const coffer_average_options *options,
                                   coffer_error *err)
{
    if (models == NULL || count < 2 || count > COFFER_AVERAGE_MAX_MODELS) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an average is of 2 to %u models",
                            (uint64_t)COFFER_AVERAGE_MAX_MODELS);
    }
    bool missing = options->rules == NULL && options->rule_count > 0;
    for (size_t i = 0; i < count; i++) {
        missing = missing || models[i] == NULL;
    }
    for (size_t i = 0; i < options->rule_count && !missing; i++) {
        missing = options->rules[i].pattern == NULL || options->rules[i].weights == NULL;
    }
    if (missing) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "a model, a rule, or its pattern or weights are NULL");
    }
    return options->slerp && count != 2 ? coffer__fail(err, COFFER_ERR_ARGUMENT, "slerp is between two models")
                                        : COFFER_OK;
}

/* The product of averages is not the average of products. Whole tensors of an adapter, and its alphas, are no factors. */
static coffer_status average_refuse_adapters(const coffer *const *models, size_t count, coffer_error *err)
{
    for (size_t m = 0; m < count; m++) {
        for (size_t i = 0; i < coffer_count(models[m]); i++) {
            const coffer_tensor *tensor = coffer_at(models[m], i);
            coffer__lora_said said;
            const coffer_status status =
                coffer__lora_understand((coffer__name){ tensor->name, tensor->name_len }, &said, NULL);
            if (status != COFFER_OK || said.part >= COFFER__LORA_ALPHA) {
                continue;
            }
            return coffer__lora_fail(
                err, COFFER_ERR_UNSUPPORTED, tensor,
                said.kind == COFFER_ADAPTER_LORA
                    ? "is a factor of an adapter (LoRA), and averages of factors are not factors of the average: make "
                      "one adapter of them, each with its weight (coffer add-lora A B --scale 0.5 --scale 0.5)"
                    : "is a factor of an adapter, and averages of factors are not factors of the average: merge the "
                      "adapters into their base (coffer merge-lora BASE A B --scale 0.5 --scale 0.5)");
        }
    }
    return COFFER_OK;
}

/* The lists, and the first model's tensors in them. */
static coffer_status average_fill(coffer__average *average, const coffer *const *models, size_t count,
                                  coffer_error *err)
{
    uint64_t all = 0;
    average->model_count = count;
    average->tensor_count = coffer_count(models[0]);
    if (!coffer__mul_u64(average->tensor_count, count, &all) || all > SIZE_MAX) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan an average");
    }
    average->models = coffer__alloc_array(&average->allocator, count, sizeof(const coffer *), err);
    average->tensors = coffer__alloc_array(&average->allocator, (size_t)all, sizeof(const coffer_tensor *), err);
    average->coefficients = coffer__alloc_array(&average->allocator, (size_t)all, sizeof *average->coefficients, err);
    if (average->models == NULL || average->tensors == NULL || average->coefficients == NULL) {
        return COFFER_ERR_MEMORY;
    }
    memcpy(average->models, models, count * sizeof(const coffer *));
    for (size_t i = 0; i < average->tensor_count; i++) {
        average->tensors[i] = coffer_at(models[0], i);
    }
    return COFFER_OK;
}

static coffer_status average_plan_with(coffer__average *average, const coffer *const *models, size_t count,
                                       const coffer_average_options *options, coffer_error *err)
{
    average_planning planning = { .average = average,
                                  .options = options,
                                  .mismatches = { .tell = options->misfit, .ctx = options->misfit_ctx },
                                  .err = err };
    average->slerp = options->slerp;
    coffer_status status = average_fill(average, models, count, err);
    if (status == COFFER_OK) {
        status = average_match_all(&planning);
    }
    return status == COFFER_OK ? average_take_all(&planning) : status;
}

coffer_status coffer_average_plan(coffer_rewrite **rewrite, const coffer *const *models, size_t count,
                                  const coffer_average_options *options, const coffer_rewrite_options *rewriting,
                                  coffer_error *err)
{
    coffer_average_options known;
    coffer_rewrite_options where;
    if (rewrite == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "an average needs a place for its handle");
    }
    *rewrite = NULL;
    coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status == COFFER_OK) {
        status = coffer__options_copy(&where, sizeof where, rewriting, err);
    }
    if (status == COFFER_OK) {
        status = average_check(models, count, &known, err);
    }
    if (status == COFFER_OK) {
        status = average_refuse_adapters(models, count, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const coffer_allocator *allocator = where.allocator != NULL ? where.allocator : coffer_libc_allocator();
    coffer__average *average = coffer__alloc_zeroed(allocator, sizeof *average);
    if (average == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to plan an average");
    }
    average->allocator = *allocator;
    const coffer__computing computing = {
        .wants = average_wants,
        .prepare = average_prepare,
        .fetch = average_fetch,
        .change = average_change,
        .free = average_free,
        .memory_size = (count - 1) * (size_t)COFFER__REWRITE_PIECE_ELEMENTS * AVERAGE_ELEMENT_SIZE,
        .ctx = average,
    };
    status = average_plan_with(average, models, count, &known, err);
    if (status == COFFER_OK) {
        status = coffer__rewrite_plan_computed(rewrite, models[0], rewriting, &computing, err);
    }
    if (status != COFFER_OK) {
        average_free(average);
    }
    return status;
}
