/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a model take the place of those of an older one, and nobody who asks for a model there ever gets files of
 * both: what a crash can leave is the old model, the new one, or a folder without an index, which loaders refuse. `path` is
 * everywhere what the model would be called as one file, FOLDER/NAME.safetensors. Beside it lie at times
 *
 *   NAME.safetensors.index.json.coffer-new     the new index, while the new files are being written
 *   NAME.safetensors.index.json.coffer-ready   the same, when all of them are complete
 *   NAME.safetensors.index.json.coffer-force   which old model of one file may be taken away, when that was asked for
 *   NAME.safetensors.index.json.coffer-old     the old index, or an empty file where there was none
 *   NAME.safetensors.coffer-old                an old model of one file, which would be preferred to an index
 *   FILE.coffer-new                            the new FILE
 *
 * The order of things: the index is written as .coffer-new, then the files; its renaming to .coffer-ready is the decision. Then
 * the old model moves aside, the files get their names, the index gets its own, and what only the old index named is removed. So
 * what a crash left is undone when .coffer-new is there, finished when .coffer-ready is, and tidied up when only .coffer-old is.
 * When it is decided there is no .coffer-old beside an index: with .coffer-ready, both of them mean that somebody else saved since.
 *
 * All of it happens under a lock of the folder. Names can be planted, in a sticky folder by anybody: those above count only as
 * regular files of this user or of the folder's owner that not everybody may write, or in a folder that others may write and that is
 * not sticky, where they could do themselves what the names would have done. Layout of .coffer-force, integers little-endian:
 *
 *   offset   size
 *   0        8     "COFFORCE"
 *   8        8     inode of the old model of one file
 *   16       8     its size
 *   24       8     its time of change, in nanoseconds
 */
#ifndef COFFER_WRITE_PUBLICATION_H
#define COFFER_WRITE_PUBLICATION_H

#include "coffer.h"
#include "os.h"
#include "paths.h"
#include "saved.h"

typedef struct coffer__publication {
    coffer_allocator allocator;
    coffer__path path;
    coffer__path index; /* these are the names above, in their order */
    coffer__path fresh;
    coffer__path ready;
    coffer__path forced;
    coffer__path old;
    coffer__path shadow;
    int directory; /* locked; -1: not open */
    coffer__os_info folder;
    bool durable; /* each step is on the device before the next */
    bool sharded; /* the new model has an index */
    bool force;   /* an old model of one file is taken away */
    bool begun;   /* the new index is there, and not decided on */
    /* Called while the old model is aside and the new one has no index yet: what lies beside the two changes then. Set between
       coffer__publication_open and coffer__publication_finish; NULL: nothing does. */
    coffer_status (*meanwhile)(void *ctx, coffer_error *err);
    void *meanwhile_ctx;
} coffer__publication;

/* Locks the folder, finishes or undoes what a crash left, and looks whether a model of several files (`sharded`) may be put there:
   COFFER_ERR_SHADOWED. */
coffer_status coffer__publication_open(coffer__publication *publication, const coffer_allocator *allocator,
                                       const char *path, bool sharded, bool force, coffer_sync sync, coffer_error *err);
/* Whether a file of the new model may get that name: nothing may be there that a file cannot replace, since after the decision
   there is no way back. */
coffer_status coffer__publication_check(const char *path, coffer_error *err);
/* Writes the new index, from now on discarded by coffer__publication_close; or, until the end, one of the same files again. */
coffer_status coffer__publication_begin(coffer__publication *publication, const void *index, size_t size,
                                        coffer_error *err);
/* The name under which a file of the model is to be written; false when it is too long. */
bool coffer__publication_name(coffer__path *out, const char *file);
/* Every file is complete under its temporary name. After a failure the old model is there, or the error is
   COFFER_ERR_UNFINISHED: the next one to open it finishes. COFFER_ERR_SHADOWED when a model of one file came there meanwhile. */
coffer_status coffer__publication_finish(coffer__publication *publication, coffer_error *err);
/* Unlocks the folder; before the decision also removes every new file. */
void coffer__publication_close(coffer__publication *publication);

/* Finishes or undoes an interrupted save. COFFER_ERR_UNFINISHED when what lies there does not count. */
coffer_status coffer__publication_recover(const char *path, const coffer_allocator *allocator, coffer_error *err);

#endif
