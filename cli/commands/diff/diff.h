/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What coffer diff knows of two models: tensors are matched by name (cmd_diff.c), compared number by number (diff_data.c), and
 * shown one by one (diff_show.c) or layer by layer (diff_layers.c); metadata and recorded digests are compared as text
 * (diff_metadata.c).
 */
#ifndef COFFER_DIFF_H
#define COFFER_DIFF_H

#include "cli_command.h"
#include "cli_filter.h"
#include "coffer.h"

/* Tensors of one name. */
typedef struct diff_pair {
    const coffer_tensor *a;
    const coffer_tensor *b;
    bool alike;      /* of one dtype and shape */
    bool comparable; /* number by number: of one shape, and both or neither complex */
    coffer_comparison apart;
} diff_pair;

typedef struct diff {
    cli *app;
    const cli_arguments *arguments;
    const char *path_a;
    const char *path_b;
    coffer *a;
    coffer *b;
    diff_pair *pairs; /* in the order of A */
    size_t pair_count;
    const coffer_tensor **only_a; /* tensors that the other has not, in the order of their file */
    const coffer_tensor **only_b;
    size_t only_a_count;
    size_t only_b_count;
    double tolerance;
    bool tolerant; /* a tolerance was given */
    double threshold;
    bool has_threshold;
    cli_filter filter;
    bool header;  /* the data are not read */
    bool summary; /* layer by layer */
} diff;

/* The tensor of the other model that one of a file of another program is tied to, where that model's metadata say so; NULL. */
const coffer_tensor *diff_tied(const coffer *model, const coffer_tensor *tensor, const coffer *other);
bool diff_same_shape(const coffer_tensor *a, const coffer_tensor *b);
/* Whether a pair counts as different: by its dtypes and shapes, or by its numbers with regard to the tolerance. */
bool diff_pair_differs(const diff *d, const diff_pair *pair);
/* Numbers of a pair that can be compared: a complex one counts as two. */
uint64_t diff_numbers_of(const diff_pair *pair);

/* Reads and compares the numbers of all pairs; returns an exit code, CLI_EXIT_OK even if they differ. */
int diff_compare_data(diff *d);

/* Shows every key that differs, as a line each or as strings of an array. Returns how many. */
size_t diff_show_metadata(const diff *d);
/* What the digests that both files record of their tensors say, unverified: 1 that the tensors are the same, -1 that they are
   not, 0 nothing. */
int diff_record_says(const coffer *first, const coffer *second);
/* Tells what the record says before everything is read, and after it whether it is wrong. */
void diff_tell_record(const diff *d, int says);
void diff_judge_record(const diff *d, int says);

/* Shows the tensors that differ; returns how many. */
size_t diff_show_tensors(const diff *d);
/* Shows all layers, and says how many tensors differ, or with a threshold how many layers are beyond it; false without memory,
   which is reported. */
bool diff_show_layers(const diff *d, size_t *count);
/* A member of a JSON object; what is not finite is a string, and NaN is null. */
void diff_json_double(cli_output *out, const char *key, double value);

#endif
