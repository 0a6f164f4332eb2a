/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Averages by the library: angles without libm, any number of threads, memory that runs out, cancelling, and calls that are
 * wrong. Numbers are small integers and weights powers of two, so that means are exact; tests in Python compare others.
 */
#include "support_cmocka.h"

#include "average.h"
#include "coffer.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"
#include "support_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 600001 /* elements: more than two pieces */

/* ---- files ------------------------------------------------------------------------------------------------------ */

static float number(size_t model, size_t i)
{
    return (float)((i * (model + 3)) % 64);
}

static void write_model(const char *name, size_t model)
{
    coffer_header *header = new_header();
    coffer_writer *writer = NULL;
    uint8_t *bytes = malloc(4 * (size_t)COUNT);
    double *wide = calloc(COUNT, sizeof *wide);
    assert_true(bytes != NULL && wide != NULL);
    add_tensor(header, "w", COFFER_F32, 1, COUNT, 0);
    add_tensor(header, "ids", COFFER_I64, 1, 2, 0);
    for (size_t i = 0; i < COUNT; i++) {
        wide[i] = (double)number(model, i);
    }
    assert_int_equal(coffer_encode(COFFER_F32, wide, COUNT, bytes), COFFER_OK);
    assert_int_equal(coffer_writer_open(&writer, header, work_path(name), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, 0, 0, bytes, 4 * (uint64_t)COUNT, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, 1, 0, "0123456789abcdef", 16, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    free(bytes);
    free(wide);
}

static double *new_numbers(void)
{
    coffer *model = model_open("mean.safetensors");
    const coffer_tensor *tensor = tensor_named(model, "w");
    uint8_t *bytes = malloc((size_t)tensor->size);
    double *values = calloc(COUNT, sizeof *values);
    assert_true(bytes != NULL && values != NULL);
    assert_int_equal(coffer_read(model, tensor, bytes, tensor->size, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_decode(COFFER_F32, bytes, 0, COUNT, values), COFFER_OK);
    free(bytes);
    coffer_close(model);
    return values;
}

/* ---- averaging -------------------------------------------------------------------------------------------------- */

static coffer_status average(const coffer_average_options *options, const coffer_allocator *allocator,
                             const coffer_read_options *how)
{
    coffer_rewrite *rewrite = NULL;
    coffer_rewrite_options where = COFFER_REWRITE_OPTIONS_INIT;
    coffer *first = model_open("a.safetensors");
    coffer *second = model_open("b.safetensors");
    const coffer *models[] = { first, second };
    where.output = work_path("mean.safetensors");
    where.allocator = allocator;
    coffer_status status = coffer_average_plan(&rewrite, models, 2, options, &where, NULL);
    if (status == COFFER_OK) {
        status = coffer_rewrite_run(rewrite, how, NULL);
    }
    coffer_rewrite_free(rewrite);
    coffer_close(first);
    coffer_close(second);
    return status;
}

static void write_models(void)
{
    write_model("a.safetensors", 0);
    write_model("b.safetensors", 1);
}

static void test_means_with_any_number_of_threads(void **state)
{
    static const double weights[] = { 3, 1 };
    coffer_average_options options = COFFER_AVERAGE_OPTIONS_INIT;
    (void)state;
    write_models();
    options.weights = weights;
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        coffer_read_options how = COFFER_READ_OPTIONS_INIT;
        how.threads = threads;
        assert_int_equal(average(&options, NULL, &how), COFFER_OK);
        double *found = new_numbers();
        for (size_t i = 0; i < COUNT; i += 7) {
            assert_true(found[i] == 0.75 * (double)number(0, i) + 0.25 * (double)number(1, i));
        }
        free(found);
    }
}

static void test_slerp_with_any_number_of_threads(void **state)
{
    coffer_average_options options = COFFER_AVERAGE_OPTIONS_INIT;
    double both = 0;
    double squares[2] = { 0 };
    double coefficients[2];
    (void)state;
    write_models();
    options.slerp = true;
    for (size_t i = 0; i < COUNT; i++) {
        const double a = (double)number(0, i);
        const double b = (double)number(1, i);
        both += a * b;
        squares[0] += a * a;
        squares[1] += b * b;
    }
    const coffer__average_sums sums = { both, squares[0], squares[1] };
    coffer__average_angle(&sums, 0.5, coefficients);
    assert_true(coefficients[0] > 0.5); /* the sphere is beyond the line */
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        coffer_read_options how = COFFER_READ_OPTIONS_INIT;
        how.threads = threads;
        assert_int_equal(average(&options, NULL, &how), COFFER_OK);
        double *found = new_numbers();
        for (size_t i = 0; i < COUNT; i += 7) {
            const double wanted = coefficients[0] * (double)number(0, i) + coefficients[1] * (double)number(1, i);
            assert_true(fabs(found[i] - wanted) <= 1e-6 * fabs(wanted));
        }
        free(found);
    }
}

static void test_angles(void **state)
{
    (void)state;
    for (int i = -99; i <= 99; i++) {
        for (int k = 0; k <= 8; k++) {
            const double cosine = (double)i / 100;
            const double t = (double)k / 8;
            double found[2];
            const coffer__average_sums sums = { cosine * 6, 4, 9 };
            coffer__average_angle(&sums, t, found);
            assert_true(fabs(found[0] - sin((1 - t) * acos(cosine)) / sin(acos(cosine))) <= 1e-13);
            assert_true(fabs(found[1] - sin(t * acos(cosine)) / sin(acos(cosine))) <= 1e-13);
        }
    }
    static const coffer__average_sums lines[] = { { 6, 4, 9 }, { -6, 4, 9 }, { 5.999, 4, 9 }, { NAN, 4, 9 } };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        double found[2];
        coffer__average_angle(&lines[i], 0.25, found);
        assert_true(found[0] == 0.75 && found[1] == 0.25);
    }
    /* A vector without a length is at a right angle. */
    const coffer__average_sums zero = { 0, 0, 9 };
    double found[2];
    coffer__average_angle(&zero, 1, found);
    assert_true(fabs(found[0]) <= 1e-15 && fabs(found[1] - 1) <= 1e-15);
}

static int cancel(void *ctx, uint64_t done, uint64_t total)
{
    const bool *at_once = ctx;
    return *at_once || (total > 0 && done > total / 2);
}

static void test_cancelling_leaves_nothing(void **state)
{
    coffer_average_options options = COFFER_AVERAGE_OPTIONS_INIT;
    coffer_read_options how = COFFER_READ_OPTIONS_INIT;
    (void)state;
    write_models();
    options.slerp = true;
    how.progress = cancel;
    for (int i = 0; i < 2; i++) {
        bool at_once = i == 0;
        how.progress_ctx = &at_once;
        assert_int_equal(average(&options, NULL, &how), COFFER_ERR_CANCELLED);
        assert_int_equal(work_dir_count(), 2);
    }
}

static void test_without_memory_nothing_happens(void **state)
{
    memory_meter meter = { .held = 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_average_options options = COFFER_AVERAGE_OPTIONS_INIT;
    coffer_read_options how = COFFER_READ_OPTIONS_INIT;
    coffer_status status = COFFER_ERR_MEMORY;
    (void)state;
    write_models();
    options.slerp = true;
    how.threads = 1;
    for (size_t request = 1; status != COFFER_OK; request++) {
        meter = (memory_meter){ .fail_at = request };
        status = average(&options, &allocator, &how);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        assert_int_equal(meter.blocks, 0);
        assert_int_equal(work_dir_count(), status == COFFER_OK ? 3 : 2);
    }
}

static void test_calls_that_are_wrong(void **state)
{
    static const double weights[] = { 1, -1, INFINITY };
    static const double beyond = 1.5;
    coffer_rewrite *rewrite = NULL;
    coffer_average_options options = COFFER_AVERAGE_OPTIONS_INIT;
    const coffer_average_rule rules[] = { { "nothing", weights }, { NULL, weights }, { "w", NULL } };
    (void)state;
    write_models();
    coffer *model = model_open("a.safetensors");
    const coffer *models[COFFER_AVERAGE_MAX_MODELS + 1];
    for (size_t i = 0; i <= COFFER_AVERAGE_MAX_MODELS; i++) {
        models[i] = model;
    }
    assert_int_equal(coffer_average_plan(NULL, models, 2, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_average_plan(&rewrite, NULL, 2, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_average_plan(&rewrite, models, 1, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_average_plan(&rewrite, models, 65, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    for (size_t i = 0; i < 2; i++) {
        options.weights = weights + i; /* a sum of 0, and one that is infinite */
        assert_int_equal(coffer_average_plan(&rewrite, models, 2, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    }
    options.weights = NULL;
    options.rule_count = 1;
    assert_int_equal(coffer_average_plan(&rewrite, models, 2, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    options.rules = rules;
    assert_int_equal(coffer_average_plan(&rewrite, models, 2, &options, NULL, NULL), COFFER_ERR_NO_TENSOR);
    options.rules = rules + 1;
    assert_int_equal(coffer_average_plan(&rewrite, models, 2, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    options.rules = rules + 2;
    assert_int_equal(coffer_average_plan(&rewrite, models, 2, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    options.rule_count = 0;
    options.slerp = true;
    assert_int_equal(coffer_average_plan(&rewrite, models, 3, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    options.weights = &beyond;
    assert_int_equal(coffer_average_plan(&rewrite, models, 2, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    models[1] = NULL;
    assert_int_equal(coffer_average_plan(&rewrite, models, 2, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_null(rewrite);
    coffer_close(model);
}

/* What a run does before its first byte, and nothing more: no file is left, and the plan is used up. */
static void test_a_plan_that_is_only_checked(void **state)
{
    (void)state;
    coffer_rewrite *rewrite = NULL;
    coffer_rewrite_options where = COFFER_REWRITE_OPTIONS_INIT;
    write_models();
    coffer *model = model_open("a.safetensors");
    const coffer *models[] = { model, model };
    const size_t before = work_dir_count();
    for (int missing = 0; missing < 2; missing++) {
        where.output = work_path(missing ? "missing/o.safetensors" : "o.safetensors");
        assert_int_equal(coffer_average_plan(&rewrite, models, 2, NULL, &where, NULL), COFFER_OK);
        assert_int_equal(coffer_rewrite_check(rewrite, NULL, NULL), missing ? COFFER_ERR_NOT_FOUND : COFFER_OK);
        assert_int_equal(coffer_rewrite_run(rewrite, NULL, NULL), COFFER_ERR_ARGUMENT);
        coffer_rewrite_free(rewrite);
        assert_int_equal(work_dir_count(), before);
    }
    assert_int_equal(coffer_rewrite_check(NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    coffer_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_angles),
        cmocka_unit_test_setup_teardown(test_means_with_any_number_of_threads, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_slerp_with_any_number_of_threads, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_cancelling_leaves_nothing, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory_nothing_happens, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_a_plan_that_is_only_checked, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_calls_that_are_wrong, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
