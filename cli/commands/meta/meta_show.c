/* SPDX-License-Identifier: Apache-2.0 */
/* What coffer meta shows: all keys, or the value of one. */
#include "cli_files.h"
#include "cli_json.h"
#include "cli_report.h"
#include "cli_text.h"
#include "meta.h"

#include <string.h>

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
        cli_tsv_finish(out);
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

int meta_show(cli *app, const cli_arguments *arguments)
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
