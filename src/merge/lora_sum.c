/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What adapters add, a stretch of a row at a time: products of thin matrices, and what kinds make of them.
 *
 * Each element is summed up by itself, along the rank from 0 on, with one rounding for each product and for each sum. So
 * it does not matter for the result how many elements a vector of the processor has, and a stretch may begin anywhere.
 * The innermost loops have a constant length and touch neighbours, so that compilers make vectors of them at any level
 * of optimisation.
 */
#include "lora.h"

#include <string.h>

/* Elements that are summed up together: they stay in the nearest cache, and make whole vectors. */
#define LORA_STRIP 64

typedef void lora_row_function(float *sums, const float *left, const float *right, uint64_t rank, uint64_t columns,
                               size_t count);

/* Adds four rows of the right matrix to a strip of sums. Products stand for themselves, so that no compiler joins a product and a
   sum to one operation with one rounding, which would give other results on some machines. */
static inline void lora_add_four(float *restrict sums, const float *left, const float *restrict right, uint64_t columns)
{
    const float *restrict second = right + columns;
    const float *restrict third = second + columns;
    const float *restrict fourth = third + columns;
    for (size_t j = 0; j < LORA_STRIP; j++) {
        const float one = left[0] * right[j];
        const float two = left[1] * second[j];
        const float three = left[2] * third[j];
        const float four = left[3] * fourth[j];
        float sum = sums[j] + one;
        sum = sum + two;
        sum = sum + three;
        sums[j] = sum + four;
    }
}

/* Adds rows `k` to `rank` to `count` sums, one row at a time: what is left over by strips and fours. */
static inline void lora_add_rest(float *restrict sums, const float *left, const float *restrict right, uint64_t k,
                                 uint64_t rank, uint64_t columns, size_t count)
{
    for (; k < rank; k++) {
        const float factor = left[k];
        const float *restrict row = right + k * columns;
        for (size_t j = 0; j < count; j++) {
            const float product = factor * row[j];
            sums[j] = sums[j] + product;
        }
    }
}

/* `count` sums of one row of the product, which begin as zeros; left is the row, right the first column that is wanted. */
static inline void lora_row(float *sums, const float *left, const float *right, uint64_t rank, uint64_t columns,
                            size_t count)
{
    size_t done = 0;
    for (; count - done >= LORA_STRIP; done += LORA_STRIP) {
        uint64_t k = 0;
        for (; rank - k >= 4; k += 4) {
            lora_add_four(sums + done, left + k, right + k * columns + done, columns);
        }
        lora_add_rest(sums + done, left, right + done, k, rank, columns, LORA_STRIP);
    }
    lora_add_rest(sums + done, left, right + done, 0, rank, columns, count - done);
}

static void lora_row_anywhere(float *sums, const float *left, const float *right, uint64_t rank, uint64_t columns,
                              size_t count)
{
    lora_row(sums, left, right, rank, columns, count);
}

#if defined(__x86_64__)
/* The same with vectors of eight, and the same results. */
__attribute__((target("avx2"))) static void lora_row_by_eights(float *sums, const float *left, const float *right,
                                                               uint64_t rank, uint64_t columns, size_t count)
{
    lora_row(sums, left, right, rank, columns, count);
}
#endif

static lora_row_function *lora_row_here(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") ? lora_row_by_eights : lora_row_anywhere;
#else
    return lora_row_anywhere;
#endif
}

/* `count` elements of row i of a matrix, from column j on. */
static void lora_matrix_row(const coffer__lora_matrix *matrix, uint64_t i, uint64_t j, size_t count, float *elements)
{
    if (matrix->rank == 0) {
        memcpy(elements, matrix->right + i * matrix->columns + j, count * sizeof *elements);
        return;
    }
    memset(elements, 0, count * sizeof *elements);
    lora_row_here()(elements, matrix->left + i * matrix->rank, matrix->right + j, matrix->rank, matrix->columns, count);
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

/* `count` elements of row i of what is added, from column j on. */
typedef void lora_kind_function(const coffer__lora_product *product, uint64_t i, uint64_t j, size_t count,
                                float *elements);

static void lora_one_row(const coffer__lora_product *product, uint64_t i, uint64_t j, size_t count, float *elements)
{
    lora_matrix_row(&product->matrices[0], i, j, count, elements);
}

/* LoHa: element by element. */
static void lora_hadamard_row(const coffer__lora_product *product, uint64_t i, uint64_t j, size_t count,
                              float *elements)
{
    float others[COFFER__LORA_MAX_SUMS];
    lora_matrix_row(&product->matrices[0], i, j, count, elements);
    lora_matrix_row(&product->matrices[1], i, j, count, others);
    for (size_t k = 0; k < count; k++) {
        elements[k] = elements[k] * others[k];
    }
}

/* LoKr: a row of the second matrix, times each element of a row of the first one in turn. */
static void lora_kronecker_row(const coffer__lora_product *product, uint64_t i, uint64_t j, size_t count,
                               float *elements)
{
    const coffer__lora_matrix *first = &product->matrices[0];
    const coffer__lora_matrix *second = &product->matrices[1];
    for (size_t done = 0; done < count;) {
        const uint64_t at = (j + done) % second->columns;
        const uint64_t left = second->columns - at;
        const size_t now = left < count - done ? (size_t)left : count - done;
        float factor = 0;
        lora_matrix_row(first, i / second->rows, (j + done) / second->columns, 1, &factor);
        lora_matrix_row(second, i % second->rows, at, now, elements + done);
        for (size_t k = done; k < done + now; k++) {
            elements[k] = factor * elements[k];
        }
        done += now;
    }
}

static lora_kind_function *const lora_kinds[] = {
    [COFFER_ADAPTER_LORA] = lora_one_row,
    [COFFER_ADAPTER_DORA] = lora_one_row,
    [COFFER_ADAPTER_LOHA] = lora_hadamard_row,
    [COFFER_ADAPTER_LOKR] = lora_kronecker_row,
};

/* ---- stretches --------------------------------------------------------------------------------------------------- */

/* A stretch may span several short rows, or lie within a long one. */
static void lora_sum(const coffer__lora_product *product, uint64_t first, size_t count, float *sums)
{
    lora_kind_function *const row = lora_kinds[product->kind];
    uint64_t i = first / product->columns;
    uint64_t j = first % product->columns;
    for (size_t done = 0; done < count; i++, j = 0) {
        const uint64_t left = product->columns - j;
        const size_t now = left < count - done ? (size_t)left : count - done;
        row(product, i, j, now, sums + done);
        done += now;
    }
}

/* The factor of each element, where there are factors. */
static void lora_factors(const coffer__lora_product *product, uint64_t first, size_t count, double *factors)
{
    uint64_t i = first / product->columns;
    uint64_t j = first % product->columns;
    for (size_t k = 0; k < count; k++) {
        factors[k] = product->factors[product->by_columns ? j : i];
        j++;
        i += j == product->columns;
        j = j == product->columns ? 0 : j;
    }
}

void coffer__lora_add(const coffer__lora_product *product, uint64_t first, size_t count, float *values)
{
    float sums[COFFER__LORA_MAX_SUMS];
    double factors[COFFER__LORA_MAX_SUMS];
    const float scale = (float)product->scale;
    lora_sum(product, first, count, sums);
    for (size_t i = 0; i < count; i++) {
        const float change = scale * sums[i];
        values[i] = values[i] + change;
    }
    if (product->factors != NULL) {
        lora_factors(product, first, count, factors);
        for (size_t i = 0; i < count; i++) {
            values[i] = (float)factors[i] * values[i];
        }
    }
}

void coffer__lora_add_wide(const coffer__lora_product *product, uint64_t first, size_t count, double *values)
{
    float sums[COFFER__LORA_MAX_SUMS];
    double factors[COFFER__LORA_MAX_SUMS];
    lora_sum(product, first, count, sums);
    for (size_t i = 0; i < count; i++) {
        const double change = product->scale * (double)sums[i];
        values[i] = values[i] + change;
    }
    if (product->factors != NULL) {
        lora_factors(product, first, count, factors);
        for (size_t i = 0; i < count; i++) {
            values[i] = factors[i] * values[i];
        }
    }
}
