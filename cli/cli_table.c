/* SPDX-License-Identifier: Apache-2.0 */
/* What is derived of the table of commands, and the options that all of them have. */
#include "cli_command.h"

#include <string.h>

#define COMMAND_ROW(name) &cli_##name,
#define TASK_ROW(name, task) { &cli_##name, task },
#define NO_COMMAND(name)

/* clang-format off */
const cli_command *const CLI_COMMANDS[] = { CLI_COMMAND_TABLE(CLI_NO_TASK, COMMAND_ROW) NULL };
const cli_task CLI_TASKS[] = { CLI_COMMAND_TABLE(TASK_ROW, NO_COMMAND) { NULL, NULL } };
/* clang-format on */

static const cli_option TOP_OPTIONS[] = {
    { CLI_OPTION_VERSION, 'V', "version", NULL, "show the version", NULL },
    CLI_OPTION_ROW_HELP,
    CLI_OPTION_ROW_END,
};

const cli_command cli_top = { .name = NULL, .options = TOP_OPTIONS };

const cli_option CLI_COMMON_OPTIONS[] = {
    { CLI_OPTION_QUIET, 'q', "quiet", NULL, "print only errors and the requested data", NULL },
    { CLI_OPTION_COLOR, 0, "color", "WHEN", "colours: auto (on a terminal), always or never", "auto|always|never" },
    { CLI_OPTION_NO_PROGRESS, 0, "no-progress", NULL, "show no progress, even on a terminal", NULL },
    CLI_OPTION_ROW_HELP,
    CLI_OPTION_ROW_END,
};

const cli_variable CLI_ENVIRONMENT[] = {
    { "HF_TOKEN", "the token for hf://, if the Hub's own tools have not stored one" },
    { "HF_ENDPOINT", "a mirror of the Hub" },
    { "HF_HUB_OFFLINE", "1: use only the Hub's cache" },
    { "AWS_ACCESS_KEY_ID", "with AWS_SECRET_ACCESS_KEY and AWS_REGION, the key for s3://" },
    { "AWS_ENDPOINT_URL", "another object store for s3://" },
    { "SSL_CERT_FILE", "the certificates to trust, instead of the system's" },
    { "COFFER_NET_TIMEOUT", "seconds to wait for a silent server; 30 if not set" },
    { "NO_COLOR", "if it is set: no colours" },
    { NULL, NULL },
};

const cli_option *cli_option_at(const cli_command *command, size_t i)
{
    size_t own = 0;
    while (command->options[own].id != CLI_OPTION_END) {
        own++;
    }
    const cli_option *option = i < own               ? &command->options[i]
                               : command == &cli_top ? NULL
                                                     : &CLI_COMMON_OPTIONS[i - own];
    return option == NULL || option->id == CLI_OPTION_END ? NULL : option;
}

/* Each under the option that it means now; of --except GLOB that is --filter '!GLOB' (cli_filter.h). */
static const struct {
    const cli_command *command;
    cli_option option;
} OLD_OPTIONS[] = {
    { &cli_convert, { CLI_OPTION_FILTER, 0, "select", "GLOB", NULL, NULL } },
    { &cli_merge_lora, { CLI_OPTION_FILTER, 0, "select", "GLOB", NULL, NULL } },
    { &cli_extract_lora, { CLI_OPTION_FILTER, 0, "select", "GLOB", NULL, NULL } },
    { &cli_add_lora, { CLI_OPTION_FILTER, 0, "select", "GLOB", NULL, NULL } },
    { &cli_verify, { CLI_OPTION_FILTER, 't', "tensor", "GLOB", NULL, NULL } },
    { &cli_drop, { CLI_OPTION_EXCEPT, 0, "except", "GLOB", NULL, NULL } },
    { &cli_stats, { CLI_OPTION_OUTPUT, 0, "plot", "FILE", NULL, NULL } },
    { &cli_doctor, { CLI_OPTION_OUTPUT, 0, "html", "FILE", NULL, NULL } },
    { &cli_hash, { CLI_OPTION_ALGORITHM, 'a', "algorithm", "NAME", NULL, "sha256|xxh3" } },
    { &cli_meta, { CLI_OPTION_FOLLOW_LINKS, 0, "follow-links", NULL, NULL, NULL } },
    { &cli_index, { CLI_OPTION_FOLLOW_LINKS, 0, "follow-links", NULL, NULL, NULL } },
    { &cli_rename, { CLI_OPTION_ALL, 'v', "all", NULL, NULL, NULL } },
    { &cli_drop, { CLI_OPTION_ALL, 'v', "all", NULL, NULL, NULL } },
    { &cli_cast, { CLI_OPTION_ALL, 'v', "all", NULL, NULL, NULL } },
    { &cli_merge_lora, { CLI_OPTION_ALL, 'v', "all", NULL, NULL, NULL } },
    { &cli_extract_lora, { CLI_OPTION_ALL, 'v', "all", NULL, NULL, NULL } },
    { &cli_average, { CLI_OPTION_ALL, 'v', "all", NULL, NULL, NULL } },
};
#define OLD_OPTION_COUNT (sizeof OLD_OPTIONS / sizeof OLD_OPTIONS[0])

const cli_option *cli_old_option_at(const cli_command *command, size_t i)
{
    for (size_t k = 0; k < OLD_OPTION_COUNT; k++) {
        if (OLD_OPTIONS[k].command == command && i-- == 0) {
            return &OLD_OPTIONS[k].option;
        }
    }
    return NULL;
}

const char *cli_task_of_first(const cli_command *command)
{
    for (const cli_task *task = CLI_TASKS; task->first != NULL; task++) {
        if (task->first == command) {
            return task->name;
        }
    }
    return NULL;
}

/* What other programs, or earlier versions, call a command. */
static const struct {
    const char *word;
    const cli_command *command;
    const char *option; /* that the word implies, or NULL */
} OTHER_WORDS[] = {
    { "dump", &cli_ls, NULL },
    { "inspect", &cli_info, NULL },
    { "tree", &cli_ls, "--tree" },
    { "validate", &cli_check, NULL },
};
#define OTHER_WORD_COUNT (sizeof OTHER_WORDS / sizeof OTHER_WORDS[0])

const char *cli_implied_option(const char *name)
{
    for (size_t i = 0; i < OTHER_WORD_COUNT; i++) {
        if (strcmp(OTHER_WORDS[i].word, name) == 0) {
            return OTHER_WORDS[i].option;
        }
    }
    return NULL;
}

const cli_command *cli_find_command(const char *name)
{
    for (size_t i = 0; i < OTHER_WORD_COUNT; i++) {
        if (strcmp(OTHER_WORDS[i].word, name) == 0) {
            return OTHER_WORDS[i].command;
        }
    }
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        const char *alias = CLI_COMMANDS[i]->alias;
        if (strcmp(CLI_COMMANDS[i]->name, name) == 0 || (alias != NULL && strcmp(alias, name) == 0)) {
            return CLI_COMMANDS[i];
        }
    }
    return NULL;
}
