/* SPDX-License-Identifier: Apache-2.0 */
#include "digest.h"

#include "alloc.h"
#include "checked.h"
#include "error.h"
#include "sort.h"

#include <string.h>

/* Bytes between two updates of a hasher. What is hashed right after it was read is still in the
   processor's cache, so reads are small; a map costs no copy, so its chunks only bound the time
   between two looks at the thread pool. */
#define DIGEST_READ_CHUNK ((uint64_t)256 << 10)
#define DIGEST_MAP_CHUNK ((uint64_t)4 << 20)
/* For far sources: a round trip costs more than the cache saves. */
#define DIGEST_FAR_CHUNK ((uint64_t)2 << 20)
#define DIGEST_ALONE_SIZE ((uint64_t)1 << 20) /* below it starting a thread costs more than it brings */
#define DIGEST_DEFAULT_THREADS 16u
#define DIGEST_MAX_THREADS 64u

/* ---- one op ----------------------------------------------------------------------------------------------------- */

/* Sets *bytes to a chunk of the op in memory: in the map, or where it was read to, which is its
   place or the scratch memory. A mapped op that has a place is copied first and hashed there, so
   that the digest is of the bytes that the caller gets, even if the file changes at that moment. */
static coffer_status digest_fetch(const coffer__filler *worker, const coffer__transfer_op *op, uint64_t at,
                                  uint64_t size, const uint8_t **bytes, coffer_error *err)
{
    uint8_t *to = op->to != NULL ? (uint8_t *)op->to + (size_t)at : worker->scratch;
    if (op->map == NULL) {
        *bytes = to;
        return coffer__source_read_watched(op->source, op->offset + at, to, (size_t)size, &worker->base.watch, err);
    }
    *bytes = op->map + (size_t)(op->offset + at);
    if (op->to != NULL) {
        memcpy(to, *bytes, (size_t)size);
        *bytes = to;
    }
    return COFFER_OK;
}

/* Bytes that are hashed at a time. */
static uint64_t digest_chunk(const coffer__transfer_op *op)
{
    if (op->map != NULL && op->to == NULL) {
        return DIGEST_MAP_CHUNK;
    }
    return coffer__transfer_op_is_far(op) ? DIGEST_FAR_CHUNK : DIGEST_READ_CHUNK;
}

/* A hasher that was left in the middle of a op is not used again: the thread pool stops, and it is freed.
   After each chunk the thread pool is told, which on the calling thread also asks the progress callback. */
coffer_status coffer__digest_op(const coffer__filler *worker, const coffer__hashers *hashers,
                                const coffer__transfer_op *op, coffer_error *err)
{
    const uint64_t most = digest_chunk(op);
    coffer_hasher *hasher = hashers->of[op->algorithm];
    for (uint64_t at = 0; at < op->size;) {
        const uint64_t size = op->size - at < most ? op->size - at : most;
        const uint8_t *bytes = NULL;
        coffer_status status = digest_fetch(worker, op, at, size, &bytes, err);
        if (status == COFFER_OK) {
            status = coffer_hasher_update(hasher, bytes, (size_t)size, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
        at += size;
        if (coffer__thread_pool_advance(&worker->base, size)) {
            return COFFER_OK;
        }
    }
    return coffer_hasher_finish(hasher, op->digest, coffer_algorithm_digest_size(op->algorithm), err);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Longest first; equal sizes in the order of the ops, so that the order is the same on every run. */
static bool digest_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__transfer_op *ops = ctx;
    return ops[a].size != ops[b].size ? ops[a].size > ops[b].size : a < b;
}

/* Counts, allocates, fills and sorts. Numbers of ops are 32 bits, which halves the memory; more
   ops than that fit in no model, and are answered as a lack of memory. The sum is checked, since
   ops may hash the same bytes any number of times. */
coffer_status coffer__streams_begin(coffer__streams *streams, const coffer__transfer_op *ops, size_t count,
                                    const coffer_allocator *allocator, coffer_error *err)
{
    *streams = (coffer__streams){ .ops = ops };
    for (size_t i = 0; i < count; i++) {
        streams->count += ops[i].algorithm != COFFER_NO_ALGORITHM;
    }
    if (streams->count == 0) {
        return COFFER_OK;
    }
    streams->order_size = streams->count * sizeof *streams->order;
    streams->order = count < UINT32_MAX / sizeof *streams->order ? coffer__alloc(allocator, streams->order_size) : NULL;
    if (streams->order == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to order %u tensors", (uint64_t)streams->count);
    }
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].algorithm == COFFER_NO_ALGORITHM) {
            continue;
        }
        streams->order[found++] = (uint32_t)i;
        if (!coffer__add_u64(streams->total, ops[i].size, &streams->total)) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "more than 2^64-1 bytes cannot be hashed at once");
        }
    }
    coffer__sort(streams->order, streams->count, digest_before, ops);
    return COFFER_OK;
}

void coffer__streams_free(coffer__streams *streams, const coffer_allocator *allocator)
{
    coffer__free(allocator, streams->order, streams->order_size);
}

const coffer__transfer_op *coffer__streams_next(coffer__streams *streams)
{
    return streams->next < streams->count ? &streams->ops[streams->order[streams->next++]] : NULL;
}

/* How many threads the user wants, or are usual: one for each processor, and 16 where a source is
   far, since those threads mostly wait. */
static uint64_t digest_most_threads(const coffer__streams *streams, uint32_t wanted)
{
    if (wanted > 0) {
        return wanted < DIGEST_MAX_THREADS ? wanted : DIGEST_MAX_THREADS;
    }
    for (size_t i = 0; i < streams->count; i++) {
        if (coffer__transfer_op_is_far(&streams->ops[streams->order[i]])) {
            return DIGEST_DEFAULT_THREADS;
        }
    }
    const unsigned processors = coffer__os_processors();
    return processors < DIGEST_DEFAULT_THREADS ? processors : DIGEST_DEFAULT_THREADS;
}

/* Never more than there are streams, or than there is a MiB of work for. The number of processors is
   a system call, which costs more than reading a small tensor: it is not asked for when it cannot
   matter. */
size_t coffer__streams_threads(const coffer__streams *streams, uint32_t wanted)
{
    const uint64_t worth = streams->total / DIGEST_ALONE_SIZE + 1;
    const uint64_t useful = worth < streams->count ? worth : streams->count;
    if (useful <= 1) {
        return (size_t)useful;
    }
    const uint64_t most = digest_most_threads(streams, wanted);
    return (size_t)(most < useful ? most : useful);
}

/* Only what is read and has no place goes through scratch memory. */
size_t coffer__streams_scratch(const coffer__streams *streams)
{
    uint64_t most = 0;
    for (size_t i = 0; i < streams->count; i++) {
        const coffer__transfer_op *op = &streams->ops[streams->order[i]];
        const uint64_t chunk = digest_chunk(op);
        const bool needed = op->map == NULL && op->to == NULL && op->size > 0;
        most = needed && chunk > most ? chunk : most;
    }
    return (size_t)most;
}

/* ---- hashers ----------------------------------------------------------------------------------------------------- */

coffer_status coffer__hashers_make(coffer__hashers *hashers, const coffer__streams *streams,
                                   const coffer_allocator *allocator, coffer_error *err)
{
    for (size_t i = 0; i < streams->count; i++) {
        const coffer_algorithm algorithm = streams->ops[streams->order[i]].algorithm;
        if (hashers->of[algorithm] != NULL) {
            continue;
        }
        const coffer_status status = coffer_hasher_new(&hashers->of[algorithm], algorithm, allocator, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

void coffer__hashers_free(coffer__hashers *hashers)
{
    for (size_t i = 0; i < COFFER__DIGEST_ALGORITHMS; i++) {
        coffer_hasher_free(hashers->of[i]);
    }
}
