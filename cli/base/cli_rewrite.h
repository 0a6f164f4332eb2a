/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewriting a file: what align, rename, drop and cast share. The command plans what the new file has, this carries it out:
 * another file with -o, or one that takes the old one's place when it is complete, in the old one's format. Until then nothing is touched, so that after
 * any failure and after Ctrl-C the old file is as it was. Metadata stay, and so do the alignment of the data and slack that was
 * reserved, and a .bt file stays one; tensors come in the order in which every writer puts them.
 *
 *     cli_rewrite rewrite;
 *     int code = cli_rewrite_open(&rewrite, app, arguments);
 *     if (code == CLI_EXIT_OK) {
 *         change rewrite.tensors
 *         code = cli_rewrite_run(&rewrite);
 *     }
 *     cli_rewrite_close(&rewrite);
 *
 * In the file's place nothing is rewritten by a slip: a person is shown what changes and asked, a program says --in-place or -f.
 * What a symbolic link points to, a file with several names, and one that is read-only are rewritten only when told to (-f), as
 * `meta` does. The file is locked against edits of the metadata meanwhile. The new file of -o is never the one that is read.
 */
#ifndef COFFER_CLI_REWRITE_H
#define COFFER_CLI_REWRITE_H

#include "cli_command.h"
#include "cli_progress.h"
#include "cli_recorded.h"
#include "coffer.h"

/* The options that all of them have. */
#define CLI_OPTION_ROW_OUTPUT                                                                                          \
    {                                                                                                                  \
        CLI_OPTION_OUTPUT, 'o', "output", "FILE", "write a new file instead of rewriting PATH", NULL                   \
    }
#define CLI_OPTION_ROW_DRY_RUN                                                                                         \
    {                                                                                                                  \
        CLI_OPTION_DRY_RUN, 'n', "dry-run", NULL, "say what would change, and change nothing", NULL                    \
    }
#define CLI_OPTION_ROW_IN_PLACE                                                                                        \
    {                                                                                                                  \
        CLI_OPTION_IN_PLACE, 0, "in-place", NULL, "rewrite PATH without asking", NULL                                  \
    }
#define CLI_OPTION_ROW_FORCE                                                                                           \
    {                                                                                                                  \
        CLI_OPTION_FORCE, 'f', "force", NULL,                                                                          \
            "overwrite FILE; rewrite PATH unasked, be it read-only, linked or a link", NULL                            \
    }

/* What becomes of one of the file's tensors. Begins as: it stays as it is. */
typedef struct cli_rewrite_tensor {
    const coffer_tensor *from;
    const char *name; /* its new one; borrowed until cli_rewrite_close */
    size_t name_len;
    coffer_dtype dtype; /* its new one */
    bool dropped;
    bool unaligned;      /* stands where its dtype does not want it: named as a change */
    size_t to;           /* its number in the new file, when it is not dropped */
    uint64_t overflowed; /* of a cast: numbers that became infinite … */
    uint64_t vanished;   /* … and those that became zero */
} cli_rewrite_tensor;

typedef struct cli_rewrite {
    cli *app;
    const char *path;
    const char *output; /* -o, or NULL */
    const char *target; /* what is written: the output, or what the path leads to */
    bool dry_run;
    bool agreed; /* to a rewrite in the file's place */
    coffer *model;
    cli_rewrite_tensor *tensors; /* as many as the model has, in the file's order */
    size_t count;
    coffer_format format;     /* of the new file; begins as this one's, which is never written in layout A */
    uint64_t alignment;       /* of the data's start in the new file */
    uint64_t slack;           /* to reserve in its header */
    coffer_algorithm digests; /* that the new file records */
    bool needed;              /* something changes; without it nothing is written but an output */
    const char *nothing;      /* what is said when nothing changes: "its tensors are aligned already" */
    /* Writes the tensors whose dtype changes. NULL where none does. */
    coffer_status (*convert)(struct cli_rewrite *rewrite, coffer_writer *writer, cli_progress *progress,
                             coffer_error *err);
    /* its own */
    char *real_path;
    int lock;
    coffer_header *header;
    uint64_t size; /* of the new file */
    double started;
} cli_rewrite;

/* Reads the options and opens the file; names[0] is its path. Reports what fails. Close in any case. */
int cli_rewrite_open(cli_rewrite *rewrite, cli *app, const cli_arguments *arguments);
/* Carries the plan out, or with --dry-run shows it. Returns the exit code. */
int cli_rewrite_run(cli_rewrite *rewrite);
void cli_rewrite_close(cli_rewrite *rewrite);

/* Reports a failure of this file or of the new one. Returns the exit code. */
int cli_rewrite_fail(const cli_rewrite *rewrite, const coffer_error *err);
/* The same with a status and a message of the command's own. */
__attribute__((format(printf, 3, 4))) int cli_rewrite_refuse(const cli_rewrite *rewrite, coffer_status status,
                                                             const char *format, ...);
/* A pattern took no tensor: the slip of a finger rather than a wish. */
int cli_rewrite_no_match(const cli_rewrite *rewrite, const char *glob);

#endif
