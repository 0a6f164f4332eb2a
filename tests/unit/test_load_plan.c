/* SPDX-License-Identifier: Apache-2.0 */
/* Why: plans refuse what cannot be carried out before anything is read, and nothing else; they split models as
   engines do, and tell what a load will read. */
#include "support_cmocka.h"

#include "support_file.h"
#include "support_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct opened {
    image bytes;
    coffer *model;
    coffer_plan *plan;
} opened;

static opened open_specs(const tensor_spec *specs, size_t count)
{
    opened made = { .bytes = image_of(specs, count) };
    assert_int_equal(coffer_open_memory(&made.model, made.bytes.bytes, made.bytes.size, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_new(&made.plan, made.model, NULL, NULL), COFFER_OK);
    return made;
}

static void close_specs(opened *made)
{
    coffer_plan_free(made->plan);
    coffer_close(made->model);
    image_free(&made->bytes);
}

static const coffer_tensor *named(const opened *made, const char *name)
{
    const coffer_tensor *tensor = coffer_find(made->model, name, strlen(name));
    assert_non_null(tensor);
    return tensor;
}

static const tensor_spec MATRIX[] = { { "m", COFFER_F32, 2, { 6, 8 } }, { "v", COFFER_F4, 1, { 16 } } };

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Adds columns [from, to) of the matrix to the same columns of a matrix in memory, whose rows have `step` bytes. */
static coffer_status add_columns(const opened *made, uint8_t *memory, int64_t from, int64_t to, int64_t step)
{
    const coffer_index indices[] = { { COFFER_INDEX_ALL, false, false, 0, 0, 0 },
                                     { COFFER_INDEX_RANGE, true, true, from, to, 1 } };
    const int64_t strides[] = { step, 4 };
    const coffer_destination place = { .address = (uintptr_t)(memory + 4 * from),
                                       .size = (uint64_t)(6 * step),
                                       .strides = strides };
    return coffer_plan_add(made->plan, named(made, "m"), indices, 2, &place, NULL, NULL);
}

static coffer_status start_and_free(const opened *made, coffer_error *err)
{
    coffer_load *load = NULL;
    const coffer_status status = coffer_load_start(&load, made->plan, NULL, NULL, err);
    coffer_load_free(load);
    return status;
}

static void test_columns_may_lie_between_each_other(void **state)
{
    (void)state;
    uint8_t memory[6 * 32] = { 0 };
    opened made = open_specs(MATRIX, 2);
    assert_int_equal(add_columns(&made, memory, 0, 3, 32), COFFER_OK);
    assert_int_equal(add_columns(&made, memory, 6, 8, 32), COFFER_OK);
    assert_int_equal(add_columns(&made, memory, 3, 6, 32), COFFER_OK);
    assert_int_equal(start_and_free(&made, NULL), COFFER_OK);
    assert_memory_equal(memory, made.bytes.bytes + named(&made, "m")->offset, sizeof memory);
    close_specs(&made);
}

static void test_places_that_share_a_byte_are_refused(void **state)
{
    (void)state;
    coffer_error err;
    uint8_t memory[6 * 32 + 32] = { 0 };
    static const int64_t second[][3] = { { 3, 6, 32 }, { 2, 4, 32 }, { 4, 8, 28 } };
    static const bool apart[] = { true, false, false };
    for (size_t i = 0; i < 3; i++) {
        opened made = open_specs(MATRIX, 2);
        assert_int_equal(add_columns(&made, memory, 0, 3, 32), COFFER_OK);
        assert_int_equal(add_columns(&made, memory, second[i][0], second[i][1], second[i][2]), COFFER_OK);
        assert_int_equal(start_and_free(&made, &err), apart[i] ? COFFER_OK : COFFER_ERR_DESTINATION);
        if (!apart[i]) {
            assert_string_equal(err.tensor, "m");
        }
        close_specs(&made);
    }
}

/* Whether two regions of bytes meet, by trying all of them, compared with what a load says. */
static void test_overlaps_are_exact(void **state)
{
    (void)state;
    static const tensor_spec spec[] = { { "b", COFFER_U8, 2, { 5, 4 } } };
    static uint8_t memory[4096];
    dice of = { 11 };
    size_t refused = 0;
    for (size_t round = 0; round < 400; round++) {
        uint8_t used[4096] = { 0 };
        bool meets = false;
        bool own = false;
        coffer_error err;
        opened made = open_specs(spec, 1);
        for (size_t k = 0; k < 2 && !own; k++) {
            const int64_t strides[] = { 1 + (int64_t)dice_below(&of, 40), 1 + (int64_t)dice_below(&of, 40) };
            const uint64_t at = dice_below(&of, 30);
            uint8_t mine[4096] = { 0 };
            for (size_t i = 0; i < 5; i++) {
                for (size_t j = 0; j < 4; j++) {
                    const size_t byte = (size_t)at + i * (size_t)strides[0] + j * (size_t)strides[1];
                    own = own || mine[byte] != 0;
                    meets = meets || used[byte] != 0;
                    mine[byte] = 1;
                }
            }
            for (size_t b = 0; b < sizeof used; b++) {
                used[b] |= mine[b];
            }
            const coffer_destination place = { .address = (uintptr_t)(memory + at), .size = 400, .strides = strides };
            assert_int_equal(coffer_plan_add(made.plan, named(&made, "b"), NULL, 0, &place, NULL, &err),
                             own ? COFFER_ERR_DESTINATION : COFFER_OK);
        }
        if (!own) {
            assert_int_equal(start_and_free(&made, &err), meets ? COFFER_ERR_DESTINATION : COFFER_OK);
        }
        refused += own || meets;
        close_specs(&made);
    }
    assert_true(refused > 20 && refused < 390);
}

static void test_places_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    uint8_t memory[256];
    coffer_error err;
    opened made = open_specs(MATRIX, 2);
    const int64_t rows[] = { 32, 4 };
    const int64_t zero[] = { 32, 0 };
    const int64_t back[] = { -32, 4 };
    const int64_t huge[] = { INT64_MAX / 2, 4 };
    const int64_t bits[] = { 1 };
    const struct {
        const char *name;
        coffer_destination place;
        coffer_status status;
    } tries[] = {
        { "m", { .address = (uintptr_t)memory, .size = 191 }, COFFER_ERR_DESTINATION },
        { "m", { .address = (uintptr_t)memory, .size = 191, .strides = rows }, COFFER_ERR_DESTINATION },
        { "m", { .address = (uintptr_t)memory, .size = 192, .strides = zero }, COFFER_ERR_DESTINATION },
        { "m", { .address = (uintptr_t)memory, .size = 192, .strides = back }, COFFER_ERR_DESTINATION },
        { "m", { .address = (uintptr_t)memory, .size = INT64_MAX, .strides = huge }, COFFER_ERR_DESTINATION },
        { "m", { .address = 0, .size = 192 }, COFFER_ERR_ARGUMENT },
        { "m", { .address = UINT64_MAX - 10, .size = 192 }, COFFER_ERR_DESTINATION },
        { "v", { .address = (uintptr_t)memory, .size = 64, .strides = bits }, COFFER_ERR_DESTINATION },
        { "v", { .address = (uintptr_t)memory, .size = 8 }, COFFER_OK },
        { "m", { .address = (uintptr_t)memory, .size = 192, .strides = rows }, COFFER_OK },
    };
    size_t added = 0;
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        size_t item = SIZE_MAX;
        assert_int_equal(coffer_plan_add(made.plan, named(&made, tries[i].name), NULL, 0, &tries[i].place, &item, &err),
                         tries[i].status);
        added += tries[i].status == COFFER_OK ? 1 : 0;
        assert_int_equal(coffer_plan_count(made.plan), added);
        assert_true(tries[i].status != COFFER_OK || item == added - 1);
    }
    close_specs(&made);
}

/* ---- shares ------------------------------------------------------------------------------------------------------ */

static void test_shares_that_cannot_be_are_refused(void **state)
{
    (void)state;
    coffer_error err;
    const uint64_t parts[] = { 4, 3 };
    opened made = open_specs(MATRIX, 2);
    const coffer_tensor *m = named(&made, "m");
    assert_int_equal(coffer_plan_add_rank(made.plan, m, 0, NULL, 0, 0, 4, NULL, NULL, NULL, &err), COFFER_ERR_INDEX);
    assert_int_equal(coffer_plan_add_rank(made.plan, m, 2, NULL, 0, 0, 2, NULL, NULL, NULL, &err), COFFER_ERR_INDEX);
    assert_int_equal(coffer_plan_add_rank(made.plan, m, 0, parts, 2, 0, 1, NULL, NULL, NULL, &err), COFFER_ERR_INDEX);
    assert_int_equal(coffer_plan_add_rank(made.plan, m, 0, NULL, 0, 2, 2, NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_plan_add_rank(made.plan, named(&made, "v"), 0, NULL, 0, 0, 16, NULL, NULL, NULL, &err),
                     COFFER_ERR_SLICE_BITS);
    assert_int_equal(coffer_plan_add(made.plan, NULL, NULL, 0, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    const coffer_split_rule without = { .pattern = NULL, .dim = 0 };
    assert_int_equal(coffer_plan_add_all(made.plan, &without, 1, 0, 2, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_plan_count(made.plan), 0);
    close_specs(&made);
}

static void test_models_are_split_by_the_names_of_their_weights(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "model.layers.0.self_attn.q_proj.weight", COFFER_BF16, 2, { 8, 4 } },
                                         { "model.layers.0.self_attn.o_proj.weight", COFFER_BF16, 2, { 4, 8 } },
                                         { "model.layers.0.self_attn.qkv_proj.weight", COFFER_BF16, 2, { 8, 4 } },
                                         { "model.layers.0.mlp.gate_up_proj.weight", COFFER_BF16, 2, { 12, 4 } },
                                         { "model.layers.0.input_layernorm.weight", COFFER_BF16, 1, { 4 } },
                                         { "h.0.attn.c_attn.weight", COFFER_BF16, 2, { 4, 12 } },
                                         { "lm_head.weight", COFFER_BF16, 2, { 7, 4 } } };
    static const uint64_t expected[][2] = { { 4, 4 }, { 4, 4 }, { 4, 4 }, { 6, 4 }, { 4, 0 }, { 4, 6 }, { 7, 4 } };
    opened made = open_specs(specs, 7);
    coffer_plan_item item;
    assert_int_equal(coffer_plan_add_all(made.plan, NULL, 0, 1, 2, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_count(made.plan), 7);
    for (size_t i = 0; i < 7; i++) {
        assert_true(coffer_plan_at(made.plan, i, &item));
        for (size_t k = 0; k < 7; k++) {
            if (strcmp(specs[k].name, item.tensor->name) == 0) {
                assert_int_equal(item.shape[0], expected[k][0]);
                assert_true(item.rank == 1 || item.shape[1] == expected[k][1]);
            }
        }
    }
    assert_false(coffer_plan_at(made.plan, 7, &item));
    const coffer_split_rule rules[] = { { "*norm*", 0 }, { "*", -1 } };
    assert_int_equal(coffer_plan_add_all(made.plan, rules, 2, 0, 2, NULL, NULL), COFFER_OK);
    uint64_t size = 0;
    for (size_t i = 7; i < 14; i++) {
        assert_true(coffer_plan_at(made.plan, i, &item));
        size += item.size;
        assert_true(item.whole == (item.tensor->rank != 1));
    }
    assert_int_equal(size, made.bytes.size - made.bytes.data_offset - 4);
    close_specs(&made);
}

/* ---- packed layers ----------------------------------------------------------------------------------------------- */

/* A tensor, and what each of `world` ranks takes of it. */
typedef struct packed_row {
    tensor_spec spec;
    uint64_t taken[2];
} packed_row;

static void assert_split(const packed_row *rows, size_t count, uint32_t world)
{
    tensor_spec specs[8] = { { NULL, COFFER_UNKNOWN_DTYPE, 0, { 0 } } };
    assert_in_range(count, 1, 8);
    for (size_t i = 0; i < count; i++) {
        specs[i] = rows[i].spec;
    }
    opened made = open_specs(specs, count);
    coffer_plan_item item;
    assert_int_equal(coffer_plan_add_all(made.plan, NULL, 0, world - 1, world, NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < count; i++) {
        const coffer_tensor *tensor = named(&made, rows[i].spec.name);
        for (size_t k = 0; coffer_plan_at(made.plan, k, &item); k++) {
            if (item.tensor == tensor) {
                for (size_t d = 0; d < tensor->rank; d++) {
                    assert_int_equal(item.shape[d], rows[i].taken[d]);
                }
            }
        }
    }
    close_specs(&made);
}

/* 4 bits, groups of 128 inputs. */
static void test_layers_of_awq_are_split_between_integers_and_groups(void **state)
{
    (void)state;
    static const packed_row outputs[] = {
        { { "l.0.q_proj.qweight", COFFER_I32, 2, { 512, 32 } }, { 512, 8 } },
        { { "l.0.q_proj.qzeros", COFFER_I32, 2, { 4, 32 } }, { 4, 8 } },
        { { "l.0.q_proj.scales", COFFER_F16, 2, { 4, 256 } }, { 4, 64 } },
        { { "l.0.q_proj.bias", COFFER_F16, 1, { 256 } }, { 64 } },
    };
    static const packed_row inputs[] = {
        { { "l.0.o_proj.qweight", COFFER_I32, 2, { 512, 32 } }, { 128, 32 } },
        { { "l.0.o_proj.qzeros", COFFER_I32, 2, { 4, 32 } }, { 1, 32 } },
        { { "l.0.o_proj.scales", COFFER_F16, 2, { 4, 256 } }, { 1, 256 } },
        { { "l.0.o_proj.bias", COFFER_F16, 1, { 256 } }, { 256 } },
    };
    static const packed_row one_group[] = {
        { { "l.0.o_proj.qweight", COFFER_I32, 2, { 512, 32 } }, { 128, 32 } },
        { { "l.0.o_proj.qzeros", COFFER_I32, 2, { 1, 32 } }, { 1, 32 } },
        { { "l.0.o_proj.scales", COFFER_F16, 2, { 1, 256 } }, { 1, 256 } },
    };
    static const packed_row fused[] = {
        { { "l.0.gate_up_proj.qweight", COFFER_I32, 2, { 512, 32 } }, { 512, 8 } },
        { { "l.0.gate_up_proj.qzeros", COFFER_I32, 2, { 4, 32 } }, { 4, 8 } },
        { { "l.0.gate_up_proj.scales", COFFER_F16, 2, { 4, 256 } }, { 4, 64 } },
    };
    assert_split(outputs, 4, 4);
    assert_split(inputs, 4, 4);
    assert_split(one_group, 3, 4);
    assert_split(fused, 3, 4);
}

/* Scales and biases of 24 outputs could be split in two, but the three integers of a row cannot; 640 inputs could, but
   not their five groups; and of what is fused each part has to come out even. Groups of 96 are none that any program
   makes: the last one is a part of one. */
static void test_a_packed_layer_is_split_as_one_or_not_at_all(void **state)
{
    (void)state;
    static const packed_row integers[] = {
        { { "l.0.q_proj.qweight", COFFER_I32, 2, { 512, 3 } }, { 512, 3 } },
        { { "l.0.q_proj.qzeros", COFFER_I32, 2, { 4, 3 } }, { 4, 3 } },
        { { "l.0.q_proj.scales", COFFER_F16, 2, { 4, 24 } }, { 4, 24 } },
        { { "l.0.q_proj.bias", COFFER_F16, 1, { 24 } }, { 24 } },
    };
    static const packed_row groups[] = {
        { { "l.0.o_proj.qweight", COFFER_I32, 2, { 640, 32 } }, { 640, 32 } },
        { { "l.0.o_proj.qzeros", COFFER_I32, 2, { 5, 32 } }, { 5, 32 } },
        { { "l.0.o_proj.scales", COFFER_F16, 2, { 5, 256 } }, { 5, 256 } },
    };
    static const packed_row odd_groups[] = {
        { { "l.0.o_proj.qweight", COFFER_I32, 2, { 192, 32 } }, { 192, 32 } },
        { { "l.0.o_proj.qzeros", COFFER_I32, 2, { 2, 32 } }, { 2, 32 } },
        { { "l.0.o_proj.scales", COFFER_F16, 2, { 2, 256 } }, { 2, 256 } },
    };
    static const packed_row fused[] = {
        { { "l.0.gate_up_proj.qweight", COFFER_I32, 2, { 512, 6 } }, { 512, 6 } },
        { { "l.0.gate_up_proj.qzeros", COFFER_I32, 2, { 4, 6 } }, { 4, 6 } },
        { { "l.0.gate_up_proj.scales", COFFER_F16, 2, { 4, 48 } }, { 4, 48 } },
    };
    static const packed_row strange[] = {
        { { "l.0.q_proj.qweight", COFFER_I32, 2, { 512, 32 } }, { 512, 32 } },
        { { "l.0.q_proj.qzeros", COFFER_I32, 2, { 4, 16 } }, { 4, 16 } },
        { { "l.0.q_proj.scales", COFFER_F16, 2, { 4, 256 } }, { 4, 256 } },
    };
    static const packed_row without_scales[] = {
        { { "l.0.q_proj.qweight", COFFER_I32, 2, { 512, 32 } }, { 512, 32 } },
        { { "l.0.q_proj.bias", COFFER_F16, 1, { 256 } }, { 256 } },
    };
    assert_split(integers, 4, 2);
    assert_split(groups, 3, 2);
    assert_split(odd_groups, 3, 2);
    assert_split(fused, 3, 2);
    assert_split(strange, 3, 2);
    assert_split(without_scales, 2, 2);
}

/* 4 bits and 3 bits; with and without g_idx, which may mix the groups; and of GPT-2, whose weights are transposed. */
static void test_layers_of_gptq_are_split_between_integers_and_groups(void **state)
{
    (void)state;
    static const packed_row outputs[] = {
        { { "l.0.up_proj.qweight", COFFER_I32, 2, { 64, 256 } }, { 64, 64 } },
        { { "l.0.up_proj.qzeros", COFFER_I32, 2, { 4, 32 } }, { 4, 8 } },
        { { "l.0.up_proj.scales", COFFER_F16, 2, { 4, 256 } }, { 4, 64 } },
        { { "l.0.up_proj.g_idx", COFFER_I32, 1, { 512 } }, { 512 } },
    };
    static const packed_row inputs[] = {
        { { "l.0.down_proj.qweight", COFFER_I32, 2, { 64, 256 } }, { 16, 256 } },
        { { "l.0.down_proj.qzeros", COFFER_I32, 2, { 4, 32 } }, { 4, 32 } },
        { { "l.0.down_proj.scales", COFFER_F16, 2, { 4, 256 } }, { 4, 256 } },
        { { "l.0.down_proj.g_idx", COFFER_I32, 1, { 512 } }, { 128 } },
    };
    static const packed_row in_order[] = {
        { { "l.0.down_proj.qweight", COFFER_I32, 2, { 64, 256 } }, { 16, 256 } },
        { { "l.0.down_proj.qzeros", COFFER_I32, 2, { 4, 32 } }, { 1, 32 } },
        { { "l.0.down_proj.scales", COFFER_F16, 2, { 4, 256 } }, { 1, 256 } },
    };
    static const packed_row three_bits[] = {
        { { "l.0.up_proj.qweight", COFFER_I32, 2, { 48, 128 } }, { 48, 32 } },
        { { "l.0.up_proj.qzeros", COFFER_I32, 2, { 4, 12 } }, { 4, 3 } },
        { { "l.0.up_proj.scales", COFFER_F16, 2, { 4, 128 } }, { 4, 32 } },
        { { "l.0.up_proj.g_idx", COFFER_I32, 1, { 512 } }, { 512 } },
    };
    static const packed_row transposed[] = {
        { { "h.0.attn.c_proj.qweight", COFFER_I32, 2, { 64, 256 } }, { 16, 256 } },
        { { "h.0.attn.c_proj.qzeros", COFFER_I32, 2, { 4, 32 } }, { 1, 32 } },
        { { "h.0.attn.c_proj.scales", COFFER_F16, 2, { 4, 256 } }, { 1, 256 } },
        { { "h.0.attn.c_proj.bias", COFFER_F16, 1, { 256 } }, { 256 } },
    };
    assert_split(outputs, 4, 4);
    assert_split(inputs, 4, 4);
    assert_split(in_order, 3, 4);
    assert_split(three_bits, 4, 4);
    assert_split(transposed, 4, 4);
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

static void test_a_plan_tells_what_it_costs(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "wide", COFFER_U8, 2, { 64, 100000 } },
                                         { "low", COFFER_U8, 2, { 1000, 1000 } } };
    opened made = open_specs(specs, 2);
    coffer_plan_cost cost = { .struct_size = sizeof cost };
    const coffer_index column[] = { { COFFER_INDEX_ALL, false, false, 0, 0, 0 },
                                    { COFFER_INDEX_RANGE, true, true, 0, 500, 1 } };
    /* Gaps of 99,500 bytes are not read; gaps of 500 are. */
    assert_int_equal(coffer_plan_add(made.plan, named(&made, "wide"), column, 2, NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_cost_of(made.plan, SIZE_MAX, &cost, NULL), COFFER_OK);
    assert_int_equal(cost.items, 1);
    assert_int_equal(cost.needed, 64 * 500);
    assert_int_equal(cost.read, 64 * 500);
    assert_true(cost.requests >= 64 && cost.requests <= 68);
    assert_int_equal(coffer_plan_add(made.plan, named(&made, "low"), column, 2, NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_cost_of(made.plan, 0, &cost, NULL), COFFER_OK);
    assert_int_equal(cost.items, 2);
    assert_int_equal(cost.needed, 64 * 500 + 1000 * 500);
    assert_int_equal(cost.read,
                     64 * 500 + 1000 * 1000); /* the gap after its last row is followed by the other tensor */
    assert_true(cost.requests <= 70);
    assert_int_equal(coffer_plan_cost_of(made.plan, 1, &cost, NULL), COFFER_ERR_ARGUMENT);
    close_specs(&made);
}

/* What is read by the library's own reading alone counts as buffered; a shard of which nothing is wanted has no engine.
   */
static void test_a_plan_tells_its_engines(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "a", COFFER_U8, 1, { 10 } }, { "none", COFFER_U8, 1, { 0 } } };
    opened made = open_specs(specs, 2);
    uint32_t engines = 1;
    assert_int_equal(coffer_plan_add(made.plan, named(&made, "none"), NULL, 0, NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_engines_of(made.plan, SIZE_MAX, &engines, NULL), COFFER_OK);
    assert_int_equal(engines, 0);
    assert_int_equal(coffer_plan_add(made.plan, named(&made, "a"), NULL, 0, NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_engines_of(made.plan, 0, &engines, NULL), COFFER_OK);
    assert_int_equal(engines, 1 << COFFER_ENGINE_BUFFERED);
    assert_int_equal(coffer_plan_engines_of(made.plan, 1, &engines, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_plan_engines_of(made.plan, 0, NULL, NULL), COFFER_ERR_ARGUMENT);
    close_specs(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_may_lie_between_each_other),
        cmocka_unit_test(test_places_that_share_a_byte_are_refused),
        cmocka_unit_test(test_overlaps_are_exact),
        cmocka_unit_test(test_places_that_do_not_fit_are_refused),
        cmocka_unit_test(test_shares_that_cannot_be_are_refused),
        cmocka_unit_test(test_models_are_split_by_the_names_of_their_weights),
        cmocka_unit_test(test_layers_of_awq_are_split_between_integers_and_groups),
        cmocka_unit_test(test_a_packed_layer_is_split_as_one_or_not_at_all),
        cmocka_unit_test(test_layers_of_gptq_are_split_between_integers_and_groups),
        cmocka_unit_test(test_a_plan_tells_what_it_costs),
        cmocka_unit_test(test_a_plan_tells_its_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
