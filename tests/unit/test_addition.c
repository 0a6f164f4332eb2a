/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters that the library adds to one: memory that runs out, cancelling, and calls that are wrong. Tests in Python
 * compare the numbers with other programs.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "lapack.h"
#include "support_file.h"
#include "support_header.h"
#include "support_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* An adapter with kohya's names; every number is a 1. */
static coffer_lora *new_adapter(const char *name, const char *module, uint64_t rank)
{
    static const char *const ends[] = { "lora_down.weight", "lora_up.weight" };
    const uint64_t shapes[2][2] = { { rank, 6 }, { 5, rank } };
    double ones[64];
    uint8_t bytes[sizeof ones];
    char text[64];
    coffer_header *header = new_header();
    coffer_writer *writer = NULL;
    coffer_lora *lora = NULL;
    for (size_t i = 0; i < 64; i++) {
        ones[i] = 1;
    }
    assert_int_equal(coffer_encode(COFFER_F32, ones, 64, bytes), COFFER_OK);
    for (size_t i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "lora_unet_%s.%s", module, ends[i]);
        assert_int_equal(coffer_header_add(header, text, strlen(text), COFFER_F32, shapes[i], 2, NULL), COFFER_OK);
    }
    assert_int_equal(coffer_writer_open(&writer, header, work_path(name), NULL, NULL), COFFER_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(coffer_writer_write(writer, i, 0, bytes, 4 * shapes[i][0] * shapes[i][1], NULL), COFFER_OK);
    }
    assert_int_equal(coffer_writer_finish(writer, NULL), COFFER_OK);
    coffer_writer_free(writer);
    coffer_header_free(header);
    assert_int_equal(coffer_lora_open(&lora, work_path(name), NULL, NULL, NULL), COFFER_OK);
    return lora;
}

/* Two adapters that share one module. */
typedef struct pair_of_adapters {
    coffer_adapter adapters[3];
} pair_of_adapters;

static void open_pair(pair_of_adapters *pair)
{
    pair->adapters[0] = (coffer_adapter){ new_adapter("one.st", "q", 2), 1 };
    pair->adapters[1] = (coffer_adapter){ new_adapter("two.st", "q", 3), -2 };
    pair->adapters[2] = (coffer_adapter){ new_adapter("three.st", "k", 1), 1 };
}

static void close_pair(pair_of_adapters *pair)
{
    for (size_t i = 0; i < 3; i++) {
        coffer_lora_close((coffer_lora *)(uintptr_t)pair->adapters[i].lora);
    }
}

static coffer_status add(const pair_of_adapters *pair, const coffer_allocator *allocator, uint64_t rank,
                         const coffer_read_options *reading, coffer_error *err)
{
    coffer_addition *addition = NULL;
    coffer_add_lora_options options = COFFER_ADD_LORA_OPTIONS_INIT;
    options.allocator = allocator;
    options.rank = rank;
    coffer_status status = coffer_add_lora_plan(&addition, pair->adapters, 3, &options, err);
    if (status == COFFER_OK) {
        status = coffer_add_lora_run(addition, work_path("sum.st"), NULL, reading, err);
    }
    coffer_addition_free(addition);
    return status;
}

static bool has_lapack(void)
{
    coffer__lapack lapack = { .sgemm = NULL };
    const bool has = coffer__lapack_open(&lapack, NULL) == COFFER_OK;
    coffer__lapack_close(&lapack);
    return has;
}

static void test_what_is_planned(void **state)
{
    pair_of_adapters pair;
    coffer_addition *addition = NULL;
    (void)state;
    open_pair(&pair);
    assert_int_equal(coffer_add_lora_plan(&addition, pair.adapters, 3, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_addition_count(addition), 2);
    assert_false(coffer_addition_is_folder(addition));
    const coffer_added *added = coffer_addition_at(addition, 1);
    assert_int_equal(added->module_len, 1);
    assert_memory_equal(added->module, "q", 1);
    assert_int_equal(added->adapter_count, 2);
    assert_int_equal(added->rank, 5);
    assert_true(added->kept < 0.5);
    assert_null(coffer_addition_at(addition, 2));
    assert_int_equal(coffer_add_lora_run(addition, work_path("sum.st"), NULL, NULL, NULL), COFFER_OK);
    assert_true(added->kept > 0.5);
    assert_int_equal(coffer_add_lora_run(addition, work_path("sum.st"), NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    coffer_addition_free(addition);
    close_pair(&pair);
}

/* With a rank too, where there is a LAPACK. */
static void test_without_memory_nothing_happens(void **state)
{
    pair_of_adapters pair;
    memory_meter meter = { .held = 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    (void)state;
    open_pair(&pair);
    for (uint64_t rank = 0; rank <= (has_lapack() ? 2u : 0u); rank += 2) {
        coffer_status status = COFFER_ERR_MEMORY;
        for (size_t request = 1; status == COFFER_ERR_MEMORY; request++) {
            assert_int_not_equal(access(work_path("sum.st"), F_OK), 0);
            meter = (memory_meter){ .fail_at = request };
            status = add(&pair, &allocator, rank, NULL, NULL);
            assert_int_equal(meter.held, 0);
        }
        assert_int_equal(status, COFFER_OK);
        assert_int_equal(unlink(work_path("sum.st")), 0);
    }
    close_pair(&pair);
}

static int cancel(void *ctx, uint64_t done, uint64_t total)
{
    const uint64_t *when = ctx;
    assert_int_equal(total, 2);
    return done == *when;
}

static void test_cancelling_leaves_nothing(void **state)
{
    pair_of_adapters pair;
    coffer_error err;
    coffer_read_options reading = COFFER_READ_OPTIONS_INIT;
    (void)state;
    open_pair(&pair);
    for (uint64_t when = 0; when < 2; when++) {
        reading.progress = cancel;
        reading.progress_ctx = &when;
        assert_int_equal(add(&pair, NULL, 0, &reading, &err), COFFER_ERR_CANCELLED);
        assert_int_not_equal(access(work_path("sum.st"), F_OK), 0);
    }
    close_pair(&pair);
}

static void test_calls_that_are_wrong(void **state)
{
    pair_of_adapters pair;
    coffer_addition *addition = NULL;
    coffer_add_lora_options options = COFFER_ADD_LORA_OPTIONS_INIT;
    (void)state;
    open_pair(&pair);
    coffer_adapter wrong = pair.adapters[0];
    assert_int_equal(coffer_add_lora_plan(NULL, pair.adapters, 3, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_add_lora_plan(&addition, NULL, 3, NULL, NULL), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_add_lora_plan(&addition, pair.adapters, 0, NULL, NULL), COFFER_ERR_ARGUMENT);
    wrong.scale = (double)NAN;
    assert_int_equal(coffer_add_lora_plan(&addition, &wrong, 1, NULL, NULL), COFFER_ERR_ARGUMENT);
    wrong = (coffer_adapter){ NULL, 1 };
    assert_int_equal(coffer_add_lora_plan(&addition, &wrong, 1, NULL, NULL), COFFER_ERR_ARGUMENT);
    options.rank = 5;
    assert_int_equal(coffer_add_lora_plan(&addition, pair.adapters, 3, &options, NULL), COFFER_ERR_ARGUMENT);
    options.rank = 0;
    options.dtype = COFFER_I8;
    assert_int_equal(coffer_add_lora_plan(&addition, pair.adapters, 3, &options, NULL), COFFER_ERR_ARGUMENT);
    assert_null(addition);
    assert_int_equal(coffer_addition_count(NULL), 0);
    assert_null(coffer_addition_at(NULL, 0));
    assert_false(coffer_addition_is_folder(NULL));
    assert_int_equal(coffer_add_lora_run(NULL, "x", NULL, NULL, NULL), COFFER_ERR_ARGUMENT);
    coffer_addition_free(NULL);
    close_pair(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_planned, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory_nothing_happens, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_cancelling_leaves_nothing, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_calls_that_are_wrong, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
