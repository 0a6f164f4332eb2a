/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of coffer convert. */
#ifndef COFFER_CLI_CONVERT_H
#define COFFER_CLI_CONVERT_H

#include "cli_import.h"

/* A file of another program that is converted. */
typedef struct conversion {
    cli *app;
    const char *path;
    const char *output; /* -o; NULL with --dry-run alone */
    cli_import opened;
    size_t file_count; /* that were written */
    bool sharded;
    bool verified;
    double started;
} conversion;

/* Converts names[0], which is no file of tensors as this program writes them. `why_not` is why it could not be opened
   as one: what is said when no reader knows it either. Returns the exit code. */
int convert_import(cli *app, const cli_arguments *arguments, coffer_format format, const coffer_error *why_not);

/* Writes an opened model as a file of another program, and closes it. Returns the exit code. */
int convert_export(cli *app, const cli_arguments *arguments, coffer_export_format format, coffer *model);

/* Shows on standard output what would be written: each tensor and what becomes of it, what was found, and the account. */
void convert_show_plan(const conversion *run);
/* Says on standard error what was written, and everything that was not. */
void convert_show_done(const conversion *run);
/* An object with all of it; `done` is "written" or "dry_run". */
void convert_show_json(const conversion *run, const char *done);

#endif
