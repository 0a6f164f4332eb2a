/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that one or more files have, to be written again: what split and merge share. The
 * tensors are declared in the order of the files, and in each in its own; metadata are those of all
 * files, which must not contradict each other.
 *
 *     cli_collection all;
 *     int code = cli_collect(&all, app, arguments);
 *     if (code == CLI_EXIT_OK) {
 *         open a writer for all.header, copy all.copies, finish
 *     }
 *     cli_collection_free(&all);
 */
#ifndef COFFER_CLI_COLLECT_H
#define COFFER_CLI_COLLECT_H

#include "cli_command.h"
#include "cli_progress.h"
#include "coffer.h"

typedef struct cli_collection {
    coffer **models;
    size_t model_count;
    coffer_header *header;
    coffer_copy *copies; /* each tensor becomes the one of its number */
    size_t count;
    uint64_t bytes;           /* of all tensors */
    coffer_algorithm digests; /* that the new files record */
    double started;
} cli_collection;

/* Opens the files that are named and declares what is in them. Reports what fails and returns the
   exit code; free in any case. */
int cli_collect(cli_collection *all, cli *app, const cli_arguments *arguments);
void cli_collection_free(cli_collection *all);

/* Refuses an output that is one of these files, or what one of them was named by; see cli_guard.h. */
int cli_collect_guard(const cli_collection *all, cli *app, const cli_arguments *arguments, const char *output);
/* Reports what failed of writing, and returns the exit code: of two tensors of one name, in which of the inputs they are. */
int cli_collect_fail(const cli_collection *all, cli *app, const cli_arguments *arguments, coffer_error *err);
/* The options with which the copies are made: a line of progress, which Ctrl-C stops. End the progress afterwards. */
coffer_read_options cli_collect_progress(const cli_collection *all, cli *app, cli_progress *progress,
                                         cli_progress_part *part);

/* Says on standard error what was written, or would be: "3 files, 160 tensors, 548 MB (12.3 ms)"; without files when it is one. */
void cli_collect_done(const cli_collection *all, cli *app, const char *output, size_t file_count, bool dry_run);
/* The members "output", "done", "tensors", "size", of the tensors in bytes, and "seconds". */
void cli_json_collect_done(const cli_collection *all, cli *app, const char *output, bool dry_run);

#endif
