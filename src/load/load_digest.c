/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests on the way: a whole tensor whose file records its digest is hashed while its bytes come, and handed out when
 * it is the one that is recorded. A digest takes the bytes in order, but chunks come in any:
 *
 *     cells of the tensor    | hashed | hashed | being hashed | there | missing | there | …
 *
 * Whoever brings the cell that is next hashes it, and all that are there after it, from the destination to which they
 * were read, while other workers go on. So one thread at a time hashes a tensor, and as a rule its bytes are still in a
 * cache.
 *
 * Where the destination cannot be read, or has gaps, a cell is hashed in its slot, which is not released before the
 * cells before it were hashed. Those are in chunks that were begun earlier, so the first of all that wait never waits.
 */
#include "load_digest.h"

#include "alloc.h"
#include "error.h"
#include "lazy_verify.h"
#include "model.h"
#include "record.h"

#define DIGEST_BITS 64u

/* A tensor that is being hashed. `there`, `next` and `busy` are guarded by the load's lock. The hasher and `hashed`
   belong to whoever has set `busy`, or, in slots, to the thread that has the chunk which begins at `hashed`. */
struct coffer__load_hash {
    coffer_hasher *hasher;
    uint64_t hashed; /* bytes of it, from its beginning */
    size_t next;     /* the cell that is hashed next, of those in which it lies */
    bool busy;       /* a worker is at it */
    size_t cells;
    uint64_t there[]; /* a bit for each cell */
};

/* The lists are read before the workers start, and only looked at from then on, so they need no lock. */
struct coffer__load_digests {
    size_t count;
    coffer__recorded *recorded; /* of each shard; those that the model has itself, or that record nothing, are empty */
};

/* ---- what is recorded -------------------------------------------------------------------------------------------- */

/* Reads the list of a file, if there is one, and checks that it is the one that the file's metadata speak of. The
   digests of the metadata are compared here, before anything is loaded: a list that belongs to another header would
   make tensors look damaged that are not. */
static coffer_status digest_read(const coffer__shard *shard, const coffer_allocator *allocator,
                                 coffer__recorded *recorded, coffer_error *err)
{
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    coffer_hasher *hasher = NULL;
    if (coffer__table_algorithm(shard->table, &algorithm, NULL) == COFFER_ERR_NO_DIGESTS) {
        return COFFER_OK;
    }
    coffer_status status = coffer__recorded_read(recorded, shard->table, allocator, err);
    if (status == COFFER_OK) {
        status = coffer_hasher_new(&hasher, recorded->algorithm, allocator, err);
        if (status == COFFER_OK) {
            status = coffer__recorded_metadata(hasher, shard->table, err);
            coffer_hasher_free(hasher);
        }
    }
    return status == COFFER_OK || shard->path == NULL ? status : coffer__fail_path(err, status, shard->path);
}

/* The list of a shard; NULL when it records nothing. A model that was opened to verify has read the list already,
   and the load uses the same one. */
static const coffer__recorded *digest_list(const coffer_load *load, size_t shard)
{
    const coffer__shard *of = &load->plan->model->shards[shard];
    const coffer__recorded *list = of->trusted != NULL ? &of->recorded : &load->digests->recorded[shard];
    return list->count > 0 ? list : NULL;
}

/* Whether an item can be hashed where it goes: its bytes come to host memory as they are. What is on a device
   cannot be read from here, and in a destination with gaps the bytes are not in one piece. */
static bool digest_is_plain(const coffer_load *load, const coffer__load_item *item)
{
    return item->device == NULL && load->plan->copy_ops[item->first_op].region.rank == 0;
}

/* Whether the digest is the one that is recorded. What is compared is not the digest of the bytes alone but of the
   record, which has the name, dtype and shape as well: bytes of another tensor of the same file are not taken for
   this one's. Without the lock, as this thread alone has the hasher. */
static coffer_status digest_judge(const coffer_load *load, uint32_t item, coffer_hasher *hasher, coffer_error *err)
{
    uint8_t data[COFFER_LARGEST_DIGEST_SIZE];
    uint8_t record[COFFER_LARGEST_DIGEST_SIZE];
    const coffer__load_item *of = &load->plan->items[item];
    const coffer__shard *shard = &load->plan->model->shards[of->shard];
    const coffer__recorded *list = digest_list(load, of->shard);
    coffer_status status = coffer_hasher_finish(hasher, data, list->digest_size, err);
    if (status == COFFER_OK) {
        status = coffer__record_tensor(hasher, of->tensor, data, record, err);
    }
    if (status == COFFER_OK && !coffer__recorded_has(list, record)) {
        status = coffer__fail(err, COFFER_ERR_TENSOR_DIGEST,
                              "the tensor's bytes are not those whose digest the file records: it is damaged");
    }
    if (status != COFFER_OK) {
        return coffer__model_fail(err, status, shard, of->tensor);
    }
    if (shard->trusted != NULL) {
        coffer__lazy_verify_mark(shard, of->tensor);
    }
    return COFFER_OK;
}

/* Chooses how an item is verified. A model that was opened to verify hands out nothing that was not, so what cannot
   be hashed on the way makes its tensor be verified by itself; that proves nothing where the bytes may differ the
   next time. Bytes that differ from one reading to the next cannot be verified apart from those that are handed
   out, and saying so is better than handing out what was not verified. An item of several copy ops is put together of
   parts, and has no digest of its own. */
static coffer_status digest_choose(const coffer_load *load, const coffer__load_item *item, coffer__load_state *state,
                                   coffer_error *err)
{
    const coffer__shard *shard = &load->plan->model->shards[item->shard];
    const bool due = coffer__lazy_verify_is_due(shard, item->tensor);
    state->verify = COFFER__VERIFY_NOT;
    if (item->op_count == 0 || (load->options.unverified && !due)) {
        return COFFER_OK;
    }
    if (item->whole && item->op_count == 1 && digest_list(load, item->shard) != NULL) {
        state->verify = digest_is_plain(load, item) ? COFFER__VERIFY_IN_PLACE : COFFER__VERIFY_IN_SLOT;
    } else if (due && coffer__lazy_verify_is_unstable(shard)) {
        coffer__fail(
            err, COFFER_ERR_UNSUPPORTED,
            "a part of a tensor cannot be verified while it is loaded from %s: load it whole, or open the model "
            "without verifying",
            shard->source.ops->kind);
        return coffer__model_fail(err, COFFER_ERR_UNSUPPORTED, shard, item->tensor);
    } else if (due) {
        state->verify = COFFER__VERIFY_APART;
    }
    return COFFER_OK;
}

/* A tensor without bytes: nothing of it comes, so it is judged before the load begins. */
static coffer_status digest_empty(const coffer_load *load, uint32_t item, coffer_error *err)
{
    coffer_hasher *hasher = NULL;
    coffer_status status =
        coffer_hasher_new(&hasher, digest_list(load, load->plan->items[item].shard)->algorithm, &load->allocator, err);
    if (status == COFFER_OK) {
        status = digest_judge(load, item, hasher, err);
    }
    coffer_hasher_free(hasher);
    load->states[item].verified = status == COFFER_OK;
    return status;
}

static bool digest_is_empty(const coffer_load *load, const coffer__load_item *item)
{
    return item->op_count == 0 && item->whole && !load->options.unverified && digest_list(load, item->shard) != NULL;
}

/* The list of a file is read when the first of its items is met, so files of which nothing is wanted are not read
   for theirs. The digests are attached to the load before anything can fail, so coffer__load_digests_free frees what
   there is. */
coffer_status coffer__load_digests_begin(coffer_load *load, coffer_error *err)
{
    const coffer *model = load->plan->model;
    coffer__load_digests *digests = coffer__alloc_zeroed(&load->allocator, sizeof *digests);
    load->digests = digests;
    if (digests == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a load");
    }
    digests->recorded = coffer__alloc_array(&load->allocator, model->shard_count, sizeof *digests->recorded, err);
    if (digests->recorded == NULL) {
        return COFFER_ERR_MEMORY;
    }
    digests->count = model->shard_count;
    for (size_t i = 0; i < load->plan->item_count; i++) {
        const size_t number = load->plan->items[i].shard;
        const coffer__shard *shard = &model->shards[number];
        coffer_status status = COFFER_OK;
        if (!load->options.unverified && shard->trusted == NULL && digests->recorded[number].digests == NULL) {
            status = digest_read(shard, &load->allocator, &digests->recorded[number], err);
        }
        if (status == COFFER_OK) {
            status = digest_choose(load, &load->plan->items[i], &load->states[i], err);
        }
        if (status == COFFER_OK && digest_is_empty(load, &load->plan->items[i])) {
            status = digest_empty(load, (uint32_t)i, err);
        }
        if (status != COFFER_OK) {
            return status;
        }
    }
    return COFFER_OK;
}

static size_t digest_hash_size(size_t cells)
{
    return sizeof(coffer__load_hash) + (cells + DIGEST_BITS - 1) / DIGEST_BITS * sizeof(uint64_t);
}

/* It may be called again: the pointer is cleared. */
static void digest_free_hash(coffer_load *load, coffer__load_state *state)
{
    if (state->hash != NULL) {
        coffer_hasher_free(state->hash->hasher);
        coffer__free(&load->allocator, state->hash, digest_hash_size(state->hash->cells));
        state->hash = NULL;
    }
}

void coffer__load_digests_free(coffer_load *load)
{
    for (size_t i = 0; load->states != NULL && i < load->plan->item_count; i++) {
        digest_free_hash(load, &load->states[i]);
    }
    if (load->digests != NULL) {
        for (size_t i = 0; i < load->digests->count; i++) {
            if (load->digests->recorded[i].digests != NULL) {
                coffer__recorded_free(&load->digests->recorded[i]);
            }
        }
        coffer__free_array(&load->allocator, load->digests->recorded, load->digests->count,
                           sizeof *load->digests->recorded);
        coffer__free(&load->allocator, load->digests, sizeof *load->digests);
        load->digests = NULL;
    }
}

/* ---- hashing ----------------------------------------------------------------------------------------------------- */

/* Only items of one copy op are hashed, so that copy op is all of the tensor. */
static const coffer__file_span *digest_reach(const coffer_load *load, uint32_t item)
{
    return &load->plan->copy_ops[load->plan->items[item].first_op].region.reach;
}

/* The hash of an item; the first to ask makes it. It is made by the first bytes that come and not when the load
   begins, because a plan may have many thousands of tensors, and few are hashed at a time. The hash is attached
   before its hasher is made, so it is freed in either case. Under the lock. */
static coffer_status digest_hash_of(coffer_load *load, uint32_t item, coffer__load_hash **made, coffer_error *err)
{
    const coffer__file_span *reach = digest_reach(load, item);
    const size_t cells = (size_t)((reach->end - 1) / COFFER__CELL - reach->begin / COFFER__CELL + 1);
    coffer__load_hash *hash = load->states[item].hash;
    *made = hash;
    if (hash != NULL) {
        return COFFER_OK;
    }
    hash = coffer__alloc_zeroed(&load->allocator, digest_hash_size(cells));
    if (hash == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for verifying");
    }
    hash->cells = cells;
    load->states[item].hash = hash;
    *made = hash;
    return coffer_hasher_new(&hash->hasher, digest_list(load, load->plan->items[item].shard)->algorithm,
                             &load->allocator, err);
}

/* `busy` is set here, under the lock, for the worker that is told to hash, and cleared under it when that worker
   finds nothing more. So a cell that arrives in between is either seen by that worker or makes its own the next
   one; none is left. */
coffer_status coffer__load_digest_arrived(coffer_load *load, uint32_t item, uint64_t offset, bool *next,
                                          coffer_error *err)
{
    coffer__load_hash *hash = NULL;
    *next = false;
    const coffer_status status = digest_hash_of(load, item, &hash, err);
    if (status != COFFER_OK || hash == NULL) {
        return status;
    }
    const size_t cell = (size_t)(offset / COFFER__CELL - digest_reach(load, item)->begin / COFFER__CELL);
    hash->there[cell / DIGEST_BITS] |= (uint64_t)1 << cell % DIGEST_BITS;
    *next = !hash->busy && cell == hash->next;
    hash->busy = hash->busy || *next;
    return COFFER_OK;
}

/* How many bytes can be hashed now: to the end of the cells that are there, of which hash->next is the first that
   was not hashed. None: the worker is done with it. Under the lock. Cells are those of the file's grid, so the
   first and the last may be cut by the tensor's ends; the end of what is there is cut accordingly. */
static uint64_t digest_ready(const coffer_load *load, uint32_t item)
{
    coffer__load_hash *hash = load->states[item].hash;
    const coffer__file_span *reach = digest_reach(load, item);
    while (hash->next < hash->cells && (hash->there[hash->next / DIGEST_BITS] >> hash->next % DIGEST_BITS & 1) != 0) {
        hash->next++;
    }
    const uint64_t end = (reach->begin / COFFER__CELL + hash->next) * COFFER__CELL;
    const uint64_t reached = end > reach->end ? reach->end : end;
    return reached > reach->begin + hash->hashed ? reached - reach->begin - hash->hashed : 0;
}

/* The hash is freed after the item was called ready, without the lock: all cells have come, so no other thread
   looks at it. */
static coffer_status digest_finish(coffer_load *load, uint32_t item, coffer_error *err)
{
    const coffer_status status = digest_judge(load, item, load->states[item].hash->hasher, err);
    if (status == COFFER_OK) {
        coffer__os_mutex_lock(&load->mutex);
        load->states[item].verified = true;
        coffer__load_ready(load, item);
        coffer__os_condition_wake_all(&load->changed);
        coffer__os_mutex_unlock(&load->mutex);
        digest_free_hash(load, &load->states[item]);
    }
    return status;
}

/* It goes round until nothing more is there, since cells may have arrived while it hashed and their workers have
   left them to it. `hashed` is changed outside of the lock, by this thread alone while `busy` is set. `busy` stays
   set at the end, so nobody begins again with a tensor that is complete. */
coffer_status coffer__load_digest_run(coffer_load *load, uint32_t item, coffer_error *err)
{
    coffer__load_hash *hash = load->states[item].hash;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): it was a pointer */
    const uint8_t *bytes = (const uint8_t *)(uintptr_t)load->states[item].allocation.address;
    for (;;) {
        coffer__os_mutex_lock(&load->mutex);
        const uint64_t size = digest_ready(load, item);
        const bool over = hash->hashed == load->plan->items[item].size;
        hash->busy = size > 0 || over;
        coffer__os_mutex_unlock(&load->mutex);
        if (over) {
            return digest_finish(load, item, err);
        }
        if (size == 0) {
            return COFFER_OK;
        }
        const coffer_status status =
            coffer_hasher_update(hash->hasher, bytes + (size_t)hash->hashed, (size_t)size, err);
        if (status != COFFER_OK) {
            return status;
        }
        hash->hashed += size;
    }
}

/* ---- in slots ---------------------------------------------------------------------------------------------------- */

/* Takes the turn of a cell; false when it has not come. Under the lock. Nothing is taken as such: the place at
   which the hash is says whose turn it is, and only one chunk begins there. */
static coffer_status digest_turn(coffer_load *load, uint32_t item, uint64_t offset, coffer_error *err)
{
    coffer__load_hash *hash = NULL;
    const coffer_status status = digest_hash_of(load, item, &hash, err);
    if (status != COFFER_OK || hash == NULL) {
        return status;
    }
    return offset - digest_reach(load, item)->begin == hash->hashed ? COFFER_OK : COFFER_NEED_MORE;
}

/* The digest is judged before the last chunk's slot is released, and so before the item can become ready. `hashed`
   moves on under the lock at the end, which is what hands the turn to the thread that holds the next cell; all that
   wait for space are woken, as it is not known which of them that is. */
coffer_status coffer__load_digest_slot(coffer_load *load, uint32_t item, coffer__file_span within, const uint8_t *bytes,
                                       coffer_error *err)
{
    coffer__load_state *state = &load->states[item];
    const uint64_t size = within.end - within.begin;
    coffer__os_mutex_lock(&load->mutex);
    coffer_status status = digest_turn(load, item, within.begin, err);
    coffer__os_mutex_unlock(&load->mutex);
    if (status != COFFER_OK) {
        return status;
    }
    /* Only one chunk has these bytes, so the turn is this thread's alone until `hashed` moves on. */
    status = coffer_hasher_update(state->hash->hasher, bytes, (size_t)size, err);
    const bool over = state->hash->hashed + size == load->plan->items[item].size;
    if (status == COFFER_OK && over) {
        status = digest_judge(load, item, load->states[item].hash->hasher, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    coffer__os_mutex_lock(&load->mutex);
    state->hash->hashed += size;
    state->verified = over;
    if (over) {
        digest_free_hash(load, state);
    }
    coffer__os_condition_wake_all(&load->capacity);
    coffer__os_mutex_unlock(&load->mutex);
    return COFFER_OK;
}

/* ---- apart ------------------------------------------------------------------------------------------------------- */

/* All of the tensor is read for a part of it, which is slow, but nothing less can be compared with its digest. */
coffer_status coffer__load_verify_apart(coffer_load *load, uint32_t item, coffer_error *err)
{
    const coffer_status status =
        coffer__lazy_verify_tensor(load->plan->model, load->plan->items[item].tensor, NULL, err);
    if (status == COFFER_OK) {
        coffer__os_mutex_lock(&load->mutex);
        load->states[item].verified = true;
        coffer__load_ready(load, item);
        coffer__os_condition_wake_all(&load->changed);
        coffer__os_mutex_unlock(&load->mutex);
    }
    return status;
}
