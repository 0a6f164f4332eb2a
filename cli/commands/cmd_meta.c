/* SPDX-License-Identifier: Apache-2.0 */
/* coffer meta PATH [KEY]: show or change the metadata of a file. */
#include "cli_edit.h"
#include "cli_files.h"
#include "cli_guard.h"
#include "cli_json.h"
#include "cli_options.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REWRITE_WORTH_SAYING UINT64_C(100000000) /* bytes */
#define TOLD_MOST 60                             /* bytes of a key or a value, in what is said of an edit */
#define EDITS_TOLD 4                             /* edits of which something is said */

/* ---- Showing ---- */

static void show_all(cli_output *out, const coffer_table *table)
{
    coffer_pair pair;
    for (size_t i = 0; coffer_table_metadata_at(table, i, &pair); i++) {
        cli_put_style(out, CLI_CYAN);
        cli_put_escaped(out, pair.key, pair.key_len, 0);
        cli_put_style(out, CLI_PLAIN);
        cli_put_text(out, " = ");
        cli_put_escaped(out, pair.value, pair.value_len, 0);
        cli_put_char(out, '\n');
    }
}

static void show_tsv(cli_output *out, const coffer_table *table)
{
    coffer_pair pair;
    cli_put_text(out, "key\tvalue\n");
    for (size_t i = 0; coffer_table_metadata_at(table, i, &pair); i++) {
        cli_tsv_text_n(out, pair.key, pair.key_len);
        cli_tsv_text_n(out, pair.value, pair.value_len);
        cli_tsv_end(out);
    }
}

static int unknown_key(cli *app, const char *path, const coffer_table *table, const char *key)
{
    char shown[128];
    char nearest[128] = "";
    coffer_pair pair;
    const size_t key_len = strlen(key);
    size_t best = cli_distance_limit(key_len) + 1;
    for (size_t i = 0; coffer_table_metadata_at(table, i, &pair); i++) {
        const size_t distance = cli_distance(pair.key, pair.key_len, key, key_len, best);
        if (distance < best) {
            best = distance;
            coffer_escape(pair.key, pair.key_len, nearest, sizeof nearest);
        }
    }
    coffer_escape(key, key_len, shown, sizeof shown);
    if (coffer_table_metadata_count(table) == 0) {
        cli_say_path(app, path, "no key \"%s\" in its metadata; it has none at all", shown);
    } else if (nearest[0] != '\0') {
        cli_say_path(app, path, "no key \"%s\" in its metadata; did you mean \"%s\"?", shown, nearest);
    } else {
        cli_say_path(app, path, "no key \"%s\" in its metadata; coffer meta PATH shows all keys", shown);
    }
    return CLI_EXIT_NOT_CONFORMING;
}

static int show_key(cli *app, const char *path, const coffer_table *table, const char *key)
{
    cli_output *out = &app->out;
    size_t value_len = 0;
    const char *value = coffer_table_metadata_get(table, key, strlen(key), &value_len);
    if (app->json) {
        cli_json_open(out, '{', true);
        cli_json_key(out, "path");
        cli_json_string(out, path);
        cli_json_key(out, "key");
        cli_json_string(out, key);
        cli_json_key(out, "value");
        if (value != NULL) {
            cli_json_string_n(out, value, value_len);
        } else {
            cli_json_null(out);
        }
        cli_json_close(out, '}');
    } else if (value != NULL) {
        cli_put(out, value, value_len);
        cli_put_char(out, '\n');
    }
    return value != NULL ? CLI_EXIT_OK : unknown_key(app, path, table, key);
}

static bool same_metadata(const coffer_table *a, const coffer_table *b)
{
    coffer_pair first;
    coffer_pair second;
    bool same = coffer_table_metadata_count(a) == coffer_table_metadata_count(b);
    for (size_t i = 0; same && coffer_table_metadata_at(a, i, &first) && coffer_table_metadata_at(b, i, &second); i++) {
        same = first.key_len == second.key_len && first.value_len == second.value_len &&
               memcmp(first.key, second.key, first.key_len) == 0 &&
               memcmp(first.value, second.value, first.value_len) == 0;
    }
    return same;
}

/* Of several files those of the first are shown; as a rule they all have the same. */
static void remark_others(cli *app, const coffer *model)
{
    for (size_t i = 1; i < coffer_shard_count(model); i++) {
        if (!same_metadata(coffer_shard_table(model, 0), coffer_shard_table(model, i))) {
            cli_remark_path(app, coffer_shard_path(model, i),
                            "has other metadata than the first file, whose metadata are shown");
            return;
        }
    }
}

static int show(cli *app, const cli_arguments *arguments)
{
    const char *path = arguments->names[0];
    int code = CLI_EXIT_OK;
    coffer *model = cli_open(app, path, false, &code);
    if (model == NULL) {
        return code;
    }
    const coffer_table *table = coffer_shard_table(model, 0);
    remark_others(app, model);
    if (arguments->name_count == 2) {
        code = show_key(app, path, table, arguments->names[1]);
    } else if (app->json) {
        cli_json_open(&app->out, '{', true);
        cli_json_key(&app->out, "path");
        cli_json_string(&app->out, path);
        cli_json_metadata(&app->out, table);
        cli_json_close(&app->out, '}');
    } else if (app->tsv) {
        show_tsv(&app->out, table);
    } else {
        show_all(&app->out, table);
    }
    coffer_close(model);
    return code;
}

/* ---- Changing ---- */

/* One --set KEY=VALUE or --unset KEY. */
static int read_edit(cli *app, const cli_choice *choice, coffer_edit *edit)
{
    const bool set = choice->option->id == CLI_OPTION_SET;
    const size_t text_len = strlen(choice->value);
    const char *equals = set ? strchr(choice->value, '=') : NULL;
    char shown[128];
    coffer_escape(choice->value, text_len, shown, sizeof shown);
    if (!cli_is_utf8(choice->value, text_len)) {
        return cli_usage_error(app, "\"%s\" is not UTF-8, which keys and values must be", shown);
    }
    if (set && equals == NULL) {
        return cli_usage_error(app, "--set needs KEY=VALUE, and \"%s\" has no =; to remove a key: --unset", shown);
    }
    edit->key = choice->value;
    edit->key_len = set ? (size_t)(equals - choice->value) : text_len;
    edit->value = set ? equals + 1 : NULL;
    edit->value_len = set ? strlen(equals + 1) : 0;
    return CLI_EXIT_OK;
}

/* The edits in the order of the command line, in memory of the caller's; NULL when one is not understood. */
static coffer_edit *collect_edits(cli *app, const cli_arguments *arguments, size_t *count, int *code)
{
    coffer_edit *edits = malloc((arguments->choice_count + 1) * sizeof *edits);
    *count = 0;
    if (edits == NULL) {
        *code = cli_fail_memory(app, arguments->names[0]);
        return NULL;
    }
    for (size_t i = 0; i < arguments->choice_count; i++) {
        const cli_choice *choice = &arguments->choices[i];
        if (choice->option->id != CLI_OPTION_SET && choice->option->id != CLI_OPTION_UNSET) {
            continue;
        }
        *code = read_edit(app, choice, &edits[(*count)++]);
        if (*code != CLI_EXIT_OK) {
            free(edits);
            return NULL;
        }
    }
    return edits;
}

/* The progress of a rewrite, which is announced when it takes long enough to be wondered at. */
typedef struct rewriting {
    cli *app;
    const char *path;
    bool wanted; /* the user asked for it */
    bool said;
    cli_progress_part part;
} rewriting;

static int tell_rewriting(void *ctx, uint64_t done, uint64_t total)
{
    rewriting *told = ctx;
    if (!told->said && total >= REWRITE_WORTH_SAYING) {
        char size[CLI_NUMBER_SIZE];
        cli_bytes_text(size, total);
        cli_remark_path(told->app, told->path, "%srewriting %s, with room for later edits%s",
                        told->wanted ? "" : "the header has no room for this: ", size,
                        told->wanted ? ""
                                     : "; --insert takes milliseconds, if the file system supports it (ext4, XFS) and "
                                       "nobody has the file open");
    }
    told->said = true;
    return cli_progress_call(&told->part, done, total);
}

/* "license set, was \"mit\"": what an edit did to what the file had before. Returns the length that it needs. */
static size_t tell_edit(const coffer_edit *edit, const coffer_table *before, char *text, size_t size)
{
    char key[4 * TOLD_MOST + 1];
    char value[4 * TOLD_MOST + 1];
    size_t value_len = 0;
    const char *old = coffer_table_metadata_get(before, edit->key, edit->key_len, &value_len);
    const char *done = edit->value != NULL ? "set" : old != NULL ? "removed" : "not there";
    coffer_escape(edit->key, cli_cut_at_character(edit->key, edit->key_len, TOLD_MOST), key, sizeof key);
    if (old == NULL) {
        return (size_t)snprintf(text, size, "%s %s", key, done);
    }
    const size_t cut = cli_cut_at_character(old, value_len, TOLD_MOST);
    coffer_escape(old, cut, value, sizeof value);
    return (size_t)snprintf(text, size, "%s %s, was \"%s%s\"", key, done, value, cut < value_len ? "..." : "");
}

/* What the edits are going to change, so that a slip can be made good; nothing of a file that
   cannot be read, which the edit is going to say. */
static void tell_edits(const char *path, const coffer_edit *edits, size_t count, char *text, size_t size)
{
    coffer *model = NULL;
    coffer_error err;
    size_t used = 0;
    text[0] = '\0';
    if (cli_open_quietly(&model, path, false, &err) != COFFER_OK) {
        return;
    }
    for (size_t i = 0; i < count && i < EDITS_TOLD; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s", i > 0 ? "; " : "");
        used += tell_edit(&edits[i], coffer_shard_table(model, 0), text + used, size - used);
    }
    if (count > EDITS_TOLD) {
        snprintf(text + used, size - used, " and %zu more", count - EDITS_TOLD);
    }
    coffer_close(model);
}

static int change(cli *app, const cli_arguments *arguments, const coffer_edit_options *asked)
{
    const char *path = arguments->names[0];
    size_t count = 0;
    int code = cli_guard_read_only(app, path, asked->read_only);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    coffer_error err;
    cli_progress progress;
    coffer_edit *edits = collect_edits(app, arguments, &count, &code);
    if (edits == NULL) {
        return code;
    }
    char changes[EDITS_TOLD * (8 * TOLD_MOST + 32) + 32];
    tell_edits(path, edits, count, changes, sizeof changes);
    cli_progress_begin(&progress, app, "rewriting", 0);
    rewriting told = { app, path, asked->mode == COFFER_EDIT_REWRITE, false, { &progress, 0 } };
    coffer_edit_options options = *asked;
    options.progress = tell_rewriting;
    options.progress_ctx = &told;
    const double start = cli_seconds();
    const coffer_status status = coffer_edit_metadata(path, edits, count, &options, &way, &err);
    cli_progress_end(&progress);
    free(edits);
    if (status != COFFER_OK) {
        return cli_fail(app, path, &err);
    }
    return cli_report_edit(app, path, way, way == COFFER_EDITED_NOTHING ? "" : changes, cli_seconds() - start);
}

static int recover(cli *app, const char *path, const coffer_edit_options *options)
{
    coffer_error err;
    const double start = cli_seconds();
    const int code = cli_guard_read_only(app, path, options->read_only);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (coffer_recover(path, options, &err) != COFFER_OK) {
        return cli_fail(app, path, &err);
    }
    return cli_report_change(app, path, "recovered", "recovered: nothing is unfinished", "", cli_seconds() - start);
}

static int run_meta(cli *app, const cli_arguments *arguments)
{
    const bool recovers = cli_given(arguments, CLI_OPTION_RECOVER);
    const bool rewrites = cli_given(arguments, CLI_OPTION_REWRITE);
    const bool edits = cli_given(arguments, CLI_OPTION_SET) || cli_given(arguments, CLI_OPTION_UNSET);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.follow_links = cli_given(arguments, CLI_OPTION_FOLLOW_LINKS);
    options.read_only = options.follow_links;
    options.mode = rewrites ? COFFER_EDIT_REWRITE : COFFER_EDIT_AUTO;
    options.insert = cli_given(arguments, CLI_OPTION_INSERT);
    if (recovers && (edits || rewrites)) {
        return cli_usage_error(app, "--recover cannot be combined with other options; edit afterwards");
    }
    if ((recovers || edits || rewrites) && arguments->name_count == 2) {
        return cli_usage_error(app, "a KEY is for showing, and excludes --set, --unset, --rewrite and --recover");
    }
    if (options.insert && (rewrites || !edits)) {
        return cli_usage_error(app, "--insert needs --set or --unset, and excludes --rewrite");
    }
    if (options.follow_links && !recovers && !edits && !rewrites) {
        return cli_usage_error(app, "--follow-links needs --set, --unset, --rewrite or --recover");
    }
    if ((recovers || edits || rewrites) && strcmp(arguments->names[0], "-") == 0) {
        return cli_usage_error(app, "standard input can only be shown, not edited; name the file");
    }
    if (app->tsv && (recovers || edits || rewrites || arguments->name_count == 2)) {
        return cli_usage_error(app, "--tsv is for all keys");
    }
    if (recovers) {
        return recover(app, arguments->names[0], &options);
    }
    return edits || rewrites ? change(app, arguments, &options) : show(app, arguments);
}

static const cli_option META_OPTIONS[] = {
    { CLI_OPTION_SET, 0, "set", "KEY=VALUE", "set a key; repeatable", NULL },
    { CLI_OPTION_UNSET, 0, "unset", "KEY", "remove a key; repeatable", NULL },
    { CLI_OPTION_REWRITE, 0, "rewrite", NULL, "write a new file even if the edit fits in place; leaves slack", NULL },
    { CLI_OPTION_INSERT, 0, "insert", NULL, "if there is no room, insert blocks before the data, in milliseconds",
      NULL },
    { CLI_OPTION_FOLLOW_LINKS, 'f', "follow-links", NULL,
      "edit what a link points to, files with several names, and read-only ones", NULL },
    { CLI_OPTION_RECOVER, 0, "recover", NULL, "undo an interrupted edit, or finish or undo an interrupted save", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_TSV,
    CLI_OPTION_ROW_END,
};

static const cli_example META_EXAMPLES[] = {
    { "coffer meta model.safetensors", "all keys and values" },
    { "coffer meta model.safetensors format", "one value, unescaped" },
    { "coffer meta model.safetensors --set license=mit --unset draft", "change the file, in place if it fits" },
    { NULL, NULL },
};

const cli_command cli_meta = {
    .name = "meta",
    .run = run_meta,
    .summary = "show or edit the metadata of a file",
    .usage = "PATH [KEY]",
    .about = "Shows the metadata, or the unescaped value of one key, or changes keys. A change that fits into the\n"
             "header's slack is made in place, in milliseconds whatever the file's size; otherwise the file is\n"
             "rewritten, with slack for later edits (on Btrfs and XFS the new file shares the old one's blocks,\n"
             "which also takes milliseconds). With --insert ext4 and XFS insert room before the data instead;\n"
             "nobody else may have the file open, and a power cut in these milliseconds may destroy it. Standard\n"
             "error says how it was done. - is standard input, which can only be shown.\n",
    .options = META_OPTIONS,
    .examples = META_EXAMPLES,
    .least_names = 1,
    .most_names = 2,
};
