/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of coffer convert. */
#ifndef COFFER_CLI_CONVERT_H
#define COFFER_CLI_CONVERT_H

#include "cli_import.h"
#include "cli_model_folder.h"

#define CLI_LABEL_SIZE 1024 /* a longer one is cut */

/* Files of other programs that are converted to one model. */
typedef struct conversion {
    cli *app;
    const char *path;         /* the first path */
    const char *const *paths; /* all paths, `path_count` of them */
    size_t path_count;
    char label[CLI_LABEL_SIZE]; /* what remarks call them: the path, or "a.bin and 2 more" */
    const char *given;          /* -o; NULL with --dry-run alone */
    const char *output;         /* the same, or the model in that folder */
    cli_model_folder folder;    /* that of -o, if it is one */
    cli_import opened;          /* of all of them */
    cli_import *more;           /* those after the first, as many as were opened so far */
    size_t more_count;
    const char **patterns; /* of --select; or NULL */
    size_t file_count;     /* that were written */
    bool sharded;
    bool verified;
    double started;
} conversion;

/* Converts the names, of which the first is no file of tensors as this program writes them. `why_not` is why it could
   not be opened as one: what is said when no reader knows it either. Returns the exit code. */
int convert_import(cli *app, const cli_arguments *arguments, coffer_format format, const coffer_error *why_not);

/* Whether opening a path as a file of tensors failed by what is in it, so that it may be another program's. */
bool convert_may_be_foreign(const char *path, const coffer_error *err);

/* Writes an opened model as a file of another program, and closes it. Returns the exit code. */
int convert_export(cli *app, const cli_arguments *arguments, coffer_export_format format, coffer *model);

/* Shows on standard output what would be written: each tensor and what becomes of it, what was found, and the account. */
void convert_show_plan(const conversion *run);
/* Says on standard error what was written, and everything that was not. */
void convert_show_done(const conversion *run);
/* An object with all of it; `done` is "written" or "dry_run". */
void convert_show_json(const conversion *run, const char *done);

#endif
