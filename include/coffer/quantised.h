/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer/quantised.h - quantised models (FP8, NVFP4, GPTQ, AWQ, bitsandbytes, MLX, …) written as plain ones, and what a
 * model's quantised layers are.
 *
 *     coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
 *     options.output = "plain.safetensors";
 *     coffer_rewrite *rewrite;
 *     coffer_dequantize_plan(&rewrite, model, NULL, &options, &err);     nothing is written: look at what would be
 *     coffer_rewrite_run(rewrite, NULL, &err);                           now it is
 *     coffer_rewrite_free(rewrite);
 *
 * docs/convert.md lists the layouts. Since 0.2.
 */
#ifndef COFFER_QUANTISED_H
#define COFFER_QUANTISED_H

#include "rewrite.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the user is told of a tensor or, with tensor NULL, of the model, while a plan is made: "3 scales of activations
   are left out". Borrowed for the call. */
typedef void (*coffer_dequantize_warning)(void *ctx, const coffer_tensor *tensor, const char *text);

/* How layers are decoded. */
typedef struct coffer_dequantize_options {
    size_t struct_size;
    /* COFFER_BF16, COFFER_F16 or COFFER_F32; COFFER_UNKNOWN_DTYPE: that of config.json, else that of the scales where
       it has 16 bits, else BF16 */
    coffer_dtype dtype;
    const char *like; /* "modelopt": round the scales of FP8 first, as ModelOpt's own code does; NULL: nothing such */
    /* The text of a config.json, `config_len` bytes, borrowed until the plan is freed; NULL: that next to the model, if
       there is one. */
    const char *config;
    size_t config_len;
    bool allow_not_finite;             /* scales that are infinite or NaN are no failure */
    coffer_dequantize_warning warning; /* NULL: nobody is told */
    void *warning_ctx;
} coffer_dequantize_options;
#define COFFER_DEQUANTIZE_OPTIONS_INIT                                                                                 \
    {                                                                                                                  \
        sizeof(coffer_dequantize_options), COFFER_UNKNOWN_DTYPE, NULL, NULL, 0, false, NULL, NULL                      \
    }

/*
 * Plans a rewrite in which each quantised layer becomes one plain tensor, and the tensors that only decode it are
 * left out, as are scales of activations. Everything else is copied. The layers are recognised by names, dtypes and
 * shapes, and by config.json or hf_quant_config.json next to the model. Numbers are decoded in F32, in the order and
 * with the roundings of the program that wrote the layout, by tiles of rows: memory does not grow with the model.
 * Small tensors are read while planning. The new model's config.json is the caller's: what it says of quantisation
 * (`quantization_config`, `quantization`) is to be left out.
 *
 * COFFER_ERR_UNSUPPORTED for layouts that are not decoded, by name; for a model without quantised layers; and where
 * tensors and configuration disagree. COFFER_ERR_NO_TENSOR for a layer that lacks a tensor; COFFER_ERR_SIZE and
 * COFFER_ERR_DTYPE for tensors that do not fit each other; COFFER_ERR_DUPLICATE_NAME for a plain tensor next to a
 * layer of its name; COFFER_ERR_JSON and COFFER_ERR_NUMBER for what a layer says of itself. Running the plan fails
 * with COFFER_ERR_NUMBER for scales that are not finite, and with COFFER_ERR_INDEX for a column whose group is not
 * there. err->tensor names the tensor.
 */
COFFER_API coffer_status coffer_dequantize_plan(coffer_rewrite **rewrite, const coffer *model,
                                                const coffer_dequantize_options *options,
                                                const coffer_rewrite_options *rewriting, coffer_error *err);

/* The quantised layers of a model. Immutable; any thread may use it. The model is borrowed. */
typedef struct coffer_quantised coffer_quantised;

/* One layer. Handed out by pointer, and grows at its end in later versions. */
typedef struct coffer_quantised_layer {
    const coffer_tensor *codes; /* the tensor that has them */
    const char *layout;         /* "DeepSeek FP8 blocks". Static */
    const uint64_t *shape;      /* of the plain tensor, `rank` dimensions */
    uint32_t rank;
    uint64_t elements;
    uint64_t stored; /* bytes of all tensors of the layer */
} coffer_quantised_layer;

/* Finds the layers, and fails as planning does. A model that has none gives none. `config` is as in
   coffer_dequantize_options, and not kept. */
COFFER_API coffer_status coffer_quantised_open(coffer_quantised **quantised, const coffer *model, const char *config,
                                               size_t config_len, coffer_error *err);
/* How many layers there are. */
COFFER_API size_t coffer_quantised_count(const coffer_quantised *quantised);
/* Layer `i`; NULL when i is not below the count. Borrowed. */
COFFER_API const coffer_quantised_layer *coffer_quantised_at(const coffer_quantised *quantised, size_t i);
/* Releases it; NULL is allowed. */
COFFER_API void coffer_quantised_close(coffer_quantised *quantised);

#ifdef __cplusplus
}
#endif

#endif
