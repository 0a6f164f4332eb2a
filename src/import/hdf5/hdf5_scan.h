/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs would run of an HDF5 file.
 *
 *   Keras      makes layers of the configuration in an attribute (model_config)
 *   PyTables   unpickles attributes and lists of bytes; others keep pickles in arrays of bytes
 *   any        opens other files that links and datasets lead to
 */
#ifndef COFFER_HDF5_HDF5_SCAN_H
#define COFFER_HDF5_HDF5_SCAN_H

#include "reader.h"

/* Puts the findings of a file. What is not read is a finding, too; COFFER_ERR_DAMAGED where it breaks the rules. */
coffer_status coffer__hdf5_scan(const coffer__reader_file *file, coffer_error *err);

#endif
