/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two matrices of a sum of products. With the matrices of all terms one after the other,
 *
 *     s1 B1 A1 + s2 B2 A2 + …  =  [s1 B1 | s2 B2 | …] [A1 / A2 / …]  =  B A
 *
 * so nothing is lost but by rounding s B. A smaller rank is the best approximation of B A, which is never computed as a
 * whole: with B = Qb Rb and A' = Qa Ra, whose Q have orthonormal columns, the singular values of B A are those of
 * Rb Ra', a square matrix of the rank. A side that is shorter than the rank is padded with rows of zeros.
 */
#include "addition.h"
#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "root.h"

#include <math.h>
#include <string.h>

/* Of all terms of a module, for which matrices of this rank are factorised. */
#define ADDITION_MAX_RANK 16384u

typedef struct reduction {
    const coffer__lapack *lapack;
    size_t rows;
    size_t columns;
    size_t all;  /* the rank of the sum */
    size_t rank; /* the one of the result */
    size_t high; /* rows, and columns, padded to the rank of the sum */
    size_t wide;
    float *block; /* of all below */
    size_t block_count;
    float *left;          /* high x all: B, and then Qb */
    float *right;         /* wide x all: A', and then Qa */
    float *left_triangle; /* these are of all x all */
    float *right_triangle;
    float *core;
    float *left_turn;
    float *right_turn;
    float *values;
    float *work;
    coffer__fortran_integer *integers;
} reduction;

static coffer_status addition_fail(coffer_error *err, coffer_status status, const coffer__addition_item *item,
                                   const char *what)
{
    (void)coffer__lora_fail(err, status, coffer__lora_named(item->terms[0].module), what);
    return status;
}

/* ---- the sum ----------------------------------------------------------------------------------------------------- */

/* Puts a term's B into its columns of all of them, multiplied. */
static bool addition_scatter(const coffer__addition_item *item, const coffer__addition_term *term, const float *up,
                             size_t offset, float *to)
{
    const size_t rank = (size_t)term->module->rank;
    const size_t all = (size_t)item->added.rank_sum;
    bool finite = true;
    for (size_t i = 0; i < (size_t)item->rows; i++) {
        for (size_t k = 0; k < rank; k++) {
            const float value = (float)(term->scale * (double)up[i * rank + k]);
            finite = finite && isfinite(value);
            to[i * all + offset + k] = value;
        }
    }
    return finite;
}

/* `memory` is for the B of one term, and `buffer` for reading. */
static coffer_status addition_read(const coffer_addition *addition, const coffer__addition_item *item,
                                   const coffer__addition_pair *pair, float *memory, uint8_t *buffer, coffer_error *err)
{
    size_t offset = 0;
    for (size_t i = 0; i < item->added.adapter_count; i++) {
        const coffer__addition_term *term = &item->terms[i];
        const coffer *model = addition->adapters[term->adapter].lora->model;
        coffer_status status = coffer__lora_read(model, term->module->parts[COFFER__LORA_DOWN],
                                                 pair->down + offset * (size_t)item->columns, buffer, err);
        if (status == COFFER_OK) {
            status = coffer__lora_read(model, term->module->parts[COFFER__LORA_UP], memory, buffer, err);
        }
        if (status == COFFER_OK && !addition_scatter(item, term, memory, offset, pair->up)) {
            status = addition_fail(err, COFFER_ERR_NUMBER, item, "is beyond the range of F32 when it is scaled");
        }
        if (status != COFFER_OK) {
            return coffer__fail_path(err, status, coffer_shard_path(model, 0));
        }
        offset += (size_t)term->module->rank;
    }
    return COFFER_OK;
}

static coffer_status addition_reserve(const coffer_addition *addition, const coffer__addition_item *item, uint64_t rank,
                                      coffer__addition_pair *pair, coffer_error *err)
{
    uint64_t down = 0;
    uint64_t up = 0;
    if (!coffer__mul_u64(item->columns, rank, &down) || !coffer__mul_u64(item->rows, rank, &up) ||
        down > SIZE_MAX / sizeof(float) || up > SIZE_MAX / sizeof(float) - down) {
        return addition_fail(err, COFFER_ERR_MEMORY, item, "and what is added to it are larger than any memory");
    }
    pair->down_count = (size_t)down;
    pair->up_count = (size_t)up;
    pair->down = coffer__alloc_array(&addition->allocator, pair->down_count + pair->up_count, sizeof(float), err);
    if (pair->down == NULL) {
        return COFFER_ERR_MEMORY;
    }
    pair->up = pair->down + pair->down_count;
    return COFFER_OK;
}

/* The matrices of all terms, one after the other. */
static coffer_status addition_join(const coffer_addition *addition, const coffer__addition_item *item,
                                   coffer__addition_pair *pair, coffer_error *err)
{
    const coffer_status status = addition_reserve(addition, item, item->added.rank_sum, pair, err);
    if (status != COFFER_OK) {
        return status;
    }
    float *memory = coffer__alloc_array(&addition->allocator, pair->up_count, sizeof *memory, err);
    uint8_t *buffer = coffer__alloc_array(&addition->allocator, COFFER__LORA_BUFFER_SIZE, 1, err);
    const coffer_status read =
        memory == NULL || buffer == NULL ? COFFER_ERR_MEMORY : addition_read(addition, item, pair, memory, buffer, err);
    coffer__free_array(&addition->allocator, memory, pair->up_count, sizeof *memory);
    coffer__free_array(&addition->allocator, buffer, COFFER__LORA_BUFFER_SIZE, 1);
    return read;
}

/* ---- a smaller rank ---------------------------------------------------------------------------------------------- */

/* Called twice: without a block it only counts. */
static void reduction_divide(reduction *r, float *to)
{
    r->block_count = 0;
    r->left = coffer__lapack_take(&to, &r->block_count, r->high, r->all);
    r->right = coffer__lapack_take(&to, &r->block_count, r->wide, r->all);
    r->left_triangle = coffer__lapack_take(&to, &r->block_count, r->all, r->all);
    r->right_triangle = coffer__lapack_take(&to, &r->block_count, r->all, r->all);
    r->core = coffer__lapack_take(&to, &r->block_count, r->all, r->all);
    r->left_turn = coffer__lapack_take(&to, &r->block_count, r->all, r->all);
    r->right_turn = coffer__lapack_take(&to, &r->block_count, r->all, r->all);
    r->values = coffer__lapack_take(&to, &r->block_count, r->all, 1);
    r->work = coffer__lapack_take(&to, &r->block_count, coffer__lapack_work(r->all), 1);
}

/* Whether LAPACK can, and a size_t counts all of it: no more than two padded matrices and 12 of the rank. */
static bool reduction_fits(const coffer__addition_item *item)
{
    const uint64_t all = item->added.rank_sum;
    return all <= ADDITION_MAX_RANK && item->rows <= INT32_MAX && item->columns <= INT32_MAX &&
           (item->rows + item->columns + 16 * (all + 8)) * all <= SIZE_MAX / sizeof(float);
}

static coffer_status reduction_reserve(reduction *r, const coffer_addition *addition, const coffer__addition_item *item,
                                       coffer_error *err)
{
    if (!reduction_fits(item)) {
        return addition_fail(err, COFFER_ERR_UNSUPPORTED, item,
                             "and what is added to it are too large for LAPACK, or for this system's memory");
    }
    r->lapack = &addition->lapack;
    r->rows = (size_t)item->rows;
    r->columns = (size_t)item->columns;
    r->all = (size_t)item->added.rank_sum;
    r->rank = (size_t)item->added.rank;
    r->high = r->rows > r->all ? r->rows : r->all;
    r->wide = r->columns > r->all ? r->columns : r->all;
    reduction_divide(r, NULL);
    r->block = coffer__alloc_array(&addition->allocator, r->block_count, sizeof *r->block, err);
    r->integers = coffer__alloc_array(&addition->allocator, 8 * r->all, sizeof *r->integers, err);
    if (r->block == NULL || r->integers == NULL) {
        return COFFER_ERR_MEMORY;
    }
    reduction_divide(r, r->block);
    return COFFER_OK;
}

/* Column-major, with zeros below. */
static void reduction_fill(const reduction *r, const coffer__addition_pair *sum)
{
    memset(r->left, 0, r->high * r->all * sizeof *r->left);
    memset(r->right, 0, r->wide * r->all * sizeof *r->right);
    for (size_t k = 0; k < r->all; k++) {
        memcpy(r->right + k * r->wide, sum->down + k * r->columns, r->columns * sizeof *r->right);
        for (size_t i = 0; i < r->rows; i++) {
            r->left[k * r->high + i] = sum->up[i * r->all + k];
        }
    }
}

static coffer_status reduction_decompose(const reduction *r, const coffer__addition_item *item, coffer_error *err)
{
    const coffer__lapack_product product = { r->all, r->all, r->all, 1, 0 };
    const coffer__lapack_matrix a = { r->left_triangle, r->all, false };
    const coffer__lapack_matrix b = { r->right_triangle, r->all, true };
    coffer_status status =
        coffer__lapack_orthonormalize(r->lapack, r->left, r->high, r->all, r->left_triangle, r->work, err);
    if (status == COFFER_OK) {
        status = coffer__lapack_orthonormalize(r->lapack, r->right, r->wide, r->all, r->right_triangle, r->work, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer__lapack_multiply(r->lapack, &product, &a, &b, r->core, r->all);
    for (size_t i = 0; i < r->all * r->all; i++) {
        if (!isfinite(r->core[i])) {
            return addition_fail(err, COFFER_ERR_NUMBER, item, "and its other matrix have a product beyond F32");
        }
    }
    /* The triangle was used up. */
    return coffer__lapack_decompose(r->lapack, r->core, r->all, r->values, r->left_turn, r->left_triangle, r->work,
                                    r->integers, err);
}

/* What is dropped is summed up by itself: the difference of two nearly equal sums would not show it. */
static double reduction_kept(const reduction *r)
{
    double kept = 0;
    double lost = 0;
    for (size_t k = 0; k < r->all; k++) {
        const double square = (double)r->values[k] * (double)r->values[k];
        *(k < r->rank ? &kept : &lost) += square;
    }
    return lost > 0 ? 1 - lost / (kept + lost) : 1;
}

/* Each of the two matrices gets the square root of the values, so that both are of the same size. */
static void reduction_put(const reduction *r, const coffer__addition_pair *pair)
{
    const coffer__lapack_product down = { r->columns, r->rank, r->all, 1, 0 };
    const coffer__lapack_product up = { r->rank, r->rows, r->all, 1, 0 };
    const coffer__lapack_matrix left = { r->left, r->high, true };
    const coffer__lapack_matrix right = { r->right, r->wide, false };
    const coffer__lapack_matrix left_turn = { r->left_turn, r->all, true };
    const coffer__lapack_matrix right_turn = { r->right_turn, r->all, false };
    for (size_t k = 0; k < r->rank; k++) {
        const float root = (float)coffer__root((double)r->values[k]);
        for (size_t i = 0; i < r->all; i++) {
            r->left_turn[i + k * r->all] *= root;
            r->right_turn[i + k * r->all] = r->left_triangle[k + i * r->all] * root;
        }
    }
    coffer__lapack_multiply(r->lapack, &down, &right, &right_turn, pair->down, r->columns);
    coffer__lapack_multiply(r->lapack, &up, &left_turn, &left, pair->up, r->rank);
}

static coffer_status addition_reduce(const coffer_addition *addition, coffer__addition_item *item,
                                     const coffer__addition_pair *sum, coffer__addition_pair *pair, coffer_error *err)
{
    reduction r = { .block = NULL };
    coffer_status status = reduction_reserve(&r, addition, item, err);
    if (status == COFFER_OK) {
        status = addition_reserve(addition, item, item->added.rank, pair, err);
    }
    if (status == COFFER_OK) {
        reduction_fill(&r, sum);
        status = reduction_decompose(&r, item, err);
    }
    if (status == COFFER_OK) {
        item->added.kept = reduction_kept(&r);
        reduction_put(&r, pair);
    }
    coffer__free_array(&addition->allocator, r.block, r.block_count, sizeof *r.block);
    coffer__free_array(&addition->allocator, r.integers, 8 * r.all, sizeof *r.integers);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

coffer_status coffer__addition_compute(const coffer_addition *addition, coffer__addition_item *item,
                                       coffer__addition_pair *pair, coffer_error *err)
{
    coffer__addition_pair sum = { .down = NULL };
    coffer_status status = addition_join(addition, item, &sum, err);
    if (status == COFFER_OK && item->added.rank < item->added.rank_sum) {
        status = addition_reduce(addition, item, &sum, pair, err);
    } else if (status == COFFER_OK) {
        item->added.kept = 1;
        *pair = sum;
        return COFFER_OK;
    }
    coffer__addition_release(addition, &sum);
    return status;
}

void coffer__addition_release(const coffer_addition *addition, coffer__addition_pair *pair)
{
    coffer__free_array(&addition->allocator, pair->down, pair->down_count + pair->up_count, sizeof *pair->down);
    *pair = (coffer__addition_pair){ .down = NULL };
}
