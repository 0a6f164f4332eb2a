/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overwriting the first bytes of a file in such a way that a crash in the middle can be undone. While that
 * is in progress, and after a crash, the undo file PATH.coffer-undo lies beside the file: patch.c has its
 * layout and the order of the steps.
 *
 * Readers look for the undo file before they trust a header (coffer__undo_look). Writers hold the lock of
 * the file during every call that takes a descriptor.
 */
#ifndef COFFER_IO_PATCH_H
#define COFFER_IO_PATCH_H

#include "coffer.h"

#define COFFER__UNDO_SUFFIX ".coffer-undo"

typedef enum coffer__undo {
    COFFER__UNDO_NONE,
    COFFER__UNDO_COUNTS,
    COFFER__UNDO_STRANGE /* the name exists, but does not count: see coffer__patch_recover */
} coffer__undo;

/* What lies beside the file. The path must not be a symbolic link, since the undo file is beside the file itself.
   One cheap system call, unless there is something. */
coffer__undo coffer__undo_look(const char *path);
/* Removes the undo file of a file that is overwritten or replaced as a whole. */
void coffer__undo_remove(const char *path);
/* Fails with COFFER_ERR_UNDO, which says what to do. */
coffer_status coffer__undo_fail(coffer_error *err, const char *path);

typedef struct coffer__patch {
    uint64_t file_size; /* when the patch is applied */
    const void *old;    /* the first `size` bytes of the file as they are */
    const void *fresh;  /* the first `size` bytes of the file as they will be */
    size_t size;
} coffer__patch;

/* Sets [*first, *end) to the smallest range that holds all differences: nothing else needs to be
   written. */
void coffer__patch_changes(const coffer__patch *patch, size_t *first, size_t *end);
/* Overwrites the first bytes of the file `path`, which is open in `fd` for reading and writing, and
   which the caller has locked. The change is durable when it returns COFFER_OK. After a failure the
   file is as it was, or the error is COFFER_ERR_UNDO and the undo file tells how to restore it. */
coffer_status coffer__patch_apply(int fd, const char *path, const coffer__patch *patch, coffer_error *err);
/* Makes a patch ready in the file `ready` beside `path`, which is open in `fd`; the file itself stays as it is. `ready`
   is an undo file with the two texts exchanged, so that restoring from it is applying the patch. After COFFER_OK its
   bytes are durable, and its name is once the folder is synced; after a failure it is not there. */
coffer_status coffer__patch_prepare(int fd, const char *path, const char *ready, const coffer__patch *patch,
                                    coffer_error *err);
/* Applies what was prepared: `ready` becomes the undo file, by which any recovery of the file finishes what a crash
   stops here. May be repeated after a crash or a failure, also when `ready` is the undo file already. The file is open
   for reading and writing, and locked. Fails as coffer__patch_recover does. */
coffer_status coffer__patch_finish(int fd, const char *path, const char *ready, const coffer_allocator *allocator,
                                   coffer_error *err);
/* Lets the file system insert `size` bytes before everything else, and writes the patch's `old`
   over them and what follows, which completes the file. `fresh` is what the insertion alone
   produces, and file_size the size after it. Until it is done the undo file has `old`, so that
   recovery finishes what a crash stopped. COFFER_ERR_UNSUPPORTED, with the file as it was, where
   the file system cannot insert. */
coffer_status coffer__patch_insert(int fd, const char *path, const coffer__patch *patch, uint64_t size,
                                   coffer_error *err);
/* Finishes what a crash left: restores the old bytes and removes the undo file. The file is open
   and locked, as above. In a directory where anybody may create files, names can be planted. So an
   undo file counts only if it is a regular file that belongs to the file's owner or to this user,
   and nobody may write it who may not write the file. */
coffer_status coffer__patch_recover(int fd, const char *path, const coffer_allocator *allocator, coffer_error *err);

#endif
