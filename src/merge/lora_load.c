/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrices of adapters, read into memory as F32, all of them before the first byte is written, and laid out so that
 * each product is one of rows by columns, whichever way round the base has it. A core is multiplied with the matrix on its
 * right, after which it is a matrix like any other.
 */
#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "lora.h"

#include <math.h>
#include <string.h>

/* Elements of a matrix that are read at a time, and of those that are decoded at a time. */
#define LORA_ELEMENT_SIZE 8 /* bytes, at most */
#define LORA_READ_ELEMENTS (COFFER__LORA_BUFFER_SIZE / LORA_ELEMENT_SIZE)
#define LORA_DECODE_ELEMENTS 512

/* A tensor on its way into memory: element i of the file goes to `to`, in the same order or transposed. */
typedef struct lora_reading {
    const coffer *model;
    const coffer_tensor *tensor;
    uint64_t rows; /* of the tensor as a matrix, where it is transposed */
    uint64_t columns;
    bool transposed;
    float *to;
    uint8_t *buffer; /* COFFER__LORA_BUFFER_SIZE bytes */
    coffer_error *err;
} lora_reading;

/* What all readings have in common, and where the next matrix goes. */
typedef struct lora_loading {
    coffer__lora_merge *merge;
    float *to;
    uint8_t *buffer;
    coffer_error *err;
} lora_loading;

/* ---- one tensor -------------------------------------------------------------------------------------------------- */

static coffer_status lora_put_numbers(const lora_reading *reading, uint64_t first, size_t count)
{
    double values[LORA_DECODE_ELEMENTS];
    for (size_t done = 0; done < count; done += LORA_DECODE_ELEMENTS) {
        const size_t now = count - done < LORA_DECODE_ELEMENTS ? count - done : LORA_DECODE_ELEMENTS;
        (void)coffer_decode(reading->tensor->dtype, reading->buffer, done, now, values);
        for (size_t i = 0; i < now; i++) {
            const float value = (float)values[i];
            const uint64_t at = first + done + i;
            if (!isfinite(value)) {
                return coffer__lora_fail(reading->err, COFFER_ERR_NUMBER, reading->tensor,
                                         "has an infinite number or a NaN, which merging would spread");
            }
            reading->to[reading->transposed ? at % reading->columns * reading->rows + at / reading->columns : at] =
                value;
        }
    }
    return COFFER_OK;
}

static coffer_status lora_read_tensor(const lora_reading *reading)
{
    const coffer_tensor *tensor = reading->tensor;
    const uint64_t size = coffer_dtype_bits(tensor->dtype) / 8;
    const uint64_t elements = coffer_tensor_elements(tensor);
    for (uint64_t first = 0; first < elements; first += LORA_READ_ELEMENTS) {
        const uint64_t left = elements - first;
        const size_t count = left < LORA_READ_ELEMENTS ? (size_t)left : LORA_READ_ELEMENTS;
        coffer_status status =
            coffer_read_part(reading->model, tensor, first * size, reading->buffer, count * size, NULL, reading->err);
        if (status == COFFER_OK) {
            status = lora_put_numbers(reading, first, count);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

/* NOLINTBEGIN(readability-non-const-parameter): they are read to */
coffer_status coffer__lora_read(const coffer *model, const coffer_tensor *tensor, float *to, uint8_t *buffer,
                                coffer_error *err)
/* NOLINTEND(readability-non-const-parameter) */
{
    const lora_reading reading = { .model = model, .tensor = tensor, .to = to, .buffer = buffer, .err = err };
    return lora_read_tensor(&reading);
}

/* Reads a tensor to where the next matrix goes; *matrix is that place. */
static coffer_status lora_take(lora_loading *loading, lora_reading *reading, const coffer_tensor *tensor,
                               const float **matrix)
{
    reading->tensor = tensor;
    reading->to = loading->to;
    *matrix = loading->to;
    loading->to += coffer_tensor_elements(tensor);
    return lora_read_tensor(reading);
}

/* ---- cores ------------------------------------------------------------------------------------------------------- */

/* Row i, column c of the right matrix and element q of the kernel: the sum over j of core[i][j][q] * right[j][c]. */
static void lora_multiply_core(float *to, const float *core, const float *right, const coffer__lora_shape *shape)
{
    const uint64_t inner = shape->columns / shape->kernel;
    memset(to, 0, (size_t)(shape->rank * shape->columns) * sizeof *to);
    for (uint64_t i = 0; i < shape->rank; i++) {
        for (uint64_t j = 0; j < shape->rank; j++) {
            const float *kernel = core + (i * shape->rank + j) * shape->kernel;
            for (uint64_t c = 0; c < shape->columns; c++) {
                const float product = kernel[c % shape->kernel] * right[j * inner + c / shape->kernel];
                to[i * shape->columns + c] = to[i * shape->columns + c] + product;
            }
        }
    }
}

/* The core and the right matrix are in memory of their own until they are multiplied. */
static coffer_status lora_load_core(lora_loading *loading, lora_reading reading, const coffer_tensor *down,
                                    const coffer_tensor *core, const coffer__lora_shape *shape)
{
    const coffer_allocator *allocator = &loading->merge->allocator;
    const uint64_t core_count = coffer_tensor_elements(core);
    const uint64_t count = core_count + coffer_tensor_elements(down);
    float *memory = count <= SIZE_MAX / sizeof *memory
                        ? coffer__alloc_array(allocator, (size_t)count, sizeof *memory, loading->err)
                        : NULL;
    if (memory == NULL) {
        return coffer__fail(loading->err, COFFER_ERR_MEMORY, "no memory for the matrices of an adapter");
    }
    reading.tensor = core;
    reading.to = memory;
    coffer_status status = lora_read_tensor(&reading);
    if (status == COFFER_OK) {
        reading.tensor = down;
        reading.to = memory + core_count;
        status = lora_read_tensor(&reading);
    }
    if (status == COFFER_OK) {
        lora_multiply_core(loading->to, memory, memory + core_count, shape);
        loading->to += shape->rank * shape->columns;
    }
    coffer__free_array(allocator, memory, (size_t)count, sizeof *memory);
    return status;
}

/* ---- a change ---------------------------------------------------------------------------------------------------- */

/* Of a plain product, up is left and down is right; of a transposed one, down is left and up is right, both turned. */
static coffer_status lora_load_factors(lora_loading *loading, const coffer__lora_change *change, size_t which,
                                       coffer__lora_matrix *matrix, lora_reading reading)
{
    const coffer_tensor *const *parts = change->module->parts + which * COFFER__LORA_SECOND;
    const coffer__lora_shape *shape = &change->module->shapes[which];
    const bool swapped = change->update.transposed;
    const coffer_tensor *left = parts[swapped ? COFFER__LORA_DOWN : COFFER__LORA_UP];
    const coffer_tensor *right = parts[swapped ? COFFER__LORA_UP : COFFER__LORA_DOWN];
    const coffer_tensor *core = parts[COFFER__LORA_CORE];
    reading.transposed = swapped || coffer__lora_is_turned(change->module, core);
    reading.rows = shape->rank;
    reading.columns = matrix->rows;
    coffer_status status = lora_take(loading, &reading, left, &matrix->left);
    if (status != COFFER_OK) {
        return status;
    }
    if (core != NULL) {
        matrix->right = loading->to;
        reading.transposed = false;
        return lora_load_core(loading, reading, right, core, shape);
    }
    reading.rows = matrix->columns;
    reading.columns = shape->rank;
    return lora_take(loading, &reading, right, &matrix->right);
}

static coffer_status lora_load_change(lora_loading *loading, coffer__lora_change *change)
{
    const coffer_tensor *const *parts = change->module->parts;
    const size_t count = coffer__lora_is_double(change->update.kind) ? 2 : 1;
    lora_reading reading = { .model = coffer__lora_model_of(loading->merge, change),
                             .buffer = loading->buffer,
                             .err = loading->err };
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        coffer__lora_matrix *matrix = &change->product.matrices[i];
        const coffer_tensor *full = parts[i * COFFER__LORA_SECOND + COFFER__LORA_FULL];
        status = full != NULL ? lora_take(loading, &reading, full, &matrix->right)
                              : lora_load_factors(loading, change, i, matrix, reading);
    }
    return status == COFFER_OK && change->update.kind == COFFER_ADAPTER_DORA
               ? lora_take(loading, &reading, parts[COFFER__LORA_MAGNITUDE], &change->magnitudes)
               : status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* *sum = *sum + a * b, unless that is beyond 2^64-1. */
static bool lora_count_product(uint64_t a, uint64_t b, uint64_t *sum)
{
    uint64_t product = 0;
    return coffer__mul_u64(a, b, &product) && coffer__add_u64(*sum, product, sum);
}

/* How many numbers all matrices have. */
static bool lora_count_numbers(const coffer__lora_merge *merge, size_t *count)
{
    uint64_t all = 0;
    for (size_t i = 0; i < merge->count; i++) {
        const coffer__lora_change *change = &merge->changes[i];
        for (size_t k = 0; k < 2; k++) {
            const coffer__lora_matrix *matrix = &change->product.matrices[k];
            const bool whole = matrix->rank == 0;
            if (!lora_count_product(matrix->columns, whole ? matrix->rows : matrix->rank, &all) ||
                !lora_count_product(whole ? 0 : matrix->rows, matrix->rank, &all)) {
                return false;
            }
        }
        const bool has_magnitudes = change->update.kind == COFFER_ADAPTER_DORA;
        if (has_magnitudes && !coffer__add_u64(all, coffer__lora_lines(change), &all)) {
            return false;
        }
    }
    *count = (size_t)all;
    return all <= SIZE_MAX / sizeof(float);
}

coffer_status coffer__lora_load(coffer__lora_merge *merge, coffer_error *err)
{
    if (!lora_count_numbers(merge, &merge->matrices_count)) {
        merge->matrices_count = 0;
        return coffer__fail(err, COFFER_ERR_MEMORY, "the matrices of the adapters are larger than any memory");
    }
    merge->matrices = coffer__alloc_array(&merge->allocator, merge->matrices_count, sizeof *merge->matrices, err);
    uint8_t *buffer = coffer__alloc_array(&merge->allocator, COFFER__LORA_BUFFER_SIZE, 1, err);
    coffer_status status = merge->matrices != NULL && buffer != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
    lora_loading loading = { merge, merge->matrices, buffer, err };
    for (size_t i = 0; i < merge->count && status == COFFER_OK; i++) {
        if (merge->changes[i].update.kind != COFFER_ADAPTER_WHOLE) {
            status = lora_load_change(&loading, &merge->changes[i]);
        }
    }
    coffer__free_array(&merge->allocator, buffer, COFFER__LORA_BUFFER_SIZE, 1);
    return status;
}
