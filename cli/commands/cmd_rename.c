/* SPDX-License-Identifier: Apache-2.0 */
/* coffer rename PATH OLD=NEW...: other names for tensors, one by one or by a pattern. */
#include "cli_names.h"
#include "cli_report.h"
#include "cli_rewrite.h"

#include <stdlib.h>
#include <string.h>

/* OLD=NEW, taken apart. */
typedef struct rename_rule {
    char *old; /* a pattern */
    const char *new_name;
    bool matched;
} rename_rule;

typedef struct rename_plan {
    cli_rewrite rewrite;
    rename_rule *rules;
    size_t rule_count;
    char **made; /* new names, by tensor; NULL: it keeps its own */
} rename_plan;

/* ---- Rules ---- */

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

static int read_rule(cli *app, const char *text, rename_rule *rule)
{
    char shown[128];
    const char *equals = find_equals(text);
    coffer_escape(text, strlen(text), shown, sizeof shown);
    if (equals == NULL) {
        return cli_usage_error(app, "\"%s\" has no =; rename needs OLD=NEW (a = within a name is written \\=)", shown);
    }
    rule->old = malloc((size_t)(equals - text) + 1);
    if (rule->old == NULL) {
        return cli_fail_memory(app, text);
    }
    memcpy(rule->old, text, (size_t)(equals - text));
    rule->old[equals - text] = '\0';
    rule->new_name = equals + 1;
    const size_t stars = count_stars(rule->old);
    if (stars > CLI_CAPTURES_MOST) {
        return cli_usage_error(app, "\"%s\" has more than %d stars", shown, CLI_CAPTURES_MOST);
    }
    if (count_stars(rule->new_name) > stars) {
        return cli_usage_error(app, "\"%s\" has more stars in the new name than in the old one", shown);
    }
    return CLI_EXIT_OK;
}

/* ---- Names ---- */

/* Writes the new name, with what the stars of the old one took in the place of its own; returns its length. */
static size_t fill_in(const char *pattern, const cli_capture *captures, char *name)
{
    size_t len = 0;
    for (const char *next = pattern; *next != '\0'; next++) {
        if (*next == '*') {
            memcpy(name + len, captures->text, captures->len);
            len += captures->len;
            captures++;
            continue;
        }
        next += next[0] == '\\' && next[1] != '\0';
        name[len++] = *next;
    }
    return len;
}

/* Gives tensor `i` the name of the first rule that takes it. */
static int rename_tensor(rename_plan *plan, size_t i)
{
    cli_rewrite_tensor *tensor = &plan->rewrite.tensors[i];
    const coffer_tensor *from = tensor->from;
    cli_capture captures[CLI_CAPTURES_MOST];
    size_t rule = 0;
    while (rule < plan->rule_count && !cli_match(plan->rules[rule].old, from->name, from->name_len, captures)) {
        rule++;
    }
    if (rule == plan->rule_count) {
        return CLI_EXIT_OK;
    }
    /* Captures are parts of the old name that do not overlap. */
    const char *pattern = plan->rules[rule].new_name;
    plan->made[i] = malloc(strlen(pattern) + from->name_len + 1);
    if (plan->made[i] == NULL) {
        return cli_fail_memory(plan->rewrite.app, plan->rewrite.path);
    }
    plan->rules[rule].matched = true;
    tensor->name = plan->made[i];
    tensor->name_len = fill_in(pattern, captures, plan->made[i]);
    plan->rewrite.needed = plan->rewrite.needed || tensor->name_len != from->name_len ||
                           memcmp(tensor->name, from->name, from->name_len) != 0;
    return CLI_EXIT_OK;
}

/* A tensor among others that are sorted by their new names. */
typedef struct named {
    const cli_rewrite_tensor *tensor;
} named;

static int compare_new_names(const void *left, const void *right)
{
    const cli_rewrite_tensor *a = ((const named *)left)->tensor;
    const cli_rewrite_tensor *b = ((const named *)right)->tensor;
    const int order = memcmp(a->name, b->name, a->name_len < b->name_len ? a->name_len : b->name_len);
    return order != 0 ? order : (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

static int collide(const cli_rewrite *rewrite, const cli_rewrite_tensor *a, const cli_rewrite_tensor *b)
{
    char first[100];
    char second[100];
    char name[100];
    coffer_escape(a->from->name, a->from->name_len, first, sizeof first);
    coffer_escape(b->from->name, b->from->name_len, second, sizeof second);
    coffer_escape(a->name, a->name_len, name, sizeof name);
    return cli_rewrite_refuse(rewrite, COFFER_ERR_DUPLICATE_NAME, "\"%s\" and \"%s\" would both be named \"%s\"", first,
                              second, name);
}

/* Two tensors of one name cannot be written; this says which they are. */
static int check_collisions(const cli_rewrite *rewrite)
{
    int code = CLI_EXIT_OK;
    named *sorted = malloc((rewrite->count + 1) * sizeof *sorted);
    if (sorted == NULL) {
        return cli_fail_memory(rewrite->app, rewrite->path);
    }
    for (size_t i = 0; i < rewrite->count; i++) {
        sorted[i].tensor = &rewrite->tensors[i];
    }
    qsort(sorted, rewrite->count, sizeof *sorted, compare_new_names);
    for (size_t i = 1; i < rewrite->count && code == CLI_EXIT_OK; i++) {
        if (compare_new_names(&sorted[i - 1], &sorted[i]) == 0) {
            const cli_rewrite_tensor *a = sorted[i - 1].tensor;
            const cli_rewrite_tensor *b = sorted[i].tensor;
            code = collide(rewrite, a < b ? a : b, a < b ? b : a);
        }
    }
    free(sorted);
    return code;
}

static int plan_names(rename_plan *plan)
{
    int code = CLI_EXIT_OK;
    cli_rewrite *rewrite = &plan->rewrite;
    rewrite->nothing = "its tensors are named so already";
    plan->made = calloc(rewrite->count + 1, sizeof *plan->made);
    if (plan->made == NULL) {
        return cli_fail_memory(rewrite->app, rewrite->path);
    }
    for (size_t i = 0; i < rewrite->count && code == CLI_EXIT_OK; i++) {
        code = rename_tensor(plan, i);
    }
    for (size_t i = 0; i < plan->rule_count && code == CLI_EXIT_OK; i++) {
        const char *old = plan->rules[i].old;
        code = plan->rules[i].matched ? code : cli_rewrite_no_match(rewrite, old);
    }
    return code == CLI_EXIT_OK ? check_collisions(rewrite) : code;
}

/* ---- The command ---- */

static void free_plan(rename_plan *plan)
{
    for (size_t i = 0; plan->made != NULL && i < plan->rewrite.count; i++) {
        free(plan->made[i]);
    }
    free(plan->made);
    for (size_t i = 0; i < plan->rule_count; i++) {
        free(plan->rules[i].old);
    }
    free(plan->rules);
}

static int run_rename(cli *app, const cli_arguments *arguments)
{
    int code = CLI_EXIT_OK;
    rename_plan plan = { .rule_count = arguments->name_count - 1 };
    plan.rules = calloc(arguments->name_count, sizeof *plan.rules);
    if (plan.rules == NULL) {
        return cli_fail_memory(app, arguments->names[0]);
    }
    for (size_t i = 0; i < plan.rule_count && code == CLI_EXIT_OK; i++) {
        code = read_rule(app, arguments->names[i + 1], &plan.rules[i]);
    }
    if (code == CLI_EXIT_OK) {
        code = cli_rewrite_open(&plan.rewrite, app, arguments);
        code = code == CLI_EXIT_OK ? plan_names(&plan) : code;
        code = code == CLI_EXIT_OK ? cli_rewrite_run(&plan.rewrite) : code;
        free_plan(&plan);
        cli_rewrite_close(&plan.rewrite);
    } else {
        free_plan(&plan);
    }
    return code;
}

static const cli_option RENAME_OPTIONS[] = {
    CLI_OPTION_ROW_OUTPUT, CLI_OPTION_ROW_DRY_RUN, CLI_OPTION_ROW_IN_PLACE, CLI_OPTION_ROW_FORCE,
    CLI_OPTION_ROW_DIGEST, CLI_OPTION_ROW_JSON,    CLI_OPTION_ROW_END,
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
             "literal, so \\= is a = within a name. The first rule that matches is used; all rules match the present\n"
             "names, so a=b b=a exchanges two. Every OLD has to match something, and no two tensors may get the\n"
             "same name, or nothing is done. Before PATH itself is rewritten, the command asks on a terminal;\n"
             "otherwise --in-place or -f allows it.\n"
             "\n"
             "JSON: as of coffer align; of changes [{name, change, to}].\n",
    .options = RENAME_OPTIONS,
    .examples = RENAME_EXAMPLES,
    .least_names = 2,
    .most_names = SIZE_MAX,
};
