/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the files of a model with those of a new one. No program that loads a model there ever gets files of both:
 * a crash can leave the old model, the new one, or a folder without an index, which loaders refuse. `path` is
 * always what the model would be called as one file, FOLDER/NAME.safetensors. These files may be beside it:
 *
 *   NAME.safetensors.index.json.coffer-new     the new index, while the new files are being written
 *   NAME.safetensors.index.json.coffer-ready   the new index, when all new files are complete
 *   NAME.safetensors.index.json.coffer-force   which old model of one file may be removed, if that was asked for
 *   NAME.safetensors.index.json.coffer-old     the old index, or an empty file where there was none
 *   NAME.safetensors.coffer-old                an old model of one file, which loaders would prefer to an index
 *   NAME.safetensors.index.json.coffer-companions  the names of companions, a line for each
 *   FILE.coffer-new                            the new FILE, of the model or a companion
 *   FILE.coffer-head                           or, where only its header changes and has the space: that header (patch.h)
 *
 * A save takes these steps, in this order:
 *
 *   1. the new index is written as .coffer-new, then the new files as FILE.coffer-new, or headers as FILE.coffer-head;
 *      before them, where there are any, the list of companions, and these
 *   2. the index is renamed to .coffer-ready: this is the decision
 *   3. the old model moves aside to .coffer-old
 *   4. the new files get their names, first companions, whose list is removed then; each FILE.coffer-head
 *      becomes the undo file of FILE, from which its header is written, so that recovering FILE by itself goes forward,
 *      too
 *   5. the index gets its name
 *   6. files that only the old index named are removed, then what was moved aside; .coffer-old goes last
 *
 * So a crash is repaired by what it left: with .coffer-new the save is undone, with .coffer-ready it is finished,
 * and with only .coffer-old it is tidied up. A save that cannot be finished, since a file of it was lost, is undone
 * too, and the old model gets its names again, unless files of it may have been replaced. At the decision there is never a .coffer-old beside an index. If both
 * are there together with .coffer-ready, somebody else has saved since, and the interrupted save is dropped.
 *
 * All of this happens under a lock of the folder. Names can be planted, by anybody in a sticky folder. So the names
 * above count only as regular files of this user or of the folder's owner that not everybody may write. In a folder
 * that others may write and that is not sticky, it does not matter whose they are: there the others could do by
 * themselves what the names ask for. Layout of .coffer-force, integers little-endian:
 *
 *   offset   size
 *   0        8     "COFFORCE"
 *   8        8     inode of the old model of one file
 *   16       8     its size
 *   24       8     its time of change, in nanoseconds
 */
#ifndef COFFER_WRITE_COMMIT_H
#define COFFER_WRITE_COMMIT_H

#include "coffer.h"
#include "os.h"
#include "paths.h"
#include "pending_save.h"

/* One save, from coffer__commit_open to coffer__commit_close. For one thread at a
   time. The folder is locked all that time, so other processes cannot save in it. */
typedef struct coffer__commit {
    coffer_allocator allocator;
    coffer__path path;
    coffer__path index; /* these are the names above, in that order */
    coffer__path fresh;
    coffer__path ready;
    coffer__path forced;
    coffer__path old;
    coffer__path companions;
    coffer__path shadow;
    int directory; /* the folder, locked; -1: not open */
    coffer__os_info folder;
    bool durable; /* each step is on the device before the next */
    bool sharded; /* the new model has an index */
    bool force;   /* an old model of one file may be removed */
    bool begun;   /* the new index is written, and not decided on */
    /* Called while the old model is aside and the new one has no index yet, for files beside the model that change
       then. Set between coffer__commit_open and coffer__commit_finish; NULL: nothing is called. */
    coffer_status (*meanwhile)(void *ctx, coffer_error *err);
    void *meanwhile_ctx;
} coffer__commit;

/* Fails (COFFER_ERR_SHARD_NAME) if a file of a model that would be called `path` as one file cannot be called `file`, a
   path in the same folder. Every user of what follows asks it about every file before anything is written or
   downloaded: after the decision such a name could neither be given nor undone. Looks at no file. */
coffer_status coffer__commit_judge(const char *path, const char *file, coffer_error *err);
/* Locks the folder, finishes or undoes what a crash left, and checks whether a model of several files (`sharded`),
   none of which is called `path`, may be put there: COFFER_ERR_SHADOWED. coffer__commit_close follows in any
   case. */
coffer_status coffer__commit_open(coffer__commit *commit, const coffer_allocator *allocator, const char *path,
                                  bool sharded, bool force, coffer_sync sync, coffer_error *err);
/* Fails when there is something at the path that a file cannot replace. It is asked for every file of the new model
   before the decision, since there is no way back afterwards. */
coffer_status coffer__commit_check(const char *path, coffer_error *err);
/* Writes the new index, of `size` bytes, or an empty file for a model that has none. From then
   on coffer__commit_close removes it and the new files, also after a failure. It may be
   called again until the end, with an index of the same files and the same size: it is
   overwritten in place then, and a crash must find the same files in any mixture of the two. */
coffer_status coffer__commit_begin(coffer__commit *commit, const void *index, size_t size, coffer_error *err);
/* Writes files that come with the model, each beside it as FILE.coffer-new, and the list of them first. After
   coffer__commit_begin, once. Fails when one of them cannot get its name (COFFER_ERR_SHARD_NAME, COFFER_ERR_DIRECTORY). */
coffer_status coffer__commit_add_companions(coffer__commit *commit, const coffer_companion *files, size_t count,
                                            coffer_error *err);
/* The name under which a file of the model is written, FILE.coffer-new; false if it is too long. */
bool coffer__commit_name(coffer__path *out, const char *file);
/* The name under which the new header of a file is kept that is patched instead, FILE.coffer-head; false if it is too
   long. A save with such a header has to be durable (COFFER_SYNC_ALWAYS), since the file itself is written to. */
bool coffer__commit_head_name(coffer__path *out, const char *file);
/* Publishes the files, each of which is complete under its temporary name. After a failure either the old model is
   there, or the error is COFFER_ERR_UNFINISHED and the next open finishes the save. COFFER_ERR_SHADOWED if a model
   of one file was put there in the meantime. */
coffer_status coffer__commit_finish(coffer__commit *commit, coffer_error *err);
/* Unlocks the folder. Before the decision it also removes every new file. */
void coffer__commit_close(coffer__commit *commit);

/* Finishes or undoes an interrupted save. COFFER_ERR_UNFINISHED if what is there does not count. */
coffer_status coffer__commit_recover(const char *path, const coffer_allocator *allocator, coffer_error *err);

#endif
