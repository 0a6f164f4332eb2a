/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a NumPy array (.npy):
 *
 *    0  6 bytes  93 "NUMPY"
 *    6  u8, u8   version: 1.0, 2.0 or 3.0
 *    8  u16      length of the rest of the header (version 1.0), little-endian; u32 from 2.0 on
 *       text     a dict as Python writes it, with exactly three keys: 'descr': the type of elements, "<f4",
 *                'fortran_order': False or True, 'shape': a tuple of integers; then spaces and a line's end
 *
 * The elements follow. NumPy pads the header so that they begin at a multiple of 64; nobody relies on it.
 */
#ifndef COFFER_PICKLE_NPY_HEADER_H
#define COFFER_PICKLE_NPY_HEADER_H

#include "pickle_names.h"
#include "plan.h"

/* NumPy itself refuses longer ones, unless it is told otherwise. */
#define COFFER__NPY_MAX ((size_t)12 + 10000)

typedef struct coffer__npy {
    coffer__element element; /* with `lack` it is nothing */
    const char *lack;   /* why safetensors cannot express it, a sentence; NULL: it can. With it there may be no shape */
    bool objects;       /* the elements are a pickle */
    bool void_bfloat16; /* 2 bytes without a type, which is how bfloat16 is written */
    bool void_byte;     /* 1 byte without a type, which may be anything; `element` is COFFER__ELEMENT_BYTE */
    bool swapped;       /* elements have their highest byte first */
    bool fortran;       /* the first dimension is the fastest */
    size_t rank;
    uint64_t shape[COFFER__PLAN_MAX_RANK];
    size_t size;       /* of the header: where the elements begin */
    const char *fault; /* why it is not a header; NULL: all is well */
    size_t fault_at;   /* the byte of the fault */
} coffer__npy;

/*
 * Reads a header of which the first `size` bytes are given. When it is longer, npy->size is all of what is needed, at most
 * COFFER__NPY_MAX, and the result is COFFER_NEED_MORE. COFFER_ERR_ARRAY with npy->fault, a part of a sentence, when it
 * is damaged. Pure.
 */
coffer_status coffer__npy_read(coffer__npy *npy, const uint8_t *bytes, size_t size);

/* The element that NumPy calls by a letter and a number of bytes, as "f4"; COFFER__ELEMENT_NONE for all that it has and we
   have not. "V2" is bfloat16, "f1" the float of 8 bits that is called so. */
coffer__element coffer__numpy_element(const char *code, size_t code_len);

#endif
