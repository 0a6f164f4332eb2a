/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new file that takes the place of another one only when it is complete. It has no name until then where the file system
 * can do that (so that a crash leaves nothing), else a name beside its target that nobody asks for:
 *
 *   .NAME.coffer-1a2b3c4d    or, when that is too long for a name,    .coffer-1a2b3c4d
 */
#ifndef COFFER_IO_TEMPORARY_H
#define COFFER_IO_TEMPORARY_H

#include "os.h"
#include "paths.h"

typedef struct coffer__temporary {
    int fd;     /* -1 when it was closed */
    bool named; /* whether the file lies under `name` now */
    coffer__path name;
} coffer__temporary;

/* These return 0 or an errno. */

/* Makes the file in the directory of `target`; `secret`: for its owner only (mode 0600) for the time being. */
int coffer__temporary_open(coffer__temporary *temporary, const char *target, bool secret);
/* Before the file is placed: learns whether its bytes were stored, which a network file system tells only when a file is
   closed. Nothing can be written afterwards. */
int coffer__temporary_settle(coffer__temporary *temporary);
/* Gives the file the name `target`, where nothing lies. EEXIST when something does; but a file that has a name already
   takes the place of what came there since somebody looked. */
int coffer__temporary_place(coffer__temporary *temporary, const char *target);
/* Gives the file the name `target`, in the place of what lies there, at once; `wait`: until that is given up, see
   coffer__os_rename_without_wait. After a failure the file is kept: it is `named`, unless it could not even be given a name
   beside the target. */
int coffer__temporary_replace(coffer__temporary *temporary, const char *target, bool wait);
/* Makes the file, which has no name, anew with one, where the system refuses to give it a name afterwards. What was said of its rights
   and its durability has to be said again. */
int coffer__temporary_copy(coffer__temporary *temporary, const char *target, bool secret);
/* The same while `target` leads to the file `old`, unchanged. *changed: it does not, and what lies there stays; then the file
   has no place. Where names can be exchanged nobody else's file is lost to a race. */
int coffer__temporary_replace_only(coffer__temporary *temporary, const char *target, const coffer__os_info *old,
                                   bool wait, bool *changed);
/* Lets the file go: it vanishes, unless it was placed. */
void coffer__temporary_discard(coffer__temporary *temporary);
/* Lets the file go, but leaves it under `name` where it is named. */
void coffer__temporary_keep(coffer__temporary *temporary);

#endif
