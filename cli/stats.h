/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of coffer stats: what is found out (cmd_stats.c), and the forms in which it is shown. */
#ifndef COFFER_STATS_H
#define COFFER_STATS_H

#include "cli_command.h"
#include "coffer.h"
#include "stats_numbers.h"

typedef struct stats_tensor {
    const coffer_tensor *tensor; /* NULL: all of them */
    stats_numbers numbers;
    stats_histogram histogram;
} stats_tensor;

typedef struct stats_report {
    const char *path;
    coffer *model;
    stats_tensor *tensors; /* in the file's order */
    size_t count;
    stats_tensor all;
    bool histograms;       /* they are filled */
    bool shows_histograms; /* they are asked for on standard output */
} stats_report;

void stats_show_text(cli *app, const stats_report *report);
void stats_show_tsv(cli *app, const stats_report *report);
void stats_show_json(cli *app, const stats_report *report);
/* Draws the histograms into an SVG file. Returns the exit code. */
int stats_plot(cli *app, const stats_report *report, const char *path);

#endif
