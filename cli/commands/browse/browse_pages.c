/* SPDX-License-Identifier: Apache-2.0 */
/* The pages that fill the screen: metadata, the map of bytes, the keys. They are written from tables that are in memory. */
#include "browse.h"

#include "cli_command.h"
#include "cli_pretty.h"
#include "ls.h"

#include <stdlib.h>
#include <string.h>

#define VALUE_LINES 5000 /* of one value of the metadata */

/* ---- Metadata ---- */

/* Standard output's functions write JSON for eyes; what they write is taken. */
static void put_json(browse_text *page, const char *value, size_t value_len, size_t indent)
{
    cli_output *out = calloc(1, sizeof *out);
    if (out == NULL) {
        browse_put_text(page, "out of memory");
        return;
    }
    cli_output_init_take(out, page->width, browse_text_take, page);
    const size_t left = cli_put_json(out, value, value_len, indent, VALUE_LINES);
    cli_output_flush(out);
    free(out);
    if (left > 0) {
        browse_putf(page, "\n… and %zu lines more; coffer meta shows all", left);
    }
}

static void put_pair(browse_text *page, const coffer_pair *pair, const char *mark)
{
    browse_put_styled(page, CLI_YELLOW, mark);
    browse_put_style(page, CLI_CYAN);
    browse_put_escaped(page, pair->key, pair->key_len);
    browse_put_style(page, CLI_PLAIN);
    browse_put_text(page, " = ");
    page->indent = 4;
    if (cli_is_json(pair->value, pair->value_len)) {
        put_json(page, pair->value, pair->value_len, 2);
    } else {
        browse_put_escaped(page, pair->value, pair->value_len);
    }
    page->indent = 0;
    browse_put_text(page, "\n");
}

/* Whether the other model says the same. */
static const char *pair_mark(const coffer_table *other, const coffer_pair *pair)
{
    size_t len = 0;
    if (other == NULL) {
        return "";
    }
    const char *value = coffer_table_metadata_get(other, pair->key, pair->key_len, &len);
    const bool same = value != NULL && len == pair->value_len && memcmp(value, pair->value, len) == 0;
    return same ? "  " : value == NULL ? "+ " : "~ ";
}

static bool equal_metadata(const coffer_table *a, const coffer_table *b)
{
    coffer_pair pair;
    bool same = coffer_table_metadata_count(a) == coffer_table_metadata_count(b);
    for (size_t i = 0; same && coffer_table_metadata_at(a, i, &pair); i++) {
        size_t len = 0;
        const char *value = coffer_table_metadata_get(b, pair.key, pair.key_len, &len);
        same = value != NULL && len == pair.value_len && memcmp(value, pair.value, len) == 0;
    }
    return same;
}

static void put_head(browse_text *page, const char *words, const char *path)
{
    browse_put_style(page, CLI_BOLD);
    browse_put_text(page, words);
    browse_put_escaped(page, path, strlen(path));
    browse_put_style(page, CLI_PLAIN);
    browse_put_text(page, "\n\n");
}

static void put_table(browse_text *page, const coffer_table *table, const coffer_table *other)
{
    coffer_pair pair;
    for (size_t i = 0; coffer_table_metadata_at(table, i, &pair); i++) {
        put_pair(page, &pair, pair_mark(other, &pair));
    }
    if (coffer_table_metadata_count(table) == 0) {
        browse_put_styled(page, CLI_DIM, "no metadata\n");
    }
    browse_put_text(page, "\n");
}

static void put_index(browse_text *page, const coffer *model)
{
    size_t len = 0;
    const char *text = coffer_index_metadata(model, &len);
    if (text != NULL && len > 0) {
        put_head(page, "index ", coffer_index_path(model));
        put_json(page, text, len, 0);
        browse_put_text(page, "\n\n");
    }
}

/* The first file's metadata, and those of files that have others: as a rule all have the same. */
static void put_model(browse_text *page, const coffer *model, const char *label, const char *path, const coffer *other)
{
    const coffer_table *first = coffer_shard_table(model, 0);
    put_head(page, label, path);
    put_index(page, model);
    put_table(page, first, other != NULL ? coffer_shard_table(other, 0) : NULL);
    for (size_t i = 1; i < coffer_shard_count(model); i++) {
        const coffer_table *table = coffer_shard_table(model, i);
        if (!equal_metadata(first, table)) {
            put_head(page, "file ", coffer_shard_path(model, i));
            put_table(page, table, NULL);
        }
    }
}

static void write_metadata(const browse *state, browse_text *page)
{
    const browse_data *data = state->data;
    const bool two = data->models[1] != NULL;
    put_model(page, data->models[0], two ? "A " : "", data->paths[0], data->models[1]);
    if (two) {
        put_model(page, data->models[1], "B ", data->paths[1], data->models[0]);
    }
}

/* ---- The map ---- */

/* Of the file that the tensor under the cursor is in, or the first of what is below it. */
static const coffer_tensor *tensor_here(const browse *state, size_t *side)
{
    const browse_tree *tree = &state->tree;
    const browse_row *row = state->cursor < tree->row_count ? &tree->rows[state->cursor] : NULL;
    *side = 0;
    if (row == NULL) {
        return coffer_at(state->data->models[0], 0);
    }
    uint32_t item = browse_row_item(tree, row);
    item = item != BROWSE_NONE ? item : tree->nodes[row->node].first_item;
    const browse_item pair = browse_item_at(state->data, item);
    *side = pair.a == NULL;
    return pair.a != NULL ? pair.a : pair.b;
}

static bool select_shard(ls_selection *selection, const coffer *model, const char *path, size_t shard)
{
    size_t first = 0;
    for (size_t i = 0; i < shard; i++) {
        first += coffer_table_count(coffer_shard_table(model, i));
    }
    const size_t count = coffer_table_count(coffer_shard_table(model, shard));
    *selection = (ls_selection){ .model = model, .path = path, .count = count, .total = count, .shard = shard };
    selection->order = malloc((count + 1) * sizeof *selection->order);
    for (size_t i = 0; i < count && selection->order != NULL; i++) {
        selection->order[i] = (uint32_t)(first + i);
    }
    return selection->order != NULL;
}

static void write_map(const browse *state, browse_text *page)
{
    size_t side = 0;
    ls_selection selection;
    const coffer_tensor *tensor = tensor_here(state, &side);
    const coffer *model = state->data->models[side];
    const size_t shard = tensor != NULL ? tensor->shard : 0;
    const char *file = coffer_shard_path(model, shard);
    cli *app = calloc(1, sizeof *app);
    const char *path = file[0] != '\0' ? file : state->data->paths[side];
    if (app != NULL && select_shard(&selection, model, path, shard)) {
        put_head(page, "", path);
        cli_output_init_take(&app->out, page->width, browse_text_take, page);
        ls_show_map(app, &selection);
        cli_output_flush(&app->out);
        free(selection.order);
    } else {
        browse_put_text(page, "out of memory");
    }
    free(app);
}

/* ---- The keys ---- */

static const char help_text[] =
    "Moving\n"
    "  j k, arrows        down, up\n"
    "  Ctrl-D Ctrl-U      half a page; Ctrl-F Ctrl-B and Page keys a whole one\n"
    "  g G, Home End      the first, the last\n"
    "  l h, right left    open or enter; close or leave\n"
    "  Enter, Space       open or close; of a tensor, its details; there its numbers\n"
    "  e E                open all branches; close all\n"
    "  Tab                between the list and the details\n"
    "  mouse              a click moves the cursor, or opens; the wheel scrolls\n"
    "\n"
    "Finding\n"
    "  /                  search while typing; n N next, previous; Esc ends it\n"
    "  f                  only names with these words, or that match a pattern: *.attn.*\n"
    "  s                  sort: the file's order, name, size, dtype, elements\n"
    "  t                  a flat list of tensors; again: the tree\n"
    "\n"
    "Looking\n"
    "  m                  metadata, JSON in it spread out\n"
    "  b                  the map of the file's bytes\n"
    "  v                  numbers as shades; again: as numbers\n"
    "  r                  read a tensor's numbers from the network\n"
    "\n"
    "Numbers of a tensor, a screen of them\n"
    "  j k h l, arrows    a row or a column further; Page keys and Tab a screen of them\n"
    "  g G, 0 $           the first and the last row; column\n"
    "  , .                back and forth in the dimensions before the last two\n"
    "\n"
    "Two models\n"
    "  d                  only what differs: A or B alone has it, ~ another dtype or shape, ! other bytes\n"
    "  c                  compare the bytes of all below the cursor: = the same, ! different\n"
    "\n"
    "  q                  back, and in the end out; Ctrl-C out at once\n"
    "  Ctrl-L, Ctrl-Z     draw anew; to the shell, and back with fg\n"
    "\n"
    "In a search, letters are of any case unless one is a capital.\n";

void browse_write_page(browse *state, size_t width)
{
    browse_text *page = &state->page;
    const bool lasting = state->view > BROWSE_VIEW_SLICE; /* it stays as it is while the view does */
    if (lasting && state->page_view == state->view && state->page_width == width) {
        return;
    }
    state->page_view = state->view;
    state->page_width = width;
    browse_text_begin(page, width);
    switch (state->view) {
    case BROWSE_VIEW_METADATA:
        write_metadata(state, page);
        break;
    case BROWSE_VIEW_MAP:
        write_map(state, page);
        break;
    case BROWSE_VIEW_SLICE:
        browse_write_slice(state, page);
        break;
    case BROWSE_VIEW_HELP:
        page->indent = 21;
        browse_put_text(page, help_text);
        break;
    default:
        browse_write_details(state, page);
        break;
    }
    if (page->failed) {
        browse_say(state, "out of memory: this page is not whole");
    }
}
