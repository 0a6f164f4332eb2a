/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of several files is rewritten in its place by a process that is killed before each of its system calls: the old model or
 * the new one is there, or what recovering makes one of the two.
 */
#include "support_cmocka.h"

#include "coffer.h"
#include "support_child.h"
#include "support_file.h"
#include "support_model.h"

#define INDEX "model.safetensors.index.json"
#define SEED 7
#define TENSORS 6 /* of 40 to 45 bytes: three files of two each */

static const coffer_rewrite_rule rules[] = {
    { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "t*", "u*" },
    { .kind = COFFER_REWRITE_DROP, .pattern = "t0" },
};

static int run_several(void *ctx)
{
    (void)ctx;
    coffer *model = NULL;
    coffer_rewrite *rewrite = NULL;
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.rules = rules;
    options.rule_count = sizeof rules / sizeof rules[0];
    coffer_status status = coffer_open(&model, work_path(INDEX), NULL, NULL);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kills, work_dir_set_up, work_dir_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
