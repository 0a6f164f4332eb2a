/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX's tensors: TensorProto, which has its elements in one of four ways.
 *
 *   raw_data            their bytes, little-endian
 *   float_data and kin  numbers of Protocol Buffers; small types are in int32_data, by their bits
 *   external_data       where they are in another file of the folder
 *   nothing             there are none
 */
#ifndef COFFER_ONNX_ONNX_TENSOR_H
#define COFFER_ONNX_ONNX_TENSOR_H

#include "dense.h"
#include "file_window.h"

#define COFFER__ONNX_MAX_NAME 8192u /* bytes of a name; within a window */

/* Bytes of another file that a tensor is made of. */
typedef struct coffer__onnx_external {
    uint32_t file;
    uint32_t row; /* of the plan */
    uint64_t offset;
    uint64_t size;
} coffer__onnx_external;

/* What reading an ONNX file needs at hand. */
typedef struct coffer__onnx {
    const coffer__input_files *input;
    coffer__file_window *window;
    coffer__dense_rows rows;
    coffer__onnx_external *externals;
    size_t external_count;
    size_t external_capacity;
} coffer__onnx;

/* Puts the row of the TensorProto that lies from `at` to `end`. Its name is `prefix` with its own after it; `alone`: the
   prefix is all of it. */
coffer_status coffer__onnx_put_tensor(coffer__onnx *onnx, uint64_t at, uint64_t end, const char *prefix,
                                      size_t prefix_len, bool alone, coffer_error *err);
/* Puts the storages of all that is in other files, when all rows are there: tensors of the same bytes share one. Different
   tensors whose bytes overlap are COFFER_ERR_DAMAGED. */
coffer_status coffer__onnx_put_externals(coffer__onnx *onnx, coffer_error *err);
/* A text of the file, at most COFFER__ONNX_MAX_NAME bytes, in the window. */
coffer_status coffer__onnx_text(coffer__onnx *onnx, uint64_t at, uint64_t size, const char **text, coffer_error *err);

#endif
