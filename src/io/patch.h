/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first bytes of a file are overwritten in such a way that it can be undone after a crash. While that goes on, and after
 * a crash in the middle of it, the undo file PATH.coffer-undo lies beside the file: patch.c has its layout and the order of
 * things.
 */
#ifndef COFFER_IO_PATCH_H
#define COFFER_IO_PATCH_H

#include "coffer.h"

#define COFFER__UNDO_SUFFIX ".coffer-undo"

typedef enum coffer__undo {
    COFFER__UNDO_NONE,
    COFFER__UNDO_COUNTS,
    COFFER__UNDO_STRANGE /* something is called so that does not count: see coffer__patch_recover */
} coffer__undo;

/* What lies beside the file, whose path leads to it by no symbolic link. Mostly one cheap system call. */
coffer__undo coffer__undo_look(const char *path);
/* Removes the undo file of a file that is overwritten or replaced as a whole. */
void coffer__undo_forget(const char *path);
/* Fails with COFFER_ERR_UNDO, which says what to do. */
coffer_status coffer__undo_fail(coffer_error *err, const char *path);

typedef struct coffer__patch {
    uint64_t file_size;
    const void *old;   /* the first `size` bytes of the file as they are, … */
    const void *fresh; /* … and as they will be */
    size_t size;
} coffer__patch;

/* What lies between the first and the last byte that differ: nothing else needs to be written. */
void coffer__patch_changes(const coffer__patch *patch, size_t *first, size_t *end);
/* Overwrites the first bytes of the file `path`, which is open in `fd` to read and write, and which the caller has locked. Durable
   when it returns COFFER_OK; after a failure the file is as it was, or the error is COFFER_ERR_UNDO. */
coffer_status coffer__patch_apply(int fd, const char *path, const coffer__patch *patch, coffer_error *err);
/* Has the file system put `size` bytes in before everything else, and writes the patch's `old` over them and what follows: the first
   bytes of a file that is right then. `fresh` is what the insertion alone makes of them, and file_size the size afterwards. Until
   it is done an undo file says `old`, so that recovery finishes it. COFFER_ERR_UNSUPPORTED, with the file as it was, where
   nothing can be put in. */
coffer_status coffer__patch_insert(int fd, const char *path, const coffer__patch *patch, uint64_t size,
                                   coffer_error *err);
/* Finishes what a crash left: puts the old bytes back and removes the undo file. The file is open and locked, as above. Names can
   be planted, where anybody may make files: an undo file counts only when it is a regular file of the file's owner or of this
   user, and nobody may write it who may not write the file. */
coffer_status coffer__patch_recover(int fd, const char *path, const coffer_allocator *allocator, coffer_error *err);

#endif
