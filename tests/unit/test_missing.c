/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a model are named without opening them, those that are missing, too; and when files are missing, the failure of
 * opening names the first few of them and says how many there are.
 */
#define _POSIX_C_SOURCE 200809L

#include "support_cmocka.h"

#include "coffer.h"
#include "support_file.h"
#include "support_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put(const char *name)
{
    const tensor_spec spec = { name, COFFER_F32, 1, { 4 } };
    image made = image_of(&spec, 1);
    file_write(name, made.bytes, made.size);
    image_free(&made);
}

/* An index of files that each have the tensor of their own name: m-0000K-of-0000N.safetensors. */
static void put_index(size_t count)
{
    char text[2000] = "{\"weight_map\": {";
    for (size_t i = 1; i <= count; i++) {
        char entry[120];
        snprintf(entry, sizeof entry, "%s\"m-%05zu-of-%05zu.safetensors\": \"m-%05zu-of-%05zu.safetensors\"",
                 i > 1 ? ", " : "", i, count, i, count);
        strcat(text, entry);
    }
    strcat(text, "}}");
    file_write("model.safetensors.index.json", text, strlen(text));
}

/* ---- listing ----------------------------------------------------------------------------------------------------- */

typedef struct listing {
    char text[1000]; /* "m-1+ m-2-": names, and whether they are there */
    size_t stop_at;
    size_t count;
} listing;

static int see(void *ctx, const char *path, bool exists)
{
    listing *seen = ctx;
    const char *slash = strrchr(path, '/');
    assert_non_null(slash);
    strcat(seen->text, slash + 1);
    strcat(seen->text, exists ? "+ " : "- ");
    return ++seen->count == seen->stop_at;
}

static void assert_lists(const char *name, const char *wanted)
{
    listing seen = { .text = "" };
    coffer_error err;
    assert_int_equal(coffer_list_files(work_path(name), NULL, see, &seen, &err), COFFER_OK);
    assert_string_equal(seen.text, wanted);
}

static void files_of_every_kind_of_model(void **state)
{
    (void)state;
    put("one.safetensors");
    assert_lists("one.safetensors", "one.safetensors+ ");
    assert_lists(".", "one.safetensors+ ");
    assert_lists("none.safetensors", "none.safetensors- ");
    assert_int_equal(unlink(work_path("one.safetensors")), 0);
    put("m-00003-of-00003.safetensors");
    static const char set[] =
        "m-00001-of-00003.safetensors- m-00002-of-00003.safetensors- m-00003-of-00003.safetensors+ ";
    assert_lists("m-00003-of-00003.safetensors", set);
    assert_lists(".", set);
    put_index(2);
    put("m-00002-of-00002.safetensors");
    assert_lists("model.safetensors.index.json", "m-00001-of-00002.safetensors- m-00002-of-00002.safetensors+ ");
    assert_lists(".", "m-00001-of-00002.safetensors- m-00002-of-00002.safetensors+ ");
}

static void listings_that_fail(void **state)
{
    (void)state;
    coffer_error err;
    listing seen = { .text = "", .stop_at = 2 };
    put_index(3);
    assert_int_equal(coffer_list_files(work_path("."), NULL, see, &seen, &err), COFFER_ERR_CANCELLED);
    assert_int_equal(seen.count, 2);
    seen = (listing){ .text = "" };
    assert_int_equal(coffer_list_files(NULL, NULL, see, &seen, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_list_files(work_path("."), NULL, NULL, NULL, &err), COFFER_ERR_ARGUMENT);
    assert_int_equal(coffer_list_files("hf://owner/name", NULL, see, &seen, &err), COFFER_ERR_UNSUPPORTED);
    assert_string_equal(err.path, "hf://owner/name");
    assert_int_equal(coffer_list_files(work_path("gone.index.json"), NULL, see, &seen, &err), COFFER_ERR_NOT_FOUND);
    file_write("model.safetensors.index.json", "{", 1);
    assert_int_equal(coffer_list_files(work_path("."), NULL, see, &seen, &err), COFFER_ERR_JSON);
    assert_string_equal(strrchr(err.path, '/'), "/model.safetensors.index.json");
    assert_int_equal(unlink(work_path("model.safetensors.index.json")), 0);
    assert_int_equal(coffer_list_files(work_path("."), NULL, see, &seen, &err), COFFER_ERR_NO_MODEL);
    assert_int_equal(seen.count, 0);
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    put_index(2);
    memory_meter meter = { 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_status status = COFFER_ERR_MEMORY;
    size_t fail_at = 1;
    for (; status != COFFER_OK; fail_at++) {
        listing seen = { .text = "" };
        meter = (memory_meter){ .fail_at = fail_at };
        status = coffer_list_files(work_path("."), &allocator, see, &seen, NULL);
        assert_true(status == COFFER_OK || status == COFFER_ERR_MEMORY);
        assert_int_equal(meter.blocks, 0);
    }
    assert_true(fail_at > 5);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void assert_missing(const char *name, const char *message, const char *first, uint64_t total, uint64_t there)
{
    coffer_error err;
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path(name), NULL, &err), COFFER_ERR_SHARD_MISSING);
    assert_non_null(strstr(err.message, message));
    assert_string_equal(strrchr(err.path, '/') + 1, first);
    assert_int_equal(err.expected, total);
    assert_int_equal(err.actual, there);
    assert_int_equal(coffer_open(&model, work_path(name), NULL, NULL), COFFER_ERR_SHARD_MISSING);
}

static void failures_name_the_first_few(void **state)
{
    (void)state;
    put_index(6);
    put("m-00002-of-00006.safetensors");
    assert_missing("model.safetensors.index.json",
                   "5 of the model's 6 files do not exist: the download is incomplete, or the index is of another "
                   "model: \"m-00001-of-00006.safetensors\", \"m-00003-of-00006.safetensors\", "
                   "\"m-00004-of-00006.safetensors\" and 2 more",
                   "m-00001-of-00006.safetensors", 6, 1);
    put("m-00001-of-00006.safetensors");
    put("m-00006-of-00006.safetensors");
    assert_missing("model.safetensors.index.json",
                   "\"m-00003-of-00006.safetensors\", \"m-00004-of-00006.safetensors\" and "
                   "\"m-00005-of-00006.safetensors\"",
                   "m-00003-of-00006.safetensors", 6, 3);
    assert_int_equal(unlink(work_path("model.safetensors.index.json")), 0);
    assert_missing(
        ".",
        "3 of the model's 6 files do not exist: the download is incomplete: \"m-00003-of-00006.safetensors\", "
        "\"m-00004-of-00006.safetensors\" and \"m-00005-of-00006.safetensors\"",
        "m-00003-of-00006.safetensors", 6, 3);
    put("m-00004-of-00006.safetensors");
    assert_missing(".",
                   "2 of the model's 6 files do not exist: the download is incomplete: "
                   "\"m-00003-of-00006.safetensors\" and \"m-00005-of-00006.safetensors\"",
                   "m-00003-of-00006.safetensors", 6, 4);
    put("m-00005-of-00006.safetensors");
    assert_missing(".", "this file of the model does not exist: 5 of 6 files", "m-00003-of-00006.safetensors", 6, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_of_every_kind_of_model, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(listings_that_fail, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(failures_name_the_first_few, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
