/* SPDX-License-Identifier: Apache-2.0 */
#include "trust.h"

#include "alloc.h"
#include "error.h"
#include "record.h"
#include "table.h"

#include <string.h>

/* ---- a shard's record -------------------------------------------------------------------------------------------- */

coffer_status coffer__trust_begin(coffer__shard *shard, coffer_verifying verify, const coffer_allocator *allocator,
                                  coffer_error *err)
{
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    if (verify == COFFER_VERIFY_NOTHING ||
        (verify == COFFER_VERIFY_RECORDED &&
         coffer__recorded_algorithm(shard->table, &algorithm, NULL) == COFFER_ERR_NO_DIGESTS)) {
        return COFFER_OK;
    }
    const size_t count = coffer_table_count(shard->table);
    coffer_hasher *hasher = NULL;
    coffer_status status = coffer__recorded_read(&shard->recorded, shard->table, allocator, err);
    if (status == COFFER_OK) {
        status = coffer_hasher_new(&hasher, shard->recorded.algorithm, allocator, err);
    }
    if (status == COFFER_OK) {
        status = coffer__recorded_metadata(hasher, shard->table, err);
    }
    coffer_hasher_free(hasher);
    if (status != COFFER_OK) {
        return status;
    }
    shard->trusted = coffer__alloc_zeroed(allocator, (count + 1) * sizeof *shard->trusted);
    return shard->trusted != NULL
               ? COFFER_OK
               : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to verify %u tensors", (uint64_t)count);
}

void coffer__trust_end(coffer__shard *shard, const coffer_allocator *allocator)
{
    if (shard->recorded.digests != NULL) {
        coffer__recorded_free(&shard->recorded);
    }
    if (shard->trusted != NULL) {
        coffer__free(allocator, shard->trusted, (coffer_table_count(shard->table) + 1) * sizeof *shard->trusted);
    }
}

/* Where the tensor's mark is: tensors are ordered by offset, and of those at one offset all but the last are empty. */
static _Atomic(uint8_t) *trust_mark(const coffer__shard *shard, const coffer_tensor *tensor)
{
    size_t low = 0;
    size_t high = coffer_table_count(shard->table);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const bool before = coffer_table_at(shard->table, middle)->offset < tensor->offset;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    while (coffer_table_at(shard->table, low) != tensor) {
        low++;
    }
    return &shard->trusted[low];
}

bool coffer__trust_is_due(const coffer__shard *shard, const coffer_tensor *tensor)
{
    return shard->trusted != NULL && atomic_load_explicit(trust_mark(shard, tensor), memory_order_acquire) == 0;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static coffer_status trust_judge_by(coffer_hasher *hasher, const coffer__shard *shard, const coffer_tensor *tensor,
                                    const uint8_t *data, coffer_error *err)
{
    uint8_t record[COFFER_LARGEST_DIGEST_SIZE];
    const coffer_status status = coffer__record_tensor(hasher, tensor, data, record, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (coffer__recorded_has(&shard->recorded, record)) {
        atomic_store_explicit(trust_mark(shard, tensor), 1, memory_order_release);
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_TENSOR_DIGEST,
                 "tensor %q is not what the file's digests say: its bytes, name, dtype or shape changed, or it is new",
                 tensor->name, (size_t)tensor->name_len);
    return coffer__model_fail(err, COFFER_ERR_TENSOR_DIGEST, shard, tensor);
}

coffer_status coffer__trust_judge(const coffer *model, const coffer_tensor *tensor, const uint8_t *data,
                                  coffer_error *err)
{
    const coffer__shard *shard = coffer__model_shard(model, tensor);
    coffer_hasher *hasher = NULL;
    coffer_status status = coffer_hasher_new(&hasher, shard->recorded.algorithm, &model->allocator, err);
    if (status == COFFER_OK) {
        status = trust_judge_by(hasher, shard, tensor, data, err);
    }
    coffer_hasher_free(hasher);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Tensors on their way: rows that hash those that are due, and only move the others. */
typedef struct trust_reading {
    const coffer *model;
    const coffer_read_target *targets;
    size_t count;
    coffer__digest_row *rows;
    uint8_t (*data)[COFFER_LARGEST_DIGEST_SIZE];
} trust_reading;

static void trust_plan(const trust_reading *reading)
{
    for (size_t i = 0; i < reading->count; i++) {
        const coffer_read_target *target = &reading->targets[i];
        const coffer__shard *shard = coffer__model_shard(reading->model, target->tensor);
        const bool due = coffer__trust_is_due(shard, target->tensor);
        reading->rows[i] = coffer__model_digest_row(
            reading->model, target->tensor, due ? shard->recorded.algorithm : COFFER_NO_ALGORITHM, reading->data[i]);
        reading->rows[i].to = target->buffer;
        if (target->buffer != NULL) {
            reading->rows[i].map = NULL; /* as all reading into memory: without a map */
        }
    }
}

static coffer_status trust_judge_rows(const trust_reading *reading, coffer_error *err)
{
    coffer_hasher *hasher = NULL;
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < reading->count && status == COFFER_OK; i++) {
        if (reading->rows[i].algorithm == COFFER_NO_ALGORITHM) {
            continue;
        }
        if (reading->rows[i].algorithm != algorithm) {
            coffer_hasher_free(hasher);
            algorithm = reading->rows[i].algorithm;
            status = coffer_hasher_new(&hasher, algorithm, &reading->model->allocator, err);
        }
        const coffer_tensor *tensor = reading->targets[i].tensor;
        if (status == COFFER_OK) {
            status = trust_judge_by(hasher, coffer__model_shard(reading->model, tensor), tensor, reading->data[i], err);
        }
    }
    coffer_hasher_free(hasher);
    return status;
}

static coffer_status trust_run(const trust_reading *reading, const coffer_read_options *options, coffer_error *err)
{
    size_t failed = reading->count;
    const coffer__transfer_options transfer = coffer__model_transfer(&reading->model->allocator, options, &failed);
    trust_plan(reading);
    const coffer_status status = coffer__digest(reading->rows, reading->count, &transfer, err);
    if (status == COFFER_OK) {
        return trust_judge_rows(reading, err);
    }
    if (failed < reading->count) {
        const coffer_tensor *tensor = reading->targets[failed].tensor;
        coffer__model_fail(err, status, coffer__model_shard(reading->model, tensor), tensor);
    }
    return status;
}

coffer_status coffer__trust_read(const coffer *model, const coffer_read_target *targets, size_t count,
                                 const coffer_read_options *options, coffer_error *err)
{
    trust_reading reading = { .model = model, .targets = targets, .count = count };
    const bool fits = count < SIZE_MAX / (sizeof *reading.rows + sizeof *reading.data);
    reading.rows = fits ? coffer__alloc(&model->allocator, (count + 1) * sizeof *reading.rows) : NULL;
    reading.data = fits ? coffer__alloc(&model->allocator, (count + 1) * sizeof *reading.data) : NULL;
    const coffer_status status =
        reading.rows != NULL && reading.data != NULL
            ? trust_run(&reading, options, err)
            : coffer__fail(err, COFFER_ERR_MEMORY, "no memory to verify %u tensors", (uint64_t)count);
    coffer__free(&model->allocator, reading.data, (count + 1) * sizeof *reading.data);
    coffer__free(&model->allocator, reading.rows, (count + 1) * sizeof *reading.rows);
    return status;
}

coffer_status coffer__trust_tensor(const coffer *model, const coffer_tensor *tensor, const coffer_read_options *options,
                                   coffer_error *err)
{
    const coffer_read_options usual = COFFER_READ_OPTIONS_INIT;
    const coffer_read_target target = { tensor, NULL, 0 };
    return coffer__trust_is_due(coffer__model_shard(model, tensor), tensor)
               ? coffer__trust_read(model, &target, 1, options == NULL ? &usual : options, err)
               : COFFER_OK;
}
