/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of coffer stats: what is found out (cmd_stats.c), and the forms in which it is shown. */
#ifndef COFFER_STATS_H
#define COFFER_STATS_H

#include "cli_command.h"
#include "coffer.h"
#include "stats_histogram.h"

typedef struct stats_tensor {
    const coffer_tensor *tensor;
    size_t row; /* of the report */
    coffer_statistics numbers;
} stats_tensor;

/* What is shown as one: a tensor, tensors that differ in the numbers of their names only
   (cli_fold.h), or all of them. */
typedef struct stats_row {
    const char *label; /* the tensor's name, or the folded one; NULL: all of them */
    size_t label_len;
    const char *dtype;
    coffer_statistics numbers;
    stats_histogram histogram;
} stats_row;

typedef struct stats_report {
    const char *path;
    coffer *model;
    stats_tensor *tensors; /* in the file's order */
    size_t count;
    stats_row *rows; /* in the order of the first tensor of each */
    size_t row_count;
    char *labels; /* what the rows of folds are called */
    stats_row all;
    bool histograms;       /* they are filled */
    bool shows_histograms; /* they are asked for on standard output */
} stats_report;

/* Makes the rows of the report's tensors, folded or one for each. False without memory; release by stats_free_rows. */
bool stats_make_rows(stats_report *report, bool folded);
void stats_free_rows(stats_report *report);

void stats_show_text(cli *app, const stats_report *report);
void stats_show_tsv(cli *app, const stats_report *report);
void stats_show_json(cli *app, const stats_report *report);
/* Draws the histograms into an SVG file. Returns the exit code. */
int stats_plot(cli *app, const stats_report *report, const char *path);

#endif
