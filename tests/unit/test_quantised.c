/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised layers that are larger than a tile, by any number of threads; memory that runs out, calls that are wrong, and what
 * config.json says. The expected numbers are computed here, element by element. tests/python/test_dequantize.py compares
 * every layout with what its own program made of it.
 */
#include "support_cmocka.h"

#include "bytes.h"
#include "coffer.h"
#include "quant_config.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_model.h"

#include <stdlib.h>
#include <string.h>

#define COUNT_OF(specs) (sizeof(specs) / sizeof((specs)[0]))

/* A model in memory, whose tensors the test fills. */
typedef struct model_sample {
    image made;
    coffer *model;
} model_sample;

static model_sample sample_of(const tensor_spec *specs, size_t count)
{
    model_sample sample = { image_of(specs, count), NULL };
    assert_int_equal(coffer_open_memory(&sample.model, sample.made.bytes, sample.made.size, NULL, NULL), COFFER_OK);
    return sample;
}

static void sample_free(model_sample *sample)
{
    coffer_close(sample->model);
    image_free(&sample->made);
}

/* The bytes of a tensor, which may be changed: the model reads them when it is written. */
static uint8_t *bytes_of(const model_sample *sample, const char *name)
{
    return sample->made.bytes + tensor_named(sample->model, name)->offset;
}

static coffer_status write_plain(const coffer *model, const char *config, uint32_t threads,
                                 const coffer_allocator *allocator, coffer_error *err)
{
    coffer_dequantize_options options = COFFER_DEQUANTIZE_OPTIONS_INIT;
    coffer_rewrite_options where = COFFER_REWRITE_OPTIONS_INIT;
    coffer_read_options how = COFFER_READ_OPTIONS_INIT;
    coffer_rewrite *rewrite = NULL;
    options.config = config;
    options.config_len = config != NULL ? strlen(config) : 0;
    where.output = work_path("plain.safetensors");
    where.allocator = allocator;
    how.threads = threads;
    coffer_status status = coffer_dequantize_plan(&rewrite, model, &options, &where, err);
    if (status == COFFER_OK) {
        status = coffer_rewrite_run(rewrite, &how, err);
    }
    coffer_rewrite_free(rewrite);
    return status;
}

/* Compares the tensor that was written with numbers, rounded once. */
static void assert_is(const char *name, coffer_dtype dtype, const double *values, size_t count)
{
    coffer *plain = model_open("plain.safetensors");
    const coffer_tensor *tensor = tensor_named(plain, name);
    uint8_t *expected = malloc(count * 2);
    uint8_t *found = malloc(count * 2);
    assert_true(tensor != NULL && expected != NULL && found != NULL);
    assert_int_equal(tensor->dtype, dtype);
    assert_int_equal(tensor->size, count * 2);
    assert_int_equal(coffer_encode(dtype, values, count, expected), COFFER_OK);
    assert_int_equal(coffer_read(plain, tensor, found, count * 2, NULL, NULL), COFFER_OK);
    assert_memory_equal(found, expected, count * 2);
    free(expected);
    free(found);
    coffer_close(plain);
}

/* ---- larger than a tile ------------------------------------------------------------------------------------------ */

#define FP8_ROWS 300
#define FP8_COLUMNS 2000

static model_sample fp8_sample(void)
{
    static const tensor_spec specs[] = { { "a.weight", COFFER_F8_E4M3, 2, { FP8_ROWS, FP8_COLUMNS } },
                                         { "a.weight_scale_inv", COFFER_F32, 2, { 3, 16 } },
                                         { "a.k_scale", COFFER_F32, 0, { 0 } },
                                         { "norm", COFFER_F32, 1, { 5 } } };
    model_sample sample = sample_of(specs, COUNT_OF(specs));
    uint8_t *codes = bytes_of(&sample, "a.weight");
    double scales[48];
    for (size_t i = 0; i < FP8_ROWS * (size_t)FP8_COLUMNS; i++) {
        codes[i] &= 0xF7; /* no NaN */
    }
    for (size_t i = 0; i < 48; i++) {
        scales[i] = (double)(i + 1) / 64;
    }
    assert_int_equal(coffer_encode(COFFER_F32, scales, 48, bytes_of(&sample, "a.weight_scale_inv")), COFFER_OK);
    return sample;
}

static void test_blocks_that_are_ragged(void **state)
{
    (void)state;
    model_sample sample = fp8_sample();
    double *values = calloc(FP8_ROWS * (size_t)FP8_COLUMNS, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < FP8_ROWS * (size_t)FP8_COLUMNS; i++) {
        const size_t block = i / FP8_COLUMNS / 128 * 16 + i % FP8_COLUMNS / 128;
        assert_int_equal(coffer_decode(COFFER_F8_E4M3, bytes_of(&sample, "a.weight"), i, 1, &values[i]), COFFER_OK);
        values[i] *= (double)(block + 1) / 64;
    }
    for (uint32_t threads = 1; threads <= 3; threads++) {
        assert_int_equal(write_plain(sample.model, "{}", threads, NULL, NULL), COFFER_OK);
        assert_is("a.weight", COFFER_BF16, values, FP8_ROWS * (size_t)FP8_COLUMNS);
    }
    coffer *plain = model_open("plain.safetensors");
    assert_int_equal(coffer_count(plain), 2);
    coffer_close(plain);
    free(values);
    sample_free(&sample);
}

#define WORDS_ROWS 96
#define WORDS_COLUMNS 4096
#define WORDS_GROUPS 32

static double half_of(size_t i)
{
    return (double)(i % 31 + 1) / 256;
}

/* Scales of F16, and zero points of which no bit is carried. */
static void fill_scales(const model_sample *sample, const char *scales, const char *zeros, size_t count)
{
    double *values = calloc(count, sizeof *values);
    uint8_t *bytes = bytes_of(sample, zeros);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = half_of(i);
    }
    for (size_t i = 0; i < count / 2; i++) {
        bytes[i] &= 0x77;
    }
    assert_int_equal(coffer_encode(COFFER_F16, values, count, bytes_of(sample, scales)), COFFER_OK);
    free(values);
}

static unsigned nibble_of(const uint8_t *bytes, size_t i)
{
    return bytes[i / 2] >> (i % 2 * 4) & 15;
}

static void test_words_down_the_rows(void **state)
{
    (void)state;
    static const tensor_spec specs[] = { { "a.qweight", COFFER_I32, 2, { WORDS_COLUMNS / 8, WORDS_ROWS } },
                                         { "a.qzeros", COFFER_I32, 2, { WORDS_GROUPS, WORDS_ROWS / 8 } },
                                         { "a.scales", COFFER_F16, 2, { WORDS_GROUPS, WORDS_ROWS } } };
    model_sample sample = sample_of(specs, COUNT_OF(specs));
    fill_scales(&sample, "a.scales", "a.qzeros", WORDS_GROUPS * (size_t)WORDS_ROWS);
    double *values = calloc(WORDS_ROWS * (size_t)WORDS_COLUMNS, sizeof *values);
    assert_non_null(values);
    for (size_t row = 0; row < WORDS_ROWS; row++) {
        for (size_t column = 0; column < WORDS_COLUMNS; column++) {
            const size_t group = column / 128;
            const size_t word = column / 8 * WORDS_ROWS + row;
            const int code = (int)nibble_of(bytes_of(&sample, "a.qweight"), word * 8 + column % 8);
            const int zero = (int)nibble_of(bytes_of(&sample, "a.qzeros"), group * WORDS_ROWS + row) + 1;
            values[row * WORDS_COLUMNS + column] = (code - zero) * half_of(group * WORDS_ROWS + row);
        }
    }
    for (uint32_t threads = 1; threads <= 3; threads++) {
        static const char config[] =
            "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128}}";
        assert_int_equal(write_plain(sample.model, config, threads, NULL, NULL), COFFER_OK);
        assert_is("a.weight", COFFER_F16, values, WORDS_ROWS * (size_t)WORDS_COLUMNS);
    }
    free(values);
    sample_free(&sample);
}

#define LIST_COUNT 135135

static void test_lists_whose_last_row_is_shorter(void **state)
{
    (void)state;
    static const char text[] =
        "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"bfloat16\", \"shape\": [135, 1001]}";
    static const tensor_spec specs[] = {
        { "a.weight", COFFER_U8, 2, { (LIST_COUNT + 1) / 2, 1 } },
        { "a.weight.absmax", COFFER_F32, 1, { (LIST_COUNT + 63) / 64 } },
        { "a.weight.quant_map", COFFER_F32, 1, { 16 } },
        { "a.weight.quant_state.bitsandbytes__nf4", COFFER_U8, 1, { sizeof text - 1 } },
    };
    model_sample sample = sample_of(specs, COUNT_OF(specs));
    const size_t blocks = (LIST_COUNT + 63) / 64;
    double *values = calloc(LIST_COUNT, sizeof *values);
    double *scales = calloc(blocks, sizeof *scales);
    double map[16];
    assert_true(values != NULL && scales != NULL);
    memcpy(bytes_of(&sample, specs[3].name), text, sizeof text - 1);
    for (size_t i = 0; i < blocks; i++) {
        scales[i] = half_of(i);
    }
    for (size_t i = 0; i < 16; i++) {
        map[i] = (double)i - 7;
    }
    assert_int_equal(coffer_encode(COFFER_F32, scales, blocks, bytes_of(&sample, specs[1].name)), COFFER_OK);
    assert_int_equal(coffer_encode(COFFER_F32, map, 16, bytes_of(&sample, specs[2].name)), COFFER_OK);
    for (size_t i = 0; i < LIST_COUNT; i++) {
        values[i] = map[nibble_of(bytes_of(&sample, "a.weight"), i ^ 1)] * half_of(i / 64);
    }
    assert_int_equal(write_plain(sample.model, NULL, 2, NULL, NULL), COFFER_OK);
    assert_is("a.weight", COFFER_BF16, values, LIST_COUNT);
    free(values);
    free(scales);
    sample_free(&sample);
}

/* ---- what fails -------------------------------------------------------------------------------------------------- */

static void test_without_memory_nothing_is_written(void **state)
{
    (void)state;
    model_sample sample = fp8_sample();
    coffer_status status = COFFER_ERR_MEMORY;
    for (size_t request = 1; status != COFFER_OK; request++) {
        memory_meter meter = { .fail_at = request };
        const coffer_allocator allocator = metered_allocator(&meter);
        status = write_plain(sample.model, "{}", 1, &allocator, NULL);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        assert_int_equal(meter.held, 0);
        assert_int_equal(work_dir_count(), status == COFFER_OK ? 1 : 0);
    }
    sample_free(&sample);
}

static void test_wrong_calls(void **state)
{
    (void)state;
    model_sample sample = fp8_sample();
    coffer_dequantize_options options = COFFER_DEQUANTIZE_OPTIONS_INIT;
    coffer_rewrite_options where = COFFER_REWRITE_OPTIONS_INIT;
    coffer_rewrite *rewrite = NULL;
    coffer_quantised *layers = NULL;
    coffer_error err;
    where.output = work_path("plain.safetensors");
    assert_int_equal(coffer_dequantize_plan(NULL, sample.model, NULL, &where, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_dequantize_plan(&rewrite, NULL, NULL, &where, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_quantised_open(NULL, sample.model, NULL, 0, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_quantised_open(&layers, NULL, NULL, 0, &err), COFFER_ERR_ARGUMENT);
    options.dtype = COFFER_I8;
    assert_int_equal(coffer_dequantize_plan(&rewrite, sample.model, &options, &where, &err), COFFER_ERR_ARGUMENT);
    options.dtype = COFFER_F16;
    options.like = "torch";
    assert_int_equal(coffer_dequantize_plan(&rewrite, sample.model, &options, &where, &err), COFFER_ERR_ARGUMENT);
    assert_null(rewrite);
    assert_int_equal(write_plain(sample.model, "{\"a\": ", 1, NULL, &err), COFFER_ERR_JSON);
    assert_int_equal(
        write_plain(sample.model, "{\"quantization_config\": {\"quant_method\": \"gptq\"}}", 1, NULL, &err),
        COFFER_ERR_UNSUPPORTED);
    assert_string_equal(err.tensor, "a.weight");
    assert_int_equal(
        write_plain(sample.model, "{\"quantization_config\": {\"weight_block_size\": [64, 64]}}", 1, NULL, &err),
        COFFER_ERR_SIZE);
    coffer_quantised_close(NULL);
    sample_free(&sample);
}

static void test_layers_that_are_shown(void **state)
{
    (void)state;
    model_sample sample = fp8_sample();
    coffer_quantised *layers = NULL;
    assert_int_equal(coffer_quantised_open(&layers, sample.model, "{}", 2, NULL), COFFER_OK);
    assert_int_equal(coffer_quantised_count(layers), 1);
    const coffer_quantised_layer *layer = coffer_quantised_at(layers, 0);
    assert_string_equal(layer->layout, "DeepSeek FP8 blocks");
    assert_int_equal(layer->rank, 2);
    assert_int_equal(layer->shape[1], FP8_COLUMNS);
    assert_int_equal(layer->stored, FP8_ROWS * FP8_COLUMNS + 48 * 4);
    assert_ptr_equal(layer->codes, tensor_named(sample.model, "a.weight"));
    assert_null(coffer_quantised_at(layers, 1));
    coffer_quantised_close(layers);
    sample_free(&sample);
}

/* ---- the configuration ------------------------------------------------------------------------------------------- */

static coffer_status read_config(coffer__quant_config *config, const char *text)
{
    memset(config, 0, sizeof *config);
    return coffer__quant_config_read(config, text, strlen(text), NULL);
}

static void test_configurations(void **state)
{
    (void)state;
    coffer__quant_config config;
    uint64_t bits = 0;
    uint64_t group = 0;
    char mode[16] = "";
    assert_int_equal(read_config(&config,
                                 "{\"dtype\": \"float16\", \"text_config\": {\"quantization_config\": {\"bits\": 4,"
                                 " \"quant_method\": \"gptq\", \"sym\": true, \"x\": [[{}], 1]}}}"),
                     COFFER_OK);
    assert_true(config.quantised && config.symmetric);
    assert_string_equal(config.method, "gptq");
    assert_int_equal(config.bits, 4);
    assert_int_equal(config.dtype, COFFER_F16);
    assert_int_equal(
        read_config(&config, "{\"quantization\": {\"bits\": 4, \"a.b\": {\"bits\": 8, \"group_size\": 32}}}"),
        COFFER_OK);
    assert_string_equal(config.method, "mlx");
    assert_true(coffer__quant_config_module(&config, "a.b", 3, &bits, &group, mode));
    assert_int_equal(bits, 8);
    assert_int_equal(group, 32);
    assert_false(coffer__quant_config_module(&config, "a.c", 3, &bits, &group, mode));
    assert_int_equal(read_config(&config, "{} {}"), COFFER_ERR_JSON);
    assert_int_equal(read_config(&config, "{\"a\": 1,}"), COFFER_ERR_JSON);
    assert_int_equal(read_config(&config, ""), COFFER_ERR_JSON);
}

static void test_numbers_of_json(void **state)
{
    (void)state;
    /* In variables: a compiler may keep a constant of float as a double (FLT_EVAL_METHOD). */
    const float wanted[] = { 0.0834554061293602f, -1.5e-3f };
    float value = 0;
    assert_true(coffer__span_float((coffer__quant_span){ "0.0834554061293602", 18 }, &value));
    assert_memory_equal(&value, &wanted[0], sizeof value);
    assert_true(coffer__span_float((coffer__quant_span){ "-1.5e-3", 7 }, &value));
    assert_memory_equal(&value, &wanted[1], sizeof value);
    assert_false(coffer__span_float((coffer__quant_span){ "1e400", 5 }, &value));
    assert_false(coffer__span_float((coffer__quant_span){ "NaN", 3 }, &value));
    assert_int_equal(coffer__span_number((coffer__quant_span){ "18446744073709551616", 20 }), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_blocks_that_are_ragged, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_words_down_the_rows, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_lists_whose_last_row_is_shorter, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory_nothing_is_written, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_calls, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_layers_that_are_shown, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test(test_configurations),
        cmocka_unit_test(test_numbers_of_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
