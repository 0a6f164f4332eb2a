/* SPDX-License-Identifier: Apache-2.0 */
/* The histograms as SVG: a panel for all tensors together and one for each, three in a row. */
#include "stats.h"

#include "cli_publish.h"
#include "cli_report.h"

#include <stdio.h>
#include <string.h>

#define PANELS_IN_A_ROW 3
#define PANELS_MAX 600 /* of more, nobody looks at each; a remark says that they were left out */
#define PANEL_WIDTH 300
#define PANEL_HEIGHT 150
#define BARS_HEIGHT 90
#define BAR_WIDTH 11
#define MARGIN 18

/* Text within SVG. It is escaped for terminals first, so that no control character is left. */
static void put_text(cli_output *out, const char *text, size_t text_len)
{
    char safe[80];
    const size_t need = coffer_escape(text, text_len, safe, sizeof safe);
    cli_put_markup(out, safe);
    cli_put_text(out, need >= sizeof safe ? "..." : "");
}

static void put_bars(cli_output *out, const stats_histogram *histogram)
{
    char line[160];
    const uint64_t tallest = stats_tallest(histogram);
    for (size_t i = 0; i < STATS_BINS && tallest > 0; i++) {
        const double height = BARS_HEIGHT * ((double)histogram->bins[i] / (double)tallest);
        snprintf(line, sizeof line, "<rect x=\"%zu\" y=\"%.2f\" width=\"%d\" height=\"%.2f\"/>\n", i * BAR_WIDTH,
                 MARGIN + BARS_HEIGHT - height, BAR_WIDTH - 1, height);
        cli_put_text(out, line);
    }
}

static void put_panel(cli_output *out, const stats_row *stats, size_t number)
{
    char line[240];
    const coffer_statistics *numbers = &stats->numbers;
    snprintf(line, sizeof line, "<g transform=\"translate(%zu %zu)\">\n<text y=\"8\">",
             number % PANELS_IN_A_ROW * PANEL_WIDTH + MARGIN, number / PANELS_IN_A_ROW * PANEL_HEIGHT + MARGIN);
    cli_put_text(out, line);
    if (stats->label != NULL) {
        put_text(out, stats->label, stats->label_len);
    } else {
        cli_put_text(out, "(all)");
    }
    cli_put_text(out, "</text>\n");
    put_bars(out, &stats->histogram);
    if (numbers->finite > 0) {
        snprintf(
            line, sizeof line, "<text y=\"%d\">%.4g</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.4g</text>\n",
            MARGIN + BARS_HEIGHT + 12, numbers->min, STATS_BINS * BAR_WIDTH, MARGIN + BARS_HEIGHT + 12, numbers->max);
        cli_put_text(out, line);
    }
    cli_put_text(out, "</g>\n");
}

static void draw(cli_output *out, const stats_report *report, size_t panels)
{
    char line[240];
    const size_t rows = (panels + PANELS_IN_A_ROW - 1) / PANELS_IN_A_ROW;
    snprintf(line, sizeof line,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" font-family=\"sans-serif\" "
             "font-size=\"10\" fill=\"#357\">\n",
             PANELS_IN_A_ROW * PANEL_WIDTH + 2 * MARGIN, rows * PANEL_HEIGHT + 2 * MARGIN);
    cli_put_text(out, line);
    cli_put_text(out, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    put_panel(out, &report->all, 0);
    for (size_t i = 1; i < panels; i++) {
        put_panel(out, &report->rows[i - 1], i);
    }
    cli_put_text(out, "</svg>\n");
}

int stats_plot(cli *app, const stats_report *report, const char *path)
{
    cli_publish file;
    const size_t panels = report->row_count < PANELS_MAX ? report->row_count + 1 : PANELS_MAX;
    const int code = cli_publish_open(app, &file, path);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    draw(file.out, report, panels);
    if (panels <= report->row_count) {
        cli_remark_path(app, path, "cut: the first %zu of %zu rows are drawn", panels - 1, report->row_count);
    }
    return cli_publish_close(app, &file, CLI_EXIT_OK);
}
