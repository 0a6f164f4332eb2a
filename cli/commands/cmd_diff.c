/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer diff A B: what two files have in common and what not. Tensors are matched by name; those
 * of one dtype and shape are compared byte by byte, and where bytes differ their numbers are, so
 * that the answer says by how much.
 */
#include "cli_files.h"
#include "cli_json.h"
#include "cli_options.h"
#include "cli_parallel.h"
#include "cli_pieces.h"
#include "cli_progress.h"
#include "cli_recorded.h"
#include "cli_report.h"
#include "cli_text.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How far the numbers of two tensors, or of a piece of them, are apart. */
typedef struct distance {
    bool bytes_differ;
    uint64_t differing; /* numbers that are not equal; two NaN are */
    uint64_t nan;       /* of them, those that are NaN in one file only */
    uint64_t infinite;  /* of them, those that are infinitely far apart */
    double most;        /* of the others */
    double sum;
} distance;

typedef struct diff_pair {
    const coffer_tensor *a;
    const coffer_tensor *b;
    bool alike;      /* of one dtype and shape */
    bool comparable; /* number by number: of one shape, and both or neither complex */
    distance apart;
} diff_pair;

typedef struct diff {
    cli *app;
    const char *path_a;
    const char *path_b;
    coffer *a;
    coffer *b;
    diff_pair *pairs; /* tensors of one name, in the order of A */
    size_t pair_count;
    double tolerance;
    bool tolerant; /* a tolerance was given */
} diff;

/* ---- Comparing numbers ---- */

typedef struct diff_piece_result {
    distance apart;
    bool failed;
    bool of_b; /* which file could not be read */
    coffer_error err;
} diff_piece_result;

typedef struct diff_run {
    diff *d;
    cli_progress progress;
    const cli_piece *pieces;
    diff_piece_result *results;
    atomic_bool failed;
    int code;
} diff_run;

/* Two numbers that are not equal: NaN and infinities have no distance that could be summed up. */
static void add_distance(distance *result, double a, double b)
{
    const double difference = fabs(a - b);
    result->differing++;
    if (isnan(a) || isnan(b)) {
        result->nan++;
    } else if (isinf(difference)) {
        result->infinite++;
    } else {
        result->most = difference > result->most ? difference : result->most;
        result->sum += difference;
    }
}

/* A block at a time, decoded on the stack. A complex number is two doubles. NaN equals NaN here: what
   both files lack is no difference. */
static void compare_numbers(const diff_pair *pair, size_t count, const void *a, const void *b, distance *result)
{
    double left[2 * CLI_BLOCK_ELEMENTS];
    double right[2 * CLI_BLOCK_ELEMENTS];
    const size_t parts = coffer_dtype_kind(pair->a->dtype) == COFFER_KIND_COMPLEX ? 2 : 1;
    for (size_t done = 0; done < count; done += CLI_BLOCK_ELEMENTS) {
        const size_t block = count - done < CLI_BLOCK_ELEMENTS ? count - done : CLI_BLOCK_ELEMENTS;
        coffer_decode(pair->a->dtype, a, done, block, left);
        coffer_decode(pair->b->dtype, b, done, block, right);
        for (size_t i = 0; i < block * parts; i++) {
            if (left[i] != right[i] && !(isnan(left[i]) && isnan(right[i]))) {
                add_distance(result, left[i], right[i]);
            }
        }
    }
}

/* Equal bytes of one dtype need no look at their numbers. Numbers of different dtypes are compared in any
   case, as doubles. */
static void compare_piece(const diff_run *run, const cli_piece *piece, diff_piece_result *result)
{
    const diff *d = run->d;
    const diff_pair *pair = &d->pairs[piece->item];
    void *a = cli_read_piece(d->a, pair->a, piece, &result->err);
    void *b = a == NULL ? NULL : cli_read_piece(d->b, pair->b, piece, &result->err);
    result->failed = a == NULL || b == NULL;
    result->of_b = a != NULL;
    if (!result->failed) {
        const size_t size = (size_t)cli_elements_size(pair->a->dtype, piece->count);
        result->apart.bytes_differ = !pair->alike || memcmp(a, b, size) != 0;
        if (result->apart.bytes_differ && pair->comparable) {
            compare_numbers(pair, piece->count, a, b, &result->apart);
        }
    }
    free(b);
    free(a);
}

/* Runs on any thread. */
static void work(void *ctx, size_t job)
{
    diff_run *run = ctx;
    if (!atomic_load(&run->failed)) {
        compare_piece(run, &run->pieces[job], &run->results[job]);
        if (run->results[job].failed) {
            atomic_store(&run->failed, true);
        }
    }
}

/* In order, so that sums are the same every time. */
static void deliver(void *ctx, size_t job)
{
    diff_run *run = ctx;
    const diff_piece_result *result = &run->results[job];
    diff_pair *pair = &run->d->pairs[run->pieces[job].item];
    if (result->failed && run->code == CLI_EXIT_OK) {
        run->code = cli_fail(run->d->app, result->of_b ? run->d->path_b : run->d->path_a, &result->err);
    }
    pair->apart.bytes_differ = pair->apart.bytes_differ || result->apart.bytes_differ;
    pair->apart.differing += result->apart.differing;
    pair->apart.nan += result->apart.nan;
    pair->apart.infinite += result->apart.infinite;
    pair->apart.sum += result->apart.sum;
    pair->apart.most = result->apart.most > pair->apart.most ? result->apart.most : pair->apart.most;
    cli_progress_add(&run->progress, cli_elements_size(pair->a->dtype, run->pieces[job].count));
}

/* Pairs that cannot be compared have no elements here, and so no pieces. */
static int compare_all(diff *d)
{
    size_t count = 0;
    uint64_t total = 0;
    diff_run run = { .d = d };
    uint64_t *elements = calloc(d->pair_count + 1, sizeof *elements);
    for (size_t i = 0; i < d->pair_count && elements != NULL; i++) {
        const diff_pair *pair = &d->pairs[i];
        elements[i] = pair->comparable ? coffer_tensor_elements(pair->a) : 0;
        total += pair->comparable ? pair->a->size : 0;
    }
    cli_piece *pieces = elements != NULL ? cli_cut(elements, d->pair_count, &count) : NULL;
    free(elements);
    run.pieces = pieces;
    run.results = calloc(count + 1, sizeof *run.results);
    if (pieces == NULL || run.results == NULL) {
        run.code = cli_fail_memory(d->app, d->path_a);
    } else {
        const cli_jobs jobs = { work, deliver, &run };
        cli_progress_begin(&run.progress, d->app, "comparing", total);
        cli_parallel(&jobs, count, cli_processors());
        cli_progress_end(&run.progress);
    }
    free(run.results);
    free(pieces);
    return run.code;
}

/* ---- Matching ---- */

static bool same_shape(const coffer_tensor *a, const coffer_tensor *b)
{
    return a->rank == b->rank && (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

static int match(diff *d)
{
    d->pairs = calloc(coffer_count(d->a) + 1, sizeof *d->pairs);
    if (d->pairs == NULL) {
        return cli_fail_memory(d->app, d->path_a);
    }
    for (size_t i = 0; i < coffer_count(d->a); i++) {
        const coffer_tensor *a = coffer_at(d->a, i);
        const coffer_tensor *b = coffer_find(d->b, a->name, a->name_len);
        if (b != NULL) {
            diff_pair *pair = &d->pairs[d->pair_count++];
            const bool complex_a = coffer_dtype_kind(a->dtype) == COFFER_KIND_COMPLEX;
            const bool complex_b = coffer_dtype_kind(b->dtype) == COFFER_KIND_COMPLEX;
            *pair = (diff_pair){ .a = a, .b = b };
            pair->comparable = same_shape(a, b) && complex_a == complex_b;
            pair->alike = pair->comparable && a->dtype == b->dtype;
        }
    }
    return CLI_EXIT_OK;
}

/* No tolerance covers NaN or an infinite distance. */
static bool is_tolerable(const diff *d, const distance *apart)
{
    return d->tolerant && apart->nan == 0 && apart->infinite == 0 && apart->most <= d->tolerance;
}

static bool pair_differs(const diff *d, const diff_pair *pair)
{
    return !pair->alike || (pair->apart.bytes_differ && !is_tolerable(d, &pair->apart));
}

/* ---- Showing ---- */

/* Calls `show` for each tensor of one file that the other has not. Returns how many there are. */
static size_t each_only(const coffer *here, const coffer *there, void (*show)(cli *app, const coffer_tensor *tensor),
                        cli *app)
{
    size_t count = 0;
    for (size_t i = 0; i < coffer_count(here); i++) {
        const coffer_tensor *tensor = coffer_at(here, i);
        if (coffer_find(there, tensor->name, tensor->name_len) == NULL) {
            count++;
            if (show != NULL) {
                show(app, tensor);
            }
        }
    }
    return count;
}

static void put_kind(cli_output *out, const coffer_tensor *tensor)
{
    cli_put_text(out, coffer_tensor_dtype_name(tensor));
    cli_put_text(out, " [");
    for (size_t i = 0; i < tensor->rank; i++) {
        cli_put_text(out, i > 0 ? ", " : "");
        cli_put_number(out, tensor->shape[i]);
    }
    cli_put_char(out, ']');
}

static void put_only(cli_output *out, const char *where, const coffer_tensor *tensor)
{
    cli_put_text(out, where);
    cli_put_escaped(out, tensor->name, tensor->name_len, 0);
    cli_put_text(out, "  ");
    put_kind(out, tensor);
    cli_put_char(out, '\n');
}

static void put_only_in_a(cli *app, const coffer_tensor *tensor)
{
    put_only(&app->out, "only in A: ", tensor);
}

static void put_only_in_b(cli *app, const coffer_tensor *tensor)
{
    put_only(&app->out, "only in B: ", tensor);
}

/* A complex number counts as two. */
static uint64_t numbers_of(const diff_pair *pair)
{
    const bool complex = coffer_dtype_kind(pair->a->dtype) == COFFER_KIND_COMPLEX;
    return coffer_tensor_elements(pair->a) * (complex ? 2 : 1);
}

static double mean_of(const diff_pair *pair)
{
    const uint64_t numbers = numbers_of(pair);
    return numbers > 0 ? pair->apart.sum / (double)numbers : 0;
}

/* ": 3 of them NaN in only one file"; then what is left to say begins with a comma. */
static void put_part(cli_output *out, bool *begun, uint64_t count, const char *what)
{
    if (count > 0) {
        cli_put_text(out, *begun ? ", " : ": ");
        cli_put_grouped(out, count);
        cli_put_text(out, what);
        *begun = true;
    }
}

static void put_distance(cli_output *out, const diff_pair *pair)
{
    char text[120];
    bool begun = false;
    const uint64_t finite = pair->apart.differing - pair->apart.nan - pair->apart.infinite;
    if (pair->apart.differing == 0) {
        cli_put_text(out, "the bytes differ, but the numbers, as doubles, do not");
        return;
    }
    cli_put_grouped(out, pair->apart.differing);
    cli_put_text(out, " of ");
    cli_put_grouped(out, numbers_of(pair));
    cli_put_text(out, numbers_of(pair) == 1 ? " number differs" : " numbers differ");
    put_part(out, &begun, pair->apart.nan, " NaN in only one file");
    put_part(out, &begun, pair->apart.infinite, " infinitely far apart");
    if (finite > 0) {
        snprintf(text, sizeof text, ", %sby at most %.6g, by %.6g on average", begun ? "the others " : "",
                 pair->apart.most, mean_of(pair));
        cli_put_text(out, text);
    }
}

static void put_pair(cli_output *out, const diff_pair *pair)
{
    cli_put_escaped(out, pair->a->name, pair->a->name_len, 0);
    cli_put_text(out, ": ");
    if (!pair->alike) {
        put_kind(out, pair->a);
        cli_put_text(out, " in A, ");
        put_kind(out, pair->b);
        cli_put_text(out, " in B");
    }
    if (!pair->alike && pair->comparable && pair->apart.differing > 0) {
        cli_put_text(out, "; ");
    }
    if (pair->comparable && (pair->alike || pair->apart.differing > 0)) {
        put_distance(out, pair);
    }
    cli_put_char(out, '\n');
}

static void json_only(cli *app, const coffer_tensor *tensor)
{
    cli_json_string_n(&app->out, tensor->name, tensor->name_len);
}

static void json_number(cli_output *out, const char *key, double value)
{
    char text[CLI_NUMBER_SIZE];
    cli_json_key(out, key);
    snprintf(text, sizeof text, "%.17g", value);
    if (isfinite(value)) {
        cli_json_raw(out, text);
    } else {
        cli_json_string(out, "Infinity"); /* the difference, or the sum of many, of numbers near the largest double */
    }
}

static void json_side(cli_output *out, const char *key, const coffer_tensor *tensor)
{
    cli_json_key(out, key);
    cli_json_open(out, '{', false);
    cli_json_key(out, "dtype");
    cli_json_string(out, coffer_tensor_dtype_name(tensor));
    cli_json_shape(out, tensor->shape, tensor->rank);
    cli_json_close(out, '}');
}

static void json_pair(cli_output *out, const diff_pair *pair)
{
    cli_json_open(out, '{', false);
    cli_json_key(out, "name");
    cli_json_string_n(out, pair->a->name, pair->a->name_len);
    json_side(out, "a", pair->a);
    json_side(out, "b", pair->b);
    if (pair->comparable) {
        cli_json_key(out, "differing");
        cli_json_number(out, pair->apart.differing);
        cli_json_key(out, "nan");
        cli_json_number(out, pair->apart.nan);
        cli_json_key(out, "infinite");
        cli_json_number(out, pair->apart.infinite);
        json_number(out, "max", pair->apart.most);
        json_number(out, "mean", mean_of(pair));
    }
    cli_json_close(out, '}');
}

/* ---- Metadata ---- */

static const char *value_in(const coffer *model, const coffer_pair *pair, size_t *value_len)
{
    return coffer_table_metadata_get(coffer_shard_table(model, 0), pair->key, pair->key_len, value_len);
}

static void put_key(const diff *d, const coffer_pair *pair, const char *what, const char *other, size_t other_len)
{
    cli_output *out = &d->app->out;
    if (d->app->json) {
        cli_json_string_n(out, pair->key, pair->key_len);
        return;
    }
    cli_put_text(out, "metadata ");
    cli_put_escaped(out, pair->key, pair->key_len, 0);
    cli_put_text(out, what);
    cli_put_escaped(out, pair->value, pair->value_len, 120);
    if (other != NULL) {
        cli_put_text(out, " in A, ");
        cli_put_escaped(out, other, other_len, 120);
        cli_put_text(out, " in B");
    }
    cli_put_char(out, '\n');
}

/* Shows every key that differs, as text, or as strings of an array. Returns how many. */
static size_t show_metadata(const diff *d)
{
    size_t count = 0;
    size_t other_len = 0;
    coffer_pair pair;
    for (size_t i = 0; coffer_table_metadata_at(coffer_shard_table(d->a, 0), i, &pair); i++) {
        const char *other = value_in(d->b, &pair, &other_len);
        if (cli_recorded_is_key(&pair)) {
            continue;
        }
        if (other == NULL) {
            put_key(d, &pair, " only in A: ", NULL, 0);
        } else if (other_len != pair.value_len || memcmp(other, pair.value, other_len) != 0) {
            put_key(d, &pair, ": ", other, other_len);
        } else {
            continue;
        }
        count++;
    }
    for (size_t i = 0; coffer_table_metadata_at(coffer_shard_table(d->b, 0), i, &pair); i++) {
        if (!cli_recorded_is_key(&pair) && value_in(d->a, &pair, &other_len) == NULL) {
            put_key(d, &pair, " only in B: ", NULL, 0);
            count++;
        }
    }
    return count;
}

/* ---- Recorded digests ---- */

/* What the digests that both files record of their tensors say, unverified: 1 that the tensors are
   the same, -1 that they are not, 0 nothing. Nothing is passed over for it: it is told before
   everything is read, and held against what comes out. */
static int record_says(const diff *d)
{
    size_t a_len = 0;
    size_t b_len = 0;
    const coffer_table *a = coffer_shard_table(d->a, 0);
    const coffer_table *b = coffer_shard_table(d->b, 0);
    const char *in_a = coffer_table_metadata_get(a, COFFER_DIGESTS_KEY, strlen(COFFER_DIGESTS_KEY), &a_len);
    const char *in_b = coffer_table_metadata_get(b, COFFER_DIGESTS_KEY, strlen(COFFER_DIGESTS_KEY), &b_len);
    if (in_a == NULL || in_b == NULL || coffer_shard_count(d->a) != 1 || coffer_shard_count(d->b) != 1 ||
        coffer_recorded_algorithm(d->a, 0) != coffer_recorded_algorithm(d->b, 0)) {
        return 0;
    }
    return a_len == b_len && memcmp(in_a, in_b, a_len) == 0 ? 1 : -1;
}

static bool tensors_differ(const diff *d)
{
    bool differ = coffer_count(d->a) != coffer_count(d->b) || d->pair_count != coffer_count(d->a);
    for (size_t i = 0; i < d->pair_count; i++) {
        differ = differ || !d->pairs[i].alike || d->pairs[i].apart.bytes_differ;
    }
    return differ;
}

static void tell_record(const diff *d, int says)
{
    if (says != 0) {
        cli_remark(d->app, "the recorded digests say that the tensors are %s; comparing them",
                   says > 0 ? "the same" : "different");
    }
}

/* Equal lists of digests, but other bytes: one of the files is not what it records. (The other way
   round, digests in another order say the same.) */
static void judge_record(const diff *d, int says)
{
    if (says > 0 && tensors_differ(d)) {
        cli_remark(d->app, "the recorded digests of one file are wrong: coffer verify tells which");
    }
}

/* ---- The whole ---- */

static size_t show_text(const diff *d)
{
    size_t count = show_metadata(d);
    count += each_only(d->a, d->b, put_only_in_a, d->app);
    count += each_only(d->b, d->a, put_only_in_b, d->app);
    for (size_t i = 0; i < d->pair_count; i++) {
        if (pair_differs(d, &d->pairs[i])) {
            put_pair(&d->app->out, &d->pairs[i]);
            count++;
        }
    }
    return count;
}

static size_t show_json(const diff *d)
{
    cli_output *out = &d->app->out;
    size_t count = 0;
    cli_json_open(out, '{', true);
    cli_json_key(out, "a");
    cli_json_string(out, d->path_a);
    cli_json_key(out, "b");
    cli_json_string(out, d->path_b);
    cli_json_key(out, "metadata");
    cli_json_open(out, '[', false);
    count += show_metadata(d);
    cli_json_close(out, ']');
    cli_json_key(out, "only_in_a");
    cli_json_open(out, '[', true);
    count += each_only(d->a, d->b, json_only, d->app);
    cli_json_close(out, ']');
    cli_json_key(out, "only_in_b");
    cli_json_open(out, '[', true);
    count += each_only(d->b, d->a, json_only, d->app);
    cli_json_close(out, ']');
    cli_json_key(out, "tensors");
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < d->pair_count; i++) {
        if (pair_differs(d, &d->pairs[i])) {
            json_pair(out, &d->pairs[i]);
            count++;
        }
    }
    cli_json_close(out, ']');
    cli_json_key(out, "equal");
    cli_json_bool(out, count == 0);
    cli_json_close(out, '}');
    return count;
}

static int compare(diff *d)
{
    const int says = record_says(d);
    int code = match(d);
    if (code == CLI_EXIT_OK) {
        tell_record(d, says);
        code = compare_all(d);
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    judge_record(d, says);
    const size_t count = d->app->json ? show_json(d) : show_text(d);
    if (count == 0) {
        cli_remark(d->app, "no difference in %zu tensor%s and the metadata", d->pair_count,
                   d->pair_count == 1 ? "" : "s");
    }
    return count == 0 ? CLI_EXIT_OK : CLI_EXIT_NOT_CONFORMING;
}

/* A number from 0 on. */
static bool read_tolerance(const char *text, double *tolerance)
{
    char *end = NULL;
    *tolerance = strtod(text, &end);
    return end != text && *end == '\0' && *tolerance >= 0;
}

static int run_diff(cli *app, const cli_arguments *arguments)
{
    const char *tolerance = cli_value(arguments, CLI_OPTION_TOLERANCE);
    diff d = { .app = app, .path_a = arguments->names[0], .path_b = arguments->names[1] };
    d.tolerant = tolerance != NULL;
    if (d.tolerant && !read_tolerance(tolerance, &d.tolerance)) {
        return cli_usage_error(app, "--tolerance needs a number of at least 0: 0.001, 1e-6");
    }
    if (strcmp(d.path_a, "-") == 0 && strcmp(d.path_b, "-") == 0) {
        return cli_usage_error(app, "only one of the two files can be standard input");
    }
    int code = CLI_EXIT_OK;
    d.a = cli_open(app, d.path_a, false, &code);
    d.b = d.a != NULL ? cli_open(app, d.path_b, false, &code) : NULL;
    if (d.b != NULL) {
        code = compare(&d);
    } else {
        /* Exit code 1 says that two files differ, so one that is none is a failure like any other. */
        code = CLI_EXIT_UNREADABLE;
    }
    free(d.pairs);
    coffer_close(d.b);
    coffer_close(d.a);
    return code;
}

static const cli_option DIFF_OPTIONS[] = {
    { CLI_OPTION_TOLERANCE, 0, "tolerance", "TOLERANCE", "numbers that differ by at most that much are equal", NULL },
    CLI_OPTION_ROW_JSON,
    CLI_OPTION_ROW_END,
};

static const cli_example DIFF_EXAMPLES[] = {
    { "coffer diff before.safetensors after.safetensors", "what did training change?" },
    { "coffer diff model.safetensors half.safetensors --tolerance 0.01", "what did rounding change?" },
    { NULL, NULL },
};

const cli_command cli_diff = {
    .name = "diff",
    .run = run_diff,
    .summary = "compare two files: names, dtypes, shapes, numbers, metadata",
    .usage = "A B",
    .about = "Compares two files, whatever the order of their tensors: tensors that only one of them has,\n"
             "different dtypes and shapes, how many numbers differ and by how much, and different metadata. With a\n"
             "tolerance only numbers that are further apart count, but dtypes and shapes always do. Exit code: 0\n"
             "they are equal, 1 they differ, 2 wrong usage, 3 one of them cannot be read or is invalid.\n"
             "\n"
             "Digests that both files record are a hint: the command says first whether they agree, and compares\n"
             "every byte all the same. They do not count as metadata.\n"
             "\n"
             "JSON: a, b, metadata [KEY that differs], only_in_a [NAME], only_in_b, tensors that differ [{name, a\n"
             "{dtype, shape}, b, differing, nan, infinite, max, mean}] (the last five when their shapes are the\n"
             "same; max and mean are of the numbers that are neither NaN in one file only nor infinitely far\n"
             "apart), equal.\n",
    .options = DIFF_OPTIONS,
    .examples = DIFF_EXAMPLES,
    .least_names = 2,
    .most_names = 2,
};
