/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of several files is rewritten in its place, and names in one file or in several, or metadata in several, are changed in
 * their headers, by a process that is killed before each of its system calls: the old model or the new one is there, or what
 * recovering makes one of the two.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "os.h"
#include "support_child.h"
#include "support_file.h"
#include "support_model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX "model.safetensors.index.json"
#define WHOLE "" /* the folder */
#define SEED 7
#define TENSORS 6 /* of 40 to 45 bytes: three files of two each */

static const coffer_rewrite_rule rules[] = {
    { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "t*", "u*" },
    { .kind = COFFER_REWRITE_DROP, .pattern = "t0" },
};

static int run_options(const char *name, const coffer_rewrite_options *options)
{
    coffer *model = NULL;
    coffer_rewrite *rewrite = NULL;
    coffer_status status = coffer_open(&model, work_path(name), NULL, NULL);
    if (status == COFFER_OK) {
        status = coffer_rewrite_plan(&rewrite, model, options, NULL);
    }
    if (status == COFFER_OK) {
        status = coffer_rewrite_run(rewrite, NULL, NULL);
    }
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    return (int)status;
}

static int run_given(const char *name, const coffer_rewrite_rule *given, size_t count)
{
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.rules = given;
    options.rule_count = count;
    return run_options(name, &options);
}

static int run_sharded(void *ctx)
{
    (void)ctx;
    return run_given(INDEX, rules, sizeof rules / sizeof rules[0]);
}

/* Short names fit, a long one in the first file does not. */
static const coffer_rewrite_rule names[] = {
    { .kind = COFFER_REWRITE_RENAME, .pattern = "t0", .name = "a name that is longer than the header has room for" },
    { .kind = COFFER_REWRITE_RENAME, .pattern = "t*", .name = "u*" },
};

static int run_sharded_names(void *ctx)
{
    (void)ctx;
    return run_given(INDEX, names, 2);
}

static int run_edits(void *ctx)
{
    (void)ctx;
    const coffer_edit edit = { "license", 7, "longer than the padding of a header", 35 };
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.edits = &edit;
    options.edit_count = 1;
    return run_options(WHOLE, &options);
}

static int run_names(void *ctx)
{
    (void)ctx;
    return run_given("one", rules, 1);
}

static void test_kills(void **state)
{
    (void)state;
    bool killed = true;
    size_t olds = 0;
    size_t news = 0;
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    assert_int_equal(model_save(TENSORS, SEED, 90, &options, coffer_libc_allocator(), NULL), COFFER_OK);
    snapshot before = snapshot_take();
    for (unsigned k = 1; killed; k++) {
        (void)child_run_killed(run_sharded, NULL, k, &killed);
        const coffer_status status = coffer_recover(work_path("model.safetensors"), NULL, NULL);
        assert_true(status == COFFER_OK || status == COFFER_ERR_NOT_FOUND); /* nothing to recover: no such file */
        coffer *model = NULL;
        assert_int_equal(coffer_open(&model, work_path(INDEX), NULL, NULL), COFFER_OK);
        const bool is_new = coffer_count(model) == TENSORS - 1;
        coffer_close(model);
        news += is_new;
        olds += !is_new;
        model_assert_whole(INDEX, is_new ? TENSORS - 1 : TENSORS, 3, SEED);
        snapshot_restore(&before);
    }
    assert_true(olds > 8 && news > 2);
    snapshot_free(&before);
}

/* The first rule alone: it changes nothing but the header, which has the space for it. */
static void test_kills_while_names_change(void **state)
{
    static const tensor_spec specs[] = { { "t0", COFFER_U8, 1, { 3 } }, { "t1", COFFER_U8, 1, { 4 } } };
    bool killed = true;
    size_t news = 0;
    size_t killings = 0;
    (void)state;
    image file = image_of(specs, 2);
    for (unsigned k = 1; killed; k++) {
        file_write("one", file.bytes, file.size);
        (void)child_run_killed(run_names, NULL, k, &killed);
        const coffer_status status = coffer_recover(work_path("one"), NULL, NULL);
        assert_true(status == COFFER_OK || status == COFFER_ERR_NO_UNDO);
        coffer *model = NULL;
        assert_int_equal(coffer_open(&model, work_path("one"), NULL, NULL), COFFER_OK);
        const bool is_new = coffer_find(model, "u0", 2) != NULL;
        assert_true(is_new == (coffer_find(model, "u1", 2) != NULL));
        assert_true(is_new != (coffer_find(model, "t0", 2) != NULL));
        coffer_close(model);
        size_t size = 0;
        uint8_t *bytes = file_read("one", &size);
        assert_int_equal(size, file.size);
        assert_memory_equal(bytes + size - 7, file.bytes + size - 7, 7);
        free(bytes);
        news += is_new;
        killings += killed;
    }
    assert_true(killings > 8 && news >= 1);
    image_free(&file);
}

static const char *const shards[] = { "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                      "model-00003-of-00003.safetensors" };

/* Whether it is the new model. It is never a mixture of both. */
typedef bool judge(const coffer *model);

static bool has_new_names(const coffer *model)
{
    const bool is_new = coffer_find(model, "u1", 2) != NULL;
    assert_true(is_new == (coffer_find(model, names[0].name, strlen(names[0].name)) != NULL));
    assert_true(is_new != (coffer_find(model, "t5", 2) != NULL));
    return is_new;
}

static bool has_new_metadata(const coffer *model)
{
    const bool is_new = coffer_table_metadata_get(coffer_shard_table(model, 0), "license", 7, NULL) != NULL;
    for (size_t i = 1; i < 3; i++) {
        assert_true(is_new == (coffer_table_metadata_get(coffer_shard_table(model, i), "license", 7, NULL) != NULL));
    }
    return is_new;
}

/* Before anything is recovered: a reader gets the old model, the new one, or is told. */
static void assert_no_mixture(judge *is_new)
{
    coffer *model = NULL;
    const coffer_status status = coffer_open(&model, work_path(WHOLE), NULL, NULL);
    assert_true(status == COFFER_OK || status == COFFER_ERR_UNFINISHED || status == COFFER_ERR_UNDO ||
                status == COFFER_ERR_NOT_FOUND);
    if (status == COFFER_OK) {
        assert_int_equal(coffer_count(model), TENSORS);
        (void)is_new(model);
    }
    coffer_close(model);
}

/* The files one by one, as somebody would who is told of them; then the model. */
static void recover_all(bool files_first)
{
    for (size_t i = 0; i < 3 && files_first; i++) {
        const coffer_status status = coffer_recover(work_path(shards[i]), NULL, NULL);
        assert_true(status == COFFER_OK || status == COFFER_ERR_NO_UNDO);
    }
    const coffer_status status = coffer_recover(work_path("model.safetensors"), NULL, NULL);
    assert_true(status == COFFER_OK || status == COFFER_ERR_NOT_FOUND);
}

/* The new model may have one file more than the old one: an index. */
static void kill_while_headers_change(int (*run)(void *), judge *is_new, bool files_first, size_t more)
{
    bool killed = true;
    size_t olds = 0;
    size_t news = 0;
    snapshot before = snapshot_take();
    for (unsigned k = 1; killed; k++) {
        (void)child_run_killed(run, NULL, k, &killed);
        assert_no_mixture(is_new);
        recover_all(files_first);
        model_assert_whole(WHOLE, TENSORS, 3, SEED);
        coffer *model = NULL;
        assert_int_equal(coffer_open(&model, work_path(WHOLE), NULL, NULL), COFFER_OK);
        const bool found_new = is_new(model);
        coffer_close(model);
        news += found_new;
        olds += !found_new;
        snapshot after = snapshot_take();
        /* One file without a name of ours may stay, as after any kill. */
        assert_true(after.count <= before.count + 1 + (found_new ? more : 0));
        snapshot_free(&after);
        snapshot_restore(&before);
    }
    assert_true(olds > 20 && news > 20);
    snapshot_free(&before);
}

static void save_sharded(void)
{
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    assert_int_equal(model_save(TENSORS, SEED, 90, &options, coffer_libc_allocator(), NULL), COFFER_OK);
}

static void test_kills_while_names_change_in_several(void **state)
{
    (void)state;
    save_sharded();
    kill_while_headers_change(run_sharded_names, has_new_names, false, 0);
}

/* One file has space in its header, which waits beside it; the others are new. */
static void test_kills_while_metadata_change_in_several(void **state)
{
    (void)state;
    coffer_edit_options roomy = COFFER_EDIT_OPTIONS_INIT;
    const coffer_edit edit = { "key", 3, "value", 5 };
    roomy.mode = COFFER_EDIT_REWRITE;
    save_sharded();
    assert_int_equal(coffer_edit_metadata(work_path(shards[0]), &edit, 1, &roomy, NULL, NULL), COFFER_OK);
    kill_while_headers_change(run_edits, has_new_metadata, false, 0);
}

static void test_kills_while_a_set_gets_an_index(void **state)
{
    (void)state;
    save_sharded();
    assert_int_equal(unlink(work_path(INDEX)), 0);
    kill_while_headers_change(run_edits, has_new_metadata, false, 1);
}

static void test_kills_and_files_that_are_recovered_first(void **state)
{
    (void)state;
    save_sharded();
    kill_while_headers_change(run_sharded_names, has_new_names, true, 0);
}

static int run_recover(void *ctx)
{
    (void)ctx;
    return (int)coffer_recover(work_path("model.safetensors"), NULL, NULL);
}

/* Leaves the test where the file system clones, since headers then never wait. Anywhere else they have to. */
static void skip_where_files_are_cloned(void)
{
    file_write("cloned", "", 0);
    file_write("clone", "", 0);
    int from = -1;
    int to = -1;
    assert_int_equal(coffer__os_open(work_path("cloned"), COFFER__OS_READ, false, &from), 0);
    assert_int_equal(coffer__os_open(work_path("clone"), COFFER__OS_EDIT, false, &to), 0);
    assert_int_equal(coffer__os_clone(from, to), 0);
    assert_int_equal(coffer__os_close(from), 0);
    assert_int_equal(coffer__os_close(to), 0);
    skip();
}

/* Kills the renaming before one system call after another until all of these files are there. False: they never were. */
static bool kill_until(const char *const *files, size_t count)
{
    bool killed = true;
    bool met = false;
    save_sharded();
    snapshot before = snapshot_take();
    for (unsigned k = 1; killed && !met; k++) {
        snapshot_restore(&before);
        (void)child_run_killed(run_sharded_names, NULL, k, &killed);
        met = true;
        for (size_t i = 0; i < count; i++) {
            met = met && access(work_path(files[i]), F_OK) == 0;
        }
    }
    snapshot_free(&before);
    return met;
}

/* After the decision: one header is being written and another one waits. */
static void test_kills_while_it_is_finished(void **state)
{
    (void)state;
    static const char *const files[] = { INDEX ".coffer-ready", "model-00002-of-00003.safetensors.coffer-undo",
                                         "model-00003-of-00003.safetensors.coffer-head" };
    bool killed = true;
    if (!kill_until(files, 3)) {
        skip_where_files_are_cloned();
    }
    snapshot halfway = snapshot_take();
    for (unsigned k = 1; killed; k++) {
        (void)child_run_killed(run_recover, NULL, k, &killed);
        assert_no_mixture(has_new_names);
        recover_all(k % 2 == 0);
        model_assert_whole(INDEX, TENSORS, 3, SEED);
        coffer *model = NULL;
        assert_int_equal(coffer_open(&model, work_path(INDEX), NULL, NULL), COFFER_OK);
        assert_non_null(coffer_find(model, "u5", 2));
        coffer_close(model);
        snapshot after = snapshot_take();
        assert_int_equal(after.count, 4);
        snapshot_free(&after);
        snapshot_restore(&halfway);
    }
    snapshot_free(&halfway);
}

/* Anybody could have put the header there that waits for a file. */
static void test_a_header_that_is_not_trusted(void **state)
{
    (void)state;
    static const char *const files[] = { INDEX ".coffer-ready", "model-00003-of-00003.safetensors.coffer-head" };
    if (!kill_until(files, 2)) {
        skip_where_files_are_cloned();
    }
    coffer_error err;
    assert_int_equal(chmod(work_path(files[1]), 0666), 0);
    assert_int_equal(coffer_recover(work_path("model.safetensors"), NULL, &err), COFFER_ERR_UNFINISHED);
    assert_string_equal(err.path, work_path(files[1]));
    assert_int_equal(chmod(work_path(files[1]), 0600), 0);
    recover_all(false);
    model_assert_whole(INDEX, TENSORS, 3, SEED);
}

/* Somebody edits a file after the decision, and before its header is written. */
static void test_a_file_that_is_no_longer_the_one(void **state)
{
    (void)state;
    static const char *const files[] = { INDEX ".coffer-ready", "model-00003-of-00003.safetensors.coffer-head" };
    const coffer_edit edit = { "key", 3, "value", 5 };
    if (!kill_until(files, 2)) {
        skip_where_files_are_cloned();
    }
    assert_int_equal(coffer_edit_metadata(work_path(shards[2]), &edit, 1, NULL, NULL, NULL), COFFER_OK);
    /* Nothing is lost: what waits for the file does not fit it, and its name is told. */
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_recover(work_path("model.safetensors"), NULL, &err), COFFER_ERR_NO_UNDO);
    assert_string_equal(err.path, work_path(shards[2]));
    assert_int_equal(coffer_open(&model, work_path(INDEX), NULL, NULL), COFFER_ERR_UNFINISHED);
    /* The user decides that the file counts. The index then disagrees with it, which opening says. */
    assert_int_equal(unlink(work_path("model-00003-of-00003.safetensors.coffer-undo")), 0);
    assert_int_equal(coffer_recover(work_path("model.safetensors"), NULL, NULL), COFFER_OK);
    assert_int_equal(coffer_open(&model, work_path(INDEX), NULL, NULL), COFFER_ERR_NOT_IN_SHARD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kills, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_kills_while_names_change, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_kills_while_names_change_in_several, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_kills_while_metadata_change_in_several, work_dir_set_up,
                                        work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_kills_while_a_set_gets_an_index, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_kills_and_files_that_are_recovered_first, work_dir_set_up,
                                        work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_kills_while_it_is_finished, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_a_header_that_is_not_trusted, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_no_longer_the_one, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
