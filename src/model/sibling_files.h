/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file at a path or a URL, as bytes, and files beside it: for what is no model itself. Files beside it are looked
 * for where those of an index are (model_dir.h), and nowhere else.
 */
#ifndef COFFER_MODEL_SIBLING_FILES_H
#define COFFER_MODEL_SIBLING_FILES_H

#include "coffer.h"
#include "model_dir.h"

/* It must not move while files are open. One thread at a time. */
typedef struct coffer__sibling_files {
    const coffer_allocator *allocator;
    coffer__web *web;        /* of a URL */
    coffer__model_dir place; /* known when the first file beside it was asked for */
    bool placed;
    coffer__pool pool; /* likewise */
    bool pooled;
} coffer__sibling_files;

/* Opens the file. The allocator of the options is borrowed until coffer__sibling_files_close, and the source is closed before
   that. After a failure nothing is left open. Failures carry the path. */
coffer_status coffer__sibling_files_open(coffer__sibling_files *around, const char *path,
                                         const coffer_open_options *options, const coffer_allocator *allocator,
                                         coffer__byte_source *source, coffer_error *err);
/* Opens a file by its name beside `path`, or by its path below the folder of `path`, which is what coffer__sibling_files_open was given. `file` is as for
   coffer__model_dir_open. */
coffer_status coffer__sibling_files_find(coffer__sibling_files *around, const char *path, coffer__name name,
                                         coffer__pooled *file, coffer__byte_source *source, coffer_error *err);
void coffer__sibling_files_close(coffer__sibling_files *around);

#endif
