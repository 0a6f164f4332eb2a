/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: adding tensors, slices of them, and a rank's shares, to given destinations or to memory of the load. */
#include "load_plan.h"

#include "alloc.h"
#include "checked.h"
#include "destinations.h"
#include "device.h"
#include "dtype.h"
#include "error.h"
#include "model.h"
#include "slice.h"

#include <string.h>

#define PLAN_BLOCK_WORDS 1000 /* in a block, unless more are wanted at once */

/* ---- memory that stays where it is ------------------------------------------------------------------------------- */

/* Blocks of words; the newest is the only one with space. Shapes and loops are pointed at by items and copy ops, and
   items are shown to the caller, so these words must stay where they are while more is added; a growing array could
   not do that. */
struct coffer__load_plan_block {
    coffer__load_plan_block *older;
    size_t words;
    size_t used;
    uint64_t word[];
};

/* Words are never given back one by one. What an addition that failed has taken is freed with the plan, which costs
   little and keeps this simple. */
static uint64_t *load_plan_words(coffer_plan *plan, size_t count, coffer_error *err)
{
    coffer__load_plan_block *block = plan->blocks;
    if (block == NULL || count > block->words - block->used) {
        const size_t words = count > PLAN_BLOCK_WORDS ? count : PLAN_BLOCK_WORDS;
        block = words > SIZE_MAX / sizeof(uint64_t) - 8
                    ? NULL
                    : coffer__alloc(&plan->allocator, sizeof *block + words * sizeof(uint64_t));
        if (block == NULL) {
            (void)coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a plan");
            return NULL;
        }
        *block = (coffer__load_plan_block){ .older = plan->blocks, .words = words };
        plan->blocks = block;
    }
    uint64_t *taken = &block->word[block->used];
    block->used += count;
    return taken;
}

/* The allocator is copied, so the caller's struct need not outlive the call; the model must outlive the plan, whose
   items point to its tensors. */
coffer_status coffer_plan_new(coffer_plan **plan, const coffer *model, const coffer_allocator *allocator,
                              coffer_error *err)
{
    if (plan == NULL || model == NULL) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_plan_new was called with a NULL it does not allow");
    }
    const coffer_allocator *used = allocator == NULL ? coffer_libc_allocator() : allocator;
    *plan = coffer__alloc_zeroed(used, sizeof **plan);
    if (*plan == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for a plan");
    }
    (*plan)->allocator = *used;
    (*plan)->model = model;
    return COFFER_OK;
}

/* Loads of the plan have ended before this, as they look at its items and copy ops all the time. */
void coffer_plan_free(coffer_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    const coffer_allocator allocator = plan->allocator;
    while (plan->blocks != NULL) {
        coffer__load_plan_block *block = plan->blocks;
        plan->blocks = block->older;
        coffer__free(&allocator, block, sizeof *block + block->words * sizeof(uint64_t));
    }
    coffer__free(&allocator, plan->items, plan->item_capacity * sizeof *plan->items);
    coffer__free(&allocator, plan->copy_ops, plan->op_capacity * sizeof *plan->copy_ops);
    coffer__free(&allocator, plan, sizeof *plan);
}

/* The host's own memory has no device, whichever way it was said. */
static bool load_plan_is_host(const coffer_device *device)
{
    return device == NULL || device->kind == COFFER_DEVICE_HOST;
}

/* ---- items and copy ops ------------------------------------------------------------------------------------------ */

/* The next copy op of the item that is being added. The loops are copied from the caller's stack. An empty region is no
   copy op. The copy op counts only when it is whole, so a failure in the middle leaves nothing half made: the space
   that was found is used by the next one. */
static coffer_status load_plan_op(coffer_plan *plan, const coffer__region *region, coffer_error *err)
{
    const size_t words = region->rank * sizeof *region->dims / sizeof(uint64_t);
    coffer__copy_op *copy_ops =
        coffer__grow_array(&plan->allocator, plan->copy_ops, plan->op_count, &plan->op_capacity, sizeof *copy_ops, err);
    if (copy_ops == NULL) {
        return COFFER_ERR_MEMORY;
    }
    plan->copy_ops = copy_ops;
    coffer__copy_op *op = &copy_ops[plan->op_count];
    op->region = *region;
    op->region.dims = NULL;
    op->item = (uint32_t)plan->item_count;
    if (words > 0) {
        void *dims = load_plan_words(plan, words, err);
        if (dims == NULL) {
            return COFFER_ERR_MEMORY;
        }
        memcpy(dims, region->dims, region->rank * sizeof *region->dims);
        op->region.dims = dims;
    }
    plan->op_count++;
    return COFFER_OK;
}

/* The item that is being added. It gets its copy ops afterwards, and counts once they are there. Space is made before
   the copy ops, so that nothing can fail any more once they are there. */
static coffer_status load_plan_capacity(coffer_plan *plan, coffer_error *err)
{
    coffer__load_item *items =
        coffer__grow_array(&plan->allocator, plan->items, plan->item_count, &plan->item_capacity, sizeof *items, err);
    if (items == NULL) {
        return COFFER_ERR_MEMORY;
    }
    plan->items = items;
    return COFFER_OK;
}

/* ---- what a slice becomes ---------------------------------------------------------------------------------------- */

/* A result without gaps: run after run, as the box has them. The innermost loop of the box is pushed first, and
   each step in the place is what the loops inside of it fill. */
static void load_plan_dense(coffer__region *region, const coffer__box *box)
{
    uint64_t step = box->run_size;
    for (size_t i = box->rank; i > 0; i--) {
        coffer__region_push(region, box->counts[i - 1], box->strides[i - 1], (int64_t)step);
        step *= box->counts[i - 1];
    }
}

/*
 * A result with strides. The box has merged the tensor's dimensions as far as the file allows; the destination may need
 * them apart. Dimensions of the result are walked from the innermost one, with `inside` bytes of a dense result in each
 * step. As long as that is within a run, a step in the file is as long. Beyond it, it is a step of the loop of the box
 * in which this dimension lies, as often as there are runs in it.
 *
 * The inner loop ends, because the runs in one step never exceed those of the whole box: inside is less than the
 * result's bytes as long as a dimension with two entries or more is left. Dimensions of one entry have no step, and
 * are left out.
 */
static void load_plan_strided(coffer__region *region, const coffer__box *box, const coffer__load_item *item,
                              uint64_t item_size, const int64_t *strides)
{
    uint64_t inside = item_size;
    uint64_t loops = 1; /* runs in one step of the box's loop `loop` */
    size_t loop = box->rank;
    for (size_t i = item->rank; i > 0; i--) {
        const uint64_t count = item->shape[i - 1];
        int64_t from = (int64_t)inside;
        if (count < 2) {
            continue;
        }
        if (inside >= box->run_size) {
            const uint64_t runs = inside / box->run_size;
            while (runs >= loops * box->counts[loop - 1]) {
                loops *= box->counts[--loop];
            }
            from = box->strides[loop - 1] * (int64_t)(runs / loops);
        }
        coffer__region_push(region, count, from, strides[i - 1]);
        inside *= count;
    }
}

/* The one copy op of a slice; none when it is empty. With strides a run is a single element, since nothing is known of
   which dimensions lie together in the place; coffer__region_push joins those that do. */
static coffer_status load_plan_slice(coffer_plan *plan, const coffer__load_item *item, const coffer__box *box,
                                     const int64_t *strides, coffer_error *err)
{
    coffer__region region;
    coffer__region_dim dims[COFFER__BOX_MAX_RANK];
    const uint64_t item_size = coffer__dtype_info_of(item->tensor->dtype)->bits / 8;
    if (item->size == 0) {
        return COFFER_OK;
    }
    coffer__region_begin(&region, dims, item->tensor->offset + box->start, strides == NULL ? box->run_size : item_size,
                         0);
    if (strides == NULL) {
        load_plan_dense(&region, box);
    } else {
        load_plan_strided(&region, box, item, item_size, strides);
    }
    coffer__region_finish(&region);
    return load_plan_op(plan, &region, err);
}

/* The result's shape: the tensor's own where it is whole, so that most items take no memory for it. An index may
   drop a dimension, so the result's rank is known only afterwards; it is never more than the tensor's. */
static coffer_status load_plan_shape(coffer_plan *plan, coffer__load_item *item, const coffer_index *indices,
                                     size_t count, coffer_error *err)
{
    item->shape = item->tensor->shape;
    item->rank = item->tensor->rank;
    if (count == 0) {
        return COFFER_OK;
    }
    uint64_t *shape = load_plan_words(plan, item->tensor->rank, err);
    if (shape == NULL) {
        return COFFER_ERR_MEMORY;
    }
    item->shape = shape;
    return coffer_slice_shape(item->tensor, indices, count, shape, &item->rank, NULL, err);
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

/* The item with what is known of it whatever is taken: the tensor is one of the model's, and its bytes are all
   there. That the tensor's bytes are all there is asked now, so a file that was cut is refused when the plan is
   made and not in the middle of a load. */
static coffer_status load_plan_item(const coffer_plan *plan, const coffer_tensor *tensor, coffer_device *device,
                                    coffer__load_item *item, coffer_error *err)
{
    const coffer__shard *shard = plan == NULL ? NULL : coffer__model_shard(plan->model, tensor);
    if (shard == NULL) {
        return coffer__model_stranger(err);
    }
    *item = (coffer__load_item){ .tensor = tensor,
                                 .shard = (uint32_t)(shard - plan->model->shards),
                                 .first_op = (uint32_t)plan->op_count,
                                 .device = load_plan_is_host(device) ? NULL : device };
    return coffer__shard_check_whole(shard, tensor, err);
}

/* The number by which CUDA and HIP mean the default stream of whichever thread calls. */
#define LOAD_PLAN_STREAM_OF_THREAD 2u

/* Takes the destination over into the item, once its shape is known. A stride fits or does not fit the dimensions of
   the result, not those of the tensor. The host's streams mean nothing, so only those of devices are checked. */
static coffer_status load_plan_destination(coffer__load_item *item, const coffer_destination *destination,
                                           coffer_error *err)
{
    if (destination == NULL) {
        return COFFER_OK;
    }
    item->given = true;
    item->device = load_plan_is_host(destination->device) ? NULL : destination->device;
    item->address = destination->address;
    item->stream = destination->stream;
    if (item->device != NULL && destination->stream == LOAD_PLAN_STREAM_OF_THREAD) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT,
                            "stream 2 is the default stream of whichever thread calls, which the threads of a load "
                            "cannot wait for: give the handle of a stream");
    }
    return coffer__destination_fits(item, destination, err);
}

/* Ends an addition: the item counts, or what it has added is forgotten, and the failure names the tensor. All
   additions end here, those that failed as well, so the plan is always one that can be loaded. The sum of the sizes
   is kept below 2^64, which lets a load count bytes without checking. */
static coffer_status load_plan_end(coffer_plan *plan, coffer__load_item *item, coffer_status status, size_t *number,
                                   coffer_error *err)
{
    uint64_t sum = 0;
    if (status == COFFER_OK && !coffer__add_u64(plan->size, item->size, &sum)) {
        status = coffer__fail(err, COFFER_ERR_OVERFLOW, "the results of a plan have more than 2^64-1 bytes together");
    }
    if (status != COFFER_OK) {
        plan->op_count = item->first_op;
        return coffer__fail_tensor(err, status, item->tensor->name, item->tensor->name_len);
    }
    item->op_count = (uint32_t)(plan->op_count - item->first_op);
    plan->size = sum;
    plan->items[plan->item_count] = *item;
    if (number != NULL) {
        *number = plan->item_count;
    }
    plan->item_count++;
    return COFFER_OK;
}

/* An item is whole if it has all of the tensor's bytes in their order; only such a one can be compared with a
   digest. */
static coffer_status load_plan_fill(coffer_plan *plan, coffer__load_item *item, const coffer_index *indices,
                                    size_t count, const coffer_destination *destination, coffer_error *err)
{
    coffer__box box;
    coffer_status status = coffer__slice_plan(item->tensor, indices, count, &box, err);
    if (status != COFFER_OK) {
        return status;
    }
    item->size = box.run_size * box.run_count;
    item->whole = item->size == item->tensor->size && box.run_count <= 1;
    status = load_plan_shape(plan, item, indices, count, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = load_plan_destination(item, destination, err);
    if (status != COFFER_OK) {
        return status;
    }
    return load_plan_slice(plan, item, &box, destination == NULL ? NULL : destination->strides, err);
}

/* The item is made on the stack and copied into the plan by load_plan_end, so the plan never has one that is half
   made. */
static coffer_status load_plan_add(coffer_plan *plan, const coffer_tensor *tensor, const coffer_index *indices,
                                   size_t count, const coffer_destination *destination, coffer_device *device,
                                   size_t *number, coffer_error *err)
{
    coffer__load_item item = { .tensor = tensor };
    if (indices == NULL && count > 0) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "the slice's indices are NULL");
    }
    coffer_status status = load_plan_item(plan, tensor, device, &item, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = load_plan_capacity(plan, err);
    if (status == COFFER_OK) {
        status = load_plan_fill(plan, &item, indices, count, destination, err);
    }
    return load_plan_end(plan, &item, status, number, err);
}

coffer_status coffer_plan_add(coffer_plan *plan, const coffer_tensor *tensor, const coffer_index *indices, size_t count,
                              const coffer_destination *destination, size_t *item, coffer_error *err)
{
    return load_plan_add(plan, tensor, indices, count, destination, NULL, item, err);
}

coffer_status coffer_plan_add_on(coffer_plan *plan, const coffer_tensor *tensor, const coffer_index *indices,
                                 size_t count, coffer_device *device, size_t *item, coffer_error *err)
{
    return load_plan_add(plan, tensor, indices, count, NULL, device, item, err);
}

/* ---- a rank's share ---------------------------------------------------------------------------------------------- */

/* How a tensor is split: bytes of everything inside of the dimension, and how often there is all of it. Everything
   is in bits until an address is computed, since elements of some dtypes are less than a byte. */
typedef struct load_plan_split {
    size_t dim;
    uint64_t whole;  /* entries of the dimension */
    uint64_t share;  /* of them, this rank's */
    uint64_t inside; /* bits of one entry */
    uint64_t outside;
    uint32_t rank;
    uint32_t world;
    const uint64_t *parts;
    size_t part_count;
} load_plan_split;

/* The parts fill the dimension, and each divides. What bits there are in an entry is known to fit, as the tensor
   does. That each part divides is asked before the sum, so the message names the part that is wrong. The sum is
   compared as it grows: it neither wraps nor goes beyond the dimension. */
static coffer_status load_plan_split_check(const coffer_tensor *tensor, load_plan_split *split, coffer_error *err)
{
    uint64_t sum = 0;
    split->whole = tensor->shape[split->dim];
    split->outside = 1;
    split->inside = coffer__dtype_info_of(tensor->dtype)->bits;
    for (size_t i = 0; i < tensor->rank; i++) {
        uint64_t *side = i < split->dim ? &split->outside : &split->inside;
        *side *= i == split->dim ? 1 : tensor->shape[i];
    }
    if (split->part_count == 0) {
        split->parts = &split->whole;
        split->part_count = 1;
    }
    for (size_t i = 0; i < split->part_count; i++) {
        const uint64_t part = split->parts[i];
        if (part % split->world != 0) {
            coffer__fail(err, COFFER_ERR_INDEX, "%u entries of dimension %u cannot be split evenly among %u ranks",
                         part, (uint64_t)split->dim, (uint64_t)split->world);
            return coffer__fail_sizes(err, COFFER_ERR_INDEX, split->world, part);
        }
        if (!coffer__add_u64(sum, part, &sum) || sum > split->whole) {
            break;
        }
    }
    if (sum != split->whole) {
        coffer__fail(err, COFFER_ERR_INDEX, "the parts of dimension %u do not add up to its %u entries",
                     (uint64_t)split->dim, split->whole);
        return coffer__fail_sizes(err, COFFER_ERR_INDEX, split->whole, sum);
    }
    split->share = sum / split->world;
    return COFFER_OK;
}

/* The share's shape, and its size. Entries that are no whole bytes can only be taken together. All parts are
   checked and not the whole share only: two parts of half a byte each would make a whole one together, but lie
   apart in the file. */
static coffer_status load_plan_split_shape(coffer_plan *plan, coffer__load_item *item, const load_plan_split *split,
                                           coffer_error *err)
{
    const coffer_tensor *tensor = item->tensor;
    uint64_t *shape = load_plan_words(plan, tensor->rank, err);
    if (shape == NULL) {
        return COFFER_ERR_MEMORY;
    }
    memcpy(shape, tensor->shape, tensor->rank * sizeof *shape);
    shape[split->dim] = split->share;
    item->shape = shape;
    item->rank = tensor->rank;
    item->size = tensor->size / split->world;
    for (size_t i = 0; i < split->part_count; i++) {
        if (split->parts[i] / split->world * (split->inside % 8) % 8 != 0) {
            return coffer__fail(err, COFFER_ERR_SLICE_BITS,
                                "%s elements share bytes, and a share of %u entries of dimension %u is no whole bytes",
                                coffer_dtype_name(tensor->dtype), split->parts[i] / split->world, (uint64_t)split->dim);
        }
    }
    return COFFER_OK;
}

/* The copy op of one part, which begins at entry `from` of the dimension, into a destination with strides. `from` is
   the distance of two entries in the tensor, which has all entries of the dimension; how many of them are taken is the
   part's. */
static void load_plan_split_strided(coffer__region *region, const coffer__load_item *item, const load_plan_split *split,
                                    uint64_t count, const int64_t *strides)
{
    uint64_t from = region->width;
    for (size_t i = item->rank; i > 0; i--) {
        coffer__region_push(region, i - 1 == split->dim ? count : item->shape[i - 1], (int64_t)from, strides[i - 1]);
        from *= item->tensor->shape[i - 1];
    }
}

/* A copy op for each part. `entry` is where the part begins in the tensor, `share` where the rank's share of it begins
   in the result. A rank's share of a part is the entries from rank * count on, and the shares of all parts follow
   each other in the result, as if the parts had been split and joined again. Parts without entries make no copy op: a
   region has at least one byte. */
static coffer_status load_plan_split_ops(coffer_plan *plan, const coffer__load_item *item, const load_plan_split *split,
                                         const int64_t *strides, coffer_error *err)
{
    uint64_t entry = 0;
    uint64_t share = 0;
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < split->part_count && status == COFFER_OK; i++) {
        const uint64_t count = split->parts[i] / split->world;
        const uint64_t begin = item->tensor->offset + (entry + split->rank * count) * split->inside / 8;
        const uint64_t item_size = coffer__dtype_info_of(item->tensor->dtype)->bits / 8;
        coffer__region region;
        coffer__region_dim dims[COFFER__BOX_MAX_RANK];
        if (count > 0 && strides == NULL) {
            coffer__region_begin(&region, dims, begin, count * split->inside / 8, share * split->inside / 8);
            coffer__region_push(&region, split->outside, (int64_t)(split->whole * split->inside / 8),
                                (int64_t)(split->share * split->inside / 8));
        } else if (count > 0) {
            coffer__region_begin(&region, dims, begin, item_size, share * (uint64_t)strides[split->dim]);
            load_plan_split_strided(&region, item, split, count, strides);
        }
        if (count > 0) {
            coffer__region_finish(&region);
            status = load_plan_op(plan, &region, err);
        }
        entry += split->parts[i];
        share += count;
    }
    return status;
}

/* A dtype that is not known has no size of an entry, so where a share begins cannot be computed. A share without
   bytes is an item without copy ops. */
static coffer_status load_plan_fill_split(coffer_plan *plan, coffer__load_item *item, load_plan_split *split,
                                          const coffer_destination *destination, coffer_error *err)
{
    if (coffer__dtype_info_of(item->tensor->dtype)->bits == 0) {
        return coffer__fail(err, COFFER_ERR_DTYPE,
                            "a tensor of a dtype that this version does not know can only be read whole");
    }
    coffer_status status = load_plan_split_check(item->tensor, split, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = load_plan_split_shape(plan, item, split, err);
    if (status != COFFER_OK) {
        return status;
    }
    status = load_plan_destination(item, destination, err);
    if (status != COFFER_OK || item->size == 0) {
        return status;
    }
    return load_plan_split_ops(plan, item, split, destination == NULL ? NULL : destination->strides, err);
}

/* A world of one takes the whole tensor, as it is: that is the plain item, whose digest can be checked. */
coffer_status coffer_plan_add_rank(coffer_plan *plan, const coffer_tensor *tensor, size_t dim, const uint64_t *parts,
                                   size_t part_count, uint32_t rank, uint32_t world,
                                   const coffer_destination *destination, coffer_device *device, size_t *item,
                                   coffer_error *err)
{
    coffer__load_item added = { .tensor = tensor };
    load_plan_split split = { .dim = dim, .rank = rank, .world = world, .parts = parts, .part_count = part_count };
    coffer_status status = load_plan_item(plan, tensor, device, &added, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (world == 0 || rank >= world || (parts == NULL && part_count > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "rank %u of %u does not exist, or the parts are NULL",
                            (uint64_t)rank, (uint64_t)world);
    }
    if (dim >= tensor->rank) {
        coffer__fail(err, COFFER_ERR_INDEX, "a tensor of %u dimensions has no dimension %u", (uint64_t)tensor->rank,
                     (uint64_t)dim);
        return coffer__fail_tensor(err, COFFER_ERR_INDEX, tensor->name, tensor->name_len);
    }
    if (world == 1 && part_count == 0) {
        return load_plan_add(plan, tensor, NULL, 0, destination, device, item, err);
    }
    status = load_plan_capacity(plan, err);
    if (status == COFFER_OK) {
        status = load_plan_fill_split(plan, &added, &split, destination, err);
    }
    return load_plan_end(plan, &added, status, item, err);
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

bool coffer__item_is_plain(const coffer_plan *plan, uint32_t item)
{
    const coffer__load_item *of = &plan->items[item];
    return of->op_count == 1 && plan->copy_ops[of->first_op].region.rank == 0;
}

uint8_t coffer__item_alignment(const coffer_plan *plan, uint32_t item)
{
    const uint8_t alignment = coffer__dtype_info_of(plan->items[item].tensor->dtype)->alignment;
    return alignment == 0 ? 1 : alignment;
}

bool coffer__item_can_be_view(const coffer_plan *plan, uint32_t item)
{
    const coffer__load_item *of = &plan->items[item];
    return of->device == NULL && !of->given && of->size > 0 && coffer__item_is_plain(plan, item) &&
           plan->copy_ops[of->first_op].region.reach.begin % coffer__item_alignment(plan, item) == 0;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

size_t coffer_plan_count(const coffer_plan *plan)
{
    return plan == NULL ? 0 : plan->item_count;
}

/* The shape points into the model or into the plan's blocks, and stays valid as long as they do. */
bool coffer_plan_at(const coffer_plan *plan, size_t item, coffer_plan_item *out)
{
    if (plan == NULL || out == NULL || item >= plan->item_count) {
        return false;
    }
    const coffer__load_item *found = &plan->items[item];
    *out = (coffer_plan_item){ .tensor = found->tensor,
                               .shape = found->shape,
                               .rank = found->rank,
                               .size = found->size,
                               .whole = found->whole,
                               .device = found->device };
    return true;
}
