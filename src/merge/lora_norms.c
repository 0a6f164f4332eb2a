/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What DoRA multiplies by: for each row of a tensor, the length that was trained over the length that the row has with the
 * product added. A length needs the whole row, and each row of a transposed product all of the tensor. So the tensors are
 * read once before anything is written (data_scan.h), one worker to each, from its first element to its last: the sums are
 * the same with any number of threads.
 */
#include "alloc.h"
#include "checked.h"
#include "data_scan.h"
#include "error.h"
#include "lora.h"
#include "root.h"

#include <math.h>

#define NORMS_READ_ELEMENTS ((size_t)1 << 18)
#define NORMS_ELEMENT_SIZE 8 /* bytes, at most */

/* Where the numbers come from that a change is for. */
typedef struct norms_source {
    const coffer *model;
    const coffer_tensor *tensor;
} norms_source;

/* ---- one tensor -------------------------------------------------------------------------------------------------- */

/* The base, whatever other adapters add to it; or what replaces it. */
static norms_source norms_source_of(const coffer__lora_merge *merge, const coffer__lora_change *change)
{
    const coffer__lora_change *first = &merge->changes[merge->first[change->tensor]];
    const coffer_tensor *whole = first->module->parts[COFFER__LORA_WHOLE];
    return whole != NULL ? (norms_source){ coffer__lora_model_of(merge, first), whole }
                         : (norms_source){ merge->base, coffer_at(merge->base, change->tensor) };
}

static void norms_add_squares(const coffer__lora_product *product, uint64_t first, size_t count, const double *values)
{
    uint64_t i = first / product->columns;
    uint64_t j = first % product->columns;
    for (size_t k = 0; k < count; k++) {
        const double square = values[k] * values[k];
        double *sum = &product->factors[product->by_columns ? j : i];
        *sum = *sum + square;
        j++;
        i += j == product->columns;
        j = j == product->columns ? 0 : j;
    }
}

/* Adds up what is in the buffer: `count` elements from `first` on. */
static void norms_add_up(const coffer__lora_change *change, coffer_dtype dtype, const uint8_t *buffer, uint64_t first,
                         size_t count)
{
    double values[COFFER__LORA_MAX_SUMS];
    coffer__lora_product product = change->product;
    product.factors = NULL;
    for (size_t done = 0; done < count; done += COFFER__LORA_MAX_SUMS) {
        const size_t now = count - done < COFFER__LORA_MAX_SUMS ? count - done : COFFER__LORA_MAX_SUMS;
        (void)coffer_decode(dtype, buffer, done, now, values);
        coffer__lora_add_wide(&product, first + done, now, values);
        norms_add_squares(&change->product, first + done, now, values);
    }
}

static coffer_status norms_read(const coffer__lora_merge *merge, const coffer__lora_change *change, uint8_t *buffer,
                                coffer_error *err)
{
    const norms_source source = norms_source_of(merge, change);
    const uint64_t elements = coffer_tensor_elements(source.tensor);
    const uint64_t size = coffer_dtype_bits(source.tensor->dtype) / 8;
    coffer_read_options alone = COFFER_READ_OPTIONS_INIT;
    coffer_status status = COFFER_OK;
    alone.threads = 1;
    for (uint64_t first = 0; first < elements && status == COFFER_OK; first += NORMS_READ_ELEMENTS) {
        const uint64_t left = elements - first;
        const size_t count = left < NORMS_READ_ELEMENTS ? (size_t)left : NORMS_READ_ELEMENTS;
        status = coffer_read_part(source.model, source.tensor, first * size, buffer, count * size, &alone, err);
        if (status == COFFER_OK) {
            norms_add_up(change, source.tensor->dtype, buffer, first, count);
        }
    }
    return status;
}

/* From the sums of squares to factors. */
static coffer_status norms_divide(const coffer__lora_merge *merge, const coffer__lora_change *change, coffer_error *err)
{
    double *sums = change->product.factors;
    const coffer_tensor *tensor = coffer_at(merge->base, change->tensor);
    const uint64_t lines = coffer__lora_lines(change);
    for (uint64_t i = 0; i < lines; i++) {
        const double factor = (double)change->magnitudes[i] / coffer__root(sums[i]);
        const float rounded = (float)factor;
        if (!isfinite(sums[i]) || !isfinite(rounded)) {
            coffer__fail(err, COFFER_ERR_NUMBER,
                         "%s %u of tensor %q of the base, with the adapter's product added, is all zeros, or not "
                         "finite: it cannot get the length that DoRA trained",
                         change->product.by_columns ? "column" : "row", i, tensor->name, (size_t)tensor->name_len);
            return coffer__fail_tensor(err, COFFER_ERR_NUMBER, tensor->name, tensor->name_len);
        }
        sums[i] = factor;
    }
    return COFFER_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* A tensor is one piece. */
static uint64_t norms_length(const void *ctx, size_t change)
{
    const coffer__lora_merge *merge = ctx;
    return merge->changes[change].update.kind == COFFER_ADAPTER_DORA ? 1 : 0;
}

static coffer_status norms_look(void *ctx, const coffer__data_scan_part *piece, uint8_t *memory, coffer_error *err)
{
    const coffer__lora_merge *merge = ctx;
    const coffer__lora_change *change = &merge->changes[piece->tensor];
    const coffer_status status = norms_read(merge, change, memory, err);
    return status == COFFER_OK ? norms_divide(merge, change, err) : status;
}

/* How many factors there are. */
static bool norms_count(const coffer__lora_merge *merge, size_t *count)
{
    uint64_t all = 0;
    for (size_t i = 0; i < merge->count; i++) {
        if (norms_length(merge, i) > 0 && !coffer__add_u64(all, coffer__lora_lines(&merge->changes[i]), &all)) {
            return false;
        }
    }
    *count = (size_t)all;
    return all <= SIZE_MAX / sizeof(double);
}

/* The user is asked while it lasts; what is told is the writing. Factors are sums of squares, which begin as zeros, until
   all of a tensor is read. */
coffer_status coffer__lora_find_norms(coffer__lora_merge *merge, const coffer_read_options *options, coffer_error *err)
{
    const coffer__data_scan scan = { .allocator = &merge->allocator,
                                     .tensor_count = merge->count,
                                     .length = norms_length,
                                     .look = norms_look,
                                     .ctx = merge,
                                     .piece_length = 1,
                                     .memory_size = NORMS_READ_ELEMENTS * NORMS_ELEMENT_SIZE };
    if (!norms_count(merge, &merge->factors_count)) {
        merge->factors_count = 0;
        return coffer__fail(err, COFFER_ERR_MEMORY, "the lengths of the adapters' rows are larger than any memory");
    }
    if (merge->factors_count == 0) {
        return COFFER_OK;
    }
    merge->factors = coffer__alloc_array(&merge->allocator, merge->factors_count, sizeof *merge->factors, err);
    if (merge->factors == NULL) {
        return COFFER_ERR_MEMORY;
    }
    double *to = merge->factors;
    for (size_t i = 0; i < merge->count; i++) {
        if (norms_length(merge, i) > 0) {
            merge->changes[i].product.factors = to;
            to += coffer__lora_lines(&merge->changes[i]);
        }
    }
    return coffer__data_scan_run(&scan, options, err);
}
