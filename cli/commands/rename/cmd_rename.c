/* SPDX-License-Identifier: Apache-2.0 */
/* coffer rename PATH: other names for tensors, one by one, by patterns, expressions, tables and known maps, and for layers. */
#include "cli_model_folder.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_rewrite.h"
#include "cli_text.h"
#include "rename.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define TWINS_MAX 20 /* pairs of tensors of one name that are told of */

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

/* Takes OLD=NEW apart, `old` having space for all of it. */
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
    if (stars > COFFER_REWRITE_MAX_STARS) {
        return cli_usage_error(app, "\"%s\" has more than %d stars", shown, COFFER_REWRITE_MAX_STARS);
    }
    return count_stars(rule->name) <= stars
               ? CLI_EXIT_OK
               : cli_usage_error(app, "\"%s\" has more stars in the new name than in the old one", shown);
}

/* Copies a part of an expression up to the sign that ends it, which a backslash within the part takes as it is. Returns
   what follows the sign; NULL: it is missing. */
static const char *read_part(const char *text, char sign, char *part)
{
    for (; *text != '\0' && *text != sign; text++) {
        if (text[0] == '\\' && text[1] != '\0') {
            if (text[1] != sign) {
                *part++ = '\\';
            }
            text++;
        }
        *part++ = *text;
    }
    *part = '\0';
    return *text == sign ? text + 1 : NULL;
}

/* s/RE/NEW/ or s/RE/NEW/g, with any sign for the slash. `parts` has space for all of it. */
static int read_regex(cli *app, const char *text, char *parts, coffer_rewrite_rule *rule)
{
    char shown[128];
    const char sign = text[0] == 's' ? text[1] : '\0';
    const bool fits = sign != '\0' && strchr("\\\n", sign) == NULL;
    const char *rest = fits ? read_part(text + 2, sign, parts) : NULL;
    char *name = parts + strlen(rest != NULL ? parts : "") + 1;
    rest = rest != NULL ? read_part(rest, sign, name) : NULL;
    if (rest == NULL || (rest[0] != '\0' && strcmp(rest, "g") != 0) || parts[0] == '\0') {
        coffer_escape(text, strlen(text), shown, sizeof shown);
        return cli_usage_error(app, "--regex needs s/EXPRESSION/NEW/ or s/EXPRESSION/NEW/g, not \"%s\"", shown);
    }
    *rule = (coffer_rewrite_rule){
        .kind = rest[0] == 'g' ? COFFER_REWRITE_RENAME_REGEX_ALL : COFFER_REWRITE_RENAME_REGEX,
        .pattern = parts,
        .name = name,
    };
    return CLI_EXIT_OK;
}

/* The parser has seen that there is such a map, in whatever case. */
static int read_map(cli *app, const char *text, char *parts, coffer_rewrite_rule *rule)
{
    (void)app;
    for (size_t i = 0; i <= strlen(text); i++) {
        parts[i] = (char)tolower((unsigned char)text[i]);
    }
    *rule = (coffer_rewrite_rule){ .kind = COFFER_REWRITE_RENAME_MAP, .pattern = parts };
    return CLI_EXIT_OK;
}

/* LIST, or STACK=LIST. */
static int read_layers(cli *app, const char *text, char *parts, coffer_rewrite_rule *rule)
{
    const char *equals = strrchr(text, '=');
    (void)app;
    *rule = (coffer_rewrite_rule){ .kind = COFFER_REWRITE_LAYERS, .pattern = equals != NULL ? equals + 1 : text };
    if (equals != NULL) {
        memcpy(parts, text, (size_t)(equals - text));
        parts[equals - text] = '\0';
        rule->name = parts;
    }
    return CLI_EXIT_OK;
}

/* ---- All rules ---- */

/* The rules of a command line, and what they consist of. */
typedef struct renaming {
    cli *app;
    const cli_arguments *arguments;
    rename_table *tables;
    size_t table_count;
    coffer_rewrite_rule *rules;
    size_t count;
    char *parts;  /* texts that were taken apart */
    char *next;   /* what of it is free */
    size_t twins; /* pairs of tensors that would have one name */
} renaming;

static void free_renaming(renaming *all)
{
    for (size_t i = 0; i < all->table_count; i++) {
        rename_table_free(&all->tables[i]);
    }
    free(all->tables);
    free(all->rules);
    free(all->parts);
}

static int read_tables(renaming *all)
{
    size_t count = 0;
    int code = CLI_EXIT_OK;
    const char **paths = cli_values_of(all->arguments, CLI_OPTION_TABLE, &count);
    all->tables = calloc(count + 1, sizeof *all->tables);
    if (paths == NULL || all->tables == NULL) {
        free(paths);
        return cli_fail_memory(all->app, all->arguments->names[0]);
    }
    for (size_t i = 0; i < count && code == CLI_EXIT_OK; i++) {
        code = rename_table_read(all->app, paths[i], &all->tables[all->table_count++]);
    }
    free(paths);
    return code;
}

/* Space for every rule. Each text is taken apart into at most three with a NUL after each. */
static int reserve(renaming *all)
{
    const cli_arguments *arguments = all->arguments;
    size_t rules = arguments->name_count + arguments->choice_count;
    size_t capacity = 1;
    for (size_t i = 0; i < all->table_count; i++) {
        rules += all->tables[i].count;
    }
    for (size_t i = 1; i < arguments->name_count; i++) {
        capacity += strlen(arguments->names[i]) + 3;
    }
    for (size_t i = 0; i < arguments->choice_count; i++) {
        capacity += arguments->choices[i].value != NULL ? strlen(arguments->choices[i].value) + 3 : 0;
    }
    all->rules = calloc(rules, sizeof *all->rules);
    all->parts = malloc(capacity);
    all->next = all->parts;
    return all->rules != NULL && all->parts != NULL ? CLI_EXIT_OK : cli_fail_memory(all->app, arguments->names[0]);
}

static int add_rule(renaming *all, const char *text, cli_rewrite_read *take)
{
    const int code = take(all->app, text, all->next, &all->rules[all->count++]);
    all->next += strlen(text) + 3;
    return code;
}

static int add_options(renaming *all, cli_option_id id, cli_rewrite_read *take)
{
    int code = CLI_EXIT_OK;
    for (size_t i = 0; i < all->arguments->choice_count && code == CLI_EXIT_OK; i++) {
        const cli_choice *choice = &all->arguments->choices[i];
        code = choice->option->id == id ? add_rule(all, choice->value, take) : CLI_EXIT_OK;
    }
    return code;
}

/* The most particular rules first: of those that match a tensor the first counts. */
static int read_rules(renaming *all)
{
    int code = read_tables(all);
    code = code == CLI_EXIT_OK ? reserve(all) : code;
    for (size_t i = 0; i < all->table_count && code == CLI_EXIT_OK; i++) {
        for (size_t k = 0; k < all->tables[i].count; k++) {
            all->rules[all->count++] = (coffer_rewrite_rule){ .kind = COFFER_REWRITE_RENAME_EXACT,
                                                              .pattern = all->tables[i].rows[k].old,
                                                              .name = all->tables[i].rows[k].new };
        }
    }
    for (size_t i = 1; i < all->arguments->name_count && code == CLI_EXIT_OK; i++) {
        code = add_rule(all, all->arguments->names[i], read_rename);
    }
    code = code == CLI_EXIT_OK ? add_options(all, CLI_OPTION_REGEX, read_regex) : code;
    code = code == CLI_EXIT_OK ? add_options(all, CLI_OPTION_RENAME_MAP, read_map) : code;
    return code == CLI_EXIT_OK ? add_options(all, CLI_OPTION_LAYERS, read_layers) : code;
}

/* ---- The command ---- */

/* The first two are named by the failure that follows. */
static void tell_twins(void *ctx, const coffer_tensor *first, const coffer_tensor *second, const char *name,
                       size_t name_len)
{
    renaming *all = ctx;
    char shown[3][161];
    const bool every = cli_given(all->arguments, CLI_OPTION_ALL);
    if (all->twins++ == 0 || (all->twins > TWINS_MAX && !every)) {
        return;
    }
    coffer_escape(first->name, cli_cut_at_character(first->name, first->name_len, 40), shown[0], sizeof shown[0]);
    coffer_escape(second->name, cli_cut_at_character(second->name, second->name_len, 40), shown[1], sizeof shown[1]);
    coffer_escape(name, cli_cut_at_character(name, name_len, 40), shown[2], sizeof shown[2]);
    cli_say_path(all->app, all->arguments->names[0], "\"%s\" and \"%s\" would both be named \"%s\"", shown[0], shown[1],
                 shown[2]);
}

static int rename_model(renaming *all)
{
    cli *app = all->app;
    const char *path = all->arguments->names[0];
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    int code = cli_rewrite_check(app, all->arguments);
    coffer *model = code == CLI_EXIT_OK ? cli_recorded_open(app, path, &code) : NULL;
    options.rules = all->rules;
    options.rule_count = all->count;
    options.ignore_unmatched = cli_given(all->arguments, CLI_OPTION_IGNORE_UNMATCHED);
    options.collision = tell_twins;
    options.collision_ctx = all;
    for (size_t i = 0; i < all->table_count && model != NULL && code == CLI_EXIT_OK; i++) {
        code = rename_table_match(app, &all->tables[i], model, options.ignore_unmatched);
    }
    if (model == NULL || code != CLI_EXIT_OK) {
        coffer_close(model);
        return code;
    }
    code = cli_rewrite_model(app, all->arguments, &options, "its tensors are named so already", model);
    if (all->twins > TWINS_MAX && !cli_given(all->arguments, CLI_OPTION_ALL)) {
        cli_say_path(app, path, "%zu pairs of tensors would have one name each; --all shows them", all->twins);
    }
    const bool whole = cli_names_folder(cli_value(all->arguments, CLI_OPTION_OUTPUT));
    if (code == CLI_EXIT_OK && cli_given(all->arguments, CLI_OPTION_LAYERS) && !whole) {
        cli_remark(app, "config.json is not changed: set its number of layers (num_hidden_layers, n_layer) by hand");
    }
    return code;
}

static int run_rename(cli *app, const cli_arguments *arguments)
{
    renaming all = { .app = app, .arguments = arguments };
    int code = read_rules(&all);
    if (code == CLI_EXIT_OK && all.count == 0) {
        code = cli_usage_error(app, "say what is renamed: OLD=NEW, --regex, --table, --map or --layers");
    }
    if (code == CLI_EXIT_OK) {
        code = rename_model(&all);
    }
    free_renaming(&all);
    return code;
}

/* Those of coffer_rewrite_map_at, for the parser and for completions; a test compares the two. */
#define RENAME_MAPS                                                                                                    \
    "unwrap|model-strip|model-add|gpt2-strip|gpt2-add|bert-strip|bert-add|layernorm|vlm-new|vlm-old|qwen-vl-new|"      \
    "qwen-vl-old|whisper-hf|whisper-openai|peft-unet|unet-peft|peft-transformer|transformer-peft|diffusers-old|"       \
    "kohya-diffusers|diffusers-kohya|diffusers-kohya-xl"

static const cli_option RENAME_OPTIONS[] = {
    { CLI_OPTION_REGEX, 0, "regex", "s/RE/NEW/",
      "rename by a regular expression; with g after it, every match in a name", NULL },
    { CLI_OPTION_TABLE, 0, "table", "FILE", "rename by lines OLD<TAB>NEW; - is standard input", NULL },
    { CLI_OPTION_RENAME_MAP, 0, "map", "MAP", "rename by a known map", RENAME_MAPS },
    { CLI_OPTION_LAYERS, 0, "layers", "LIST", "keep those layers, as 0-15,20, and number them from 0 on", NULL },
    { CLI_OPTION_IGNORE_UNMATCHED, 0, "ignore-unmatched", NULL, "pass over what matches no tensor", NULL },
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

static const cli_example RENAME_EXAMPLES[] = {
    { "coffer rename model.safetensors wte.weight=tok_embeddings.weight --in-place", "one tensor" },
    { "coffer rename model.safetensors 'transformer.*=*' --dry-run", "what would removing a prefix do?" },
    { "coffer rename model.safetensors 'h.*.attn.*=layers.*.attention.*' -o new.safetensors", "layer by layer" },
    { "coffer rename model.safetensors --regex 's/^h\\.([0-9]+)\\./layers.\\1./' -n", "by an expression" },
    { "coffer rename model.safetensors --table names.tsv --in-place", "by a table" },
    { "coffer rename model/ --map unwrap -o clean.safetensors", "without what torch.compile and DDP add" },
    { "coffer rename model.safetensors --layers 0-15,20 -o small.safetensors", "fewer layers" },
    { NULL, NULL },
};

const cli_command cli_rename = {
    .name = "rename",
    .run = run_rename,
    .summary = "rewrite a file with other names for its tensors",
    .usage = "PATH [OLD=NEW...]",
    .about = "Renames tensors. OLD is a name or a pattern, as in coffer drop; each * in NEW stands for what the\n"
             "corresponding * in OLD matched, the shortest text possible. A backslash makes the next character\n"
             "literal, so \\= is a = within a name. The first rule that matches is used, those of tables first,\n"
             "then OLD=NEW, expressions and maps; all rules match the present names, so a=b b=a exchanges two.\n"
             "Every rule has to match something, and no two tensors may get the same name, or nothing is done.\n"
             "\n"
             "RE is a POSIX extended regular expression, which may match anywhere in a name; NEW has \\1 to \\9 for\n"
             "its groups and & for all of the match. A table has names as coffer ls --tsv writes them, and #\n"
             "begins a comment. Maps: unwrap, model-strip, model-add, gpt2-strip, gpt2-add, bert-strip, bert-add,\n"
             "layernorm, vlm-new, vlm-old, qwen-vl-new, qwen-vl-old, whisper-hf, whisper-openai, peft-unet,\n"
             "unet-peft, peft-transformer, transformer-peft, diffusers-old, kohya-diffusers, diffusers-kohya,\n"
             "diffusers-kohya-xl. Of layers that are not the model's only stack, LIST is STACK=0-15,20.\n"
             "\n"
             "In files without digests names change in the header, in milliseconds where they fit; else the file\n"
             "is copied, and the command says why. Before PATH itself is rewritten, the command asks on a\n"
             "terminal; otherwise --in-place or -f allows it. PATH is a file, or an index or folder: then all\n"
             "files of the model and their index change together.\n"
             "\n"
             "JSON: as of coffer align; of changes [{name, change, to}].\n",
    .options = RENAME_OPTIONS,
    .examples = RENAME_EXAMPLES,
    .least_names = 1,
    .most_names = SIZE_MAX,
};
