/* SPDX-License-Identifier: Apache-2.0 */
/* coffer cast PATH GLOB=DTYPE...: floats of another dtype. */
#include "cli_filter.h"
#include "cli_report.h"
#include "cli_rewrite.h"

#include <string.h>

/* Takes GLOB=DTYPE apart, `glob` having space for all of it; a dtype alone is for all floats. */
static int read_cast(cli *app, const char *text, char *glob, coffer_rewrite_rule *rule)
{
    char shown[128];
    const char *equals = strrchr(text, '=');
    coffer_escape(text, strlen(text), shown, sizeof shown);
    if (equals == NULL) {
        *rule = (coffer_rewrite_rule){ COFFER_REWRITE_CAST, cli_rewrite_dtype(text), NULL, NULL };
        return rule->dtype != COFFER_UNKNOWN_DTYPE
                   ? CLI_EXIT_OK
                   : cli_usage_error(app,
                                     "\"%s\" is no dtype to cast to, and has no =; cast wants DTYPE, such as "
                                     "BF16, or GLOB=DTYPE",
                                     shown);
    }
    memcpy(glob, text, (size_t)(equals - text));
    glob[equals - text] = '\0';
    *rule = (coffer_rewrite_rule){ COFFER_REWRITE_CAST, cli_rewrite_dtype(equals + 1), glob, NULL };
    return rule->dtype != COFFER_UNKNOWN_DTYPE
               ? CLI_EXIT_OK
               : cli_usage_error(app, "\"%s\": the dtype is to be " CLI_REWRITE_DTYPES, shown);
}

static int run_cast(cli *app, const cli_arguments *arguments)
{
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    const cli_rewrite_texts rules = cli_rewrite_names(arguments, read_cast);
    cli_filter filter;
    int code = cli_filter_init(&filter, app, arguments, SIZE_MAX) ? CLI_EXIT_OK : CLI_EXIT_UNREADABLE;
    options.select = filter.patterns;
    options.select_count = filter.count;
    if (code == CLI_EXIT_OK) {
        code = cli_rewrite_by_rules(app, arguments, &rules, &options, "its tensors have these dtypes already");
    }
    cli_filter_free(&filter);
    return code;
}

static const cli_option CAST_OPTIONS[] = {
    CLI_OPTION_ROW_FILTER("cast only tensors whose names match; !GLOB leaves out; repeatable"),
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

static const cli_example CAST_EXAMPLES[] = {
    { "coffer cast model.safetensors bf16 -o half.safetensors", "every float to BF16" },
    { "coffer cast model/ bf16 -o half/", "the same of a whole model, with its config.json and tokenizer" },
    { "coffer cast model.safetensors '*norm*=F32' '*=F16' --in-place", "all to F16, except norms to F32" },
    { NULL, NULL },
};

const cli_command cli_cast = {
    .name = "cast",
    .run = run_cast,
    .summary = "rewrite a file with floats of another dtype",
    .usage = "PATH DTYPE|GLOB=DTYPE...",
    .about = "Casts the tensors whose names match a pattern, as in coffer drop, to F16, BF16, F32, F64, F8_E4M3\n"
             "or F8_E5M2, from any float, including those of 4, 6 and 8 bits. A DTYPE alone is for all floats\n"
             "but those of 4 and 6 bits and F8_E8M0. Numbers are rounded to nearest, ties to even; numbers that\n"
             "are too large become infinite, in F8_E4M3 448, as torch casts them, which a warning counts. The\n"
             "first pattern that matches is used. Integers, BOOL and C64 are refused. Every pattern has to match\n"
             "something, or nothing is done. Before PATH itself is rewritten, the command asks on a terminal;\n"
             "otherwise --in-place or -f allows it. PATH is a file, or an index or folder: then all files of the\n"
             "model are rewritten, and replaced together.\n"
             "\n"
             "JSON: as of coffer align; of changes [{name, change, from, to, overflowed, vanished}], the last\n"
             "two being the numbers that became infinite and zero.\n",
    .options = CAST_OPTIONS,
    .examples = CAST_EXAMPLES,
    .least_names = 2,
    .most_names = SIZE_MAX,
};
