/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What align, cast, convert, drop and rename share: a command says in the library's words what is to become of the
 * tensors, and this asks, shows and tells. With -o another file is written, else the new file takes the old one's place
 * when it is complete.
 *
 * In the file's place nothing is rewritten by a slip: a person is shown what changes and asked, a program says
 * --in-place or -f. What a symbolic link points to, a file with several names, and one that is read-only are rewritten
 * only when told to (-f), as `meta` does. The new file of -o is never the one that is read.
 */
#ifndef COFFER_CLI_REWRITE_H
#define COFFER_CLI_REWRITE_H

#include "cli_changes.h"
#include "cli_command.h"
#include "cli_recorded.h"
#include "coffer.h"

/* The options that all of them have. */
#define CLI_OPTION_ROW_OUTPUT                                                                                          \
    {                                                                                                                  \
        CLI_OPTION_OUTPUT, 'o', "output", "FILE", "write a new file, or FOLDER/ with a whole model, not PATH", NULL    \
    }
#define CLI_OPTION_ROW_DRY_RUN                                                                                         \
    {                                                                                                                  \
        CLI_OPTION_DRY_RUN, 'n', "dry-run", NULL, "say what would change, and change nothing", NULL                    \
    }
#define CLI_OPTION_ROW_ALL_CHANGES                                                                                     \
    {                                                                                                                  \
        CLI_OPTION_ALL, 'v', "all", NULL, "show every change by itself, instead of one for all layers", NULL           \
    }
#define CLI_OPTION_ROW_SHARD_SIZE                                                                                      \
    {                                                                                                                  \
        CLI_OPTION_MAX_SHARD_SIZE, 0, "max-shard-size", "SIZE",                                                        \
            "divide the tensors again, into files of at most so many bytes", NULL                                      \
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

/* Whether the command line says where the new file goes, and whether that may be; what needs no model. Reports what is
   wrong. Returns the exit code. */
int cli_rewrite_check(cli *app, const cli_arguments *arguments);
/* Whether -o is given, where a rewrite needs it: all but a dry run (`unplaced` in the options). Reports that it is not. */
int cli_rewrite_check_given(cli *app, const cli_arguments *arguments);
/* Rewrites the file that names[0] is, or with --dry-run shows what would change. `nothing` is what is said when nothing
   does: "its tensors are aligned already". Reports what fails. Returns the exit code. */
int cli_rewrite(cli *app, const cli_arguments *arguments, const coffer_rewrite_options *wanted, const char *nothing);
/* The same with the model, which cli_recorded_try opened and which is closed here; NULL: it is opened here, too. */
int cli_rewrite_model(cli *app, const cli_arguments *arguments, const coffer_rewrite_options *wanted,
                      const char *nothing, coffer *model);

/* A rewrite that is planned by another function than coffer_rewrite_plan, in which numbers are computed. It is told of
   mismatches by the function itself, before it fails. */
typedef struct cli_rewrite_planner {
    coffer_status (*plan)(void *ctx, coffer_rewrite **rewrite, const coffer *model,
                          const coffer_rewrite_options *options, coffer_error *err);
    void *ctx;
    cli_computed computed;
} cli_rewrite_planner;
/* The same as cli_rewrite with such a plan, to the file or folder of -o, which has to be given but for a dry run. */
int cli_rewrite_planned(cli *app, const cli_arguments *arguments, const cli_rewrite_planner *planner);

/* Reads one argument as a rule, whose pattern goes to `pattern`: space for all of the text. Reports what is wrong with
   it. Returns the exit code. */
typedef int cli_rewrite_read(cli *app, const char *text, char *pattern, coffer_rewrite_rule *rule);
/* A pattern of tensors to keep. */
cli_rewrite_read cli_rewrite_read_keep;
/* The dtype of that name, in any case of letters; COFFER_UNKNOWN_DTYPE for what is none to cast to. */
coffer_dtype cli_rewrite_dtype(const char *text);
#define CLI_REWRITE_DTYPES "F16, BF16, F32, F64, F8_E4M3 or F8_E5M2"
/* Texts that are rules, all of one kind. */
typedef struct cli_rewrite_texts {
    const char *const *texts;
    size_t count;
    cli_rewrite_read *read;
} cli_rewrite_texts;
/* The arguments after PATH, as rules. */
cli_rewrite_texts cli_rewrite_names(const cli_arguments *arguments, cli_rewrite_read *take);
/* The same as cli_rewrite, by those rules in addition to what is wanted besides. */
int cli_rewrite_by_rules(cli *app, const cli_arguments *arguments, const cli_rewrite_texts *rules,
                         const coffer_rewrite_options *wanted, const char *nothing);
/* The same for a file of some tensors, given by rules that keep them: the others are not told of, since nobody loses
   them. */
int cli_rewrite_choose(cli *app, const cli_arguments *arguments, const cli_rewrite_texts *rules,
                       const coffer_rewrite_options *wanted);

#endif
