/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts of integers that are packed in words of 32 bits:
 *
 *   compressed-tensors  .weight_packed [rows, words], .weight_scale, .weight_shape; .weight_zero_point packed down the rows,
 *                       .weight_g_idx. Before version 0.18 no value lies across two words
 *   GPTQ                .qweight [words, rows], down which values run on; .qzeros along rows, less one before v2
 *   AWQ                 .qweight [columns, words], whose eight values are in an order of their own
 *   MLX                 .weight U32 [rows, words], .scales and .biases; or floats of 4 and 8 bits with scales of a byte
 */
#include "bytes.h"
#include "quant_layouts.h"

#include "text.h"
#include <string.h>

/* ---- compressed-tensors ------------------------------------------------------------------------------------------ */

static uint64_t words_run(uint64_t count, uint64_t bits)
{
    return coffer__quant_ceil(count * bits, 32);
}

static uint64_t words_apart(uint64_t count, uint64_t bits)
{
    return coffer__quant_ceil(count, 32 / bits);
}

static bool words_may_be(uint64_t columns, uint64_t bits, uint64_t words)
{
    return bits >= 1 && bits <= 8 && (words_run(columns, bits) == words || words_apart(columns, bits) == words);
}

/* The bits of a layer: those of a group of the configuration that fit the width, or the only ones that do. */
static uint64_t words_bits(const coffer__quant_config *config, uint64_t columns, uint64_t words)
{
    uint64_t found = 0;
    for (size_t i = 0; i < config->group_count; i++) {
        if (words_may_be(columns, config->group_bits[i], words)) {
            return config->group_bits[i];
        }
    }
    for (uint64_t bits = 1; bits <= 8; bits++) {
        if (words_may_be(columns, bits, words)) {
            found = found == 0 ? bits : UINT64_MAX;
        }
    }
    return found != UINT64_MAX ? found : 0;
}

/* Whether a version is before 0.18; one that is not said is a new one. */
static bool words_are_old(const char *version)
{
    coffer__quant_span minor = { version + 2, 0 };
    if (version[0] != '0' || version[1] != '.') {
        return false;
    }
    while (minor.text[minor.len] >= '0' && minor.text[minor.len] <= '9') {
        minor.len++;
    }
    return minor.len > 0 && coffer__span_number(minor) < 18;
}

/* The columns of a group: what the configuration says, if it fits, or what divides. */
static uint64_t words_group(const coffer__quant_config *config, uint64_t columns, uint64_t groups)
{
    for (size_t i = 0; i < config->group_count; i++) {
        const uint64_t size = config->group_sizes[i];
        if (size != 0 && coffer__quant_ceil(columns, size) == groups) {
            return size;
        }
    }
    return groups != 0 && columns % groups == 0 ? columns / groups : 0;
}

/* weight_shape, which has to be that of the codes. */
static coffer_status words_read_shape(const coffer__quant_module *module, const coffer__quant_tensor *packed,
                                      uint64_t shape[2], coffer_error *err)
{
    coffer__quant_tensor tensor;
    uint8_t bytes[16];
    if (!module->find(module->ctx, ".weight_shape", &tensor)) {
        return coffer__quant_fail(module, COFFER_ERR_NO_TENSOR, ".weight_shape", "lacks the shape of the layer", err);
    }
    const bool wide = tensor.dtype == COFFER_I64;
    if ((!wide && tensor.dtype != COFFER_I32) || coffer__quant_elements(&tensor) != 2) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".weight_shape", "should be two integers", err);
    }
    const coffer_status status = module->read(module->ctx, ".weight_shape", bytes, (size_t)tensor.size, err);
    if (status != COFFER_OK) {
        return status;
    }
    shape[0] = wide ? coffer__load_u64le(bytes) : coffer__load_u32le(bytes);
    shape[1] = wide ? coffer__load_u64le(bytes + 8) : coffer__load_u32le(bytes + 4);
    /* At least a bit for each element. */
    if (shape[0] != packed->shape[0] || shape[1] == 0 || shape[1] / 32 > packed->shape[1]) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".weight_shape", "does not fit the packed codes", err);
    }
    return COFFER_OK;
}

static coffer_status words_take_zeros(const coffer__quant_module *module, coffer__quant *quant, uint64_t groups,
                                      bool apart, coffer_error *err)
{
    static const char ending[] = ".weight_zero_point";
    coffer__quant_tensor zeros;
    if (!module->find(module->ctx, ending, &zeros)) {
        return COFFER_OK;
    }
    const uint64_t bits = quant->bits;
    const uint64_t lines = apart ? words_apart(quant->rows, bits) : words_run(quant->rows, bits);
    if (zeros.dtype != COFFER_I32 || zeros.rank != 2 || zeros.shape[0] != lines || zeros.shape[1] != groups) {
        return coffer__quant_misfit(module, ending, &zeros, lines, groups, err);
    }
    quant->zeros = COFFER__ZEROS_DOWN;
    quant->zero_bits = quant->bits;
    quant->formula = COFFER__FORMULA_SHIFTED;
    coffer__quant_set_part(quant, COFFER__QUANT_ZEROS, ending, &zeros, groups * 4, lines,
                           apart ? 32u / quant->bits : 32u);
    quant->parts[COFFER__QUANT_ZEROS].units = apart ? 1 : quant->bits;
    return COFFER_OK;
}

static coffer_status words_take_index(const coffer__quant_module *module, coffer__quant *quant, const char *ending,
                                      coffer_error *err)
{
    coffer__quant_tensor index;
    if (!module->find(module->ctx, ending, &index)) {
        return COFFER_OK;
    }
    if (index.dtype != COFFER_I32 || index.rank != 1 || index.shape[0] != quant->columns) {
        return coffer__quant_misfit(module, ending, &index, 1, quant->columns, err);
    }
    coffer__quant_set_whole(quant, COFFER__QUANT_INDEX, ending, &index);
    return COFFER_OK;
}

coffer_status coffer__plan_packed_words(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                        coffer_error *err)
{
    coffer__quant_tensor packed;
    coffer__quant_tensor scales;
    uint64_t shape[2] = { 0, 0 };
    *mine = module->find(module->ctx, ".weight_packed", &packed) && packed.dtype == COFFER_I32 && packed.rank == 2;
    if (!*mine) {
        return COFFER_OK;
    }
    if (coffer__quant_has(module, ".weight")) {
        return coffer__quant_fail(module, COFFER_ERR_DUPLICATE_NAME, ".weight", "stands next to weight_packed", err);
    }
    coffer_status status = words_read_shape(module, &packed, shape, err);
    if (status != COFFER_OK) {
        return status;
    }
    const uint64_t bits = words_bits(module->config, shape[1], packed.shape[1]);
    if (bits == 0 || shape[0] == 0) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".weight_packed",
                                  "has a width that no number of bits from 1 to 8 gives, or more than one", err);
    }
    const bool can_run = words_run(shape[1], bits) == packed.shape[1];
    const bool can_be_apart = words_apart(shape[1], bits) == packed.shape[1];
    const bool apart = can_be_apart && (!can_run || words_are_old(module->config->version));
    quant->layout = "compressed-tensors int";
    coffer__quant_set_matrix(quant, shape[0], shape[1]);
    quant->codes = apart ? COFFER__CODES_WORDS : COFFER__CODES_RUN;
    quant->bits = (uint8_t)bits;
    quant->offset = 1 << (bits - 1);
    quant->index_optional = true;
    coffer__quant_set_part(quant, COFFER__QUANT_CODES, ".weight_packed", &packed, packed.shape[1] * 4, shape[0], 1);
    const uint64_t groups =
        module->find(module->ctx, ".weight_scale", &scales) && scales.rank > 0 ? scales.shape[scales.rank - 1] : 1;
    const uint64_t whole[] = { shape[0], shape[1] };
    status = coffer__quant_fit_scales(module, quant, ".weight_scale", whole,
                                      words_group(module->config, shape[1], groups), err);
    quant->round = quant->scale_dtype;
    quant->usual = coffer__quant_usual_of(quant->scale_dtype);
    if (status == COFFER_OK) {
        status = words_take_zeros(module, quant, groups, apart && words_are_old(module->config->version), err);
    }
    return status == COFFER_OK ? words_take_index(module, quant, ".weight_g_idx", err) : status;
}

/* ---- GPTQ -------------------------------------------------------------------------------------------------------- */

static bool gptq_is_bits(uint64_t bits)
{
    return bits == 2 || bits == 3 || bits == 4 || bits == 8;
}

/* The bits follow from the shapes where the columns are known. */
static uint64_t gptq_bits(const coffer__quant_module *module, const coffer__quant_tensor *codes, uint64_t *columns)
{
    coffer__quant_tensor index;
    const bool indexed = module->find(module->ctx, ".g_idx", &index) && index.rank == 1 && index.shape[0] > 0;
    uint64_t bits = module->config->bits;
    if (indexed) {
        *columns = index.shape[0];
        bits = codes->shape[0] * 32 / *columns;
    } else if (gptq_is_bits(bits)) {
        *columns = codes->shape[0] * 32 / bits;
    }
    return gptq_is_bits(bits) && *columns * bits == codes->shape[0] * 32 ? bits : 0;
}

/* Zero points that are symmetric tell by their value whether they are stored less one: files are known that say v1 and
   are v2. The first words are enough, since all are the same then. */
static coffer_status gptq_take_version(const coffer__quant_module *module, coffer__quant *quant,
                                       const coffer__quant_tensor *zeros, coffer_error *err)
{
    uint8_t bytes[256];
    const coffer__quant_config *config = module->config;
    const size_t size = zeros->size < sizeof bytes - 4 ? (size_t)zeros->size : sizeof bytes - 4; /* a word follows */
    quant->zeros_plus_one = !coffer__same_text(config->checkpoint, "gptq_v2");
    if (!quant->zeros_plus_one || !config->symmetric) {
        return COFFER_OK;
    }
    memset(bytes, 0, sizeof bytes);
    const coffer_status status = module->read(module->ctx, ".qzeros", bytes, size, err);
    const uint32_t mask = (1u << quant->bits) - 1;
    const uint32_t middle = 1u << (quant->bits - 1);
    bool first = true;
    bool second = true;
    for (size_t at = 0; status == COFFER_OK && at + quant->bits <= size * 8; at += quant->bits) {
        const uint8_t *words = bytes + at / 32 * 4;
        const uint64_t word = coffer__load_u32le(words) | (uint64_t)coffer__load_u32le(words + 4) << 32;
        const uint32_t field = (uint32_t)(word >> at % 32) & mask;
        first = first && field == middle - 1;
        second = second && field == middle;
    }
    quant->zeros_plus_one = !second;
    quant->zeros_unclear = !first && !second;
    return status;
}

/* Zero points along rows, and scales likewise. */
static coffer_status gptq_take_grids(const coffer__quant_module *module, coffer__quant *quant, coffer_error *err)
{
    coffer__quant_tensor scales;
    coffer__quant_tensor zeros;
    (void)module->find(module->ctx, ".scales", &scales);
    if (!module->find(module->ctx, ".qzeros", &zeros)) {
        return coffer__quant_fail(module, COFFER_ERR_NO_TENSOR, ".qzeros", "lacks its zero points", err);
    }
    const uint64_t groups = scales.rank == 2 ? scales.shape[0] : 0;
    const bool is_float = coffer__quant_is_plain(scales.dtype);
    if (groups == 0 || !is_float || scales.shape[1] != quant->rows) {
        return coffer__quant_misfit(module, ".scales", &scales, groups, quant->rows, err);
    }
    const uint64_t words = words_run(quant->rows, quant->bits);
    if (zeros.dtype != COFFER_I32 || zeros.rank != 2 || zeros.shape[0] != groups || zeros.shape[1] != words) {
        return coffer__quant_misfit(module, ".qzeros", &zeros, groups, words, err);
    }
    const uint32_t size = coffer_dtype_bits(scales.dtype) / 8;
    const bool mixed = quant->codes == COFFER__CODES_MIXED;
    quant->grid = COFFER__GRID_ALONG;
    quant->scale_dtype = scales.dtype;
    quant->round = scales.dtype;
    quant->usual = coffer__quant_usual_of(scales.dtype);
    quant->formula = COFFER__FORMULA_SHIFTED;
    quant->zeros = mixed ? COFFER__ZEROS_MIXED : COFFER__ZEROS_ALONG;
    quant->zero_bits = quant->bits;
    coffer__quant_set_along(quant, COFFER__QUANT_SCALES, ".scales", &scales, quant->rows * size, groups, 1, size);
    coffer__quant_set_along(quant, COFFER__QUANT_ZEROS, ".qzeros", &zeros, words * 4, groups, 32,
                            (uint32_t)quant->bits * 4);
    return COFFER_OK;
}

/* The columns of a group that the numbers of columns and groups give; 0: they do not fit. */
static uint64_t gptq_group(const coffer__quant_module *module, const coffer__quant *quant)
{
    const uint64_t groups = quant->parts[COFFER__QUANT_SCALES].lines;
    const uint64_t stated = module->config->group_size;
    if (stated != 0 && coffer__quant_ceil(quant->columns, stated) == groups) {
        return stated;
    }
    return quant->columns % groups == 0 ? quant->columns / groups : 0;
}

coffer_status coffer__plan_gptq(const coffer__quant_module *module, coffer__quant *quant, bool *mine, coffer_error *err)
{
    coffer__quant_tensor codes;
    coffer__quant_tensor zeros;
    uint64_t columns = 0;
    *mine = module->find(module->ctx, ".qweight", &codes) && codes.dtype == COFFER_I32 && codes.rank == 2;
    if (!*mine) {
        return COFFER_OK;
    }
    const uint64_t bits = gptq_bits(module, &codes, &columns);
    if (bits == 0 || codes.shape[1] == 0 || codes.shape[1] % 32 != 0) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".qweight",
                                  "has no shape of GPTQ with 2, 3, 4 or 8 bits and rows in multiples of 32", err);
    }
    coffer__quant_set_matrix(quant, codes.shape[1], columns);
    quant->codes = COFFER__CODES_DOWN;
    quant->bits = (uint8_t)bits;
    coffer__quant_set_along(quant, COFFER__QUANT_CODES, ".qweight", &codes, codes.shape[1] * 4, codes.shape[0], 1, 4);
    coffer_status status = gptq_take_grids(module, quant, err);
    if (status == COFFER_OK && module->find(module->ctx, ".qzeros", &zeros)) {
        status = gptq_take_version(module, quant, &zeros, err);
    }
    if (status == COFFER_OK) {
        status = words_take_index(module, quant, ".g_idx", err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    quant->block_column = gptq_group(module, quant);
    if (quant->block_column == 0 && quant->parts[COFFER__QUANT_INDEX].ending == NULL) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".scales", "has groups that do not divide the columns", err);
    }
    quant->block_column = quant->block_column != 0 ? quant->block_column : columns;
    return COFFER_OK;
}

coffer_status coffer__plan_awq(const coffer__quant_module *module, coffer__quant *quant, bool *mine, coffer_error *err)
{
    coffer__quant_tensor codes;
    coffer__quant_tensor scales;
    const coffer__quant_config *config = module->config;
    const bool found = module->find(module->ctx, ".qweight", &codes) && codes.dtype == COFFER_I32 && codes.rank == 2 &&
                       module->find(module->ctx, ".scales", &scales) && scales.rank == 2;
    /* The words are along the rows here, and the lines are columns. */
    *mine =
        found && codes.shape[1] != 0 && codes.shape[1] * 8 == scales.shape[1] && !coffer__quant_has(module, ".g_idx");
    if (!*mine) {
        return COFFER_OK;
    }
    if (config->version[0] != '\0' && !coffer__same_text(config->version, "gemm") &&
        !coffer__same_text(config->version, "GEMM")) {
        return coffer__quant_fail(module, COFFER_ERR_UNSUPPORTED, ".qweight",
                                  "is of another version of AWQ than gemm, whose order is that of a GPU", err);
    }
    if (codes.shape[0] == 0) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".qweight", "has no elements", err);
    }
    coffer__quant_set_matrix(quant, codes.shape[1] * 8, codes.shape[0]);
    quant->codes = COFFER__CODES_MIXED;
    quant->bits = 4;
    coffer__quant_set_along(quant, COFFER__QUANT_CODES, ".qweight", &codes, codes.shape[1] * 4, codes.shape[0], 8, 4);
    const coffer_status status = gptq_take_grids(module, quant, err);
    if (status != COFFER_OK) {
        return status;
    }
    quant->block_column = gptq_group(module, quant);
    return quant->block_column != 0 ? COFFER_OK
                                    : coffer__quant_fail(module, COFFER_ERR_SIZE, ".scales",
                                                         "has groups that do not divide the columns", err);
}

/* ---- MLX --------------------------------------------------------------------------------------------------------- */

/* Bits and columns of a group: of the configuration for this module, or for all. */
static bool mlx_widths(const coffer__quant_module *module, uint64_t words, uint64_t groups, uint64_t *bits,
                       uint64_t *group)
{
    char mode[16] = "";
    *bits = module->config->bits;
    *group = module->config->group_size;
    const bool known = *bits != 0 && *bits <= 8 && *group != 0 && *group <= 4096;
    if (known && words * 32 == *bits * *group * groups) {
        return true;
    }
    (void)coffer__quant_config_module(module->config, module->stem, module->stem_len, bits, group, mode);
    return *bits != 0 && *bits <= 8 && *bits != 7 && *group != 0 && *group <= 4096 &&
           words * 32 == *bits * *group * groups;
}

/* Floats, whose number of bytes for each scale tells which they are. */
static coffer_status mlx_plan_floats(const coffer__quant_module *module, coffer__quant *quant,
                                     const coffer__quant_tensor *codes, const coffer__quant_tensor *scales,
                                     coffer_error *err)
{
    const uint64_t bytes = codes->shape[codes->rank - 1] * 4;
    const uint64_t groups = scales->shape[scales->rank - 1];
    const uint64_t each = groups != 0 && bytes % groups == 0 ? bytes / groups : 0;
    const bool is_byte = each == 32;
    if (each != 32 && each != 16 && each != 8) {
        return coffer__quant_misfit(module, ".scales", scales, codes->shape[0], bytes / 16, err);
    }
    quant->layout = is_byte ? "MLX MXFP8" : each == 16 ? "MLX MXFP4" : "MLX NVFP4";
    quant->codes = is_byte ? COFFER__CODES_E4M3 : COFFER__CODES_PAIRS;
    memcpy(quant->values, coffer__quant_e2m1, sizeof quant->values);
    coffer_status status = coffer__quant_take_shape(module, quant, codes, ".weight", is_byte ? 4 : 8, err);
    if (status == COFFER_OK) {
        status = coffer__quant_set_scales(module, quant, ".scales", 1, each == 8 ? 16 : 32, err);
    }
    if (each == 8) {
        quant->scale_dtype = COFFER_F8_E4M3;
    }
    return status;
}

static coffer_status mlx_take_biases(const coffer__quant_module *module, coffer__quant *quant, coffer_error *err)
{
    coffer__quant_tensor biases;
    const coffer__quant_part *scales = &quant->parts[COFFER__QUANT_SCALES];
    (void)module->find(module->ctx, ".biases", &biases);
    if (biases.dtype != quant->scale_dtype || biases.size != scales->size) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".biases", "has another shape or dtype than the scales",
                                  err);
    }
    coffer__quant_set_zero_values(quant, ".biases", COFFER__FORMULA_ADDED);
    return COFFER_OK;
}

coffer_status coffer__plan_mlx(const coffer__quant_module *module, coffer__quant *quant, bool *mine, coffer_error *err)
{
    coffer__quant_tensor codes;
    coffer__quant_tensor scales;
    uint64_t bits = 0;
    uint64_t group = 0;
    *mine = module->find(module->ctx, ".weight", &codes) && codes.dtype == COFFER_U32 && codes.rank >= 2 &&
            codes.size != 0 && module->find(module->ctx, ".scales", &scales) && scales.rank == codes.rank;
    if (!*mine) {
        return COFFER_OK;
    }
    if (coffer__quant_has(module, ".global_scale")) {
        return coffer__quant_fail(module, COFFER_ERR_UNSUPPORTED, ".global_scale",
                                  "is of an MLX mode that is not known", err);
    }
    if (!coffer__quant_has(module, ".biases")) {
        return mlx_plan_floats(module, quant, &codes, &scales, err);
    }
    const uint64_t words = codes.shape[codes.rank - 1];
    if (!mlx_widths(module, words, scales.shape[scales.rank - 1], &bits, &group)) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".scales",
                                  "does not fit the bits and the group size that config.json states", err);
    }
    quant->layout = "MLX affine";
    coffer_status status = coffer__quant_take_shape(module, quant, &codes, ".weight", 1, err);
    if (status != COFFER_OK) {
        return status;
    }
    quant->count = quant->count / words * (words * 32 / bits);
    quant->columns = words * 32 / bits;
    quant->shape[quant->rank - 1] = quant->columns;
    quant->codes = COFFER__CODES_RUN;
    quant->bits = (uint8_t)bits;
    status = coffer__quant_set_scales(module, quant, ".scales", 1, group, err);
    return status == COFFER_OK ? mlx_take_biases(module, quant, err) : status;
}
