/* SPDX-License-Identifier: Apache-2.0 */
/* coffer drop PATH GLOB...: a file without some of its tensors. */
#include "cli_options.h"
#include "cli_report.h"
#include "cli_rewrite.h"

#include <stdlib.h>
#include <string.h>

static int read_drop(cli *app, const char *text, char *pattern, coffer_rewrite_rule *rule)
{
    (void)app;
    memcpy(pattern, text, strlen(text) + 1);
    *rule = (coffer_rewrite_rule){ .kind = COFFER_REWRITE_DROP, .pattern = pattern };
    return CLI_EXIT_OK;
}

static int run_drop(cli *app, const cli_arguments *arguments)
{
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    const bool excepting = cli_given(arguments, CLI_OPTION_EXCEPT);
    options.drop_superseded = cli_given(arguments, CLI_OPTION_SUPERSEDED);
    if (options.drop_superseded && !excepting && arguments->name_count == 1) {
        return cli_rewrite(app, arguments, &options, "no tensor is in two of its files");
    }
    if (excepting == (arguments->name_count > 1)) {
        return cli_usage_error(
            app, "say what is dropped (GLOB... or --superseded) or what is not (--except GLOB): one of them");
    }
    cli_rewrite_texts rules = cli_rewrite_names(arguments, read_drop);
    if (!excepting) {
        return cli_rewrite_by_rules(app, arguments, &rules, &options, "");
    }
    const char **kept = cli_values_of(arguments, CLI_OPTION_EXCEPT, &rules.count);
    rules.texts = kept;
    rules.read = cli_rewrite_read_keep;
    const int code =
        kept == NULL ? cli_fail_memory(app, arguments->names[0])
                     : cli_rewrite_by_rules(app, arguments, &rules, &options, "the patterns match all of its tensors");
    free(kept);
    return code;
}

static const cli_option DROP_OPTIONS[] = {
    { CLI_OPTION_EXCEPT, 0, "except", "GLOB", "drop everything else; repeatable", NULL },
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
    { "coffer drop model/ --except 'vision_tower.*' -o vision.safetensors", "only those" },
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
             "and replaced together. With --except everything is dropped that none of its patterns matches.\n"
             "--superseded drops the stale copies of a model whose files were saved one over another: where a name\n"
             "is in two files, the copy in the file that the index names stays.\n"
             "\n"
             "JSON: as of coffer align; of changes [{name, change}].\n",
    .options = DROP_OPTIONS,
    .examples = DROP_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
