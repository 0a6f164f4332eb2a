/* SPDX-License-Identifier: Apache-2.0 */
/* From an errno, or from the status of a caller's own function, to a failure, in one line. */
#ifndef COFFER_IO_TROUBLE_H
#define COFFER_IO_TROUBLE_H

#include "coffer.h"

/* Fails with "cannot `task`: words for the errno", os_error and the path (NULL: none). The code is COFFER_ERR_IO, but
   COFFER_ERR_NOT_FOUND for what does not exist. */
coffer_status coffer__trouble(coffer_error *err, const char *task, const char *path, int os_error);
/* A failure of the caller's own function, which was called to `task` at `offset`: fills the error if that function did not.
   Returns `status`, which is then the error's code, too. */
coffer_status coffer__trouble_of_caller(coffer_error *err, coffer_status status, const char *task, uint64_t offset);
/* Fails with what a path or descriptor is that is no regular file: COFFER_ERR_DIRECTORY or COFFER_ERR_NOT_REGULAR. */
coffer_status coffer__trouble_of_kind(coffer_error *err, bool is_directory, const char *path);
/* The same of a path where a new file is to be. */
coffer_status coffer__trouble_of_target(coffer_error *err, bool is_directory, const char *path);

#endif
