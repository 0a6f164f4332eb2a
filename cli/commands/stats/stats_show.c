/* SPDX-License-Identifier: Apache-2.0 */
/* What coffer stats found out, as a table, as TSV and as JSON, and its histograms as bars of text. */
#include "stats.h"

#include "cli_columns.h"
#include "cli_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS 10
#define COMPACT_COLUMNS 8
#define COMPACT_BELOW 120 /* columns of a terminal */
#define BAR_MAX 40

static const char *const HEADINGS[COLUMNS] = { "tensor", "dtype", "min", "max",  "mean",
                                               "std",    "NaN",   "inf", "zero", "subnormal" };
static const char *const COMPACT_HEADINGS[COMPACT_COLUMNS] = { "tensor", "dtype", "min",  "max",
                                                               "mean",   "std",   "zero", "odd" };

/* A number for people; "-" where there is none. */
static void number_text(char text[CLI_NUMBER_SIZE], const coffer_statistics *numbers, double value, int digits)
{
    snprintf(text, CLI_NUMBER_SIZE, "%.*g", digits, value);
    if (numbers->finite == 0) {
        snprintf(text, CLI_NUMBER_SIZE, "-");
    }
}

/* The four numbers, in the order of the columns. */
static void measures_of(const coffer_statistics *numbers, double measures[4])
{
    measures[0] = numbers->min;
    measures[1] = numbers->max;
    measures[2] = numbers->mean;
    measures[3] = coffer_statistics_deviation(numbers);
}

static void counts_of(const coffer_statistics *numbers, uint64_t counts[4])
{
    counts[0] = numbers->nan;
    counts[1] = numbers->infinite;
    counts[2] = numbers->zeros;
    counts[3] = numbers->subnormal;
}

/* What no other number is: "2 NaN, 1 inf". */
static void odd_text(char *text, size_t size, const coffer_statistics *numbers)
{
    const uint64_t counts[] = { numbers->nan, numbers->infinite, numbers->subnormal };
    static const char *const names[] = { "NaN", "inf", "subnormal" };
    size_t used = 0;
    snprintf(text, size, "-");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && used < size; i++) {
        if (counts[i] > 0) {
            char count[CLI_NUMBER_SIZE];
            cli_count_text(count, counts[i]);
            used += (size_t)snprintf(text + used, size - used, "%s%s %s", used > 0 ? ", " : "", count, names[i]);
        }
    }
}

static void put_counts(cli_columns *columns, const coffer_statistics *numbers)
{
    char text[CLI_NUMBER_SIZE];
    uint64_t counts[4];
    counts_of(numbers, counts);
    for (size_t i = 0; i < 4; i++) {
        cli_number_text(text, counts[i], true);
        cli_columns_text(columns, text);
    }
}

static void put_compact_counts(cli_columns *columns, const coffer_statistics *numbers)
{
    char text[4 * CLI_NUMBER_SIZE];
    const double zeros = numbers->count > 0 ? (double)numbers->zeros / (double)numbers->count * 100 : 0;
    snprintf(text, sizeof text, zeros >= 1 || zeros == 0 ? "%.0f%%" : "%.2g%%", zeros);
    cli_columns_text(columns, text);
    odd_text(text, sizeof text, numbers);
    cli_columns_text(columns, text);
}

static void put_row(cli_columns *columns, const stats_row *row)
{
    char text[CLI_NUMBER_SIZE];
    double measures[4];
    const bool compact = columns->count == COMPACT_COLUMNS;
    measures_of(&row->numbers, measures);
    if (row->label != NULL) {
        cli_columns_cell(columns, row->label, row->label_len);
    } else {
        cli_columns_text(columns, "(all)");
    }
    cli_columns_text(columns, row->label != NULL ? row->dtype : "");
    for (size_t i = 0; i < 4; i++) {
        number_text(text, &row->numbers, measures[i], compact ? 3 : 6);
        cli_columns_text(columns, text);
    }
    if (compact) {
        put_compact_counts(columns, &row->numbers);
    } else {
        put_counts(columns, &row->numbers);
    }
}

static void put_rows(cli_columns *columns, const stats_report *report)
{
    const char *const *headings = columns->count == COMPACT_COLUMNS ? COMPACT_HEADINGS : HEADINGS;
    for (size_t i = 0; i < columns->count; i++) {
        cli_columns_text(columns, headings[i]);
    }
    for (size_t i = 0; i < report->row_count; i++) {
        put_row(columns, &report->rows[i]);
    }
    if (report->row_count != 1) {
        put_row(columns, &report->all);
    }
}

/* A line for each bin: where it begins, a bar, how many. */
static void put_histogram(cli_output *out, const stats_row *stats)
{
    char start[CLI_NUMBER_SIZE];
    const uint64_t tallest = stats_tallest(&stats->histogram);
    cli_put_char(out, '\n');
    if (stats->label != NULL) {
        cli_put_escaped(out, stats->label, stats->label_len, 0);
    } else {
        cli_put_text(out, "(all)");
    }
    cli_put_char(out, '\n');
    const size_t capacity = out->width > 40 && out->width < BAR_MAX + 40 ? out->width - 40 : BAR_MAX;
    const size_t width = out->width > 0 && out->width <= 40 ? 8 : capacity;
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
    const bool compact = app->out.width > 0 && app->out.width < COMPACT_BELOW;
    cli_columns columns = { .out = &app->out, .count = compact ? COMPACT_COLUMNS : COLUMNS };
    for (size_t i = 2; i < columns.count; i++) {
        columns.right[i] = !compact || i + 1 < columns.count;
    }
    columns.measuring = true;
    put_rows(&columns, report);
    cli_columns_fit(&columns);
    put_rows(&columns, report);
    for (size_t i = 0; i < report->row_count && report->shows_histograms; i++) {
        put_histogram(&app->out, &report->rows[i]);
    }
    if (report->shows_histograms && report->row_count != 1) {
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
    cli_tsv_finish(out);
    for (size_t i = 0; i < report->row_count; i++) {
        const stats_row *stats = &report->rows[i];
        char text[CLI_NUMBER_SIZE];
        double measures[4];
        uint64_t counts[4];
        measures_of(&stats->numbers, measures);
        counts_of(&stats->numbers, counts);
        cli_tsv_text_n(out, stats->label, stats->label_len);
        cli_tsv_text(out, stats->dtype);
        cli_tsv_number(out, stats->numbers.count);
        for (size_t k = 0; k < 4; k++) {
            exact_text(text, measures[k]);
            cli_tsv_text(out, stats->numbers.finite > 0 ? text : "");
        }
        for (size_t k = 0; k < 4; k++) {
            cli_tsv_number(out, counts[k]);
        }
        cli_tsv_finish(out);
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

static void json_numbers(cli_output *out, const stats_row *stats, bool histogram)
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
    for (size_t i = 0; i < report->row_count; i++) {
        const stats_row *stats = &report->rows[i];
        cli_json_open(out, '{', false);
        cli_json_key(out, "name");
        cli_json_string_n(out, stats->label, stats->label_len);
        cli_json_key(out, "dtype");
        cli_json_string(out, stats->dtype);
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
