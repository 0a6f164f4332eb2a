/* SPDX-License-Identifier: Apache-2.0 */
/* The readers that there are. One row of readers.c names each. */
#ifndef COFFER_IMPORT_READERS_H
#define COFFER_IMPORT_READERS_H

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

/* ---- what else stands above this room and is called from it ---------------------------------------------------------- */

/* Fills the plan, which is begun and empty, with findings, and sets its noun; *reader is whoever knows the input.
   COFFER_ERR_UNKNOWN_INPUT for what is no pickle, archive or code either. */
coffer_status coffer__scan_input(const coffer__input_files *input, const coffer__wants *wants,
                                 coffer__import_plan *plan, const coffer__reader **reader, coffer_error *err);
/* *would is false only where it is shown that a loader that takes the input for a pickle, as pickle.load, joblib and
   torch.load do with any file that they do not know, stops before it imports anything: the answer to "unsure" of
   pickle_scan.h, without findings. Fails only where the file cannot be read or there is no memory. */
coffer_status coffer__scan_would_import(const coffer__input_files *input, const coffer_allocator *allocator,
                                        bool *would, coffer_error *err);
/* What coffer__reader_pickle reads, in the whole file or in a part of it: arrays of objects are pickles. */
coffer_status coffer__reader_pickle_at(const coffer__reader_file *file, coffer_error *err);

#endif
