/* SPDX-License-Identifier: Apache-2.0 */
/* The table of layouts: see quant_layouts.h. */
#include "quant_layouts.h"

#include "text.h"

#include <string.h>

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const char *const scale_inv_helpers[] = { ".weight_scale_inv", NULL };
static const char *const stem_scale_inv_helpers[] = { "_scale_inv", NULL };
static const char *const own_scale_helpers[] = { ".scale", ".qscale_weight", ".qscale_act", NULL };
static const char *const weight_scale_helpers[] = { ".weight_scale", ".weight_zero_point", NULL };
static const char *const modelopt_fp4_helpers[] = { ".weight_scale", ".weight_scale_2", NULL };
static const char *const comfy_old_helpers[] = { ".scale_weight", ".scale_input", NULL };
static const char *const comfy_helpers[] = { ".weight_scale", ".weight_scale_2", ".comfy_quant", NULL };
static const char *const packed_fp4_helpers[] = { ".weight_scale", ".weight_global_scale", NULL };
static const char *const packed_words_helpers[] = { ".weight_scale", ".weight_shape", ".weight_zero_point",
                                                    ".weight_g_idx", NULL };
static const char *const blocks_helpers[] = { "_scales", NULL };
static const char *const dotted_blocks_helpers[] = { ".scales", NULL };
static const char *const gptq_helpers[] = { ".qzeros", ".scales", ".g_idx", NULL };
static const char *const bnb_nf4_helpers[] = { ".weight.absmax",
                                               ".weight.quant_map",
                                               ".weight.nested_absmax",
                                               ".weight.nested_quant_map",
                                               ".weight.quant_state.bitsandbytes__nf4",
                                               NULL };
static const char *const bnb_fp4_helpers[] = { ".weight.absmax",
                                               ".weight.quant_map",
                                               ".weight.nested_absmax",
                                               ".weight.nested_quant_map",
                                               ".weight.quant_state.bitsandbytes__fp4",
                                               NULL };
static const char *const bnb_int8_helpers[] = { ".SCB", ".weight_format", NULL };
static const char *const mlx_helpers[] = { ".scales", ".biases", NULL };
static const char *const hqq_helpers[] = { ".scale",
                                           ".zero",
                                           ".nbits",
                                           ".group_size",
                                           ".axis",
                                           ".shape",
                                           ".channel_wise",
                                           ".compute_dtype",
                                           ".packing",
                                           ".offload_meta",
                                           ".optimize",
                                           ".encoded_state_dict",
                                           ".quant_scale",
                                           ".quant_zero",
                                           ".round_zero",
                                           ".stores_quant_config",
                                           ".view_as_float",
                                           ".unpack_view_dtype",
                                           NULL };
static const char *const torchao_helpers[] = { "._weight_scale", "._weight_zero_point", NULL };
static const char *const quanto_helpers[] = { ".weight._scale", NULL };
static const char *const quanto_packed_helpers[] = { ".weight._scale", ".weight._shift", NULL };

/* The ones that are told by more come first. */
static const coffer__quant_layout layouts[] = {
    { "bitsandbytes NF4", ".weight", ".weight.quant_state.bitsandbytes__nf4", ".weight", bnb_nf4_helpers,
      coffer__plan_bnb_nf4 },
    { "bitsandbytes FP4", ".weight", ".weight.quant_state.bitsandbytes__fp4", ".weight", bnb_fp4_helpers,
      coffer__plan_bnb_fp4 },
    { "bitsandbytes int8", ".weight", ".SCB", ".weight", bnb_int8_helpers, coffer__plan_bnb_int8 },
    { "ComfyUI scaled FP8", ".weight", ".scale_weight", ".weight", comfy_old_helpers, coffer__plan_comfy_old },
    { "ComfyUI", ".weight", ".weight_scale", ".weight", comfy_helpers, coffer__plan_comfy },
    { "DeepSeek FP8 blocks", ".weight", ".weight_scale_inv", ".weight", scale_inv_helpers, coffer__plan_fp8_blocks },
    { "DeepSeek FP8 blocks", "", "_scale_inv", "", stem_scale_inv_helpers, coffer__plan_fp8_blocks },
    { "ModelOpt NVFP4", ".weight", ".weight_scale_2", ".weight", modelopt_fp4_helpers, coffer__plan_modelopt_fp4 },
    { "BitNet", ".weight", ".weight_scale", ".weight", weight_scale_helpers, coffer__plan_bitnet },
    { "FP8", ".weight", ".weight_scale", ".weight", weight_scale_helpers, coffer__plan_weight_scale },
    { "compressed-tensors FP4", ".weight_packed", ".weight_scale", ".weight", packed_fp4_helpers,
      coffer__plan_packed_fp4 },
    { "compressed-tensors int", ".weight_packed", ".weight_scale", ".weight", packed_words_helpers,
      coffer__plan_packed_words },
    { "gpt-oss MXFP4", "_blocks", "_scales", "", blocks_helpers, coffer__plan_gpt_oss },
    { "gpt-oss MXFP4", ".blocks", ".scales", "", dotted_blocks_helpers, coffer__plan_gpt_oss },
    { "AWQ", ".qweight", ".scales", ".weight", gptq_helpers, coffer__plan_awq },
    { "GPTQ", ".qweight", ".scales", ".weight", gptq_helpers, coffer__plan_gptq },
    { "MLX", ".weight", ".scales", ".weight", mlx_helpers, coffer__plan_mlx },
    { "HQQ", ".W_q", ".scale", ".weight", hqq_helpers, coffer__plan_hqq },
    { "torchao", "._weight_qdata", "._weight_scale", ".weight", torchao_helpers, coffer__plan_torchao },
    { "quanto", ".weight._data._data", ".weight._scale", ".weight", quanto_packed_helpers, coffer__plan_quanto_packed },
    { "quanto", ".weight._data", ".weight._scale", ".weight", quanto_helpers, coffer__plan_quanto_bytes },
    { "DeepSeek FP8 blocks", ".weight", ".scale", ".weight", own_scale_helpers, coffer__plan_fp8_own },
    { "FP8", ".weight", ".qscale_weight", ".weight", own_scale_helpers, coffer__plan_fp8_own },
};

static const coffer__quant_refused refused_layouts[] = {
    { ".codebooks", ".codes", "AQLM", "transformers with the package aqlm" },
    { ".Qidxs", ".SU", "QuIP#", "the package quip-sharp" },
    { ".centroids", NULL, "VPTQ", "transformers with the package vptq" },
    { ".q_weight", ".q_groups", "EXL2", "the package exllamav2" },
    { ".trellis", ".suh", "EXL3", "the package exllamav3" },
    { ".smooth_factor", ".proj_down", "SVDQuant (Nunchaku)", "the package nunchaku" },
    { ".smooth_factor", ".lora_down", "SVDQuant (Nunchaku)", "the package nunchaku" },
    { ".weight_scales", NULL, "EETQ", "transformers with the package eetq" },
    { ".dense_weights", NULL, "SpQR", "transformers with the package spqr_quant" },
    { ".tables2", NULL, "HIGGS", "transformers with the package flute-kernel" },
    { ".pre_quant_scale", NULL, "a ModelOpt layer whose input is scaled (W4A8_AWQ)", "ModelOpt itself" },
    { ".meta", ".weight_packed", "compressed-tensors marlin-24", "vLLM" },
    { ".bitmask", ".compressed", "compressed-tensors sparse", "compressed-tensors itself" },
};

static const char *const activations_helpers[] = { ".k_scale",          ".v_scale",          ".q_scale",
                                                   ".kv_scale",         ".input_scale",      ".output_scale",
                                                   ".scale_input",      ".activation_scale", ".input_global_scale",
                                                   ".input_zero_point", ".qscale_act",       "scaled_fp8" };

static const char *const only_helpers_helpers[] = {
    "_scale_inv",   ".weight_scale", ".weight_scale_2", ".weight_packed", ".weight_global_scale", ".qweight",
    ".qzeros",      ".W_q",          "._weight_qdata",  ".weight._data",  ".weight._data._data",  ".SCB",
    ".comfy_quant", ".scale_weight", ".weight.absmax",  ".weight_g_idx"
};

const coffer__quant_layout *coffer__quant_layout_at(size_t i)
{
    return i < sizeof layouts / sizeof layouts[0] ? &layouts[i] : NULL;
}

const coffer__quant_refused *coffer__quant_refused_at(size_t i)
{
    return i < sizeof refused_layouts / sizeof refused_layouts[0] ? &refused_layouts[i] : NULL;
}

const char *coffer__quant_activation_at(size_t i)
{
    return i < sizeof activations_helpers / sizeof activations_helpers[0] ? activations_helpers[i] : NULL;
}

const char *coffer__quant_helper_at(size_t i)
{
    return i < sizeof only_helpers_helpers / sizeof only_helpers_helpers[0] ? only_helpers_helpers[i] : NULL;
}

const char *coffer__quant_method_advice(const coffer__quant_config *config)
{
    static const struct {
        const char *method;
        const char *advice;
    } methods[] = {
        { "aqlm", "AQLM is decoded by transformers with the package aqlm" },
        { "quip", "QuIP# is decoded by the package quip-sharp" },
        { "vptq", "VPTQ is decoded by transformers with the package vptq" },
        { "spqr", "SpQR is decoded by transformers with the package spqr_quant" },
        { "higgs", "HIGGS is decoded by transformers with the package flute-kernel" },
        { "exl2", "EXL2 is decoded by the package exllamav2" },
        { "exl3", "EXL3 is decoded by the package exllamav3" },
        { "eetq", "EETQ is decoded by transformers with the package eetq" },
        { "svdquant", "SVDQuant is decoded by the package nunchaku" },
    };
    if (config->transformed) {
        return "its weights are in a rotated basis (transform_config): compressed-tensors itself turns them back";
    }
    if (coffer__same_text(config->checkpoint, "marlin") || coffer__same_text(config->format, "marlin-24")) {
        return "Marlin's order of weights is that of a GPU: quantise from the original, or load it by vLLM";
    }
    if (memcmp(config->format, "sparse-", 7) == 0) {
        return "sparse formats are decompressed by compressed-tensors itself";
    }
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (coffer__same_text(config->method, methods[i].method)) {
            return methods[i].advice;
        }
    }
    return NULL;
}

/* Which layouts belong to a method, by how their names begin. A method that is not here says nothing. */
bool coffer__quant_agrees(const coffer__quant_config *config, const char *layout)
{
    static const struct {
        const char *method;
        const char *layout;
    } pairs[] = {
        { "fp8", "DeepSeek" },      { "fp8", "FP8" },           { "compressed-tensors", "compressed-tensors" },
        { "gptq", "GPTQ" },         { "awq", "AWQ" },           { "bitsandbytes", "bitsandbytes" },
        { "mxfp4", "gpt-oss" },     { "modelopt", "ModelOpt" }, { "bitnet", "BitNet" },
        { "fbgemm_fp8", "FBGEMM" }, { "hqq", "HQQ" },           { "torchao", "torchao" },
        { "mlx", "MLX" },
    };
    bool known = false;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const size_t len = coffer__text_len(pairs[i].layout);
        if (coffer__same_text(config->method, pairs[i].method)) {
            known = true;
            if (coffer__text_len(layout) >= len && memcmp(layout, pairs[i].layout, len) == 0) {
                return true;
            }
        }
    }
    return !known;
}
