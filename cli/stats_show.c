/* SPDX-License-Identifier: Apache-2.0 */
/* What coffer stats found out, as a table, as TSV and as JSON, and its histograms as bars of text. */
#include "stats.h"

#include "cli_columns.h"
#include "cli_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS 10
#define BAR_MOST 40

static const char *const HEADINGS[COLUMNS] = { "tensor", "dtype", "min", "max",  "mean",
                                               "std",    "NaN",   "inf", "zero", "subnormal" };

/* A number for people; "-" where there is none. */
static void number_text(char text[CLI_NUMBER_SIZE], const stats_numbers *numbers, double value)
{
    snprintf(text, CLI_NUMBER_SIZE, "%.6g", value);
    if (numbers->finite == 0) {
        snprintf(text, CLI_NUMBER_SIZE, "-");
    }
}

/* The four numbers, in the order of the columns. */
static void measures_of(const stats_numbers *numbers, double measures[4])
{
    measures[0] = numbers->min;
    measures[1] = numbers->max;
    measures[2] = numbers->mean;
    measures[3] = stats_deviation(numbers);
}

static void counts_of(const stats_numbers *numbers, uint64_t counts[4])
{
    counts[0] = numbers->nan;
    counts[1] = numbers->infinite;
    counts[2] = numbers->zeros;
    counts[3] = numbers->subnormal;
}

static void put_row(cli_columns *columns, const stats_tensor *stats)
{
    char text[CLI_NUMBER_SIZE];
    double measures[4];
    uint64_t counts[4];
    measures_of(&stats->numbers, measures);
    counts_of(&stats->numbers, counts);
    if (stats->tensor != NULL) {
        cli_columns_cell(columns, stats->tensor->name, stats->tensor->name_len);
        cli_columns_text(columns, coffer_tensor_dtype_name(stats->tensor));
    } else {
        cli_columns_text(columns, "(all)");
        cli_columns_text(columns, "");
    }
    for (size_t i = 0; i < 4; i++) {
        number_text(text, &stats->numbers, measures[i]);
        cli_columns_text(columns, text);
    }
    for (size_t i = 0; i < 4; i++) {
        cli_number_text(text, counts[i], true);
        cli_columns_text(columns, text);
    }
}

static void put_rows(cli_columns *columns, const stats_report *report)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        cli_columns_text(columns, HEADINGS[i]);
    }
    for (size_t i = 0; i < report->count; i++) {
        put_row(columns, &report->tensors[i]);
    }
    if (report->count != 1) {
        put_row(columns, &report->all);
    }
}

/* A line for each bin: where it begins, a bar, how many. */
static void put_histogram(cli_output *out, const stats_tensor *stats)
{
    char start[CLI_NUMBER_SIZE];
    const uint64_t tallest = stats_tallest(&stats->histogram);
    cli_put_char(out, '\n');
    if (stats->tensor != NULL) {
        cli_put_escaped(out, stats->tensor->name, stats->tensor->name_len, 0);
    } else {
        cli_put_text(out, "(all)");
    }
    cli_put_char(out, '\n');
    const size_t room = out->width > 40 && out->width < BAR_MOST + 40 ? out->width - 40 : BAR_MOST;
    const size_t width = out->width > 0 && out->width <= 40 ? 8 : room;
    for (size_t i = 0; i < STATS_BINS && tallest > 0; i++) {
        const uint64_t count = stats->histogram.bins[i];
        const size_t bar = (size_t)ceil((double)count / (double)tallest * (double)width);
        snprintf(start, sizeof start, "%12.5g  ", stats_bin_start(&stats->histogram, i));
        cli_put_text(out, start);
        cli_put_repeat(out, '#', bar);
        cli_put_repeat(out, ' ', width - bar + 2);
        cli_put_grouped(out, count);
        cli_put_char(out, '\n');
    }
}

void stats_show_text(cli *app, const stats_report *report)
{
    cli_columns columns = { .out = &app->out, .count = COLUMNS };
    for (size_t i = 2; i < COLUMNS; i++) {
        columns.right[i] = true;
    }
    columns.measuring = true;
    put_rows(&columns, report);
    cli_columns_fit(&columns);
    put_rows(&columns, report);
    for (size_t i = 0; i < report->count && report->shows_histograms; i++) {
        put_histogram(&app->out, &report->tensors[i]);
    }
    if (report->shows_histograms && report->count != 1) {
        put_histogram(&app->out, &report->all);
    }
}

/* ---- For programs ---- */

/* Digits enough to read back the same double. */
static void exact_text(char text[CLI_NUMBER_SIZE], double value)
{
    snprintf(text, CLI_NUMBER_SIZE, "%.17g", value);
}

void stats_show_tsv(cli *app, const stats_report *report)
{
    static const char *const names[] = { "name", "dtype", "count",    "min",   "max",      "mean",
                                         "std",  "nan",   "infinite", "zeros", "subnormal" };
    cli_output *out = &app->out;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cli_tsv_text(out, names[i]);
    }
    cli_tsv_end(out);
    for (size_t i = 0; i < report->count; i++) {
        const stats_tensor *stats = &report->tensors[i];
        char text[CLI_NUMBER_SIZE];
        double measures[4];
        uint64_t counts[4];
        measures_of(&stats->numbers, measures);
        counts_of(&stats->numbers, counts);
        cli_tsv_text_n(out, stats->tensor->name, stats->tensor->name_len);
        cli_tsv_text(out, coffer_tensor_dtype_name(stats->tensor));
        cli_tsv_number(out, stats->numbers.count);
        for (size_t k = 0; k < 4; k++) {
            exact_text(text, measures[k]);
            cli_tsv_text(out, stats->numbers.finite > 0 ? text : "");
        }
        for (size_t k = 0; k < 4; k++) {
            cli_tsv_number(out, counts[k]);
        }
        cli_tsv_end(out);
    }
}

static void json_histogram(cli_output *out, const stats_histogram *histogram)
{
    char text[CLI_NUMBER_SIZE];
    cli_json_key(out, "histogram");
    cli_json_open(out, '{', false);
    cli_json_key(out, "low");
    exact_text(text, histogram->low);
    cli_json_raw(out, text);
    cli_json_key(out, "high");
    exact_text(text, histogram->high);
    cli_json_raw(out, text);
    cli_json_key(out, "counts");
    cli_json_open(out, '[', false);
    for (size_t i = 0; i < STATS_BINS; i++) {
        cli_json_number(out, histogram->bins[i]);
    }
    cli_json_close(out, ']');
    cli_json_close(out, '}');
}

static void json_numbers(cli_output *out, const stats_tensor *stats, bool histogram)
{
    static const char *const measure_names[] = { "min", "max", "mean", "std" };
    static const char *const count_names[] = { "nan", "infinite", "zeros", "subnormal" };
    char text[CLI_NUMBER_SIZE];
    double measures[4];
    uint64_t counts[4];
    measures_of(&stats->numbers, measures);
    counts_of(&stats->numbers, counts);
    cli_json_key(out, "count");
    cli_json_number(out, stats->numbers.count);
    for (size_t i = 0; i < 4; i++) {
        cli_json_key(out, measure_names[i]);
        exact_text(text, measures[i]);
        if (stats->numbers.finite > 0 && isfinite(measures[i])) {
            cli_json_raw(out, text);
        } else {
            cli_json_null(out);
        }
    }
    for (size_t i = 0; i < 4; i++) {
        cli_json_key(out, count_names[i]);
        cli_json_number(out, counts[i]);
    }
    if (histogram) {
        json_histogram(out, &stats->histogram);
    }
}

void stats_show_json(cli *app, const stats_report *report)
{
    cli_output *out = &app->out;
    cli_json_open(out, '{', true);
    cli_json_key(out, "path");
    cli_json_string(out, report->path);
    cli_json_key(out, "tensors");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < report->count; i++) {
        const stats_tensor *stats = &report->tensors[i];
        cli_json_open(out, '{', false);
        cli_json_key(out, "name");
        cli_json_string_n(out, stats->tensor->name, stats->tensor->name_len);
        cli_json_key(out, "dtype");
        cli_json_string(out, coffer_tensor_dtype_name(stats->tensor));
        json_numbers(out, stats, report->shows_histograms);
        cli_json_close(out, '}');
    }
    cli_json_close(out, ']');
    cli_json_key(out, "all");
    cli_json_open(out, '{', false);
    json_numbers(out, &report->all, report->shows_histograms);
    cli_json_close(out, '}');
    cli_json_close(out, '}');
}
