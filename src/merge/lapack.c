/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the library, and calling it by its Fortran names: see lapack.h for the contract. */
#include "lapack.h"

#include "error.h"

#include <stddef.h>
#include <string.h>

/* A block of columns that the factorisations work on at a time; the libraries choose 32 or 64. */
#define LAPACK_BLOCK 64u

/* The fastest first. A system's loader knows its own spelling only. The BLAS that liblapack depends on is searched with
   it. */
static const char *const lapack_names[] = { "libopenblas.so.0", "liblapack.so.3",
                                            "/System/Library/Frameworks/Accelerate.framework/Accelerate",
                                            "libopenblas.dll" };

static const struct lapack_row {
    const char *name;
    size_t place;
} lapack_rows[] = {
    { "sgemm_", offsetof(coffer__lapack, sgemm) },
    { "sgeqrf_", offsetof(coffer__lapack, sgeqrf) },
    { "sorgqr_", offsetof(coffer__lapack, sorgqr) },
    { "sgesdd_", offsetof(coffer__lapack, sgesdd) },
};

#define LAPACK_ROWS (sizeof lapack_rows / sizeof lapack_rows[0])

/* ---- the library ------------------------------------------------------------------------------------------------- */

/* Finds all functions, or the first one that is missing: NULL for none. */
static const char *lapack_find(coffer__lapack *lapack)
{
    for (size_t i = 0; i < LAPACK_ROWS; i++) {
        if (!coffer__os_library_find(&lapack->library, lapack_rows[i].name, (char *)lapack + lapack_rows[i].place)) {
            return lapack_rows[i].name;
        }
    }
    return NULL;
}

static const char *lapack_advice(void)
{
    return coffer__os_choose(
        "install OpenBLAS (Debian, Ubuntu: apt install libopenblas0; Fedora, Arch, Alpine: openblas)",
        "put OpenBLAS's libopenblas.dll next to the program");
}

coffer_status coffer__lapack_open(coffer__lapack *lapack, coffer_error *err)
{
    const char *lacking = NULL;
    for (size_t i = 0; i < sizeof lapack_names / sizeof lapack_names[0]; i++) {
        if (!coffer__os_library_open(&lapack->library, lapack_names[i])) {
            continue;
        }
        /* An OpenBLAS may be built without LAPACK. */
        lacking = lapack_find(lapack);
        if (lacking == NULL) {
            return COFFER_OK;
        }
        coffer__os_library_close(&lapack->library);
    }
    lapack->library.handle = NULL;
    if (!coffer__os_can_load()) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "matrices are factorised by LAPACK, and this copy of libcoffer was built to load no "
                            "libraries (COFFER_DLOPEN=OFF)");
    }
    if (lacking != NULL) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED, "the LAPACK of this system has no %s: %s", lacking,
                            lapack_advice());
    }
    return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                        "matrices are factorised by LAPACK, and no library that has it can be loaded here: %s",
                        lapack_advice());
}

void coffer__lapack_close(coffer__lapack *lapack)
{
    if (lapack->library.handle != NULL) {
        coffer__os_library_close(&lapack->library);
    }
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static coffer__fortran_integer lapack_integer(size_t value)
{
    return (coffer__fortran_integer){ .value = (int32_t)value, .zero = 0 };
}

/* NaNs are the only reason for which sgesdd fails, and sgeqrf and sorgqr have none: their arguments are right. */
static coffer_status lapack_answer(const coffer__fortran_integer *info, const char *name, coffer_error *err)
{
    return info->value == 0 ? COFFER_OK
                            : coffer__fail(err, COFFER_ERR_NUMBER,
                                           "%s of the system's LAPACK fails with %d: the numbers are too far apart, "
                                           "or the library is damaged",
                                           name, (int64_t)info->value);
}

void coffer__lapack_multiply(const coffer__lapack *lapack, const coffer__lapack_product *product,
                             const coffer__lapack_matrix *a, const coffer__lapack_matrix *b, float *c, size_t stride)
{
    const coffer__fortran_integer m = lapack_integer(product->rows);
    const coffer__fortran_integer n = lapack_integer(product->columns);
    const coffer__fortran_integer k = lapack_integer(product->inner);
    const coffer__fortran_integer lda = lapack_integer(a->stride);
    const coffer__fortran_integer ldb = lapack_integer(b->stride);
    const coffer__fortran_integer ldc = lapack_integer(stride);
    lapack->sgemm(a->turned ? "T" : "N", b->turned ? "T" : "N", &m, &n, &k, &product->alpha, a->at, &lda, b->at, &ldb,
                  &product->beta, c, &ldc, 1, 1);
}

/* sgeqrf and sorgqr want a block of columns; sgesdd of a square matrix wants 4 * n * n + 7 * n, in some versions 5 * n
   * n, and works faster with a block more. */
size_t coffer__lapack_work(size_t columns)
{
    return 5 * columns * columns + (LAPACK_BLOCK + 16) * columns;
}

/* The factors of the reflections are at the beginning of what there is to work with. */
coffer_status coffer__lapack_orthonormalize(const coffer__lapack *lapack, float *matrix, size_t rows, size_t columns,
                                            float *triangle, float *work, coffer_error *err)
{
    const coffer__fortran_integer m = lapack_integer(rows);
    const coffer__fortran_integer n = lapack_integer(columns);
    const coffer__fortran_integer size = lapack_integer(coffer__lapack_work(columns) - columns);
    coffer__fortran_integer info = { 0, 0 };
    lapack->sgeqrf(&m, &n, matrix, &m, work, work + columns, &size, &info);
    coffer_status status = lapack_answer(&info, "sgeqrf", err);
    for (size_t j = 0; status == COFFER_OK && triangle != NULL && j < columns; j++) {
        memset(triangle + j * columns, 0, columns * sizeof *triangle);
        memcpy(triangle + j * columns, matrix + j * rows, (j + 1) * sizeof *triangle);
    }
    if (status != COFFER_OK) {
        return status;
    }
    lapack->sorgqr(&m, &n, &n, matrix, &m, work, work + columns, &size, &info);
    return lapack_answer(&info, "sorgqr", err);
}

coffer_status coffer__lapack_decompose(const coffer__lapack *lapack, float *matrix, size_t columns, float *values,
                                       float *left, float *right, float *work, coffer__fortran_integer *integers,
                                       coffer_error *err)
{
    const coffer__fortran_integer n = lapack_integer(columns);
    const coffer__fortran_integer size = lapack_integer(coffer__lapack_work(columns));
    coffer__fortran_integer info = { 0, 0 };
    lapack->sgesdd("S", &n, &n, matrix, &n, values, left, &n, right, &n, work, &size, integers, &info, 1);
    return lapack_answer(&info, "sgesdd", err);
}
