/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new file that replaces another one only when it is complete. Until then it has no name, where the file
 * system supports that (O_TMPFILE), so that a crash leaves nothing. Elsewhere it has a name beside its
 * target that nobody asks for:
 *
 *   .NAME.coffer-1a2b3c4d    or, when that is too long for a name,    .coffer-1a2b3c4d
 *
 * It lies in the directory of its target because a rename is atomic only within a file system.
 *
 * Order of use: open, write to `fd`, settle, then one of place, replace and replace_only; discard or keep
 * at the end in any case. One thread at a time.
 */
#ifndef COFFER_IO_TEMPORARY_H
#define COFFER_IO_TEMPORARY_H

#include "os.h"
#include "paths.h"

typedef struct coffer__temporary {
    int fd;     /* -1 after it was closed */
    bool named; /* whether the file has the name `name` now */
    coffer__path name;
} coffer__temporary;

/* These return 0 or an errno. */

/* Creates the file in the directory of `target`. With `secret` its mode is 0600 until somebody
   changes it. */
int coffer__temporary_open(coffer__temporary *temporary, const char *target, bool secret);
/* Before the file is placed: learns whether its bytes were stored, which a network file system
   reports only when a file is closed. Nothing can be written afterwards. A file without a name
   stays open, since closing it would delete it. */
int coffer__temporary_settle(coffer__temporary *temporary);
/* Gives the file the name `target`, where nothing was when the caller looked. EEXIST when something
   is there now. A file that has a name already can only be renamed, which replaces whatever came
   there since. */
int coffer__temporary_place(coffer__temporary *temporary, const char *target);
/* Gives the file the name `target` atomically, replacing what is there. With `wait` it returns when
   the old file has been freed, otherwise see coffer__os_rename_without_wait. After a failure the
   file is kept: it is `named`, unless it could not even be given a name beside the target. */
int coffer__temporary_replace(coffer__temporary *temporary, const char *target, bool wait);
/* Copies a file that has no name into a new one that has, where the system turns out to refuse to
   name it. Rights and durability have to be set again. */
int coffer__temporary_copy(coffer__temporary *temporary, const char *target, bool secret);
/* As coffer__temporary_replace, but only while `target` leads to the file `old`, unchanged.
   Otherwise *changed is set, what is there stays, and the new file has no place. Where the system
   can exchange names, no race loses another program's file; elsewhere the check comes before the
   rename, and a small window remains. */
int coffer__temporary_replace_only(coffer__temporary *temporary, const char *target, const coffer__os_info *old,
                                   bool wait, bool *changed);
/* Closes the file and deletes it, unless it was placed. */
void coffer__temporary_discard(coffer__temporary *temporary);
/* Closes the file, but leaves it under `name` if it is named. */
void coffer__temporary_keep(coffer__temporary *temporary);

#endif
