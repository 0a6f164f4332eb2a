/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that an interrupted save of a model leaves beside it, and whether they count.
 * commit.h explains what they mean and in which order they appear and go; opening a model only
 * asks whether a save is in progress.
 */
#ifndef COFFER_MODEL_PENDING_SAVE_H
#define COFFER_MODEL_PENDING_SAVE_H

#include "coffer.h"
#include "os.h"
#include "paths.h"
#include "shard_name.h"

/* The name of the index of a model that would be called `path` as one file, with a suffix; false if
   it is too long. */
bool coffer__pending_save_index_name(coffer__path *out, const char *path, const char *suffix);
/* Whether a file in the folder belongs to a save: a regular file of this user or of the folder's
   owner that not everybody may write. In a folder that others may write and that is not sticky, the
   owner does not matter: anybody who may make a file there may also remove any other one. A file
   that was `moved` there is one that may belong to the one who saved the old model. */
bool coffer__pending_save_is_own(const coffer__os_info *file, const coffer__os_info *folder, bool moved);

typedef enum coffer__interrupted {
    COFFER__INTERRUPTED_NOT,
    COFFER__INTERRUPTED_SAVE,
    COFFER__INTERRUPTED_STRANGE /* something has such a name, but does not count */
} coffer__interrupted;

/* Whether a save to that path was interrupted. */
coffer__interrupted coffer__pending_save_interrupted(const char *path);
/* Whether a save to that path has been decided on, and its files are getting their names. It looks
   for COFFER__PENDING_SAVE_READY alone: before that, nothing of the old model has changed. */
bool coffer__pending_save_is_under_way(const char *path);
/* Whether a file with the name of what a save leaves can be of a save, by its owner and mode. */
bool coffer__pending_save_counts(const char *path);

#endif
