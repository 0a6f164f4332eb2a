/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder stands for the model in it. Which one that is has to be what other programs would take, and where they would not
 * agree nothing is opened at all; a set of files without an index is whole, or the error says which file is missing.
 */
#define _POSIX_C_SOURCE 200809L

#include "support_cmocka.h"

#include "coffer.h"
#include "discover.h"
#include "shard_name.h"
#include "support_file.h"
#include "support_memory.h"
#include "support_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes a file of one tensor, which has the file's own name. */
static void put(const char *name)
{
    const tensor_spec spec = { name, COFFER_F32, 1, { 4 } };
    image made = image_of(&spec, 1);
    file_write(name, made.bytes, made.size);
    image_free(&made);
}

static void put_index(const char *name, const char *file)
{
    char text[256];
    const int len = snprintf(text, sizeof text, "{\"weight_map\": {\"%s\": \"%s\"}}", file, file);
    file_write(name, text, (size_t)len);
}

static int set_up(void **state)
{
    (void)state;
    work_dir_make();
    file_write("config.json", "{}", 2);
    file_write("model.safetensors.coffer-undo.txt", "", 0);
    file_write(".model.safetensors", "", 0);
    return 0;
}

/* The path of a file in the folder, which is opened as ".". */
static const char *found_path(const char *name)
{
    char below[256];
    snprintf(below, sizeof below, "./%s", name);
    return work_path(below);
}

/* The folder opens, and what is opened has these tensors. */
static void assert_holds(const char *const *names, size_t count)
{
    coffer_error err;
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("."), NULL, &err), COFFER_OK);
    assert_int_equal(coffer_count(model), count);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(tensor_named(model, names[i]));
        assert_string_equal(coffer_shard_path(model, tensor_named(model, names[i])->shard), found_path(names[i]));
    }
    coffer_close(model);
}

static void assert_refused(coffer_status status, const char *path, const char *part)
{
    coffer_error err;
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("."), NULL, &err), status);
    assert_null(model);
    assert_int_equal(err.code, status);
    assert_string_equal(err.path, strcmp(path, ".") == 0 ? work_path(path) : found_path(path));
    assert_non_null(strstr(err.message, part));
    assert_int_equal(coffer_open(&model, work_path("."), NULL, NULL), status);
}

static void the_usual_names_come_first(void **state)
{
    (void)state;
    assert_refused(COFFER_ERR_NO_MODEL, ".", "no model");
    put("z.safetensors");
    assert_holds((const char *const[]){ "z.safetensors" }, 1);
    put_index("other.safetensors.index.json", "z.safetensors");
    put("y.safetensors");
    assert_holds((const char *const[]){ "z.safetensors" }, 1); /* what an index names goes before what lies there */
    put_index("another.safetensors.index.json", "y.safetensors");
    assert_refused(COFFER_ERR_AMBIGUOUS, ".",
                   "\"another.safetensors.index.json\" and \"other.safetensors.index.json\"");
    put_index("diffusion_pytorch_model.safetensors.index.json", "y.safetensors");
    assert_holds((const char *const[]){ "y.safetensors" }, 1);
    put("diffusion_pytorch_model.safetensors");
    assert_holds((const char *const[]){ "diffusion_pytorch_model.safetensors" }, 1);
    put_index("model.safetensors.index.json", "z.safetensors");
    assert_holds((const char *const[]){ "z.safetensors" }, 1);
    put("model.safetensors");
    assert_holds((const char *const[]){ "model.safetensors" }, 1);
}

static void several_files_without_an_index(void **state)
{
    (void)state;
    put("a.safetensors");
    put("b.safetensors");
    assert_refused(COFFER_ERR_AMBIGUOUS, ".", "\"a.safetensors\" and \"b.safetensors\"");
    assert_int_equal(unlink(work_path("a.safetensors")), 0);
    assert_int_equal(unlink(work_path("b.safetensors")), 0);
    static const char *const set[] = { "m-00001-of-00003.safetensors", "m-00002-of-00003.safetensors",
                                       "m-00003-of-00003.safetensors" };
    put(set[2]);
    put(set[0]);
    assert_refused(COFFER_ERR_SHARD_MISSING, set[1], "2 of 3 files");
    assert_int_equal(unlink(work_path(set[0])), 0);
    assert_refused(COFFER_ERR_SHARD_MISSING, set[0], "2 of the model's 3 files");
    put(set[0]);
    put(set[1]);
    assert_holds(set, 3);
    coffer *model = NULL;
    assert_int_equal(coffer_open(&model, work_path("."), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_model_note(model, COFFER_NOTE_NO_INDEX, NULL).count, 1);
    coffer_close(model);
    /* One more set, or a file of no set, and it is not told which is meant. */
    put("m-00001-of-00002.safetensors");
    assert_refused(COFFER_ERR_AMBIGUOUS, ".", "\"m-00001-of-00002.safetensors\" and \"m-00001-of-00003.safetensors\"");
    assert_int_equal(rename(work_path("m-00001-of-00002.safetensors"), work_path("x.safetensors")), 0);
    assert_refused(COFFER_ERR_AMBIGUOUS, ".", "\"x.safetensors\"");
    assert_int_equal(unlink(work_path("x.safetensors")), 0);
    /* Traces of a save that was interrupted. */
    file_write("m.safetensors.index.json.coffer-ready", "", 0);
    assert_refused(COFFER_ERR_UNFINISHED, ".", "coffer meta --recover");
    /* Files of the old model and of the new one are no two models. */
    put("m-00001-of-00002.safetensors");
    assert_refused(COFFER_ERR_UNFINISHED, ".", "/m.safetensors");
    put("x.safetensors");
    assert_refused(COFFER_ERR_UNFINISHED, ".", "interrupted");
    /* Nor are they none, before the first of them has its name. */
    const char *const all[] = { set[0], set[1], set[2], "m-00001-of-00002.safetensors", "x.safetensors" };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(unlink(work_path(all[i])), 0);
    }
    assert_refused(COFFER_ERR_UNFINISHED, ".", "interrupted");
    /* A model that is whole has nothing to do with it; nor has a folder, however it is called. */
    put("x.safetensors");
    assert_holds((const char *const[]){ "x.safetensors" }, 1);
    assert_int_equal(unlink(work_path("x.safetensors")), 0);
    assert_int_equal(unlink(work_path("m.safetensors.index.json.coffer-ready")), 0);
    assert_int_equal(mkdir(work_path("m.safetensors.index.json.coffer-ready"), 0700), 0);
    assert_refused(COFFER_ERR_NO_MODEL, ".", "no .safetensors file");
    assert_int_equal(rmdir(work_path("m.safetensors.index.json.coffer-ready")), 0);
}

static void a_pipeline_is_its_main_model(void **state)
{
    (void)state;
    file_write("model_index.json", "{}", 2);
    assert_refused(COFFER_ERR_NO_MODEL, ".", "pipeline");
    assert_int_equal(mkdir(work_path("unet"), 0700), 0);
    assert_refused(COFFER_ERR_NO_MODEL, ".", "no .safetensors file");
    put("unet/diffusion_pytorch_model.safetensors");
    assert_holds((const char *const[]){ "unet/diffusion_pytorch_model.safetensors" }, 1);
    assert_int_equal(mkdir(work_path("transformer"), 0700), 0);
    put("transformer/diffusion_pytorch_model.safetensors");
    assert_holds((const char *const[]){ "transformer/diffusion_pytorch_model.safetensors" }, 1);
    assert_int_equal(unlink(work_path("transformer/diffusion_pytorch_model.safetensors")), 0);
    assert_int_equal(unlink(work_path("unet/diffusion_pytorch_model.safetensors")), 0);
    assert_int_equal(rmdir(work_path("unet")), 0);
    assert_int_equal(rmdir(work_path("transformer")), 0);
}

static void names_of_shards(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t prefix_len;
        uint32_t number;
        uint32_t total;
    } good[] = {
        { "model-00001-of-00002.safetensors", 6, 1, 2 },     { "a_00002-of-00002.safetensors", 2, 2, 2 },
        { "m-000010-of-123456.safetensors", 2, 10, 123456 }, { "x.fp16-99999-of-99999.safetensors", 7, 99999, 99999 },
        { "--00001-of-00001.safetensors", 2, 1, 1 },
    };
    coffer__shard_name parts;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(coffer__shard_name_read(&parts, good[i].name, strlen(good[i].name)));
        assert_int_equal(parts.prefix_len, good[i].prefix_len);
        assert_int_equal(parts.number, good[i].number);
        assert_int_equal(parts.total, good[i].total);
    }
    static const char *const bad[] = {
        "",
        ".safetensors",
        "model.safetensors",
        "-00001-of-00002",
        "model-00001-of-00002.bin",
        "00001-of-00002.safetensors",
        "model-00000-of-00002.safetensors",
        "model-00003-of-00002.safetensors",
        "model-0001-of-0002.safetensors",
        "model-00001-of-000002.safetensors",
        "model-0000001-of-0000002.safetensors",
        "model00001-of-00002.safetensors",
        "model-00001of-00002.safetensors",
        "model-00001-of-0000x.safetensors",
        "model-00001-of-.safetensors",
        "-of-00002.safetensors",
        "f-00002.safetensors",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(coffer__shard_name_read(&parts, bad[i], strlen(bad[i])));
    }
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    put("m-00001-of-00002.safetensors");
    put("m-00002-of-00002.safetensors");
    memory_meter meter = { 0 };
    const coffer_allocator allocator = metered_allocator(&meter);
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.allocator = &allocator;
    coffer *model = NULL;
    size_t fail_at = 1;
    for (;; fail_at++) {
        coffer_error err;
        meter = (memory_meter){ .fail_at = fail_at };
        const coffer_status status = coffer_open(&model, work_path("."), &options, &err);
        if (status == COFFER_OK) {
            break;
        }
        assert_int_equal(status, COFFER_ERR_MEMORY);
        assert_int_equal(err.code, COFFER_ERR_MEMORY);
        assert_null(model);
        assert_int_equal(meter.blocks, 0);
    }
    assert_true(fail_at > 15);
    coffer_close(model);
    assert_int_equal(meter.blocks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_usual_names_come_first, set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(several_files_without_an_index, set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(a_pipeline_is_its_main_model, set_up, work_dir_tear_down),
        cmocka_unit_test(names_of_shards),
        cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
