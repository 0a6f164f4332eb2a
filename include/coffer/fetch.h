/* SPDX-License-Identifier: Apache-2.0 */
/* coffer/fetch.h - models from elsewhere, downloaded into a folder. All of it is there since 0.2. */
#ifndef COFFER_FETCH_H
#define COFFER_FETCH_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a model is fetched. */
typedef struct coffer_fetch_options {
    size_t struct_size;
    coffer_progress progress; /* in bytes of all files, those that were there already included; NULL: none */
    void *progress_ctx;
    uint32_t threads; /* connections at most, up to 64; 0: 64, or fewer where that many do not pay */
    bool force;       /* replace files that are there, and take a model of one file away that is in the way */
    bool *unchanged;  /* becomes true when all of it was there already, and nothing was done; NULL: it is not told */
} coffer_fetch_options;
#define COFFER_FETCH_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(coffer_fetch_options), NULL, NULL, 0, false, NULL                                                       \
    }

/*
 * Downloads a model that was opened by URL (or copies one that was opened by path) into a folder that exists, under
 * its files' names; of several files with an index, of a model named as a whole with its config.json, tokenizer and
 * the like. Open it with `to_fetch`. With `count` tensors of the model in `tensors`, in any order, the files have only
 * those, and the index names those; with NULL (`count` is then coffer_count) all, and every file as it is, byte for
 * byte, the index too. Files get their names when every one of them is complete, and those of several files as by
 * coffer_model_writer: COFFER_ERR_SHADOWED, COFFER_ERR_LOCKED, COFFER_ERR_UNFINISHED. Until then they are NAME.coffer-
 * part, with which the next call for the same continues, however this one ended. A SHA-256 that the server states is
 * compared. Nothing is done, with COFFER_OK, where all files are there with the same bytes, which is shown by that
 * SHA-256 or, of small files and near ones, by comparing them. docs/network.md has the rest. COFFER_ERR_NO_TENSOR when
 * the list is empty, COFFER_ERR_DATA_TRUNCATED for a tensor that is not whole.
 */
COFFER_API coffer_status coffer_fetch(const coffer *model, const coffer_tensor *const *tensors, size_t count,
                                      const char *folder, const coffer_fetch_options *options, coffer_error *err);

#ifdef __cplusplus
}
#endif

#endif
