/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files below a folder, all the way down, in byte order of their names. A symbolic link to a
 * file is a file when links are followed, and else trouble; one to a folder is never followed, so
 * that no folder comes twice. What is neither file nor folder is trouble too.
 */
#ifndef COFFER_CLI_FOLDER_H
#define COFFER_CLI_FOLDER_H

#include "cli_command.h"

typedef struct cli_folder_file {
    char *path; /* to open it */
    char *name; /* below the folder; part of the path */
    uint64_t size;
} cli_folder_file;

typedef struct cli_folder {
    cli_folder_file *files;
    size_t count;
    size_t capacity;
    size_t trouble; /* what was reported */
} cli_folder;

typedef struct cli_folder_rule {
    bool follows_links;
    bool
        needs_all; /* a link to a folder, whose files are left out, is trouble, and so is all trouble a file that fails */
    /* Whether a file, or a folder with all that is in it, is left out. May be NULL. */
    bool (*leaves_out)(const void *ctx, const char *name);
    const void *ctx;
} cli_folder_rule;

/* Lists the files below `path`. Reports trouble and goes on; returns the exit code. Free it in any case. */
int cli_folder_list(cli *app, const char *path, const cli_folder_rule *rule, cli_folder *folder);
void cli_folder_free(cli_folder *folder);
/* A path as it is shown: without the "./" of what lies below the folder `.`. */
const char *cli_shown_path(const char *path);
/* Whether a path is a folder. */
bool cli_is_folder(const char *path);
/* The name that the file `path` has, or would have, below a folder, to be freed; NULL when it is
   not below that folder. */
char *cli_name_below(const char *folder, const char *path);

#endif
