/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing the numbers of all pairs, piece by piece, by several threads. */
#include "cli_parallel.h"
#include "cli_pieces.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "diff.h"

#include <stdatomic.h>
#include <stdlib.h>

/* What came of a piece, until it is delivered. */
typedef struct piece_result {
    coffer_comparison apart;
    bool failed;
    bool of_b; /* which file could not be read */
    coffer_error err;
} piece_result;

typedef struct diff_run {
    diff *d;
    cli_progress progress;
    const cli_piece *pieces;
    piece_result results[CLI_JOBS_AHEAD_MAX]; /* of piece i at i % CLI_JOBS_AHEAD_MAX */
    atomic_bool failed;
    int code;
} diff_run;

static void compare_piece(const diff_run *run, const cli_piece *piece, piece_result *result)
{
    const diff *d = run->d;
    const diff_pair *pair = &d->pairs[piece->item];
    void *a = cli_read_piece(d->a, pair->a, piece, &result->err);
    void *b = a == NULL ? NULL : cli_read_piece(d->b, pair->b, piece, &result->err);
    result->failed = a == NULL || b == NULL;
    result->of_b = a != NULL;
    if (!result->failed) {
        result->apart.norms = d->summary;
        (void)coffer_comparison_add(&result->apart, pair->a->dtype, a, pair->b->dtype, b, piece->count);
    }
    free(b);
    free(a);
}

/* Runs on any thread. */
static void work(void *ctx, size_t job)
{
    diff_run *run = ctx;
    piece_result *result = &run->results[job % CLI_JOBS_AHEAD_MAX];
    *result = (piece_result){ .failed = false };
    if (!atomic_load(&run->failed)) {
        compare_piece(run, &run->pieces[job], result);
        if (result->failed) {
            atomic_store(&run->failed, true);
        }
    }
}

/* In order, so that sums are the same every time. */
static void deliver(void *ctx, size_t job)
{
    diff_run *run = ctx;
    const piece_result *result = &run->results[job % CLI_JOBS_AHEAD_MAX];
    diff_pair *pair = &run->d->pairs[run->pieces[job].item];
    if (result->failed && run->code == CLI_EXIT_OK) {
        run->code = cli_fail(run->d->app, result->of_b ? run->d->path_b : run->d->path_a, &result->err);
    }
    coffer_comparison_merge(&pair->apart, &result->apart);
    cli_progress_add(&run->progress, cli_elements_size(pair->a->dtype, run->pieces[job].count));
}

/* Pairs that cannot be compared have no elements here, and so no pieces. */
static cli_piece *cut_pairs(const diff *d, size_t *count, uint64_t *bytes)
{
    uint64_t *elements = calloc(d->pair_count + 1, sizeof *elements);
    *bytes = 0;
    for (size_t i = 0; i < d->pair_count && elements != NULL; i++) {
        const diff_pair *pair = &d->pairs[i];
        elements[i] = pair->comparable ? coffer_tensor_elements(pair->a) : 0;
        *bytes += pair->comparable ? pair->a->size : 0;
    }
    cli_piece *pieces = elements != NULL ? cli_cut(elements, d->pair_count, count) : NULL;
    free(elements);
    return pieces;
}

int diff_compare_data(diff *d)
{
    size_t count = 0;
    uint64_t bytes = 0;
    int code = CLI_EXIT_OK;
    cli_piece *pieces = cut_pairs(d, &count, &bytes);
    diff_run *run = calloc(1, sizeof *run);
    if (pieces == NULL || run == NULL) {
        code = cli_fail_memory(d->app, d->path_a);
    } else {
        const cli_jobs jobs = { work, deliver, run };
        run->d = d;
        run->pieces = pieces;
        cli_progress_begin(&run->progress, d->app, "comparing", bytes);
        cli_parallel(&jobs, count, cli_processors());
        cli_progress_finish(&run->progress);
        code = run->code;
    }
    free(run);
    free(pieces);
    return code;
}
