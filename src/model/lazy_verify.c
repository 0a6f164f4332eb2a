/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying on the way: see lazy_verify.h.
 *
 * The copy that a model keeps is shared by counting its users, under the lock of the first shard.
 * The model is one user, and each thread that reads from the copy is another; the last one frees
 * it. So a copy can be replaced while others still read from it.
 */
#include "lazy_verify.h"

#include "alloc.h"
#include "error.h"
#include "record.h"

/* ---- judging ----------------------------------------------------------------------------------------------------- */

/* Makes the record of a tensor from the digest of its data, and looks for it in the shard's
   records. A record covers name, dtype and shape as well, so data that moved to another tensor does
   not pass. A match is marked, which lets later reads skip the hashing. A list has no order that
   means anything, so any record in it will do: it contains the name. The mark is set after the
   comparison and never for a failure. */
static coffer_status lazy_judge_by(coffer_hasher *hasher, const coffer__shard *shard, const coffer_tensor *tensor,
                                   const uint8_t *data, coffer_error *err)
{
    uint8_t record[COFFER_LARGEST_DIGEST_SIZE];
    const coffer_status status = coffer__record_tensor(hasher, tensor, data, record, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (coffer__recorded_has(&shard->recorded, record)) {
        coffer__lazy_verify_mark(shard, tensor);
        return COFFER_OK;
    }
    coffer__fail(err, COFFER_ERR_TENSOR_DIGEST,
                 "tensor %q does not match the file's digests: its bytes, name, dtype or shape changed, or it is new",
                 tensor->name, (size_t)tensor->name_len);
    return coffer__model_fail(err, COFFER_ERR_TENSOR_DIGEST, shard, tensor);
}

coffer_status coffer__lazy_verify_judge(const coffer *model, const coffer_tensor *tensor, const uint8_t *data,
                                        coffer_error *err)
{
    const coffer__shard *shard = coffer__model_shard(model, tensor);
    coffer_hasher *hasher = NULL;
    coffer_status status = coffer_hasher_new(&hasher, shard->recorded.algorithm, &model->allocator, err);
    if (status == COFFER_OK) {
        status = lazy_judge_by(hasher, shard, tensor, data, err);
    }
    coffer_hasher_free(hasher);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Tensors being read. The rows of those that are due also hash them; the others are only moved. */
typedef struct lazy_reading {
    const coffer *model;
    const coffer_read_target *targets;
    size_t count;
    coffer__transfer_op *rows;
    uint8_t (*data)[COFFER_LARGEST_DIGEST_SIZE];
} lazy_reading;

/* Makes the rows. Reading into memory does not use the map, like all reading into memory; a tensor
   that is only verified may. Whether a tensor is due is asked once for each row and kept as its
   algorithm, since another thread may mark it while the rows are carried out. */
static void lazy_plan(const lazy_reading *reading)
{
    for (size_t i = 0; i < reading->count; i++) {
        const coffer_read_target *target = &reading->targets[i];
        coffer__shard *shard = coffer__model_shard(reading->model, target->tensor);
        const bool due = coffer__lazy_verify_is_due(shard, target->tensor);
        reading->rows[i] = coffer__shard_digest_row(
            shard, target->tensor, due ? shard->recorded.algorithm : COFFER_NO_ALGORITHM, reading->data[i]);
        reading->rows[i].to = target->buffer;
        if (target->buffer != NULL) {
            reading->rows[i].map = NULL; /* like all reading into memory */
        }
        if (target->buffer == NULL && !due) {
            reading->rows[i].size = 0; /* another thread has verified it since it was found to be due */
        }
    }
}

/* Judges what was hashed. A hasher is kept as long as the algorithm stays the same: the shards of a
   model rarely differ in it. It stops at the first tensor that does not match. Those before it are
   marked and stay so. */
static coffer_status lazy_judge_rows(const lazy_reading *reading, coffer_error *err)
{
    coffer_hasher *hasher = NULL;
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < reading->count && status == COFFER_OK; i++) {
        /* Only moved, not hashed. */
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
            status = lazy_judge_by(hasher, coffer__model_shard(reading->model, tensor), tensor, reading->data[i], err);
        }
    }
    coffer_hasher_free(hasher);
    return status;
}

/* Reads and judges. The bytes are in the caller's memory before they are judged, so after a failure
   the caller must not use them. Hashing happens in the same pass as reading, on the transfer's
   threads; only the small records are hashed here. */
static coffer_status lazy_run(const lazy_reading *reading, const coffer_read_options *options, coffer_error *err)
{
    size_t failed = reading->count;
    const coffer__transfer_options transfer = coffer__model_transfer(&reading->model->allocator, options, &failed);
    lazy_plan(reading);
    const coffer_status status = coffer__transfer(reading->rows, reading->count, &transfer, err);
    if (status == COFFER_OK) {
        return lazy_judge_rows(reading, err);
    }
    if (failed < reading->count) {
        const coffer_tensor *tensor = reading->targets[failed].tensor;
        coffer__model_fail(err, status, coffer__model_shard(reading->model, tensor), tensor);
    }
    return status;
}

/* Places and sizes were checked by the caller; a target without a buffer is only hashed. */
coffer_status coffer__lazy_verify_read(const coffer *model, const coffer_read_target *targets, size_t count,
                                       const coffer_read_options *options, coffer_error *err)
{
    lazy_reading reading = { .model = model, .targets = targets, .count = count };
    coffer_status status = COFFER_ERR_MEMORY;
    reading.rows = coffer__alloc_array(&model->allocator, count, sizeof *reading.rows, err);
    if (reading.rows == NULL) {
        return status;
    }
    reading.data = coffer__alloc_array(&model->allocator, count, sizeof *reading.data, err);
    if (reading.data != NULL) {
        status = lazy_run(&reading, options, err);
    }
    coffer__free_array(&model->allocator, reading.data, count, sizeof *reading.data);
    coffer__free_array(&model->allocator, reading.rows, count, sizeof *reading.rows);
    return status;
}

/* Verifies a tensor if that is due, without handing out its bytes. */
static coffer_status lazy_look(const coffer *model, const coffer_tensor *tensor, const coffer_read_options *options,
                               coffer_error *err)
{
    const coffer_read_target target = { tensor, NULL, 0 };
    return coffer__lazy_verify_is_due(coffer__model_shard(model, tensor), tensor)
               ? coffer__lazy_verify_read(model, &target, 1, options, err)
               : COFFER_OK;
}

coffer_status coffer__lazy_verify_tensor(const coffer *model, const coffer_tensor *tensor,
                                         const coffer_read_options *options, coffer_error *err)
{
    const coffer_read_options usual = COFFER_READ_OPTIONS_INIT;
    return lazy_look(model, tensor, options == NULL ? &usual : options, err);
}

/* ---- copies of what unstable sources gave -------------------------------------------------------------------------- */

/* The model's copy, if it is of that tensor, with one more user. A tensor is told by its address,
   which is unique within a model. The caller must let go of the copy. */
static coffer__verified *lazy_find_held(const coffer *model, const coffer_tensor *tensor)
{
    coffer__shard *first = &model->shards[0];
    coffer__os_mutex_lock(&first->lock);
    coffer__verified *held = first->verified;
    held = held != NULL && held->tensor == tensor ? held : NULL;
    if (held != NULL) {
        held->users++;
    }
    coffer__os_mutex_unlock(&first->lock);
    return held;
}

/* Makes this the model's copy instead of the previous one, which loses the model as a user. The old
   copy is let go of outside the lock, because letting go takes the lock itself. */
static void lazy_keep(const coffer *model, coffer__verified *held)
{
    coffer__shard *first = &model->shards[0];
    coffer__os_mutex_lock(&first->lock);
    coffer__verified *old = first->verified;
    first->verified = held;
    coffer__os_mutex_unlock(&first->lock);
    coffer__lazy_verify_release(model, old);
}

/* Reads and verifies a whole tensor into a new copy. The copy becomes visible to other threads only
   after it was verified. Two threads may both fetch the same tensor; the later copy stays. The copy
   is as large as the tensor: a slice of a large remote tensor needs that memory once, and the next
   slices of it need no transfer. */
static coffer_status lazy_fetch(const coffer *model, const coffer_tensor *tensor, const coffer_read_options *options,
                                coffer__verified **held, coffer_error *err)
{
    const bool fits = tensor->size < SIZE_MAX - sizeof **held;
    const size_t size = fits ? sizeof **held + (size_t)tensor->size : 0;
    coffer__verified *made = fits ? coffer__alloc(&model->allocator, size) : NULL;
    if (made == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY,
                            "no memory for the %u bytes of the tensor: to verify a part of a remote tensor, all of it "
                            "has to be in memory",
                            tensor->size);
    }
    made->tensor = tensor;
    made->users = 2; /* the model and the caller */
    made->size = size;
    /* Hashed while it arrives. Nobody else can see it yet. */
    const coffer_read_target target = { tensor, made->bytes, tensor->size };
    const coffer_status status = coffer__lazy_verify_read(model, &target, 1, options, err);
    if (status != COFFER_OK) {
        coffer__free(&model->allocator, made, size);
        return status;
    }
    lazy_keep(model, made);
    *held = made;
    return COFFER_OK;
}

/* Reports the progress of a part. Nothing of it has come while its whole tensor is verified. */
typedef struct lazy_waiting {
    const coffer_read_options *options;
    uint64_t size;
} lazy_waiting;

/* The user sees the part's own size, of which 0 bytes are there, and may cancel. */
static int lazy_wait(void *ctx, uint64_t done, uint64_t total)
{
    const lazy_waiting *waiting = ctx;
    (void)done;
    (void)total;
    return waiting->options->progress(waiting->options->progress_ctx, 0, waiting->size);
}

/* A source that is not unstable is verified in place and read again afterwards. For an unstable one, the
   bytes that were verified must be those that are handed out. Of a model that is not verified
   nothing is unstable, and nothing is due: then this does nothing. */
coffer_status coffer__lazy_verify_acquire(const coffer *model, const coffer_tensor *tensor,
                                          const coffer_read_options *options, uint64_t size, coffer__verified **held,
                                          coffer_error *err)
{
    lazy_waiting waiting = { options, size };
    coffer_read_options looking = *options;
    looking.progress = options->progress == NULL ? NULL : lazy_wait;
    looking.progress_ctx = &waiting;
    *held = NULL;
    /* The source reads the same each time, so a mark is enough. */
    if (!coffer__lazy_verify_is_unstable(coffer__model_shard(model, tensor))) {
        return lazy_look(model, tensor, &looking, err);
    }
    /* Slices of the same tensor mostly come one after the other, so one copy serves them. */
    *held = lazy_find_held(model, tensor);
    return *held != NULL ? COFFER_OK : lazy_fetch(model, tensor, &looking, held, err);
}

/* The count changes under the lock; the memory is freed outside of it, by the last user. */
void coffer__lazy_verify_release(const coffer *model, coffer__verified *held)
{
    if (held == NULL) {
        return;
    }
    coffer__shard *first = &model->shards[0];
    coffer__os_mutex_lock(&first->lock);
    const bool last = --held->users == 0;
    coffer__os_mutex_unlock(&first->lock);
    if (last) {
        coffer__free(&model->allocator, held, held->size);
    }
}
