/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of several files is rewritten in its place, and names in one file are changed in its header, by a process that is killed
 * before each of its system calls: the old model or the new one is there, or what recovering makes one of the two.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "support_child.h"
#include "support_file.h"
#include "support_model.h"

#include <stdlib.h>

#define INDEX "model.safetensors.index.json"
#define SEED 7
#define TENSORS 6 /* of 40 to 45 bytes: three files of two each */

static const coffer_rewrite_rule rules[] = {
    { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "t*", "u*" },
    { .kind = COFFER_REWRITE_DROP, .pattern = "t0" },
};

static int run_rules(const char *name, size_t count)
{
    coffer *model = NULL;
    coffer_rewrite *rewrite = NULL;
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.rules = rules;
    options.rule_count = count;
    coffer_status status = coffer_open(&model, work_path(name), NULL, NULL);
    if (status == COFFER_OK) {
        status = coffer_rewrite_plan(&rewrite, model, &options, NULL);
    }
    if (status == COFFER_OK) {
        status = coffer_rewrite_run(rewrite, NULL, NULL);
    }
    coffer_rewrite_free(rewrite);
    coffer_close(model);
    return (int)status;
}

static int run_several(void *ctx)
{
    (void)ctx;
    return run_rules(INDEX, sizeof rules / sizeof rules[0]);
}

static int run_names(void *ctx)
{
    (void)ctx;
    return run_rules("one", 1);
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
        (void)child_run_killed(run_several, NULL, k, &killed);
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

/* The first rule alone: it changes nothing but the header, which has the room for it. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kills, work_dir_set_up, work_dir_tear_down),
        cmocka_unit_test_setup_teardown(test_kills_while_names_change, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
