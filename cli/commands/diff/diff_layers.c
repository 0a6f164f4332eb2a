/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences, layer by layer. A layer is what names have in common up to their first number; names without one are
 * grouped by all but their last part. Norms are of floating-point tensors: an index or a mask among the weights would drown
 * them. What has no counterpart, or one of another shape, cannot be part of a norm and is counted.
 */
#include "cli_columns.h"
#include "cli_names.h"
#include "cli_report.h"
#include "cli_text.h"
#include "diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor, or a pair of them, on its way to a row. */
typedef struct member {
    const coffer_tensor *tensor; /* of A, if A has it */
    const diff_pair *pair;       /* NULL for a tensor that one file has alone */
    bool only_b;
    size_t layer_len; /* of the beginning of its name */
} member;

typedef struct layer {
    const char *name; /* NULL for the row of all */
    size_t name_len;
    uint64_t tensors;
    uint64_t numbers; /* that were compared */
    uint64_t only_a;
    uint64_t only_b;
    uint64_t other_shape; /* pairs that cannot be compared */
    uint64_t other_dtype;
    coffer_comparison apart;
} layer;

typedef struct layers {
    member *members;
    size_t member_count;
    layer *rows;
    size_t row_count;
    layer all;
} layers;

/* ---- Making the rows ---- */

static int compare_members(const void *left, const void *right)
{
    const member *a = left;
    const member *b = right;
    return cli_compare_names(a->tensor->name, a->layer_len, b->tensor->name, b->layer_len);
}

static void add_member(layers *made, const coffer_tensor *tensor, const diff_pair *pair, bool only_b)
{
    made->members[made->member_count++] =
        (member){ tensor, pair, only_b, cli_layer_end(tensor->name, tensor->name_len) };
}

static void add_apart(layer *row, const diff_pair *pair)
{
    coffer_comparison apart = pair->apart;
    const coffer_kind kind_a = coffer_dtype_kind(pair->a->dtype);
    const coffer_kind kind_b = coffer_dtype_kind(pair->b->dtype);
    const bool has_norm = (kind_a == COFFER_KIND_FLOAT || kind_a == COFFER_KIND_COMPLEX) &&
                          (kind_b == COFFER_KIND_FLOAT || kind_b == COFFER_KIND_COMPLEX);
    if (!has_norm) {
        apart.squares_a = apart.squares_b = apart.squares_apart = apart.products = 0;
    }
    row->numbers += diff_numbers_of(pair);
    coffer_comparison_merge(&row->apart, &apart);
}

static void count_member(layer *row, const member *of)
{
    row->tensors++;
    if (of->pair == NULL) {
        row->only_a += !of->only_b;
        row->only_b += of->only_b;
    } else if (!of->pair->comparable) {
        row->other_shape++;
    } else {
        row->other_dtype += !of->pair->alike;
        add_apart(row, of->pair);
    }
}

static void fill_rows(layers *made)
{
    for (size_t i = 0; i < made->member_count; i++) {
        const member *of = &made->members[i];
        if (i == 0 || compare_members(of - 1, of) != 0) {
            made->rows[made->row_count++] = (layer){ .name = of->tensor->name, .name_len = of->layer_len };
        }
        count_member(&made->rows[made->row_count - 1], of);
        count_member(&made->all, of);
    }
}

static bool make_layers(const diff *d, layers *made)
{
    const size_t count = d->pair_count + d->only_a_count + d->only_b_count;
    *made = (layers){ .members = calloc(count + 1, sizeof(member)), .rows = calloc(count + 1, sizeof(layer)) };
    if (made->members == NULL || made->rows == NULL) {
        return false;
    }
    for (size_t i = 0; i < d->pair_count; i++) {
        add_member(made, d->pairs[i].a, &d->pairs[i], false);
    }
    for (size_t i = 0; i < d->only_a_count; i++) {
        add_member(made, d->only_a[i], NULL, false);
    }
    for (size_t i = 0; i < d->only_b_count; i++) {
        add_member(made, d->only_b[i], NULL, true);
    }
    qsort(made->members, made->member_count, sizeof *made->members, compare_members);
    fill_rows(made);
    return true;
}

/* ---- Judging them ---- */

/* What a threshold forgives is distance alone. A relative norm that is NaN is beyond what can be told. */
static bool is_beyond(const diff *d, const layer *row)
{
    const double norm = coffer_comparison_relative_norm(&row->apart);
    return row->only_a + row->only_b + row->other_shape + row->apart.nan + row->apart.infinite > 0 ||
           !(norm <= d->threshold);
}

static size_t count_differences(const diff *d, const layers *made)
{
    size_t count = 0;
    if (d->has_threshold) {
        for (size_t i = 0; i < made->row_count; i++) {
            count += is_beyond(d, &made->rows[i]);
        }
        return count;
    }
    for (size_t i = 0; i < d->pair_count; i++) {
        count += diff_pair_differs(d, &d->pairs[i]);
    }
    return count + d->only_a_count + d->only_b_count;
}

/* ---- Showing them ---- */

typedef enum column {
    TENSORS = 0,
    NUMBERS,
    CHANGED,
    NORM,
    COSINE,
    NOT_FINITE,
    ONLY_A,
    ONLY_B,
    OTHER_SHAPE,
    OTHER_DTYPE,
    COLUMNS
} column;

static const char *const HEADINGS[COLUMNS] = { "tensors",    "numbers",   "changed",   "relative norm", "cosine",
                                               "not finite", "only in A", "only in B", "other shape",   "other dtype" };

/* What is 0 in all rows, or was not looked at, gets no column. */
static bool is_shown(const diff *d, const layer *all, column which)
{
    switch (which) {
    case CHANGED:
    case NORM:
    case COSINE:
        return !d->header;
    case NOT_FINITE:
        return all->apart.not_finite > 0;
    case ONLY_A:
        return all->only_a > 0;
    case ONLY_B:
        return all->only_b > 0;
    case OTHER_SHAPE:
        return all->other_shape > 0;
    case OTHER_DTYPE:
        return all->other_dtype > 0;
    default:
        return true;
    }
}

static double changed_share(const layer *row)
{
    return row->numbers > 0 ? (double)row->apart.differing / (double)row->numbers : 0;
}

static void double_text(char text[CLI_NUMBER_SIZE], const char *format, double value)
{
    if (isnan(value)) {
        memcpy(text, "-", sizeof "-");
    } else {
        snprintf(text, CLI_NUMBER_SIZE, format, value);
    }
}

/* A share that is neither 0 nor 1 is never rounded to one of them. */
static void share_text(char text[CLI_NUMBER_SIZE], double share)
{
    const double percent = share * 100;
    if (share > 0 && percent < 0.01) {
        snprintf(text, CLI_NUMBER_SIZE, "< 0.01%%");
    } else if (share < 1 && percent > 99.99) {
        snprintf(text, CLI_NUMBER_SIZE, "> 99.99%%");
    } else {
        snprintf(text, CLI_NUMBER_SIZE, share == 0 || share == 1 ? "%.0f%%" : "%.2f%%", percent);
    }
}

static void cell_text(char text[CLI_NUMBER_SIZE], const layer *row, column which)
{
    const uint64_t counts[COLUMNS] = {
        [TENSORS] = row->tensors,         [NUMBERS] = row->numbers, [NOT_FINITE] = row->apart.not_finite,
        [ONLY_A] = row->only_a,           [ONLY_B] = row->only_b,   [OTHER_SHAPE] = row->other_shape,
        [OTHER_DTYPE] = row->other_dtype,
    };
    switch (which) {
    case CHANGED:
        share_text(text, changed_share(row));
        break;
    case NORM:
        double_text(text, "%.4g", coffer_comparison_relative_norm(&row->apart));
        break;
    case COSINE:
        double_text(text, "%.6f", coffer_comparison_cosine(&row->apart));
        break;
    default:
        cli_number_text(text, counts[which], true);
        break;
    }
}

/* A row is NULL for the headings. */
static void put_row(cli_columns *columns, const diff *d, const layers *made, const layer *row)
{
    char text[CLI_NUMBER_SIZE];
    if (row == NULL || row->name == NULL) {
        cli_columns_text(columns, row == NULL ? "layer" : "(all)");
    } else {
        cli_columns_cell(columns, row->name, row->name_len);
    }
    for (column which = TENSORS; which < COLUMNS; which++) {
        if (is_shown(d, &made->all, which)) {
            if (row != NULL) {
                cell_text(text, row, which);
            }
            cli_columns_text(columns, row == NULL ? HEADINGS[which] : text);
        }
    }
}

static void put_rows(cli_columns *columns, const diff *d, const layers *made)
{
    put_row(columns, d, made, NULL);
    for (size_t i = 0; i < made->row_count; i++) {
        put_row(columns, d, made, &made->rows[i]);
    }
    if (made->row_count != 1) {
        put_row(columns, d, made, &made->all);
    }
}

static void show_text(const diff *d, const layers *made)
{
    cli_columns columns = { .out = &d->app->out, .count = 1, .measuring = true };
    for (column which = TENSORS; which < COLUMNS; which++) {
        if (is_shown(d, &made->all, which)) {
            columns.right[columns.count++] = true;
        }
    }
    put_rows(&columns, d, made);
    cli_columns_fit(&columns);
    put_rows(&columns, d, made);
}

static void json_row(cli_output *out, const diff *d, const layer *row)
{
    cli_json_open(out, '{', false);
    if (row->name != NULL) {
        cli_json_key(out, "layer");
        cli_json_string_n(out, row->name, row->name_len);
    }
    cli_json_put_number(out, "tensors", row->tensors);
    cli_json_put_number(out, "numbers", row->numbers);
    cli_json_put_number(out, "only_in_a", row->only_a);
    cli_json_put_number(out, "only_in_b", row->only_b);
    cli_json_put_number(out, "other_shape", row->other_shape);
    cli_json_put_number(out, "other_dtype", row->other_dtype);
    if (!d->header) {
        cli_json_put_number(out, "differing", row->apart.differing);
        cli_json_put_number(out, "nan", row->apart.nan);
        cli_json_put_number(out, "infinite", row->apart.infinite);
        cli_json_put_number(out, "not_finite", row->apart.not_finite);
        diff_json_double(out, "changed", changed_share(row));
        diff_json_double(out, "relative_norm", coffer_comparison_relative_norm(&row->apart));
        diff_json_double(out, "cosine", coffer_comparison_cosine(&row->apart));
    }
    cli_json_close(out, '}');
}

static void show_json(const diff *d, const layers *made)
{
    cli_output *out = &d->app->out;
    cli_json_key(out, "layers");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < made->row_count; i++) {
        json_row(out, d, &made->rows[i]);
    }
    cli_json_close(out, ']');
    cli_json_key(out, "all");
    json_row(out, d, &made->all);
}

bool diff_show_layers(const diff *d, size_t *count)
{
    layers made;
    const bool ok = make_layers(d, &made);
    if (!ok) {
        cli_fail_memory(d->app, d->path_a);
    } else {
        *count = count_differences(d, &made);
        if (d->app->json) {
            show_json(d, &made);
        } else {
            show_text(d, &made);
        }
    }
    free(made.members);
    free(made.rows);
    return ok;
}
