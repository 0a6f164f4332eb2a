/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of coffer rename: rules from tables of names, and the whole. */
#ifndef COFFER_RENAME_H
#define COFFER_RENAME_H

#include "cli_command.h"
#include "cli_inputs.h"
#include "coffer.h"

/* A line of a table: two names, which lie in the table's bytes. */
typedef struct rename_row {
    const char *old;
    const char *new;
    size_t line; /* from 1 on */
} rename_row;

/* A file of lines OLD<TAB>NEW. Begins as zeros. */
typedef struct rename_table {
    const char *path; /* borrowed */
    cli_input input;
    rename_row *rows; /* in the order of the lines */
    size_t count;
} rename_table;

/* Reads a table. Reports what is wrong, with the line. Returns the exit code; rename_table_free follows in any case. */
int rename_table_read(cli *app, const char *path, rename_table *table);
void rename_table_free(rename_table *table);
/* Tells which rows name no tensor of the model: as an error, or in a remark when that is ignored. Returns the exit
   code. */
int rename_table_match(cli *app, const rename_table *table, const coffer *model, bool ignored);

#endif
