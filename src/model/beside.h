/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file at a path or a URL, as bytes, and files beside it: for what is no model itself. Files beside it are looked
 * for where those of an index are (place.h), and nowhere else.
 */
#ifndef COFFER_MODEL_BESIDE_H
#define COFFER_MODEL_BESIDE_H

#include "coffer.h"
#include "place.h"

/* It must not move while files are open. One thread at a time. */
typedef struct coffer__beside {
    const coffer_allocator *allocator;
    coffer__web *web;    /* of a URL */
    coffer__place place; /* known when the first file beside it was asked for */
    bool placed;
    coffer__pool pool; /* likewise */
    bool pooled;
} coffer__beside;

/* Opens the file. The allocator of the options is borrowed until coffer__beside_close, and the source is closed before
   that. After a failure nothing is left open. Failures carry the path. */
coffer_status coffer__beside_open(coffer__beside *beside, const char *path, const coffer_open_options *options,
                                  const coffer_allocator *allocator, coffer__source *source, coffer_error *err);
/* Opens a file by its plain name beside `path`, which is what coffer__beside_open was given. `file` is as for
   coffer__place_open. */
coffer_status coffer__beside_find(coffer__beside *beside, const char *path, coffer__name name, coffer__pooled *file,
                                  coffer__source *source, coffer_error *err);
void coffer__beside_close(coffer__beside *beside);

#endif
