/* SPDX-License-Identifier: Apache-2.0 */
/* The page about what is under the cursor: a tensor, with its numbers as far as they are read, or many. */
#include "browse.h"

#include "cli_text.h"
#include "ls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIELD_COLUMNS 10 /* of a label */
#define PLOT_ROWS 5

static void put_field(browse_text *page, const char *label, const char *value)
{
    browse_put_style(page, CLI_DIM);
    browse_putf(page, "%-*s", FIELD_COLUMNS, label);
    browse_put_style(page, CLI_PLAIN);
    page->indent = FIELD_COLUMNS;
    browse_put_text(page, value);
    browse_put_text(page, "\n");
    page->indent = 0;
}

static void put_count(browse_text *page, const char *label, uint64_t count)
{
    char text[CLI_NUMBER_SIZE];
    cli_number_text(text, count, true);
    put_field(page, label, text);
}

static void put_bytes(browse_text *page, const browse *state, uint64_t bytes)
{
    char size[CLI_NUMBER_SIZE];
    char exact[CLI_NUMBER_SIZE];
    char text[160];
    cli_bytes_text(size, bytes);
    cli_number_text(exact, bytes, true);
    const double share = state->data->bytes > 0 ? (double)bytes * 100.0 / (double)state->data->bytes : 0;
    if (bytes < 1000) {
        snprintf(text, sizeof text, "%s, %.1f %%", size, share);
    } else {
        snprintf(text, sizeof text, "%s (%s B), %.1f %%", size, exact, share);
    }
    put_field(page, "size", text);
}

static void put_name(browse_text *page, const char *name, size_t name_len)
{
    browse_put_style(page, CLI_BOLD);
    browse_put_escaped(page, name, name_len);
    browse_put_style(page, CLI_PLAIN);
    browse_put_text(page, "\n\n");
}

static void put_kind(browse_text *page, const coffer_tensor *tensor)
{
    char shape[LS_SHAPE_SIZE];
    char dtype[64];
    const char *name = coffer_tensor_dtype_name(tensor);
    coffer_escape(name, strlen(name), dtype, sizeof dtype);
    ls_shape_text(shape, tensor);
    put_field(page, "dtype", dtype);
    put_field(page, "shape", shape);
}

/* ---- Many tensors ---- */

static void put_node(browse *state, browse_text *page, const browse_node *node)
{
    const cli_fold *fold = &state->tree.folds.folds[node->first_fold];
    const bool branch = node->child != BROWSE_NONE;
    /* A branch is called by all of its name, which its first fold begins with. */
    put_name(page, fold->name, branch ? (size_t)(node->label + node->label_len - fold->name) : fold->name_len);
    if (!branch) {
        put_kind(page, state->tree.folds.leaves[fold->first].tensor);
    }
    put_count(page, "tensors", node->tensors);
    put_count(page, "elements", node->elements);
    put_bytes(page, state, node->bytes);
    if (state->data->pairs != NULL) {
        put_count(page, "differing", node->differing);
    }
    browse_put_styled(page, CLI_DIM,
                      branch ? "\nEnter opens it.\n"
                             : "\nAlike but for the numbers\nin their names. Enter lists them.\n");
}

/* ---- Where a tensor is ---- */

static const char *base_name(const char *path)
{
    const char *slash = cli_last_slash(path);
    return slash == NULL ? path : slash + 1;
}

static void put_place(browse_text *page, const coffer *model, const coffer_tensor *tensor)
{
    char from[CLI_NUMBER_SIZE];
    char to[CLI_NUMBER_SIZE];
    char text[2 * CLI_NUMBER_SIZE + 8];
    cli_number_text(from, tensor->offset, true);
    cli_number_text(to, tensor->offset + tensor->size, true);
    snprintf(text, sizeof text, "%s to %s", from, to);
    put_field(page, "bytes", text);
    if (coffer_shard_count(model) > 1) {
        char file[512];
        const char *name = base_name(coffer_shard_path(model, tensor->shard));
        coffer_escape(name, strlen(name), file, sizeof file);
        put_field(page, "file", file);
    }
}

static void put_difference(browse *state, browse_text *page, uint32_t item)
{
    static const char *const headers[] = { "alike in both", "only in A", "only in B", "A, B is of another kind:" };
    static const char *const bytes[] = { "not compared; c compares", "the same", "differ", "cannot be read" };
    const browse_difference difference = browse_difference_at(state->data, item);
    if (state->data->pairs == NULL) {
        return;
    }
    put_field(page, "model", headers[difference]);
    if (difference == BROWSE_OTHER_KIND) {
        put_kind(page, browse_item_at(state->data, item).b);
    }
    if (difference == BROWSE_ALIKE) {
        put_field(page, "contents", bytes[state->work != NULL ? browse_work_same(state->work, item) : 0]);
    }
}

/* ---- Numbers ---- */

static void put_number(browse_text *page, const char *label, double value)
{
    char text[64];
    snprintf(text, sizeof text, "%.6g", value);
    put_field(page, label, text);
}

static void put_share(browse_text *page, const char *label, uint64_t count, uint64_t all)
{
    char text[CLI_NUMBER_SIZE + 32];
    const size_t len = cli_number_text(text, count, true);
    if (count > 0) {
        snprintf(text + len, sizeof text - len, " (%.2f %%)", (double)count * 100.0 / (double)all);
    }
    put_field(page, label, text);
}

static void put_statistics(browse_text *page, const coffer_statistics *numbers)
{
    if (numbers->finite > 0) {
        put_number(page, "min", numbers->min);
        put_number(page, "max", numbers->max);
        put_number(page, "mean", numbers->mean);
        put_number(page, "std", coffer_statistics_deviation(numbers));
    }
    put_share(page, "zeros", numbers->zeros, numbers->count);
    put_share(page, "NaN", numbers->nan, numbers->count);
    put_share(page, "infinite", numbers->infinite, numbers->count);
    if (numbers->subnormal > 0) {
        put_share(page, "subnormal", numbers->subnormal, numbers->count);
    }
}

/* Bars from below, in eighths of a row. */
static void put_histogram(browse_text *page, const stats_histogram *histogram)
{
    static const char *const eighths[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    const uint64_t tallest = stats_tallest(histogram);
    char low[32];
    char high[32];
    if (tallest == 0) {
        return;
    }
    browse_put_text(page, "\n");
    for (unsigned row = PLOT_ROWS; row > 0; row--) {
        browse_put_style(page, CLI_GREEN);
        for (size_t i = 0; i < STATS_BINS; i++) {
            const double full = (double)histogram->bins[i] / (double)tallest * 8 * PLOT_ROWS;
            unsigned height = (unsigned)(full + 0.5);
            height = height == 0 && histogram->bins[i] > 0 ? 1 : height;
            const unsigned below = 8 * (row - 1);
            browse_put_text(page, eighths[height <= below ? 0 : height - below < 8 ? height - below : 8]);
        }
        browse_put_style(page, CLI_PLAIN);
        browse_put_text(page, "\n");
    }
    snprintf(low, sizeof low, "%.3g", histogram->low);
    snprintf(high, sizeof high, "%.3g", histogram->high);
    const int gap = STATS_BINS - (int)strlen(low);
    browse_put_style(page, CLI_DIM);
    browse_putf(page, "%s%*s\n", low, gap, high);
    browse_put_style(page, CLI_PLAIN);
}

/* ---- The page ---- */

static void put_found(const browse *state, browse_text *page, const coffer_tensor *tensor)
{
    const browse_found *found = &state->found;
    const unsigned percent = tensor->size > 0 ? (unsigned)((double)found->done * 100.0 / (double)tensor->size) : 100;
    char size[CLI_NUMBER_SIZE];
    browse_put_text(page, "\n");
    switch (found->stage) {
    case BROWSE_STAGE_NOTHING:
        cli_bytes_text(size, tensor->size);
        browse_put_style(page, CLI_DIM);
        browse_putf(page, state->asks ? "r reads its %s from the network.\n" : "reading its %s …\n", size);
        browse_put_style(page, CLI_PLAIN);
        return;
    case BROWSE_STAGE_FAILED:
        browse_put_styled(page, CLI_RED, found->trouble);
        browse_put_text(page, "\n");
        return;
    case BROWSE_STAGE_READING:
    case BROWSE_STAGE_COUNTING:
        browse_put_style(page, CLI_DIM);
        browse_putf(page, "%s so far: %u %%\n", found->stage == BROWSE_STAGE_READING ? "read" : "counted", percent);
        browse_put_style(page, CLI_PLAIN);
        break;
    default:
        break;
    }
    if (found->numbers.count > 0) {
        put_statistics(page, &found->numbers);
    }
    if (found->stage == BROWSE_STAGE_DONE) {
        put_histogram(page, &found->histogram);
    }
    if (tensor->dtype != COFFER_UNKNOWN_DTYPE) {
        browse_put_text(page, "\n");
        browse_put_slice(state, page, tensor);
    }
}

void browse_write_details(browse *state, browse_text *page)
{
    if (state->cursor >= state->tree.row_count) {
        return;
    }
    const browse_row *row = &state->tree.rows[state->cursor];
    const uint32_t item = browse_row_item(&state->tree, row);
    if (item == BROWSE_NONE) {
        put_node(state, page, &state->tree.nodes[row->node]);
        return;
    }
    const browse_item pair = browse_item_at(state->data, item);
    const coffer_tensor *tensor = pair.a != NULL ? pair.a : pair.b;
    put_name(page, tensor->name, tensor->name_len);
    put_kind(page, tensor);
    put_count(page, "elements", coffer_tensor_elements(tensor));
    put_bytes(page, state, tensor->size);
    put_place(page, state->data->models[pair.a == NULL], tensor);
    put_difference(state, page, item);
    if (tensor->size > 0) {
        put_found(state, page, tensor);
    }
}
