/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening files, and the one loop over many of them.
 *
 * A file is never mapped: one that is cut short while it is read shall be an error, not a signal.
 * `-` is standard input: a regular file there is used as it is, from its position on; a pipe is
 * first read whole into memory, up to CLI_PIPE_MAX.
 */
#ifndef COFFER_CLI_FILES_H
#define COFFER_CLI_FILES_H

#include "cli_command.h"
#include "coffer.h"

#define CLI_PIPE_MAX (UINT64_C(4) << 30) /* bytes of a pipe */

/* Opens a file or standard input. Says nothing, so that any thread may call it. */
coffer_status cli_open_with(coffer **model, const char *path, const coffer_open_options *options, coffer_error *err);
/* The same, a file of tensors to be read without a map. */
coffer_status cli_open_quietly(coffer **model, const char *path, bool all_notes, coffer_error *err);
/* A model of a file of any format, with all notes. Says nothing. */
coffer_status cli_open_any(coffer **model, const char *path, coffer_error *err);
/* A model of a file of any format, for a command of one file: on failure reports it and returns NULL with the exit code in
   *code. Those of other programs are described by a confined process (cli_sandbox.h). */
coffer *cli_open(cli *app, const char *path, bool all_notes, int *code);
/* The same; a file that is cut short is opened, too, when `partial` is set: see cli_partial.h. */
coffer *cli_open_partial(cli *app, const char *path, bool partial, int *code);

/* The same as programs open it that load it: the load may map its files. */
coffer *cli_open_to_load(cli *app, const char *path, int *code);

/* Says which model was opened where a name led to one of several: of a folder, one in a
   folder below it; of a URL that is no file's, whichever it was, since nobody can tell what
   else is there. */
void cli_remark_choice(cli *app, const char *path, const coffer *model);
/* Says of which pipeline at a URL the model is a part, and which others there are; false where it is none of one that can
   be read. */
bool cli_remark_part(cli *app, const char *url, const coffer *model);
/* Whether the model is the file that was named, and not what a folder or an index led to. */
bool cli_is_single_file(const coffer *model, const char *path);

/* Whether one of the model's files is packed. */
bool cli_is_packed(const coffer *model);

/* The failure of a file of a model that is not there. */
coffer_status cli_missing_file(coffer_error *err);

/* A file of many. */
typedef struct cli_file {
    const char *path;
    coffer *model;        /* NULL when it could not be opened */
    coffer_status status; /* of opening it, then of looking into it */
    coffer_error err;
    void *result; /* what looking into it found; released by free() when it was shown */
} cli_file;

/* What a command does with each file. */
typedef struct cli_file_work {
    bool all_notes;
    bool partial;        /* files that are cut short are opened, too */
    bool any_format;     /* and those of other programs, as models; see coffer_formats */
    const bool *missing; /* of each file, whether it is one of a model that is known not to be there; NULL: none is */
    const char *label;   /* of the progress, counted in files: "checking"; NULL: none */
    /* Runs on any thread for a file that could be opened, and writes nothing. May be NULL. */
    coffer_status (*look)(void *ctx, cli_file *file);
    /* Runs on the caller's thread, in the files' order, for every file. Returns the exit code. */
    int (*show)(cli *app, void *ctx, const cli_file *file);
    void *ctx;
} cli_file_work;

/* Opens, looks and shows, several files at a time; with --json the objects that `show` writes are
   an array's. Returns the worst exit code. */
int cli_each_file(cli *app, const cli_file_work *work, const char *const *paths, size_t count);

#endif
