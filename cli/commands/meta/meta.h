/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of coffer meta: showing metadata (meta_show.c), and changing them (cmd_meta.c). */
#ifndef COFFER_META_H
#define COFFER_META_H

#include "cli_command.h"
#include "coffer.h"

/* Shows the metadata of the model that names[0] is, or of its first file, or the value of the key names[1]. Returns the
   exit code. */
int meta_show(cli *app, const cli_arguments *arguments);

#endif
