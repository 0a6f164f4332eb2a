/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of a model's tensors and of its content, and comparing them with those that its files
 * record. record.h defines them.
 */
#include "alloc.h"
#include "content.h"
#include "error.h"
#include "model.h"
#include "options.h"
#include "packed_file.h"
#include "record.h"
#include "table.h"
#include "transfer.h"

#include <string.h>

/* The tensors that are asked for, and what belongs to each of them. Constant while it runs, but for
   what its arrays hold. */
typedef struct verify_job {
    const coffer *model;
    const coffer_tensor *const *tensors; /* NULL: all, in their order */
    size_t count;
    coffer_digest *digests;
    coffer__recorded *recorded; /* of each shard, if digests are compared with it */
} verify_job;

static const coffer_tensor *verify_tensor(const verify_job *job, size_t i)
{
    return job->tensors == NULL ? coffer_at(job->model, i) : job->tensors[i];
}

/* ---- digests of tensors ------------------------------------------------------------------------------------------ */

/* One row for each tensor, which hashes its data by the algorithm that is asked for, or by that of
   its shard's record. Every tensor is checked before anything is hashed, so a stranger among them,
   or one that is cut, costs no reading. */
static coffer_status verify_plan(const verify_job *job, coffer_algorithm algorithm, coffer__transfer_op *rows,
                                 coffer_error *err)
{
    for (size_t i = 0; i < job->count; i++) {
        const coffer_tensor *tensor = verify_tensor(job, i);
        coffer__shard *shard = coffer__model_shard(job->model, tensor);
        if (shard == NULL) {
            return coffer__model_stranger(err);
        }
        const coffer_status status = coffer__shard_check_whole(shard, tensor, err);
        if (status != COFFER_OK) {
            return status;
        }
        memset(&job->digests[i], 0, sizeof job->digests[i]);
        rows[i] = coffer__shard_digest_row(
            shard, tensor, job->recorded == NULL ? algorithm : job->recorded[shard - job->model->shards].algorithm,
            job->digests[i].data);
    }
    return COFFER_OK;
}

/* Carries out the rows. A failure names the tensor whose row it was. Tensors are hashed by several
   threads, each tensor by one; the digests are undefined after a failure. */
static coffer_status verify_run_rows(const verify_job *job, const coffer__transfer_op *rows,
                                     const coffer_digest_options *options, coffer_error *err)
{
    size_t failed = job->count;
    const coffer__transfer_options transfer = {
        .allocator = &job->model->allocator,
        .progress = options->progress,
        .progress_ctx = options->progress_ctx,
        .threads = options->threads,
        .failed = &failed,
    };
    const coffer_status status = coffer__transfer(rows, job->count, &transfer, err);
    if (status == COFFER_OK || failed >= job->count) {
        return status;
    }
    const coffer_tensor *tensor = verify_tensor(job, failed);
    return coffer__model_fail(err, status, coffer__model_shard(job->model, tensor), tensor);
}

/* Makes the digests of the tensors from those of their data. Rows of one algorithm mostly follow
   each other, so one hasher serves a run of them. This takes little time compared with the data, so
   one thread does it. */
static coffer_status verify_finish_records(const verify_job *job, const coffer__transfer_op *rows, coffer_error *err)
{
    coffer_hasher *hasher = NULL;
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < job->count && status == COFFER_OK; i++) {
        if (rows[i].algorithm != algorithm) {
            coffer_hasher_free(hasher);
            algorithm = rows[i].algorithm;
            status = coffer_hasher_new(&hasher, algorithm, &job->model->allocator, err);
        }
        if (status == COFFER_OK) {
            status =
                coffer__record_tensor(hasher, verify_tensor(job, i), job->digests[i].data, job->digests[i].record, err);
        }
    }
    coffer_hasher_free(hasher);
    return status;
}

/* Computes job->digests, by `algorithm` or by that of each shard's record. The rows live as long as
   the records are made, as they keep each tensor's algorithm. */
static coffer_status verify_digest(const verify_job *job, coffer_algorithm algorithm,
                                   const coffer_digest_options *options, coffer_error *err)
{
    const coffer_allocator *allocator = &job->model->allocator;
    coffer__transfer_op *rows = coffer__alloc_array(allocator, job->count, sizeof *rows, err);
    if (rows == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_status status = verify_plan(job, algorithm, rows, err);
    if (status != COFFER_OK) {
        goto done;
    }
    status = verify_run_rows(job, rows, options, err);
    if (status == COFFER_OK) {
        status = verify_finish_records(job, rows, err);
    }
done:
    coffer__free_array(allocator, rows, job->count, sizeof *rows);
    return status;
}

/* Without a list, `count` must be that of the model: it says how many places the caller
   has made. */
coffer_status coffer_digest_tensors(const coffer *model, const coffer_tensor *const *tensors, size_t count,
                                    coffer_algorithm algorithm, coffer_digest *digests,
                                    const coffer_digest_options *options, coffer_error *err)
{
    coffer_digest_options known;
    if (model == NULL || (digests == NULL && count > 0) || coffer_algorithm_digest_size(algorithm) == 0 ||
        (tensors == NULL && count != coffer_count(model))) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "digests need a model, a known algorithm, and a place for each tensor's");
    }
    const verify_job job = { .model = model, .tensors = tensors, .count = count, .digests = digests };
    const coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    return status == COFFER_OK ? verify_digest(&job, algorithm, &known, err) : status;
}

/* ---- the digest of the content ----------------------------------------------------------------------------------- */

static coffer_status verify_hash_content(coffer_hasher *hasher, const coffer_digest *digests, const uint32_t *order,
                                         size_t count, size_t digest_size, coffer_error *err)
{
    coffer_status status = coffer__content_begin(hasher, count, err);
    for (size_t i = 0; i < count && status == COFFER_OK; i++) {
        status = coffer_hasher_update(hasher, digests[order[i]].record, digest_size, err);
    }
    return status;
}

/* Computes the digest from those of the tensors, in byte order of their names. The caller's size is
   compared with the algorithm's by coffer_hasher_finish. */
static coffer_status verify_content(const coffer *model, const coffer_digest *digests, const uint32_t *order,
                                    coffer_algorithm algorithm, void *digest, size_t digest_size, coffer_error *err)
{
    coffer_hasher *hasher = NULL;
    coffer_status status = coffer_hasher_new(&hasher, algorithm, &model->allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    status =
        verify_hash_content(hasher, digests, order, coffer_count(model), coffer_algorithm_digest_size(algorithm), err);
    if (status == COFFER_OK) {
        status = coffer_hasher_finish(hasher, digest, digest_size, err);
    }
    coffer_hasher_free(hasher);
    return status;
}

/* The digests are by number of the tensor; the order by name is made here. */
coffer_status coffer_digest_content(const coffer *model, const coffer_digest *digests, coffer_algorithm algorithm,
                                    void *digest, size_t digest_size, coffer_error *err)
{
    const size_t count = model == NULL ? 0 : coffer_count(model);
    if (model == NULL || digest == NULL || (digests == NULL && count > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the digest of a model needs the model and all its digests");
    }
    uint32_t *order = coffer__alloc_array(&model->allocator, count, sizeof *order, err);
    if (order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    coffer_sort_by_name(model, order);
    const coffer_status status = verify_content(model, digests, order, algorithm, digest, digest_size, err);
    coffer__free_array(&model->allocator, order, count, sizeof *order);
    return status;
}

/* ---- verifying --------------------------------------------------------------------------------------------------- */

/* Reads what a shard records, once: algorithm is set exactly if it was read. A model may have
   shards whose tensors are not asked for; their records are not read. */
static coffer_status verify_read_shard(const verify_job *job, const coffer__shard *shard, coffer_error *err)
{
    if (shard == NULL) {
        return coffer__model_stranger(err);
    }
    coffer__recorded *recorded = &job->recorded[shard - job->model->shards];
    if (recorded->algorithm != COFFER_NO_ALGORITHM) {
        return COFFER_OK;
    }
    coffer_status status = coffer__recorded_read(recorded, shard->table, &job->model->allocator, err);
    if (status == COFFER_ERR_NO_DIGESTS && coffer__packed_file_sha256(&shard->source, NULL)) {
        status =
            coffer__fail(err, status,
                         "what is packed records no digests of its tensors, so that none can be verified by itself; "
                         "all of it can (coffer verify FILE)");
    }
    return status == COFFER_OK || shard->path == NULL ? status : coffer__fail_path(err, status, shard->path);
}

/* Reads what the shards of the tensors record; all shards when the tensors are all. */
static coffer_status verify_read_shards(const verify_job *job, coffer_error *err)
{
    coffer_status status = COFFER_OK;
    for (size_t i = 0; job->tensors == NULL && i < job->model->shard_count && status == COFFER_OK; i++) {
        status = verify_read_shard(job, &job->model->shards[i], err);
    }
    /* A list may name one shard many times; it is read once. */
    for (size_t i = 0; job->tensors != NULL && i < job->count && status == COFFER_OK; i++) {
        status = verify_read_shard(job, coffer__model_shard(job->model, job->tensors[i]), err);
    }
    return status;
}

/* Compares the digests with the records. Fails for the first tensor that is not recorded, and says
   how many there are. It runs backwards, so that `first` ends as the lowest. All tensors are
   judged, also after a failure, because `sound` should say of each whether it is whole. */
static coffer_status verify_judge_tensors(const verify_job *job, bool *sound, coffer_error *err)
{
    uint64_t changed = 0;
    size_t first = 0;
    for (size_t i = job->count; i > 0; i--) {
        const coffer__shard *shard = coffer__model_shard(job->model, verify_tensor(job, i - 1));
        const coffer__recorded *recorded = &job->recorded[shard - job->model->shards];
        const bool found = coffer__recorded_has(recorded, job->digests[i - 1].record);
        changed += !found;
        first = found ? first : i - 1;
        /* All are marked, also those after the first that does not match. */
        if (sound != NULL) {
            sound[i - 1] = found;
        }
    }
    if (changed == 0) {
        return COFFER_OK;
    }
    const coffer_tensor *tensor = verify_tensor(job, first);
    coffer__fail(err, COFFER_ERR_TENSOR_DIGEST,
                 "tensor %q does not match the file's digests: its bytes, name, dtype or shape changed, or it is new "
                 "(%u of %u tensors do not verify)",
                 tensor->name, (size_t)tensor->name_len, changed, (uint64_t)job->count);
    return coffer__model_fail(err, COFFER_ERR_TENSOR_DIGEST, coffer__model_shard(job->model, tensor), tensor);
}

/* Tensors that exist verify even if others were removed. So when all are verified, their number
   must be that of the record. Fewer records than tensors would have failed before, as some tensor
   would not be recorded. Superseded tensors are recorded with the file, and count. */
static coffer_status verify_judge_count(const coffer__recorded *recorded, const coffer__shard *shard, coffer_error *err)
{
    const size_t count = shard->table->count + shard->table->left_out;
    if (recorded->count == count) {
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_TENSOR_DIGEST,
                 "the file has digests of %u tensors and holds %u: the present ones verify, but others are missing",
                 (uint64_t)recorded->count, (uint64_t)count);
    return coffer__fail_sizes(err, COFFER_ERR_TENSOR_DIGEST, recorded->count, count);
}

/* Verifies of a file what is not in its tensors: the metadata, and the number of tensors. The
   metadata are compared even when only some tensors are asked for; the count is not, as it says
   nothing of those. */
static coffer_status verify_judge_shard(const verify_job *job, size_t i, coffer_error *err)
{
    const coffer__shard *shard = &job->model->shards[i];
    coffer_hasher *hasher = NULL;
    coffer_status status = coffer_hasher_new(&hasher, job->recorded[i].algorithm, &job->model->allocator, err);
    if (status == COFFER_OK) {
        status = coffer__recorded_metadata(hasher, shard->table, err);
    }
    coffer_hasher_free(hasher);
    if (status == COFFER_OK && job->tensors == NULL) {
        status = verify_judge_count(&job->recorded[i], shard, err);
    }
    return status == COFFER_OK || shard->path == NULL ? status : coffer__fail_path(err, status, shard->path);
}

/* Tensors first, then the metadata and counts of each file whose record was read, then what the
   index records of the whole. The order goes from what blames a tensor to what can only blame the
   whole. */
static coffer_status verify_judge(const verify_job *job, bool *sound, coffer_error *err)
{
    coffer_status status = verify_judge_tensors(job, sound, err);
    for (size_t i = 0; i < job->model->shard_count && status == COFFER_OK; i++) {
        if (job->recorded[i].algorithm != COFFER_NO_ALGORITHM) {
            status = verify_judge_shard(job, i, err);
        }
    }
    return status == COFFER_OK ? coffer__content_check(job->model, err) : status;
}

/* Records are read before anything is hashed: a file without them fails at once. */
static coffer_status verify_run(const verify_job *job, bool *sound, const coffer_digest_options *options,
                                coffer_error *err)
{
    coffer_status status = verify_read_shards(job, err);
    if (status == COFFER_OK) {
        status = verify_digest(job, COFFER_NO_ALGORITHM, options, err);
    }
    return status == COFFER_OK ? verify_judge(job, sound, err) : status;
}

/* Holds the shards' records for as long as the tensors are compared with them. */
static coffer_status verify_with(verify_job *job, bool *sound, const coffer_digest_options *options, coffer_error *err)
{
    const coffer *model = job->model;
    coffer_status status = COFFER_ERR_MEMORY;
    job->recorded = coffer__alloc_array(&model->allocator, model->shard_count, sizeof *job->recorded, err);
    if (job->recorded == NULL) {
        return status;
    }
    /* Both arrays are zero at first: a record without an algorithm was not read. */
    job->digests = coffer__alloc_array(&model->allocator, job->count, sizeof *job->digests, err);
    if (job->digests != NULL) {
        status = verify_run(job, sound, options, err);
    }
    coffer__free_array(&model->allocator, job->digests, job->count, sizeof *job->digests);
    for (size_t i = 0; i < model->shard_count; i++) {
        if (job->recorded[i].digests != NULL) {
            coffer__recorded_free(&job->recorded[i]);
        }
    }
    coffer__free_array(&model->allocator, job->recorded, model->shard_count, sizeof *job->recorded);
    return status;
}

/* `sound` may be NULL; otherwise it has space for `count`. It is filled if all digests could be
   computed, whether they match or not. */
coffer_status coffer_verify(const coffer *model, const coffer_tensor *const *tensors, size_t count, bool *sound,
                            const coffer_digest_options *options, coffer_error *err)
{
    coffer_digest_options known;
    if (model == NULL || (tensors == NULL && count != coffer_count(model))) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "verifying needs a model and, without a list of tensors, the number of them all");
    }
    const coffer_status status = coffer__options_copy(&known, sizeof known, options, err);
    if (status != COFFER_OK) {
        return status;
    }
    verify_job job = { .model = model, .tensors = tensors, .count = count };
    return verify_with(&job, sound, &known, err);
}
