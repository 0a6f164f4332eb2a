/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening several files as one model: the steps by which what model.h describes is made, in the
 * order of this list.
 */
#ifndef COFFER_MODEL_SHARDED_H
#define COFFER_MODEL_SHARDED_H

#include "coffer.h"
#include "model.h"

/* sharded.c: opens the model of an index, or of files without one: `count` names in the folder of
   `path`, the first of them. `at` is NULL for a path that is no URL; the model does not own its
   client yet. The options were checked before. Failures carry the path. */
coffer_status coffer__sharded_open(coffer **model, const char *path, const coffer__location *at,
                                   const coffer_open_options *options, coffer_error *err);
coffer_status coffer__sharded_open_set(coffer **model, const char *path, const coffer__name *files, size_t count,
                                       const coffer_open_options *options, coffer_error *err);

/* sharded_files.c: makes the shards of a model and reads their headers in several threads. Failures
   carry the path. */
coffer_status coffer__sharded_open_files(coffer *model, const coffer__index_shard *files, size_t count,
                                         const coffer_open_options *options, coffer_error *err);
/* sharded_join.c: makes one model of the shards, whose headers are read; then compares it with what
   its index says (NULL: there is none). After COFFER_OK look-ups work. Of a tensor that several files have, that of the
   file which the index names is the model's, and the others are left out of their tables. COFFER_ERR_TWO_SHARDS if
   no index says which of two it is. */
coffer_status coffer__sharded_join(coffer *model, const coffer__model_index *index, coffer_error *err);
/* COFFER_ERR_NOT_IN_SHARD for the first entry, in the order of the text, that is not true. */
coffer_status coffer__sharded_compare(const coffer *model, const coffer__model_index *index, coffer_error *err);
/* notes.c: notes what is odd about the index, or about there being none (NULL). All shards that it
   names, or only some, are open. */
coffer_status coffer__sharded_note(coffer *model, const coffer__model_index *index, const coffer_open_options *options,
                                   coffer_error *err);

/* sharded.c: COFFER_ERR_UNSUPPORTED for a model with files in folders below that of its index. Those are read; what rewrites
   or fetches a model names files by their last names. */
coffer_status coffer__sharded_need_flat(const coffer *model, coffer_error *err);

#endif
