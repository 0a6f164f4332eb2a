/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices: their shape, and their plan as a box of byte runs. Their text is in slice_text.c.
 *
 * Indices follow Python: a range's bounds count from the end when negative and are clamped, its step may
 * be negative, and an integer drops its dimension. Dimensions are walked twice: outermost first to find
 * what is wrong, so that errors name the first bad dimension, and innermost first to lay out the runs.
 * An index is resolved again each time it is needed instead of being stored, so what is kept does not
 * depend on the rank.
 *
 * For example [1:3, ::2] of an F32 tensor of shape [4, 6], whose rows have 24 bytes: the last dimension
 * takes every second element, so runs have 4 bytes, 3 of them 8 bytes apart; the first adds 2 rows 24
 * bytes apart, from byte 24 on. 24 is 3 * 8, so both are one dimension: 6 runs, 8 bytes apart.
 *
 * Bounds are kept as unsigned numbers from 0 to the dimension's size. All signed values of 64 bits are
 * valid input; their magnitudes are taken in unsigned arithmetic.
 */
#include "slice.h"

#include "dtype.h"
#include "error.h"

/* ---- indices and dimensions -------------------------------------------------------------------------------------- */

/*
 * Which index belongs to which dimension: the first `before` indices go with the first dimensions,
 * the last `after` with the last ones, and an ellipsis between them stands for all dimensions that
 * are left. Without an ellipsis `after` is 0, and dimensions without an index are taken whole.
 */
typedef struct slice_frame {
    const coffer_tensor *tensor;
    const coffer_index *indices;
    size_t count;
    size_t before;
    size_t after;
} slice_frame;

/* What is taken of one dimension: `count` indices, the first of them `first`, each `step` away from the one before. */
typedef struct slice_take {
    uint64_t first;
    uint64_t count;
    uint64_t step;
    bool backward;
    bool drops; /* the dimension is not in the result */
} slice_take;

/* What a whole slice comes to. */
typedef struct slice_summary {
    bool empty; /* the result has no elements */
    bool whole; /* it has all elements in their order */
} slice_summary;

static uint64_t slice_magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

/* A bound of a forward range, clamped to 0..size, as Python's slice.indices does. */
static uint64_t slice_bound(int64_t bound, uint64_t size)
{
    const uint64_t magnitude = slice_magnitude(bound);
    if (bound < 0) {
        return magnitude > size ? 0 : size - magnitude;
    }
    return magnitude > size ? size : magnitude;
}

/* A bound of a backward range, clamped, plus one: 0 stands for the place before the first entry,
   which Python writes as -1 after clamping; `size` is the last entry. */
static uint64_t slice_bound_backward(int64_t bound, uint64_t size)
{
    const uint64_t magnitude = slice_magnitude(bound);
    if (bound < 0) {
        return magnitude > size ? 0 : size - magnitude + 1;
    }
    return magnitude >= size ? size : magnitude + 1;
}

/*
 * A backward range takes its indices from `from` down to, and without, `to`. With the backward
 * bounds being one larger, both directions take the entries of the half-open interval [low, high)
 * in steps from one of its ends, and one formula counts them. A range of no entries keeps `first`
 * where it is; it is not used then.
 */
static void slice_take_range(const coffer_index *index, uint64_t size, slice_take *take)
{
    take->step = slice_magnitude(index->step);
    take->backward = index->step < 0;
    take->drops = false;
    uint64_t from = take->backward ? size : 0;
    uint64_t to = take->backward ? 0 : size;
    if (index->has_start) {
        from = take->backward ? slice_bound_backward(index->start, size) : slice_bound(index->start, size);
    }
    if (index->has_stop) {
        to = take->backward ? slice_bound_backward(index->stop, size) : slice_bound(index->stop, size);
    }
    const uint64_t low = take->backward ? to : from;
    const uint64_t high = take->backward ? from : to;
    take->count = low < high ? (high - low - 1) / take->step + 1 : 0;
    take->first = take->backward && take->count > 0 ? from - 1 : from;
}

/* An integer is not clamped: outside the dimension it is an error, as in Python. err->actual has
   the index as given, its sign included, as 64 bits. */
static coffer_status slice_take_one(const coffer_index *index, size_t dimension, uint64_t size, slice_take *take,
                                    coffer_error *err)
{
    const uint64_t magnitude = slice_magnitude(index->start);
    if (index->start < 0 ? magnitude > size : magnitude >= size) {
        coffer__fail(err, COFFER_ERR_INDEX, "index %d is outside dimension %u, which has %u entries", index->start,
                     (uint64_t)dimension, size);
        return coffer__fail_sizes(err, COFFER_ERR_INDEX, size, (uint64_t)index->start);
    }
    *take = (slice_take){ .count = 1, .step = 1, .drops = true };
    take->first = index->start < 0 ? size - magnitude : magnitude;
    return COFFER_OK;
}

/*
 * Resolves the index of one dimension. What has no index of its own, because an ellipsis stands for
 * it or the indices have ended, is taken whole. The text's parser refuses a step of 0, but callers
 * of the library fill in indices themselves.
 */
static coffer_status slice_resolve(const slice_frame *frame, size_t dimension, slice_take *take, coffer_error *err)
{
    const uint64_t size = frame->tensor->shape[dimension];
    const size_t rank = frame->tensor->rank;
    const coffer_index *index = NULL;
    if (dimension < frame->before) {
        index = &frame->indices[dimension];
    } else if (rank - dimension <= frame->after) {
        index = &frame->indices[frame->count - (rank - dimension)];
    }
    if (index == NULL || index->kind == COFFER_INDEX_ALL) {
        *take = (slice_take){ .count = size, .step = 1 };
        return COFFER_OK;
    }
    if (index->kind == COFFER_INDEX_AT) {
        return slice_take_one(index, dimension, size, take, err);
    }
    if (index->step == 0) {
        return coffer__fail(err, COFFER_ERR_STEP, "the step for dimension %u is 0", (uint64_t)dimension);
    }
    slice_take_range(index, size, take);
    return COFFER_OK;
}

/* Finds the ellipsis and checks what does not depend on dimensions: kinds that exist, one ellipsis,
   and no more indices than dimensions. */
static coffer_status slice_frame_make(slice_frame *frame, const coffer_tensor *tensor, const coffer_index *indices,
                                      size_t count, coffer_error *err)
{
    *frame = (slice_frame){ .tensor = tensor, .indices = indices, .count = count, .before = count };
    bool has_ellipsis = false;
    for (size_t i = 0; i < count; i++) {
        if ((unsigned)indices[i].kind > COFFER_INDEX_ELLIPSIS) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "index %u of the slice has an unknown kind", (uint64_t)i);
        }
        if (indices[i].kind != COFFER_INDEX_ELLIPSIS) {
            continue;
        }
        if (has_ellipsis) {
            return coffer__fail(err, COFFER_ERR_ARGUMENT, "a slice can have one ellipsis; this one has more");
        }
        has_ellipsis = true;
        frame->before = i;
        frame->after = count - 1 - i;
    }
    const size_t needed = has_ellipsis ? count - 1 : count;
    if (needed > tensor->rank) {
        coffer__fail(err, COFFER_ERR_INDEX, "%u indices for a tensor of %u dimensions", (uint64_t)needed,
                     (uint64_t)tensor->rank);
        return coffer__fail_sizes(err, COFFER_ERR_INDEX, tensor->rank, needed);
    }
    return COFFER_OK;
}

/* Checks every index and tells what the result comes to. All are checked even when one makes the
   result empty, so that a wrong index never passes because of another. */
static coffer_status slice_check(const slice_frame *frame, slice_summary *summary, coffer_error *err)
{
    *summary = (slice_summary){ .empty = false, .whole = true };
    for (size_t i = 0; i < frame->tensor->rank; i++) {
        slice_take take = { .count = 0 };
        const coffer_status status = slice_resolve(frame, i, &take, err);
        if (status != COFFER_OK) {
            return status;
        }
        if (take.count == 0) {
            summary->empty = true;
        }
        /* A dimension whose count is its size takes every entry once; only the direction can still
           differ. */
        if (take.count != frame->tensor->shape[i] || (take.count > 1 && take.backward)) {
            summary->whole = false;
        }
    }
    return COFFER_OK;
}

/* ---- the box ----------------------------------------------------------------------------------------------------- */

/* Elements of 4 and 6 bits share bytes. Runs are made of whole bytes, so two elements of 4 bits, or
   four of 6 (24 bits), are the least that can be cut off. */
static coffer_status slice_bits_error(const coffer__dtype_info *info, uint64_t run_bits, coffer_error *err)
{
    const uint64_t granule = info->bits == 4 ? 2 : 4;
    coffer__fail(
        err, COFFER_ERR_SLICE_BITS,
        "%s elements share bytes, and this slice takes runs of %u that begin or end inside one; a run must begin and "
        "end at a multiple of %u elements: take the last dimension whole, or with step 1 and such a start and stop",
        info->name, run_bits / info->bits, granule);
    return coffer__fail_sizes(err, COFFER_ERR_SLICE_BITS, granule, run_bits / info->bits);
}

/*
 * Lays out a slice that is not empty. No dimension is 0, so every product here is at most the
 * tensor's bits, which the table has checked.
 *
 * Whole dimensions grow the run until one is not whole; a dimension of one index only moves the
 * start; the others become the box's, merged where one continues the other. Distances are counted
 * in bits up to the end, since elements may be smaller than bytes; whatever does not fall on whole
 * bytes is refused.
 */
static coffer_status slice_layout(const slice_frame *frame, coffer__box *box, coffer_error *err)
{
    const coffer__dtype_info *info = coffer__dtype_info_of(frame->tensor->dtype);
    uint64_t start = 0; /* these three in bits */
    uint64_t run = info->bits;
    uint64_t stride = run;
    box->run_count = 1;
    box->rank = 0;
    for (size_t i = frame->tensor->rank; i > 0; i--) {
        slice_take take = { .count = 0 };
        /* It was resolved before, by slice_check, so it cannot fail. */
        (void)slice_resolve(frame, i - 1, &take, NULL);
        start += take.first * stride;
        if (take.count > 1 && box->rank == 0 && !take.backward && take.step * stride == run) {
            run *= take.count;
        } else if (take.count > 1) {
            if (take.step * stride % 8 != 0) {
                return slice_bits_error(info, run, err);
            }
            /* Fits: the tensor's bits are below 2^64, so this is below 2^61. */
            const int64_t bytes = (int64_t)(take.step * stride / 8);
            coffer__box_push(box, take.count, take.backward ? -bytes : bytes);
        }
        stride *= frame->tensor->shape[i - 1];
    }
    if (start % 8 != 0 || run % 8 != 0) {
        return slice_bits_error(info, run, err);
    }
    box->start = start / 8;
    box->run_size = run / 8;
    coffer__box_reverse(box);
    return COFFER_OK;
}

/*
 * Fills the box, which stands for an empty result when it comes here. A slice that takes everything
 * is one run, whatever the dtype: this is the only way to read a tensor of a dtype that this
 * version does not know, whose elements have no known size.
 */
static coffer_status slice_plan_frame(const slice_frame *frame, coffer__box *box, coffer_error *err)
{
    slice_summary summary;
    const coffer_status status = slice_check(frame, &summary, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (summary.whole) {
        coffer__box_one_run(box, frame->tensor->size);
        return COFFER_OK;
    }
    if (coffer__dtype_info_of(frame->tensor->dtype)->bits == 0) {
        return coffer__fail(err, COFFER_ERR_DTYPE,
                            "a tensor of a dtype that this version does not know can only be read whole");
    }
    return summary.empty ? COFFER_OK : slice_layout(frame, box, err);
}

coffer_status coffer__slice_plan(const coffer_tensor *tensor, const coffer_index *indices, size_t count,
                                 coffer__box *box, coffer_error *err)
{
    slice_frame frame;
    coffer__box_one_run(box, 0);
    coffer_status status = slice_frame_make(&frame, tensor, indices, count, err);
    if (status == COFFER_OK) {
        status = slice_plan_frame(&frame, box, err);
    }
    if (status != COFFER_OK) {
        return coffer__fail_tensor(err, status, tensor->name, tensor->name_len);
    }
    return COFFER_OK;
}

/* ---- shape ------------------------------------------------------------------------------------------------------- */

/* The plan is made only to be checked: a slice that cannot be read, such as one that cuts a byte,
   has no shape either. Each of `shape`, `rank` and `size` may be NULL. */
coffer_status coffer_slice_shape(const coffer_tensor *tensor, const coffer_index *indices, size_t count,
                                 uint64_t *shape, size_t *rank, uint64_t *size, coffer_error *err)
{
    if (tensor == NULL || (indices == NULL && count > 0)) {
        return coffer__fail(err, COFFER_ERR_ARGUMENT, "coffer_slice_shape was called with a NULL it does not allow");
    }
    coffer__box box;
    coffer_status status = coffer__slice_plan(tensor, indices, count, &box, err);
    if (status != COFFER_OK) {
        return status;
    }
    /* From here on nothing can fail: the plan has checked every index. */
    slice_frame frame;
    (void)slice_frame_make(&frame, tensor, indices, count, NULL);
    size_t kept = 0;
    for (size_t i = 0; i < tensor->rank; i++) {
        slice_take take = { .drops = true };
        (void)slice_resolve(&frame, i, &take, NULL);
        if (take.drops) {
            continue;
        }
        if (shape != NULL) {
            shape[kept] = take.count;
        }
        kept++;
    }
    if (rank != NULL) {
        *rank = kept;
    }
    if (size != NULL) {
        *size = box.run_size * box.run_count;
    }
    return COFFER_OK;
}
