/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a shard and its marks: see lazy_verify_marks.h.
 *
 * A mark is one atomic byte for each tensor. It is stored with release after the tensor was judged
 * and loaded with acquire, so a thread that sees it may rely on the verification without a lock.
 * Marks are never cleared.
 */
#include "lazy_verify_marks.h"

#include "alloc.h"
#include "error.h"
#include "record.h"
#include "table.h"

/* Whether the options ask to verify this shard. COFFER_VERIFY_RECORDED asks for it only if the file
   records something; a record that is malformed counts as one, so damaging it does not turn
   verifying off. */
static bool lazy_is_wanted(const coffer__shard *shard, coffer_verifying verify)
{
    coffer_algorithm algorithm = COFFER_NO_ALGORITHM;
    if (verify == COFFER_VERIFY_RECORDED) {
        return coffer__table_algorithm(shard->table, &algorithm, NULL) != COFFER_ERR_NO_DIGESTS;
    }
    return verify != COFFER_VERIFY_NOTHING;
}

/* Reads the record. The metadata have a digest of their own in it, which is compared at once, since
   they are in memory already. A failure leaves what was read with the shard; coffer__lazy_verify_free
   releases it. */
static coffer_status lazy_read_record(coffer__shard *shard, const coffer_allocator *allocator, coffer_error *err)
{
    coffer_hasher *hasher = NULL;
    coffer_status status = coffer__recorded_read(&shard->recorded, shard->table, allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer_hasher_new(&hasher, shard->recorded.algorithm, allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = coffer__recorded_metadata(hasher, shard->table, err);
    coffer_hasher_free(hasher);
    return status;
}

/* Tensors may be left out of the table after this (sharded_join.c), so all of the header are counted. */
static size_t lazy_marks(const coffer__shard *shard)
{
    return shard->table->count + shard->table->left_out;
}

/* `trusted` is set last: while it is NULL nothing is verified. */
coffer_status coffer__lazy_verify_begin(coffer__shard *shard, coffer_verifying verify,
                                        const coffer_allocator *allocator, coffer_error *err)
{
    if (!lazy_is_wanted(shard, verify)) {
        return COFFER_OK;
    }
    const coffer_status status = lazy_read_record(shard, allocator, err);
    if (status != COFFER_OK) {
        return status;
    }
    shard->trusted = coffer__alloc_array(allocator, lazy_marks(shard), sizeof *shard->trusted, err);
    return shard->trusted != NULL ? COFFER_OK : COFFER_ERR_MEMORY;
}

/* Called before the table is freed, which says how many marks there are. No thread uses a copy any
   more, so it is freed whatever its count says. */
void coffer__lazy_verify_free(coffer__shard *shard, const coffer_allocator *allocator)
{
    if (shard->verified != NULL) {
        coffer__free(allocator, shard->verified, shard->verified->size);
    }
    if (shard->recorded.digests != NULL) {
        coffer__recorded_free(&shard->recorded);
    }
    if (shard->trusted != NULL) {
        coffer__free_array(allocator, shard->trusted, lazy_marks(shard), sizeof *shard->trusted);
    }
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

/* The order of tensors in a table: by offset; at one offset the empty ones come first, and those in
   the order in which they lie in memory. It must be that of coffer_table_at, as lazy_mark_of
   searches by it. */
static bool lazy_before(const coffer_tensor *a, const coffer_tensor *b)
{
    if (a->offset != b->offset) {
        return a->offset < b->offset;
    }
    return a->size != b->size ? a->size < b->size : (uintptr_t)a < (uintptr_t)b;
}

/* Where the mark of a tensor is. A tensor has no number of its own, so its place in the table is
   searched for. The tensor is one of this table's. An index from tensors to marks would cost memory
   in every model; the search costs a few comparisons for each read. */
static _Atomic(uint8_t) *lazy_mark_of(const coffer__shard *shard, const coffer_tensor *tensor)
{
    size_t low = 0;
    size_t high = coffer_table_count(shard->table);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const bool before = lazy_before(coffer_table_at(shard->table, middle), tensor);
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return &shard->trusted[low];
}

bool coffer__lazy_verify_is_unstable(const coffer__shard *shard)
{
    return shard->trusted != NULL && shard->source.is.unstable;
}

/* It may be true for a tensor that another thread is verifying; both then do, with the
   same result. */
bool coffer__lazy_verify_is_due(const coffer__shard *shard, const coffer_tensor *tensor)
{
    if (shard->trusted == NULL) {
        return false;
    }
    return shard->source.is.unstable || atomic_load_explicit(lazy_mark_of(shard, tensor), memory_order_acquire) == 0;
}

void coffer__lazy_verify_mark(const coffer__shard *shard, const coffer_tensor *tensor)
{
    atomic_store_explicit(lazy_mark_of(shard, tensor), 1, memory_order_release);
}
