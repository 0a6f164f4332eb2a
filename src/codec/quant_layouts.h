/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts of quantised layers: the one interface of what recognises them. A layout is one row of the table in
 * quant_layouts.c; related ones share a file. Tensors are recognised by their names, dtypes and shapes first, and the
 * configuration decides between those that look alike; what contradicts itself is refused.
 */
#ifndef COFFER_CODEC_QUANT_LAYOUTS_H
#define COFFER_CODEC_QUANT_LAYOUTS_H

#include "quant.h"
#include "quant_config.h"

/* The most bytes that are read of a tensor to recognise a layer. */
#define COFFER__QUANT_SMALL 65536

/* A tensor, as a layout sees it. */
typedef struct coffer__quant_tensor {
    const uint64_t *shape;
    uint64_t size; /* in bytes */
    uint32_t rank;
    coffer_dtype dtype;
} coffer__quant_tensor;

/* The tensors whose names begin with one stem. Borrowed for the call. */
typedef struct coffer__quant_module {
    void *ctx;
    const char *stem;
    size_t stem_len;
    /* The tensor whose name is the stem with an ending; false: there is none. */
    bool (*find)(void *ctx, const char *ending, coffer__quant_tensor *tensor);
    /* Reads the first `size` bytes of such a tensor, which has them. */
    coffer_status (*read)(void *ctx, const char *ending, void *bytes, size_t size, coffer_error *err);
    /* A value of the metadata of the file that has the anchor; NULL: there is none. */
    const char *(*metadata)(void *ctx, const char *key, size_t *len);
    const coffer__quant_config *config;
    bool like_modelopt; /* round scales as ModelOpt does */
} coffer__quant_module;

/* Describes a layer, all of *quant zero but for `layout`. *mine: whether it is one of this layout; false is no failure. */
typedef coffer_status coffer__quant_plan(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                         coffer_error *err);

typedef struct coffer__quant_layout {
    const char *name;           /* as people call it */
    const char *anchor;         /* ending of the tensor that has the codes */
    const char *sign;           /* ending of one that has to be next to it; NULL: none */
    const char *plain;          /* ending of what it stands for */
    const char *const *helpers; /* endings of all that may belong to it besides the anchor; NULL after the last */
    coffer__quant_plan *plan;
} coffer__quant_layout;

/* What is recognised and not decoded: the ending of a tensor, what it is, and what would do it. */
typedef struct coffer__quant_refused {
    const char *ending;
    const char *with; /* another ending that has to be there; NULL */
    const char *name;
    const char *advice;
} coffer__quant_refused;

/* Layout number `i`, in the order in which they are tried; NULL after the last. */
const coffer__quant_layout *coffer__quant_layout_at(size_t i);
const coffer__quant_refused *coffer__quant_refused_at(size_t i);
/* Endings of scales of activations, which belong to no weight; NULL after the last. */
const char *coffer__quant_activation_at(size_t i);
/* Endings that only helpers have; NULL after the last. */
const char *coffer__quant_helper_at(size_t i);
/* What a quantisation method of the configuration is, where no layout has its name for it; NULL: nothing is known. */
const char *coffer__quant_method_advice(const coffer__quant_config *config);

/* Whether a layout is one of those of the configuration's method; of a method that is not known any is. */
bool coffer__quant_agrees(const coffer__quant_config *config, const char *layout);

/* ---- what layouts have in common --------------------------------------------------------------------------------- */

bool coffer__quant_has(const coffer__quant_module *module, const char *ending);
bool coffer__quant_says(const coffer__quant_module *module, const char *method);
/* Elements of a tensor. */
uint64_t coffer__quant_elements(const coffer__quant_tensor *tensor);
/* Takes the shape of a tensor of any rank as matrices of rows and columns; `expand` codes are in each of its elements. */
coffer_status coffer__quant_take_shape(const coffer__quant_module *module, coffer__quant *quant,
                                       const coffer__quant_tensor *tensor, const char *ending, uint64_t expand,
                                       coffer_error *err);
/* Sets the shape of one matrix. */
void coffer__quant_set_matrix(coffer__quant *quant, uint64_t rows, uint64_t columns);
/* A part whose rows have lines of their own. */
void coffer__quant_set_part(coffer__quant *quant, coffer__quant_role role, const char *ending,
                            const coffer__quant_tensor *tensor, uint64_t line, uint64_t lines, uint32_t rows);
/* One of which `units` bytes along each line belong to `rows` rows. */
void coffer__quant_set_along(coffer__quant *quant, coffer__quant_role role, const char *ending,
                             const coffer__quant_tensor *tensor, uint64_t line, uint64_t lines, uint32_t rows,
                             uint32_t units);
void coffer__quant_set_whole(coffer__quant *quant, coffer__quant_role role, const char *ending,
                             const coffer__quant_tensor *tensor);
/* Scales of blocks of rows by columns: the tensor has to have that many. E8M0 may be U8. */
coffer_status coffer__quant_set_scales(const coffer__quant_module *module, coffer__quant *quant, const char *ending,
                                       uint64_t block_rows, uint64_t block_columns, coffer_error *err);
/* The same of any grid that fits: one scale, one of each row, blocks, or groups of `group` columns (0: none). */
coffer_status coffer__quant_fit_scales(const coffer__quant_module *module, coffer__quant *quant, const char *ending,
                                       const uint64_t block[2], uint64_t group, coffer_error *err);
/* Whether scales of this dtype are numbers that plain tensors have, and not exponents or of 8 bits. */
bool coffer__quant_is_plain(coffer_dtype dtype);
/* Which dtype the layer most likely had, by that of its scales: F16 or BF16; F32 says nothing. */
coffer_dtype coffer__quant_usual_of(coffer_dtype scales);
/* Codes of 8 bits as their dtype says: FP8, else signed integers. */
coffer__quant_codes coffer__quant_codes_of(coffer_dtype dtype);
/* Zero points that are numbers and lie as the scales do, which have been taken. */
void coffer__quant_set_zero_values(coffer__quant *quant, const char *ending, coffer__quant_formula formula);
/* Reads one F32. */
coffer_status coffer__quant_read_float(const coffer__quant_module *module, const char *ending, float *value,
                                       coffer_error *err);
/* Fails, and names the tensor: "NAME: WHY". */
coffer_status coffer__quant_fail(const coffer__quant_module *module, coffer_status code, const char *ending,
                                 const char *why, coffer_error *err);
/* COFFER_ERR_SIZE: a tensor that is not of the shape that the layout gives to it. */
coffer_status coffer__quant_misfit(const coffer__quant_module *module, const char *ending,
                                   const coffer__quant_tensor *tensor, uint64_t rows, uint64_t columns,
                                   coffer_error *err);
/* ceil(a / b) */
uint64_t coffer__quant_ceil(uint64_t a, uint64_t b);

coffer__quant_plan coffer__plan_fp8_blocks;
coffer__quant_plan coffer__plan_fp8_own;
coffer__quant_plan coffer__plan_weight_scale;
coffer__quant_plan coffer__plan_modelopt_fp4;
coffer__quant_plan coffer__plan_comfy_old;
coffer__quant_plan coffer__plan_comfy;
coffer__quant_plan coffer__plan_packed_fp4;
coffer__quant_plan coffer__plan_packed_words;
coffer__quant_plan coffer__plan_gpt_oss;
coffer__quant_plan coffer__plan_gptq;
coffer__quant_plan coffer__plan_awq;
coffer__quant_plan coffer__plan_bnb_nf4;
coffer__quant_plan coffer__plan_bnb_fp4;
coffer__quant_plan coffer__plan_bnb_int8;
coffer__quant_plan coffer__plan_mlx;
coffer__quant_plan coffer__plan_hqq;
coffer__quant_plan coffer__plan_torchao;
coffer__quant_plan coffer__plan_quanto_bytes;
coffer__quant_plan coffer__plan_quanto_packed;
coffer__quant_plan coffer__plan_bitnet;

#endif
