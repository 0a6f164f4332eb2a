/* SPDX-License-Identifier: Apache-2.0 */
#include "support_load.h"

#include "support_cmocka.h"

#include "support_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANK 4

uint64_t dice_roll(dice *of)
{
    /* splitmix64 */
    uint64_t z = (of->state += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

uint64_t dice_below(dice *of, uint64_t limit)
{
    return limit == 0 ? 0 : dice_roll(of) % limit;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* A tensor of a random dtype and shape, whose size is the answer. Those whose elements are no bytes get a last
   dimension of whole bytes. */
static uint64_t add_random_tensor(dice *of, coffer_header *header, size_t i, uint64_t largest)
{
    static const coffer_dtype dtypes[] = { COFFER_U8,      COFFER_BF16, COFFER_F32, COFFER_F64,     COFFER_F4,
                                           COFFER_F6_E2M3, COFFER_I64,  COFFER_F16, COFFER_F6_E3M2, COFFER_BOOL };
    char name[32];
    uint64_t shape[MAX_RANK] = { 0 };
    const coffer_dtype dtype = dtypes[dice_below(of, sizeof dtypes / sizeof dtypes[0])];
    const bool narrow = dtype == COFFER_F4 || dtype == COFFER_F6_E2M3 || dtype == COFFER_F6_E3M2;
    const size_t rank = narrow ? 1 + (size_t)dice_below(of, MAX_RANK) : (size_t)dice_below(of, MAX_RANK + 1);
    uint64_t left = 1 + dice_below(of, largest / 8);
    for (size_t d = 0; d < rank; d++) {
        shape[d] = dice_below(of, 40) == 0 ? 0 : 1 + dice_below(of, d + 1 == rank ? left : left < 9 ? left : 9);
        left = shape[d] == 0 ? 1 : left / shape[d] + 1;
    }
    if (narrow) {
        shape[rank - 1] = (shape[rank - 1] + 3) / 4 * 4;
    }
    snprintf(name, sizeof name, "layers.%zu.t", i);
    assert_int_equal(coffer_header_add(header, name, strlen(name), dtype, shape, rank, NULL), COFFER_OK);
    uint64_t bits = coffer_dtype_bits(dtype);
    for (size_t d = 0; d < rank; d++) {
        bits *= shape[d];
    }
    return bits / 8;
}

static void write_random(dice *of, coffer_model_writer *writer, uint64_t size, size_t i)
{
    coffer_error err;
    uint8_t *bytes = malloc((size_t)size + 8);
    assert_non_null(bytes);
    for (size_t k = 0; k < size; k += 8) {
        const uint64_t number = dice_roll(of);
        memcpy(bytes + k, &number, 8);
    }
    if (coffer_model_writer_write(writer, i, 0, bytes, size, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    free(bytes);
}

coffer *random_model(dice *of, size_t tensors, uint64_t largest, uint64_t limit, coffer_algorithm digests,
                     const coffer_open_options *options)
{
    coffer_error err;
    coffer *model = NULL;
    coffer_header *header = NULL;
    coffer_model_writer *writer = NULL;
    uint64_t *sizes = malloc(tensors * sizeof *sizes);
    coffer_model_writer_options how = COFFER_MODEL_WRITER_OPTIONS_INIT;
    assert_non_null(sizes);
    assert_int_equal(coffer_header_new(&header, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < tensors; i++) {
        sizes[i] = add_random_tensor(of, header, i, largest);
    }
    coffer_writer_options files = COFFER_WRITER_OPTIONS_INIT;
    files.digests = digests;
    how.max_shard_size = limit;
    how.files = &files;
    if (coffer_model_writer_open(&writer, header, work_path("model.safetensors"), &how, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    for (size_t i = 0; i < tensors; i++) {
        write_random(of, writer, sizes[i], i);
    }
    if (coffer_model_writer_finish(writer, &err) != COFFER_OK ||
        coffer_open(&model, work_path("."), options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    coffer_model_writer_free(writer);
    coffer_header_free(header);
    free(sizes);
    return model;
}

coffer_algorithm some_algorithm(void)
{
    static const coffer_algorithm all[] = { COFFER_XXH3_128, COFFER_SHA256 };
    for (size_t i = 0; i < 2; i++) {
        coffer_hasher *hasher = NULL;
        const bool there = coffer_hasher_new(&hasher, all[i], NULL, NULL) == COFFER_OK;
        coffer_hasher_free(hasher);
        if (there) {
            return all[i];
        }
    }
    return COFFER_NO_ALGORITHM;
}

/* ---- what is wished for ------------------------------------------------------------------------------------------ */

/* A random index for a dimension: all of it, one entry, or a range in either direction. */
static coffer_index random_index(dice *of, uint64_t size)
{
    coffer_index index = { .kind = COFFER_INDEX_ALL };
    const uint64_t kind = dice_below(of, 4);
    if (kind == 0 && size > 0) {
        index.kind = COFFER_INDEX_AT;
        index.start = (int64_t)dice_below(of, size);
    } else if (kind < 3) {
        index.kind = COFFER_INDEX_RANGE;
        index.has_start = dice_below(of, 2) == 0;
        index.has_stop = dice_below(of, 2) == 0;
        index.start = (int64_t)dice_below(of, size + 1) - (int64_t)dice_below(of, 3);
        index.stop = (int64_t)dice_below(of, size + 1);
        index.step = (int64_t)dice_below(of, 5) - 2;
        index.step = index.step == 0 ? 1 : index.step;
    }
    return index;
}

static void wish_read(wish *made, const coffer *model, const coffer_index *indices, size_t count)
{
    coffer_error err;
    made->dense = malloc((size_t)made->size + 1);
    assert_non_null(made->dense);
    if (coffer_read_slice(model, made->tensor, indices, count, made->dense, made->size, NULL, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
}

/* Random strides that keep elements apart: dimensions in any order, with gaps. Returns the bytes that they reach
   over. */
static uint64_t random_strides(dice *of, wish *made)
{
    uint64_t inside = made->item_size;
    bool used[MAX_RANK] = { false };
    for (size_t i = 0; i < made->rank; i++) {
        size_t d = (size_t)dice_below(of, made->rank);
        while (used[d]) {
            d = (d + 1) % made->rank;
        }
        used[d] = true;
        inside += dice_below(of, 3) == 0 ? dice_below(of, 20) : 0;
        made->strides[d] = (int64_t)inside;
        inside *= made->shape[d] == 0 ? 1 : made->shape[d];
    }
    return inside;
}

/* A place for it, if the dice say so. */
static void wish_place(dice *of, wish *made, coffer_destination *place)
{
    const uint64_t bits = coffer_dtype_bits(made->tensor->dtype);
    made->item_size = bits / 8;
    made->capacity = made->size;
    if (dice_below(of, 2) == 0) {
        return;
    }
    if (bits % 8 == 0 && dice_below(of, 2) == 0) {
        made->strides = calloc(MAX_RANK, sizeof *made->strides);
        assert_non_null(made->strides);
        made->capacity = random_strides(of, made);
    }
    made->capacity += dice_below(of, 64);
    if (made->device != NULL) {
        made->capacity += made->capacity == 0 ? 1 : 0;
        assert_int_equal(coffer_device_allocate(made->device, made->capacity, &made->on_device, NULL), COFFER_OK);
        *place = (coffer_destination){
            .device = made->device, .address = made->on_device, .size = made->capacity, .strides = made->strides
        };
        return;
    }
    made->place = malloc((size_t)made->capacity + 1);
    assert_non_null(made->place);
    memset(made->place, 0xAA, (size_t)made->capacity);
    *place =
        (coffer_destination){ .address = (uintptr_t)made->place, .size = made->capacity, .strides = made->strides };
}

static void random_slice(dice *of, wish *made, coffer_plan *plan, const coffer *model)
{
    coffer_error err;
    coffer_index indices[MAX_RANK];
    coffer_destination place;
    size_t item = SIZE_MAX;
    size_t count = dice_below(of, 2) == 0 ? 0 : (size_t)dice_below(of, made->tensor->rank + 1);
    for (size_t i = 0; i < count; i++) {
        indices[i] = random_index(of, made->tensor->shape[i]);
    }
    if (coffer_slice_shape(made->tensor, indices, count, made->shape, &made->rank, &made->size, NULL) != COFFER_OK) {
        count = 0; /* elements that are no whole bytes */
        assert_int_equal(coffer_slice_shape(made->tensor, indices, count, made->shape, &made->rank, &made->size, NULL),
                         COFFER_OK);
    }
    wish_read(made, model, indices, count);
    wish_place(of, made, &place);
    const bool placed = made->place != NULL || made->on_device != 0;
    const coffer_status status =
        placed || made->device == NULL
            ? coffer_plan_add(plan, made->tensor, indices, count, placed ? &place : NULL, &item, &err)
            : coffer_plan_add_on(plan, made->tensor, indices, count, made->device, &item, &err);
    if (status != COFFER_OK) {
        fail_msg("%s", err.message);
    }
}

/* Reads the parts of a share one by one, and puts them together. */
static void share_read(wish *made, const coffer *model, size_t dim, const uint64_t *parts, size_t count, uint32_t rank,
                       uint32_t world)
{
    uint64_t outside = 1;
    uint64_t begin = 0;
    uint64_t at = 0;
    made->dense = malloc((size_t)made->size + 1);
    assert_non_null(made->dense);
    for (size_t i = 0; i < dim; i++) {
        outside *= made->shape[i];
    }
    for (size_t p = 0; p < count; p++) {
        coffer_error err;
        const uint64_t member = parts[p] / world;
        const uint64_t size = made->shape[dim] == 0 ? 0 : made->size / made->shape[dim] * member;
        coffer_index indices[MAX_RANK] = { { .kind = COFFER_INDEX_ALL } };
        uint8_t *part = malloc((size_t)size + 1);
        assert_non_null(part);
        indices[dim] = (coffer_index){ .kind = COFFER_INDEX_RANGE,
                                       .has_start = true,
                                       .has_stop = true,
                                       .start = (int64_t)(begin + rank * member),
                                       .stop = (int64_t)(begin + (rank + 1) * member),
                                       .step = 1 };
        if (coffer_read_slice(model, made->tensor, indices, dim + 1, part, size, NULL, &err) != COFFER_OK) {
            fail_msg("%s", err.message);
        }
        for (uint64_t k = 0; k < outside; k++) {
            memcpy(made->dense + k * (made->size / outside) + at, part + k * (size / outside),
                   (size_t)(size / outside));
        }
        at += size / (outside == 0 ? 1 : outside);
        begin += parts[p];
        free(part);
    }
}

/* A share of a tensor, of one part or two; false when the dice found nothing that can be split. */
static bool random_share(dice *of, wish *made, coffer_plan *plan, const coffer *model)
{
    const coffer_tensor *tensor = made->tensor;
    const uint32_t world = 1 + (uint32_t)dice_below(of, 4);
    const uint32_t rank = (uint32_t)dice_below(of, world);
    const size_t dim = (size_t)dice_below(of, tensor->rank);
    coffer_destination place;
    size_t item = SIZE_MAX;
    if (tensor->rank == 0 || tensor->size == 0 || tensor->shape[dim] % world != 0 ||
        coffer_dtype_bits(tensor->dtype) % 8 != 0) {
        return false;
    }
    const uint64_t first = dice_below(of, tensor->shape[dim] / world + 1) * world;
    const uint64_t parts[] = { first, tensor->shape[dim] - first };
    memcpy(made->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    made->rank = tensor->rank;
    made->shape[dim] /= world;
    made->size = tensor->size / world;
    share_read(made, model, dim, parts, 2, rank, world);
    wish_place(of, made, &place);
    const bool placed = made->place != NULL || made->on_device != 0;
    assert_int_equal(coffer_plan_add_rank(plan, tensor, dim, parts, 2, rank, world, placed ? &place : NULL,
                                          made->device, &item, NULL),
                     COFFER_OK);
    return true;
}

wish random_wish(dice *of, coffer_plan *plan, const coffer *model)
{
    return random_wish_on(of, plan, model, NULL);
}

wish random_wish_on(dice *of, coffer_plan *plan, const coffer *model, coffer_device *device)
{
    wish made = { .tensor = coffer_at(model, (size_t)dice_below(of, coffer_count(model))), .device = device };
    made.shape = calloc(MAX_RANK, sizeof *made.shape);
    assert_non_null(made.shape);
    if (dice_below(of, 3) != 0 || !random_share(of, &made, plan, model)) {
        random_slice(of, &made, plan, model);
    }
    return made;
}

/* ---- what came of it --------------------------------------------------------------------------------------------- */

/* Fills the place as it should be now, element by element. */
static void wish_scatter(const wish *of, uint8_t *expected)
{
    uint64_t index[MAX_RANK] = { 0 };
    for (uint64_t done = 0; done < of->size; done += of->item_size) {
        uint64_t at = 0;
        for (size_t d = 0; d < of->rank; d++) {
            at += index[d] * (uint64_t)of->strides[d];
        }
        memcpy(expected + at, of->dense + done, (size_t)of->item_size);
        for (size_t d = of->rank; d > 0 && ++index[d - 1] == of->shape[d - 1]; d--) {
            index[d - 1] = 0;
        }
    }
}

static void wish_assert_place(const wish *of, const uint8_t *found)
{
    uint8_t *expected = malloc((size_t)of->capacity + 1);
    assert_non_null(expected);
    memset(expected, 0xAA, (size_t)of->capacity);
    if (of->strides == NULL) {
        memcpy(expected, of->dense, (size_t)of->size);
    } else {
        wish_scatter(of, expected);
    }
    assert_memory_equal(found, expected, (size_t)of->capacity);
    free(expected);
}

/* The same from a copy of what a device has. */
static void wish_assert_on_device(const wish *of, uint64_t address)
{
    const uint64_t size = of->on_device != 0 ? of->capacity : of->size;
    uint8_t *found = malloc((size_t)size + 1);
    assert_non_null(found);
    assert_int_equal(coffer_device_read(of->device, address, found, size, NULL), COFFER_OK);
    if (of->on_device != 0) {
        assert_true(address == of->on_device);
        wish_assert_place(of, found);
    } else {
        assert_memory_equal(found, of->dense, (size_t)size);
    }
    free(found);
}

void wish_assert_fulfilled(const wish *of, uint64_t address)
{
    const uint8_t *found = (const uint8_t *)(uintptr_t)address;
    if (of->device != NULL) {
        wish_assert_on_device(of, address);
    } else if (of->place == NULL) {
        assert_non_null(found);
        assert_memory_equal(found, of->dense, (size_t)of->size);
    } else {
        assert_ptr_equal(found, of->place);
        wish_assert_place(of, found);
    }
}

void wish_free(wish *of)
{
    coffer_device_release(of->device, of->on_device, of->capacity);
    free(of->dense);
    free(of->place);
    free(of->strides);
    free(of->shape);
}
