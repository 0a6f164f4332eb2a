/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs read beside a model's tensors: its configuration, tokenizer and the like. At a URL the usual names
 * are asked for, all at once; files that do not exist are left out. If a repository of the Hub was listed, only
 * files on its list are asked for.
 */
#ifndef COFFER_WRITE_FETCH_BESIDE_H
#define COFFER_WRITE_FETCH_BESIDE_H

#include "coffer.h"
#include "model.h"

/* The most files that there may be. */
#define COFFER__BESIDE_MAX 16

typedef struct coffer__beside_file {
    const char *name;
    bool there;
    coffer__byte_source source; /* open exactly if `there` is true */
    coffer__pooled pooled;
    coffer_status status; /* of opening it; then `error` says what was wrong */
    coffer_error error;
    struct coffer__beside *whole;
} coffer__beside_file;

typedef struct coffer__beside coffer__beside;

/* Opens the files that exist in the folder of the model's files. A file that may not be read counts
   as one that does not exist, because stores that do not allow listing say the one for the other.
   The options' `progress` is called while they are opened, with 0 of 0 bytes. It starts threads and
   joins them; *beside is NULL after a failure. */
coffer_status coffer__beside_open(coffer__beside **beside, const coffer *model, const coffer_fetch_options *options,
                                  coffer_error *err);
/* Possible file `i`, which may not exist; NULL when there are no more. */
const coffer__beside_file *coffer__beside_at(const coffer__beside *beside, size_t i);
/* NULL is allowed. */
void coffer__beside_close(coffer__beside *beside);

#endif
