/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no command may destroy by a slip: the files that it reads, and files that are read-only. Two
 * names are of one file when they lead to the same device and inode, so that links count. Each of
 * these reports what it refuses and returns the exit code.
 */
#ifndef COFFER_CLI_GUARD_H
#define COFFER_CLI_GUARD_H

#include "cli_command.h"
#include "coffer.h"

/* Refuses an output that is a file which the command reads, however it is forced; `-` is standard input. */
int cli_guard_input(cli *app, const char *output, const char *input);
/* The same for every file of a model; `path` is what it was opened by. An output that is a folder must not be that of one
   of these files; NULL: none is written. */
int cli_guard_model(cli *app, const char *output, const char *path, const coffer *model);
/* Whether a file lies in the folder `output`, or is that folder itself. */
bool cli_guard_is_in_folder(const char *output, const char *file);
/* Refuses an output that is known to be the file `input`. */
int cli_guard_refuse(cli *app, const char *output, const char *input);
/* Refuses to change a file that nobody may write, or not this user, unless `force` is set. A link is followed. */
int cli_guard_read_only(cli *app, const char *path, bool force);
/* Refuses to replace what others see under another name, a symbolic link or a file with hard links,
   unless `force` is set. */
int cli_guard_link(cli *app, const char *path, bool force);

#endif
