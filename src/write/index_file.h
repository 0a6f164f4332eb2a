/* SPDX-License-Identifier: Apache-2.0 */
/* Replacing the index of a model alone, none of whose other files changes. */
#ifndef COFFER_WRITE_INDEX_FILE_H
#define COFFER_WRITE_INDEX_FILE_H

#include "coffer.h"
#include "os.h"

/* Locks the folder of an index, in which savers of models exclude each other, and does not wait for them:
   COFFER_ERR_LOCKED. A file system without locks for folders does without. The lock ends with the descriptor, which is the
   caller's to close, also after a failure if it is not -1. */
coffer_status coffer__index_file_lock(const char *index, int *folder, coffer_error *err);
/* Puts a new index in the place of the old one, by a rename: a crash or a failure leaves the old one or the new one, whole.
   `old` is the file that may be replaced, else COFFER_ERR_CHANGED; NULL: whatever is there. */
coffer_status coffer__index_file_publish(const char *index, const void *bytes, size_t size, const coffer__os_info *old,
                                         coffer_sync sync, const coffer_allocator *allocator, coffer_error *err);

#endif
