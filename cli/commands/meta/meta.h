/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of coffer meta: showing metadata (meta_show.c), changing them (cmd_meta.c), and mending
   files that cannot be opened (meta_mend.c). */
#ifndef COFFER_META_H
#define COFFER_META_H

#include "cli_command.h"
#include "coffer.h"

/* Shows the metadata of the model that names[0] is, or of its first file, or the value of the key names[1]. Returns the
   exit code. */
int meta_show(cli *app, const cli_arguments *arguments);
/* Mends the file that names[0] is (--mend), or with --dry-run says what there is to mend. Returns the exit code. */
int meta_mend(cli *app, const cli_arguments *arguments, const coffer_edit_options *options);
/* What the bytes after the tensors of a file look like: "zeros", "a zip archive"; "" when that is not known. */
const char *meta_looks_like(const coffer_mended_file *mended);

#endif
