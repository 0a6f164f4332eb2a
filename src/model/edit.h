/* SPDX-License-Identifier: Apache-2.0 */
/* What every edit of a file that is there begins with. */
#ifndef COFFER_MODEL_EDIT_H
#define COFFER_MODEL_EDIT_H

#include "coffer.h"
#include "paths.h"

/* The path of the file itself, which is regular. A symbolic link is COFFER_ERR_LINKED unless links are followed. */
coffer_status coffer__edit_resolve(const char *path, bool follow_links, coffer__path *real, coffer_error *err);

#endif
