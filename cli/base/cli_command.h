/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command is. One table, CLI_COMMAND_TABLE below, lists them all; the parser of options, the help, the
 * messages about wrong usage, the completions and the manual page are made from it.
 *
 * To add a command: write cmd_NAME.c with one `const cli_command cli_NAME`, and add its row to the table. Its table of
 * options has its own options only; those of every command are CLI_COMMON_OPTIONS, and the parser has already carried
 * them out when the command runs: see `json`, `tsv` and `quiet` in cli.
 */
#ifndef COFFER_CLI_COMMAND_H
#define COFFER_CLI_COMMAND_H

#include "cli_output.h"

/* What the process tells its caller. */
enum {
    CLI_EXIT_OK = 0,
    CLI_EXIT_NOT_CONFORMING = 1, /* a file breaks the format's rules, or has no such tensor, key or index */
    CLI_EXIT_USAGE = 2,          /* the command line itself is wrong, whatever the files say */
    CLI_EXIT_UNREADABLE = 3      /* a file, or the output, could not be read or written */
    /* After Ctrl-C the process dies of the signal: 130 in a shell. See cli_interrupt.h. */
};

typedef enum cli_option_id {
    CLI_OPTION_END = 0, /* closes a table of options */
    CLI_OPTION_HELP,
    CLI_OPTION_VERSION,
    CLI_OPTION_JSON,
    CLI_OPTION_TSV,
    CLI_OPTION_QUIET,
    CLI_OPTION_NO_PROGRESS,
    CLI_OPTION_SORT,
    CLI_OPTION_TREE,
    CLI_OPTION_DTYPES,
    CLI_OPTION_MAP,
    CLI_OPTION_FILTER, /* see cli_filter.h */
    CLI_OPTION_LIMIT,
    CLI_OPTION_STRICT,
    CLI_OPTION_ALL,
    CLI_OPTION_OUTPUT,
    CLI_OPTION_FORCE,
    CLI_OPTION_FORMAT,
    CLI_OPTION_AS,
    CLI_OPTION_SET,
    CLI_OPTION_UNSET,
    CLI_OPTION_SET_JSON,
    CLI_OPTION_RECOVER,
    CLI_OPTION_FIX,
    CLI_OPTION_SUPERSEDED,
    CLI_OPTION_REWRITE,
    CLI_OPTION_INSERT,
    CLI_OPTION_FOLLOW_LINKS,
    CLI_OPTION_DRY_RUN,
    CLI_OPTION_TO,
    CLI_OPTION_HISTOGRAM,
    CLI_OPTION_REVISION,
    CLI_OPTION_TOLERANCE,
    CLI_OPTION_THRESHOLD,
    CLI_OPTION_HEADER,
    CLI_OPTION_SUMMARY,
    CLI_OPTION_MAX_SHARD_SIZE,
    CLI_OPTION_BALANCED,
    CLI_OPTION_ALGORITHM,
    CLI_OPTION_CONTENT,
    CLI_OPTION_WRITE,
    CLI_OPTION_MANIFEST,
    CLI_OPTION_SIGN,
    CLI_OPTION_KEY,
    CLI_OPTION_TENSOR,
    CLI_OPTION_STATE,
    CLI_OPTION_IGNORE_EXTRA,
    CLI_OPTION_DIGEST,
    CLI_OPTION_FAIL_ON,
    CLI_OPTION_IN_PLACE,
    CLI_OPTION_PARTIAL,
    CLI_OPTION_DATA,
    CLI_OPTION_PAGE,
    CLI_OPTION_ROOT,
    CLI_OPTION_TIED,
    CLI_OPTION_SCALARS,
    CLI_OPTION_STRIP_PREFIX,
    CLI_OPTION_SKIP_UNSUPPORTED,
    CLI_OPTION_BYTES_AS,
    CLI_OPTION_COMPLEX128,
    CLI_OPTION_ALLOW_EXPAND,
    CLI_OPTION_NO_VERIFY,
    CLI_OPTION_NO_CRC,
    CLI_OPTION_NO_SANDBOX,
    CLI_OPTION_TP,
    CLI_OPTION_RANK,
    CLI_OPTION_SPLIT,
    CLI_OPTION_DEVICE,
    CLI_OPTION_ENGINE,
    CLI_OPTION_COLD,
    CLI_OPTION_VERIFY,
    CLI_OPTION_RAW,
    CLI_OPTION_PACKED,
    CLI_OPTION_CONSTANTS,
    CLI_OPTION_ARCH,
    CLI_OPTION_SIDECAR,
    CLI_OPTION_DEQUANTIZE,
    CLI_OPTION_EXCEPT,
    CLI_OPTION_REGEX,
    CLI_OPTION_TABLE,
    CLI_OPTION_RENAME_MAP,
    CLI_OPTION_LAYERS,
    CLI_OPTION_IGNORE_UNMATCHED,
    CLI_OPTION_CONTEXT,
    CLI_OPTION_FIT,
    CLI_OPTION_LONG,
    CLI_OPTION_COLOR,
    CLI_OPTION_SCALE,
    CLI_OPTION_WEIGHT,
    CLI_OPTION_LIKE,
    CLI_OPTION_ALLOW_NOT_FINITE,
    CLI_OPTION_SLERP,
    CLI_OPTION_DTYPE,
    CLI_OPTION_FAN_IN_FAN_OUT,
    CLI_OPTION_AGAINST
} cli_option_id;

typedef struct cli_option {
    cli_option_id id;
    char letter;          /* the short form, or 0 */
    const char *name;     /* the long form, without dashes */
    const char *argument; /* what its value is called, or NULL when it takes none */
    const char *summary;
    const char *values; /* the values that it may have, "name|offset|size", or NULL: any; the parser sees to it */
} cli_option;

/* At the end of an option's values: the formats that can be written (cli_formats.h). */
#define CLI_VALUES_FORMATS "@formats"
/* The same, and after them the formats of other programs that models are exported to. */
#define CLI_VALUES_EXPORTS "@formats and exports"

/* Rows that several tables have, and the one that every table ends with. */
#define CLI_OPTION_ROW_HELP                                                                                            \
    {                                                                                                                  \
        CLI_OPTION_HELP, 'h', "help", NULL, "show this help", NULL                                                     \
    }
#define CLI_OPTION_ROW_JSON                                                                                            \
    {                                                                                                                  \
        CLI_OPTION_JSON, 0, "json", NULL, "write JSON, for programs", NULL                                             \
    }
#define CLI_OPTION_ROW_TSV                                                                                             \
    {                                                                                                                  \
        CLI_OPTION_TSV, 0, "tsv", NULL, "write fields separated by tabs, after a line of names", NULL                  \
    }
#define CLI_OPTION_ROW_END                                                                                             \
    {                                                                                                                  \
        CLI_OPTION_END, 0, NULL, NULL, NULL, NULL                                                                      \
    }

/* An option as it was given. */
typedef struct cli_choice {
    const cli_option *option;
    const char *value; /* NULL when it takes none */
} cli_choice;

/* A command line, understood. */
typedef struct cli_arguments {
    const char **names; /* what is not an option, in order */
    size_t name_count;
    cli_choice *choices; /* the options, in order */
    size_t choice_count;
} cli_arguments;

/* What every command works with. */
typedef struct cli {
    cli_output out;
    const struct cli_command *command; /* the one that runs, or NULL */
    struct cli_progress *progress;     /* in progress, or NULL */
    bool json;                         /* --json */
    bool tsv;                          /* --tsv */
    bool quiet;                        /* --quiet: no remarks (cli_remark), no progress */
    bool shows_progress;               /* standard error is a terminal, and nobody forbade it */
    bool error_colour;                 /* colour on standard error */
    bool error_ascii;                  /* standard error is a terminal that shows no UTF-8 */
} cli;

typedef struct cli_example {
    const char *line; /* as it is typed; NULL closes the table */
    const char *what;
} cli_example;

/* A variable of the environment that the command obeys. */
typedef struct cli_variable {
    const char *name; /* NULL closes the table */
    const char *what;
} cli_variable;

typedef struct cli_command {
    const char *name;
    const char *alias;                                    /* another name, or NULL */
    int (*run)(cli *app, const cli_arguments *arguments); /* returns the exit code */
    const char *summary;                                  /* one line, no full stop */
    const char *usage;                                    /* what follows the options: "PATH NAME[SLICE]" */
    const char *about;                                    /* lines for the help, each ended by a newline */
    const cli_option *options;                            /* its own, closed by CLI_OPTION_ROW_END */
    const cli_example *examples;
    size_t least_names;
    size_t most_names; /* SIZE_MAX: any number */
    /* What is not supported is so for what the files have, and not on this system: it fails as a file that does not
       conform. */
    bool takes_apart;
} cli_command;

/*
 * Every command, in the order of the help, and before the first command for a task the task. A new command is its file,
 * cmd_NAME.c, and its row here.
 */
/* clang-format off */
#define CLI_COMMAND_TABLE(TASK, COMMAND)                                                                               \
    TASK(info, "Look at models")                                                                                       \
    COMMAND(info)                                                                                                      \
    COMMAND(ls)                                                                                                        \
    COMMAND(browse)                                                                                                    \
    COMMAND(get)                                                                                                       \
    COMMAND(stats)                                                                                                     \
    COMMAND(diff)                                                                                                      \
    COMMAND(report)                                                                                                    \
    TASK(check, "Check and verify")                                                                                    \
    COMMAND(check)                                                                                                     \
    COMMAND(doctor)                                                                                                    \
    COMMAND(scan)                                                                                                      \
    COMMAND(hash)                                                                                                      \
    COMMAND(verify)                                                                                                    \
    TASK(meta, "Change files")                                                                                         \
    COMMAND(meta)                                                                                                      \
    COMMAND(rename)                                                                                                    \
    COMMAND(drop)                                                                                                      \
    COMMAND(cast)                                                                                                      \
    COMMAND(align)                                                                                                     \
    TASK(convert, "Convert checkpoints")                                                                               \
    COMMAND(convert)                                                                                                   \
    COMMAND(dequantize)                                                                                                \
    TASK(split, "Split and combine")                                                                                   \
    COMMAND(split)                                                                                                     \
    COMMAND(merge)                                                                                                     \
    COMMAND(pack)                                                                                                      \
    COMMAND(unpack)                                                                                                    \
    COMMAND(index)                                                                                                     \
    COMMAND(merge_lora)                                                                                                \
    COMMAND(extract_lora)                                                                                              \
    COMMAND(add_lora)                                                                                                  \
    COMMAND(average)                                                                                                   \
    TASK(fetch, "Move models")                                                                                         \
    COMMAND(fetch)                                                                                                     \
    TASK(load, "Load models")                                                                                          \
    COMMAND(load)                                                                                                      \
    COMMAND(plan)                                                                                                      \
    COMMAND(devices)                                                                                                   \
    COMMAND(keep)                                                                                                      \
    TASK(completion, "Help")                                                                                           \
    COMMAND(completion)                                                                                                \
    COMMAND(help)
/* clang-format on */

#define CLI_NO_TASK(name, task)
#define CLI_DECLARE_COMMAND(name) extern const cli_command cli_##name;
CLI_COMMAND_TABLE(CLI_NO_TASK, CLI_DECLARE_COMMAND)
#undef CLI_DECLARE_COMMAND

/* A task, and the first of the commands for it. */
typedef struct cli_task {
    const cli_command *first; /* NULL closes the table */
    const char *name;
} cli_task;

/* All commands in the order of the help, those for one task together; NULL closes it. */
extern const cli_command *const CLI_COMMANDS[];
extern const cli_task CLI_TASKS[];
/* The task whose first command this is, or NULL. */
const char *cli_task_of_first(const cli_command *command);
/* The options that stand before a command, as the options of a command without a name. */
extern const cli_command cli_top;

/* What of the environment users set most often; docs/network.md has all of it. */
extern const cli_variable CLI_ENVIRONMENT[];

/* The options of every command, closed by CLI_OPTION_ROW_END. */
extern const cli_option CLI_COMMON_OPTIONS[];
/* Option `i` of a command, its own first, then the common ones; NULL when there are no more.
   cli_top has its own only. */
const cli_option *cli_option_at(const cli_command *command, size_t i);
/* Spelling `i` of an earlier version, which still works and is shown nowhere; NULL when there are no more. */
const cli_option *cli_old_option_at(const cli_command *command, size_t i);

/* The command of that name, alias, or other word for it, or NULL. */
const cli_command *cli_find_command(const char *name);
/* What a word for a command says besides, as an option: of `tree`, --tree. NULL: nothing. */
const char *cli_implied_option(const char *name);

#endif
