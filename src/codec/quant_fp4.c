/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers of 4-bit floats, two in a byte, the low half first:
 *
 *   compressed-tensors  .weight_packed U8, .weight_scale of 16 columns (NVFP4: E4M3, divided by .weight_global_scale) or of
 *                       32 (MXFP4: exponents); BF16 in any case
 *   ModelOpt            .weight U8, .weight_scale E4M3 of 16 columns, times .weight_scale_2
 *   gpt-oss             _blocks U8 [experts, rows, groups, 16], _scales exponents; the model has rows and columns swapped
 */
#include "quant_layouts.h"

#include <string.h>

#define FP4_NV_GROUP 16
#define FP4_MX_GROUP 32

static void fp4_take_codes(coffer__quant *quant)
{
    quant->codes = COFFER__CODES_PAIRS;
    memcpy(quant->values, coffer__quant_e2m1, sizeof quant->values);
}

coffer_status coffer__plan_packed_fp4(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                      coffer_error *err)
{
    coffer__quant_tensor packed;
    *mine = module->find(module->ctx, ".weight_packed", &packed) && packed.dtype == COFFER_U8;
    if (!*mine) {
        return COFFER_OK;
    }
    if (coffer__quant_has(module, ".weight")) {
        return coffer__quant_fail(module, COFFER_ERR_DUPLICATE_NAME, ".weight", "stands next to weight_packed", err);
    }
    const bool nv = coffer__quant_has(module, ".weight_global_scale");
    quant->layout = nv ? "compressed-tensors NVFP4" : "compressed-tensors MXFP4";
    quant->round = COFFER_BF16;
    quant->usual = COFFER_BF16;
    fp4_take_codes(quant);
    coffer_status status = coffer__quant_take_shape(module, quant, &packed, ".weight_packed", 2, err);
    if (status == COFFER_OK) {
        status = coffer__quant_set_scales(module, quant, ".weight_scale", 1, nv ? FP4_NV_GROUP : FP4_MX_GROUP, err);
    }
    if (status != COFFER_OK || !nv) {
        return status;
    }
    quant->scaling = COFFER__SCALE_OVER;
    return coffer__quant_read_float(module, ".weight_global_scale", &quant->global, err);
}

/* Their code 8 is +0. */
coffer_status coffer__plan_modelopt_fp4(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                        coffer_error *err)
{
    coffer__quant_tensor weight;
    *mine = module->find(module->ctx, ".weight", &weight) && weight.dtype == COFFER_U8;
    if (!*mine) {
        return COFFER_OK;
    }
    fp4_take_codes(quant);
    quant->values[8] = 0;
    quant->scaling = COFFER__SCALE_TIMES;
    coffer_status status = coffer__quant_take_shape(module, quant, &weight, ".weight", 2, err);
    if (status == COFFER_OK) {
        status = coffer__quant_set_scales(module, quant, ".weight_scale", 1, FP4_NV_GROUP, err);
    }
    return status == COFFER_OK ? coffer__quant_read_float(module, ".weight_scale_2", &quant->global, err) : status;
}

/* What is stored as [experts, rows, groups, 16] becomes [experts, 32 * groups, rows]. */
static void fp4_take_turned(coffer__quant *quant, const char *blocks, const coffer__quant_tensor *codes,
                            const char *ending, const coffer__quant_tensor *scales)
{
    const uint64_t rows = codes->shape[1];
    const uint64_t groups = codes->shape[2];
    quant->rank = 3;
    quant->shape[0] = codes->shape[0];
    quant->shape[1] = FP4_MX_GROUP * groups;
    quant->shape[2] = rows;
    quant->rows = FP4_MX_GROUP * groups;
    quant->columns = rows;
    quant->count = quant->shape[0] * quant->rows * quant->columns;
    quant->block_column = rows;
    quant->codes = COFFER__CODES_TURNED;
    quant->grid = COFFER__GRID_TURNED;
    quant->scale_dtype = COFFER_F8_E8M0;
    coffer__quant_set_along(quant, COFFER__QUANT_CODES, blocks, codes, groups * 16, rows, 2, 1);
    coffer__quant_set_along(quant, COFFER__QUANT_SCALES, ending, scales, groups, rows, FP4_MX_GROUP, 1);
}

coffer_status coffer__plan_gpt_oss(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                   coffer_error *err)
{
    coffer__quant_tensor codes;
    coffer__quant_tensor scales;
    const char *blocks = coffer__quant_has(module, "_blocks") ? "_blocks" : ".blocks";
    const char *ending = blocks[0] == '_' ? "_scales" : ".scales";
    *mine = module->find(module->ctx, blocks, &codes) && codes.dtype == COFFER_U8 && codes.rank == 4 &&
            codes.shape[3] == 16 && module->find(module->ctx, ending, &scales);
    if (!*mine) {
        return COFFER_OK;
    }
    if (codes.size == 0) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, blocks, "has no elements", err);
    }
    if (scales.rank != 3 || scales.dtype != COFFER_U8 || scales.shape[0] != codes.shape[0] ||
        scales.shape[1] != codes.shape[1] || scales.shape[2] != codes.shape[2]) {
        return coffer__quant_misfit(module, ending, &scales, codes.shape[1], codes.shape[2], err);
    }
    memcpy(quant->values, coffer__quant_e2m1, sizeof quant->values);
    fp4_take_turned(quant, blocks, &codes, ending, &scales);
    return COFFER_OK;
}
