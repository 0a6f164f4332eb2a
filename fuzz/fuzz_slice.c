/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes slices: their text, their shape and their plan. The input is a dtype, a shape, and either a slice as text (which
 * then is the input's end, at the edge of what may be touched) or indices as they would come from a program. Everything
 * that a plan says must lie inside the tensor; for small tensors each byte of the result is compared with an oracle that
 * applies Python's rules one element at a time.
 *
 *   dtype u8   bit 7: indices, not text; else the dtype, from the rest
 *   rank u8    the low three bits; bit 7: dimensions that are powers of two, less one when bit 7 of the dimension is set
 *   dimensions, a byte each; the last is taken four times for dtypes smaller than a byte
 */
#define _DEFAULT_SOURCE /* guarded.h */

#include "coffer.h"
#include "fuzz_input.h"
#include "guarded.h"
#include "slice.h"

#define MAX_INDICES 12
#define MAX_DIMENSIONS 8
#define MAX_ELEMENTS 2048 /* that the oracle goes through */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* ---- the input ---- */

static int64_t next_number(fuzz_input *in, bool wide)
{
    uint64_t value = next_byte(in);
    if (!wide) {
        return (int64_t)value - 128;
    }
    for (unsigned i = 1; i < 8; i++) {
        value |= (uint64_t)next_byte(in) << (8 * i);
    }
    return (int64_t)value;
}

static coffer_index next_index(fuzz_input *in)
{
    const uint8_t flags = next_byte(in);
    const bool wide = (flags & 0x80) != 0;
    coffer_index index = { .kind = (coffer_index_kind)((flags & 0x40) != 0 ? COFFER_INDEX_RANGE : flags & 7) };
    index.has_start = (flags & 0x10) != 0;
    index.has_stop = (flags & 0x20) != 0;
    index.start = next_number(in, wide);
    index.stop = next_number(in, wide);
    index.step = next_number(in, wide);
    return index;
}

/* The tensor that the input describes; false when there can be none. */
static bool next_tensor(fuzz_input *in, coffer_tensor *tensor, uint64_t *shape)
{
    const uint8_t dtype = next_byte(in);
    const uint8_t rank = next_byte(in);
    *tensor = (coffer_tensor){ .name = "t", .name_len = 1, .shape = shape };
    tensor->dtype = (coffer_dtype)(1 + (dtype & 0x7F) % COFFER_DTYPE_COUNT);
    tensor->rank = rank % MAX_DIMENSIONS;
    const uint32_t bits = coffer_dtype_bits(tensor->dtype);
    uint64_t product = bits;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        const uint8_t dimension = next_byte(in);
        shape[i] = (rank & 0x80) == 0 ? dimension % 11 : ((uint64_t)1 << dimension % 64) - (dimension >> 7);
        if (bits < 8 && i + 1 == tensor->rank && shape[i] < (uint64_t)1 << 60) {
            shape[i] *= 4;
        }
        if (shape[i] != 0 && product > UINT64_MAX / shape[i]) {
            return false;
        }
        product *= shape[i];
    }
    tensor->size = product / 8;
    return product % 8 == 0;
}

/* ---- text ---- */

static size_t write_index(char *out, size_t capacity, const coffer_index *index)
{
    switch (index->kind) {
    case COFFER_INDEX_ALL:
        return (size_t)snprintf(out, capacity, ":,");
    case COFFER_INDEX_AT:
        return (size_t)snprintf(out, capacity, "%lld,", (long long)index->start);
    case COFFER_INDEX_ELLIPSIS:
        return (size_t)snprintf(out, capacity, "...,");
    default:
        break;
    }
    size_t used = 0;
    if (index->has_start) {
        used += (size_t)snprintf(out, capacity, "%lld", (long long)index->start);
    }
    used += (size_t)snprintf(out + used, capacity - used, ":");
    if (index->has_stop) {
        used += (size_t)snprintf(out + used, capacity - used, "%lld", (long long)index->stop);
    }
    return used + (size_t)snprintf(out + used, capacity - used, ":%lld,", (long long)index->step);
}

static bool same_index(const coffer_index *a, const coffer_index *b)
{
    return a->kind == b->kind && a->has_start == b->has_start && a->has_stop == b->has_stop && a->start == b->start &&
           a->stop == b->stop && a->step == b->step;
}

/* What was understood, written plainly, is understood as the same. */
static void check_written_anew(const coffer_index *indices, size_t count)
{
    char text[MAX_INDICES * 80];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        used += write_index(text + used, sizeof text - used, &indices[i]);
    }
    coffer_index again[MAX_INDICES];
    size_t again_count = MAX_INDICES;
    expect(coffer_slice_parse(text, used, again, &again_count, NULL) == COFFER_OK, "what was written can be read");
    expect(again_count == count, "there are as many indices");
    for (size_t i = 0; i < count; i++) {
        expect(same_index(&indices[i], &again[i]), "the indices are the same");
    }
}

/* Reads the rest of the input as text; false when it is no slice. */
static bool read_text(fuzz_input *in, coffer_index *indices, size_t *count)
{
    const size_t size = in->size - in->at;
    const char *text = (const char *)guarded_copy(in->bytes + in->at, size);
    coffer_error err;
    *count = MAX_INDICES;
    const coffer_status status = coffer_slice_parse(text, size, indices, count, &err);
    if (status == COFFER_ERR_SLICE_SYNTAX || status == COFFER_ERR_STEP) {
        expect(err.code == status && err.offset <= size, "the trouble has a place in the text");
        return false;
    }
    size_t needed = 0;
    const coffer_status counted = coffer_slice_parse(text, size, NULL, &needed, &err);
    if (status == COFFER_ERR_BUFFER_SIZE) {
        expect(counted == status && err.expected > MAX_INDICES, "it is said how many indices there are");
        return false;
    }
    expect(status == COFFER_OK && *count <= MAX_INDICES, "the text was understood");
    expect(counted == (*count > 0 ? COFFER_ERR_BUFFER_SIZE : COFFER_OK), "indices need room");
    check_written_anew(indices, *count);
    return true;
}

/* ---- the oracle: Python's rules, one element at a time ---- */

typedef struct taken {
    int64_t start;
    int64_t stop;
    int64_t step;
    bool drops;
} taken;

static int64_t python_bound(int64_t bound, int64_t length, bool backward)
{
    if (bound < 0) {
        bound += length;
        return bound >= 0 ? bound : backward ? -1 : 0;
    }
    return bound < length ? bound : backward ? length - 1 : length;
}

static coffer_status python_take(const coffer_index *index, int64_t length, taken *take)
{
    *take = (taken){ 0, length, 1, false };
    if (index == NULL || index->kind == COFFER_INDEX_ALL) {
        return COFFER_OK;
    }
    if (index->kind == COFFER_INDEX_AT) {
        if (index->start >= length || index->start < -length) {
            return COFFER_ERR_INDEX;
        }
        const int64_t at = index->start < 0 ? index->start + length : index->start;
        *take = (taken){ at, at + 1, 1, true };
        return COFFER_OK;
    }
    if (index->step == 0) {
        return COFFER_ERR_STEP;
    }
    const bool backward = index->step < 0;
    /* A step longer than the dimension takes one element, however long it is. */
    take->step = index->step > length ? length + 1 : index->step < -length ? -length - 1 : index->step;
    take->start = backward ? length - 1 : 0;
    take->stop = backward ? -1 : length;
    if (index->has_start) {
        take->start = python_bound(index->start, length, backward);
    }
    if (index->has_stop) {
        take->stop = python_bound(index->stop, length, backward);
    }
    return COFFER_OK;
}

/* Which index is that of each dimension (NULL: all of it is taken). */
static coffer_status python_assign(const coffer_tensor *tensor, const coffer_index *indices, size_t count,
                                   const coffer_index **of)
{
    size_t ellipsis = count;
    for (size_t i = 0; i < count; i++) {
        if ((unsigned)indices[i].kind > COFFER_INDEX_ELLIPSIS ||
            (indices[i].kind == COFFER_INDEX_ELLIPSIS && ellipsis < count)) {
            return COFFER_ERR_ARGUMENT;
        }
        ellipsis = indices[i].kind == COFFER_INDEX_ELLIPSIS ? i : ellipsis;
    }
    const size_t named = ellipsis < count ? count - 1 : count;
    if (named > tensor->rank) {
        return COFFER_ERR_INDEX;
    }
    for (size_t i = 0; i < tensor->rank; i++) {
        of[i] = NULL;
    }
    for (size_t i = 0; i < ellipsis; i++) {
        of[i] = &indices[i];
    }
    for (size_t i = ellipsis + 1; i < count; i++) {
        of[tensor->rank - count + i] = &indices[i];
    }
    return COFFER_OK;
}

typedef struct oracle {
    coffer_status status;
    size_t rank; /* of the result */
    uint64_t shape[MAX_DIMENSIONS];
    size_t count;
    uint32_t elements[MAX_ELEMENTS]; /* of the tensor, in the result's order */
} oracle;

static size_t taken_count(const taken *take)
{
    size_t count = 0;
    for (int64_t i = take->start; take->step > 0 ? i < take->stop : i > take->stop; i += take->step) {
        count++;
    }
    return count;
}

/* Goes through the dimensions, outermost first; each multiplies the elements that are taken. */
static void oracle_make(oracle *out, const coffer_tensor *tensor, const coffer_index *indices, size_t count)
{
    const coffer_index *of[MAX_DIMENSIONS];
    static uint32_t next[MAX_ELEMENTS];
    out->status = python_assign(tensor, indices, count, of);
    out->rank = 0;
    out->count = 1;
    out->elements[0] = 0;
    for (size_t i = 0; i < tensor->rank && out->status == COFFER_OK; i++) {
        const int64_t length = (int64_t)tensor->shape[i];
        taken take;
        out->status = python_take(of[i], length, &take);
        if (out->status != COFFER_OK) {
            return;
        }
        if (!take.drops) {
            out->shape[out->rank++] = taken_count(&take);
        }
        size_t used = 0;
        for (size_t k = 0; k < out->count; k++) {
            for (int64_t at = take.start; take.step > 0 ? at < take.stop : at > take.stop; at += take.step) {
                next[used++] = (uint32_t)(out->elements[k] * (uint64_t)length + (uint64_t)at);
            }
        }
        out->count = used;
        memcpy(out->elements, next, used * sizeof next[0]);
    }
}

/* Whether every byte of the result is a byte of the tensor: not when elements that share one are torn apart. */
static bool oracle_whole_bytes(const oracle *said, uint64_t bits)
{
    for (size_t i = 0; i < said->count; i++) {
        const uint64_t to = i * bits;
        const uint64_t from = said->elements[i] * bits;
        if (to % 8 != from % 8 || (to % 8 != 0 && said->elements[i] != said->elements[i - 1] + 1)) {
            return false;
        }
    }
    return said->count * bits % 8 == 0;
}

static void compare_bytes(const oracle *said, const coffer__box *box, uint64_t bits)
{
    expect(box->run_size * box->run_count == said->count * bits / 8, "the plan is as large as the result");
    for (size_t i = 0; i < said->count; i++) {
        for (uint64_t bit = 0; bit < bits; bit += bits < 8 ? 1 : 8) {
            const uint64_t to = i * bits + bit;
            const uint64_t from = said->elements[i] * bits + bit;
            const uint64_t run = coffer__box_run(box, to / 8 / box->run_size);
            expect((run + to / 8 % box->run_size) * 8 + to % 8 == from, "the right bytes are taken");
        }
    }
}

static bool is_small(const coffer_tensor *tensor)
{
    uint64_t product = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] > MAX_ELEMENTS) {
            return false;
        }
        product *= tensor->shape[i] == 0 ? 1 : tensor->shape[i];
    }
    return product <= MAX_ELEMENTS;
}

/* ---- plans ---- */

/* The box lies inside the tensor: no run begins before it or ends behind it. */
static void check_inside(const coffer_tensor *tensor, const coffer__box *box)
{
    uint64_t below = box->start;
    uint64_t above = 0;
    uint64_t runs = 1;
    expect(box->rank <= COFFER__BOX_MAX_RANK, "the box has a bounded rank");
    expect(box->start <= tensor->size && box->run_size <= tensor->size - box->start, "the first run lies inside");
    above = tensor->size - box->start - box->run_size;
    for (size_t i = 0; i < box->rank; i++) {
        const bool back = box->strides[i] < 0;
        const uint64_t stride = back ? 0 - (uint64_t)box->strides[i] : (uint64_t)box->strides[i];
        expect(box->counts[i] >= 2 && stride > 0, "a dimension of the box is one");
        uint64_t *capacity = back ? &below : &above;
        expect(stride <= *capacity / (box->counts[i] - 1), "every run lies inside");
        *capacity -= stride * (box->counts[i] - 1);
        runs *= box->counts[i];
    }
    expect(box->run_count == runs, "there are as many runs as the box has");
    expect(coffer__box_run(box, 0) == box->start, "the first run is at the start");
    expect(coffer__box_run(box, runs - 1) <= tensor->size - box->run_size, "the last run lies inside");
}

static void check_plan(const coffer_tensor *tensor, const coffer_index *indices, size_t count)
{
    coffer__box box;
    coffer_error err;
    const coffer_status status = coffer__slice_plan(tensor, indices, count, &box, &err);
    uint64_t shape[MAX_DIMENSIONS];
    size_t rank = 0;
    uint64_t size = 0;
    expect(coffer_slice_shape(tensor, indices, count, shape, &rank, &size, NULL) == status, "shape and plan agree");
    const uint64_t bits = coffer_dtype_bits(tensor->dtype);
    static oracle said;
    const bool small = is_small(tensor);
    if (small) {
        oracle_make(&said, tensor, indices, count);
        if (said.status == COFFER_OK && !oracle_whole_bytes(&said, bits)) {
            said.status = COFFER_ERR_SLICE_BITS;
        }
        expect(said.status == status, "what can be taken is taken, and what cannot is refused for that reason");
    }
    if (status != COFFER_OK) {
        expect(err.code == status && strcmp(err.tensor, "t") == 0, "the error names the tensor");
        return;
    }
    uint64_t elements = 1;
    for (size_t i = 0; i < rank; i++) {
        elements *= shape[i];
    }
    expect(size == box.run_size * box.run_count, "the size is that of all runs");
    expect(size / bits * 8 + size % bits * 8 / bits == elements, "the size is that of the shape");
    expect((box.run_size == 0) == (box.run_count == 0), "what is empty has no runs");
    if (size > 0) {
        check_inside(tensor, &box);
    }
    if (small) {
        expect(rank == said.rank && (rank == 0 || memcmp(shape, said.shape, rank * sizeof shape[0]) == 0),
               "the shape is Python's");
        compare_bytes(&said, &box, bits);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size > GUARDED_LARGEST) {
        return 0;
    }
    fuzz_input in = { bytes, size, 0 };
    const bool raw = size > 0 && (bytes[0] & 0x80) != 0;
    coffer_tensor tensor;
    uint64_t shape[MAX_DIMENSIONS];
    const bool exists = next_tensor(&in, &tensor, shape);
    coffer_index indices[MAX_INDICES];
    size_t count = 0;
    if (!raw) {
        if (read_text(&in, indices, &count) && exists) {
            check_plan(&tensor, indices, count);
        }
        return 0;
    }
    while (count < MAX_INDICES && in.at < in.size) {
        indices[count++] = next_index(&in);
    }
    if (exists) {
        check_plan(&tensor, indices, count);
    }
    return 0;
}
