/* SPDX-License-Identifier: Apache-2.0 */
/* coffer ls --tree: the folds as a tree, which is written from their order; no nodes are made. */
#include "ls.h"

#include "cli_columns.h"
#include "cli_fold.h"
#include "cli_json.h"
#include "cli_names.h"
#include "cli_report.h"
#include "cli_text.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 32 /* levels; names with more parts than that end in one label */

typedef struct tree_writer {
    const cli_folds *tree;
    cli_columns *columns;
    char *label; /* space for the longest line's first cell */
    size_t label_size;
    size_t lines;
    size_t most;
} tree_writer;

static uint64_t bytes_of(const cli_folds *tree, size_t first, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = first; i < first + count; i++) {
        bytes += tree->leaves[tree->folds[i].first].tensor->size * tree->folds[i].count;
    }
    return bytes;
}

/* The first cell: indented by two columns for each level. What is escaped must not be escaped
   twice, so it is raw here. */
static size_t put_label(tree_writer *writer, size_t level, const char *text, size_t text_len, const char *tail)
{
    memset(writer->label, ' ', 2 * level);
    memcpy(writer->label + 2 * level, text, text_len);
    const size_t tail_len = strlen(tail);
    memcpy(writer->label + 2 * level + text_len, tail, tail_len);
    return 2 * level + text_len + tail_len;
}

/* A branch of the tree has no tensor, and so neither a dtype nor a shape. Lines beyond the limit are
   counted, so that the remark can say how many there are. */
static void put_line(tree_writer *writer, size_t label_len, const coffer_tensor *tensor, uint64_t bytes)
{
    char shape[LS_SHAPE_SIZE] = "";
    char size[CLI_NUMBER_SIZE];
    writer->lines++;
    if (writer->lines > writer->most) {
        return;
    }
    if (tensor != NULL) {
        ls_shape_text(shape, tensor);
    }
    cli_bytes_text(size, bytes);
    cli_columns_cell(writer->columns, writer->label, label_len);
    cli_columns_text(writer->columns, tensor != NULL ? coffer_tensor_dtype_name(tensor) : "");
    cli_columns_text(writer->columns, shape);
    cli_columns_text(writer->columns, size);
}

static void put_fold(tree_writer *writer, const cli_fold *fold, size_t level, size_t start)
{
    char tail[CLI_FOLD_TAIL_SIZE];
    const coffer_tensor *tensor = writer->tree->leaves[fold->first].tensor;
    cli_fold_tail(writer->tree, fold, tail);
    const size_t len = put_label(writer, level, fold->name + start, fold->name_len - start, tail);
    put_line(writer, len, tensor, tensor->size * fold->count);
}

/* Folds that agree up to `start`. Recursion is as deep as the tree, so at most DEPTH_MAX. */
static void put_folds(tree_writer *writer, size_t first, size_t count, size_t level, size_t start)
{
    for (size_t i = first; i < first + count && writer->columns->out->error == 0;) {
        const cli_fold *folds = &writer->tree->folds[i];
        const size_t same = level < DEPTH_MAX ? cli_folds_alike(folds, first + count - i, start) : 1;
        if (same == 1) {
            put_fold(writer, folds, level, start);
        } else {
            const size_t end = cli_folds_common_end(folds, same, start);
            const size_t len = put_label(writer, level, folds->name + start, end - start - 1, "");
            put_line(writer, len, NULL, bytes_of(writer->tree, i, same));
            put_folds(writer, i, same, level + 1, end);
        }
        i += same;
    }
}

/* The tree is walked twice: first to measure the columns, then to write them. The label has space for
   the longest name, the indent of the deepest level and what stands after a fold. */
static int text_tree(cli *app, const cli_folds *tree, const char *path, size_t limit)
{
    cli_columns columns = { .out = &app->out, .count = 4, .measuring = true };
    columns.styles[1] = CLI_CYAN;
    columns.styles[3] = CLI_DIM;
    columns.right[3] = true;
    tree_writer writer = { .tree = tree, .columns = &columns, .most = limit };
    for (size_t i = 0; i < tree->fold_count; i++) {
        const size_t size = tree->folds[i].name_len;
        writer.label_size = size > writer.label_size ? size : writer.label_size;
    }
    writer.label_size += (size_t)2 * DEPTH_MAX + CLI_FOLD_TAIL_SIZE;
    writer.label = malloc(writer.label_size);
    if (writer.label == NULL) {
        return cli_fail_memory(app, path);
    }
    put_folds(&writer, 0, tree->fold_count, 0, 0);
    cli_columns_fit(&columns);
    writer.lines = 0;
    put_folds(&writer, 0, tree->fold_count, 0, 0);
    ls_remark_cut(app, limit, writer.lines, "lines");
    free(writer.label);
    return CLI_EXIT_OK;
}

/* ---- For programs: the folds alone ---- */

static void json_tree(cli_output *out, const cli_folds *tree, const char *path, size_t limit)
{
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, path);
    cli_json_key(out, "total");
    cli_json_number(out, tree->fold_count);
    cli_json_key(out, "folds");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < tree->fold_count && i < limit && out->error == 0; i++) {
        const cli_fold *fold = &tree->folds[i];
        const coffer_tensor *tensor = tree->leaves[fold->first].tensor;
        cli_json_open(out, '{', false);
        cli_json_key(out, "name");
        cli_json_string_n(out, fold->name, fold->name_len);
        cli_json_key(out, "count");
        cli_json_number(out, fold->count);
        cli_json_key(out, "dtype");
        cli_json_string(out, coffer_tensor_dtype_name(tensor));
        cli_json_shape(out, tensor->shape, tensor->rank);
        cli_json_key(out, "elements");
        cli_json_number(out, coffer_tensor_elements(tensor) * fold->count);
        cli_json_key(out, "size");
        cli_json_number(out, tensor->size * fold->count);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
    cli_json_close(out, '}');
}

static void tsv_tree(cli_output *out, const cli_folds *tree, size_t limit)
{
    cli_put_text(out, "name\tcount\tdtype\tshape\telements\tsize\n");
    for (size_t i = 0; i < tree->fold_count && i < limit && out->error == 0; i++) {
        const cli_fold *fold = &tree->folds[i];
        const coffer_tensor *tensor = tree->leaves[fold->first].tensor;
        cli_tsv_text_n(out, fold->name, fold->name_len);
        cli_tsv_number(out, fold->count);
        cli_tsv_text(out, coffer_tensor_dtype_name(tensor));
        cli_tsv_shape(out, tensor->shape, tensor->rank);
        cli_tsv_number(out, coffer_tensor_elements(tensor) * fold->count);
        cli_tsv_number(out, tensor->size * fold->count);
        cli_tsv_finish(out);
    }
}

int ls_show_tree(cli *app, const ls_selection *selection, size_t limit)
{
    cli_folds tree;
    int code = CLI_EXIT_OK;
    const coffer_tensor **tensors = malloc((selection->count + 1) * sizeof(const coffer_tensor *));
    for (size_t i = 0; i < selection->count && tensors != NULL; i++) {
        tensors[i] = coffer_at(selection->model, selection->order[i]);
    }
    const bool made = tensors != NULL && cli_folds_make(&tree, tensors, selection->count);
    free(tensors);
    if (!made) {
        return cli_fail_memory(app, selection->path);
    }
    if (!app->json && !app->tsv) {
        code = text_tree(app, &tree, selection->path, limit);
    } else {
        if (app->json) {
            json_tree(&app->out, &tree, selection->path, limit);
        } else {
            tsv_tree(&app->out, &tree, limit);
        }
        ls_remark_cut(app, limit, tree.fold_count, "lines");
    }
    cli_folds_free(&tree);
    return code;
}
