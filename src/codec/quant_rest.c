/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts that state themselves in small tensors, metadata or the configuration:
 *
 *   HQQ      .W_q, of which each unit has one code of several slices of rows, the first in its high bits; .scale and .zero;
 *            .nbits, .group_size, .axis and .shape say the rest
 *   torchao  ._weight_qdata, ._weight_scale, ._weight_zero_point; the metadata have the type of each tensor
 *   quanto   .weight._data and ._scale; of 4 and 2 bits .weight._data._data in slices, the first in its low bits, and ._shift
 *   BitNet   .weight U8 in four slices, less one, .weight_scale
 */
#include "bytes.h"
#include "error.h"
#include "quant_layouts.h"
#include "text.h"

#include <string.h>

/* Units of `bits` bits in slices of rows: `lines` lines of units, of which each has `columns`. */
static void rest_take_slices(coffer__quant *quant, const char *ending, const coffer__quant_tensor *tensor,
                             uint64_t lines, uint64_t columns, unsigned bits, bool high_first)
{
    quant->codes = COFFER__CODES_SLICE;
    quant->bits = (uint8_t)bits;
    quant->unit = tensor->dtype == COFFER_I32 ? 4 : 1;
    quant->high_first = high_first;
    quant->slice = lines;
    coffer__quant_set_part(quant, COFFER__QUANT_CODES, ending, tensor, columns * quant->unit, lines, 1);
}

/* ---- HQQ --------------------------------------------------------------------------------------------------------- */

static coffer_status hqq_read(const coffer__quant_module *module, const char *ending, uint64_t *number,
                              coffer_error *err)
{
    coffer__quant_tensor tensor;
    uint8_t bytes[8] = { 0 };
    if (!module->find(module->ctx, ending, &tensor)) {
        return coffer__quant_fail(module, COFFER_ERR_NO_TENSOR, ending, "is missing", err);
    }
    if (tensor.size == 0 || tensor.size > sizeof bytes || coffer_dtype_kind(tensor.dtype) == COFFER_KIND_FLOAT) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ending, "should be one integer", err);
    }
    const coffer_status status = module->read(module->ctx, ending, bytes, (size_t)tensor.size, err);
    *number = coffer__load_u64le(bytes);
    return status;
}

/* What the small tensors say. */
typedef struct hqq_said {
    uint64_t bits;
    uint64_t group;
    uint64_t axis;
    uint64_t shape[2];
} hqq_said;

static coffer_status hqq_read_all(const coffer__quant_module *module, hqq_said *said, coffer_error *err)
{
    coffer__quant_tensor shape;
    uint64_t nested = 0;
    uint8_t bytes[16];
    coffer_status status = hqq_read(module, ".nbits", &said->bits, err);
    status = status == COFFER_OK ? hqq_read(module, ".group_size", &said->group, err) : status;
    status = status == COFFER_OK ? hqq_read(module, ".axis", &said->axis, err) : status;
    for (unsigned i = 0; i < 2 && status == COFFER_OK; i++) {
        const char *ending = i == 0 ? ".quant_scale" : ".quant_zero";
        if (coffer__quant_has(module, ending)) {
            status = hqq_read(module, ending, &nested, err);
        }
        if (status == COFFER_OK && nested != 0) {
            return coffer__quant_fail(module, COFFER_ERR_UNSUPPORTED, ending, "says that scales are quantised, too",
                                      err);
        }
    }
    if (status != COFFER_OK) {
        return status;
    }
    if (!module->find(module->ctx, ".shape", &shape) || shape.dtype != COFFER_I64 || shape.size != sizeof bytes) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".shape", "should be two integers", err);
    }
    status = module->read(module->ctx, ".shape", bytes, sizeof bytes, err);
    said->shape[0] = coffer__load_u64le(bytes);
    said->shape[1] = coffer__load_u64le(bytes + 8);
    return status;
}

/* Scales and zero points, one for each row of groups or, with axis 0, one for each column. */
static coffer_status hqq_take_grids(const coffer__quant_module *module, coffer__quant *quant, bool by_column,
                                    coffer_error *err)
{
    coffer__quant_tensor zeros;
    const coffer_status status = by_column ? coffer__quant_set_scales(module, quant, ".scale", quant->rows, 1, err)
                                           : coffer__quant_set_scales(module, quant, ".scale", 1, quant->columns, err);
    if (status != COFFER_OK) {
        return status;
    }
    if (!module->find(module->ctx, ".zero", &zeros) || zeros.dtype != quant->scale_dtype ||
        zeros.size != quant->parts[COFFER__QUANT_SCALES].size) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".zero", "is missing, or is not as the scales are", err);
    }
    coffer__quant_set_zero_values(quant, ".zero", COFFER__FORMULA_SHIFTED);
    return COFFER_OK;
}

static bool hqq_fits(const coffer__quant_tensor *codes, const hqq_said *said)
{
    const uint64_t bits = said->bits;
    const bool known = bits == 8 || bits == 4 || bits == 3 || bits == 2 || bits == 1;
    const bool unit = codes->dtype == (bits == 3 ? COFFER_I32 : COFFER_U8);
    const uint64_t most = codes->size * 8;
    return known && unit && codes->rank == 2 && said->axis <= 1 && said->group != 0 && said->shape[0] != 0 &&
           said->shape[1] != 0 && said->shape[0] <= most && said->shape[1] <= most / said->shape[0] &&
           said->shape[0] * said->shape[1] % said->group == 0;
}

coffer_status coffer__plan_hqq(const coffer__quant_module *module, coffer__quant *quant, bool *mine, coffer_error *err)
{
    coffer__quant_tensor codes;
    hqq_said said = { .bits = 0 };
    *mine = module->find(module->ctx, ".W_q", &codes);
    coffer_status status = *mine ? hqq_read_all(module, &said, err) : COFFER_OK;
    if (status != COFFER_OK || !*mine) {
        return status;
    }
    if (!hqq_fits(&codes, &said)) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".W_q", "does not fit nbits, group_size, axis and shape",
                                  err);
    }
    const uint64_t count = said.shape[0] * said.shape[1];
    /* NOLINTBEGIN(clang-analyzer-core.DivideZero): hqq_fits has refused what is zero */
    const uint64_t rows = said.axis == 0 ? said.group : count / said.group;
    const uint64_t each = said.bits == 3 ? 10 : 8 / said.bits;
    /* NOLINTEND(clang-analyzer-core.DivideZero) */
    const uint64_t lines = coffer__quant_ceil(rows, each);
    if (codes.shape[0] != lines || codes.shape[1] != count / rows) {
        return coffer__quant_misfit(module, ".W_q", &codes, lines, count / rows, err);
    }
    coffer__quant_set_matrix(quant, rows, count / rows);
    if (said.bits == 8) {
        quant->codes = COFFER__CODES_U8;
        coffer__quant_set_part(quant, COFFER__QUANT_CODES, ".W_q", &codes, quant->columns, rows, 1);
    } else {
        rest_take_slices(quant, ".W_q", &codes, lines, quant->columns, (unsigned)said.bits, true);
    }
    status = hqq_take_grids(module, quant, said.axis == 0, err);
    quant->shape[0] = said.shape[0];
    quant->shape[1] = said.shape[1];
    return status;
}

/* ---- torchao ----------------------------------------------------------------------------------------------------- */

typedef struct torchao_said {
    char type[40];
    coffer_dtype dtype;
} torchao_said;

static void torchao_visit(void *ctx, const coffer__walk_value *value)
{
    torchao_said *said = ctx;
    if (value->kind != '"') {
        return;
    }
    if (value->depth == 1 && coffer__span_is(value->path[0], "_type")) {
        coffer__span_copy(value->text, said->type, sizeof said->type);
    }
    if (value->depth == 3 && coffer__span_is(value->path[1], "dtype") && coffer__span_is(value->path[2], "_data")) {
        said->dtype = coffer__span_dtype(value->text);
    }
}

/* What the metadata say of the tensor that the layer stands for. */
static coffer_status torchao_read(const coffer__quant_module *module, torchao_said *said, coffer_error *err)
{
    char key[512];
    size_t len = 0;
    if (module->stem_len + sizeof ".weight" > sizeof key) {
        return COFFER_OK;
    }
    memcpy(key, module->stem, module->stem_len);
    memcpy(key + module->stem_len, ".weight", sizeof ".weight");
    const char *text = module->metadata(module->ctx, key, &len);
    return text != NULL ? coffer__walk_json(text, len, "the metadata of torchao", torchao_visit, said, err) : COFFER_OK;
}

static coffer_status torchao_take_zeros(const coffer__quant_module *module, coffer__quant *quant, coffer_error *err)
{
    coffer__quant_tensor zeros;
    const coffer__quant_part *scales = &quant->parts[COFFER__QUANT_SCALES];
    if (!module->find(module->ctx, "._weight_zero_point", &zeros)) {
        return COFFER_OK;
    }
    const uint32_t size = coffer_dtype_bits(quant->scale_dtype) / 8;
    if (zeros.dtype != COFFER_I8 || zeros.size != scales->size / size) {
        return coffer__quant_misfit(module, "._weight_zero_point", &zeros, scales->lines, scales->line / size, err);
    }
    quant->parts[COFFER__QUANT_ZEROS] = *scales;
    quant->parts[COFFER__QUANT_ZEROS].ending = "._weight_zero_point";
    quant->parts[COFFER__QUANT_ZEROS].line = scales->whole ? zeros.size : scales->line / size;
    quant->parts[COFFER__QUANT_ZEROS].size = zeros.size;
    quant->zeros = COFFER__ZEROS_VALUES;
    quant->zero_dtype = COFFER_I8;
    quant->formula = COFFER__FORMULA_ONCE;
    return COFFER_OK;
}

coffer_status coffer__plan_torchao(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                   coffer_error *err)
{
    coffer__quant_tensor codes;
    coffer__quant_tensor scales;
    torchao_said said = { .type = "" };
    *mine = module->find(module->ctx, "._weight_qdata", &codes);
    coffer_status status = *mine ? torchao_read(module, &said, err) : COFFER_OK;
    if (status != COFFER_OK || !*mine) {
        return status;
    }
    const bool is_float = coffer__same_text(said.type, "Float8Tensor");
    const bool is_int =
        coffer__same_text(said.type, "Int8Tensor") || coffer__same_text(said.type, "IntxUnpackedToInt8Tensor");
    if ((!is_float && !is_int) || codes.dtype != (is_float ? COFFER_F8_E4M3 : COFFER_I8) || codes.rank != 2 ||
        !module->find(module->ctx, "._weight_scale", &scales) || scales.rank == 0) {
        return coffer__fail(err, COFFER_ERR_UNSUPPORTED,
                            "the layer %q is torchao's %q, which is not decoded: torchao itself does it", module->stem,
                            module->stem_len, said.type, coffer__text_len(said.type));
    }
    quant->layout = is_float ? "torchao FP8" : "torchao int8";
    quant->codes = is_float ? COFFER__CODES_E4M3 : COFFER__CODES_I8;
    quant->usual = said.dtype;
    const uint64_t groups = scales.shape[scales.rank - 1];
    status = coffer__quant_take_shape(module, quant, &codes, "._weight_qdata", 1, err);
    const uint64_t whole[] = { quant->rows, quant->columns };
    if (status == COFFER_OK) {
        const uint64_t group = groups != 0 && quant->columns % groups == 0 ? quant->columns / groups : 0;
        status = coffer__quant_fit_scales(module, quant, "._weight_scale", whole, group, err);
    }
    return status == COFFER_OK ? torchao_take_zeros(module, quant, err) : status;
}

/* ---- quanto ------------------------------------------------------------------------------------------------------ */

coffer_status coffer__plan_quanto_bytes(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                        coffer_error *err)
{
    coffer__quant_tensor codes;
    *mine = module->find(module->ctx, ".weight._data", &codes) &&
            (codes.dtype == COFFER_I8 || codes.dtype == COFFER_F8_E4M3 || codes.dtype == COFFER_F8_E5M2);
    if (!*mine) {
        return COFFER_OK;
    }
    quant->layout = codes.dtype == COFFER_I8 ? "quanto int8" : "quanto FP8";
    quant->codes = coffer__quant_codes_of(codes.dtype);
    coffer_status status = coffer__quant_take_shape(module, quant, &codes, ".weight._data", 1, err);
    const uint64_t whole[] = { quant->rows, quant->columns };
    if (status == COFFER_OK) {
        status = coffer__quant_fit_scales(module, quant, ".weight._scale", whole, 0, err);
    }
    quant->round = quant->scale_dtype;
    quant->usual = coffer__quant_usual_of(quant->scale_dtype);
    return status;
}

/* The shape is nowhere but in a bias, which has as many numbers as the layer has rows. */
static coffer_status quanto_take_shape(const coffer__quant_module *module, coffer__quant *quant, coffer_error *err)
{
    coffer__quant_tensor bias;
    const bool found = module->find(module->ctx, ".bias", &bias) && bias.rank == 1 && bias.shape[0] != 0;
    if (!found || quant->count % bias.shape[0] != 0) {
        return coffer__quant_fail(module, COFFER_ERR_UNSUPPORTED, ".weight._data._data",
                                  "does not state its shape, and no bias tells how many rows it has: optimum-quanto "
                                  "itself has to decode it, in its model",
                                  err);
    }
    quant->shape[0] = bias.shape[0];
    quant->shape[1] = quant->count / bias.shape[0];
    return COFFER_OK;
}

coffer_status coffer__plan_quanto_packed(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                         coffer_error *err)
{
    coffer__quant_tensor codes;
    coffer__quant_tensor scales;
    coffer__quant_tensor shift;
    *mine = module->find(module->ctx, ".weight._data._data", &codes) && codes.dtype == COFFER_U8 && codes.rank == 2 &&
            codes.size != 0;
    if (!*mine) {
        return COFFER_OK;
    }
    if (!module->find(module->ctx, ".weight._scale", &scales) || !module->find(module->ctx, ".weight._shift", &shift) ||
        shift.dtype != scales.dtype || shift.size != scales.size) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".weight._shift", "is missing, or is not as the scales are",
                                  err);
    }
    const uint64_t rows = coffer__quant_elements(&scales);
    const uint64_t each = rows / codes.shape[0];
    if (each * codes.shape[0] != rows || (each != 2 && each != 4)) {
        return coffer__quant_misfit(module, ".weight._scale", &scales, codes.shape[0] * 2, 1, err);
    }
    quant->layout = each == 2 ? "quanto int4" : "quanto int2";
    coffer__quant_set_matrix(quant, rows, codes.shape[1]);
    rest_take_slices(quant, ".weight._data._data", &codes, codes.shape[0], codes.shape[1], (unsigned)(8 / each), false);
    const coffer_status status = coffer__quant_set_scales(module, quant, ".weight._scale", 1, quant->columns, err);
    if (status != COFFER_OK) {
        return status;
    }
    coffer__quant_set_zero_values(quant, ".weight._shift", COFFER__FORMULA_TAKEN);
    return quanto_take_shape(module, quant, err);
}

/* ---- BitNet ------------------------------------------------------------------------------------------------------ */

coffer_status coffer__plan_bitnet(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                  coffer_error *err)
{
    coffer__quant_tensor codes;
    *mine = coffer__quant_says(module, "bitnet") && module->find(module->ctx, ".weight", &codes) &&
            codes.dtype == COFFER_U8 && codes.rank == 2 && codes.size != 0;
    if (!*mine) {
        return COFFER_OK;
    }
    coffer__quant_set_matrix(quant, codes.shape[0] * 4, codes.shape[1]);
    rest_take_slices(quant, ".weight", &codes, codes.shape[0], codes.shape[1], 2, false);
    quant->offset = 1;
    quant->formula =
        coffer__same_text(module->config->linear, "autobitlinear") ? COFFER__FORMULA_PRODUCT : COFFER__FORMULA_DIVIDED;
    const uint64_t whole[] = { quant->rows, quant->columns };
    const coffer_status status = coffer__quant_fit_scales(module, quant, ".weight_scale", whole, 0, err);
    quant->usual = coffer__quant_usual_of(quant->scale_dtype);
    return status;
}
