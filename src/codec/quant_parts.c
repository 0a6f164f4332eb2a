/* SPDX-License-Identifier: Apache-2.0 */
/* What layouts have in common: shapes, parts and grids of scales. See quant_layouts.h. */
#include "quant_layouts.h"

#include "error.h"
#include "text.h"

bool coffer__quant_has(const coffer__quant_module *module, const char *ending)
{
    coffer__quant_tensor tensor;
    return module->find(module->ctx, ending, &tensor);
}

bool coffer__quant_says(const coffer__quant_module *module, const char *method)
{
    return coffer__same_text(module->config->method, method);
}

uint64_t coffer__quant_ceil(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Of a tensor that is there, so that nothing overflows. */
uint64_t coffer__quant_elements(const coffer__quant_tensor *tensor)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        elements *= tensor->shape[i];
    }
    return elements;
}

coffer_status coffer__quant_fail(const coffer__quant_module *module, coffer_status code, const char *ending,
                                 const char *why, coffer_error *err)
{
    return coffer__fail(err, code, "the layer %q, in its tensor %s, %s", module->stem, module->stem_len,
                        ending[0] == '.' || ending[0] == '_' ? ending + 1 : ending, why);
}

/* Names both shapes: "is 2 by 3, and should be 3 by 2". */
coffer_status coffer__quant_misfit(const coffer__quant_module *module, const char *ending,
                                   const coffer__quant_tensor *tensor, uint64_t rows, uint64_t columns,
                                   coffer_error *err)
{
    const uint64_t *shape = tensor->shape;
    const uint32_t rank = tensor->rank;
    const uint64_t have_columns = rank > 0 ? shape[rank - 1] : 1;
    const uint64_t have_rows = rank > 1 ? shape[rank - 2] : 1;
    coffer__fail(err, COFFER_ERR_SIZE, "the layer %q has the tensor %s of %u by %u, and it should be %u by %u",
                 module->stem, module->stem_len, ending[0] == '.' || ending[0] == '_' ? ending + 1 : ending, have_rows,
                 have_columns, rows, columns);
    return coffer__fail_sizes(err, COFFER_ERR_SIZE, rows * columns, have_rows * have_columns);
}

void coffer__quant_set_matrix(coffer__quant *quant, uint64_t rows, uint64_t columns)
{
    quant->rank = 2;
    quant->shape[0] = rows;
    quant->shape[1] = columns;
    quant->rows = rows;
    quant->columns = columns;
    /* Of none, and of more than a file can have, nothing is decoded. */
    quant->count = columns != 0 && rows <= UINT64_MAX / 64 / columns ? rows * columns : 0;
    quant->block_column = columns;
}

coffer_status coffer__quant_take_shape(const coffer__quant_module *module, coffer__quant *quant,
                                       const coffer__quant_tensor *tensor, const char *ending, uint64_t expand,
                                       coffer_error *err)
{
    const uint32_t rank = tensor->rank;
    const uint64_t elements = coffer__quant_elements(tensor);
    if (rank > COFFER__QUANT_MAX_RANK || elements == 0 || elements > UINT64_MAX / 64) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ending, "has no elements, or too many or dimensions", err);
    }
    quant->rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        quant->shape[i] = tensor->shape[i] * (i + 1 == rank ? expand : 1);
    }
    quant->columns = rank > 0 ? quant->shape[rank - 1] : expand;
    quant->rows = rank > 1 ? quant->shape[rank - 2] : 1;
    quant->count = elements * expand;
    quant->block_column = quant->columns;
    coffer__quant_set_part(quant, COFFER__QUANT_CODES, ending, tensor,
                           tensor->size / (elements / (rank > 0 ? tensor->shape[rank - 1] : 1)), quant->rows, 1);
    return COFFER_OK;
}

void coffer__quant_set_part(coffer__quant *quant, coffer__quant_role role, const char *ending,
                            const coffer__quant_tensor *tensor, uint64_t line, uint64_t lines, uint32_t rows)
{
    quant->parts[role] = (coffer__quant_part){ ending, line, lines, tensor->size, rows, 1, false, false };
}

void coffer__quant_set_along(coffer__quant *quant, coffer__quant_role role, const char *ending,
                             const coffer__quant_tensor *tensor, uint64_t line, uint64_t lines, uint32_t rows,
                             uint32_t units)
{
    quant->parts[role] = (coffer__quant_part){ ending, line, lines, tensor->size, rows, units, true, false };
}

void coffer__quant_set_whole(coffer__quant *quant, coffer__quant_role role, const char *ending,
                             const coffer__quant_tensor *tensor)
{
    quant->parts[role] = (coffer__quant_part){ ending, tensor->size, 1, tensor->size, 1, 1, false, true };
}

/* U8 are exponents wherever scales are stored as bytes. */
static coffer_dtype layout_scale_dtype(coffer_dtype dtype)
{
    return dtype == COFFER_U8 ? COFFER_F8_E8M0 : dtype;
}

static bool layout_is_scale(coffer_dtype dtype)
{
    return dtype == COFFER_F32 || dtype == COFFER_F16 || dtype == COFFER_BF16 || dtype == COFFER_F8_E8M0 ||
           dtype == COFFER_F8_E4M3 || dtype == COFFER_U8;
}

bool coffer__quant_is_plain(coffer_dtype dtype)
{
    return dtype == COFFER_F16 || dtype == COFFER_BF16 || dtype == COFFER_F32;
}

coffer_dtype coffer__quant_usual_of(coffer_dtype scales)
{
    return coffer__quant_is_plain(scales) && scales != COFFER_F32 ? scales : COFFER_UNKNOWN_DTYPE;
}

void coffer__quant_set_zero_values(coffer__quant *quant, const char *ending, coffer__quant_formula formula)
{
    quant->parts[COFFER__QUANT_ZEROS] = quant->parts[COFFER__QUANT_SCALES];
    quant->parts[COFFER__QUANT_ZEROS].ending = ending;
    quant->zeros = COFFER__ZEROS_VALUES;
    quant->zero_dtype = quant->scale_dtype;
    quant->formula = formula;
    quant->round = quant->scale_dtype;
    quant->usual = coffer__quant_usual_of(quant->scale_dtype);
}

/* The matrices of a layer. */
static uint64_t layout_matrices(const coffer__quant *quant)
{
    return coffer__quant_ceil(quant->count, quant->rows * quant->columns);
}

coffer_status coffer__quant_set_scales(const coffer__quant_module *module, coffer__quant *quant, const char *ending,
                                       uint64_t block_rows, uint64_t block_columns, coffer_error *err)
{
    coffer__quant_tensor scales;
    if (!module->find(module->ctx, ending, &scales)) {
        return coffer__quant_fail(module, COFFER_ERR_NO_TENSOR, ending, "lacks its scales", err);
    }
    if (!layout_is_scale(scales.dtype)) {
        return coffer__quant_fail(module, COFFER_ERR_DTYPE, ending, "has a dtype that scales do not have", err);
    }
    quant->scale_dtype = layout_scale_dtype(scales.dtype);
    if (block_rows == 0 || block_columns == 0 || block_rows > UINT32_MAX) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ending, "has blocks without rows or columns", err);
    }
    const uint64_t lines = coffer__quant_ceil(quant->rows, block_rows);
    const uint64_t columns = coffer__quant_ceil(quant->columns, block_columns);
    const uint64_t last = scales.rank > 0 ? scales.shape[scales.rank - 1] : 1;
    /* Rows with a scale each may leave the dimension of columns out. */
    const bool in_place = last == columns || (columns == 1 && last == lines && scales.rank < quant->rank);
    if (coffer__quant_elements(&scales) != layout_matrices(quant) * lines * columns || !in_place) {
        return coffer__quant_misfit(module, ending, &scales, lines, columns, err);
    }
    quant->block_column = block_columns;
    coffer__quant_set_part(quant, COFFER__QUANT_SCALES, ending, &scales,
                           columns * (coffer_dtype_bits(scales.dtype) / 8), lines, (uint32_t)block_rows);
    return COFFER_OK;
}

/* One scale for everything. */
static coffer_status layout_set_scale(const coffer__quant_module *module, coffer__quant *quant, const char *ending,
                                      coffer__quant_tensor *scale, coffer_error *err)
{
    if (!layout_is_scale(scale->dtype)) {
        return coffer__quant_fail(module, COFFER_ERR_DTYPE, ending, "has a dtype that scales do not have", err);
    }
    quant->scale_dtype = layout_scale_dtype(scale->dtype);
    /* Kernels of convolutions are short rows: all that the first dimension has is one. */
    const uint64_t wide = quant->rank > 2 ? quant->count / quant->shape[0] : 0;
    if (wide != 0 && wide <= COFFER__QUANT_TILE && quant->codes <= COFFER__CODES_U8) {
        quant->rows = quant->shape[0];
        quant->columns = wide;
        quant->parts[COFFER__QUANT_CODES].line = wide;
        quant->parts[COFFER__QUANT_CODES].lines = quant->rows;
    }
    quant->block_column = quant->columns;
    coffer__quant_set_whole(quant, COFFER__QUANT_SCALES, ending, scale);
    return COFFER_OK;
}

coffer_status coffer__quant_fit_scales(const coffer__quant_module *module, coffer__quant *quant, const char *ending,
                                       const uint64_t block[2], uint64_t group, coffer_error *err)
{
    coffer__quant_tensor scales;
    if (!module->find(module->ctx, ending, &scales)) {
        return coffer__quant_fail(module, COFFER_ERR_NO_TENSOR, ending, "lacks its scales", err);
    }
    const uint64_t count = coffer__quant_elements(&scales);
    const uint64_t rows = layout_matrices(quant) * quant->rows;
    if (count == 1) {
        return layout_set_scale(module, quant, ending, &scales, err);
    }
    if (group != 0 && count == rows * coffer__quant_ceil(quant->columns, group)) {
        return coffer__quant_set_scales(module, quant, ending, 1, group, err);
    }
    if (count == rows && (scales.rank < 2 || scales.shape[scales.rank - 1] == 1)) {
        return coffer__quant_set_scales(module, quant, ending, 1, quant->columns, err);
    }
    return coffer__quant_set_scales(module, quant, ending, block[0], block[1], err);
}

coffer_status coffer__quant_read_float(const coffer__quant_module *module, const char *ending, float *value,
                                       coffer_error *err)
{
    coffer__quant_tensor tensor;
    uint8_t bytes[4];
    if (!module->find(module->ctx, ending, &tensor)) {
        return coffer__quant_fail(module, COFFER_ERR_NO_TENSOR, ending, "lacks its global scale", err);
    }
    if (tensor.dtype != COFFER_F32 || coffer__quant_elements(&tensor) != 1) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ending, "should be one number of F32", err);
    }
    const coffer_status status = module->read(module->ctx, ending, bytes, sizeof bytes, err);
    if (status == COFFER_OK) {
        *value = coffer__quant_value(COFFER_F32, bytes);
    }
    return status;
}
