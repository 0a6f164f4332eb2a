/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at all bytes of some tensors before anything is written (data_scan.h): those that have to be the same in all
 * models are compared, and with slerp the sums are made that the angles between tensors come from.
 */
#include "alloc.h"
#include "average.h"
#include "data_scan.h"
#include "error.h"

#include <string.h>

#define AVERAGE_PIECE_SIZE ((uint64_t)2 << 20) /* bytes: whole elements of any dtype */
#define AVERAGE_DECODE_ELEMENTS 512

/* Each item of `sums` is one piece's. */
typedef struct average_job {
    coffer__average *average;
    coffer__average_sums *sums;
} average_job;

/* Bytes that are looked at. */
static uint64_t average_looked_at(const void *ctx, size_t tensor)
{
    const average_job *job = ctx;
    const bool looked_at = job->average->slerp || !coffer__average_computes(job->average, tensor);
    return looked_at ? coffer__average_tensor(job->average, 0, tensor)->size : 0;
}

/* ---- one piece --------------------------------------------------------------------------------------------------- */

static coffer_status average_read(const average_job *job, const coffer__data_scan_part *piece, size_t model,
                                  uint8_t *to, coffer_error *err)
{
    coffer_read_options alone = COFFER_READ_OPTIONS_INIT;
    alone.threads = 1;
    return coffer_read_part(job->average->models[model], coffer__average_tensor(job->average, model, piece->tensor),
                            piece->first, to, piece->count, &alone, err);
}

static void average_add_up(const average_job *job, const coffer__data_scan_part *piece, const uint8_t *one,
                           const uint8_t *other)
{
    double first[AVERAGE_DECODE_ELEMENTS];
    double second[AVERAGE_DECODE_ELEMENTS];
    const coffer_dtype dtype = coffer__average_tensor(job->average, 0, piece->tensor)->dtype;
    const size_t count = piece->count / (coffer_dtype_bits(dtype) / 8);
    coffer__average_sums sums = { 0, 0, 0 };
    for (size_t done = 0; done < count; done += AVERAGE_DECODE_ELEMENTS) {
        const size_t now = count - done < AVERAGE_DECODE_ELEMENTS ? count - done : AVERAGE_DECODE_ELEMENTS;
        (void)coffer_decode(dtype, one, done, now, first);
        (void)coffer_decode(dtype, other, done, now, second);
        for (size_t i = 0; i < now; i++) {
            sums.both += first[i] * second[i];
            sums.first += first[i] * first[i];
            sums.second += second[i] * second[i];
        }
    }
    job->sums[piece->number] = sums;
}

static coffer_status average_differs(const coffer_tensor *tensor, coffer_error *err)
{
    coffer__fail(err, COFFER_ERR_DTYPE,
                 "tensor %q is %s, which is not averaged, and differs between the models: drop it from all, or take "
                 "models that agree",
                 tensor->name, (size_t)tensor->name_len, coffer_tensor_dtype_name(tensor));
    return coffer__fail_tensor(err, COFFER_ERR_DTYPE, tensor->name, tensor->name_len);
}

/* In memory are a piece of the first model, and one of another. */
static coffer_status average_look(void *ctx, const coffer__data_scan_part *piece, uint8_t *memory, coffer_error *err)
{
    average_job *job = ctx;
    const coffer__average *average = job->average;
    uint8_t *other = memory + AVERAGE_PIECE_SIZE;
    coffer_status status = average_read(job, piece, 0, memory, err);
    for (size_t m = 1; m < average->model_count && status == COFFER_OK; m++) {
        status = average_read(job, piece, m, other, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (coffer__average_computes(average, piece->tensor)) {
            average_add_up(job, piece, memory, other);
        } else if (memcmp(memory, other, piece->count) != 0) {
            return average_differs(coffer__average_tensor(average, 0, piece->tensor), err);
        }
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* The pieces of a tensor, added up in their order. */
static void average_find_coefficients(coffer__average *average, const coffer__data_scan *scan,
                                      const coffer__average_sums *sums)
{
    size_t piece = 0;
    for (size_t i = 0; i < average->tensor_count; i++) {
        const uint64_t pieces = coffer__data_scan_parts(scan, i);
        coffer__average_sums all = { 0, 0, 0 };
        for (uint64_t k = 0; k < pieces; k++, piece++) {
            all.both += sums[piece].both;
            all.first += sums[piece].first;
            all.second += sums[piece].second;
        }
        double *coefficients = &average->coefficients[i * average->model_count];
        coffer__average_angle(&all, coefficients[0], coefficients);
    }
}

/* The user is asked while it lasts; what is told is the writing. */
coffer_status coffer__average_scan(coffer__average *average, const coffer_read_options *options, coffer_error *err)
{
    average_job job = { .average = average };
    const coffer__data_scan scan = { .allocator = &average->allocator,
                                     .tensor_count = average->tensor_count,
                                     .length = average_looked_at,
                                     .look = average_look,
                                     .ctx = &job,
                                     .piece_length = AVERAGE_PIECE_SIZE,
                                     .memory_size = 2 * (size_t)AVERAGE_PIECE_SIZE };
    const size_t pieces = (size_t)coffer__data_scan_all_parts(&scan);
    job.sums = coffer__alloc_array(&average->allocator, pieces, sizeof *job.sums, err);
    const coffer_status status = job.sums != NULL ? coffer__data_scan_run(&scan, options, err) : COFFER_ERR_MEMORY;
    if (status == COFFER_OK && average->slerp) {
        average_find_coefficients(average, &scan, job.sums);
    }
    coffer__free_array(&average->allocator, job.sums, pieces, sizeof *job.sums);
    return status;
}
