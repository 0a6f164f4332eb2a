/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors' bytes: recorded digests, and with --data whether they are right, and what numbers there are. */
#include "cli_interrupt.h"
#include "cli_parallel.h"
#include "cli_pieces.h"
#include "cli_progress.h"
#include "cli_report.h"
#include "cli_text.h"
#include "doctor.h"
#include "doctor_numbers.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Digests ---- */

static void tell_unsound(const doctor_folder *folder, const char *name, const char *path, const coffer_error *err)
{
    char *below = doctor_name(folder, name);
    doctor_finding *finding = below != NULL ? doctor_add_failure(folder->doctor, "digest", below, err) : NULL;
    if (err->tensor[0] != '\0') {
        doctor_about(folder->doctor, finding, err->tensor, strlen(err->tensor));
    }
    if (folder->input == NULL) {
        doctor_look(folder->doctor, finding, DOCTOR_WORDS("coffer", "verify", path));
    }
    free(below);
}

static size_t count_recorded(const coffer *model)
{
    size_t recorded = 0;
    for (size_t i = 0; i < coffer_shard_count(model); i++) {
        recorded += coffer_recorded_algorithm(model, i) != COFFER_NO_ALGORITHM;
    }
    return recorded;
}

static uint64_t sum_of_sizes(const coffer *model)
{
    uint64_t size = 0;
    for (size_t i = 0; i < coffer_count(model); i++) {
        size += coffer_at(model, i)->size;
    }
    return size;
}

static void verify_recorded(const doctor_folder *folder, const char *name, const char *path, const coffer *model)
{
    coffer_error err;
    cli_progress progress;
    coffer_digest_options options = COFFER_DIGEST_OPTIONS_INIT;
    cli_progress_begin(&progress, folder->doctor->app, "verifying", sum_of_sizes(model));
    cli_progress_part part = { &progress, 0 };
    options.progress = cli_progress_call;
    options.progress_ctx = &part;
    const coffer_status status = coffer_verify(model, NULL, coffer_count(model), NULL, &options, &err);
    cli_progress_finish(&progress);
    if (status != COFFER_OK && status != COFFER_ERR_CANCELLED) {
        tell_unsound(folder, name, path, &err);
    }
}

static void check_recorded(const doctor_folder *folder, const char *name, const char *path, const coffer *model)
{
    coffer_error err;
    const coffer_tensor *none = NULL;
    const size_t recorded = count_recorded(model);
    if (recorded == 0) {
        return;
    }
    if (recorded < coffer_shard_count(model)) {
        doctor_add_in(folder, DOCTOR_WARNING, "digests_partial", name,
                      "%zu of %zu files record digests of their tensors, so the model cannot be verified as a whole",
                      recorded, coffer_shard_count(model));
    } else if (folder->doctor->data) {
        verify_recorded(folder, name, path, model);
    } else if (coffer_verify(model, &none, 0, NULL, NULL, &err) != COFFER_OK) {
        tell_unsound(folder, name, path, &err);
    } else {
        doctor_finding *finding =
            doctor_add_in(folder, DOCTOR_NOTE, "digests_recorded", name,
                          "digests of the tensors are recorded (%s), and were not verified: --data does that",
                          coffer_algorithm_name(coffer_recorded_algorithm(model, 0)));
        if (folder->input == NULL) {
            doctor_look(folder->doctor, finding, DOCTOR_WORDS("coffer", "verify", path));
        }
    }
}

/* ---- Numbers ---- */

typedef struct data_run {
    const coffer *model;
    const cli_piece *pieces;
    doctor_numbers *found; /* by piece */
    doctor_numbers *sums;  /* by tensor */
    cli_progress progress;
    pthread_mutex_t lock; /* of what follows */
    coffer_status status;
    coffer_error err;
    atomic_bool failed;
} data_run;

/* Runs on any thread. */
static void look_at_piece(void *ctx, size_t job)
{
    data_run *run = ctx;
    coffer_error err = { .code = COFFER_OK };
    const cli_piece *piece = &run->pieces[job];
    const coffer_tensor *tensor = coffer_at(run->model, piece->item);
    void *bytes = atomic_load(&run->failed) ? NULL : cli_read_piece(run->model, tensor, piece, &err);
    if (bytes != NULL) {
        doctor_numbers_add(&run->found[job], tensor->dtype, bytes, piece->count);
    } else if (!atomic_exchange(&run->failed, true)) {
        pthread_mutex_lock(&run->lock);
        run->status = err.code;
        run->err = err;
        pthread_mutex_unlock(&run->lock);
    }
    free(bytes);
}

static void add_piece(void *ctx, size_t job)
{
    data_run *run = ctx;
    const cli_piece *piece = &run->pieces[job];
    doctor_numbers *sum = &run->sums[piece->item];
    sum->nan += run->found[job].nan;
    sum->infinite += run->found[job].infinite;
    sum->filled = sum->filled || run->found[job].filled;
    cli_progress_add(&run->progress, cli_elements_size(coffer_at(run->model, piece->item)->dtype, piece->count));
}

/* Reads every tensor once. False when something failed, without memory too. */
static bool read_numbers(const doctor_folder *folder, data_run *run)
{
    const size_t tensors = coffer_count(run->model);
    size_t count = 0;
    uint64_t *elements = calloc(tensors + 1, sizeof *elements);
    for (size_t i = 0; i < tensors && elements != NULL; i++) {
        elements[i] = coffer_tensor_elements(coffer_at(run->model, i));
    }
    cli_piece *pieces = elements != NULL ? cli_cut(elements, tensors, &count) : NULL;
    free(elements);
    run->pieces = pieces;
    run->found = calloc(count + 1, sizeof *run->found);
    run->sums = calloc(tensors + 1, sizeof *run->sums);
    const bool memory = pieces != NULL && run->found != NULL && run->sums != NULL;
    if (memory) {
        const cli_jobs jobs = { look_at_piece, add_piece, run };
        pthread_mutex_init(&run->lock, NULL);
        cli_progress_begin(&run->progress, folder->doctor->app, "reading", sum_of_sizes(run->model));
        cli_parallel(&jobs, count, cli_processors());
        cli_progress_finish(&run->progress);
        pthread_mutex_destroy(&run->lock);
    }
    free(run->found);
    free(pieces);
    folder->doctor->failed = folder->doctor->failed || !memory;
    return memory && run->status == COFFER_OK && !cli_interrupted();
}

static void tell_numbers(const doctor_folder *folder, const char *path, const coffer_tensor *tensor,
                         const doctor_numbers *numbers, const char *name)
{
    doctor *d = folder->doctor;
    doctor_finding *finding = NULL;
    const uint64_t elements = coffer_tensor_elements(tensor);
    char *pattern = doctor_pattern(tensor->name, tensor->name_len);
    if (numbers->nan > 0) {
        finding = doctor_add_in(folder, DOCTOR_ERROR, "nan", name, "%" PRIu64 " of %" PRIu64 " numbers are NaN",
                                numbers->nan, elements);
    } else {
        finding = doctor_add_in(folder, DOCTOR_WARNING, "infinite", name,
                                "%" PRIu64 " of %" PRIu64 " numbers are infinite", numbers->infinite, elements);
    }
    doctor_about(d, finding, tensor->name, tensor->name_len);
    if (pattern != NULL && pattern[0] != '-' && folder->input == NULL) {
        doctor_look(d, finding, DOCTOR_WORDS("coffer", "stats", path, pattern));
    }
    free(pattern);
}

static const char *file_of(const coffer *model, const coffer_tensor *tensor, const char *name)
{
    const char *path = coffer_shard_path(model, tensor->shard);
    const char *slash = cli_last_slash(path);
    return coffer_shard_count(model) == 1 ? name : slash != NULL ? slash + 1 : path;
}

static void tell_all_numbers(const doctor_folder *folder, const char *name, const char *path, const data_run *run)
{
    const coffer_tensor *first = NULL;
    size_t zeros = 0;
    for (size_t i = 0; i < coffer_count(run->model); i++) {
        const coffer_tensor *tensor = coffer_at(run->model, i);
        if (run->sums[i].nan > 0 || run->sums[i].infinite > 0) {
            tell_numbers(folder, path, tensor, &run->sums[i], file_of(run->model, tensor, name));
        }
        if (tensor->size > 0 && !run->sums[i].filled) {
            first = zeros++ == 0 ? tensor : first;
        }
    }
    if (zeros > 0) {
        doctor_finding *finding =
            doctor_add_in(folder, DOCTOR_NOTE, "zeros", file_of(run->model, first, name),
                          "%zu of %zu tensors have only zeros; of biases that is usual, of weights it is not", zeros,
                          coffer_count(run->model));
        doctor_about(folder->doctor, finding, first->name, first->name_len);
    }
}

void doctor_check_data(const doctor_folder *folder, const char *name, const char *path, const coffer *model)
{
    data_run run = { .model = model };
    check_recorded(folder, name, path, model);
    if (!folder->doctor->data || cli_interrupted()) {
        return;
    }
    if (read_numbers(folder, &run)) {
        tell_all_numbers(folder, name, path, &run);
    } else if (run.status != COFFER_OK && run.status != COFFER_ERR_CANCELLED) {
        char *below = doctor_name(folder, name);
        if (below != NULL) {
            (void)doctor_add_failure(folder->doctor, "unreadable", below, &run.err);
        }
        free(below);
    }
    free(run.sums);
}
