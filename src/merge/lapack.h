/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products and factorisations of matrices by a LAPACK with its BLAS: OpenBLAS, the reference, Apple's Accelerate, or
 * whatever the system has under their names. It is opened when it is first needed, so building does not need it, and
 * only what needs it fails where it is not installed. It computes with as many threads as it likes.
 *
 * Matrices are in F32 and column-major, as Fortran has them: element (i, j) is at i + j * rows. A row-major matrix is
 * the same memory as its transposed one, column-major. No dimension is above INT32_MAX, or 0.
 */
#ifndef COFFER_MERGE_LAPACK_H
#define COFFER_MERGE_LAPACK_H

#include "coffer.h"
#include "os.h"

/*
 * An INTEGER of Fortran has 32 bits in most libraries and 64 in some, and nothing about a library tells which. Numbers
 * that are not negative are the same to both where the lowest byte comes first, if zeros follow. Where the highest
 * comes first, only libraries with 32 bits can be called.
 */
typedef struct coffer__fortran_integer {
    _Alignas(8) int32_t value;
    int32_t zero;
} coffer__fortran_integer;

typedef const coffer__fortran_integer *coffer__fortran_number;

/* The lengths of texts come last, as gfortran has them since version 8. Libraries whose compiler passes none ignore
   them, as callers remove arguments on all systems that are built for. */
typedef struct coffer__lapack {
    coffer__os_library library;
    void (*sgemm)(const char *turn_a, const char *turn_b, coffer__fortran_number m, coffer__fortran_number n,
                  coffer__fortran_number k, const float *alpha, const float *a, coffer__fortran_number lda,
                  const float *b, coffer__fortran_number ldb, const float *beta, float *c, coffer__fortran_number ldc,
                  size_t turn_a_len, size_t turn_b_len);
    void (*sgeqrf)(coffer__fortran_number m, coffer__fortran_number n, float *a, coffer__fortran_number lda, float *tau,
                   float *work, coffer__fortran_number lwork, coffer__fortran_integer *info);
    void (*sorgqr)(coffer__fortran_number m, coffer__fortran_number n, coffer__fortran_number k, float *a,
                   coffer__fortran_number lda, const float *tau, float *work, coffer__fortran_number lwork,
                   coffer__fortran_integer *info);
    void (*sgesdd)(const char *job, coffer__fortran_number m, coffer__fortran_number n, float *a,
                   coffer__fortran_number lda, float *s, float *u, coffer__fortran_number ldu, float *vt,
                   coffer__fortran_number ldvt, float *work, coffer__fortran_number lwork,
                   coffer__fortran_integer *iwork, coffer__fortran_integer *info, size_t job_len);
} coffer__lapack;

/* Opens it. COFFER_ERR_UNSUPPORTED says which libraries were looked for, and what to install. */
coffer_status coffer__lapack_open(coffer__lapack *lapack, coffer_error *err);
/* Can be called for what was never opened, if it began as zeros. */
void coffer__lapack_close(coffer__lapack *lapack);

/* A matrix, or some of its neighbouring rows or columns: its columns are `stride` apart. With `turned` it stands for the
   transposed one. */
typedef struct coffer__lapack_matrix {
    const float *at;
    size_t stride;
    bool turned;
} coffer__lapack_matrix;

/* c = alpha * a * b + beta * c, where a is of rows x inner and b of inner x columns; the columns of c are `stride` apart.
   With beta 0, what was in c does not matter. */
typedef struct coffer__lapack_product {
    size_t rows;
    size_t columns;
    size_t inner;
    float alpha;
    float beta;
} coffer__lapack_product;
void coffer__lapack_multiply(const coffer__lapack *lapack, const coffer__lapack_product *product,
                             const coffer__lapack_matrix *a, const coffer__lapack_matrix *b, float *c, size_t stride);

/* Takes memory for a part from *to, if it is there at all; counts it in any case. */
static inline float *coffer__lapack_take(float **to, size_t *count, size_t rows, size_t columns)
{
    float *part = *to;
    *count += rows * columns;
    *to = part != NULL ? part + rows * columns : NULL;
    return part;
}

/* Numbers that the two below need to work with, for matrices of at most so many columns. */
size_t coffer__lapack_work(size_t columns);
/* Makes the columns of a matrix, at least as many rows as columns, an orthonormal basis of what they span, and more
   where they span less. `triangle`, unless it is NULL, becomes the square matrix by which the new columns are
   multiplied to get the old ones. */
coffer_status coffer__lapack_orthonormalize(const coffer__lapack *lapack, float *matrix, size_t rows, size_t columns,
                                            float *triangle, float *work, coffer_error *err);
/* Singular values of a square matrix, the largest first, and its vectors: matrix = left * values * right, where the
   left ones are columns and the right ones rows. The matrix is destroyed. `integers` are 8 times as many as it has
   columns. */
coffer_status coffer__lapack_decompose(const coffer__lapack *lapack, float *matrix, size_t columns, float *values,
                                       float *left, float *right, float *work, coffer__fortran_integer *integers,
                                       coffer_error *err);

#endif
