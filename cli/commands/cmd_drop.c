/* SPDX-License-Identifier: Apache-2.0 */
/* coffer drop PATH GLOB...: a file without some of its tensors. */
#include "cli_filter.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_rewrite.h"

#include <string.h>

static int read_drop(cli *app, const char *text, char *pattern, coffer_rewrite_rule *rule)
{
    (void)app;
    memcpy(pattern, text, strlen(text) + 1);
    *rule = (coffer_rewrite_rule){ .kind = COFFER_REWRITE_DROP, .pattern = pattern };
    return CLI_EXIT_OK;
}

/* With exclusions alone, what they name is kept. */
static int read_exception(cli *app, const char *text, char *pattern, coffer_rewrite_rule *rule)
{
    return cli_rewrite_read_keep(app, text + 1, pattern, rule);
}

static int drop_by(cli *app, const cli_arguments *arguments, const cli_filter *filter, coffer_rewrite_options *options)
{
    if (options->drop_superseded && filter->count == 0) {
        return cli_rewrite(app, arguments, options, "no tensor is in two of its files");
    }
    if (filter->count == 0) {
        return cli_usage_error(app, "say what is dropped: GLOB..., --filter GLOB or --superseded; all but what "
                                    "matches: --filter '!GLOB'");
    }
    if (filter->taking == 0) {
        const cli_rewrite_texts rules = { filter->patterns, filter->count, read_exception };
        return cli_rewrite_by_rules(app, arguments, &rules, options, "the patterns match all of its tensors");
    }
    const cli_rewrite_texts rules = { filter->patterns, filter->taking, read_drop };
    options->select = filter->patterns + filter->taking;
    options->select_count = filter->count - filter->taking;
    return cli_rewrite_by_rules(app, arguments, &rules, options, "");
}

static int run_drop(cli *app, const cli_arguments *arguments)
{
    cli_filter filter;
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.drop_superseded = cli_given(arguments, CLI_OPTION_SUPERSEDED);
    const int code =
        cli_filter_init(&filter, app, arguments, 1) ? drop_by(app, arguments, &filter, &options) : CLI_EXIT_UNREADABLE;
    cli_filter_free(&filter);
    return code;
}

static const cli_option DROP_OPTIONS[] = {
    CLI_OPTION_ROW_FILTER("drop what matches, as with GLOB; !GLOB leaves it in; repeatable"),
    { CLI_OPTION_SUPERSEDED, 0, "superseded", NULL, "drop copies of tensors that the index says are in other files",
      NULL },
    CLI_OPTION_ROW_OUTPUT,
    CLI_OPTION_ROW_SHARD_SIZE,
    CLI_OPTION_ROW_DRY_RUN,
    CLI_OPTION_ROW_ALL_CHANGES,
    CLI_OPTION_ROW_IN_PLACE,
    CLI_OPTION_ROW_FORCE,
    CLI_OPTION_ROW_DIGEST,
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example DROP_EXAMPLES[] = {
    { "coffer drop model.safetensors 'optimizer.*' --dry-run", "what would be dropped?" },
    { "coffer drop model.safetensors '*.attn.bias' '*.masked_bias' --in-place", "rewrite the file without them" },
    { "coffer drop model/ --filter '!vision_tower.*' -o vision.safetensors", "only those" },
    { NULL, NULL },
};

const cli_command cli_drop = {
    .name = "drop",
    .run = run_drop,
    .summary = "rewrite a file without some of its tensors",
    .usage = "PATH [GLOB...]",
    .about = "Rewrites a file without the tensors whose names match any of the patterns: * is any text, ? one\n"
             "character, [a-z] one of a set, and a backslash makes the next character literal. Quote patterns,\n"
             "since the shell has patterns too. Every pattern has to match something, or nothing is done. Before\n"
             "PATH itself is rewritten, the command shows the changes on a terminal and asks; otherwise --in-place\n"
             "or -f allows it. PATH is a file, or an index or folder: then all files of the model are rewritten,\n"
             "and replaced together. What matches !GLOB stays; with such patterns alone all else is dropped.\n"
             "--superseded drops the stale copies of a model whose files were saved one over another: where a name\n"
             "is in two files, the copy in the file that the index names stays.\n"
             "\n"
             "JSON: as of coffer align; of changes [{name, change}].\n",
    .options = DROP_OPTIONS,
    .examples = DROP_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
