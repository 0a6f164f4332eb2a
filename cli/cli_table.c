/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands, and the options of all of them: the one place that lists them. */
#include "cli_command.h"

#include <string.h>

const cli_command *const CLI_COMMANDS[] = {
    &cli_info,         &cli_ls,      &cli_browse, &cli_check,      &cli_doctor, &cli_get,   &cli_meta,
    &cli_align,        &cli_rename,  &cli_drop,   &cli_cast,       &cli_stats,  &cli_diff,  &cli_convert,
    &cli_scan,         &cli_split,   &cli_merge,  &cli_pack,       &cli_unpack, &cli_index, &cli_merge_lora,
    &cli_extract_lora, &cli_average, &cli_hash,   &cli_verify,     &cli_fetch,  &cli_plan,  &cli_load,
    &cli_devices,      &cli_keep,    &cli_report, &cli_completion, &cli_help,   NULL,
};

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
    { "NO_COLOR", "no colours, whatever its value" },
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

const cli_command *cli_find_command(const char *name)
{
    for (size_t i = 0; CLI_COMMANDS[i] != NULL; i++) {
        const char *alias = CLI_COMMANDS[i]->alias;
        if (strcmp(CLI_COMMANDS[i]->name, name) == 0 || (alias != NULL && strcmp(alias, name) == 0)) {
            return CLI_COMMANDS[i];
        }
    }
    return NULL;
}
