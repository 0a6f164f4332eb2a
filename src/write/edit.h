/* SPDX-License-Identifier: Apache-2.0 */
/* The steps with which every edit of an existing file begins. */
#ifndef COFFER_WRITE_EDIT_H
#define COFFER_WRITE_EDIT_H

#include "coffer.h"
#include "edit_text.h"
#include "os.h"
#include "paths.h"

/* The path of the file itself, which is regular. A symbolic link is COFFER_ERR_LINKED unless links
   are followed. A directory, a pipe or a device is refused, too. *real is valid only after
   COFFER_OK. */
coffer_status coffer__edit_resolve(const char *path, bool follow_links, coffer__path *real, coffer_error *err);

/* Fails with COFFER_ERR_LINKED: the file is a symbolic link, or has several names. `hard` chooses
   the message. `err` gets no path; the caller adds it. */
coffer_status coffer__edit_linked(bool hard, coffer_error *err);

/* Locks the open file against other editors. `path` must still lead to it. *info is what the file
   is like under the lock. The lock ends with the descriptor. COFFER_ERR_LOCKED, COFFER_ERR_CHANGED.
   Never waits. After a failure the descriptor is still the caller's to close, and may hold the
   lock. */
coffer_status coffer__edit_lock(int fd, const coffer__path *path, coffer__os_info *info, coffer_error *err);

/* The last edit of a key; false, and *found NULL, when there is none. *found points into `edits`.
   An edit without a value, which removes its key, counts like any other. */
bool coffer__edit_names(const coffer_edit *edits, size_t count, const char *key, size_t key_len,
                        const coffer_edit **found);

/* Where the new state of a file goes that stays as it is for now, because it is published with others
   (commit.h). */
typedef struct coffer__edit_aside {
    const char *fresh; /* the name of a new file */
    const char *head;  /* the name of a prepared patch, where the new header fits; NULL: never a patch */
} coffer__edit_aside;

/* What is to become of a file. */
typedef struct coffer__edit_wanted {
    const coffer_edit *edits;
    size_t count;
    const coffer__edit_renames *renames; /* of the tensors of that file; NULL: none */
    /* The file as it was read: COFFER_ERR_CHANGED if another one is there now, or if a program has written to it since.
       NULL: whatever file is there. */
    const coffer__os_info *only;
    const coffer__edit_aside *aside; /* NULL: the file itself is edited, or replaced */
    bool
        fixes; /* accept values of the metadata that are no strings, and bytes after the data: they become strings, and are
                   cut off */
} coffer__edit_wanted;

/* What was done. */
typedef struct coffer__edit_reported {
    coffer_edit_way way;
    uint64_t lacking;    /* bytes by which the new header was longer than the space for it */
    bool loose;          /* values of the metadata were no strings */
    uint64_t trailing;   /* bytes that follow the data */
    coffer_status looks; /* what the trailing bytes look like: COFFER_ERR_IS_...; COFFER_OK: that is not known */
    bool tensors;        /* they begin like a file of tensors */
} coffer__edit_reported;

/* Does what coffer_edit_metadata does, and gives tensors other names. `told` counts only after success. */
coffer_status coffer__edit_only(const char *path, const coffer__edit_wanted *wanted, const coffer_edit_options *options,
                                coffer__edit_reported *reported, coffer_error *err);
/* Says of such an edit how many bytes its new header lacks space for; told->way stays
   COFFER_EDITED_NOTHING. Nothing is locked or written. */
coffer_status coffer__edit_measure(const char *path, const coffer__edit_wanted *wanted,
                                   const coffer_edit_options *options, coffer__edit_reported *reported,
                                   coffer_error *err);

#endif
