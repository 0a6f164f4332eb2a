/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers of a byte for each element: FP8 and int8, with scales of everything, rows, blocks or groups.
 *
 *   DeepSeek                 F8_E4M3, _scale_inv of blocks, which multiplies for all its name; experts may be FP4
 *   compressed-tensors       F8_E4M3 or I8, .weight_scale, whose dtype is that of the arithmetic; .weight_zero_point
 *   ModelOpt, FBGEMM, Quark  F8_E4M3, .weight_scale of F32 with one rounding
 *   ComfyUI                  .scale_weight, or .weight_scale with a format: the scale is rounded to the result's dtype
 */
#include "error.h"
#include "quant_layouts.h"
#include "text.h"

#include <string.h>

#define FP8_BLOCK 128
#define FP8_GROUP 32 /* of MX formats */

static bool fp8_is(coffer_dtype dtype)
{
    return dtype == COFFER_F8_E4M3 || dtype == COFFER_F8_E5M2;
}

coffer__quant_codes coffer__quant_codes_of(coffer_dtype dtype)
{
    return dtype == COFFER_F8_E4M3   ? COFFER__CODES_E4M3
           : dtype == COFFER_F8_E5M2 ? COFFER__CODES_E5M2
                                     : COFFER__CODES_I8;
}

/* The block size that the configuration states, or the usual one. */
static void fp8_block(const coffer__quant_module *module, uint64_t block[2])
{
    const coffer__quant_config *config = module->config;
    block[0] = config->block[0] != 0 ? config->block[0] : FP8_BLOCK;
    block[1] = config->block[1] != 0 ? config->block[1] : FP8_BLOCK;
    for (size_t i = 0; i < config->group_count; i++) {
        if (config->group_blocks[i][0] != 0 && config->group_blocks[i][1] != 0) {
            block[0] = config->group_blocks[i][0];
            block[1] = config->group_blocks[i][1];
        }
    }
}

/* Scales of exponents are of groups of 32, and only they are. */
static uint64_t fp8_group(const coffer__quant_module *module, const char *ending)
{
    coffer__quant_tensor scales;
    const bool found = module->find(module->ctx, ending, &scales);
    return found && (scales.dtype == COFFER_U8 || scales.dtype == COFFER_F8_E8M0) ? FP8_GROUP : 0;
}

/* FP4 of experts: pairs in I8, with exponents of 32 columns. */
static coffer_status fp8_plan_fp4(const coffer__quant_module *module, coffer__quant *quant, const char *ending,
                                  const char *scales, const coffer__quant_tensor *weight, coffer_error *err)
{
    quant->layout = "DeepSeek FP4";
    quant->codes = COFFER__CODES_PAIRS;
    memcpy(quant->values, coffer__quant_e2m1, sizeof quant->values);
    coffer_status status = coffer__quant_take_shape(module, quant, weight, ending, 2, err);
    return status == COFFER_OK ? coffer__quant_set_scales(module, quant, scales, 1, FP8_GROUP, err) : status;
}

static coffer_status fp8_plan_blocks(const coffer__quant_module *module, coffer__quant *quant, const char *ending,
                                     const char *scales, bool *mine, coffer_error *err)
{
    coffer__quant_tensor weight;
    uint64_t block[2];
    *mine = module->find(module->ctx, ending, &weight) && (fp8_is(weight.dtype) || weight.dtype == COFFER_I8);
    if (!*mine) {
        return COFFER_OK;
    }
    if (weight.dtype == COFFER_I8) {
        return fp8_plan_fp4(module, quant, ending, scales, &weight, err);
    }
    fp8_block(module, block);
    quant->codes = coffer__quant_codes_of(weight.dtype);
    coffer_status status = coffer__quant_take_shape(module, quant, &weight, ending, 1, err);
    if (status == COFFER_OK) {
        status = coffer__quant_fit_scales(module, quant, scales, block, 0, err);
    }
    quant->usual = coffer__quant_usual_of(quant->scale_dtype);
    return status;
}

coffer_status coffer__plan_fp8_blocks(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                      coffer_error *err)
{
    const bool named = coffer__quant_has(module, ".weight");
    return fp8_plan_blocks(module, quant, named ? ".weight" : "", named ? ".weight_scale_inv" : "_scale_inv", mine,
                           err);
}

/* The names that DeepSeek's and Mistral's own files have. */
coffer_status coffer__plan_fp8_own(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                   coffer_error *err)
{
    const char *scales = coffer__quant_has(module, ".scale") ? ".scale" : ".qscale_weight";
    return fp8_plan_blocks(module, quant, ".weight", scales, mine, err);
}

/* ---- .weight_scale ----------------------------------------------------------------------------------------------- */

/* Zero points of I8, one for each scale. */
static coffer_status fp8_take_zeros(const coffer__quant_module *module, coffer__quant *quant, coffer_error *err)
{
    static const char ending[] = ".weight_zero_point";
    coffer__quant_tensor zeros;
    if (!module->find(module->ctx, ending, &zeros)) {
        return COFFER_OK;
    }
    const coffer__quant_part *scales = &quant->parts[COFFER__QUANT_SCALES];
    const uint64_t columns = scales->line / (coffer_dtype_bits(quant->scale_dtype) / 8);
    if (zeros.dtype != COFFER_I8 || zeros.size != scales->size / (coffer_dtype_bits(quant->scale_dtype) / 8)) {
        return coffer__quant_misfit(module, ending, &zeros, scales->lines, columns, err);
    }
    quant->parts[COFFER__QUANT_ZEROS] = *scales;
    quant->parts[COFFER__QUANT_ZEROS].ending = ending;
    quant->parts[COFFER__QUANT_ZEROS].line = columns;
    quant->parts[COFFER__QUANT_ZEROS].size = zeros.size;
    quant->zeros = COFFER__ZEROS_VALUES;
    quant->zero_dtype = COFFER_I8;
    quant->formula = COFFER__FORMULA_SHIFTED;
    return COFFER_OK;
}

/* What differs between the programs that use these names. */
static void fp8_take_method(const coffer__quant_module *module, coffer__quant *quant, bool is_int)
{
    const bool exponents = quant->scale_dtype == COFFER_F8_E8M0;
    if (coffer__quant_says(module, "compressed-tensors")) {
        quant->layout = exponents ? "compressed-tensors MXFP8"
                        : is_int  ? "compressed-tensors int8"
                                  : "compressed-tensors FP8";
        quant->round = exponents ? COFFER_BF16 : quant->scale_dtype;
    } else if (coffer__quant_says(module, "modelopt")) {
        quant->layout = exponents ? "ModelOpt MXFP8" : "ModelOpt FP8";
        quant->scaling = module->like_modelopt ? COFFER__SCALE_ROUNDED : COFFER__SCALE_AS_IS;
    } else if (coffer__quant_says(module, "fbgemm_fp8")) {
        quant->layout = "FBGEMM FP8";
    } else if (coffer__quant_says(module, "quark")) {
        quant->layout = "Quark FP8";
    } else {
        quant->layout = is_int ? "int8" : "FP8";
    }
}

coffer_status coffer__plan_weight_scale(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                        coffer_error *err)
{
    coffer__quant_tensor weight;
    uint64_t block[2];
    *mine = module->find(module->ctx, ".weight", &weight) && (fp8_is(weight.dtype) || weight.dtype == COFFER_I8);
    if (!*mine) {
        return COFFER_OK;
    }
    fp8_block(module, block);
    quant->codes = coffer__quant_codes_of(weight.dtype);
    coffer_status status = coffer__quant_take_shape(module, quant, &weight, ".weight", 1, err);
    if (status == COFFER_OK) {
        status =
            coffer__quant_fit_scales(module, quant, ".weight_scale", block, fp8_group(module, ".weight_scale"), err);
    }
    if (status == COFFER_OK) {
        status = fp8_take_zeros(module, quant, err);
    }
    quant->usual = coffer__quant_usual_of(quant->scale_dtype);
    fp8_take_method(module, quant, weight.dtype == COFFER_I8);
    return status;
}

/* ---- ComfyUI ----------------------------------------------------------------------------------------------------- */

#define COMFY_FORMAT 32

/* What a layer says of its format. */
typedef struct comfy_format {
    char text[COMFY_FORMAT];
    bool turned; /* the basis is rotated */
    const coffer__quant_module *module;
} comfy_format;

static void comfy_visit(void *ctx, const coffer__walk_value *value)
{
    comfy_format *format = ctx;
    if (value->depth == 1 && value->kind == '"' && coffer__span_is(value->path[0], "format")) {
        coffer__span_copy(value->text, format->text, sizeof format->text);
    }
    format->turned = format->turned || (value->depth == 1 && coffer__span_is(value->path[0], "convrot") &&
                                        !coffer__span_is(value->text, "false"));
}

/* The same within the metadata of the file: layers.NAME.format. */
static void comfy_visit_all(void *ctx, const coffer__walk_value *value)
{
    comfy_format *format = ctx;
    const coffer__quant_module *module = format->module;
    if (value->depth != 3 || !coffer__span_is(value->path[0], "layers") || value->path[1].len != module->stem_len ||
        memcmp(value->path[1].text, module->stem, module->stem_len) != 0) {
        return;
    }
    coffer__walk_value inner = *value;
    inner.path[0] = value->path[2];
    inner.depth = 1;
    comfy_visit(format, &inner);
}

static coffer_status comfy_read_format(const coffer__quant_module *module, comfy_format *format, coffer_error *err)
{
    coffer__quant_tensor text;
    char bytes[4096];
    size_t len = 0;
    format->module = module;
    if (module->find(module->ctx, ".comfy_quant", &text)) {
        if (text.dtype != COFFER_U8 || text.size == 0 || text.size > sizeof bytes) {
            return coffer__quant_fail(module, COFFER_ERR_UNSUPPORTED, ".comfy_quant", "is no short text", err);
        }
        const coffer_status status = module->read(module->ctx, ".comfy_quant", bytes, (size_t)text.size, err);
        return status == COFFER_OK
                   ? coffer__walk_json(bytes, (size_t)text.size, "comfy_quant", comfy_visit, format, err)
                   : status;
    }
    const char *metadata = module->metadata(module->ctx, "_quantization_metadata", &len);
    return metadata != NULL ? coffer__walk_json(metadata, len, "_quantization_metadata", comfy_visit_all, format, err)
                            : COFFER_OK;
}

/* Weights are padded to multiples of 16 or 32, and only a bias tells of how many rows there were. */
static void comfy_cut(const coffer__quant_module *module, coffer__quant *quant, uint64_t multiple)
{
    coffer__quant_tensor bias;
    quant->padded = true;
    if (module->find(module->ctx, ".bias", &bias) && bias.rank == 1 && bias.shape[0] > 0 &&
        coffer__quant_ceil(bias.shape[0], multiple) * multiple == quant->rows) {
        quant->padded = false;
        coffer__quant_set_matrix(quant, bias.shape[0], quant->columns);
    }
}

/* Scales in tiles of 128 rows by 4 groups. */
static coffer_status comfy_take_tiles(const coffer__quant_module *module, coffer__quant *quant, uint64_t group,
                                      coffer_error *err)
{
    coffer__quant_tensor scales;
    if (!module->find(module->ctx, ".weight_scale", &scales)) {
        return coffer__quant_fail(module, COFFER_ERR_NO_TENSOR, ".weight_scale", "lacks its scales", err);
    }
    const uint64_t lines = coffer__quant_ceil(quant->rows, 128);
    const uint64_t columns = coffer__quant_ceil(coffer__quant_ceil(quant->columns, group), 4);
    const bool is_byte = coffer_dtype_bits(scales.dtype) == 8;
    if (!is_byte || quant->rank != 2 || scales.size != lines * columns * 512) {
        return coffer__quant_misfit(module, ".weight_scale", &scales, lines * 128, columns * 4, err);
    }
    quant->grid = COFFER__GRID_TILED;
    quant->scale_dtype = group == 16 ? COFFER_F8_E4M3 : COFFER_F8_E8M0;
    coffer__quant_set_part(quant, COFFER__QUANT_SCALES, ".weight_scale", &scales, columns * 512, lines, 128);
    comfy_cut(module, quant, group);
    quant->block_column = group;
    return COFFER_OK;
}

static coffer_status comfy_plan_nvfp4(const coffer__quant_module *module, coffer__quant *quant,
                                      const coffer__quant_tensor *weight, coffer_error *err)
{
    quant->layout = "ComfyUI NVFP4";
    quant->codes = COFFER__CODES_PAIRS;
    quant->high_first = true;
    quant->scaling = COFFER__SCALE_TIMES_ROUNDED;
    memcpy(quant->values, coffer__quant_e2m1, sizeof quant->values);
    coffer_status status = coffer__quant_take_shape(module, quant, weight, ".weight", 2, err);
    if (status == COFFER_OK) {
        status = comfy_take_tiles(module, quant, 16, err);
    }
    return status == COFFER_OK ? coffer__quant_read_float(module, ".weight_scale_2", &quant->global, err) : status;
}

static coffer_status comfy_plan_bytes(const coffer__quant_module *module, coffer__quant *quant,
                                      const coffer__quant_tensor *weight, const char *scales, coffer_error *err)
{
    const uint64_t block[] = { weight->rank > 1 ? weight->shape[weight->rank - 2] : 1,
                               weight->rank > 0 ? weight->shape[weight->rank - 1] : 1 };
    quant->codes = coffer__quant_codes_of(weight->dtype);
    const coffer_status status = coffer__quant_take_shape(module, quant, weight, ".weight", 1, err);
    return status == COFFER_OK ? coffer__quant_fit_scales(module, quant, scales, block, 0, err) : status;
}

static coffer_status comfy_wrong_dtype(const coffer__quant_module *module, coffer_error *err)
{
    return coffer__quant_fail(module, COFFER_ERR_DTYPE, ".weight", "has another dtype than its format in ComfyUI", err);
}

static coffer_status comfy_plan_format(const coffer__quant_module *module, coffer__quant *quant,
                                       const coffer__quant_tensor *weight, const char *format, coffer_error *err)
{
    const bool is_fp8 = coffer__same_text(format, "float8_e4m3fn") || coffer__same_text(format, "float8_e5m2");
    if (is_fp8) {
        quant->layout = "ComfyUI scaled FP8";
        quant->scaling = COFFER__SCALE_ROUNDED;
        return fp8_is(weight->dtype) ? comfy_plan_bytes(module, quant, weight, ".weight_scale", err)
                                     : comfy_wrong_dtype(module, err);
    }
    if (coffer__same_text(format, "int8_tensorwise")) {
        quant->layout = "ComfyUI int8";
        return weight->dtype == COFFER_I8 ? comfy_plan_bytes(module, quant, weight, ".weight_scale", err)
                                          : comfy_wrong_dtype(module, err);
    }
    if (coffer__same_text(format, "nvfp4")) {
        return weight->dtype == COFFER_U8 ? comfy_plan_nvfp4(module, quant, weight, err)
                                          : comfy_wrong_dtype(module, err);
    }
    if (coffer__same_text(format, "mxfp8")) {
        quant->layout = "ComfyUI MXFP8";
        quant->codes = COFFER__CODES_E4M3;
        const coffer_status status = weight->dtype == COFFER_F8_E4M3
                                         ? coffer__quant_take_shape(module, quant, weight, ".weight", 1, err)
                                         : comfy_wrong_dtype(module, err);
        return status == COFFER_OK ? comfy_take_tiles(module, quant, FP8_GROUP, err) : status;
    }
    return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                        "the layer %q is of ComfyUI's format %q, which is not decoded: load it in ComfyUI and save it",
                        module->stem, module->stem_len, format, coffer__text_len(format));
}

coffer_status coffer__plan_comfy(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                 coffer_error *err)
{
    coffer__quant_tensor weight;
    comfy_format format = { .turned = false };
    *mine = module->find(module->ctx, ".weight", &weight);
    const coffer_status status = *mine ? comfy_read_format(module, &format, err) : COFFER_OK;
    if (status != COFFER_OK || !*mine) {
        return status;
    }
    *mine = format.text[0] != '\0';
    if (*mine && format.turned) {
        return coffer__quant_fail(module, COFFER_ERR_UNSUPPORTED, ".weight",
                                  "is in a rotated basis (convrot), which only ComfyUI turns back", err);
    }
    return *mine ? comfy_plan_format(module, quant, &weight, format.text, err) : COFFER_OK;
}

/* The dtype of the weight itself says which FP8 it is. */
coffer_status coffer__plan_comfy_old(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                     coffer_error *err)
{
    coffer__quant_tensor weight;
    *mine = module->find(module->ctx, ".weight", &weight) && fp8_is(weight.dtype);
    quant->scaling = COFFER__SCALE_ROUNDED;
    return *mine ? comfy_plan_bytes(module, quant, &weight, ".scale_weight", err) : COFFER_OK;
}
