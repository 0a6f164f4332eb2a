/* SPDX-License-Identifier: Apache-2.0 */
/* Tables on the screen: see cli_columns.h for the contract. */
#include "cli_columns.h"

#include "cli_text.h"

#include <string.h>

#define GAP 2        /* columns between cells */
#define FIRST_MIN 24 /* of a first column that is cut; with less the rows fold */
#define FOLD_INDENT 4

static void measure(cli_columns *columns, size_t i, size_t width)
{
    const bool capped = columns->out->width == 0 && width > CLI_COLUMN_WIDTH_MAX;
    const size_t most = capped ? CLI_COLUMN_WIDTH_MAX : width;
    columns->widths[i] = columns->widths[i] > most ? columns->widths[i] : most;
}

static void put_text(cli_output *out, cli_style style, const char *text, size_t text_len, size_t width)
{
    const bool styled = style != CLI_PLAIN && text_len > 0;
    if (styled) {
        cli_put_style(out, style);
    }
    if (width > 0) {
        cli_put_cut(out, text, text_len, width);
    } else {
        cli_put_escaped(out, text, text_len, 0);
    }
    if (styled) {
        cli_put_style(out, CLI_PLAIN);
    }
}

static void put_cell(cli_columns *columns, const char *text, size_t text_len, size_t width)
{
    const size_t i = columns->next;
    const bool cut = i == 0 && columns->out->width > 0 && width > columns->widths[0];
    const size_t taken = cut ? columns->widths[0] : width;
    const size_t padding = taken < columns->widths[i] ? columns->widths[i] - taken : 0;
    if (columns->right[i]) {
        cli_put_repeat(columns->out, ' ', padding);
    }
    put_text(columns->out, columns->styles[i], text, text_len, cut ? columns->widths[0] : 0);
    const bool ends_line = i + 1 == columns->count || (columns->folded && i == 0);
    if (!columns->right[i] && !ends_line) {
        cli_put_repeat(columns->out, ' ', padding);
    }
}

/* Between two cells: a gap or, where rows fold, a new line after the first cell and where the next one has no space. */
static void put_gap(cli_columns *columns, size_t width)
{
    const bool breaks = columns->folded && (columns->next == 1 || columns->column + GAP + width > columns->out->width);
    if (breaks) {
        cli_put_char(columns->out, '\n');
    }
    cli_put_repeat(columns->out, ' ', breaks ? FOLD_INDENT : GAP);
    columns->column = (breaks ? FOLD_INDENT : columns->column + GAP) + width;
}

/* What a line begins with. */
static void put_indent(cli_columns *columns)
{
    size_t used = 0;
    if (columns->label != NULL) {
        cli_put_repeat(columns->out, ' ', GAP);
        cli_put_styled(columns->out, CLI_DIM, columns->label);
        used = GAP + strlen(columns->label);
        columns->label = NULL;
    }
    cli_put_repeat(columns->out, ' ', used < columns->indent ? columns->indent - used : 0);
}

void cli_columns_cell(cli_columns *columns, const char *text, size_t text_len)
{
    const size_t width = cli_escaped_width(text, text_len);
    const bool last = columns->next + 1 == columns->count;
    if (columns->measuring) {
        measure(columns, columns->next, width);
    } else {
        if (columns->next == 0) {
            put_indent(columns);
        } else if (!last || width > 0) { /* no line ends in spaces */
            put_gap(columns, width);
        }
        put_cell(columns, text, text_len, width);
        if (last) {
            cli_put_char(columns->out, '\n');
        }
    }
    columns->next = last ? 0 : columns->next + 1;
}

void cli_columns_text(cli_columns *columns, const char *text)
{
    cli_columns_cell(columns, text, strlen(text));
}

void cli_columns_fit(cli_columns *columns)
{
    const size_t width = columns->out->width;
    size_t rest = columns->indent;
    for (size_t i = 1; i < columns->count; i++) {
        rest += columns->widths[i] + GAP;
    }
    columns->measuring = false;
    if (width == 0 || rest + columns->widths[0] <= width) {
        return;
    }
    columns->folded = rest + FIRST_MIN > width;
    columns->widths[0] = columns->folded ? width - (columns->indent < width ? columns->indent : 0) : width - rest;
    if (columns->folded) {
        /* Cells of folded rows follow each other: there is no space for columns. */
        memset(columns->widths + 1, 0, (CLI_COLUMNS_MAX - 1) * sizeof columns->widths[0]);
        columns->right[0] = false;
    }
}
