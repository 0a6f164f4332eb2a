/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tensors a fetch takes. The caller lists them by pointer, in any order; the plan asks by number. The list is
 * sorted by address once, so a model of n tensors costs O(n log n), however many are listed.
 */
#include "fetch.h"

#include "alloc.h"
#include "error.h"
#include "sort.h"

/* Borrows the caller's list; only `order` is its own. */
typedef struct wanted_list {
    const coffer_tensor *const *tensors;
    size_t count;
    uint32_t *order; /* of the list, sorted by the addresses of the tensors */
} wanted_list;

/* Addresses of different arrays are compared as integers, because comparing the pointers themselves
   would be undefined. */
static bool wanted_before(const void *ctx, uint32_t a, uint32_t b)
{
    const wanted_list *list = ctx;
    return (uintptr_t)list->tensors[a] < (uintptr_t)list->tensors[b];
}

/* Binary search by address. Needs the order that wanted_before defines. */
static bool wanted_has(const wanted_list *list, const coffer_tensor *tensor)
{
    size_t low = 0;
    size_t high = list->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const coffer_tensor *there = list->tensors[list->order[middle]];
        if (there == tensor) {
            return true;
        }
        if ((uintptr_t)there < (uintptr_t)tensor) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

/* A tensor that is wanted must be of this model and whole: half of a tensor must not pass for all
   of it. The address alone is looked up first, so a pointer that was never a tensor is refused
   without being read. */
static coffer_status wanted_check(const coffer *model, const coffer_tensor *tensor, coffer_error *err)
{
    const coffer__shard *shard = coffer__model_shard(model, tensor);
    return shard == NULL ? coffer__model_stranger(err) : coffer__shard_check_whole(shard, tensor, err);
}

/* Looks every tensor of the model up in the list, so listing one twice does no harm. job->wanted is
   by the number that coffer_at takes. */
static void wanted_mark(coffer__download *job, wanted_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        list->order[i] = (uint32_t)i;
    }
    coffer__sort(list->order, list->count, wanted_before, list);
    for (size_t i = 0; i < coffer_count(job->model); i++) {
        job->wanted[i] = wanted_has(list, coffer_at(job->model, i));
    }
}

/* A NULL list stands for all tensors; then `wanted` stays NULL, which tells a fetch of the whole
   model from a selection that happens to be everything. fetch_free releases `wanted`. All are
   checked before anything is allocated. One byte more than there are tensors is allocated, so that
   a model without tensors does not look like a failure. */
coffer_status coffer__fetch_choose(coffer__download *job, const coffer_tensor *const *tensors, size_t count,
                                   coffer_error *err)
{
    wanted_list list = { .tensors = tensors, .count = count };
    if (count > UINT32_MAX || (tensors == NULL && count != coffer_count(job->model))) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the count is not that of the model's tensors, nor of a list");
    }
    /* With or without a list, a tensor that is not whole in its file is refused. */
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = tensors == NULL ? coffer_at(job->model, i) : tensors[i];
        const coffer_status status = wanted_check(job->model, tensor, err);
        if (status != COFFER_OK) {
            return status;
        }
    }
    if (tensors == NULL) {
        return COFFER_OK;
    }
    const size_t order_size = (count + 1) * sizeof *list.order;
    list.order = count < SIZE_MAX / sizeof *list.order ? coffer__alloc(job->allocator, order_size) : NULL;
    job->wanted = coffer__alloc_zeroed(job->allocator, coffer_count(job->model) + 1);
    if (list.order == NULL || job->wanted == NULL) {
        coffer__free(job->allocator, list.order, order_size);
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory to choose from %u tensors",
                            (uint64_t)coffer_count(job->model));
    }
    wanted_mark(job, &list);
    coffer__free(job->allocator, list.order, order_size);
    return COFFER_OK;
}
