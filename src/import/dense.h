/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of tensors whose elements lie one after another, the last dimension the fastest, or by strides: what most formats have. A reader
 * says what a tensor is and where its bytes are; what becomes of it is decided here, the same way for all of them.
 */
#ifndef COFFER_IMPORT_DENSE_H
#define COFFER_IMPORT_DENSE_H

#include "reader.h"
#include "writing.h"

/* The metadata of what is written as bytes: {"NAME": {"dtype": "INT4", "shape": [2, 3]}, ...}. */
#define COFFER__PACKED_DTYPES_KEY "coffer.packed_dtypes"

/* What all tensors of a file share. Begins as zeros but for the first three. */
typedef struct coffer__dense_rows {
    const coffer__wants *wants;
    coffer__import_plan *plan;
    coffer__writing packed; /* the JSON of what is written as bytes, without its braces */
    bool has_root;          /* wants->root names a part of the file */
    bool found_root;        /* a tensor of that part was there */
} coffer__dense_rows;

/* A tensor as its file describes it. */
typedef struct coffer__dense {
    const char *name;
    size_t name_len;
    const char *type;   /* as the format calls the elements; for messages, NUL-terminated */
    coffer_dtype dtype; /* COFFER_UNKNOWN_DTYPE: safetensors has none */
    uint8_t bits;       /* of an element */
    bool texts;         /* they are no numbers: such a tensor is left out without being asked for that */
    bool complex128;
    bool packed;  /* without a dtype, but integers of less than a byte, which --packed keeps as bytes */
    bool swapped; /* bytes of each element, of 2, 4 or 8, have the highest first */
    uint32_t rank;
    uint64_t shape[COFFER__PLAN_MAX_RANK];
    const int64_t *strides; /* in bytes, `rank` of them; NULL: elements lie one after another */
    uint64_t at;            /* the byte of the file that messages name */
} coffer__dense;

void coffer__dense_begin(coffer__dense_rows *rows, const coffer__wants *wants, coffer__import_plan *plan);
void coffer__dense_free(coffer__dense_rows *rows);
/* Bytes of all elements. False: the product is beyond 2^64-1, or of elements that do not fill bytes, unless these are
   `packed`: then the last byte may have space left. */
bool coffer__dense_size(const coffer__dense *tensor, uint64_t *size);
/* Puts a row that is all of a storage, or of COFFER__PLAN_NO_STORAGE for what has no bytes. The storage has
   coffer__dense_size bytes. COFFER_ERR_NO_EQUIVALENT for what has no dtype and is not wanted in another way. */
coffer_status coffer__dense_put(coffer__dense_rows *rows, const coffer__dense *tensor, uint32_t storage,
                                coffer_error *err);
/* Puts the row of a tensor that stays behind: all bytes of its storage, so that the account has them. `why` is
   NUL-terminated. */
coffer_status coffer__dense_skip(coffer__dense_rows *rows, const char *name, size_t name_len, uint32_t storage,
                                 const char *why, coffer_error *err);
/* Puts a storage of one stored piece, and the row that is all of it. */
coffer_status coffer__dense_put_at(coffer__dense_rows *rows, const coffer__dense *tensor, uint32_t file, uint64_t at,
                                   uint64_t size, coffer_error *err);
/* Puts the metadata when all tensors are there. COFFER_ERR_ROOT for a root that no tensor is below. */
coffer_status coffer__dense_finish(coffer__dense_rows *rows, coffer_error *err);

#endif
