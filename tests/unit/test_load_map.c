/* SPDX-License-Identifier: Apache-2.0 */
/* Why: what a load hands out may be parts of a private map of the file. It has the file's bytes, is the caller's to change
   without the file noticing, outlives model and load, and what cannot be such a part has memory of its own beside it. */
#define _XOPEN_SOURCE 700
#include "support_cmocka.h"

#include "engine.h"
#include "support_file.h"
#include "support_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS 3000
#define COLUMNS 1024

#define MATRIX (ROWS * COLUMNS * 4)
#define SPECS 4

/* Written by hand, since the library's writer would not put "odd", which comes after five bytes, at an offset that does not
   suit its dtype. */
static const char header[] =
    "{\"first\":{\"dtype\":\"F32\",\"shape\":[3000,1024],\"data_offsets\":[0,12288000]},"
    "\"second\":{\"dtype\":\"F32\",\"shape\":[3000,1024],\"data_offsets\":[12288000,24576000]},"
    "\"little\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[24576000,24576005]},"
    "\"odd\":{\"dtype\":\"F32\",\"shape\":[3000,1024],\"data_offsets\":[24576005,36864005]}}   ";

/* The file's bytes, and whether this system can have them mapped by the library's rules. */
static file_bytes file;
static bool maps_here;

static coffer *open_model_as(coffer_access access)
{
    coffer *model = NULL;
    coffer_error err;
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = access;
    if (coffer_open(&model, work_path("model.safetensors"), &options, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return model;
}

static coffer *open_model(void)
{
    return open_model_as(COFFER_MAP);
}

static int set_up(void **state)
{
    (void)state;
    coffer__engine_facts facts;
    work_dir_make();
    const size_t header_size = sizeof header - 1;
    file.size = 8 + header_size + 3 * MATRIX + 5;
    file.at = calloc(1, file.size);
    assert_non_null(file.at);
    file.at[0] = (uint8_t)(header_size & 0xFF);
    file.at[1] = (uint8_t)(header_size >> 8);
    memcpy(file.at + 8, header, header_size);
    for (size_t i = 8 + header_size; i < file.size; i++) {
        file.at[i] = pattern_byte(i);
    }
    file_write("model.safetensors", file.at, file.size);
    coffer__engine_facts_get(&facts);
    maps_here = facts.populate == 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(file.at);
    work_dir_remove();
    return 0;
}

/* ---- loads ------------------------------------------------------------------------------------------------------- */

typedef struct loading {
    coffer *model;
    coffer_plan *plan;
    coffer_staging *staging;
    coffer_load *load;
    coffer_loaded loaded[SPECS];
    coffer_load_stats stats;
} loading;

/* Everything is wanted, and taken. */
static coffer_status run(loading *of, coffer_engine engine, coffer_error *err)
{
    coffer_staging_options options = COFFER_STAGING_OPTIONS_INIT;
    coffer_loaded loaded;
    options.engine = engine;
    assert_int_equal(coffer_staging_new(&of->staging, &options, NULL), COFFER_OK);
    coffer_status status = coffer_load_start(&of->load, of->plan, of->staging, NULL, err);
    while (status == COFFER_OK) {
        status = coffer_load_next(of->load, UINT64_MAX, &loaded, err);
        if (status != COFFER_OK || loaded.item == SIZE_MAX) {
            break;
        }
        of->loaded[loaded.item] = loaded;
    }
    of->stats.struct_size = sizeof of->stats;
    if (status == COFFER_OK) {
        coffer_load_stats_of(of->load, &of->stats);
    }
    return status;
}

static loading load_everything_of(coffer *model, coffer_engine engine)
{
    coffer_error err;
    loading of = { .model = model };
    assert_int_equal(coffer_plan_new(&of.plan, of.model, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_add_all(of.plan, NULL, 0, 0, 1, NULL, NULL), COFFER_OK);
    if (run(&of, engine, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    return of;
}

static loading load_everything(coffer_engine engine)
{
    return load_everything_of(open_model(), engine);
}

/* What was handed out stays. */
static void end(loading *of)
{
    coffer_load_free(of->load);
    coffer_staging_free(of->staging);
    coffer_plan_free(of->plan);
    coffer_close(of->model);
}

static void free_memory(loading *of)
{
    for (size_t i = 0; i < SPECS; i++) {
        coffer_memory_free(of->loaded[i].memory);
    }
}

static uint8_t *bytes_of(const coffer_loaded *loaded)
{
    return (uint8_t *)(uintptr_t)loaded->address;
}

/* Whether a page of the process is one of a file, by the line of its map. */
static bool is_in_file(const void *address)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL) {
        return false;
    }
    while (!found && fgets(line, sizeof line, maps) != NULL) {
        unsigned long long from = 0;
        unsigned long long to = 0;
        found = sscanf(line, "%llx-%llx", &from, &to) == 2 && (uintptr_t)address >= from && (uintptr_t)address < to &&
                strstr(line, "model.safetensors") != NULL;
    }
    (void)fclose(maps);
    return found;
}

static void assert_is_model(const loading *of)
{
    for (size_t i = 0; i < SPECS; i++) {
        assert_int_equal(of->loaded[i].size, of->loaded[i].tensor->size);
        assert_memory_equal(bytes_of(&of->loaded[i]), file.at + of->loaded[i].tensor->offset,
                            (size_t)of->loaded[i].size);
    }
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_what_can_be_a_view_is_one(void **state)
{
    (void)state;
    loading of = load_everything(COFFER_ENGINE_AUTO);
    assert_is_model(&of);
    assert_int_not_equal(of.loaded[3].tensor->offset % 4, 0);
    assert_int_equal((of.stats.engines >> COFFER_ENGINE_MAPPED & 1) != 0, maps_here);
    for (size_t i = 0; i < SPECS; i++) {
        assert_int_equal(of.loaded[i].address % (of.loaded[i].tensor->dtype == COFFER_F32 ? 4 : 1), 0);
    }
    assert_int_equal(is_in_file(bytes_of(&of.loaded[0])), maps_here);
    assert_int_equal(is_in_file(bytes_of(&of.loaded[1])), maps_here);
    assert_false(is_in_file(bytes_of(&of.loaded[3])));
    free_memory(&of);
    end(&of);
}

/* Of less than 4 MiB the file is not opened again; of less than 2 MiB a copy costs as little. */
static void test_little_is_a_view_too(void **state)
{
    (void)state;
    const int64_t rows[] = { 300, 700 };
    for (size_t i = 0; i < 2; i++) {
        coffer_error err;
        const coffer_index index = { COFFER_INDEX_RANGE, true, true, 100, 100 + rows[i], 1 };
        loading of = { .model = open_model() };
        assert_int_equal(coffer_plan_new(&of.plan, of.model, NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_plan_add(of.plan, coffer_find(of.model, "first", 5), &index, 1, NULL, NULL, NULL),
                         COFFER_OK);
        if (run(&of, COFFER_ENGINE_AUTO, &err) != COFFER_OK) {
            fail_msg("%s", err.message);
        }
        const bool view = maps_here && i == 1;
        assert_int_equal(of.stats.engines, 1 << (view ? COFFER_ENGINE_MAPPED : COFFER_ENGINE_BUFFERED));
        assert_int_equal(is_in_file(bytes_of(&of.loaded[0])), view);
        assert_int_equal(of.loaded[0].size, rows[i] * COLUMNS * 4);
        assert_memory_equal(bytes_of(&of.loaded[0]), file.at + of.loaded[0].tensor->offset + 100 * COLUMNS * 4,
                            (size_t)of.loaded[0].size);
        free_memory(&of);
        end(&of);
    }
}

static void test_an_engine_by_name_gives_memory_of_its_own(void **state)
{
    (void)state;
    loading of = load_everything(COFFER_ENGINE_BUFFERED);
    assert_is_model(&of);
    assert_int_equal(of.stats.engines, 1 << COFFER_ENGINE_BUFFERED);
    assert_false(is_in_file(bytes_of(&of.loaded[0])));
    free_memory(&of);
    end(&of);
}

static void test_views_outlive_the_model_and_may_be_changed(void **state)
{
    (void)state;
    loading of = load_everything(COFFER_ENGINE_AUTO);
    uint8_t *second = bytes_of(&of.loaded[1]);
    end(&of);
    coffer_memory_free(of.loaded[0].memory);
    memset(second, 0x5A, 10000);
    coffer *again = open_model();
    const coffer_tensor *tensor = coffer_find(again, "second", 6);
    assert_memory_equal(second + 10000, file.at + tensor->offset + 10000, (size_t)tensor->size - 10000);
    coffer_close(again);
    assert_file_has("model.safetensors", file);
    of.loaded[0].memory = NULL;
    free_memory(&of);
}

/* Who opens a model to read it is never to meet SIGBUS. */
static void test_a_model_that_is_only_read_is_not_mapped(void **state)
{
    (void)state;
    coffer_error err;
    loading of = load_everything_of(open_model_as(COFFER_READ), COFFER_ENGINE_AUTO);
    assert_is_model(&of);
    assert_int_equal(of.stats.engines >> COFFER_ENGINE_MAPPED & 1, 0);
    assert_false(is_in_file(bytes_of(&of.loaded[0])));
    free_memory(&of);
    end(&of);
    of = (loading){ .model = open_model_as(COFFER_READ) };
    assert_int_equal(coffer_plan_new(&of.plan, of.model, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_add_all(of.plan, NULL, 0, 0, 1, NULL, NULL), COFFER_OK);
    assert_int_equal(run(&of, COFFER_ENGINE_MAPPED, &err), COFFER_ERR_ENGINE);
    end(&of);
}

/* What was verified does not change with the file. */
static void test_what_is_verified_has_memory_of_its_own(void **state)
{
    (void)state;
    if (some_algorithm() == COFFER_NO_ALGORITHM) {
        return; /* nothing is ever verified here */
    }
    assert_int_equal(coffer_record_digests(work_path("model.safetensors"), some_algorithm(), NULL, NULL, NULL),
                     COFFER_OK);
    const coffer_engine engines[] = { COFFER_ENGINE_AUTO, maps_here ? COFFER_ENGINE_MAPPED : COFFER_ENGINE_AUTO };
    for (size_t i = 0; i < 2; i++) {
        loading of = load_everything(engines[i]);
        assert_true(of.loaded[0].verified);
        assert_false(is_in_file(bytes_of(&of.loaded[0])));
        assert_int_equal(of.stats.engines >> COFFER_ENGINE_MAPPED & 1, 0);
        uint32_t planned = 0;
        assert_int_equal(coffer_plan_engines_of(of.plan, SIZE_MAX, &planned, NULL), COFFER_OK);
        assert_int_equal(planned >> COFFER_ENGINE_MAPPED & 1, 0);
        free_memory(&of);
        end(&of);
    }
    file_write("model.safetensors", file.at, file.size);
}

/* Columns have gaps, so that they are put together in memory, next to views of the same file. */
static void test_what_has_gaps_is_put_together(void **state)
{
    (void)state;
    coffer_error err;
    const coffer_index column[2] = { { COFFER_INDEX_RANGE, false, false, 0, 0, 1 },
                                     { COFFER_INDEX_RANGE, true, true, 16, 32, 1 } };
    loading of = { .model = open_model() };
    assert_int_equal(coffer_plan_new(&of.plan, of.model, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_add(of.plan, coffer_find(of.model, "first", 5), NULL, 0, NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_add(of.plan, coffer_find(of.model, "first", 5), column, 2, NULL, NULL, NULL),
                     COFFER_OK);
    if (run(&of, COFFER_ENGINE_AUTO, &err) != COFFER_OK) {
        fail_msg("%s", err.message);
    }
    const uint8_t *whole = file.at + of.loaded[0].tensor->offset;
    assert_memory_equal(bytes_of(&of.loaded[0]), whole, (size_t)of.loaded[0].size);
    assert_false(is_in_file(bytes_of(&of.loaded[1])));
    for (size_t row = 0; row < ROWS; row++) {
        assert_memory_equal(bytes_of(&of.loaded[1]) + row * 64, whole + (row * COLUMNS + 16) * 4, 64);
    }
    free_memory(&of);
    end(&of);
}

/* Touching what the file has lost would end the process; the library does not. */
static void test_a_file_that_became_shorter_is_told(void **state)
{
    (void)state;
    coffer_error err;
    for (size_t i = 0; i < 2; i++) {
        loading of = { .model = open_model() };
        assert_int_equal(coffer_plan_new(&of.plan, of.model, NULL, NULL), COFFER_OK);
        assert_int_equal(coffer_plan_add_all(of.plan, NULL, 0, 0, 1, NULL, NULL), COFFER_OK);
        assert_int_equal(truncate(work_path("model.safetensors"), (off_t)(file.size / 2)), 0);
        assert_int_equal(run(&of, i == 0 || !maps_here ? COFFER_ENGINE_AUTO : COFFER_ENGINE_MAPPED, &err),
                         COFFER_ERR_CHANGED);
        free_memory(&of);
        end(&of);
        file_write("model.safetensors", file.at, file.size);
    }
}

/* A source of the caller's own cannot be mapped. */
static coffer_status read_image(void *ctx, uint64_t offset, void *buffer, size_t size, coffer_error *err)
{
    (void)ctx;
    (void)err;
    memcpy(buffer, file.at + offset, size);
    return COFFER_OK;
}

static void test_what_cannot_be_mapped_is_told_by_name(void **state)
{
    (void)state;
    coffer_error err;
    const coffer_source source = { .read_at = read_image, .size = file.size };
    loading of = { .model = NULL };
    assert_int_equal(coffer_open_source(&of.model, &source, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_new(&of.plan, of.model, NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_plan_add_all(of.plan, NULL, 0, 0, 1, NULL, NULL), COFFER_OK);
    assert_int_equal(run(&of, COFFER_ENGINE_MAPPED, &err), COFFER_ERR_ENGINE);
    assert_non_null(strstr(err.message, "\"mapped\""));
    end(&of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_can_be_a_view_is_one),
        cmocka_unit_test(test_little_is_a_view_too),
        cmocka_unit_test(test_an_engine_by_name_gives_memory_of_its_own),
        cmocka_unit_test(test_views_outlive_the_model_and_may_be_changed),
        cmocka_unit_test(test_a_model_that_is_only_read_is_not_mapped),
        cmocka_unit_test(test_what_is_verified_has_memory_of_its_own),
        cmocka_unit_test(test_what_has_gaps_is_put_together),
        cmocka_unit_test(test_a_file_that_became_shorter_is_told),
        cmocka_unit_test(test_what_cannot_be_mapped_is_told_by_name),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
