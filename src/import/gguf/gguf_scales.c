/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block of NVFP4 has a scale of eight bits for each 16 elements, whose range is small. What the model was trained with
 * is a number of F32 more, of the whole tensor, or of each expert where the outermost dimension counts experts:
 *
 *   blk.0.ffn_up.weight         NVFP4  [64, 128]
 *   blk.0.ffn_up.scale          F32    [1]
 *   blk.0.ffn_up_exps.weight    NVFP4  [64, 128, 8]
 *   blk.0.ffn_up_exps.scale     F32    [8]
 *
 * Programs multiply by it after the matrix, so numbers without it would be wrong ones, and look right. The factors go to the
 * piece of the weight. Their own row is left out, or whoever loads both would multiply twice.
 */
#include "gguf_scales.h"

#include "alloc.h"
#include "error.h"
#include "gguf_blocks.h"
#include "sort.h"
#include "writing.h"

#include <string.h>

#define SCALES_MAX 65536u /* factors of one tensor; models have a few hundred experts */

/* Rows by name, since the two of a pair may be in different files of a set. */
typedef struct gguf_scaling {
    const coffer__input_files *input;
    coffer__import_plan *plan;
    uint32_t *order;      /* rows of the plan, by name */
    coffer__writing text; /* whatever text is being made */
} gguf_scaling;

/* A name that is looked for. */
typedef struct gguf_scale_name {
    const char *text;
    size_t len;
} gguf_scale_name;

/* The piece of a row. Each row of a GGUF file has a storage of its own with one piece. */
static coffer__import_plan_piece *scales_piece(const gguf_scaling *scaling, const coffer__import_plan_row *row)
{
    coffer__import_plan_piece *pieces = scaling->plan->pieces.items;
    return &pieces[coffer__import_plan_storages(scaling->plan)[row->storage].first];
}

static bool scales_is_nvfp4(const gguf_scaling *scaling, const coffer__import_plan_row *row)
{
    const coffer__import_plan_piece *piece = scales_piece(scaling, row);
    return piece->coding == COFFER__CODING_BLOCKS && piece->as.blocks.type == COFFER__GGUF_NVFP4;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static bool scales_before(const void *ctx, uint32_t a, uint32_t b)
{
    const coffer__import_plan_row *rows = coffer__import_plan_rows(ctx);
    return coffer__import_plan_compare_texts(ctx, rows[a].name, rows[b].name) < 0;
}

static coffer_status scales_sort(gguf_scaling *scaling, coffer_error *err)
{
    const size_t count = scaling->plan->rows.count;
    scaling->order = coffer__alloc_array(scaling->plan->allocator, count, sizeof *scaling->order, err);
    if (scaling->order == NULL) {
        return COFFER_ERR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        scaling->order[i] = (uint32_t)i;
    }
    coffer__sort(scaling->order, count, scales_before, scaling->plan);
    return COFFER_OK;
}

static int scales_compare(const void *ctx, size_t i, const void *wanted)
{
    const gguf_scaling *scaling = ctx;
    const gguf_scale_name *name = wanted;
    size_t len = 0;
    const char *text =
        coffer__import_plan_text(scaling->plan, coffer__import_plan_rows(scaling->plan)[scaling->order[i]].name, &len);
    return coffer__compare_names(text, len, name->text, name->len);
}

/* The row of a tensor's factors; NULL when there is none. Of two of one name neither is taken: the plan is refused
   for that later, which would not happen if one of them were skipped here. */
static coffer__import_plan_row *scales_find(gguf_scaling *scaling, const coffer__import_plan_row *weight)
{
    static const char ending[] = ".weight";
    size_t len = 0;
    size_t found = 0;
    coffer__import_plan_row *rows = scaling->plan->rows.items;
    const char *name = coffer__import_plan_text(scaling->plan, weight->name, &len);
    if (len < sizeof ending - 1 || memcmp(name + len - (sizeof ending - 1), ending, sizeof ending - 1) != 0) {
        return NULL;
    }
    scaling->text.used = 0;
    coffer__write(&scaling->text, name, len - (sizeof ending - 1));
    coffer__write_text(&scaling->text, ".scale");
    const gguf_scale_name wanted = { scaling->text.text, scaling->text.used };
    if (scaling->text.failed ||
        !coffer__find_sorted(scaling->plan->rows.count, scales_compare, scaling, &wanted, &found)) {
        return NULL;
    }
    return found > 0 && scales_compare(scaling, found - 1, &wanted) == 0 ? NULL : &rows[scaling->order[found]];
}

/* ---- multiplying ------------------------------------------------------------------------------------------------- */

/* Whether so many factors are those of the whole, or of the slices of the outermost dimension, which is the first one
   in a plan. The two innermost ones are the matrix. */
static bool scales_fit(const gguf_scaling *scaling, const coffer__import_plan_row *weight, uint64_t count)
{
    const uint64_t outermost = weight->rank > 2 ? coffer__import_plan_dimensions(scaling->plan, weight)[0].size : 1;
    return count <= SCALES_MAX && (count == 1 || count == outermost);
}

/* Reads the factors, in the order of bytes that plans have them in, and keeps them as a text of the plan. */
static coffer_status scales_read(gguf_scaling *scaling, const coffer__import_plan_row *factors, uint32_t *number,
                                 coffer_error *err)
{
    const coffer__import_plan_piece *piece = scales_piece(scaling, factors);
    const size_t size = (size_t)piece->size;
    scaling->text.used = 0;
    char *bytes = coffer__write_space(&scaling->text, size + 1);
    if (bytes == NULL) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the scales of a tensor");
    }
    const coffer_status status =
        scaling->input->read(scaling->input->ctx, piece->file, piece->offset, bytes, size, err);
    if (status != COFFER_OK) {
        return status;
    }
    for (size_t i = 0; factors->swap != 0 && i < size; i += 4) {
        const char swapped[4] = { bytes[i + 3], bytes[i + 2], bytes[i + 1], bytes[i] };
        memcpy(bytes + i, swapped, sizeof swapped);
    }
    return coffer__import_plan_put_text(scaling->plan, bytes, size, number, err);
}

/* The row of the factors remains, and says where they went. */
static coffer_status scales_skip(gguf_scaling *scaling, coffer__import_plan_row *factors,
                                 const coffer__import_plan_row *weight, coffer_error *err)
{
    size_t len = 0;
    const char *name = coffer__import_plan_text(scaling->plan, weight->name, &len);
    scaling->text.used = 0;
    coffer__write_text(&scaling->text, "it is multiplied into ");
    coffer__write(&scaling->text, name, len);
    if (scaling->text.failed) {
        return coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the scales of a tensor");
    }
    factors->fate = COFFER_FATE_SKIPPED;
    return coffer__import_plan_put_text(scaling->plan, scaling->text.text, scaling->text.used, &factors->reason, err);
}

static coffer_status scales_multiply(gguf_scaling *scaling, const coffer__import_plan_row *weight, coffer_error *err)
{
    coffer__import_plan_row *factors = scales_find(scaling, weight);
    if (factors == NULL) {
        return scaling->text.failed ? coffer__fail(err, COFFER_ERR_MEMORY, "no memory for the name of a tensor")
                                    : COFFER_OK;
    }
    const coffer__import_plan_piece *piece = scales_piece(scaling, factors);
    if (factors->dtype != COFFER_F32 || !scales_fit(scaling, weight, piece->size / sizeof(float))) {
        coffer__fail_at(err, COFFER_ERR_UNSUPPORTED, piece->offset,
                        "the second scales of a tensor of NVFP4 are neither one F32 nor one for each of its matrices: "
                        "--raw keeps both");
        return coffer__import_plan_fail_row(scaling->plan, factors, COFFER_ERR_UNSUPPORTED, err);
    }
    const coffer_status status = scales_read(scaling, factors, &scales_piece(scaling, weight)->as.blocks.scales, err);
    return status == COFFER_OK ? scales_skip(scaling, factors, weight, err) : status;
}

/* Most files have no such blocks, and are not sorted. The number of rows does not change meanwhile, and nor do their
   places. */
coffer_status coffer__gguf_multiply_scales(const coffer__input_files *input, coffer__import_plan *plan,
                                           coffer_error *err)
{
    gguf_scaling scaling = { .input = input, .plan = plan, .text = { .allocator = plan->allocator } };
    coffer_status status = COFFER_OK;
    for (size_t i = 0; i < plan->rows.count && status == COFFER_OK; i++) {
        const coffer__import_plan_row *row = &coffer__import_plan_rows(plan)[i];
        if (!scales_is_nvfp4(&scaling, row)) {
            continue;
        }
        status = scaling.order == NULL ? scales_sort(&scaling, err) : COFFER_OK;
        if (status == COFFER_OK) {
            status = scales_multiply(&scaling, row, err);
        }
    }
    coffer__free_array(plan->allocator, scaling.order, plan->rows.count, sizeof *scaling.order);
    coffer__writing_free(&scaling.text);
    return status;
}
