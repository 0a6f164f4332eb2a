/* SPDX-License-Identifier: Apache-2.0 */
/* The readers that there are. */
#ifndef COFFER_IMPORT_READERS_H
#define COFFER_IMPORT_READERS_H

#include "reader.h"

/*
 * The table of readers. The first that knows a file takes it: who looks for signatures comes before who goes by the
 * ending of a name. A new reader is its file and its row here.
 */
/* clang-format off */
#define COFFER__READERS(ROW)                                                                                           \
    ROW(dcp)              /* a pickle of a certain class, or one that is called as its parts are */                    \
    ROW(npy)              /* the beginning is its own */                                                               \
    ROW(npz)              /* an archive whose first member is an array */                                              \
    ROW(pt2)              /* an archive that says what it is */                                                        \
    ROW(keras)            /* an archive with a member of a certain name */                                             \
    ROW(zero)             /* one that is called as DeepSpeed's are */                                                  \
    ROW(fsdp)             /* one that is called as the file of one of several processes */                             \
    ROW(torch_zip)        /* any other archive */                                                                      \
    ROW(gguf)             /* a signature of its own */                                                                 \
    ROW(arrow)            /* a signature, or a message that begins like no number */                                   \
    ROW(hdf5)             /* likewise */                                                                               \
    ROW(tf)               /* likewise, at its end */                                                                   \
    ROW(onnx)             /* a version, and fields that are known, until the graph */                                  \
    ROW(flax)             /* maps and keys, until the first array */                                                   \
    ROW(torch_stream)     /* a pickle of one certain number */                                                         \
    ROW(torch_tar)        /* another archive, whose first member has a certain name */                                 \
    ROW(nemo)             /* one that is called so, or has a certain member */                                         \
    ROW(keras_index)      /* JSON of a certain ending */                                                               \
    ROW(torch_index)      /* JSON of a certain name */                                                                 \
    ROW(pickle)           /* any other pickle that says so, or is called so */                                         \
    ROW(archive)          /* takes none by itself: a scan gives it some */                                             \
    ROW(code)             /* takes none by itself: a scan gives it some */
/* clang-format on */

#define READERS_DECLARE(name) extern const coffer__reader coffer__reader_##name;
COFFER__READERS(READERS_DECLARE)
#undef READERS_DECLARE

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
