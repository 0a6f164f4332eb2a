/* SPDX-License-Identifier: Apache-2.0 */
/* coffer rename PATH OLD=NEW...: other names for tensors, one by one or by a pattern. */
#include "cli_report.h"
#include "cli_rewrite.h"

#include <string.h>

/* The first = that no backslash takes as it is; NULL when there is none. */
static const char *find_equals(const char *text)
{
    for (; *text != '\0' && *text != '='; text++) {
        text += text[0] == '\\' && text[1] != '\0';
    }
    return *text == '=' ? text : NULL;
}

static size_t count_stars(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++) {
        if (text[0] == '\\' && text[1] != '\0') {
            text++;
        } else {
            count += *text == '*';
        }
    }
    return count;
}

/* Takes OLD=NEW apart, `old` having room for all of it. */
static int read_rename(cli *app, const char *text, char *old, coffer_rewrite_rule *rule)
{
    char shown[128];
    const char *equals = find_equals(text);
    coffer_escape(text, strlen(text), shown, sizeof shown);
    if (equals == NULL) {
        return cli_usage_error(app, "\"%s\" has no =; rename needs OLD=NEW (a = within a name is written \\=)", shown);
    }
    memcpy(old, text, (size_t)(equals - text));
    old[equals - text] = '\0';
    *rule = (coffer_rewrite_rule){ .kind = COFFER_REWRITE_RENAME, .pattern = old, .name = equals + 1 };
    const size_t stars = count_stars(rule->pattern);
    if (stars > COFFER_REWRITE_MOST_STARS) {
        return cli_usage_error(app, "\"%s\" has more than %d stars", shown, COFFER_REWRITE_MOST_STARS);
    }
    return count_stars(rule->name) <= stars
               ? CLI_EXIT_OK
               : cli_usage_error(app, "\"%s\" has more stars in the new name than in the old one", shown);
}

static int run_rename(cli *app, const cli_arguments *arguments)
{
    const coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    const cli_rewrite_texts rules = cli_rewrite_names(arguments, read_rename);
    return cli_rewrite_by_rules(app, arguments, &rules, &options, "its tensors are named so already");
}

static const cli_option RENAME_OPTIONS[] = {
    CLI_OPTION_ROW_OUTPUT, CLI_OPTION_ROW_SHARD_SIZE, CLI_OPTION_ROW_DRY_RUN, CLI_OPTION_ROW_IN_PLACE,
    CLI_OPTION_ROW_FORCE,  CLI_OPTION_ROW_DIGEST,     CLI_OPTION_ROW_JSON,    CLI_OPTION_ROW_END,
};

static const cli_example RENAME_EXAMPLES[] = {
    { "coffer rename model.safetensors wte.weight=tok_embeddings.weight --in-place", "one tensor" },
    { "coffer rename model.safetensors 'transformer.*=*' --dry-run", "what would removing a prefix do?" },
    { "coffer rename model.safetensors 'h.*.attn.*=layers.*.attention.*' -o new.safetensors", "layer by layer" },
    { NULL, NULL },
};

const cli_command cli_rename = {
    .name = "rename",
    .run = run_rename,
    .summary = "rewrite a file with other names for its tensors",
    .usage = "PATH OLD=NEW...",
    .about = "Renames tensors. OLD is a name or a pattern, as in coffer drop; each * in NEW stands for what the\n"
             "corresponding * in OLD matched, the shortest text possible. A backslash makes the next character\n"
             "literal, so \\= is a = within a name. The first rule that matches is used; all rules match the\n"
             "present names, so a=b b=a exchanges two. Every OLD has to match something, and no two tensors may\n"
             "get the same name, or nothing is done. Before PATH itself is rewritten, the command asks on a\n"
             "terminal; otherwise --in-place or -f allows it. PATH is a file, or an index or folder: then all\n"
             "files of the model are rewritten, and replaced together.\n"
             "\n"
             "JSON: as of coffer align; of changes [{name, change, to}].\n",
    .options = RENAME_OPTIONS,
    .examples = RENAME_EXAMPLES,
    .least_names = 2,
    .most_names = SIZE_MAX,
};
