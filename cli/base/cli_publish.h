/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is written as standard output is, and takes its place when it is complete: whatever
 * happens before, the old file stays, or none comes. (Files of tensors are the library's to write,
 * which does the same.)
 *
 * What is no regular file, a device or a pipe, is written to directly.
 */
#ifndef COFFER_CLI_PUBLISH_H
#define COFFER_CLI_PUBLISH_H

#include "cli_command.h"

typedef struct cli_publish {
    cli_output *out; /* write here */
    const char *path;
    char *temporary; /* its name until it is complete; NULL: it is written to directly */
    bool replaces;
} cli_publish;

/* Whether -o names a file at all; if not, reports it and returns the exit code. Standard output is no file. */
int cli_publish_check_name(cli *app, const char *path);
/* Whether a file may be written: one that is there already, or a link to nowhere, only with
   --force, /dev/stdout and its like never. If not, reports it and returns the exit code. */
int cli_publish_check(cli *app, const char *path, bool force);
/* Makes a folder for new files, unless it is there; *made, so that a failure can remove it. On failure reports it and
   returns the exit code. */
int cli_publish_folder(cli *app, const char *path, bool *made);
/* Begins a file. On failure reports it and returns the exit code. */
int cli_publish_open(cli *app, cli_publish *file, const char *path);
/* Ends it: publishes it when `code` is CLI_EXIT_OK and every byte could be written, else leaves nothing behind. Returns
   `code`, or the exit code of what it reported. */
int cli_publish_close(cli *app, cli_publish *file, int code);

#endif
