/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bitsandbytes. Of 4 bits, the codes are a flat list, the first of two in the high half of a byte, in a tensor of any shape
 * and dtype; .absmax has a scale for each block of the list, and .quant_map the values of codes. .quant_state is JSON and
 * says the rest. Scales may be quantised in their turn (nested). Of 8 bits, .SCB has a scale for each row.
 */
#include "quant_layouts.h"

#include <string.h>

#define BNB_STATE 4096         /* bytes of a state */
#define BNB_ROW UINT64_C(4096) /* columns of the matrix that the list is taken for, if blocks divide that */

typedef struct bnb_state {
    uint64_t block;
    uint64_t nested_block;
    float nested_offset;
    coffer_dtype dtype;
    uint32_t rank;
    uint64_t shape[COFFER__QUANT_MAX_RANK];
    bool wrong;
} bnb_state;

static void bnb_visit_shape(bnb_state *state, const coffer__walk_value *value)
{
    const uint64_t size = coffer__span_number(value->text);
    if (state->rank == COFFER__QUANT_MAX_RANK || value->kind != '0' || size == 0) {
        state->wrong = true;
        return;
    }
    state->shape[state->rank++] = size;
}

static void bnb_visit(void *ctx, const coffer__walk_value *value)
{
    bnb_state *state = ctx;
    const coffer__quant_span key = value->path[0];
    if (value->depth == 2 && coffer__span_is(key, "shape")) {
        bnb_visit_shape(state, value);
    }
    if (value->depth != 1) {
        return;
    }
    if (coffer__span_is(key, "blocksize")) {
        state->block = coffer__span_number(value->text);
    } else if (coffer__span_is(key, "nested_blocksize")) {
        state->nested_block = coffer__span_number(value->text);
        state->wrong = state->wrong || state->nested_block == 0;
    } else if (coffer__span_is(key, "nested_offset")) {
        state->wrong = state->wrong || !coffer__span_float(value->text, &state->nested_offset);
    } else if (coffer__span_is(key, "dtype")) {
        state->dtype = coffer__span_dtype(value->text);
    }
}

static coffer_status bnb_read_state(const coffer__quant_module *module, const char *ending, bnb_state *state,
                                    coffer_error *err)
{
    coffer__quant_tensor tensor;
    char text[BNB_STATE];
    if (!module->find(module->ctx, ending, &tensor) || tensor.dtype != COFFER_U8 || tensor.size == 0 ||
        tensor.size > sizeof text) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ending, "is no short text", err);
    }
    coffer_status status = module->read(module->ctx, ending, text, (size_t)tensor.size, err);
    if (status == COFFER_OK) {
        status = coffer__walk_json(text, (size_t)tensor.size, "quant_state", bnb_visit, state, err);
    }
    if (status != COFFER_OK) {
        return status;
    }
    const bool sound = !state->wrong && state->block != 0 && state->block <= BNB_ROW && state->rank > 0 &&
                       state->dtype != COFFER_UNKNOWN_DTYPE;
    return sound
               ? COFFER_OK
               : coffer__quant_fail(module, COFFER_ERR_NUMBER, ending, "has no usable block size, dtype or shape", err);
}

/* The values of the codes: 16 of F32. */
static coffer_status bnb_read_map(const coffer__quant_module *module, coffer__quant *quant, bool fp4, coffer_error *err)
{
    coffer__quant_tensor map;
    uint8_t bytes[64];
    if (!module->find(module->ctx, ".weight.quant_map", &map) || map.dtype != COFFER_F32 || map.size != sizeof bytes) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".weight.quant_map", "should be 16 numbers of F32", err);
    }
    const coffer_status status = module->read(module->ctx, ".weight.quant_map", bytes, sizeof bytes, err);
    for (unsigned i = 0; i < 16; i++) {
        quant->values[i] = coffer__quant_value(COFFER_F32, bytes + 4 * (size_t)i);
    }
    /* As its compiled kernels have it; the map of a file has +0. */
    if (fp4 && quant->values[8] == 0) {
        quant->values[8] = -0.0f;
    }
    return status;
}

/* The scales of blocks, as they are or nested. */
static coffer_status bnb_take_scales(const coffer__quant_module *module, coffer__quant *quant, const bnb_state *state,
                                     coffer_error *err)
{
    coffer__quant_tensor scales;
    coffer__quant_tensor map;
    coffer__quant_tensor outer;
    const uint64_t count = coffer__quant_ceil(quant->count, state->block);
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a state without a block size was refused */
    const uint64_t each = quant->columns / state->block;
    const bool nested = state->nested_block != 0;
    const coffer_dtype dtype = nested ? COFFER_U8 : COFFER_F32;
    if (!module->find(module->ctx, ".weight.absmax", &scales) || scales.dtype != dtype ||
        coffer__quant_elements(&scales) != count) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".weight.absmax",
                                  "is missing, or has not one number for each block", err);
    }
    quant->block_column = state->block;
    quant->scale_dtype = dtype;
    coffer__quant_set_part(quant, COFFER__QUANT_SCALES, ".weight.absmax", &scales, each * (nested ? 1 : 4), quant->rows,
                           1);
    if (!nested) {
        return COFFER_OK;
    }
    const uint64_t outer_count = coffer__quant_ceil(count, state->nested_block);
    if (!module->find(module->ctx, ".weight.nested_quant_map", &map) || map.dtype != COFFER_F32 || map.size != 1024 ||
        !module->find(module->ctx, ".weight.nested_absmax", &outer) || outer.dtype != COFFER_F32 ||
        outer.size != outer_count * 4) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".weight.nested_absmax",
                                  "or nested_quant_map is missing, or not of the size that nested_blocksize gives",
                                  err);
    }
    quant->grid = COFFER__GRID_NESTED;
    quant->nested_block = state->nested_block;
    quant->zero_nested = state->nested_offset;
    coffer__quant_set_whole(quant, COFFER__QUANT_ZEROS, ".weight.nested_absmax", &outer);
    coffer__quant_set_whole(quant, COFFER__QUANT_INDEX, ".weight.nested_quant_map", &map);
    return COFFER_OK;
}

/* The list as a matrix whose rows are whole blocks; the last row may be shorter. */
static coffer_status bnb_take_list(const coffer__quant_module *module, coffer__quant *quant, const bnb_state *state,
                                   coffer_error *err)
{
    coffer__quant_tensor codes;
    uint64_t count = 1;
    (void)module->find(module->ctx, ".weight", &codes);
    for (uint32_t i = 0; i < state->rank; i++) {
        count = count <= codes.size * 2 && state->shape[i] <= codes.size * 2 / count ? count * state->shape[i] : 0;
        if (count == 0) {
            break;
        }
    }
    if (count == 0 || coffer__quant_ceil(count, 2) != codes.size) {
        return coffer__quant_fail(module, COFFER_ERR_SIZE, ".weight", "has not as many codes as its quant_state says",
                                  err);
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a state without a block size was refused */
    const uint64_t columns = BNB_ROW / state->block * state->block;
    coffer__quant_set_matrix(quant, coffer__quant_ceil(count, columns), columns);
    quant->count = count;
    quant->rank = state->rank;
    memcpy(quant->shape, state->shape, sizeof quant->shape);
    quant->codes = COFFER__CODES_PAIRS;
    quant->high_first = true;
    coffer__quant_set_part(quant, COFFER__QUANT_CODES, ".weight", &codes, columns / 2, quant->rows, 1);
    return columns % 2 == 0 ? COFFER_OK
                            : coffer__quant_fail(module, COFFER_ERR_SIZE, ".weight", "has blocks of an odd size", err);
}

static coffer_status bnb_plan(const coffer__quant_module *module, coffer__quant *quant, const char *ending, bool fp4,
                              coffer_error *err)
{
    bnb_state state = { .block = 0 };
    coffer_status status = bnb_read_state(module, ending, &state, err);
    if (status == COFFER_OK) {
        status = bnb_take_list(module, quant, &state, err);
    }
    if (status == COFFER_OK) {
        status = bnb_take_scales(module, quant, &state, err);
    }
    if (status == COFFER_OK) {
        status = bnb_read_map(module, quant, fp4, err);
    }
    quant->round = state.dtype;
    quant->usual = state.dtype;
    return status;
}

coffer_status coffer__plan_bnb_nf4(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                   coffer_error *err)
{
    *mine = coffer__quant_has(module, ".weight");
    return *mine ? bnb_plan(module, quant, ".weight.quant_state.bitsandbytes__nf4", false, err) : COFFER_OK;
}

coffer_status coffer__plan_bnb_fp4(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                   coffer_error *err)
{
    *mine = coffer__quant_has(module, ".weight");
    return *mine ? bnb_plan(module, quant, ".weight.quant_state.bitsandbytes__fp4", true, err) : COFFER_OK;
}

coffer_status coffer__plan_bnb_int8(const coffer__quant_module *module, coffer__quant *quant, bool *mine,
                                    coffer_error *err)
{
    coffer__quant_tensor codes;
    coffer__quant_tensor format;
    uint8_t number = 0;
    *mine = module->find(module->ctx, ".weight", &codes) && codes.dtype == COFFER_I8 && codes.rank == 2;
    coffer_status status = COFFER_OK;
    if (*mine && module->find(module->ctx, ".weight_format", &format) && format.size == 1) {
        status = module->read(module->ctx, ".weight_format", &number, 1, err);
    }
    if (status != COFFER_OK || !*mine) {
        return status;
    }
    if (number != 0) {
        return coffer__quant_fail(module, COFFER_ERR_UNSUPPORTED, ".weight_format",
                                  "names an order of weights that only bitsandbytes knows", err);
    }
    quant->codes = COFFER__CODES_I8;
    quant->formula = COFFER__FORMULA_TWICE;
    quant->global = 7.874015718698502e-3f;
    status = coffer__quant_take_shape(module, quant, &codes, ".weight", 1, err);
    return status == COFFER_OK ? coffer__quant_set_scales(module, quant, ".SCB", 1, quant->columns, err) : status;
}
