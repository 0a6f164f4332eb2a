/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a model that are not there: which they are, and how that is said. */
#ifndef COFFER_MODEL_MISSING_H
#define COFFER_MODEL_MISSING_H

#include "coffer.h"
#include "names.h"
#include "paths.h"

#define COFFER__MISSING_NAMED 3 /* files that a message names; of the others it has the number */

typedef struct coffer__missing {
    size_t count;
    char names[COFFER__MISSING_NAMED][COFFER__PATH_MAX_NAME + 1]; /* of the first ones */
} coffer__missing;

/* Notes a file, if there is none of that name in the folder of the path `beside`. */
void coffer__missing_look(coffer__missing *missing, const char *beside, coffer__name name);
/* Fails with all of them, of a model of `total` files; `why` is what that may come from. */
coffer_status coffer__missing_fail(const coffer__missing *missing, size_t total, const char *why, coffer_error *err);

#endif
