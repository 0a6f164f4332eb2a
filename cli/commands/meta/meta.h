/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of coffer meta: showing metadata (meta_show.c), what is to be changed (meta_edits.c), changing it (cmd_meta.c),
   and fixing files that cannot be opened (meta_fix.c). */
#ifndef COFFER_META_H
#define COFFER_META_H

#include "cli_command.h"
#include "coffer.h"

/* Shows the metadata of the model that names[0] is, or of its first file, or the value of the key names[1]. Returns the
   exit code. */
int meta_show(cli *app, const cli_arguments *arguments);
/* Fixes the file that names[0] is (--fix), or with --dry-run says what there is to fix. Returns the exit code. */
int meta_fix(cli *app, const cli_arguments *arguments, const coffer_edit_options *asked);

#define META_VALUE_MAX ((size_t)256 << 20) /* bytes of a file that has a value, or many; no header has space for more */

/* What is to be changed. The caller sets the first three; the rest is zero. */
typedef struct meta_edits {
    cli *app;
    const char *path;
    const coffer *model; /* whose keys patterns match, needed while edits are read; NULL: it cannot be opened */
    coffer_edit *edits;  /* in the order of the command line; they borrow from the command line and `texts` */
    size_t count;
    size_t capacity;
    char **texts;
    size_t text_count;
    size_t text_capacity;
} meta_edits;

/* Reads --set, --set-json and --unset. Returns the exit code, after it has said what is wrong. meta_edits_free follows in
   any case. */
int meta_edits_read(meta_edits *all, const cli_arguments *arguments);
void meta_edits_free(meta_edits *all);

#endif
