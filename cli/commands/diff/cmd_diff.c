/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer diff A B: what two files have in common and what not. Tensors are matched by name; those
 * of one shape are compared byte by byte, and where bytes differ their numbers are, so that the
 * answer says by how much.
 */
#include "cli_files.h"
#include "cli_options.h"
#include "cli_report.h"
#include "diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Matching ---- */

bool diff_same_shape(const coffer_tensor *a, const coffer_tensor *b)
{
    return a->rank == b->rank && (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

static void add_pair(diff *d, const coffer_tensor *a, const coffer_tensor *b)
{
    diff_pair *pair = &d->pairs[d->pair_count++];
    const bool complex_a = coffer_dtype_kind(a->dtype) == COFFER_KIND_COMPLEX;
    const bool complex_b = coffer_dtype_kind(b->dtype) == COFFER_KIND_COMPLEX;
    *pair = (diff_pair){ .a = a, .b = b };
    pair->comparable = diff_same_shape(a, b) && complex_a == complex_b;
    pair->alike = pair->comparable && a->dtype == b->dtype;
}

/* A name of the same tensor is a key of the metadata where a file of another program was converted, and a tensor where such a
   file is read. */
const coffer_tensor *diff_tied(const coffer *model, const coffer_tensor *tensor, const coffer *other)
{
    coffer_stored_tensor stored;
    size_t len = 0;
    if (!coffer_stored_tensor_of(model, tensor, &stored) || stored.tied_len == 0) {
        return NULL;
    }
    const char *name = coffer_table_metadata_get(coffer_shard_table(other, 0), tensor->name, tensor->name_len, &len);
    return name != NULL && len == stored.tied_len && memcmp(name, stored.tied, len) == 0 ? coffer_find(other, name, len)
                                                                                         : NULL;
}

static int match(diff *d)
{
    d->pairs = calloc(coffer_count(d->a) + coffer_count(d->b) + 1, sizeof *d->pairs);
    d->only_a = malloc((coffer_count(d->a) + 1) * sizeof(const coffer_tensor *));
    d->only_b = malloc((coffer_count(d->b) + 1) * sizeof(const coffer_tensor *));
    if (d->pairs == NULL || d->only_a == NULL || d->only_b == NULL) {
        return cli_fail_memory(d->app, d->path_a);
    }
    for (size_t i = 0; i < coffer_count(d->a); i++) {
        const coffer_tensor *a = coffer_at(d->a, i);
        const coffer_tensor *same = coffer_find(d->b, a->name, a->name_len);
        const coffer_tensor *b = same != NULL ? same : diff_tied(d->a, a, d->b);
        if (!cli_filter_takes(&d->filter, a)) {
            continue;
        }
        if (b != NULL) {
            add_pair(d, a, b);
        } else {
            d->only_a[d->only_a_count++] = a;
        }
    }
    for (size_t i = 0; i < coffer_count(d->b); i++) {
        const coffer_tensor *b = coffer_at(d->b, i);
        if (!cli_filter_takes(&d->filter, b) || coffer_find(d->a, b->name, b->name_len) != NULL) {
            continue;
        }
        const coffer_tensor *a = diff_tied(d->b, b, d->a);
        if (a != NULL) {
            add_pair(d, a, b);
        } else {
            d->only_b[d->only_b_count++] = b;
        }
    }
    return CLI_EXIT_OK;
}

/* No tolerance covers NaN or an infinite distance. */
static bool is_tolerable(const diff *d, const coffer_comparison *apart)
{
    return d->tolerant && apart->nan == 0 && apart->infinite == 0 && apart->max <= d->tolerance;
}

bool diff_pair_differs(const diff *d, const diff_pair *pair)
{
    return !pair->alike || (pair->apart.differing_bytes > 0 && !is_tolerable(d, &pair->apart));
}

uint64_t diff_numbers_of(const diff_pair *pair)
{
    const bool complex = coffer_dtype_kind(pair->a->dtype) == COFFER_KIND_COMPLEX;
    return coffer_tensor_elements(pair->a) * (complex ? 2 : 1);
}

/* ---- The whole ---- */

/* With a filter the question is about tensors, and with a threshold about distances. */
static size_t show_metadata(const diff *d)
{
    if (d->filter.count > 0) {
        return 0;
    }
    const size_t count = diff_show_metadata(d);
    return d->has_threshold ? 0 : count;
}

static int show(const diff *d, size_t *count)
{
    cli_output *out = &d->app->out;
    size_t differences = 0;
    if (d->app->json) {
        cli_json_open(out, '{', true);
        cli_json_put_string(out, "a", d->path_a);
        cli_json_put_string(out, "b", d->path_b);
        cli_json_key(out, "metadata");
        cli_json_open(out, '[', false);
    }
    *count = show_metadata(d);
    if (d->app->json) {
        cli_json_close(out, ']');
    }
    if (!d->summary) {
        differences = diff_show_tensors(d);
    } else if (!diff_show_layers(d, &differences)) {
        return CLI_EXIT_UNREADABLE;
    }
    *count += differences;
    if (d->app->json) {
        cli_json_put_bool(out, d->has_threshold ? "within_threshold" : "equal", *count == 0);
        cli_json_close(out, '}');
    }
    return CLI_EXIT_OK;
}

static void tell_no_difference(const diff *d)
{
    const char *plural = d->pair_count == 1 ? "" : "s";
    if (d->has_threshold) {
        cli_remark(d->app, "%zu tensor%s within the threshold", d->pair_count, plural);
    } else if (d->header) {
        cli_remark(d->app, "no difference in the headers of %zu tensor%s; no data were read", d->pair_count, plural);
    } else {
        cli_remark(d->app, "no difference in %zu tensor%s%s", d->pair_count, plural,
                   d->filter.count > 0 ? "" : " and the metadata");
    }
}

/* What compares nothing must not pass for a comparison without differences. */
static int fail_no_match(const diff *d)
{
    cli_say(d->app, "no tensor of either file matches \"%s\"", d->filter.patterns[d->filter.count - 1]);
    return CLI_EXIT_UNREADABLE;
}

static int compare(diff *d)
{
    const int says = diff_record_says(d->a, d->b);
    size_t count = 0;
    int code = match(d);
    if (code == CLI_EXIT_OK && d->filter.count > 0 && d->pair_count + d->only_a_count + d->only_b_count == 0) {
        return fail_no_match(d);
    }
    if (code == CLI_EXIT_OK) {
        diff_tell_record(d, says);
        code = d->header ? CLI_EXIT_OK : diff_compare_data(d);
    }
    if (code == CLI_EXIT_OK) {
        diff_judge_record(d, says);
        code = show(d, &count);
    }
    if (code == CLI_EXIT_OK && count == 0) {
        tell_no_difference(d);
    }
    return code != CLI_EXIT_OK ? code : count == 0 ? CLI_EXIT_OK : CLI_EXIT_NOT_CONFORMING;
}

/* A number from 0 on. */
static bool read_distance(const char *text, double *distance)
{
    char *end = NULL;
    *distance = strtod(text, &end);
    return end != text && *end == '\0' && *distance >= 0;
}

/* Returns an exit code, after a message where the options make no sense. */
static int read_options(diff *d)
{
    const char *tolerance = cli_value(d->arguments, CLI_OPTION_TOLERANCE);
    const char *threshold = cli_value(d->arguments, CLI_OPTION_THRESHOLD);
    d->header = cli_given(d->arguments, CLI_OPTION_HEADER);
    d->summary = cli_given(d->arguments, CLI_OPTION_SUMMARY);
    d->tolerant = tolerance != NULL;
    d->has_threshold = threshold != NULL;
    if (d->tolerant && !read_distance(tolerance, &d->tolerance)) {
        return cli_usage_error(d->app, "--tolerance needs a number of at least 0: 0.001, 1e-6");
    }
    if (d->has_threshold && !read_distance(threshold, &d->threshold)) {
        return cli_usage_error(d->app, "--threshold needs a number of at least 0: 0.01, 1e-3");
    }
    if (d->has_threshold && !d->summary) {
        return cli_usage_error(d->app, "--threshold is for the norms of --summary");
    }
    if (d->has_threshold && d->tolerant) {
        return cli_usage_error(d->app, "--threshold and --tolerance exclude each other");
    }
    if (d->header && (d->tolerant || d->has_threshold)) {
        return cli_usage_error(d->app, "with --header no numbers are compared, so there is no --%s",
                               d->tolerant ? "tolerance" : "threshold");
    }
    if (strcmp(d->path_a, "-") == 0 && strcmp(d->path_b, "-") == 0) {
        return cli_usage_error(d->app, "only one of the two files can be standard input");
    }
    return CLI_EXIT_OK;
}

static int run_diff(cli *app, const cli_arguments *arguments)
{
    diff d = { .app = app, .arguments = arguments, .path_a = arguments->names[0], .path_b = arguments->names[1] };
    int code = read_options(&d);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (!cli_filter_init(&d.filter, app, arguments, SIZE_MAX)) {
        cli_filter_free(&d.filter);
        return CLI_EXIT_UNREADABLE;
    }
    d.a = cli_open(app, d.path_a, false, &code);
    d.b = d.a != NULL ? cli_open(app, d.path_b, false, &code) : NULL;
    if (d.b != NULL) {
        code = compare(&d);
    } else {
        /* Exit code 1 says that two files differ, so one that is none is a failure like any other. */
        code = CLI_EXIT_UNREADABLE;
    }
    cli_filter_free(&d.filter);
    free(d.only_b);
    free(d.only_a);
    free(d.pairs);
    coffer_close(d.b);
    coffer_close(d.a);
    return code;
}

static const cli_option DIFF_OPTIONS[] = {
    { CLI_OPTION_HEADER, 0, "header", NULL, "compare dtypes, shapes and metadata only; read no data", NULL },
    { CLI_OPTION_SUMMARY, 0, "summary", NULL, "a line for each layer: norms, cosine, how much changed", NULL },
    CLI_OPTION_ROW_FILTER("only names that match, and no metadata; !GLOB leaves out; repeatable"),
    { CLI_OPTION_TOLERANCE, 0, "tolerance", "TOLERANCE", "numbers that differ by at most that much are equal", NULL },
    { CLI_OPTION_THRESHOLD, 0, "threshold", "NORM", "succeed while no layer's relative norm is larger", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example DIFF_EXAMPLES[] = {
    { "coffer diff before.safetensors after.safetensors", "what did training change?" },
    { "coffer diff model.safetensors half.safetensors --tolerance 0.01", "what did rounding change?" },
    { "coffer diff base/ tuned/ --summary", "which layers did training change, and how far?" },
    { "coffer diff --header hf://owner/base hf://owner/tuned", "are these of one architecture?" },
    { NULL, NULL },
};

const cli_command cli_diff = {
    .name = "diff",
    .run = run_diff,
    .summary = "compare two files: names, dtypes, shapes, numbers, metadata",
    .usage = "A B",
    .about = "Compares two files, regardless of the order of their tensors: tensors that only one of them has,\n"
             "different dtypes and shapes, how many numbers differ and by how much, and different metadata. With a\n"
             "tolerance only numbers that are further apart count, but dtypes and shapes always do. Exit code: 0\n"
             "they are equal, 1 they differ, 2 wrong usage, 3 one of them cannot be read or is invalid.\n"
             "\n"
             "Digests that both files record are a hint: the command says first whether they agree, and compares\n"
             "every byte all the same. They do not count as metadata.\n"
             "\n"
             "With --summary there is a line for each layer, which is what names have in common up to their first\n"
             "number: how many numbers changed, the norm of the change relative to A's, the cosine between A and\n"
             "B, and what has no counterpart. Norms are of the floating-point tensors' finite numbers. With\n"
             "--threshold a difference of dtypes, metadata or distance up to it is no failure; NaN, infinities and\n"
             "tensors without counterpart are.\n"
             "\n"
             "JSON: a, b, metadata [KEY that differs], only_in_a [NAME], only_in_b, tensors that differ [{name, a\n"
             "{dtype, shape}, b, differing, nan, infinite, max, mean}] (the last five when their shapes are the\n"
             "same; max and mean are of the numbers that are neither NaN in one file only nor infinitely far\n"
             "apart; not with --header), equal. With --summary instead of only_in_a, only_in_b and tensors: layers\n"
             "[{layer, tensors, numbers, only_in_a, only_in_b, other_shape, other_dtype, differing, nan, infinite,\n"
             "not_finite, changed, relative_norm, cosine}] and the same of all; with --threshold within_threshold\n"
             "instead of equal.\n",
    .options = DIFF_OPTIONS,
    .examples = DIFF_EXAMPLES,
    .least_names = 2,
    .most_names = 2,
};
