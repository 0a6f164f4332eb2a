/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Missing files of a model: which they are, and how to report them.
 */
#ifndef COFFER_MODEL_MISSING_H
#define COFFER_MODEL_MISSING_H

#include "coffer.h"
#include "names.h"
#include "paths.h"

#define COFFER__MISSING_NAMED 3 /* how many files a message names; the others it counts */

/* All zero at first. */
typedef struct coffer__missing {
    size_t count;
    char names[COFFER__MISSING_NAMED][COFFER__PATH_MAX_NAME + 1]; /* of the first ones */
} coffer__missing;

/* Fails with all of them, of a model of `total` files; `why` says what the reason may be. */
coffer_status coffer__missing_fail(const coffer__missing *missing, size_t total, const char *why, coffer_error *err);

#endif
