/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many parameters a model has, as stored and as trained: one small model for each way in which weights are packed, with the
 * names that its makers give, and configurations that say less than they should. (tests/python has the published totals.)
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_memory.h"

#include <stdlib.h>
#include <string.h>

static coffer *open_image(const image *made, const coffer_allocator *allocator)
{
    coffer *model = NULL;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.allocator = allocator;
    assert_int_equal(coffer_open_memory(&model, made->bytes, made->size, &options, NULL), COFFER_OK);
    return model;
}

static coffer_parameters counted(const tensor_spec *specs, size_t count, const char *config)
{
    image made = image_of(specs, count);
    coffer *model = open_image(&made, NULL);
    coffer_parameters counts;
    coffer_error err;
    assert_int_equal(coffer_count_parameters(model, config, strlen(config), &counts, &err), COFFER_OK);
    coffer_close(model);
    image_free(&made);
    return counts;
}

static uint64_t total(const uint64_t counts[32])
{
    uint64_t sum = 0;
    for (size_t i = 0; i <= COFFER_DTYPE_COUNT; i++) {
        sum += counts[i];
    }
    return sum;
}

#define COUNTED(specs, config) counted(specs, sizeof(specs) / sizeof((specs)[0]), config)

static void test_plain(void **state)
{
    (void)state;
    static const tensor_spec specs[] = {
        { "w", COFFER_F32, 2, { 3, 4 } },    { "scalar", COFFER_F32, 0, { 0 } },
        { "e", COFFER_F8_E8M0, 1, { 7 } },   { "packed", COFFER_F4, 2, { 2, 4 } },
        { "none", COFFER_I64, 2, { 0, 9 } }, { "w.qweight", COFFER_I32, 1, { 5 } },
    };
    const coffer_parameters counts = COUNTED(specs, "");
    assert_int_equal(counts.plain[COFFER_F32], 13);
    assert_int_equal(counts.plain[COFFER_F8_E8M0], 7);
    assert_int_equal(counts.plain[COFFER_F4], 8);
    assert_int_equal(total(counts.plain), 33);
    assert_int_equal(counts.trained[COFFER_F32], 13);
    assert_int_equal(total(counts.trained), 26);
    assert_int_equal(counts.compatible[COFFER_F32], 12);
    assert_int_equal(total(counts.compatible), 25);
    assert_string_equal(counts.assumed, "");
}

static const tensor_spec gptq[] = {
    { "a.qweight", COFFER_I32, 2, { 2, 10 } }, { "a.qzeros", COFFER_I32, 2, { 1, 4 } },
    { "a.g_idx", COFFER_I32, 1, { 16 } },      { "a.scales", COFFER_F16, 2, { 1, 10 } },
    { "a.bias", COFFER_F16, 1, { 10 } },       { "head.weight", COFFER_F16, 2, { 3, 5 } },
};

static void test_gptq_and_awq(void **state)
{
    (void)state;
    coffer_parameters counts = COUNTED(
        gptq, "{\"a\": [1, {\"quantization_config\": 1}], \"quantization_config\": {\"quant_method\": \"gptq\", "
              "\"bits\": 4, \"group_size\": 128}}");
    assert_int_equal(counts.trained[COFFER_I32], 20 * 8);
    assert_int_equal(counts.trained[COFFER_F16], 25);
    assert_int_equal(counts.compatible[COFFER_I32], 20 * 8);
    assert_string_equal(counts.assumed, "\"gptq\": weights of 4 bits, unpacked; scales do not count");
    counts = COUNTED(gptq, "{\"quantization_config\": {\"quant_method\": \"awq\"}}");
    assert_int_equal(counts.trained[COFFER_I32], 20 * 8);
    assert_string_equal(counts.assumed, "\"awq\": weights of 4 bits (not stated), unpacked; scales do not count");
    /* 32 weights of 3 bits are in 3 elements: others count 10 for each. */
    counts = COUNTED(gptq, "{\"quantization_config\": {\"bits\": 3, \"quant_method\": \"gptq\"}}");
    assert_int_equal(counts.trained[COFFER_I32], 20 * 32 / 3);
    assert_int_equal(counts.compatible[COFFER_I32], 20 * 10);
}

static void test_left_out(void **state)
{
    (void)state;
    static const char *const configs[] = {
        "{\"quantization_config\": {\"quant_method\": \"gptq\", \"modules_to_not_convert\": [\"b\", \"a\"]}}",
        "{\"quantization_config\": {\"quant_method\": \"gptq\", \"ignore\": [\"*.qw*ght\", \"a.?\"]}}",
        "{\"quantization_config\": {\"quant_method\": \"gptq\", \"ignore\": [\"re:.*.qweig\"]}}",
    };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        const coffer_parameters counts = counted(gptq, 1, configs[i]);
        assert_int_equal(counts.trained[COFFER_I32], 20);
    }
    const coffer_parameters counts =
        counted(gptq, 1, "{\"quantization_config\": {\"quant_method\": \"gptq\", \"ignore\": [\"lm_head\", 7]}}");
    assert_int_equal(counts.trained[COFFER_I32], 160);
    static const char *const empty[] = { "[]", "null", "{}" };
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        char config[128] = "{\"quantization_config\": {\"quant_method\": \"gptq\", \"ignore\": ";
        strcat(strcat(config, empty[i]), "}}");
        assert_int_equal(counted(gptq, 1, config).trained[COFFER_I32], 160);
    }
}

static void test_compressed_tensors(void **state)
{
    (void)state;
    static const tensor_spec specs[] = {
        { "a.weight_packed", COFFER_I32, 2, { 4, 5 } }, { "a.weight_scale", COFFER_BF16, 2, { 4, 1 } },
        { "a.weight_shape", COFFER_I64, 1, { 2 } },     { "b.weight_packed", COFFER_U8, 1, { 6 } },
        { "n.weight", COFFER_BF16, 1, { 3 } },
    };
    const coffer_parameters counts = COUNTED(
        specs,
        "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": \"pack-quantized\", "
        "\"config_groups\": {\"group_0\": {\"input_activations\": null, \"weights\": {\"num_bits\": 4, \"type\": "
        "\"int\"}}}, \"ignore\": [\"lm_head\"]}}");
    assert_int_equal(counts.trained[COFFER_I32], 160);
    assert_int_equal(counts.trained[COFFER_U8], 12);
    assert_int_equal(counts.trained[COFFER_BF16], 3);
    assert_int_equal(total(counts.trained), 175);
    const coffer_parameters naive = COUNTED(
        specs,
        "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": \"naive-quantized\"}}");
    assert_int_equal(naive.trained[COFFER_I32], 20);
}

static void test_mxfp4(void **state)
{
    (void)state;
    static const tensor_spec specs[] = {
        { "mlp.experts.up_proj_blocks", COFFER_U8, 4, { 2, 3, 4, 16 } },
        { "mlp.experts.up_proj_scales", COFFER_U8, 3, { 2, 3, 4 } },
        { "mlp.experts.up_proj_bias", COFFER_BF16, 2, { 2, 3 } },
    };
    const coffer_parameters counts = COUNTED(specs, "{\"quantization_config\": {\"quant_method\": \"mxfp4\"}}");
    assert_int_equal(counts.trained[COFFER_U8], 2 * 384);
    assert_int_equal(counts.trained[COFFER_BF16], 6);
    assert_string_equal(counts.assumed, "\"mxfp4\": weights of 4 bits, two in each byte; scales do not count");
}

static void test_bitsandbytes(void **state)
{
    (void)state;
    static const tensor_spec specs[] = {
        { "q.weight", COFFER_U8, 2, { 50, 1 } },
        { "q.weight.absmax", COFFER_U8, 1, { 2 } },
        { "q.weight.nested_absmax", COFFER_F32, 1, { 1 } },
        { "q.weight.nested_quant_map", COFFER_F32, 1, { 256 } },
        { "q.weight.quant_map", COFFER_F32, 1, { 16 } },
        { "q.weight.quant_state.bitsandbytes__nf4", COFFER_U8, 1, { 90 } },
        { "n.weight", COFFER_F16, 1, { 4 } },
    };
    coffer_parameters counts = COUNTED(
        specs,
        "{\"quantization_config\": {\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true, \"bits\": 4.0}}");
    assert_int_equal(counts.trained[COFFER_U8], 100);
    assert_int_equal(total(counts.trained), 104);
    counts = COUNTED(specs, "{\"quantization_config\": {\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": false}}");
    assert_int_equal(counts.trained[COFFER_U8], 50);
}

/* With 8 bits a weight is an element, and its scales are no parameters; @huggingface/hub takes them for some. */
static void test_bitsandbytes_of_8_bits(void **state)
{
    (void)state;
    static const tensor_spec specs[] = {
        { "q.weight", COFFER_I8, 2, { 4, 5 } },
        { "q.SCB", COFFER_F32, 1, { 4 } },
        { "q.weight_format", COFFER_U8, 0, { 0 } },
        { "q.bias", COFFER_F16, 1, { 4 } },
    };
    const coffer_parameters counts =
        COUNTED(specs, "{\"quantization_config\": {\"quant_method\": \"bitsandbytes\", \"load_in_8bit\": true}}");
    assert_int_equal(counts.trained[COFFER_I8], 20);
    assert_int_equal(counts.trained[COFFER_F32], 0);
    assert_int_equal(counts.trained[COFFER_U8], 0);
    assert_int_equal(total(counts.trained), 24);
    assert_int_equal(total(counts.plain), 29);
    assert_int_equal(total(counts.compatible), 28);
    /* Elsewhere the names mean nothing. */
    assert_int_equal(total(COUNTED(specs, "{\"quantization_config\": {\"quant_method\": \"gptq\"}}").trained), 29);
}

static void test_mlx(void **state)
{
    (void)state;
    static const tensor_spec specs[] = {
        { "a.weight", COFFER_U32, 2, { 4, 8 } }, { "a.scales", COFFER_F16, 2, { 4, 1 } },
        { "a.biases", COFFER_F16, 2, { 4, 1 } }, { "b.weight", COFFER_U32, 1, { 3 } },
        { "c.scales", COFFER_F16, 1, { 5 } },    { "c.weight", COFFER_F16, 1, { 2 } },
    };
    const coffer_parameters counts = COUNTED(specs, "{\"quantization\": {\"group_size\": 64, \"bits\": 4}, "
                                                    "\"quantization_config\": {\"group_size\": 64, \"bits\": 4}}");
    assert_int_equal(counts.trained[COFFER_U32], 32 * 8 + 3);
    assert_int_equal(counts.trained[COFFER_F16], 7);
    assert_string_equal(counts.assumed, "\"mlx\": weights of 4 bits, unpacked; scales do not count");
}

static void test_mlx_modules_with_bits_of_their_own(void **state)
{
    (void)state;
    static const tensor_spec specs[] = {
        { "a.weight", COFFER_U32, 1, { 4 } },   { "a.scales", COFFER_F16, 1, { 1 } },
        { "b.weight", COFFER_U32, 1, { 4 } },   { "b.scales", COFFER_F16, 1, { 1 } },
        { "b.c.weight", COFFER_U32, 1, { 4 } }, { "b.c.scales", COFFER_F16, 1, { 1 } },
        { ".weight", COFFER_U32, 1, { 4 } },    { ".scales", COFFER_F16, 1, { 1 } },
    };
    coffer_parameters counts = COUNTED(
        specs, "{\"quantization\": {\"b\": {\"group_size\": 32, \"bits\": 8, \"x\": [{}]}, \"bits\": 4, \"b.c\": "
               "false, \"none\": {\"bits\": 2}, \"\": {\"bits\": 2}, \"a\": {\"bits\": 33}}}");
    assert_int_equal(counts.trained[COFFER_U32], 4 * 8 + 4 * 4 + 4 * 8 + 4 * 16);
    assert_int_equal(counts.compatible[COFFER_U32], 4 * 8 + 4 * 4 + 4 * 8 + 4 * 16);
    assert_int_equal(counts.trained[COFFER_F16], 0);
    assert_string_equal(counts.assumed,
                        "\"mlx\": weights of 4 bits, or what a module states, unpacked; scales do not count");
    /* The same module twice is no JSON that anybody writes: the first counts. */
    counts = COUNTED(specs, "{\"quantization\": {\"bits\": 4, \"b\": {\"bits\": 8}, \"b\": {\"bits\": 2}}}");
    assert_int_equal(counts.trained[COFFER_U32], 3 * 4 * 8 + 4 * 4);
}

static void test_the_language_model_within(void **state)
{
    (void)state;
#define INNER "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 8}}"
    static const struct {
        const char *config;
        uint64_t trained;
    } cases[] = {
        { "{\"text_config\": " INNER "}", 20 * 4 },
        { "{\"vision_config\": " INNER ", \"llm_config\": " INNER "}", 20 * 4 },
        { "{\"language_config\": " INNER ", \"quantization_config\": null}", 20 * 4 },
        { "{\"vision_config\": " INNER "}", 40 },
        { "{\"a\": {\"text_config\": " INNER "}}", 40 },
        { "{\"text_config\": 1}", 40 },
        /* What the outermost object says goes first, wherever it stands. */
        { "{\"text_config\": " INNER ", \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}", 20 * 8 },
        { "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}, \"text_config\": " INNER "}", 20 * 8 },
    };
#undef INNER
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(COUNTED(gptq, cases[i].config).trained[COFFER_I32], cases[i].trained);
    }
}

static void test_other_methods(void **state)
{
    (void)state;
    static const tensor_spec specs[] = {
        { "a.weight", COFFER_F8_E4M3, 2, { 4, 8 } },
        { "a.weight_scale_inv", COFFER_F32, 2, { 1, 1 } },
        { "a.input_scale", COFFER_F32, 0, { 0 } },
    };
    const coffer_parameters counts = COUNTED(specs, "{\"quantization_config\": {\"quant_method\": \"fp8\"}}");
    assert_int_equal(total(counts.trained), 32);
    assert_int_equal(total(counts.plain), 34);
    assert_string_equal(counts.assumed, "\"fp8\": weights count as they are stored; scales do not count");
}

static void test_configurations_that_are_none(void **state)
{
    (void)state;
    static const char *const configs[] = { "{}", "[]", "{\"quantization_config\": null}",
                                           "{\"quantization_config\": 4}", "{\"quantisation\": {\"bits\": 4}}" };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        const coffer_parameters counts = COUNTED(gptq, configs[i]);
        assert_int_equal(total(counts.trained), total(counts.plain));
        assert_string_equal(counts.assumed, "");
    }
    static const char *const broken[] = { "{", "{\"quantization_config\": {\"quant_method\": \"gptq\"", "x",
                                          "{\"quantization_config\": {\"ignore\": [\"a\"}}" };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        const coffer_parameters counts = COUNTED(gptq, broken[i]);
        assert_int_equal(total(counts.trained), total(counts.plain));
        assert_string_equal(counts.assumed, "config.json is not valid JSON: everything counts as it is stored");
    }
}

static void test_config_beside_the_file(void **state)
{
    (void)state;
    static const char config[] = "{\"quantization_config\": {\"quant_method\": \"gptq\"}}";
    coffer_parameters counts;
    coffer *model = NULL;
    work_dir_make();
    image made = image_of(gptq, 1);
    file_write("model.safetensors", made.bytes, made.size);
    assert_int_equal(coffer_open(&model, work_path("model.safetensors"), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_count_parameters(model, NULL, 0, &counts, NULL), COFFER_OK);
    assert_int_equal(counts.trained[COFFER_I32], 20);
    file_write("config.json", config, sizeof config - 1);
    assert_int_equal(coffer_count_parameters(model, NULL, 0, &counts, NULL), COFFER_OK);
    assert_int_equal(counts.trained[COFFER_I32], 160);
    assert_int_equal(coffer_count_parameters(model, "", 0, &counts, NULL), COFFER_OK);
    assert_int_equal(counts.trained[COFFER_I32], 20);
    coffer_close(model);
    image_free(&made);
    work_dir_remove();
}

static void test_refused(void **state)
{
    (void)state;
    static const char config[] = "{\"quantization_config\": {\"quant_method\": \"gptq\", \"ignore\": [\"x\"]}}";
    coffer_error err;
    coffer_parameters counts;
    memory_meter meter = { 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    assert_int_equal(coffer_count_parameters(NULL, NULL, 0, &counts, &err), COFFER_ERR_ARGUMENT);
    image made = image_of(gptq, 1);
    coffer *model = open_image(&made, &allocator);
    assert_int_equal(coffer_count_parameters(model, NULL, 0, NULL, &err), COFFER_ERR_ARGUMENT);
    const size_t before = meter.blocks;
    for (size_t i = 1; i <= 2; i++) {
        meter.fail_at = meter.requests + i;
        assert_int_equal(coffer_count_parameters(model, config, sizeof config - 1, &counts, &err), COFFER_ERR_MEMORY);
        assert_int_equal(err.code, COFFER_ERR_MEMORY);
        assert_int_equal(meter.blocks, before);
    }
    coffer_close(model);
    image_free(&made);
    assert_int_equal(meter.blocks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_gptq_and_awq),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_compressed_tensors),
        cmocka_unit_test(test_mxfp4),
        cmocka_unit_test(test_bitsandbytes),
        cmocka_unit_test(test_bitsandbytes_of_8_bits),
        cmocka_unit_test(test_mlx),
        cmocka_unit_test(test_mlx_modules_with_bits_of_their_own),
        cmocka_unit_test(test_the_language_model_within),
        cmocka_unit_test(test_other_methods),
        cmocka_unit_test(test_configurations_that_are_none),
        cmocka_unit_test(test_config_beside_the_file),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
