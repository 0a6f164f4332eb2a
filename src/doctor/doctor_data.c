/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors' bytes: recorded digests, and with --data whether they are right, and what numbers there are. */
#include "checkup.h"
#include "doctor_numbers.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Digests ---- */

static void tell_unsound(const coffer__doctor_folder *folder, const char *name, const char *path,
                         const coffer_error *err)
{
    char *below = coffer__doctor_name(folder, name);
    coffer__finding *finding = below != NULL ? coffer__doctor_add_failure(folder->doctor, "digest", below, err) : NULL;
    if (err->tensor[0] != '\0') {
        coffer__doctor_about(folder->doctor, finding, err->tensor, strlen(err->tensor));
    }
    if (folder->input == NULL) {
        coffer__doctor_look(folder->doctor, finding, COFFER__DOCTOR_WORDS("coffer", "verify", path));
    }
    coffer__block_free(below);
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

static void verify_recorded(const coffer__doctor_folder *folder, const char *name, const char *path,
                            const coffer *model)
{
    coffer_error err;
    const coffer__checkup *d = folder->doctor;
    coffer_digest_options options = COFFER_DIGEST_OPTIONS_INIT;
    options.progress = d->options.progress;
    options.progress_ctx = d->options.progress_ctx;
    coffer__doctor_begin_step(d, "verifying", sum_of_sizes(model));
    const coffer_status status = coffer_verify(model, NULL, coffer_count(model), NULL, &options, &err);
    if (status != COFFER_OK && status != COFFER_ERR_CANCELLED) {
        tell_unsound(folder, name, path, &err);
    }
}

static void check_recorded(const coffer__doctor_folder *folder, const char *name, const char *path, const coffer *model)
{
    coffer_error err;
    const coffer_tensor *none = NULL;
    const size_t recorded = count_recorded(model);
    if (recorded == 0) {
        return;
    }
    const bool whole = recorded == coffer_shard_count(model);
    coffer__doctor_count(folder->doctor, COFFER_DOCTOR_DIGESTS, whole && folder->doctor->data, 1);
    if (!whole) {
        coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "digests_partial", name,
                              "%" PRIu64 " of %" PRIu64
                              " files record digests of their tensors, so the model cannot be verified as a whole",
                              (uint64_t)recorded, (uint64_t)coffer_shard_count(model));
    } else if (folder->doctor->data) {
        verify_recorded(folder, name, path, model);
    } else if (coffer_verify(model, &none, 0, NULL, NULL, &err) != COFFER_OK) {
        tell_unsound(folder, name, path, &err);
    } else {
        coffer__finding *finding =
            coffer__doctor_add_in(folder, COFFER_SEVERITY_NOTE, "digests_recorded", name,
                                  "digests of the tensors are recorded (%s), and were not verified: --data does that",
                                  coffer_algorithm_name(coffer_recorded_algorithm(model, 0)));
        if (folder->input == NULL) {
            coffer__doctor_look(folder->doctor, finding, COFFER__DOCTOR_WORDS("coffer", "verify", path));
        }
    }
}

/* ---- Numbers ---- */

/* A chunk of a tensor: whole bytes of any dtype, and at most 2 MiB. */
#define CHUNK_ELEMENTS ((uint64_t)1 << 18)
#define CHUNK_SIZE ((size_t)2 << 20)
#define NUMBER_THREADS_MAX 16

/* What the workers share, under the pool's mutex. */
typedef struct data_run {
    const coffer *model;
    coffer__doctor_numbers *sums; /* by tensor */
    size_t tensor;                /* of the next chunk */
    uint64_t first;               /* its first element */
    uint64_t taken;               /* chunks */
    coffer_status status;
    coffer_error err;
} data_run;

typedef struct data_worker {
    coffer__thread_pool_worker base;
    data_run *run;
    uint8_t *bytes; /* CHUNK_SIZE of them */
} data_worker;

typedef struct data_chunk {
    size_t tensor;
    uint64_t first;
    uint64_t number;
    size_t count; /* of elements */
} data_chunk;

static uint64_t elements_size(coffer_dtype dtype, uint64_t elements)
{
    const uint64_t bits = coffer_dtype_bits(dtype);
    return elements / 8 * bits + elements % 8 * bits / 8;
}

static bool take_chunk(data_worker *worker, data_chunk *chunk)
{
    data_run *run = worker->run;
    coffer__mutex *mutex = &worker->base.thread_pool->mutex;
    coffer__os_mutex_lock(mutex);
    uint64_t left = 0;
    while (run->tensor < coffer_count(run->model) && left == 0) {
        left = coffer_tensor_elements(coffer_at(run->model, run->tensor)) - run->first;
        if (left == 0) {
            run->tensor++;
            run->first = 0;
        }
    }
    *chunk = (data_chunk){ run->tensor, run->first, run->taken, 0 };
    chunk->count = (size_t)(left < CHUNK_ELEMENTS ? left : CHUNK_ELEMENTS);
    run->first += chunk->count;
    run->taken += chunk->count > 0;
    coffer__os_mutex_unlock(mutex);
    return chunk->count > 0;
}

static void add_numbers(data_worker *worker, const data_chunk *chunk, const coffer__doctor_numbers *found)
{
    coffer__mutex *mutex = &worker->base.thread_pool->mutex;
    coffer__doctor_numbers *sum = &worker->run->sums[chunk->tensor];
    coffer__os_mutex_lock(mutex);
    sum->nan += found->nan;
    sum->infinite += found->infinite;
    sum->filled = sum->filled || found->filled;
    coffer__os_mutex_unlock(mutex);
}

/* The chunk's failure, if any, is the one of the run that comes first in the model, whoever is faster. */
static void look_at_numbers(void *ctx)
{
    data_chunk chunk;
    data_worker *worker = ctx;
    coffer__thread_pool *pool = worker->base.thread_pool;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    reading.threads = 1;
    bool stop = coffer__thread_pool_stop(&worker->base, 0);
    while (!stop && take_chunk(worker, &chunk)) {
        coffer_error err;
        coffer__doctor_numbers found = { .nan = 0 };
        const coffer_tensor *tensor = coffer_at(worker->run->model, chunk.tensor);
        const uint64_t size = elements_size(tensor->dtype, chunk.count);
        const coffer_status status = coffer_read_part(
            worker->run->model, tensor, elements_size(tensor->dtype, chunk.first), worker->bytes, size, &reading, &err);
        if (status != COFFER_OK) {
            coffer__thread_pool_fail_at(pool, chunk.number, status, &err, COFFER__THREAD_POOL_NO_ROW);
            return;
        }
        coffer__doctor_numbers_add(&found, tensor->dtype, worker->bytes, chunk.count);
        add_numbers(worker, &chunk, &found);
        stop = coffer__thread_pool_advance(&worker->base, size);
    }
}

static size_t threads_for(uint64_t size)
{
    const size_t processors = coffer__os_processors();
    const uint64_t chunks = size / CHUNK_SIZE + 1;
    const size_t most = processors < NUMBER_THREADS_MAX ? processors : NUMBER_THREADS_MAX;
    return chunks < most ? (size_t)chunks : most;
}

/* Reads every tensor once. False when something failed, without memory too. */
static bool read_numbers(const coffer__doctor_folder *folder, data_run *run)
{
    data_worker workers[NUMBER_THREADS_MAX] = { { .run = NULL } };
    coffer__checkup *d = folder->doctor;
    const uint64_t size = sum_of_sizes(run->model);
    const size_t count = threads_for(size);
    uint8_t *bytes = coffer__doctor_array(d, count, CHUNK_SIZE);
    run->sums = coffer__doctor_array(d, coffer_count(run->model), sizeof *run->sums);
    coffer__thread_pool pool = { .work = look_at_numbers,
                                 .progress = d->options.progress,
                                 .progress_ctx = d->options.progress_ctx,
                                 .total = size,
                                 .err = &run->err };
    for (size_t i = 0; i < count && bytes != NULL; i++) {
        workers[i].run = run;
        workers[i].bytes = bytes + i * CHUNK_SIZE;
    }
    if (!d->failed) {
        coffer__doctor_begin_step(d, "reading", size);
        run->status = coffer__thread_pool_run(&pool, workers, count, sizeof workers[0]);
        d->cancelled = d->cancelled || run->status == COFFER_ERR_CANCELLED;
    }
    coffer__block_free(bytes);
    return !d->failed && run->status == COFFER_OK;
}

static void tell_numbers(const coffer__doctor_folder *folder, const char *path, const coffer_tensor *tensor,
                         const coffer__doctor_numbers *numbers, const char *name)
{
    coffer__checkup *d = folder->doctor;
    coffer__finding *finding = NULL;
    const uint64_t elements = coffer_tensor_elements(tensor);
    char *pattern = coffer__doctor_pattern(d, tensor->name, tensor->name_len);
    if (numbers->nan > 0) {
        finding = coffer__doctor_add_in(folder, COFFER_SEVERITY_ERROR, "nan", name,
                                        "%" PRIu64 " of %" PRIu64 " numbers are NaN", numbers->nan, elements);
    } else {
        finding = coffer__doctor_add_in(folder, COFFER_SEVERITY_WARNING, "infinite", name,
                                        "%" PRIu64 " of %" PRIu64 " numbers are infinite", numbers->infinite, elements);
    }
    coffer__doctor_about(d, finding, tensor->name, tensor->name_len);
    if (pattern != NULL && pattern[0] != '-' && folder->input == NULL) {
        coffer__doctor_look(d, finding, COFFER__DOCTOR_WORDS("coffer", "stats", path, pattern));
    }
    coffer__block_free(pattern);
}

static const char *file_of(const coffer *model, const coffer_tensor *tensor, const char *name)
{
    const bool single = coffer_shard_count(model) == 1;
    return single ? name : coffer__doctor_last_name(coffer_shard_path(model, tensor->shard));
}

static void tell_all_numbers(const coffer__doctor_folder *folder, const char *name, const char *path,
                             const data_run *run)
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
        coffer__finding *finding = coffer__doctor_add_in(
            folder, COFFER_SEVERITY_NOTE, "zeros", file_of(run->model, first, name),
            "%" PRIu64 " of %" PRIu64 " tensors have only zeros; of biases that is usual, of weights it is not",
            (uint64_t)zeros, (uint64_t)coffer_count(run->model));
        coffer__doctor_about(folder->doctor, finding, first->name, first->name_len);
    }
}

void coffer__doctor_check_data(const coffer__doctor_folder *folder, const char *name, const char *path,
                               const coffer *model)
{
    data_run run = { .model = model };
    check_recorded(folder, name, path, model);
    if (!folder->doctor->data || coffer__doctor_stopped(folder->doctor)) {
        coffer__doctor_count(folder->doctor, COFFER_DOCTOR_NUMBERS, false, 1);
        return;
    }
    const bool read = read_numbers(folder, &run);
    coffer__doctor_count(folder->doctor, COFFER_DOCTOR_NUMBERS, read, 1);
    if (read) {
        tell_all_numbers(folder, name, path, &run);
    } else if (run.status != COFFER_OK && run.status != COFFER_ERR_CANCELLED) {
        char *below = coffer__doctor_name(folder, name);
        if (below != NULL) {
            (void)coffer__doctor_add_failure(folder->doctor, "unreadable", below, &run.err);
        }
        coffer__block_free(below);
    }
    coffer__block_free(run.sums);
}
