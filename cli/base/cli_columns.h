/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables on the screen. The caller goes over its rows twice with the same function: once with
 * `measuring` set, then, after cli_columns_fit, to write. On a terminal that is too narrow the
 * first column is cut in the middle; when that would leave too little of it, each row folds: the
 * first column on a line of its own, the rest indented below it. Where there is no terminal,
 * nothing is cut.
 *
 *     cli_columns columns = { .out = &app->out, .count = 3, .right = { [2] = true } };
 *     columns.measuring = true;   rows(&columns);
 *     cli_columns_fit(&columns);  rows(&columns);
 *
 * where a row is `count` calls of cli_columns_cell.
 */
#ifndef COFFER_CLI_COLUMNS_H
#define COFFER_CLI_COLUMNS_H

#include "cli_output.h"

#define CLI_COLUMNS_MAX 12
#define CLI_COLUMN_WIDTH_MAX 128 /* where nothing is cut, a longer cell pushes its own line only */

typedef struct cli_columns {
    cli_output *out;
    size_t count;
    bool right[CLI_COLUMNS_MAX];       /* numbers stand at the right */
    cli_style styles[CLI_COLUMNS_MAX]; /* of the whole column */
    size_t indent;                     /* of every line */
    const char *label;                 /* what stands in the first line's indent, after two spaces; NULL: nothing */
    bool measuring;
    /* its own */
    bool folded;
    size_t next;
    size_t column; /* of a folded line */
    size_t widths[CLI_COLUMNS_MAX];
} cli_columns;

/* The next cell of the row; after the last one the line ends. `text` is escaped here. */
void cli_columns_cell(cli_columns *columns, const char *text, size_t text_len);
void cli_columns_text(cli_columns *columns, const char *text);
/* Chooses the widths, and ends the measuring. */
void cli_columns_fit(cli_columns *columns);

#endif
