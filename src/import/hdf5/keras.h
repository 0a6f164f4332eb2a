/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in HDF5, as Keras writes them: what its readers share. */
#ifndef COFFER_HDF5_KERAS_H
#define COFFER_HDF5_KERAS_H

#include "dense.h"
#include "hdf5.h"

/* What reading one model needs, which may be several files. */
typedef struct coffer__keras {
    const coffer__input_files *input;
    const coffer__wants *wants;
    coffer__import_plan *plan;
    coffer__dense_rows rows;
    coffer__writing names; /* the JSON of layers' names, without its braces */
    bool found_root;       /* wants->root has a tensor */
} coffer__keras;

/* Begins; coffer__keras_free follows also after a failure. */
coffer_status coffer__keras_begin(coffer__keras *keras, const coffer__input_files *input, const coffer__wants *wants,
                                  coffer__import_plan *plan, coffer_error *err);
/* Puts the rows of the HDF5 file in bytes [start, start + size) of a file. */
coffer_status coffer__keras_read(coffer__keras *keras, uint32_t file, uint64_t file_size, uint64_t start, uint64_t size,
                                 coffer_error *err);
/* Puts the metadata, and looks for places that two tensors have. */
coffer_status coffer__keras_finish(coffer__keras *keras, coffer_error *err);
void coffer__keras_free(coffer__keras *keras);

#endif
