/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that an edit leaves alone: what is no model, what may not be written, what other names lead to, and what somebody
 * else has locked.
 */
#define _GNU_SOURCE

#include "support_cmocka.h"

#include "faulty_calls.h"

#include "coffer.h"
#include "support_child.h"
#include "support_edit.h"

#include <stdlib.h>

static void test_not_a_model(void **state)
{
    (void)state;
    assert_edit_fails("nothing", NULL, COFFER_ERR_NOT_FOUND, ENOENT);
    assert_edit_fails(".", NULL, COFFER_ERR_DIRECTORY, 0);
    assert_int_equal(mkfifo(work_path("pipe"), 0600), 0);
    assert_edit_fails("pipe", NULL, COFFER_ERR_NOT_REGULAR, 0);
    file_write("empty", "", 0);
    assert_edit_fails("empty", NULL, COFFER_ERR_EMPTY, 0);
    file_write("short", "1234567", 7);
    assert_edit_fails("short", NULL, COFFER_ERR_TOO_SHORT, 0);
    static const char page[] = "<!DOCTYPE html><html><body>404</body></html>";
    file_write("page", page, sizeof page);
    assert_edit_fails("page", NULL, COFFER_ERR_IS_HTML, 0);
    file_bytes file = make_model(ONE_KEY, 0);
    file_write("cut", file.at, file.size - 1);
    assert_edit_fails("cut", NULL, COFFER_ERR_DATA_TRUNCATED, 0);
    assert_int_equal(work_dir_count(), 6);
    free(file.at);
}

static int run_on_read_only_file(void *ctx)
{
    (void)ctx;
    coffer_error err;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
        return 2;
    }
    const coffer_status status = edit_with("model", "k", "w", NULL, NULL, &err);
    return status == COFFER_ERR_IO && err.os_error == EACCES ? 0 : 3;
}

static int run_on_allowed_read_only_file(void *ctx)
{
    const coffer_edit_mode *mode = ctx;
    coffer_error err;
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    options.read_only = true;
    options.mode = *mode;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
        return 2;
    }
    const coffer_status status = edit_with("model", "k", "w", &options, &way, &err);
    if (*mode == COFFER_EDIT_IN_PLACE) {
        return status == COFFER_ERR_IO && err.os_error == EACCES ? 0 : 3;
    }
    return status == COFFER_OK && way == COFFER_EDITED_REWRITE ? 0 : 4;
}

/* A file that must not be written is edited by a new one in its place, when that is allowed: never in place. */
static void test_read_only_file_that_may_be_edited(void **state)
{
    (void)state;
    for (int mode = COFFER_EDIT_AUTO; mode <= COFFER_EDIT_REWRITE; mode++) {
        coffer_edit_mode asked = (coffer_edit_mode)mode;
        file_bytes file = make_model(ONE_KEY, 100);
        assert_int_equal(chown(work_path("model"), 65534, 65534) == 0 || geteuid() != 0, 1);
        assert_int_equal(chmod(work_path("model"), 0444), 0);
        assert_int_equal(chmod(work_path("."), 0777), 0);
        assert_int_equal(child_run(run_on_allowed_read_only_file, &asked), 0);
        assert_int_equal(look("model").st_mode & 07777, 0444);
        assert_int_equal(work_dir_count(), 1);
        coffer *model = NULL;
        size_t len = 0;
        assert_int_equal(coffer_open(&model, work_path("model"), NULL, NULL), COFFER_OK);
        const char *value = coffer_table_metadata_get(coffer_shard_table(model, 0), "k", 1, &len);
        assert_int_equal(value[0], asked == COFFER_EDIT_IN_PLACE ? 'v' : 'w');
        coffer_close(model);
        assert_int_equal(unlink(work_path("model")), 0);
        free(file.at);
    }
}

static void test_read_only_file(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 100);
    assert_int_equal(chmod(work_path("model"), 0444), 0);
    assert_int_equal(chmod(work_path("."), 0777), 0);
    assert_int_equal(child_run(run_on_read_only_file, NULL), 0);
    assert_file_has("model", file);
    assert_int_equal(work_dir_count(), 1);
    free(file.at);
}

static void test_symbolic_link(void **state)
{
    (void)state;
    file_bytes old = make_model(ONE_KEY, 100);
    file_bytes fresh = edited("{\"__metadata__\":{\"k\":\"w\"},", old);
    assert_int_equal(symlink("model", work_path("link")), 0);
    assert_edit_fails("link", NULL, COFFER_ERR_LINKED, 0);
    assert_file_has("model", old);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.follow_links = true;
    assert_int_equal(edit_with("link", "k", "w", &options, NULL, NULL), COFFER_OK);
    assert_file_has("model", fresh);
    options.mode = COFFER_EDIT_REWRITE;
    assert_int_equal(edit_with("link", "k", "v", &options, NULL, NULL), COFFER_OK);
    assert_true(S_ISLNK(look("link").st_mode));
    assert_true(look("model").st_size > 4096);
    assert_int_equal(symlink("nowhere", work_path("dangling")), 0);
    assert_edit_fails("dangling", &options, COFFER_ERR_NOT_FOUND, ENOENT);
    assert_int_equal(work_dir_count(), 3);
    free(old.at);
    free(fresh.at);
}

static void test_hard_link(void **state)
{
    (void)state;
    file_bytes old = make_model(ONE_KEY, 100);
    file_bytes fresh = edited("{\"__metadata__\":{\"k\":\"w\"},", old);
    assert_int_equal(link(work_path("model"), work_path("other")), 0);
    assert_edit_fails("model", NULL, COFFER_ERR_LINKED, 0);
    assert_file_has("model", old);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.follow_links = true;
    coffer_edit_way way = COFFER_EDITED_NOTHING;
    assert_int_equal(edit_with("model", "k", "w", &options, &way, NULL), COFFER_OK);
    assert_int_equal(way, COFFER_EDITED_IN_PLACE);
    assert_file_has("model", fresh);
    assert_file_has("other", fresh);
    /* A rewrite makes a file of its own; the other name keeps the old one. */
    options.mode = COFFER_EDIT_REWRITE;
    assert_int_equal(edit_with("model", "k", "v", &options, &way, NULL), COFFER_OK);
    assert_file_has("other", fresh);
    assert_int_equal(look("other").st_nlink, 1);
    free(old.at);
    free(fresh.at);
}

static void test_locked(void **state)
{
    (void)state;
    file_bytes file = make_model(ONE_KEY, 100);
    const int fd = open(work_path("model"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_edit_fails("model", NULL, COFFER_ERR_LOCKED, 0);
    coffer_error err;
    assert_int_equal(coffer_recover(work_path("model"), NULL, &err), COFFER_ERR_LOCKED);
    assert_int_equal(close(fd), 0);
    assert_file_has("model", file);
    faults.always[FAULT_LOCK] = ENOLCK;
    assert_edit_fails("model", NULL, COFFER_ERR_IO, ENOLCK);
    faults_clear();
    assert_int_equal(edit_with("model", "k", "w", NULL, NULL, NULL), COFFER_OK);
    free(file.at);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, faults_set_up, faults_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_not_a_model),   TEST(test_read_only_file), TEST(test_read_only_file_that_may_be_edited),
        TEST(test_symbolic_link), TEST(test_hard_link),      TEST(test_locked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
