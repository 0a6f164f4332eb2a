/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The product of two thin matrices, a stretch of a row at a time, added to what is there.
 *
 * Each element is summed up by itself, along the rank from 0 on, with one rounding for each product and for each sum. So
 * it does not matter for the result how many elements a vector of the processor has, and a stretch may begin anywhere.
 * The innermost loops have a constant length and touch neighbours, so that compilers make vectors of them at any level
 * of optimisation.
 */
#include "lora.h"

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

/* A stretch may span several short rows, or lie within a long one. */
static void lora_sum(const coffer__lora_product *product, uint64_t first, size_t count, float *sums)
{
    lora_row_function *const row = lora_row_here();
    uint64_t i = first / product->columns;
    uint64_t j = first % product->columns;
    for (size_t done = 0; done < count; i++, j = 0) {
        const uint64_t left = product->columns - j;
        const size_t now = left < count - done ? (size_t)left : count - done;
        row(sums + done, product->left + i * product->rank, product->right + j, product->rank, product->columns, now);
        done += now;
    }
}

void coffer__lora_add(const coffer__lora_product *product, uint64_t first, size_t count, float *values)
{
    float sums[COFFER__LORA_MOST_SUMS] = { 0 };
    const float scale = (float)product->scale;
    lora_sum(product, first, count, sums);
    for (size_t i = 0; i < count; i++) {
        const float change = scale * sums[i];
        values[i] = values[i] + change;
    }
}

void coffer__lora_add_wide(const coffer__lora_product *product, uint64_t first, size_t count, double *values)
{
    float sums[COFFER__LORA_MOST_SUMS] = { 0 };
    lora_sum(product, first, count, sums);
    for (size_t i = 0; i < count; i++) {
        const double change = product->scale * (double)sums[i];
        values[i] = values[i] + change;
    }
}
