/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two matrices of a difference D: its best approximation of the wanted rank, nearly. A few random directions are
 * turned towards those in which D is largest, by D'D again and again, with an orthonormal basis after each time (Halko,
 * Martinsson and Tropp, "Finding structure with randomness", 2011). A singular value decomposition of D in that basis,
 * which is small, gives the rest.
 *
 *   right     columns x width   the basis, orthonormal
 *   left      rows x width      D right, and in the end a basis of it
 *   next      columns x width   D' left: what the next basis is of
 *
 * D passes through a tile of whole rows, so that its size does not matter; if it fits into the tile it is computed only
 * once. In the file rows come one after the other, so in memory that is column-major the tile is its transposed matrix.
 *
 * The basis has some columns more than the rank. A small matrix has one of all its rows or columns, and then nothing is
 * lost. The directions begin with the same random numbers each time, so a result depends on D and the library alone.
 */
#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "extract.h"
#include "root.h"

#include <math.h>
#include <string.h>

#define FACTOR_TILE_ELEMENTS ((size_t)1 << 24) /* 64 MiB */
#define FACTOR_SMALL 128u                      /* rows or columns, with which the basis is whole */
#define FACTOR_MORE 16u                        /* columns of the basis than the rank has */
#define FACTOR_MIN_PASSES 3u
#define FACTOR_MAX_PASSES 8u
/* A basis is good enough when the last pass found less than this share of what is left of D. */
#define FACTOR_GAIN 0.01
/* A basis is good enough when so little of D is left that rounding may have made it. */
#define FACTOR_ROUNDING 1e-7

typedef struct factoring {
    const coffer_extraction *extraction;
    coffer__extract_item *item;
    coffer__extract_progress *progress;
    coffer_read_options reading;
    size_t rows;
    size_t columns;
    size_t width;
    size_t rank;
    float *block; /* of all below */
    size_t block_count;
    float *tile;
    size_t tile_rows;
    bool tile_is_all; /* D is there, whole */
    float *left;
    float *right;
    float *next;
    float *triangle; /* these are of width x width */
    float *left_turn;
    float *right_turn;
    float *small_right;
    float *values;
    float *work;
    coffer__fortran_integer *integers;
    float scale; /* a power of two: products of D with itself stay in range */
    coffer_error *err;
} factoring;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Called twice: without a block it only counts. */
static void factor_divide(factoring *f, float *to)
{
    f->block_count = 0;
    f->tile = coffer__lapack_take(&to, &f->block_count, f->tile_rows, f->columns);
    f->left = coffer__lapack_take(&to, &f->block_count, f->rows, f->width);
    f->right = coffer__lapack_take(&to, &f->block_count, f->columns, f->width);
    f->next = coffer__lapack_take(&to, &f->block_count, f->columns, f->width);
    f->triangle = coffer__lapack_take(&to, &f->block_count, f->width, f->width);
    f->left_turn = coffer__lapack_take(&to, &f->block_count, f->width, f->width);
    f->right_turn = coffer__lapack_take(&to, &f->block_count, f->width, f->width);
    f->small_right = coffer__lapack_take(&to, &f->block_count, f->width, f->width);
    f->values = coffer__lapack_take(&to, &f->block_count, f->width, 1);
    f->work = coffer__lapack_take(&to, &f->block_count, coffer__lapack_work(f->width), 1);
}

/* Whether the parts are of sizes that a size_t counts: 12 times the elements and those of a tile are more than all. */
static bool factor_fits(const coffer__extract_item *item)
{
    uint64_t elements = 0;
    return item->rows <= INT32_MAX && item->columns <= INT32_MAX &&
           coffer__mul_u64(item->rows, item->columns, &elements) && elements <= SIZE_MAX / sizeof(float) / 16;
}

static coffer_status factor_reserve(factoring *f)
{
    const coffer__extract_item *item = f->item;
    if (!factor_fits(item)) {
        coffer__fail(f->err, COFFER_ERR_UNSUPPORTED, "tensor %q is too large for LAPACK, or for this system's memory",
                     item->base->name, (size_t)item->base->name_len);
        return coffer__fail_tensor(f->err, COFFER_ERR_UNSUPPORTED, item->base->name, item->base->name_len);
    }
    f->rows = (size_t)item->rows;
    f->columns = (size_t)item->columns;
    f->rank = (size_t)item->reported.rank;
    const size_t least = f->rows < f->columns ? f->rows : f->columns;
    const size_t wanted = least <= FACTOR_SMALL ? least : f->rank + FACTOR_MORE;
    f->width = wanted < least ? wanted : least;
    f->tile_rows = f->columns < FACTOR_TILE_ELEMENTS ? FACTOR_TILE_ELEMENTS / f->columns : 1;
    f->tile_rows = f->tile_rows < f->rows ? f->tile_rows : f->rows;
    factor_divide(f, NULL);
    f->block = coffer__alloc_array(&f->extraction->allocator, f->block_count, sizeof *f->block, f->err);
    f->integers = coffer__alloc_array(&f->extraction->allocator, 8 * f->width, sizeof *f->integers, f->err);
    if (f->block == NULL || f->integers == NULL) {
        return COFFER_ERR_MEMORY;
    }
    factor_divide(f, f->block);
    return COFFER_OK;
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* While an item lasts nothing is done that counts, and the user is only asked. */
static int factor_tell(void *ctx, uint64_t done, uint64_t total)
{
    const coffer__extract_progress *progress = ctx;
    (void)done;
    (void)total;
    return progress->call(progress->ctx, progress->done, progress->total);
}

/* Brings rows of D into the tile. Where these are all that there are, they stay. */
static coffer_status factor_fill(factoring *f, size_t first, size_t rows)
{
    if (f->tile_is_all) {
        return f->reading.progress != NULL && factor_tell(f->progress, 0, 0) != 0
                   ? coffer__fail(f->err, COFFER_ERR_CANCELLED, "cancelled by the progress callback")
                   : COFFER_OK;
    }
    f->tile_is_all = rows == f->rows;
    return coffer__extract_subtract(f->extraction, f->item, (uint64_t)first * f->columns, rows * f->columns, f->tile,
                                    &f->reading, f->err);
}

/* left = D right, and next = D' left, by one look at D. */
static coffer_status factor_pass(factoring *f)
{
    const coffer__lapack *lapack = &f->extraction->lapack;
    coffer_status status = COFFER_OK;
    for (size_t first = 0; first < f->rows && status == COFFER_OK; first += f->tile_rows) {
        const size_t rows = f->rows - first < f->tile_rows ? f->rows - first : f->tile_rows;
        const coffer__lapack_matrix tile = { f->tile, f->columns, false };
        const coffer__lapack_matrix turned = { f->tile, f->columns, true };
        const coffer__lapack_matrix left = { f->left + first, f->rows, false };
        const coffer__lapack_matrix right = { f->right, f->columns, false };
        const coffer__lapack_product forth = { rows, f->width, f->columns, f->scale, 0 };
        const coffer__lapack_product back = { f->columns, f->width, rows, f->scale, first == 0 ? 0 : 1 };
        status = factor_fill(f, first, rows);
        if (status == COFFER_OK) {
            coffer__lapack_multiply(lapack, &forth, &turned, &right, f->left + first, f->rows);
            coffer__lapack_multiply(lapack, &back, &tile, &left, f->next, f->columns);
        }
    }
    return status;
}

/* Numbers from -1 to 1, the same each time (splitmix64). */
static void factor_randomize(factoring *f)
{
    uint64_t state = 0;
    for (size_t i = 0; i < f->columns * f->width; i++) {
        state += UINT64_C(0x9E3779B97F4A7C15);
        uint64_t bits = (state ^ (state >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
        bits = (bits ^ (bits >> 27)) * UINT64_C(0x94D049BB133111EB);
        f->right[i] = (float)(bits >> 40) / (float)(1 << 23) - 1;
    }
}

static double factor_square(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    return sum;
}

/* The basis, and D in it. */
static coffer_status factor_find_basis(factoring *f)
{
    const coffer__lapack *lapack = &f->extraction->lapack;
    const double all = f->item->square * (double)f->scale * (double)f->scale;
    double before = 0;
    factor_randomize(f);
    for (unsigned pass = 1;; pass++) {
        coffer_status status =
            coffer__lapack_orthonormalize(lapack, f->right, f->columns, f->width, NULL, f->work, f->err);
        if (status == COFFER_OK) {
            status = factor_pass(f);
        }
        const double found = factor_square(f->left, f->rows * f->width);
        const double enough = FACTOR_GAIN * (found < all ? all - found : 0) + FACTOR_ROUNDING * all;
        if (status != COFFER_OK || pass == FACTOR_MAX_PASSES ||
            (pass >= FACTOR_MIN_PASSES && found - before <= enough)) {
            return status;
        }
        float *used = f->right;
        f->right = f->next;
        f->next = used;
        before = found;
    }
}

/* ---- the matrices ------------------------------------------------------------------------------------------------ */

/* What is lost is summed up by itself, since the difference of two nearly equal sums would not show it: the values beyond
   the rank, and what of D is outside of the basis. Of that only the two sums are known. */
static double factor_kept(const factoring *f)
{
    const double all = f->item->square * (double)f->scale * (double)f->scale;
    const double dropped = factor_square(f->values + f->rank, f->width - f->rank);
    const double found = factor_square(f->values, f->width);
    const bool whole = f->width == (f->rows < f->columns ? f->rows : f->columns);
    const double lost = dropped + (whole || found > all ? 0 : all - found);
    return lost < all ? 1 - lost / all : 0;
}

/* Each of the two matrices gets the square root of the values, so that both are of the same size. Afterwards D is
   nearly (left left_turn) (right right_turn)', with as many columns of the turns as the rank has. */
static coffer_status factor_decompose(factoring *f)
{
    const coffer__lapack *lapack = &f->extraction->lapack;
    coffer_status status =
        coffer__lapack_orthonormalize(lapack, f->left, f->rows, f->width, f->triangle, f->work, f->err);
    if (status == COFFER_OK) {
        status = coffer__lapack_decompose(lapack, f->triangle, f->width, f->values, f->left_turn, f->small_right,
                                          f->work, f->integers, f->err);
    }
    for (size_t k = 0; k < f->rank && status == COFFER_OK; k++) {
        const float root = (float)coffer__root((double)f->values[k] / (double)f->scale);
        for (size_t i = 0; i < f->width; i++) {
            f->left_turn[i + k * f->width] *= root;
            f->right_turn[i + k * f->width] = f->small_right[k + i * f->width] * root;
        }
    }
    f->item->reported.kept = status == COFFER_OK ? factor_kept(f) : 0;
    return status;
}

/* What has a row for each of the rank: basis times turn, column-major, of which the other side sees the rows. */
static void factor_put_down(const factoring *f, const float *basis, size_t rows, const float *turn, float *to)
{
    const coffer__lapack_product product = { rows, f->rank, f->width, 1, 0 };
    const coffer__lapack_matrix a = { basis, rows, false };
    const coffer__lapack_matrix b = { turn, f->width, false };
    coffer__lapack_multiply(&f->extraction->lapack, &product, &a, &b, to, rows);
}

/* What has a column for each of the rank: the same the other way round. */
static void factor_put_up(const factoring *f, const float *basis, size_t rows, const float *turn, float *to)
{
    const coffer__lapack_product product = { f->rank, rows, f->width, 1, 0 };
    const coffer__lapack_matrix a = { turn, f->width, true };
    const coffer__lapack_matrix b = { basis, rows, true };
    coffer__lapack_multiply(&f->extraction->lapack, &product, &a, &b, to, f->rank);
}

/* Of a tensor that its adapter has turned, down is of the rows. */
static coffer_status factor_put(const factoring *f, coffer__extract_pair *pair)
{
    const bool turned = f->item->reported.transposed;
    pair->down_count = f->rank * (turned ? f->rows : f->columns);
    pair->up_count = f->rank * (turned ? f->columns : f->rows);
    pair->down =
        coffer__alloc_array(&f->extraction->allocator, pair->down_count + pair->up_count, sizeof *pair->down, f->err);
    if (pair->down == NULL) {
        return COFFER_ERR_MEMORY;
    }
    pair->up = pair->down + pair->down_count;
    if (turned) {
        factor_put_down(f, f->left, f->rows, f->left_turn, pair->down);
        factor_put_up(f, f->right, f->columns, f->right_turn, pair->up);
    } else {
        factor_put_down(f, f->right, f->columns, f->right_turn, pair->down);
        factor_put_up(f, f->left, f->rows, f->left_turn, pair->up);
    }
    return COFFER_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* A power of two that brings the length of D near 1, as far as F32 has one. */
static float factor_scale(double square)
{
    float scale = 1;
    for (unsigned i = 0; i < 120 && square >= 4; i++) {
        square /= 4;
        scale /= 2;
    }
    for (unsigned i = 0; i < 120 && square < 0.25; i++) {
        square *= 4;
        scale *= 2;
    }
    return scale;
}

coffer_status coffer__extract_factor(const coffer_extraction *extraction, coffer__extract_item *item,
                                     coffer__extract_pair *pair, coffer__extract_progress *progress, uint32_t threads,
                                     coffer_error *err)
{
    factoring f = { .extraction = extraction, .item = item, .progress = progress, .err = err };
    f.reading = (coffer_read_options)COFFER_READ_OPTIONS_INIT;
    f.reading.threads = threads;
    f.reading.progress = progress->call != NULL ? factor_tell : NULL;
    f.reading.progress_ctx = progress;
    f.scale = factor_scale(item->square);
    coffer_status status = factor_reserve(&f);
    if (status == COFFER_OK) {
        status = factor_find_basis(&f);
    }
    if (status == COFFER_OK) {
        status = factor_decompose(&f);
    }
    if (status == COFFER_OK) {
        status = factor_put(&f, pair);
    }
    coffer__free_array(&extraction->allocator, f.block, f.block_count, sizeof *f.block);
    coffer__free_array(&extraction->allocator, f.integers, 8 * f.width, sizeof *f.integers);
    return status == COFFER_OK || err == NULL || err->tensor[0] != '\0'
               ? status
               : coffer__fail_tensor(err, status, item->base->name, item->base->name_len);
}

void coffer__extract_pair_free(const coffer_extraction *extraction, coffer__extract_pair *pair)
{
    coffer__free_array(&extraction->allocator, pair->down, pair->down_count + pair->up_count, sizeof *pair->down);
    *pair = (coffer__extract_pair){ .down = NULL };
}
