/* SPDX-License-Identifier: Apache-2.0 */
/* The readers that there are. One row of readers.c names each. */
#ifndef COFFER_CONVERT_READERS_H
#define COFFER_CONVERT_READERS_H

#include "reader.h"

extern const coffer__reader coffer__reader_pt2;
extern const coffer__reader coffer__reader_torch_zip;
extern const coffer__reader coffer__reader_torch_stream;
extern const coffer__reader coffer__reader_torch_tar;
extern const coffer__reader coffer__reader_nemo;
extern const coffer__reader coffer__reader_torch_index;
extern const coffer__reader coffer__reader_dcp;
extern const coffer__reader coffer__reader_fsdp;
extern const coffer__reader coffer__reader_zero;
extern const coffer__reader coffer__reader_pickle;
extern const coffer__reader coffer__reader_npy;
extern const coffer__reader coffer__reader_npz;
extern const coffer__reader coffer__reader_gguf;
extern const coffer__reader coffer__reader_hdf5;
extern const coffer__reader coffer__reader_keras;
extern const coffer__reader coffer__reader_keras_index;
extern const coffer__reader coffer__reader_tf;
extern const coffer__reader coffer__reader_flax;
extern const coffer__reader coffer__reader_onnx;
extern const coffer__reader coffer__reader_arrow;
/* Of scans alone: an archive of anything, and what is or names code. */
extern const coffer__reader coffer__reader_archive;
extern const coffer__reader coffer__reader_code;

#endif
