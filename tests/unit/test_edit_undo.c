/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The undo file of an edit in place: what it forbids, whose it may be, and recovering with it, also when any byte of it is
 * damaged and when any system call fails.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "support_edit.h"
#include "support_memory.h"

#include <stdlib.h>

/* Edits "model" in such a way that the undo file stays: the file has its new header then. Returns the old file. */
static file_bytes leave_undo(void)
{
    file_bytes old = make_model(ONE_KEY, 200);
    faults_clear();
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    faults.always[FAULT_UNLINK] = EROFS;
    coffer_error err;
    assert_int_equal(edit_with("model", "k", "a longer value than before", NULL, NULL, &err), COFFER_ERR_UNDO);
    assert_int_equal(err.os_error, EROFS);
    faults_clear();
    assert_int_equal(access(work_path("model.coffer-undo"), F_OK), 0);
    assert_false(file_has("model", old));
    return old;
}

static void test_undo_forbids(void **state)
{
    (void)state;
    file_bytes old = leave_undo();
    assert_edit_fails("model", NULL, COFFER_ERR_UNDO, 0);
    coffer *model = NULL;
    coffer_error err;
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, &err), COFFER_ERR_UNDO);
    assert_non_null(strstr(err.message, "coffer meta --recover"));
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_OK);
    assert_file_has("model", old);
    assert_int_equal(work_dir_count(), 1);
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_ERR_NO_UNDO);
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, NULL), COFFER_OK);
    free(old.at);
}

/* ---- undo files of strangers ------------------------------------------------------------------------------------- */

static ino_t inode_of(const char *name)
{
    return look(name).st_ino;
}

/* Anybody may put a file beside another one, where anybody may make files. */
static void test_planted_undo(void **state)
{
    (void)state;
    file_bytes old = leave_undo();
    file_bytes now = { NULL, 0 };
    now.at = file_read("model", &now.size);
    coffer_error err;
    coffer *model = NULL;
    const mode_t modes[] = { 0646, 0664, 0666 };
    for (size_t i = 0; i < 4; i++) {
        faults.stranger = i == 3 ? inode_of("model.coffer-undo") : 0;
        assert_int_equal(chmod(work_path("model.coffer-undo"), i == 3 ? 0644 : modes[i]), 0);
        assert_int_equal(chmod(work_path("model"), 0644), 0);
        assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
        coffer_close(model);
        assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_ERR_NO_UNDO);
        assert_non_null(strstr(err.message, "anybody could have put it there"));
        assert_file_has("model", now);
    }
    faults_clear();
    /* One that lets nobody write who may not write the file counts. */
    assert_int_equal(chmod(work_path("model"), 0666), 0);
    assert_int_equal(chmod(work_path("model.coffer-undo"), 0666), 0);
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_ERR_UNDO);
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_OK);
    assert_file_has("model", old);
    free(now.at);
    free(old.at);
}

/* Others may write the file, and nobody its undo file. */
static void test_mode_of_undo(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 200);
    assert_int_equal(chmod(work_path("model"), 0666), 0);
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    faults.always[FAULT_UNLINK] = EROFS;
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, NULL), COFFER_ERR_UNDO);
    faults_clear();
    assert_int_equal(look("model.coffer-undo").st_mode & 0777, 0644);
    assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_OK);
    assert_file_has("model", file);
    free(file.at);
}

/* A pipe or a symbolic link under that name is no undo file either. */
static void test_undo_of_another_kind(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 200);
    coffer *model = NULL;
    assert_int_equal(mkfifo(work_path("model.coffer-undo"), 0600), 0);
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
    coffer_close(model);
    assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_ERR_NO_UNDO);
    assert_int_equal(unlink(work_path("model.coffer-undo")), 0);
    assert_int_equal(symlink("model", work_path("model.coffer-undo")), 0);
    assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
    coffer_close(model);
    free(file.at);
}

/* ---- recovering -------------------------------------------------------------------------------------------------- */

/* An interrupted write leaves some of the new bytes and some of the old, wherever it stopped. */
static void test_recover_mixture(void **state)
{
    (void)state;
    const size_t steps[] = { 1, 9, 20, 60, 100, 150 };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        file_bytes old = leave_undo();
        const int fd = open(work_path("model"), O_WRONLY | O_CLOEXEC);
        assert_int_equal(pwrite(fd, old.at, steps[i], 0), steps[i]);
        assert_int_equal(close(fd), 0);
        assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_OK);
        assert_file_has("model", old);
        assert_int_equal(work_dir_count(), 1);
        free(old.at);
    }
}

static void assert_not_recovered(file_bytes file)
{
    coffer_error err;
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_ERR_NO_UNDO);
    assert_int_equal(err.code, COFFER_ERR_NO_UNDO);
    assert_string_equal(err.path, work_path("model"));
    assert_file_has("model", file);
}

static void test_recover_nothing(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 100);
    assert_not_recovered(file);
    /* What a crash left before the undo file was complete is of no use to anybody. */
    file_write("model.coffer-undo.new", "COFRUNDO", 8);
    assert_not_recovered(file);
    assert_int_equal(work_dir_count(), 1);
    file_write("model.coffer-undo.new", "COFRUNDO", 8);
    faults.always[FAULT_CLONE] = EOPNOTSUPP;
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, NULL), COFFER_OK);
    assert_int_equal(work_dir_count(), 1);
    free(file.at);
}

static void test_recover_damaged(void **state)
{
    (void)state;
    file_bytes old = leave_undo();
    size_t size = 0;
    uint8_t *undo = file_read("model.coffer-undo", &size);
    file_bytes now = { NULL, 0 };
    now.at = file_read("model", &now.size);
    for (size_t i = 0; i < size; i++) {
        undo[i] ^= 0x20;
        file_write("model.coffer-undo", undo, size);
        assert_not_recovered(now);
        undo[i] ^= 0x20;
    }
    for (size_t shorter = 0; shorter < size; shorter++) {
        file_write("model.coffer-undo", undo, shorter);
        assert_not_recovered(now);
    }
    uint8_t *longer = calloc(1, size + 2);
    assert_non_null(longer);
    memcpy(longer, undo, size);
    file_write("model.coffer-undo", longer, size + 2);
    assert_not_recovered(now);
    assert_int_equal(unlink(work_path("model.coffer-undo")), 0);
    assert_int_equal(symlink("model", work_path("model.coffer-undo")), 0);
    coffer_error err;
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_ERR_IO);
    assert_int_equal(err.os_error, ELOOP);
    free(longer);
    free(now.at);
    free(undo);
    free(old.at);
}

static void test_recover_other_file(void **state)
{
    (void)state;
    file_bytes old = leave_undo();
    file_bytes now = { NULL, 0 };
    now.at = file_read("model", &now.size);
    /* Another size. */
    file_write("model", now.at, now.size - 1);
    assert_not_recovered((file_bytes){ now.at, now.size - 1 });
    /* One byte of the header that is neither old nor new: somebody else wrote here. */
    now.at[9] = 'x';
    file_write("model", now.at, now.size);
    assert_not_recovered(now);
    free(now.at);
    free(old.at);
}

/* A directory that was copied or moved with an interrupted edit in it has all that is needed. */
static void test_recover_copy(void **state)
{
    (void)state;
    file_bytes old = leave_undo();
    size_t size = 0;
    uint8_t *undo = file_read("model.coffer-undo", &size);
    file_write("copy.coffer-undo", undo, size);
    free(undo);
    uint8_t *now = file_read("model", &size);
    file_write("copy", now, size);
    free(now);
    assert_int_equal(coffer_recover(work_path("copy"), NULL, NULL), COFFER_OK);
    assert_file_has("copy", old);
    free(old.at);
}

static void test_recover_links(void **state)
{
    (void)state;
    file_bytes old = leave_undo();
    assert_int_equal(symlink("model", work_path("link")), 0);
    coffer_error err;
    assert_int_equal(coffer_recover(work_path("link"), NULL, &err), COFFER_ERR_LINKED);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.follow_links = true;
    assert_int_equal(coffer_recover(work_path("link"), &options, &err), COFFER_OK);
    assert_file_has("model", old);
    free(old.at);
}

static void test_every_call_of_recovery_fails(void **state)
{
    (void)state;
    unsigned k = 0;
    bool came_to_it = true;
    while (came_to_it) {
        k++;
        file_bytes old = leave_undo();
        faults.fail_at = k;
        faults.error = EIO;
        faults.spare_clean_up = true;
        coffer_error err;
        const size_t before = open_descriptors();
        const coffer_status status = coffer_recover(work_path("model"), NULL, &err);
        came_to_it = faults.calls >= k;
        faults_clear();
        assert_int_equal(open_descriptors(), before);
        if (access(work_path("model.coffer-undo"), F_OK) == 0) {
            assert_int_not_equal(status, COFFER_OK);
            assert_int_equal(coffer_recover(work_path("model"), NULL, NULL), COFFER_OK);
        }
        assert_file_has("model", old);
        assert_int_equal(work_dir_count(), 1);
        free(old.at);
    }
    assert_true(k > 10);
}

static void test_no_memory_for_recovery(void **state)
{
    (void)state;
    file_bytes old = leave_undo();
    memory_meter meter;
    const coffer_allocator metered = metered_allocator(&meter);
    meter.fail_at = 1;
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.allocator = &metered;
    assert_int_equal(coffer_recover(work_path("model"), &options, NULL), COFFER_ERR_MEMORY);
    assert_int_equal(coffer_recover(work_path("model"), &options, NULL), COFFER_OK);
    assert_int_equal(meter.held, 0);
    assert_file_has("model", old);
    free(old.at);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, faults_set_up, faults_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_undo_forbids),
        TEST(test_planted_undo),
        TEST(test_mode_of_undo),
        TEST(test_undo_of_another_kind),
        TEST(test_recover_mixture),
        TEST(test_recover_nothing),
        TEST(test_recover_damaged),
        TEST(test_recover_other_file),
        TEST(test_recover_copy),
        TEST(test_recover_links),
        TEST(test_every_call_of_recovery_fails),
        TEST(test_no_memory_for_recovery),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
