/* SPDX-License-Identifier: Apache-2.0 */
/* What every edit of a file that is there begins with. */
#ifndef COFFER_WRITE_EDIT_H
#define COFFER_WRITE_EDIT_H

#include "coffer.h"
#include "os.h"
#include "paths.h"

/* The path of the file itself, which is regular. A symbolic link is COFFER_ERR_LINKED unless links are followed. */
coffer_status coffer__edit_resolve(const char *path, bool follow_links, coffer__path *real, coffer_error *err);

/* coffer_edit_metadata for the one file that `only` describes, as it was read: COFFER_ERR_CHANGED when another one lies there, or
   somebody wrote to it since. NULL: whichever lies there. */
coffer_status coffer__edit_only(const char *path, const coffer__os_info *only, const coffer_edit *edits, size_t count,
                                const coffer_edit_options *options, coffer_edit_way *way, coffer_error *err);

#endif
