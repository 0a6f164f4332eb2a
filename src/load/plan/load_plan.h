/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan: items, each a tensor or a part of one, and copy ops, each of which says which bytes go where (region.h). An
 * item has one copy op; more where it is put together of several parts, and none where it is empty. Copy ops of an item
 * follow each other. Everything is checked when it is added, so a load that begins has only destinations to compare.
 *
 *   load_plan_add.c   adding tensors, slices, and a rank's shares
 *   split.c           adding all tensors of a model, as a rank takes them; split_packed.c: layers of AWQ and GPTQ
 *   destinations.c   destinations that the caller gives
 *   plan_cost.c       what a plan costs
 */
#ifndef COFFER_LOAD_LOAD_PLAN_H
#define COFFER_LOAD_LOAD_PLAN_H

#include "coffer.h"
#include "region.h"

typedef struct coffer__load_item {
    const coffer_tensor *tensor;
    const uint64_t *shape; /* of the result; the tensor's own, or in the plan's memory */
    size_t rank;
    uint64_t size; /* of the result, in bytes */
    uint32_t shard;
    uint32_t first_op;
    uint32_t op_count;
    bool whole;            /* the tensor's bytes as they are */
    bool given;            /* the caller gave the destination */
    coffer_device *device; /* NULL: host memory */
    uint64_t address;      /* of its place, if it was given */
    uint64_t stream;
} coffer__load_item;

typedef struct coffer__copy_op {
    coffer__region region;
    uint32_t item;
} coffer__copy_op;

typedef struct coffer__load_plan_block coffer__load_plan_block;

struct coffer_plan {
    coffer_allocator allocator;
    const coffer *model;
    coffer__load_item *items;
    size_t item_count;
    size_t item_capacity;
    coffer__copy_op *copy_ops;
    size_t op_count;
    size_t op_capacity;
    coffer__load_plan_block *blocks; /* shapes and loops, which never move */
    uint64_t size;                   /* of all results, in bytes */
};

#endif
