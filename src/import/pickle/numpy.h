/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of NumPy's that lie in files and in archives. */
#ifndef COFFER_PICKLE_NUMPY_H
#define COFFER_PICKLE_NUMPY_H

#include "zip.h"

/* A file that is an array of NumPy's. One of objects is left alone, unless it is scanned: *objects is where their pickle
   begins, else 0. */
coffer_status coffer__numpy_put_file(const coffer__reader_file *file, uint64_t *objects, coffer_error *err);
/* A member that is an array of NumPy's, whatever it is called: puts its row; or for a scan findings, as one of objects is a
   pickle. */
coffer_status coffer__numpy_put_member(const coffer__reader_file *file, const coffer__zip *zip,
                                       coffer__zip_member *member, coffer_error *err);

#endif
