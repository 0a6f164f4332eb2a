/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns an errno, or the status of a caller's own function, into a failure, in one line. Every message about
 * the system has the same form: "cannot TASK: WHY (errno N); WHAT TO DO".
 */
#ifndef COFFER_IO_ERRNO_STATUS_H
#define COFFER_IO_ERRNO_STATUS_H

#include "coffer.h"

/* Fails with "cannot `task`: words for the errno", os_error and the path (NULL: none). The code is COFFER_ERR_IO, but
   COFFER_ERR_NOT_FOUND for what does not exist. */
coffer_status coffer__errno_status(coffer_error *err, const char *task, const char *path, int os_error);
/* A failure of a caller's own function, which was called to `task` at `offset`. Fills the error if that function
   did not, and makes `status` its code. Returns `status`. */
coffer_status coffer__callback_status(coffer_error *err, coffer_status status, const char *task, uint64_t offset);
/* Fails because what should be read is not a regular file: COFFER_ERR_DIRECTORY or COFFER_ERR_NOT_REGULAR. `path` may
   be NULL. */
coffer_status coffer__kind_status(coffer_error *err, bool is_directory, const char *path);
/* The same for a path where a new file should be written. */
coffer_status coffer__target_kind_status(coffer_error *err, bool is_directory, const char *path);

#endif
