/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors share a row of coffer stats, and what the row is called. */
#include "cli_fold.h"
#include "stats.h"

#include <stdlib.h>
#include <string.h>

static bool make_single_rows(stats_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const coffer_tensor *tensor = report->tensors[i].tensor;
        report->tensors[i].row = i;
        report->rows[i] = (stats_row){
            .label = tensor->name,
            .label_len = tensor->name_len,
            .dtype = coffer_tensor_dtype_name(tensor),
        };
    }
    report->row_count = report->count;
    return true;
}

/* Labels go one after the other into the report's space for them. */
static void add_row(stats_report *report, const cli_folds *folds, const cli_fold *fold, char **capacity)
{
    char tail[CLI_FOLD_TAIL_SIZE];
    cli_fold_tail(folds, fold, tail);
    const size_t tail_len = strlen(tail);
    memcpy(*capacity, fold->name, fold->name_len);
    memcpy(*capacity + fold->name_len, tail, tail_len);
    report->rows[report->row_count++] = (stats_row){
        .label = *capacity,
        .label_len = fold->name_len + tail_len,
        .dtype = coffer_tensor_dtype_name(folds->leaves[fold->first].tensor),
    };
    *capacity += fold->name_len + tail_len;
}

/* The rows keep the file's order, which is the order of the first tensor of each. */
static bool order_rows(stats_report *report, const cli_folds *folds)
{
    size_t size = 1;
    const cli_fold **fold_of = calloc(report->count + 1, sizeof(const cli_fold *));
    for (size_t i = 0; i < folds->fold_count && fold_of != NULL; i++) {
        const cli_fold *fold = &folds->folds[i];
        size += fold->name_len + CLI_FOLD_TAIL_SIZE;
        for (size_t k = 0; k < fold->count; k++) {
            fold_of[folds->leaves[fold->first + k].item] = fold;
        }
    }
    char *capacity = report->labels = fold_of != NULL ? malloc(size) : NULL;
    for (size_t i = 0; i < report->count && capacity != NULL; i++) {
        const cli_fold *fold = fold_of[i];
        if (fold == NULL) {
            continue; /* the row of an earlier tensor */
        }
        for (size_t k = 0; k < fold->count; k++) {
            const size_t item = folds->leaves[fold->first + k].item;
            report->tensors[item].row = report->row_count;
            fold_of[item] = NULL;
        }
        add_row(report, folds, fold, &capacity);
    }
    free(fold_of);
    return report->labels != NULL;
}

static bool make_folded_rows(stats_report *report)
{
    cli_folds folds;
    const coffer_tensor **tensors = malloc((report->count + 1) * sizeof(const coffer_tensor *));
    for (size_t i = 0; i < report->count && tensors != NULL; i++) {
        tensors[i] = report->tensors[i].tensor;
    }
    const bool made = tensors != NULL && cli_folds_make(&folds, tensors, report->count);
    free(tensors);
    if (!made) {
        return false;
    }
    const bool ordered = order_rows(report, &folds);
    cli_folds_free(&folds);
    return ordered;
}

bool stats_make_rows(stats_report *report, bool folded)
{
    report->rows = malloc((report->count + 1) * sizeof *report->rows);
    return report->rows != NULL && (folded ? make_folded_rows(report) : make_single_rows(report));
}

void stats_free_rows(stats_report *report)
{
    free(report->rows);
    free(report->labels);
}
