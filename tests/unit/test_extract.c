/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters that are extracted by the library: any number of threads, memory that runs out, cancelling at any point,
 * older adapters that are replaced or stay, and calls that are wrong. Tests in Python compare the numbers with other
 * programs. All of it needs a LAPACK, and is skipped where the system has none.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "lapack.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"
#include "support_model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS 700u
#define COLUMNS 900u /* times rows: more than one piece */

/* ---- files ------------------------------------------------------------------------------------------------------ */

static float number(size_t model, size_t i)
{
    const uint32_t bits = (uint32_t)(i * 2654435761u) ^ (uint32_t)(model * 40503u);
    return (float)((bits * 2246822519u) >> 16) / 65536.0F;
}

static void write_numbers(coffer_writer *writer, size_t tensor, size_t model, size_t count)
{
    uint8_t *bytes = malloc(4 * count);
    double *wide = calloc(count, sizeof *wide);
    assert_true(bytes != NULL && wide != NULL);
    for (size_t i = 0; i < count; i++) {
        wide[i] = (double)number(model, i);
    }
    assert_int_equal(coffer_encode(COFFER_F32, wide, count, bytes), COFFER_OK);
    assert_int_equal(coffer_writer_write(writer, tensor, 0, bytes, 4 * (uint64_t)count, NULL), COFFER_OK);
    free(bytes);
    free(wide);
}

static void write_model(const char *name, size_t model)
{
    static const uint64_t shape[] = { ROWS, COLUMNS };
    coffer_header *header = new_header();
    coffer_writer *writer = NULL;
    assert_int_equal(coffer_header_add(header, "q.weight", 8, COFFER_F32, shape, 2, NULL), COFFER_OK);
    assert_int_equal(coffer_header_add(header, "q.bias", 6, COFFER_F32, shape, 1, NULL), COFFER_OK);
    assert_int_equal(coffer_writer_open(&writer, header, work_path(name), NULL, NULL), COFFER_OK);
    write_numbers(writer, 0, model, (size_t)ROWS * COLUMNS);
    write_numbers(writer, 1, model, ROWS);
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
}

/* ---- extracting ------------------------------------------------------------------------------------------------- */

static void write_models(void)
{
    coffer__lapack lapack = { .sgemm = NULL };
    coffer_error err;
    if (coffer__lapack_open(&lapack, &err) != COFFER_OK) {
        /* Only where there is none, or libraries cannot be loaded: one that lacks a function is a failure. */
        assert_true(strstr(err.message, "no library that has it can be loaded") != NULL || !coffer__os_can_load());
        skip();
    }
    coffer__lapack_close(&lapack);
    write_model("a.safetensors", 1);
    write_model("b.safetensors", 2);
}

static coffer_status extract_with(const coffer_allocator *allocator, const coffer_read_options *planning,
                                  const coffer_read_options *running)
{
    coffer_extraction *extraction = NULL;
    coffer_extract_lora_options options = COFFER_EXTRACT_LORA_OPTIONS_INIT;
    coffer *base = model_open("a.safetensors");
    coffer *tuned = model_open("b.safetensors");
    options.allocator = allocator;
    options.rank = 4;
    coffer_status status = coffer_extract_lora_plan(&extraction, base, tuned, &options, planning, NULL);
    if (status == COFFER_OK) {
        status = coffer_extract_lora_run(extraction, work_path("."), NULL, running, NULL);
    } else {
        assert_null(extraction);
    }
    coffer_extraction_free(extraction);
    coffer_close(base);
    coffer_close(tuned);
    return status;
}

static coffer_status extract(const coffer_allocator *allocator, const coffer_read_options *how)
{
    return extract_with(allocator, how, how);
}

static void test_the_same_with_any_number_of_threads(void **state)
{
    size_t first_size = 0;
    size_t size = 0;
    coffer_read_options how = COFFER_READ_OPTIONS_INIT;
    (void)state;
    write_models();
    how.threads = 1;
    assert_int_equal(extract(NULL, &how), COFFER_OK);
    uint8_t *first = file_read("adapter_model.safetensors", &first_size);
    how.threads = 5;
    assert_int_equal(extract(NULL, &how), COFFER_OK);
    uint8_t *other = file_read("adapter_model.safetensors", &size);
    assert_int_equal(size, first_size);
    assert_memory_equal(first, other, size);
    assert_int_equal(work_dir_count(), 4);
    free(first);
    free(other);
}

/* Ends the call at the time that it is asked for the `left`-th time. */
static int cancel(void *ctx, uint64_t done, uint64_t total)
{
    size_t *left = ctx;
    assert_true(done <= total);
    if (*left > 0) {
        (*left)--;
    }
    return *left == 0;
}

static void test_cancelling_leaves_nothing(void **state)
{
    coffer_read_options how = COFFER_READ_OPTIONS_INIT;
    coffer_status status = COFFER_ERR_CANCELLED;
    (void)state;
    write_models();
    how.threads = 1;
    how.progress = cancel;
    for (size_t after = 1; status == COFFER_ERR_CANCELLED; after++) {
        size_t left = after;
        how.progress_ctx = &left;
        status = extract(NULL, &how);
        assert_int_equal(work_dir_count(), status == COFFER_OK ? 4 : 2);
    }
    assert_int_equal(status, COFFER_OK);
}

static void test_without_memory_nothing_happens(void **state)
{
    memory_meter meter = { .held = 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_read_options how = COFFER_READ_OPTIONS_INIT;
    coffer_status status = COFFER_ERR_MEMORY;
    (void)state;
    write_models();
    how.threads = 1;
    for (size_t request = 1; status != COFFER_OK; request++) {
        meter = (memory_meter){ .fail_at = request };
        status = extract(&allocator, &how);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        assert_int_equal(meter.blocks, 0);
        assert_int_equal(work_dir_count(), status == COFFER_OK ? 4 : 2);
    }
}

/* ---- what is there already -------------------------------------------------------------------------------------- */

static void test_an_older_adapter_is_replaced(void **state)
{
    size_t size = 0;
    (void)state;
    write_models();
    file_write("adapter_model.safetensors", "old", 3);
    file_write("adapter_config.json", "old", 3);
    assert_int_equal(extract(NULL, NULL), COFFER_OK);
    uint8_t *config = file_read("adapter_config.json", &size);
    assert_memory_equal(config, "{\n", 2);
    free(config);
    assert_int_equal(work_dir_count(), 4);
}

/* A folder that somebody makes meanwhile in the place of the matrices cannot be replaced. */
static int make_folder(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    (void)mkdir(work_path("adapter_model.safetensors"), 0700);
    return 0;
}

static void test_an_older_configuration_comes_back_after_a_failure(void **state)
{
    uint8_t old[] = { 'o', 'l', 'd' };
    coffer_read_options how = COFFER_READ_OPTIONS_INIT;
    (void)state;
    write_models();
    file_write("adapter_config.json", old, sizeof old);
    how.progress = make_folder;
    assert_int_not_equal(extract_with(NULL, NULL, &how), COFFER_OK);
    assert_file_has("adapter_config.json", (file_bytes){ old, sizeof old });
    assert_int_equal(rmdir(work_path("adapter_model.safetensors")), 0);
}

/* ---- calls that are wrong --------------------------------------------------------------------------------------- */

static void test_calls_that_are_wrong(void **state)
{
    static const char *const nothing[] = { NULL };
    coffer_extraction *extraction = NULL;
    coffer_extract_lora_options options = COFFER_EXTRACT_LORA_OPTIONS_INIT;
    coffer_writer_options writing = COFFER_WRITER_OPTIONS_INIT;
    (void)state;
    write_models();
    coffer *base = model_open("a.safetensors");
    coffer *tuned = model_open("b.safetensors");
    assert_int_equal(coffer_extract_lora_plan(&extraction, base, tuned, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    options.rank = 4;
    assert_int_equal(coffer_extract_lora_plan(NULL, base, tuned, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_extract_lora_plan(&extraction, NULL, tuned, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_extract_lora_plan(&extraction, base, NULL, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    options.select_count = 1;
    assert_int_equal(coffer_extract_lora_plan(&extraction, base, tuned, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    options.select = nothing;
    assert_int_equal(coffer_extract_lora_plan(&extraction, base, tuned, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    options.select_count = 0;
    options.dtype = COFFER_I64;
    assert_int_equal(coffer_extract_lora_plan(&extraction, base, tuned, &options, NULL, NULL), COFFER_ERR_ARGUMENT);
    options.dtype = COFFER_UNKNOWN_DTYPE;
    assert_null(extraction);
    assert_int_equal(coffer_extract_lora_plan(&extraction, base, base, &options, NULL, NULL), COFFER_ERR_NO_TENSOR);
    assert_int_equal(coffer_extract_lora_plan(&extraction, base, tuned, &options, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_extraction_count(extraction), 2);
    assert_true(coffer_extraction_at(extraction, 0)->kept == 1 && coffer_extraction_at(extraction, 1)->kept == 0);
    assert_null(coffer_extraction_at(extraction, 2));
    assert_int_equal(coffer_extract_lora_run(extraction, NULL, NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    writing.in_place = true;
    assert_int_equal(coffer_extract_lora_run(extraction, work_path("."), &writing, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_extract_lora_run(extraction, work_path("."), NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(work_dir_count(), 2);
    coffer_extraction_free(extraction);
    coffer_extraction_free(NULL);
    coffer_close(base);
    coffer_close(tuned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_same_with_any_number_of_threads, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_cancelling_leaves_nothing, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory_nothing_happens, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_an_older_adapter_is_replaced, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_an_older_configuration_comes_back_after_a_failure, work_dir_set_up,
                                        work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_calls_that_are_wrong, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
