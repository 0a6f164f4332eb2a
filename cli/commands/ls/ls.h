/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of coffer ls: which tensors it lists, in which order, and the three ways to show them. */
#ifndef COFFER_LS_H
#define COFFER_LS_H

#include "cli_command.h"
#include "cli_filter.h"
#include "coffer.h"

/* The tensors that are listed. */
typedef struct ls_selection {
    const coffer *model;
    const char *path;
    uint32_t *order;  /* their indices, for coffer_at */
    size_t count;     /* of those */
    bool of_many;     /* one of several paths */
    bool continued;   /* and not the first of them */
    bool all_columns; /* --long */
    size_t total;     /* that match; more than `count` where --limit cut */
    size_t shard;     /* the file that a map is of; all that are listed are in it */
} ls_selection;

/* Takes the tensors that are whole and that --filter lets through, in the order of --sort, up to
   --limit. False without memory; release by free(selection->order). */
bool ls_select(ls_selection *selection, const cli_arguments *arguments, const cli_filter *filter, size_t limit);

/* A line for each tensor, or JSON or TSV. */
void ls_show_rows(cli *app, const ls_selection *selection);
/* --tree. Returns the exit code. */
int ls_show_tree(cli *app, const ls_selection *selection, size_t limit);
/* --map. Returns the exit code. */
int ls_show_map(cli *app, const ls_selection *selection);

/* "[50, 8]"; cut to what fits. Returns the length. */
#define LS_SHAPE_SIZE 128
size_t ls_shape_text(char text[LS_SHAPE_SIZE], const coffer_tensor *tensor);
/* Says on standard error that lines were left out. */
void ls_remark_cut(cli *app, size_t shown, size_t total, const char *what);

#endif
