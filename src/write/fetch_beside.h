/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs read beside a model's tensors: its configuration, tokenizer and the like. What lies behind a URL is asked for by the
 * names that it usually has, all at once; what is not there is left out. Of a repository of the Hub that was listed only what it has
 * is asked for.
 */
#ifndef COFFER_WRITE_FETCH_BESIDE_H
#define COFFER_WRITE_FETCH_BESIDE_H

#include "coffer.h"
#include "model.h"

/* How many there may be. */
#define COFFER__BESIDE_MOST 16

typedef struct coffer__beside_file {
    const char *name;
    bool there;
    coffer__source source; /* of a file that is there */
    coffer__pooled pooled;
    coffer_status status; /* of opening it; then `error` says what was wrong */
    coffer_error error;
    struct coffer__beside *whole;
} coffer__beside_file;

typedef struct coffer__beside coffer__beside;

/* Opens what is there in the folder of the model's files. A file that may not be read counts as one that is not there, as stores
   that are not to be listed say the one for the other. The options' `progress` is asked meanwhile, with no bytes of none. */
coffer_status coffer__beside_open(coffer__beside **beside, const coffer *model, const coffer_fetch_options *options,
                                  coffer_error *err);
/* File `i` of those that there may be; NULL when there are no more. */
const coffer__beside_file *coffer__beside_at(const coffer__beside *beside, size_t i);
void coffer__beside_close(coffer__beside *beside);

#endif
