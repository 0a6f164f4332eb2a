/* SPDX-License-Identifier: Apache-2.0 */
/* coffer drop PATH GLOB...: a file without some of its tensors. */
#include "cli_names.h"
#include "cli_rewrite.h"

/* Marks what matches; a pattern that takes nothing is more likely a slip than a wish. */
static int plan(cli_rewrite *rewrite, const char *glob)
{
    bool found = false;
    for (size_t i = 0; i < rewrite->count; i++) {
        cli_rewrite_tensor *tensor = &rewrite->tensors[i];
        if (cli_matches(glob, tensor->from->name, tensor->from->name_len)) {
            tensor->dropped = true;
            rewrite->needed = true;
            found = true;
        }
    }
    return found ? CLI_EXIT_OK : cli_rewrite_no_match(rewrite, glob);
}

static int run_drop(cli *app, const cli_arguments *arguments)
{
    cli_rewrite rewrite;
    int code = cli_rewrite_open(&rewrite, app, arguments);
    for (size_t i = 1; code == CLI_EXIT_OK && i < arguments->name_count; i++) {
        code = plan(&rewrite, arguments->names[i]);
    }
    if (code == CLI_EXIT_OK) {
        code = cli_rewrite_run(&rewrite);
    }
    cli_rewrite_close(&rewrite);
    return code;
}

static const cli_option DROP_OPTIONS[] = {
    CLI_OPTION_ROW_OUTPUT, CLI_OPTION_ROW_DRY_RUN, CLI_OPTION_ROW_IN_PLACE, CLI_OPTION_ROW_FORCE,
    CLI_OPTION_ROW_DIGEST, CLI_OPTION_ROW_JSON,    CLI_OPTION_ROW_END,
};

static const cli_example DROP_EXAMPLES[] = {
    { "coffer drop model.safetensors 'optimizer.*' --dry-run", "what would be dropped?" },
    { "coffer drop model.safetensors '*.attn.bias' '*.masked_bias' --in-place", "rewrite the file without them" },
    { NULL, NULL },
};

const cli_command cli_drop = {
    .name = "drop",
    .run = run_drop,
    .summary = "rewrite a file without some of its tensors",
    .usage = "PATH GLOB...",
    .about = "Rewrites a file without the tensors whose names match any of the patterns: * is any text, ? one\n"
             "character, [a-z] one of a set, and a backslash makes the next character literal. Quote patterns,\n"
             "since the shell has patterns too. Every pattern has to match something, or nothing is done. Before\n"
             "PATH itself is rewritten, the command shows the changes on a terminal and asks; otherwise --in-place\n"
             "or -f allows it.\n"
             "\n"
             "JSON: as of coffer align; of changes [{name, change}].\n",
    .options = DROP_OPTIONS,
    .examples = DROP_EXAMPLES,
    .least_names = 2,
    .most_names = SIZE_MAX,
};
