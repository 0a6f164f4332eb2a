/* SPDX-License-Identifier: Apache-2.0 */
/* The differences, tensor by tensor. */
#include "cli_json.h"
#include "diff.h"

#include <math.h>
#include <stdio.h>

#define NUMBER_SIZE 40

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

static void put_only(cli_output *out, const char *where, const coffer_tensor *const *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cli_put_text(out, where);
        cli_put_escaped(out, tensors[i]->name, tensors[i]->name_len, 0);
        cli_put_text(out, "  ");
        put_kind(out, tensors[i]);
        cli_put_char(out, '\n');
    }
}

static double mean_of(const diff_pair *pair)
{
    const uint64_t numbers = diff_numbers_of(pair);
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
    cli_put_grouped(out, diff_numbers_of(pair));
    cli_put_text(out, diff_numbers_of(pair) == 1 ? " number differs" : " numbers differ");
    put_part(out, &begun, pair->apart.nan, " NaN in only one file");
    put_part(out, &begun, pair->apart.infinite, " infinitely far apart");
    if (finite > 0) {
        snprintf(text, sizeof text, ", %sby at most %.6g, by %.6g on average", begun ? "the others " : "",
                 pair->apart.max, mean_of(pair));
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

void diff_json_double(cli_output *out, const char *key, double value)
{
    char text[NUMBER_SIZE];
    cli_json_key(out, key);
    if (isnan(value)) {
        cli_json_null(out);
    } else if (isinf(value)) {
        cli_json_string(out, value > 0 ? "Infinity" : "-Infinity");
    } else {
        snprintf(text, sizeof text, "%.17g", value);
        cli_json_raw(out, text);
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

static void json_pair(cli_output *out, const diff *d, const diff_pair *pair)
{
    cli_json_open(out, '{', false);
    cli_json_key(out, "name");
    cli_json_string_n(out, pair->a->name, pair->a->name_len);
    json_side(out, "a", pair->a);
    json_side(out, "b", pair->b);
    if (pair->comparable && !d->header) {
        cli_json_put_number(out, "differing", pair->apart.differing);
        cli_json_put_number(out, "nan", pair->apart.nan);
        cli_json_put_number(out, "infinite", pair->apart.infinite);
        diff_json_double(out, "max", pair->apart.max);
        diff_json_double(out, "mean", mean_of(pair));
    }
    cli_json_close(out, '}');
}

static void json_only(cli_output *out, const char *key, const coffer_tensor *const *tensors, size_t count)
{
    cli_json_key(out, key);
    cli_json_open(out, '[', true);
    for (size_t i = 0; i < count; i++) {
        cli_json_string_n(out, tensors[i]->name, tensors[i]->name_len);
    }
    cli_json_close(out, ']');
}

size_t diff_show_tensors(const diff *d)
{
    cli_output *out = &d->app->out;
    size_t count = d->only_a_count + d->only_b_count;
    if (d->app->json) {
        json_only(out, "only_in_a", d->only_a, d->only_a_count);
        json_only(out, "only_in_b", d->only_b, d->only_b_count);
        cli_json_key(out, "tensors");
        cli_json_open(out, '[', true);
    } else {
        put_only(out, "only in A: ", d->only_a, d->only_a_count);
        put_only(out, "only in B: ", d->only_b, d->only_b_count);
    }
    for (size_t i = 0; i < d->pair_count; i++) {
        if (diff_pair_differs(d, &d->pairs[i])) {
            if (d->app->json) {
                json_pair(out, d, &d->pairs[i]);
            } else {
                put_pair(out, &d->pairs[i]);
            }
            count++;
        }
    }
    if (d->app->json) {
        cli_json_close(out, ']');
    }
    return count;
}
