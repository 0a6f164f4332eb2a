/* SPDX-License-Identifier: Apache-2.0 */
/* What two files say of themselves: their metadata, and the digests that they record of their tensors. */
#include "cli_recorded.h"
#include "cli_report.h"
#include "diff.h"

#include <string.h>

static const char *value_in(const coffer *model, const coffer_pair *pair, size_t *value_len)
{
    return coffer_table_metadata_get(coffer_shard_table(model, 0), pair->key, pair->key_len, value_len);
}

/* Whether a key of one model's metadata is a tensor of the other one, which is tied as it says. */
static bool is_tied(const coffer *model, const coffer_pair *pair, const coffer *other)
{
    const coffer_tensor *tensor = coffer_find(other, pair->key, pair->key_len);
    return tensor != NULL && diff_tied(other, tensor, model) != NULL;
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

size_t diff_show_metadata(const diff *d)
{
    size_t count = 0;
    size_t other_len = 0;
    coffer_pair pair;
    for (size_t i = 0; coffer_table_metadata_at(coffer_shard_table(d->a, 0), i, &pair); i++) {
        const char *other = value_in(d->b, &pair, &other_len);
        if (cli_recorded_is_key(&pair) || is_tied(d->a, &pair, d->b)) {
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
        if (!cli_recorded_is_key(&pair) && !is_tied(d->b, &pair, d->a) && value_in(d->a, &pair, &other_len) == NULL) {
            put_key(d, &pair, " only in B: ", NULL, 0);
            count++;
        }
    }
    return count;
}

/* ---- Recorded digests ---- */

/* Nothing is passed over for it: it is told before everything is read, and held against what comes out. */
int diff_record_says(const coffer *first, const coffer *second)
{
    size_t a_len = 0;
    size_t b_len = 0;
    const coffer_table *a = coffer_shard_table(first, 0);
    const coffer_table *b = coffer_shard_table(second, 0);
    const char *in_a = coffer_table_metadata_get(a, COFFER_DIGESTS_KEY, strlen(COFFER_DIGESTS_KEY), &a_len);
    const char *in_b = coffer_table_metadata_get(b, COFFER_DIGESTS_KEY, strlen(COFFER_DIGESTS_KEY), &b_len);
    if (in_a == NULL || in_b == NULL || coffer_shard_count(first) != 1 || coffer_shard_count(second) != 1 ||
        coffer_recorded_algorithm(first, 0) != coffer_recorded_algorithm(second, 0)) {
        return 0;
    }
    return a_len == b_len && memcmp(in_a, in_b, a_len) == 0 ? 1 : -1;
}

static bool tensors_differ(const diff *d)
{
    bool differ = d->only_a_count > 0 || d->only_b_count > 0;
    for (size_t i = 0; i < d->pair_count; i++) {
        differ = differ || !d->pairs[i].alike || d->pairs[i].apart.differing_bytes > 0;
    }
    return differ;
}

void diff_tell_record(const diff *d, int says)
{
    if (says != 0) {
        cli_remark(d->app, "the recorded digests say that the tensors are %s%s", says > 0 ? "the same" : "different",
                   d->header ? "" : "; comparing them");
    }
}

/* Equal lists of digests, but other bytes: one of the files is not what it records. (The other way
   round, digests in another order say the same.) */
void diff_judge_record(const diff *d, int says)
{
    if (says > 0 && tensors_differ(d)) {
        cli_remark(d->app, "the recorded digests of one file are wrong: coffer verify tells which");
    }
}
